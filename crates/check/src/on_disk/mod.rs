//! Does a protocol hold on a disk that forgets what was not synced?
//!
//! The catalog is in files on a simulated disk, kept by the code that keeps it on local disk (`glidepath_files`). The
//! power fails several times, at random calls: all processes die at once, the disk keeps what was synced and a random
//! part of the rest, and new processes continue. A last power cut ends the run. What is left then was durable; it is
//! compared with all answers.

mod journal;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use glidepath_env::{Guard, Key, ObjectStore, Payload, unit_interval};
use glidepath_files::{Durability, FileStore};
use glidepath_history::{History, ProcessId};
use glidepath_model::{Instant, Span};
use glidepath_protocols::registry::Design;
use glidepath_sim::{Disk, DiskFaults, Mishap, Mode, Setup, SimEnv, SimFiles, Simulation, Stream};

use crate::process::{Process, Restarted};
use crate::remains::clean;
use crate::run::{Life, Run, Writer, counted, judged};
use crate::scenario::{OnDisk, Writers};
use crate::stranger::Copies;
use crate::subject::{kept, shared};
use journal::Journal;

/// Where the store is on the disk.
pub(crate) const FOLDER: &str = "/store";

/// The longest time between two power cuts.
const HORIZON: Span = Span::from_secs(3600);

/// How long the machine is off: longer than the grace period of a vacuum.
const OFF: Span = Span::from_secs(1200);

/// The distance between the numbers of processes before a power cut and after it.
const NUMBERS: u32 = 10_000;

/// How often a process tries to open the store on a failing disk.
const TRIES: u32 = 20;

/// Keys of the random streams of phases, above those of processes.
const PHASES: u64 = 1 << 35;

/// A run to be made.
pub(crate) struct Plan<'a> {
    pub(crate) writers: Writers,
    pub(crate) disk: OnDisk,
    /// The objects of a fresh catalog.
    pub(crate) objects: &'a [(Key, Payload)],
}

/// Runs one seed and checks it.
pub(crate) fn run<D: Design>(plan: &Plan<'_>, seed: u64, keep_mishaps: bool) -> Run {
    let disk = Disk::new(seed);
    disk.watch("/store/objects/");
    seeded(&disk, seed, plan.objects);
    let (history, mut journal) = (Rc::new(RefCell::new(History::new())), Journal::default());
    journal.note(disk.changes());
    let (mut began, mut mishaps, mut broken) = (Span::ZERO, Vec::new(), Ok(()));
    if keep_mishaps {
        disk.keep_mishaps();
    }
    for phase in 0..=plan.disk.cuts {
        let mut luck = Stream::keyed(seed, u64::from(phase), PHASES);
        disk.suffer(plan.disk.faults);
        if phase < plan.disk.cuts {
            disk.cut_before(1 + (unit_interval(luck.draw()) * plan.disk.calls as f64) as u64);
        }
        let latest = Rc::new(Cell::new(began));
        disk.begins_after(began);
        let mut simulation = calm(luck.draw());
        simulation.run(processes::<D>(plan, phase, &disk, &history, &latest));
        drop(simulation);
        let said = |mishap: Mishap| Mishap {
            at: mishap.at + began,
            process: mishap.process + phase * NUMBERS,
            words: mishap.words,
        };
        mishaps.extend(disk.mishaps().into_iter().map(said));
        journal.note(disk.changes());
        disk.suffer(DiskFaults::default());
        disk.restart();
        broken = broken.and_then(|()| journal.cut_back(&disk.files()));
        if keep_mishaps {
            let words = "the power fails and returns".to_owned();
            mishaps.push(Mishap { at: Instant::ZERO + latest.get(), process: phase * NUMBERS + 1, words });
        }
        began = latest.get() + OFF;
    }
    let history = history.take();
    let mut checked = counted(&history, disk.failures() + u64::from(plan.disk.cuts) + 1);
    let objects = journal.objects();
    let written = (&kept(journal.written())[..], objects, &Copies::default());
    let right = broken.and_then(|()| judged::<D>(written, &history, &plan.writers, seed));
    checked.violation = right.err();
    Run { checked, history, mishaps }
}

fn calm(seed: u64) -> Simulation {
    let horizon = Instant::ZERO + HORIZON;
    Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: Vec::new() })
}

/// Puts these objects onto the disk, durably.
fn seeded(disk: &Disk, seed: u64, objects: &[(Key, Payload)]) {
    let (owned, objects) = (disk.clone(), objects.to_vec());
    let start = move |env: SimEnv| async move {
        let store = FileStore::open(owned.process(env), Path::new(FOLDER), Durability::Fsync).await;
        let store = store.unwrap_or_else(|error| panic!("opening a store on a disk without faults: {error}"));
        for (key, payload) in &objects {
            let put = store.put(key, payload.clone(), Guard::Absent).await;
            put.unwrap_or_else(|error| panic!("a put on a disk without faults: {error}"));
        }
        store.close().await;
    };
    calm(seed).run([(Instant::ZERO, start)]);
    disk.restart();
}

/// The writers, and the process that cleans up.
fn processes<D: Design>(
    plan: &Plan<'_>,
    phase: u32,
    disk: &Disk,
    history: &Rc<RefCell<History>>,
    latest: &Rc<Cell<Span>>,
) -> Vec<(Instant, impl FnOnce(SimEnv) -> Life)> {
    let (writers, began) = (plan.writers, latest.get());
    let start = |number: u32| {
        let (disk, history, latest) = (disk.clone(), Rc::clone(history), Rc::clone(latest));
        let start = move |sim: SimEnv| -> Life {
            Box::pin(async move {
                let files = disk.process(sim.clone());
                let Some(store) = opened(files).await else { return };
                let env = Process::on_disk(sim, Restarted { began, latest }, store);
                let catalog = env.open::<D>(shared::<D>(number));
                match writers.vacuum_every {
                    Some(every) if number == writers.count => clean::<D>(&env, &catalog, every).await,
                    _ if number == writers.count => {}
                    _ => {
                        let process = ProcessId(phase * NUMBERS + number);
                        Writer::<D> { env, catalog, history, process, writers }.run().await;
                    }
                }
            })
        };
        (Instant::ZERO + Span::from_nanos(u64::from(number) * 1000), start)
    };
    (0..=writers.count).map(start).collect()
}

/// After this number of failed tries to open the store a process ends.
async fn opened(files: SimFiles) -> Option<FileStore<SimFiles>> {
    for _ in 0..TRIES {
        if let Ok(store) = FileStore::open(files.clone(), Path::new(FOLDER), Durability::Fsync).await {
            return Some(store);
        }
    }
    None
}
