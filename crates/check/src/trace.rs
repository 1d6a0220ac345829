//! What happened in a run, for people: a line for each operation and each fault, by time.

use std::fmt::Write;

use glidepath_env::rows::object_in;
use glidepath_env::{Key, Payload};
use glidepath_history::{Ending, History, Operation, Reported, What};
use glidepath_model::{Instant, Version};
use glidepath_sim::{Mishap, Simulation};

use crate::subject::STORE;

/// What the processes of a history did.
pub(crate) fn lines(history: &History) -> Vec<(Instant, String)> {
    let mut lines: Vec<(Instant, String)> = Vec::new();
    for operation in history.operations() {
        let loaded =
            matches!(operation.what, What::Load { .. } | What::Sight { .. }).then_some(operation.ended).flatten();
        lines.push((loaded.unwrap_or(operation.began), begun(&operation)));
        if let (Some(at), What::Commit { commit, ending, .. }) = (operation.ended, operation.what) {
            lines.push((at, format!("{} gets the answer to {commit}: {}", operation.process, heard(ending))));
        }
    }
    lines
}

/// The faults of a run, and every write that took effect, if requested.
pub(crate) fn events(simulation: &Simulation, keep: bool) -> Vec<Mishap> {
    if !keep {
        return Vec::new();
    }
    let mut events = simulation.mishaps();
    let event = |at: Instant, process: u32, key: &Key, object: &Option<Payload>| {
        let words = match object {
            Some(object) => format!("{key} has {} bytes now", object.size().as_bytes()),
            None => format!("{key} is deleted"),
        };
        Mishap { at, process, words }
    };
    let writes = simulation.journal(STORE).into_iter();
    events.extend(writes.map(|write| event(write.at, write.by, &write.key, &write.object)));
    for write in simulation.cells_written(STORE) {
        let object = object_in(&write.cell, &write.value);
        events.extend(object.ok().map(|(key, object)| event(write.at, write.by, &key, &object)));
    }
    events.retain(|event| event.process > 0);
    events
}

/// All lines, by time.
pub(crate) fn written(mut lines: Vec<(Instant, String)>, mishaps: &[Mishap]) -> String {
    for Mishap { at, process, words } in mishaps {
        // Processes of a simulation are counted from 1, those of a history from 0.
        lines.push((*at, format!("process {}:     {words}", process - 1)));
    }
    lines.sort_by_key(|(at, _)| *at);
    let mut text = String::new();
    for (at, line) in lines {
        let _ = writeln!(text, "{:>14.6} s  {line}", at.since(Instant::ZERO).as_secs_f64());
    }
    text
}

fn begun(operation: &Operation<'_>) -> String {
    let process = operation.process;
    match operation.what {
        What::Sight { seen } => {
            let items: Vec<String> = seen.iter().map(|seen| seen.item.to_string()).collect();
            format!("{process} has loaded {}", items.join(" and "))
        }
        What::Load { version: None, .. } => format!("{process} begins a load that does not succeed"),
        What::Load { version: Some(Version(version)), .. } => format!("{process} has loaded version {version}"),
        What::Commit { commit, edits, .. } => {
            let items: Vec<String> = edits.iter().map(|edit| edit.item.to_string()).collect();
            let end = if operation.ended.is_none() { ", without an answer" } else { "" };
            format!("{process} tries {commit} of {}{end}", items.join(" and "))
        }
    }
}

fn heard(ending: Ending) -> String {
    match ending {
        Ending::Committed(Reported::At(version)) => format!("committed as {version}"),
        Ending::Committed(Reported::By(version)) => format!("committed, in {version} or before"),
        Ending::Committed(Reported::Nothing) => "committed".to_owned(),
        Ending::Conflict => "conflict".to_owned(),
        Ending::Refused => "refused".to_owned(),
        Ending::Unknown => "outcome unknown".to_owned(),
        Ending::Open => "nothing".to_owned(),
    }
}
