//! In which order are cells run? Fill a catalog, copy it, let clients work on the copy; at the end, remove all of them.

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

/// How cells are run. `E` is what goes wrong with clients that are processes of their own.
pub struct Running<'a, E> {
    /// Where.
    pub store: &'a Store,
    /// How long the first cell is run before its results count.
    pub warm_up: Span,
    /// What predictions are made with, if any are to be made.
    pub profile: Option<&'a Profile>,
    /// Runs the clients of a cell, each a process of its own, against the catalog at a prefix.
    pub in_processes: &'a dyn Fn(&str, &Cell) -> Result<CellSamples, E>,
    /// Told what is under way.
    pub progress: &'a dyn Fn(Progress<'_>),
    /// Set by others to stop.
    pub stop: &'static AtomicBool,
}

/// What is under way.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Cells that are done.
    pub done: usize,
    /// All of them.
    pub all: usize,
    /// The one that is under way.
    pub cell: &'a Cell,
    /// Entries so far, while a catalog is being filled for it.
    pub filled: Option<u64>,
}

/// What came of it.
pub struct Swept<E> {
    /// The cells that are done, in their order.
    pub lines: Vec<Line>,
    /// How it ended.
    pub ended: Result<Ended, E>,
    /// Why not all that was written to the store could be removed. Nobody else will remove it.
    pub left_behind: Option<LiveError>,
}

/// How it ended, where nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All cells are done.
    Complete,
    /// Somebody said to stop.
    Stopped,
}

/// Runs cells, once the first one has been run for as long as a warm-up, until all are done, one cannot be run, or somebody says
/// to stop. Whatever happens, what was done is returned, and what was written to the store is removed.
#[must_use]
pub fn run<E: From<LiveError>>(cells: &[Cell], running: &Running<'_, E>) -> Swept<E> {
    let scratch = Scratch::new(running.store.clone());
    let mut bench = Bench { running, scratch, filled: None, folders: 0, machine: None, warm_up: running.warm_up };
    let mut lines = Vec::new();
    let ended = bench.all(cells, &mut lines);
    Swept { lines, ended, left_behind: bench.scratch.remove().err() }
}

/// Long enough for a median.
const BRIEF: Span = Span::from_secs(2);

struct Bench<'a, E> {
    running: &'a Running<'a, E>,
    scratch: Scratch,
    /// What the newest origin was filled with, and its folder.
    filled: Option<(Design, u64, String)>,
    /// Folders so far. Nothing is removed before the end: stores are slow to forget, and would make the next cell wait.
    folders: u32,
    /// Once it is known.
    machine: Option<Machine>,
    /// What is still to be done of it.
    warm_up: Span,
}

impl<E: From<LiveError>> Bench<'_, E> {
    fn all(&mut self, cells: &[Cell], lines: &mut Vec<Line>) -> Result<Ended, E> {
        let Running { progress, stop, .. } = *self.running;
        for (done, cell) in cells.iter().enumerate() {
            let under_way = Progress { done, all: cells.len(), cell, filled: None };
            progress(under_way);
            let result = self.cell(cell, &mut |filled| {
                progress(Progress { filled: Some(filled), ..under_way });
                !stop.load(Ordering::Relaxed)
            });
            // What went wrong may be because it was stopped.
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            lines.push(result?);
        }
        Ok(Ended::Complete)
    }

    fn cell(&mut self, cell: &Cell, progress: &mut impl FnMut(u64) -> bool) -> Result<Line, E> {
        let origin = match &self.filled {
            Some((design, rows, folder)) if (*design, *rows) == (cell.design, cell.rows) => folder.clone(),
            _ => {
                let folder = self.folder();
                fill(self.running.store, &self.place(&folder), cell.design, cell.rows, progress)?;
                self.filled = Some((cell.design, cell.rows, folder.clone()));
                folder
            }
        };
        let warm_up = std::mem::take(&mut self.warm_up);
        if warm_up > Span::ZERO {
            self.work(&origin, &Cell { duration: warm_up, ..*cell })?;
        }
        let outcome = self.work(&origin, cell)?;
        let predicted = self.running.profile.map(|profile| self.predicted(profile, cell)).transpose()?;
        Ok(Line::new(*cell, &outcome, predicted))
    }

    /// Lets the clients of a cell work, on a copy of the original unless they only read.
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

    /// What the keys in a folder begin with.
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
        // Requests as late as they are where nobody waits for a processor, so that as many clients meet as will.
        let undisturbed = match predict(profile, &Machine::boundless(), &Cell { duration: BRIEF, ..*cell }, 1, stop) {
            Ok(outcome) => outcome.figures(),
            Err(error) => return Ok(Err(error)),
        };
        let each_ms = undisturbed.p50_ms / undisturbed.requests_per_operation.max(1.0);
        let machine = machine.working(cell, Span::from_nanos_f64(each_ms * 1e6), stop)?;
        Ok(predict(profile, &machine, cell, 1, stop))
    }
}
