//! `glidepath bench`: how many commits and reads per second does a catalog really take on this store, and what was
//! predicted?

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use glidepath_bench::{
    Cell, Ended, Figures, Line, Measured, Operation, Progress, Protocol, Running, Start, Sweep, Swept, apart, page,
    trials,
};
use glidepath_model::Span;
use glidepath_page::digits;
use glidepath_protocols::manifest_chain::Layout;
use glidepath_sim::Profile;
use glidepath_stores::{Options, is_there, open, with_small_scheme};

use crate::choice::{self, one_of};
use crate::cost::agree;
use crate::failure::{Failure, not_opened};
use crate::folder::{self, RESULTS, unwritable, write};
use crate::interrupt::on_interrupt_that_leaves;
use crate::leftovers::Leftovers;
use crate::origin::{bare, machine, program, today};
use crate::output::{complain, counted, counted_entries, deviation_percent, print, print_json, table};
use crate::predicted::{basis, of_another_store, read_profile};
use crate::progress::Display;
use crate::whole::{between, without_leading_zeros};
use worker::in_processes;

mod worker;

pub(crate) use worker::{WorkerArguments, run_worker};

/// Commit to catalogs on a real store, and compare the rates with the prediction
///
/// Runs a sweep over the given lists of values. In each cell, clients create entries (or read) in a closed loop, in a
/// copy of a catalog with the given number of entries. All objects are under one prefix of the store, and are removed
/// at the end. Results go into a folder: report.html, report.md, results.json.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The store, by its URL: file:///directory, s3://bucket/prefix, az://..., gs://..., memory:
    #[arg(value_name = "STORE")]
    store: String,
    /// The protocols (docs/protocols)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "manifest-chain", value_parser = choice::protocol())]
    protocol: Vec<Protocol>,
    /// The layouts of a manifest chain
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "paged", value_parser = choice::layout())]
    layout: Vec<Layout>,
    /// Whether a manifest chain has indices by type and by base object: on, off, or on,off
    #[arg(long, value_name = "on,off", value_delimiter = ',', default_value = "on", value_parser = switch())]
    index: Vec<bool>,
    /// The operations
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "commit", value_parser = one_of(&Operation::ALL, Operation::name))]
    operation: Vec<Operation>,
    /// The state before a read: warm (the process has read before), cold (it opens the catalog anew), or warm,cold
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "warm,cold", value_parser = one_of(&Start::ALL, Start::name))]
    start: Vec<Start>,
    /// Entries in the catalog at the beginning
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1000", value_parser = count::<u64>)]
    rows: Vec<u64>,
    /// The number of clients at the same time: writers, or readers in operations that read
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16", value_parser = count::<u32>)]
    writers: Vec<u32>,
    /// Whether the writers of a process share commits: on, off, or on,off
    #[arg(long, value_name = "on,off", value_delimiter = ',', default_value = "on", value_parser = switch())]
    group: Vec<bool>,
    /// How often each cell is tried; trials of different cells take turns, because stores change over time
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = between(1, MOST_TRIALS))]
    trials: u32,
    /// The length of each trial
    #[arg(long, value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// The least number of operations of each client in a trial, however long they take; at most 1000000
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = between(0, MOST_LEAST))]
    least: u64,
    /// How long the first cell runs before its results count: an idle machine is slow at first
    #[arg(long, value_name = "TIME", default_value = "5s")]
    warm_up: Span,
    /// Make each client a process of its own; otherwise all clients are threads of one process
    #[arg(long)]
    processes: bool,
    /// The latency to add to every request before it is sent
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    added_latency: Span,
    /// Also simulate the cells with this profile: a file (from `glidepath measure` of this store) or a name (see
    /// `glidepath providers`)
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// The folder for results; those of an earlier run on the same store are replaced
    #[arg(long, value_name = "FOLDER", default_value = "results/bench")]
    out: PathBuf,
    /// Do not ask before requests that cost money
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// No cloud store answers a client sooner, so that a cost computed with it is an upper bound for one request after the
/// other.
const LEAST_ROUND_TRIP_S: f64 = 0.01;

/// The most trials of a cell.
const MOST_TRIALS: u32 = 1000;

/// The largest least number of operations of a client: with a cloud store they take hours.
const MOST_LEAST: u64 = 1_000_000;

/// The longest trial.
const LONGEST: Span = Span::from_secs(24 * 3600);

fn count<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    without_leading_zeros(text)?;
    text.parse()
        .map_err(|_| "allowed: whole numbers in digits, several with commas between, as in 1000,100000".to_owned())
}

/// Why several processes cannot use this store, if so.
fn of_one_process(url: &str) -> Option<&'static str> {
    let stores = [
        ("memory:", "memory: exists in one process only"),
        ("kv+memory:", "kv+memory: exists in one process only"),
        ("kv+file:", "one process at a time may open a store of the kind kv+file"),
    ];
    let url = with_small_scheme(url);
    stores.into_iter().find_map(|(scheme, words)| url.starts_with(scheme).then_some(words))
}

fn switch() -> impl TypedValueParser<Value = bool> {
    one_of(&[true, false], |on| if on { "on" } else { "off" })
}

/// Runs the sweep.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cells = arguments.cells()?;
    let profile = arguments.profile.as_deref().map(read_profile).transpose()?;
    if let Some(words) = profile.as_ref().and_then(|profile| of_another_store(profile, &arguments.store)) {
        complain(&words);
    }
    // What is no store is told so first.
    is_there(&arguments.store).map_err(not_opened)?;
    folder::check(&arguments.out, &arguments.label())
        .map_err(|refused| folder::after_store(refused, &arguments.store))?;
    let leftovers = Leftovers::before_opening(&arguments.store)?;
    let result = run_cells(arguments, &cells, profile.as_ref());
    leftovers.remove();
    result
}

/// The store is closed when this returns.
fn run_cells(arguments: &Arguments, cells: &[Cell], profile: Option<&Profile>) -> Result<(), Failure> {
    let store = open(&arguments.store, &Options::default()).map_err(not_opened)?;
    arguments.agree(cells)?;
    let made = folder::create(&arguments.out).map_err(|error| unwritable(&arguments.out, &error))?;
    let stop = on_interrupt_that_leaves(Some("the catalog glidepath-bench-... in the store"))?;
    let display = Display::new();
    let running = Running {
        store: &store,
        warm_up: arguments.warm_up,
        trials: arguments.trials,
        profile,
        in_processes: &|place, cell| in_processes(&arguments.store, place, cell),
        progress: &|progress| show(&display, progress),
        stop,
    };
    let swept = glidepath_bench::run(cells, &running);
    drop(display);
    let planned = cells.len() * arguments.trials as usize;
    let (lines, ended) = ended(swept, planned);
    if lines.is_empty() {
        folder::remove_empty(&made);
        return ended;
    }
    // Finished trials are kept, also after an error.
    let told = arguments.write(&lines, planned, profile);
    match (ended, mostly_failed(&lines)) {
        (Err(failure), _) | (Ok(()), Some(failure)) => Err(failure.after(told)),
        (Ok(()), None) => told,
    }
}

fn show(display: &Display, Progress { done, all, cell, filled }: Progress<'_>) {
    let words = match filled {
        None => {
            let clients = counted(cell.writers.into(), "client");
            format!("{}, {}, {clients}", cell.kind(), counted_entries(cell.rows))
        }
        Some(filled) => format!("filling: {filled} of {}", counted_entries(cell.rows)),
    };
    display.steps(done, all, "trials", &words);
}

/// Rates of operations that mostly fail are no answer.
fn mostly_failed(lines: &[Line]) -> Option<Failure> {
    let (done, failed) = lines
        .iter()
        .fold((0, 0), |(done, failed), Line { measured, .. }| (done + measured.operations, failed + measured.errors));
    let first = lines.iter().find_map(|line| line.first_error.as_ref())?;
    (failed > done)
        .then(|| Failure::Failed(format!("{failed} of {} operations failed. The first one: {first}", done + failed)))
}

/// The cells with a finished trial, and how the sweep ended.
fn ended(swept: Swept<Failure>, planned: usize) -> (Vec<Line>, Result<(), Failure>) {
    let Swept { lines, ended, left_behind } = swept;
    let stopped = || Failure::Interrupted(format!("stopped; {} of {planned} trials are done", trials(&lines)));
    // Reported together with the cause, because the user must remove these objects.
    let left = left_behind.map_or(Ok(()), |error| Err(error.into()));
    let ended = match ended {
        Ok(Ended::Complete) => left,
        Ok(_) => Err(stopped().after(left)),
        Err(error) => Err(error.after(left)),
    };
    (lines, ended)
}

impl Arguments {
    fn cells(&self) -> Result<Vec<Cell>, Failure> {
        if self.duration > LONGEST {
            return Err(Failure::Mistake(format!("--duration {}: found; allowed: at most {LONGEST}", self.duration)));
        }
        if let Some(words) = of_one_process(&self.store).filter(|_| self.processes) {
            return Err(Failure::Mistake(format!("{words}: leave --processes out, or give another store")));
        }
        let sweep = Sweep {
            protocols: self.protocol.clone(),
            layouts: self.layout.clone(),
            indexed: self.index.clone(),
            operations: self.operation.clone(),
            starts: self.start.clone(),
            rows: self.rows.clone(),
            writers: self.writers.clone(),
            grouped: self.group.clone(),
            processes: self.processes,
            duration: self.duration,
            least: self.least,
            added_latency: self.added_latency,
        };
        sweep.cells().map_err(|error| Failure::Mistake(format!("--{error}")))
    }

    /// Prints the estimated cost on a cloud, and asks.
    fn agree(&self, cells: &[Cell]) -> Result<(), Failure> {
        agree(&self.store, self.yes, |prices| {
            let seconds = |cell: &Cell| f64::from(self.trials) * f64::from(cell.writers) * cell.duration.as_secs_f64();
            let first = cells.first().map_or(0.0, |cell| f64::from(cell.writers) * self.warm_up.as_secs_f64());
            let requests = (first + cells.iter().map(seconds).sum::<f64>()) / LEAST_ROUND_TRIP_S;
            format!(
                "{} cells: about {requests:.0} requests at most, if each client waits at least 10 ms for each: up to {:.2} \
                 US dollars at list prices ({}), if all of them write, without traffic and without the requests that fill \
                 and remove the catalogs. A local server costs nothing.",
                cells.len(),
                requests * prices.write_dollars,
                prices.source,
            )
        })
    }

    /// What the folder of results is marked with.
    fn label(&self) -> String {
        folder::label_of_store("bench", &self.store)
    }

    fn write(&self, lines: &[Line], planned: usize, profile: Option<&Profile>) -> Result<(), Failure> {
        let store = bare(&self.store);
        let (date, machine, program) = (today(), machine(), program());
        let named = self.profile.as_deref();
        let how =
            Measured { store: &store, date: &date, machine: &machine, program: &program, profile: named, planned };
        let page = page(&how, lines)?;
        let place = folder::place(&self.out, trials(lines) == planned, RESULTS);
        folder::claim(&place, &self.label())?;
        let path = |name: &str| place.join(name);
        write(&path(RESULTS), &serde_json::to_string_pretty(lines)?)?;
        write(&path("report.md"), &page.markdown())?;
        write(&path("report.html"), &page.html())?;
        if self.json {
            return print_json(&lines);
        }
        print(&as_table(lines, profile.is_some()))?;
        if let Some(words) = apart(lines) {
            print(&words)?;
        }
        let errors: Vec<f64> = lines.iter().filter_map(|line| line.prediction_error).collect();
        if let Some(words) = profile.and_then(|profile| basis(profile, Some(&self.store), &errors)) {
            print(&words)?;
        }
        let kept = folder::kept(&self.out, &place);
        print(&format!("\nIn {}: report.html, report.md, {RESULTS}{kept}", place.display()))
    }
}

/// Bytes in KiB. Less than one KiB has three digits, because a commit may send a few bytes.
fn kib(bytes: f64) -> String {
    match bytes / 1024.0 {
        kib if kib < 1.0 => digits(kib),
        kib => format!("{kib:.1}"),
    }
}

/// The columns of the table that are not of predictions.
const MEASURED: usize = 11;

fn as_table(lines: &[Line], is_predicted: bool) -> String {
    let header = [
        "catalog",
        "entries",
        "clients",
        "rate/s",
        "in trials",
        "p50 ms",
        "p99 ms",
        "errors",
        "requests",
        "sent KiB",
        "CPU ms",
        "predicted/s",
        "error",
    ];
    let header = header.map(str::to_owned);
    let columns = if is_predicted { header.len() } else { MEASURED };
    let row = |line: &Line| {
        let Figures { operations_per_s, p50_ms, p99_ms, errors, .. } = line.measured;
        let predicted = line.predicted.as_ref();
        let mut row = vec![
            line.cell.kind(),
            line.cell.rows.to_string(),
            line.cell.writers.to_string(),
            format!("{operations_per_s:.1}"),
            line.in_trials(),
            digits(p50_ms),
            digits(p99_ms),
            errors.to_string(),
            format!("{:.2}", line.measured.requests_per_operation),
            kib(line.measured.sent_bytes_per_operation),
            format!("{:.3}", line.measured.processor_ms_per_operation),
            predicted.map_or("-".to_owned(), |figures| format!("{:.1}", figures.operations_per_s)),
            line.prediction_error.map_or("-".to_owned(), deviation_percent),
        ];
        row.truncate(columns);
        row
    };
    let mut text = table(&header[..columns], 1, lines.iter().map(row).collect());
    text.push_str(
        "\nIn trials: the lowest and the highest rate of a trial. Requests, KiB sent and CPU ms are per operation.",
    );
    for words in lines.iter().filter_map(|line| line.first_error.as_ref()).take(1) {
        text.push_str(&format!("\nThe first error: {words}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use glidepath_bench::{CellSamples, Design};

    use super::*;

    #[test]
    fn rates_of_operations_that_mostly_fail_are_a_failure() {
        let cell = Cell {
            design: Design::of(Protocol::Tickets),
            operation: Operation::Commit,
            start: Start::Warm,
            rows: 1,
            writers: 1,
            grouped: true,
            processes: false,
            duration: Span::from_secs(1),
            least: 1,
            added_latency: Span::ZERO,
        };
        let line = |done: usize, failed: u64| {
            let errors = vec![("no space".to_owned(), failed)];
            Line::new(cell, &[CellSamples { latencies_ns: vec![1; done], errors, ..CellSamples::default() }], None)
        };
        assert!(mostly_failed(&[line(3, 3)]).is_none());
        let Some(Failure::Failed(words)) = mostly_failed(&[line(2, 1), line(0, 2)]) else { panic!("it succeeded") };
        assert_eq!(words, "3 of 5 operations failed. The first one: no space");
    }

    #[test]
    fn a_few_bytes_are_not_nothing() {
        assert_eq!([0.0, 60.0, 1023.0, 1024.0, 150_000.0].map(kib), ["0", "0.0586", "0.999", "1.0", "146.5"]);
    }
}
