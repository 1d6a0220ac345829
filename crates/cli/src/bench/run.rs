//! Cell after cell: fill a catalog, copy it, let clients work on the copy, remove it.

use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_bench::{Cell, Design, Line, LiveError, Machine, Outcome, Scratch, fill, predict, work};
use glidepath_model::Span;
use glidepath_sim::Profile;
use glidepath_stores::Store;

use super::worker::in_processes;
use crate::failure::Failure;
use crate::steps::Steps;

/// Runs cells until all are done, one cannot be run, or somebody says to stop. Whatever happens, what was done is returned, and
/// what was written to the store is removed.
pub(super) fn sweep(
    url: &str,
    store: &Store,
    cells: &[Cell],
    profile: Option<&Profile>,
    stop: &AtomicBool,
) -> (Vec<Line>, Result<(), Failure>) {
    let scratch = Scratch::new(store.clone());
    let mut bench = Bench { url, store, scratch, filled: None, machine: None, stop };
    let (mut lines, mut steps) = (Vec::new(), Steps::new("cells"));
    let mut ended = Ok(());
    for (done, cell) in cells.iter().enumerate() {
        let words = format!("{}, {} entries, {} clients", cell.kind(), cell.rows, cell.writers);
        steps.show(done, cells.len(), &words);
        let result = bench.cell(cell, profile, &mut |filled| {
            steps.show(done, cells.len(), &format!("filling: {filled} of {} entries", cell.rows));
        });
        if stop.load(Ordering::Relaxed) {
            ended = Err(Failure::Interrupted(format!("stopped; {} of {} cells are done", lines.len(), cells.len())));
            break;
        }
        match result {
            Ok(line) => lines.push(line),
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
    }
    drop(steps);
    let removed = bench.scratch.remove(None).map_err(failed);
    (lines, ended.and(removed))
}

fn failed(error: LiveError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Long enough for a median.
const BRIEF: Span = Span::from_secs(2);

const ORIGIN: &str = "origin";
const COPY: &str = "cell";

struct Bench<'a> {
    url: &'a str,
    store: &'a Store,
    scratch: Scratch,
    /// What the origin was filled with.
    filled: Option<(Design, u64)>,
    /// Once it is known.
    machine: Option<Machine>,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    fn cell(
        &mut self,
        cell: &Cell,
        profile: Option<&Profile>,
        progress: &mut impl FnMut(u64),
    ) -> Result<Line, Failure> {
        let place = |folder: &str| format!("{}{folder}/", self.scratch.prefix());
        if self.filled != Some((cell.design, cell.rows)) {
            self.filled = None;
            self.scratch.remove(Some(ORIGIN)).map_err(failed)?;
            fill(self.store, &place(ORIGIN), cell.design, cell.rows, progress).map_err(failed)?;
            self.filled = Some((cell.design, cell.rows));
        }
        // Who only reads may do so in the original.
        let folder = if cell.operation.reads() { ORIGIN } else { COPY };
        if folder == COPY {
            self.scratch.copy(ORIGIN, COPY).map_err(failed)?;
        }
        let outcome = match cell.processes {
            true => in_processes(self.url, &place(folder), cell),
            false => work(self.store, &place(folder), cell, 0, self.stop).map_err(failed),
        };
        if folder == COPY {
            self.scratch.remove(Some(COPY)).map_err(failed)?;
        }
        let outcome = outcome?;
        let predicted = profile.map(|profile| self.predicted(profile, cell)).transpose()?;
        Ok(Line::new(*cell, &outcome, predicted.as_ref()))
    }

    fn predicted(&mut self, profile: &Profile, cell: &Cell) -> Result<Outcome, Failure> {
        let machine = match self.machine {
            Some(machine) => machine,
            None => {
                let place = format!("{}machine/", self.scratch.prefix());
                *self.machine.insert(Machine::here(self.store, &place).map_err(failed)?)
            }
        };
        // As long as an operation takes where nobody waits for a processor, so that as many of them meet as will.
        let undisturbed = predict(profile, &Machine::boundless(), &Cell { duration: BRIEF, ..*cell }, 1);
        let p50_ns = (undisturbed.figures().p50_ms * 1e6) as u64;
        let machine = machine.working(cell, Span::from_nanos(p50_ns)).map_err(failed)?;
        Ok(predict(profile, &machine, cell, 1))
    }
}
