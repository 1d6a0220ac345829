//! `glidepath bench-server`: how many requests per second does a catalog server answer?

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use glidepath_bench::served::predicted::World;
use glidepath_bench::served::{
    Cell, Checked, Figures, Line, Measured, Measuring, Responder, ServedError, Target, Workload, after_conflicts,
    answers, check_url, page, processor_of, tries,
};
use glidepath_model::Span;
use prediction::PredictionArguments;

use crate::choice::one_of;
use crate::failure::Failure;
use crate::folder::{self, RESULTS, unwritable, write};
use crate::interrupt::on_interrupt_that_leaves;
use crate::origin::{machine, program, today};
use crate::output::{complain, counted, deviation_percent, print, print_json, table, three_digits};
use crate::predicted::basis;
use crate::progress::Display;
use crate::whole;

mod prediction;

/// The URL of the server that does nothing.
const RESPONDER: &str = "responder:";

/// The URL of a server that is simulated only.
const SIMULATED: &str = "simulated:";

/// The most connections of a cell, with those that overwrite.
const MOST_CONNECTIONS: u32 = 10_000;

/// Send requests to a catalog server, and measure how many it answers
///
/// Works with any server of Iceberg REST. Each connection sends its next request when the last one is answered.
/// Workloads: own (commits, each connection to a table of its own), hot (appends to one table, with manifests and
/// manifest lists), load (of one table), load-304 (the same with If-None-Match), fair (appends beside overwrites). Each
/// cell has a namespace of its own, bench_..., which is removed at the end. After own, hot and fair it is checked that
/// what was acknowledged is there, once; if not, the exit code is 1.
///
/// The server "responder:" is one that does nothing, within this process: own and load against it show what the clients
/// cost. With --profile, each cell is also simulated, with a server of ours on a store of that profile; the server
/// "simulated:" is only that. With GLIDEPATH_TOKEN in the environment, clients send it as their bearer token. Results
/// go into a folder: report.html, report.md, results.json.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The server, as clients get it: http://127.0.0.1:8181; Nessie: http://127.0.0.1:19120/iceberg; or responder:, or simulated:
    #[arg(value_name = "URL")]
    url: String,
    /// The workloads
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "own,hot,load,load-304", value_parser = one_of(&Workload::ALL, Workload::name))]
    workload: Vec<Workload>,
    /// The numbers of connections; in fair, of those that append
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16,64", value_parser = whole::from_one::<u32>)]
    connections: Vec<u32>,
    /// In fair, the number of connections that overwrite
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = whole::from_one::<u32>)]
    overwrites: u32,
    /// The length of each cell
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: Span,
    /// How long the first cell runs before its results count: the first requests to a server are slow
    #[arg(long, value_name = "TIME", default_value = "2s")]
    warm_up: Span,
    /// The warehouse to ask the server for, if it has several
    #[arg(long, value_name = "NAME")]
    warehouse: Option<String>,
    /// The store that has the tables' files, if it is not this machine's disk: for hot and fair
    #[arg(long, value_name = "URL")]
    files: Option<String>,
    /// The processes of the server on this machine, to measure their processor time (Linux)
    #[arg(long, value_name = "PIDS", value_delimiter = ',', value_parser = whole::from_one::<u32>)]
    processes: Vec<u32>,
    /// Threads of the clients
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = whole::from_one::<u32>)]
    threads: u32,
    /// Leave the namespaces and tables on the server
    #[arg(long)]
    keep: bool,
    /// The folder for results; those of an earlier run on the same server are replaced
    #[arg(long, value_name = "FOLDER", default_value = "results/bench-server")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    prediction: PredictionArguments,
}

fn failure(error: ServedError) -> Failure {
    match error {
        ServedError::Url { .. } => Failure::Mistake(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

/// Runs the cells.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cells = arguments.cells()?;
    if !arguments.processes.is_empty() && processor_of(&arguments.processes).is_none() {
        let words =
            format!("--processes {:?}: one of them is not there, or this system has no /proc", arguments.processes);
        return Err(Failure::Mistake(words));
    }
    let world = arguments.prediction.world(arguments.threads as usize)?;
    let simulated = if arguments.url == SIMULATED { Some(arguments.simulated(world.as_ref())?) } else { None };
    if ![SIMULATED, RESPONDER].contains(&&*arguments.url) {
        check_url(&arguments.url).map_err(failure)?;
    }
    // After the other arguments: a mistake in them is told first.
    folder::check(&arguments.out, &folder::label_of_store("bench-server", &arguments.url))?;
    if let Some(world) = simulated {
        return arguments.simulate(&cells, world);
    }
    let mut measuring = Measuring::begin(arguments.target()?).map_err(failure)?;
    let made = folder::create(&arguments.out).map_err(|error| unwritable(&arguments.out, &error))?;
    let leaves = !arguments.keep && arguments.url != RESPONDER;
    let stop = on_interrupt_that_leaves(leaves.then_some("the namespaces bench_... on the server"))?;
    let mut lines = Vec::new();
    let ended = arguments.measure(&mut measuring, &cells, (world.as_ref(), stop), &mut lines);
    if leaves {
        // The measurement is what it is; the namespaces have a name by which they are found.
        match measuring.remove() {
            Ok(()) if lines.is_empty() => {}
            Ok(()) => complain(
                "The server removes the files that the tables refer to, in the background: leave it running for a minute or two. Metadata \
                 files that have left the log of their table stay, and so do manifest lists in place of which appends got another.",
            ),
            Err(error) => {
                complain(&format!("not everything was removed from the server; its namespaces are bench_...: {error}"));
            }
        }
    }
    if lines.is_empty() {
        folder::remove_empty(&made);
        return ended.and(Err(Failure::Interrupted("stopped; nothing is measured".to_owned())));
    }
    // Finished cells are kept, also after an error.
    arguments.write(&lines, cells.len(), world.as_ref())?;
    ended?;
    match lines.iter().filter_map(|line| line.checked.as_ref()).filter(|checked| checked.is_wrong()).count() {
        0 => Ok(()),
        wrong => Err(Failure::Failed(format!("in {wrong} cells, acknowledged changes are lost or there twice"))),
    }
}

impl Arguments {
    fn cells(&self) -> Result<Vec<Cell>, Failure> {
        if self.duration == Span::ZERO {
            return Err(Failure::Mistake("--duration 0: give a time above zero, such as 10s".to_owned()));
        }
        if let Some(count) =
            self.connections.iter().find(|count| **count > MOST_CONNECTIONS - self.overwrites.min(MOST_CONNECTIONS))
        {
            let words = format!("--connections {count}: give at most {MOST_CONNECTIONS}, with those that overwrite");
            return Err(Failure::Mistake(words));
        }
        if self.url == RESPONDER
            && let Some(workload) = self.workload.iter().find(|workload| workload.appends())
        {
            let words =
                format!("--workload {}: {RESPONDER} has no tables; allowed: own, load, load-304", workload.name());
            return Err(Failure::Mistake(words));
        }
        let mut cells = Vec::new();
        for workload in &self.workload {
            for connections in &self.connections {
                let overwrites = if *workload == Workload::Fair { self.overwrites } else { 0 };
                cells.push(Cell {
                    workload: *workload,
                    connections: *connections,
                    overwrites,
                    duration: self.duration,
                });
            }
        }
        Ok(cells)
    }

    fn target(&self) -> Result<Target, Failure> {
        let is_responder = self.url == RESPONDER;
        let url = match is_responder {
            true => Responder::start().map_err(|error| Failure::Failed(format!("cannot start: {error}")))?.url(),
            false => self.url.clone(),
        };
        Ok(Target {
            url,
            token: std::env::var("GLIDEPATH_TOKEN").ok().filter(|token| !token.is_empty()),
            warehouse: self.warehouse.clone(),
            files: self.files.clone(),
            processes: self.processes.clone(),
            threads: self.threads as usize,
            is_responder,
        })
    }

    /// What a server without a URL is simulated on.
    fn simulated<'a>(&self, world: Option<&'a World>) -> Result<&'a World, Failure> {
        let words = || format!("{} needs --profile: the store of the simulated server", self.url);
        world.ok_or_else(|| Failure::Mistake(words()))
    }

    /// Simulates the cells, without a server.
    fn simulate(&self, cells: &[Cell], world: &World) -> Result<(), Failure> {
        let made = folder::create(&self.out).map_err(|error| unwritable(&self.out, &error))?;
        let mut lines = Vec::new();
        for cell in cells {
            match prediction::outcome(cell, world) {
                Ok(outcome) => lines.push(Line::new(*cell, &outcome)),
                Err(error) => {
                    folder::remove_empty(&made);
                    return Err(error);
                }
            }
        }
        self.write(&lines, cells.len(), Some(world))
    }

    fn measure(
        &self,
        measuring: &mut Measuring,
        cells: &[Cell],
        (world, stop): (Option<&World>, &'static AtomicBool),
        lines: &mut Vec<Line>,
    ) -> Result<(), Failure> {
        let display = Display::new();
        if let Some(first) = cells.first()
            && self.warm_up > Span::ZERO
        {
            display.steps(0, cells.len(), "cells", "warming up");
            measuring.run(&Cell { duration: self.warm_up, ..*first }, stop).map_err(failure)?;
        }
        for (done, cell) in cells.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let words = format!("{}, {}", cell.workload.name(), counted(cell.connections.into(), "connection"));
            display.steps(done, cells.len(), "cells", &words);
            let outcome = measuring.run(cell, stop).map_err(failure)?;
            let line = Line::new(*cell, &outcome);
            lines.push(match world {
                Some(world) => line.beside(&prediction::outcome(cell, world)?),
                None => line,
            });
        }
        match stop.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted(format!("stopped; {} of {} cells are done", lines.len(), cells.len()))),
            false => Ok(()),
        }
    }

    fn write(&self, lines: &[Line], planned: usize, world: Option<&World>) -> Result<(), Failure> {
        let (date, machine, program) = (today(), machine(), program());
        let simulated = world.filter(|_| self.url == SIMULATED).map(|world| &*world.profile.title);
        let server = &*self.url;
        let how = Measured { server, simulated, date: &date, machine: &machine, program: &program, planned };
        let page = page(&how, lines)?;
        let place = folder::place(&self.out, lines.len() == planned, RESULTS);
        folder::claim(&place, &folder::label_of_store("bench-server", &self.url))?;
        let path = |name: &str| place.join(name);
        write(&path(RESULTS), &serde_json::to_string_pretty(lines)?)?;
        write(&path("report.md"), &page.markdown())?;
        write(&path("report.html"), &page.html())?;
        if self.json {
            return print_json(&lines);
        }
        print(&as_table(lines))?;
        let error = |line: &Line| line.figures.error_of(&line.predicted.as_ref()?.figures);
        let errors: Vec<f64> = lines.iter().filter_map(error).collect();
        if let Some(words) = world.and_then(|world| basis(&world.profile, None, &errors)) {
            print(&words)?;
        }
        let kept = folder::kept(&self.out, &place);
        print(&format!("\nIn {}: report.html, report.md, {RESULTS}{kept}", place.display()))
    }
}

/// The columns of the table; the last two are of predictions.
const COLUMNS: [&str; 14] = [
    "workload",
    "clients",
    "rate/s",
    "p50 ms",
    "p99 ms",
    "conflicts",
    "given up",
    "put off",
    "unknown",
    "client us",
    "server us",
    "checked",
    "predicted/s",
    "error",
];

fn as_table(lines: &[Line]) -> String {
    let is_predicted = lines.iter().any(|line| line.predicted.is_some());
    let columns = COLUMNS.len() - if is_predicted { 0 } else { 2 };
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let mut rows = Vec::new();
    for line in lines {
        let checked = line.checked.as_ref().map_or("-".to_owned(), Checked::words);
        let mut row = |what: String, clients: u32, figures: &Figures, predicted: Option<&Figures>, checked: String| {
            rows.push(vec![
                what,
                clients.to_string(),
                format!("{:.1}", figures.per_s),
                or_none(figures.p50_ms),
                or_none(figures.p99_ms),
                figures.conflicts.to_string(),
                figures.given_up.to_string(),
                figures.busy.to_string(),
                figures.unknown.to_string(),
                or_none(line.client_processor_us),
                or_none(line.server_processor_us),
                checked,
                predicted.map_or_else(|| "-".to_owned(), |predicted| format!("{:.1}", predicted.per_s)),
                predicted
                    .and_then(|predicted| figures.error_of(predicted))
                    .map_or_else(|| "-".to_owned(), deviation_percent),
            ]);
        };
        let name = line.cell.workload.name();
        let predicted = line.predicted.as_ref();
        let appends = predicted.map(|predicted| &predicted.figures);
        row(name.to_owned(), line.cell.connections, &line.figures, appends, checked);
        if let Some(overwrites) = &line.overwrites {
            let predicted = predicted.and_then(|predicted| predicted.overwrites.as_ref());
            row(format!("{name}: overwrites"), line.cell.overwrites, overwrites, predicted, "-".to_owned());
        }
    }
    rows.iter_mut().for_each(|row| row.truncate(columns));
    let mut text = table(&COLUMNS.map(str::to_owned)[..columns], 1, rows);
    text.push_str("\nProcessor time (us) is for one operation.");
    for line in lines.iter().filter(|line| line.busiest_client > 0.9) {
        let Cell { workload, connections, .. } = line.cell;
        let words = "a thread of the clients was busy all the time: they may be the limit";
        text.push_str(&format!(
            "\n{}, {}: {words} (--threads)",
            workload.name(),
            counted(connections.into(), "connection")
        ));
    }
    text + &answers_as_text(lines)
}

/// The answers that are printed.
const MOST_ANSWERS: usize = 4;

/// What the server answered other than success, if it did.
fn answers_as_text(lines: &[Line]) -> String {
    let all = answers(lines);
    let mut text = String::new();
    if !all.is_empty() {
        text.push_str("\nAnswers other than success, by their text (# is a number or a name):");
    }
    for (words, count) in all.iter().take(MOST_ANSWERS) {
        text.push_str(&format!("\n  {words}: {}", tries(*count)));
    }
    if all.len() > MOST_ANSWERS {
        text.push_str(&format!("\n  {} more in {RESULTS}", all.len() - MOST_ANSWERS));
    }
    if let Some(words) = after_conflicts(lines) {
        text.push_str(&format!("\n{words}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use glidepath_bench::served::{Outcome, Samples};

    use super::*;

    #[test]
    fn answers_that_differ_in_numbers_are_one_line() {
        let cell = Cell { workload: Workload::Hot, connections: 4, overwrites: 0, duration: Span::from_secs(1) };
        let mut operations = Samples { conflicts: 3, given_up: 1, ..Samples::default() };
        for (id, other) in [(8_589_934_592_u64, 4_294_967_296_u64), (1, 2), (3, 4)] {
            operations.note(&format!("409: expected id {id} != {other}"), 1);
        }
        let line = Line::new(cell, &Outcome { operations, ..Outcome::default() });
        let lines = [line];
        let text = answers_as_text(&lines);
        assert!(text.contains("\n  409: expected id # != #: 3 tries\nConflicts: 3, after 1 of which"), "{text}");
        // Nothing measures the processor time of simulated clients.
        assert!(!as_table(&lines).contains("0.000"));
        let without = Line::new(cell, &Outcome::default());
        assert_eq!(answers_as_text(&[without]), "");
    }
}
