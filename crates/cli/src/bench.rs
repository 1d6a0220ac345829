//! `glidepath bench`: how many commits per second does a catalog really take on this store, and what was predicted?

use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use glidepath_bench::{Cell, Figures, LiveError, Outcome, Scratch, fill, predict, work};
use glidepath_lab::library::Shelf;
use glidepath_model::Span;
use glidepath_sim::Profile;
use glidepath_stores::{Options, Store, open};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, print_json, table};

/// Commit to a catalog on a real store, and compare with what the simulation predicts
///
/// Each cell of the sweep is a catalog of its own, a manifest chain (docs/protocols/manifest-chain.md), in which so many
/// writers create namespaces as fast as they are answered. Everything is kept under one prefix of the store, and removed.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The store, by its URL: file:///directory, s3://bucket/prefix, az://..., gs://..., memory:
    #[arg(value_name = "STORE")]
    store: String,
    /// Entries in the catalog at the beginning
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1000")]
    rows: Vec<u64>,
    /// Writers at once
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16")]
    writers: Vec<u32>,
    /// How long each cell lasts
    #[arg(long, value_name = "TIME", default_value = "5s")]
    duration: Span,
    /// Each writer is a process of its own; otherwise all are threads of one
    #[arg(long)]
    processes: bool,
    /// Each writer commits for itself, even in one process
    #[arg(long)]
    no_group: bool,
    /// Catalogs without indices by type and by base object
    #[arg(long)]
    no_index: bool,
    /// Added to every request before it is sent
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    added_latency: Span,
    /// Simulate the same cells on this profile: a file (as `glidepath measure` writes it for this store) or a library name
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A cell and what came of it.
#[derive(Serialize)]
struct Row {
    cell: Cell,
    processes: bool,
    measured: Figures,
    first_error: Option<String>,
    predicted: Option<Figures>,
    /// Predicted over measured commits per second, less 1.
    prediction_error: Option<f64>,
}

/// Runs the sweep.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.writers.contains(&0) || arguments.duration == Span::ZERO {
        return Err(Failure::Mistake("--writers and --duration must be more than nothing".to_owned()));
    }
    if arguments.processes && arguments.store.starts_with("memory:") {
        return Err(Failure::Mistake(
            "memory: is in one process; leave --processes out, or give another store".to_owned(),
        ));
    }
    let profile = arguments.profile.as_deref().map(read_profile).transpose()?;
    let store = open(&arguments.store, &Options::default()).map_err(|error| Failure::Mistake(error.to_string()))?;
    let scratch = Scratch::new(store.clone());
    let rows = sweep(arguments, &store, &scratch, profile.as_ref());
    let removed = scratch.remove(None).map_err(failed);
    let rows = rows?;
    removed?;
    if arguments.json { print_json(&rows) } else { print(&as_table(&rows)) }
}

fn failed(error: LiveError) -> Failure {
    Failure::Failed(error.to_string())
}

fn read_profile(name: &str) -> Result<Profile, Failure> {
    let text = Shelf::Providers.find(name)?;
    Profile::parse(&text.text).map_err(|error| Failure::Mistake(format!("{}: {error}", text.origin)))
}

fn sweep(
    arguments: &Arguments,
    store: &Store,
    scratch: &Scratch,
    profile: Option<&Profile>,
) -> Result<Vec<Row>, Failure> {
    let mut done = Vec::new();
    for (number, rows) in arguments.rows.iter().enumerate() {
        let origin = format!("rows-{number}");
        for writers in &arguments.writers {
            let cell = Cell {
                rows: *rows,
                writers: *writers,
                grouped: !arguments.no_group,
                indexed: !arguments.no_index,
                duration: arguments.duration,
                added_latency: arguments.added_latency,
            };
            if *writers == arguments.writers[0] {
                let place = format!("{}{origin}/", scratch.prefix());
                fill(store, &place, &cell, |rows| eprintln!("filled {rows} of {} entries", cell.rows))
                    .map_err(failed)?;
            }
            scratch.copy(&origin, "cell").map_err(failed)?;
            eprintln!("{rows} entries, {writers} writers: {}", arguments.duration);
            let place = format!("{}cell/", scratch.prefix());
            let outcome = match arguments.processes {
                true => in_processes(&arguments.store, &place, &cell)?,
                false => work(store, &place, &cell, "t").map_err(failed)?,
            };
            scratch.remove(Some("cell")).map_err(failed)?;
            let predicted = profile.map(|profile| predict(profile, &cell, arguments.processes, 1).figures());
            let measured = outcome.figures();
            let error = predicted.as_ref().map(|predicted| predicted.commits_per_s / measured.commits_per_s - 1.0);
            done.push(Row {
                cell,
                processes: arguments.processes,
                measured,
                first_error: outcome.errors.first().map(|(words, _)| words.clone()),
                predicted,
                prediction_error: error,
            });
        }
        scratch.remove(Some(&origin)).map_err(failed)?;
    }
    Ok(done)
}

/// One writer in each of so many processes, which begin at the same time.
fn in_processes(url: &str, place: &str, cell: &Cell) -> Result<Outcome, Failure> {
    let program = std::env::current_exe()?;
    let begin_ms = unix_ms() + 1000 + 20 * u64::from(cell.writers);
    let one = serde_json::to_string(&Cell { writers: 1, ..*cell })?;
    let start = |writer: u32| -> std::io::Result<Child> {
        let mut command = Command::new(&program);
        command.args(["bench-worker", url, place, &one, &format!("p{writer}"), &begin_ms.to_string()]);
        command.stdout(Stdio::piped()).spawn()
    };
    let children: Vec<Child> = (0..cell.writers).map(start).collect::<Result<_, _>>()?;
    let mut outcomes = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(Failure::Failed(format!("a worker process ended with {}", output.status)));
        }
        outcomes.push(serde_json::from_slice(&output.stdout)?);
    }
    Ok(Outcome::joined(outcomes))
}

/// What `bench` starts: one writer in a process of its own.
#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    store: String,
    place: String,
    cell: String,
    tag: String,
    begin_ms: u64,
}

/// Runs one writer, and prints what came of it for the process that started this one.
pub(crate) fn run_worker(arguments: &WorkerArguments) -> Result<(), Failure> {
    let cell: Cell = serde_json::from_str(&arguments.cell)?;
    let store = open(&arguments.store, &Options::default()).map_err(|error| Failure::Mistake(error.to_string()))?;
    std::thread::sleep(std::time::Duration::from_millis(arguments.begin_ms.saturating_sub(unix_ms())));
    let outcome = work(&store, &arguments.place, &cell, &arguments.tag).map_err(failed)?;
    print(&serde_json::to_string(&outcome)?)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn as_table(rows: &[Row]) -> String {
    let header = [
        "entries",
        "writers",
        "commits/s",
        "p50 ms",
        "p99 ms",
        "errors",
        "requests",
        "sent KiB",
        "CPU ms",
        "predicted/s",
        "error",
    ];
    let line = |row: &Row| {
        let measured = &row.measured;
        let predicted =
            row.predicted.as_ref().map_or("-".to_owned(), |figures| format!("{:.1}", figures.commits_per_s));
        vec![
            row.cell.rows.to_string(),
            format!("{}{}", row.cell.writers, if row.processes { " processes" } else { "" }),
            format!("{:.1}", measured.commits_per_s),
            format!("{:.2}", measured.p50_ms),
            format!("{:.2}", measured.p99_ms),
            measured.errors.to_string(),
            format!("{:.2}", measured.requests_per_commit),
            format!("{:.1}", measured.sent_bytes_per_commit / 1024.0),
            format!("{:.3}", measured.processor_ms_per_commit),
            predicted,
            row.prediction_error.map_or("-".to_owned(), |error| format!("{:+.0} %", 100.0 * error)),
        ]
    };
    let mut text = table(&header.map(str::to_owned), 0, rows.iter().map(line).collect());
    text.push_str("\nRequests, KiB sent and processor time are for each commit.");
    for words in rows.iter().filter_map(|row| row.first_error.as_ref()).take(1) {
        text.push_str(&format!("\nThe first error: {words}"));
    }
    text
}
