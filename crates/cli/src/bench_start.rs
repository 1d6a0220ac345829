//! `glidepath bench-start`: how long does a server take to start on a large catalog?

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use glidepath_bench::served::{Start, fill_tables, first_of};
use glidepath_protocols::registry::Protocol;
use serde::Serialize;

use crate::choice::one_of;
use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::output::{print, print_json, table, three_digits};
use crate::progress::Display;
use crate::whole;

/// Measure how long `glidepath serve` takes to start on a large catalog
///
/// Fills an empty store with a catalog of tables, a thousand in each namespace, then starts the server on it several
/// times. Each start is timed from the start of the process to the first answer of GET /v1/config, and to the first
/// loaded table. The catalog stays.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// An empty store, by its URL: file:///directory
    #[arg(value_name = "STORE")]
    store: String,
    /// The number of tables
    #[arg(long, value_name = "COUNT", default_value = "100000", value_parser = whole::from_one::<u32>)]
    tables: u32,
    /// The protocol of the catalog
    #[arg(long, default_value = "manifest-chain", value_parser = one_of(Protocol::ALL, Protocol::name))]
    protocol: Protocol,
    /// How often the server is started
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = whole::from_one::<u32>)]
    starts: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    tables: u32,
    protocol: &'static str,
    starts: Vec<Start>,
}

/// A server that is ended with this.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // It has nothing to finish.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Fills the store, and starts servers on it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.store.starts_with("memory:") {
        let words = "memory: exists in one process only, and the server is another one: give another store";
        return Err(Failure::Mistake(words.to_owned()));
    }
    glidepath_stores::base_location(&arguments.store).map_err(|error| Failure::Mistake(error.to_string()))?;
    let stop = on_interrupt()?;
    let display = Display::new();
    arguments.fill(&display, stop)?;
    let mut starts = Vec::new();
    for number in 0..arguments.starts {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted(format!("stopped; {number} of {} starts are done", arguments.starts)));
        }
        display.steps(number as usize, arguments.starts as usize, "starts", "");
        starts.push(arguments.start()?);
    }
    drop(display);
    arguments.tell(starts)
}

impl Arguments {
    fn fill(&self, display: &Display, stop: &AtomicBool) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
        let all = u64::from(self.tables);
        let filled = fill_tables(&self.store, self.protocol, all, |done| {
            display.steps(done as usize, all as usize, "tables", "filling the catalog");
            !stop.load(Ordering::Relaxed)
        });
        let filled = runtime.block_on(filled);
        match stop.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted("stopped before the catalog was filled".to_owned())),
            false => filled.map_err(|error| Failure::Failed(error.to_string())),
        }
    }

    fn start(&self) -> Result<Start, Failure> {
        let program = std::env::current_exe()?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(["serve", &self.store, "--log-level", "warn", "--listen", &format!("127.0.0.1:{port}")]);
        let since = Instant::now();
        let mut served = Served(command.stdout(Stdio::null()).spawn()?);
        let (process, url) = (served.0.id(), format!("http://127.0.0.1:{port}"));
        let alive = || matches!(served.0.try_wait(), Ok(None));
        let started = first_of(&url, process, self.tables.into(), since, alive);
        started.map_err(|error| Failure::Failed(error.to_string()))
    }

    fn tell(&self, starts: Vec<Start>) -> Result<(), Failure> {
        let result = Report { tables: self.tables, protocol: self.protocol.name(), starts };
        if self.json {
            return print_json(&result);
        }
        let header = ["start", "config ms", "table ms", "memory MB"].map(str::to_owned);
        let row = |(number, start): (usize, &Start)| {
            let memory = start.memory_mb.map_or_else(|| "-".to_owned(), three_digits);
            vec![(number + 1).to_string(), three_digits(start.config_ms), three_digits(start.table_ms), memory]
        };
        print(&table(&header, 1, result.starts.iter().enumerate().map(row).collect()))
    }
}
