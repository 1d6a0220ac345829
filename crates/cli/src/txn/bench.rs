//! `glidepath txn bench`: how fast does a key-value store keep the ends of transactions?

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;
use glidepath_bench::transactions::{LEAST_ENTRIES, Line, Part, Plan, page, run};
use glidepath_kv::is_missing_folder;
use glidepath_model::Span;
use glidepath_txn::{Partitioning, Tickets};

use super::place;
use crate::choice::one_of;
use crate::failure::Failure;
use crate::folder::{self, unwritable, write};
use crate::interrupt::on_interrupt;
use crate::origin::{bare, machine, program, today};
use crate::output::{print, print_json, table, three_digits};
use crate::progress::Display;
use crate::whole;

/// Measure how fast a key-value store keeps the ends of transactions
///
/// Puts with the original encoding and with tickets, reads, loads of many cells, and what an entry costs on disk. Tables
/// that it makes are named bench_... and stay in a server; a folder that did not exist is removed. Results go into a
/// folder: report.html, report.md, results.json.
#[derive(Args, Debug)]
pub(super) struct Bench {
    /// The key-value store, by its URL; kv+memory: is allowed
    #[arg(value_name = "STORE")]
    store: String,
    /// What to measure
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "puts,batches,reads,cache,loads,bytes", value_parser = one_of(&Part::ALL, Part::name))]
    part: Vec<Part>,
    /// The numbers of clients of puts
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,16,64", value_parser = whole::from_one::<u32>)]
    clients: Vec<u32>,
    /// The numbers of rows of a partition of tickets, in puts: divisors of 25000000
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = rows)]
    rows: Vec<u64>,
    /// How long each run is measured
    #[arg(long, value_name = "TIME", default_value = "3s")]
    duration: Span,
    /// The number of entries of which the size on disk is measured, at least 50000
    #[arg(long, value_name = "COUNT", default_value = "1000000", value_parser = whole::from_one::<u64>)]
    entries: u64,
    /// The folder for results
    #[arg(long, value_name = "FOLDER", default_value = "results/txn-bench")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn rows(text: &str) -> Result<u64, String> {
    let rows = whole::from_one::<u64>(text)?;
    let partitioning = Partitioning { rows, ..Partitioning::default() };
    Tickets::new(partitioning).map(|_| rows).map_err(|error| error.to_string())
}

impl Bench {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if self.duration == Span::ZERO {
            return Err(Failure::Mistake("--duration 0: give a time above zero, such as 3s".to_owned()));
        }
        if self.entries < LEAST_ENTRIES {
            let words =
                format!("--entries {}: give at least {LEAST_ENTRIES}: fewer are not yet where they stay", self.entries);
            return Err(Failure::Mistake(words));
        }
        folder::check(&self.out, "txn bench")?;
        let made = is_missing_folder(&self.store);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
        let store = runtime.block_on(glidepath_kv::open(&self.store)).map_err(|error| place::open(&error))?;
        let directory = store.directory().map(std::path::Path::to_owned);
        let scratch =
            directory.as_ref().and_then(|directory| directory.parent()).map(|above| above.join(scratch_name()));
        if let Some(scratch) = &scratch {
            std::fs::create_dir_all(scratch).map_err(|error| unwritable(scratch, &error))?;
        }
        let stop = on_interrupt()?;
        let lines = self.measure(&store, scratch.as_deref(), stop);
        drop(store);
        drop(runtime);
        if let Some(scratch) = scratch {
            std::fs::remove_dir_all(&scratch).map_err(|error| unwritable(&scratch, &error))?;
        }
        if let Some(directory) = directory.filter(|_| made) {
            std::fs::remove_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
        }
        let lines = lines?;
        if lines.is_empty() {
            return Err(Failure::Interrupted("stopped; nothing is measured".to_owned()));
        }
        self.write(&lines)?;
        match stop.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(Failure::Interrupted("stopped; what was measured is kept".to_owned())),
            false => Ok(()),
        }
    }

    fn measure(
        &self,
        store: &glidepath_kv::AnyKv,
        scratch: Option<&std::path::Path>,
        stop: &AtomicBool,
    ) -> Result<Vec<Line>, Failure> {
        let plan = Plan {
            parts: self.part.clone(),
            clients: self.clients.clone(),
            rows: self.rows.clone(),
            duration: self.duration,
            entries: self.entries,
        };
        let display = Display::new();
        let done = std::cell::Cell::new(0);
        let progress = |line: &Line, all: usize| {
            done.set(done.get() + 1);
            display.steps(done.get(), all, "runs", &format!("{}, {}", line.part.name(), line.what));
        };
        run(store, &plan, scratch, stop, &progress).map_err(|error| Failure::Failed(error.to_string()))
    }

    fn write(&self, lines: &[Line]) -> Result<(), Failure> {
        let facts = format!("{}; {}; {}; {}.", bare(&self.store), today(), machine(), program());
        let page = page(&facts, lines)?;
        folder::claim(&self.out, "txn bench")?;
        let path = |name: &str| self.out.join(name);
        write(&path("results.json"), &serde_json::to_string_pretty(lines)?)?;
        write(&path("report.md"), &page.markdown())?;
        write(&path("report.html"), &page.html())?;
        if self.json {
            return print_json(&lines);
        }
        print(&as_table(lines))?;
        print(&format!("\nIn {}: report.html, report.md, results.json", self.out.display()))
    }
}

fn scratch_name() -> String {
    format!("glidepath-txn-bench-{}", std::process::id())
}

fn as_table(lines: &[Line]) -> String {
    let header = ["part", "what", "clients", "per second", "p50 ms", "p95 ms", "p99 ms", "bytes", "errors"];
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let row = |line: &Line| {
        let [p50, p95, p99] = line.latency_ms.map(or_none);
        vec![
            line.part.name().to_owned(),
            line.what.clone(),
            line.clients.to_string(),
            format!("{:.0}", line.per_second),
            p50,
            p95,
            p99,
            or_none(line.bytes_per_entry),
            line.errors.to_string(),
        ]
    };
    table(&header.map(str::to_owned), 2, lines.iter().map(row).collect())
}
