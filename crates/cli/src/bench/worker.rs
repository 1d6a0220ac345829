//! How do clients run as separate processes?

use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use glidepath_bench::{Cell, CellSamples, work};
use glidepath_stores::{Options, open};

use crate::failure::{Failure, not_opened};
use crate::output::print;

/// One client in each of a number of processes, which begin at the same time.
pub(super) fn in_processes(url: &str, place: &str, cell: &Cell) -> Result<CellSamples, Failure> {
    let program = std::env::current_exe()?;
    let begin_ms = unix_ms() + 1000 + 20 * u64::from(cell.writers);
    let one = serde_json::to_string(&Cell { writers: 1, ..*cell })?;
    let start = |number: u32| -> std::io::Result<Child> {
        let mut command = Command::new(&program);
        command.args(["bench-worker", url, place, &one, &number.to_string(), &begin_ms.to_string()]);
        command.stdout(Stdio::piped()).spawn()
    };
    let mut children = Vec::new();
    for number in 0..cell.writers {
        match start(number) {
            Ok(child) => children.push(child),
            Err(error) => {
                for mut child in children {
                    // They have not begun and must not, because the catalog is about to be removed.
                    let _ = child.kill().and_then(|()| child.wait());
                }
                return Err(Failure::Failed(format!("client process {number} could not be started: {error}")));
            }
        }
    }
    let mut outcomes = Vec::new();
    // Waits for all of them, even after an error, so that none writes to a catalog that is being removed.
    let ended: Vec<_> = children.into_iter().map(Child::wait_with_output).collect();
    for output in ended {
        let output = output?;
        if !output.status.success() {
            return Err(Failure::Failed(format!("a client process ended with {}", output.status)));
        }
        outcomes.push(serde_json::from_slice(&output.stdout)?);
    }
    Ok(CellSamples::joined(outcomes))
}

/// The arguments of a client process, which `bench` starts.
#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    store: String,
    place: String,
    cell: String,
    number: u32,
    begin_ms: u64,
}

/// Runs one client, and prints its outcome for the process that started it.
pub(crate) fn run_worker(arguments: &WorkerArguments) -> Result<(), Failure> {
    let cell: Cell = serde_json::from_str(&arguments.cell)?;
    let store = open(&arguments.store, &Options::default()).map_err(not_opened)?;
    std::thread::sleep(std::time::Duration::from_millis(arguments.begin_ms.saturating_sub(unix_ms())));
    let outcome = work(&store, &arguments.place, &cell, arguments.number, &AtomicBool::new(false));
    print(&serde_json::to_string(&outcome.map_err(|error| Failure::Failed(error.to_string()))?)?)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
