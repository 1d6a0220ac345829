//! In which order are cells run? Trials take turns, so that a store that changes changes for all cells alike. Each
//! fills a catalog if there is none yet, copies it, and runs clients on the copy; at the end, all copies are removed.

use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_model::Span;
use glidepath_sim::Profile;
use glidepath_stores::Store;

use crate::cell::{Cell, CellSamples};
use crate::design::Design;
use crate::live::{LiveError, fill, work};
use crate::machine::Machine;
use crate::predict::predict;
use crate::report::Line;
use crate::rows::FillError;
use crate::scratch::Scratch;

/// How cells are run. `E` is the error of clients that are processes.
pub struct Running<'a, E> {
    /// The place in the store.
    pub store: &'a Store,
    /// The warm-up: how long the first cell is run before results count.
    pub warm_up: Span,
    /// How often each cell is tried.
    pub trials: u32,
    /// The profile of predictions, if there are any.
    pub profile: Option<&'a Profile>,
    /// Runs the clients of a cell as processes, against the catalog at a prefix.
    pub in_processes: &'a dyn Fn(&str, &Cell) -> Result<CellSamples, E>,
    /// Called with the progress.
    pub progress: &'a dyn Fn(Progress<'_>),
    /// Set by the caller to stop.
    pub stop: &'static AtomicBool,
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Finished trials.
    pub done: usize,
    /// All trials of all cells.
    pub all: usize,
    /// The current cell.
    pub cell: &'a Cell,
    /// Entries so far, while its catalog is being filled.
    pub filled: Option<u64>,
}

/// The result of a sweep.
pub struct Swept<E> {
    /// The cells that were tried at least once, in order.
    pub lines: Vec<Line>,
    /// How it ended.
    pub ended: Result<Ended, E>,
    /// Why objects were left in the store; the user must remove them.
    pub left_behind: Option<LiveError>,
}

/// How it ended, if there was no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All trials are finished.
    Complete,
    /// Stopped by the caller.
    Stopped,
}

/// Runs the first cell as a warm-up, then each cell once, then each once more, until there are enough trials, one
/// fails, or `stop` is set. In every case it returns the finished trials and removes what it wrote to the store.
#[must_use]
pub fn run<E: From<LiveError>>(cells: &[Cell], running: &Running<'_, E>) -> Swept<E> {
    let scratch = Scratch::new(running.store.clone());
    let mut bench = Bench { running, scratch, filled: Vec::new(), folders: 0, machine: None, warm_up: running.warm_up };
    let mut tried = vec![Tried::default(); cells.len()];
    let ended = bench.all(cells, &mut tried);
    let lines = cells.iter().zip(tried).filter(|(_, tried)| !tried.trials.is_empty());
    let lines = lines.map(|(cell, tried)| Line::new(*cell, &tried.trials, tried.predicted)).collect();
    Swept { lines, ended, left_behind: bench.scratch.remove().err() }
}

/// Enough for a median.
const BRIEF: Span = Span::from_secs(2);

/// What is known of a cell.
#[derive(Clone, Default)]
struct Tried {
    trials: Vec<CellSamples>,
    predicted: Option<Result<CellSamples, FillError>>,
}

struct Bench<'a, E> {
    running: &'a Running<'a, E>,
    scratch: Scratch,
    /// The content of each original, and its folder.
    filled: Vec<(Design, u64, String)>,
    /// Folders so far. All are removed at the end, because deletes are slow and would delay the next cell.
    folders: u32,
    /// Set once it is measured.
    machine: Option<Machine>,
    /// The rest of the work.
    warm_up: Span,
}

impl<E: From<LiveError>> Bench<'_, E> {
    fn all(&mut self, cells: &[Cell], tried: &mut [Tried]) -> Result<Ended, E> {
        let Running { progress, stop, trials, profile, .. } = *self.running;
        let all = cells.len() * trials as usize;
        let turns = (0..trials).flat_map(|_| 0..cells.len()).enumerate();
        for (done, place) in turns {
            let (cell, tried) = (&cells[place], &mut tried[place]);
            let under_way = Progress { done, all, cell, filled: None };
            progress(under_way);
            let result = self.trial(cell, &mut |filled| {
                progress(Progress { filled: Some(filled), ..under_way });
                !stop.load(Ordering::Relaxed)
            });
            // The error may come from the stop.
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            tried.trials.push(result?);
            if let (Some(profile), None) = (profile, &tried.predicted) {
                let predicted = self.predicted(profile, cell);
                if stop.load(Ordering::Relaxed) {
                    return Ok(Ended::Stopped);
                }
                tried.predicted = Some(predicted?);
            }
        }
        Ok(Ended::Complete)
    }

    fn trial(&mut self, cell: &Cell, progress: &mut impl FnMut(u64) -> bool) -> Result<CellSamples, E> {
        let same = |(design, rows, _): &&(Design, u64, String)| (*design, *rows) == (cell.design, cell.rows);
        let origin = match self.filled.iter().find(same) {
            Some((.., folder)) => folder.clone(),
            None => {
                let folder = self.folder();
                fill(self.running.store, &self.place(&folder), cell.design, cell.rows, progress)?;
                self.filled.push((cell.design, cell.rows, folder.clone()));
                folder
            }
        };
        let warm_up = std::mem::take(&mut self.warm_up);
        if warm_up > Span::ZERO {
            self.work(&origin, &Cell { duration: warm_up, ..*cell })?;
        }
        self.work(&origin, cell)
    }

    /// Runs the clients of a cell, on a copy of the original unless they only read.
    fn work(&mut self, origin: &str, cell: &Cell) -> Result<CellSamples, E> {
        let folder = if cell.operation.reads() { origin.to_owned() } else { self.folder() };
        if folder != origin {
            self.scratch.copy(origin, &folder)?;
        }
        let Running { store, in_processes, stop, .. } = *self.running;
        let place = self.place(&folder);
        if cell.processes { in_processes(&place, cell) } else { Ok(work(store, &place, cell, 0, stop)?) }
    }

    /// A new one.
    fn folder(&mut self) -> String {
        self.folders += 1;
        format!("catalog-{:04}", self.folders)
    }

    /// The prefix of the keys in a folder.
    fn place(&self, folder: &str) -> String {
        format!("{}{folder}/", self.scratch.prefix())
    }

    fn predicted(&mut self, profile: &Profile, cell: &Cell) -> Result<Result<CellSamples, FillError>, LiveError> {
        let Running { store, stop, .. } = *self.running;
        let machine = match self.machine {
            Some(machine) => machine,
            None => {
                let place = self.place("machine");
                *self.machine.insert(Machine::here(store, &place)?)
            }
        };
        // Delays requests as without waits for a processor, so that as many clients conflict as in the cell.
        let undisturbed = match predict(profile, &Machine::boundless(), &Cell { duration: BRIEF, ..*cell }, 1, stop) {
            Ok(outcome) => outcome.figures(),
            Err(error) => return Ok(Err(error)),
        };
        let each_ms = undisturbed.p50_ms / undisturbed.requests_per_operation.max(1.0);
        let machine = machine.working(cell, Span::from_nanos_f64(each_ms * 1e6), stop)?;
        Ok(predict(profile, &machine, cell, 1, stop))
    }
}
