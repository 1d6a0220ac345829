//! `glidepath txn bench`: how fast does a key-value store keep the ends of transactions?

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use glidepath_bench::transactions::{LEAST_ENTRIES, Line, Part, Plan, TxnBenchError, page, run};
use glidepath_env::{Env as _, Purpose};
use glidepath_kv::{AnyKv, Embedded, EmbeddedOptions, OpenUrlError};
use glidepath_model::Span;
use glidepath_stores::LiveEnv;
use glidepath_txn::{Partitioning, Tickets};

use super::place;
use crate::choice::one_of;
use crate::failure::Failure;
use crate::folder::{self, RESULTS, unwritable, write};
use crate::interrupt::on_interrupt_that_leaves;
use crate::origin::{bare, machine, program, today};
use crate::output::{complain, print, print_json, table, three_digits};
use crate::progress::Display;
use crate::whole;

/// Measure how fast a key-value store keeps the ends of transactions
///
/// Puts with the original encoding and with tickets, reads, loads of many cells, and what an entry costs on disk. On a
/// disk, it works in a folder of its own in the given one, and removes it at the end. In a server it makes tables named
/// bench_..., which stay. Results go into a folder: report.html, report.md, results.json. If a call failed, or the
/// store went away between two runs, what was measured is written, and the exit code is 1.
#[derive(Args, Debug)]
pub(super) struct Bench {
    /// The key-value store, by its URL: kv+file:///directory, postgres://..., cassandra://..., kv+memory:
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
    /// The folder for results; those of an earlier run on the same store are replaced
    #[arg(long, value_name = "FOLDER", default_value = "results/txn-bench")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn rows(text: &str) -> Result<u64, String> {
    let rows = whole::from_one::<u64>(text)?;
    let partitioning = Partitioning { rows, ..Partitioning::default() };
    let quantum = partitioning.quantum;
    let words =
        || format!("{rows} does not divide {quantum}; allowed are its divisors, such as 1, 2, 4, 5, 8, 10 and 16");
    Tickets::new(partitioning).map(|_| rows).map_err(|_| words())
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
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
        let stop = on_interrupt_that_leaves(self.leaves()?)?;
        // What is no store is told so first.
        let may_write = || folder::check(&self.out, &folder::label_of_store("txn bench", &self.store));
        let (lines, ended) = match glidepath_kv::folder(&self.store).map_err(|error| place::open(&error))? {
            None => {
                let store = runtime.block_on(glidepath_kv::open(&self.store)).map_err(|error| place::open(&error))?;
                may_write()?;
                self.measure(&store, None, stop)
            }
            Some(folder) => {
                may_write()?;
                let own = OwnFolder::within(&folder)?;
                let store = Embedded::open(&own.path.join("cells"), &EmbeddedOptions::default());
                let store = store.map_err(|error| place::open(&OpenUrlError::Folder(error)))?;
                self.measure(&AnyKv::Embedded(store), Some(&own.path), stop)
            }
        };
        if let (true, Err(error)) = (lines.is_empty(), &ended) {
            return Err(Failure::Failed(format!("{error}; nothing was measured")));
        }
        if lines.is_empty() && !stop.load(Ordering::Relaxed) {
            let words = "nothing to measure: a store in memory takes no bytes on disk; choose another --part";
            return Err(Failure::Mistake(words.to_owned()));
        }
        if lines.is_empty() {
            return Err(Failure::Interrupted("stopped; nothing is measured".to_owned()));
        }
        let measured = format!("{} of {} runs are measured", lines.len(), self.plan().lines());
        let stopped = match &ended {
            Err(_) => Some(format!("ended by an error; {measured}")),
            Ok(()) => stop.load(Ordering::Relaxed).then(|| format!("stopped; {measured}")),
        };
        self.write(&lines, stopped.as_deref())?;
        if let Err(error) = ended {
            return Err(Failure::Failed(format!("{error}; {measured}, and written")));
        }
        if let Some(failure) = failed_calls(&lines) {
            return Err(failure);
        }
        stopped.map_or(Ok(()), |words| Err(Failure::Interrupted(words)))
    }

    /// What stays in the store if the program ends at once.
    fn leaves(&self) -> Result<Option<&'static str>, Failure> {
        let is_on_disk = glidepath_kv::folder(&self.store).map_err(|error| place::open(&error))?.is_some();
        Ok(is_on_disk.then_some("a folder glidepath-txn-bench-... in the store's folder"))
    }

    fn plan(&self) -> Plan {
        Plan {
            parts: self.part.clone(),
            clients: self.clients.clone(),
            rows: self.rows.clone(),
            duration: self.duration,
            entries: self.entries,
        }
    }

    /// The lines of the runs that ended, and how all ended.
    fn measure(
        &self,
        store: &AnyKv,
        scratch: Option<&Path>,
        stop: &AtomicBool,
    ) -> (Vec<Line>, Result<(), TxnBenchError>) {
        let (plan, display, mut lines) = (self.plan(), Display::new(), Vec::new());
        let ended = run(store, &plan, scratch, stop, &mut |line, all| {
            display.steps(lines.len() + 1, all, "runs", &format!("{}, {}", line.part.name(), line.what));
            lines.push(line);
        });
        (lines, ended)
    }

    fn write(&self, lines: &[Line], stopped: Option<&str>) -> Result<(), Failure> {
        let mut facts = format!("{}; {}; {}; {}", bare(&self.store), today(), machine(), program());
        facts.extend(stopped.map(|words| format!("; {words}")));
        facts.push('.');
        let page = page(&facts, lines)?;
        let place = folder::place(&self.out, stopped.is_none(), RESULTS);
        folder::claim(&place, &folder::label_of_store("txn bench", &self.store))?;
        let path = |name: &str| place.join(name);
        write(&path(RESULTS), &serde_json::to_string_pretty(lines)?)?;
        write(&path("report.md"), &page.markdown())?;
        write(&path("report.html"), &page.html())?;
        if self.json {
            return print_json(&lines);
        }
        print(&as_table(lines))?;
        let kept = folder::kept(&self.out, &place);
        print(&format!("\nIn {}: report.html, report.md, {RESULTS}{kept}", place.display()))
    }
}

/// The failure of a benchmark some of whose calls failed: what it measured is not what the store can do.
fn failed_calls(lines: &[Line]) -> Option<Failure> {
    let failed: Vec<_> = lines.iter().filter(|line| line.errors > 0).collect();
    let calls: u64 = failed.iter().map(|line| line.errors).sum();
    let first = failed.iter().find_map(|line| line.first_error.as_deref()).unwrap_or("a client ended early");
    let words = format!("{calls} calls failed, in {} of {} runs; the first: {first}", failed.len(), lines.len());
    (calls > 0).then_some(Failure::Failed(words))
}

/// A folder that this process has made, and removes with all that is in it.
struct OwnFolder {
    path: PathBuf,
    /// Folders above it that did not exist.
    made: Vec<PathBuf>,
}

impl OwnFolder {
    fn within(folder: &Path) -> Result<Self, Failure> {
        let made = folder::create(folder).map_err(|error| unwritable(folder, &error))?;
        let name = format!("glidepath-txn-bench-{:016x}", LiveEnv::new().draw(Purpose::Names));
        let path = folder.join(name);
        // Fails if it exists: what is removed at the end is certainly ours.
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, made }),
            Err(error) => {
                folder::remove_empty(&made);
                Err(unwritable(&path, &error))
            }
        }
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            complain(&format!("not removed: {}: {error}", self.path.display()));
        }
        folder::remove_empty(&self.made);
    }
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
    let mut text = table(&header.map(str::to_owned), 2, lines.iter().map(row).collect());
    for words in lines.iter().filter_map(|line| line.first_error.as_ref()).take(1) {
        text.push_str(&format!("\nThe first error: {words}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_with_failed_calls_has_failed() {
        let line = |errors: u64| Line {
            part: Part::Puts,
            what: "original".to_owned(),
            clients: 1,
            rows: None,
            per_second: 1.0,
            latency_ms: [None; 3],
            errors,
            first_error: (errors > 0).then(|| "the disk is full".to_owned()),
            bytes_per_entry: None,
        };
        assert!(failed_calls(&[line(0), line(0)]).is_none());
        match failed_calls(&[line(0), line(2), line(3)]) {
            Some(Failure::Failed(words)) => {
                assert_eq!(words, "5 calls failed, in 2 of 3 runs; the first: the disk is full");
            }
            other => panic!("{other:?}"),
        }
    }
}
