//! In which order are cells run? Fill a catalog, copy it, let clients work on the copy; at the end, remove all of them.

use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_bench::{Cell, Design, FillError, Line, LiveError, Machine, Outcome, Scratch, fill, predict, work};
use glidepath_model::Span;
use glidepath_sim::Profile;
use glidepath_stores::Store;

use super::worker::in_processes;
use crate::failure::Failure;
use crate::output::complain;
use crate::progress::Display;

/// Runs cells, once the first one has been run for as long as a warm-up, until all are done, one cannot be run, or somebody says
/// to stop. Whatever happens, what was done is returned, and what was written to the store is removed.
pub(super) fn sweep(
    url: &str,
    store: &Store,
    (cells, warm_up): (&[Cell], Span),
    profile: Option<&Profile>,
    stop: &'static AtomicBool,
) -> (Vec<Line>, Result<(), Failure>) {
    let scratch = Scratch::new(store.clone());
    let mut bench = Bench { url, store, scratch, filled: None, folders: 0, machine: None, warm_up, stop };
    let (mut lines, display) = (Vec::new(), Display::new());
    let mut ended = Ok(());
    for (done, cell) in cells.iter().enumerate() {
        let words = format!("{}, {} entries, {} clients", cell.kind(), cell.rows, cell.writers);
        display.steps(done, cells.len(), "cells", &words);
        let result = bench.cell(cell, profile, &mut |filled| {
            display.steps(done, cells.len(), "cells", &format!("filling: {filled} of {} entries", cell.rows));
            !stop.load(Ordering::Relaxed)
        });
        if stop.load(Ordering::Relaxed) {
            ended = Err(Failure::Interrupted(format!("stopped; {} of {} cells are done", lines.len(), cells.len())));
            break;
        }
        match result {
            Ok(line) => lines.push(line),
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
    }
    drop(display);
    if let Err(error) = bench.scratch.remove() {
        // Said beside whatever else went wrong: nobody else will remove them.
        match ended {
            Ok(()) => ended = Err(failed(error)),
            Err(_) => complain(&format!("{error}")),
        }
    }
    (lines, ended)
}

fn failed(error: LiveError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Long enough for a median.
const BRIEF: Span = Span::from_secs(2);

struct Bench<'a> {
    url: &'a str,
    store: &'a Store,
    scratch: Scratch,
    /// What the newest origin was filled with, and its folder.
    filled: Option<(Design, u64, String)>,
    /// Folders so far. Nothing is removed before the end: stores are slow to forget, and would make the next cell wait.
    folders: u32,
    /// Once it is known.
    machine: Option<Machine>,
    /// What is still to be done of it.
    warm_up: Span,
    stop: &'static AtomicBool,
}

impl Bench<'_> {
    fn cell(
        &mut self,
        cell: &Cell,
        profile: Option<&Profile>,
        progress: &mut impl FnMut(u64) -> bool,
    ) -> Result<Line, Failure> {
        let origin = match &self.filled {
            Some((design, rows, folder)) if (*design, *rows) == (cell.design, cell.rows) => folder.clone(),
            _ => {
                let folder = self.folder();
                let place = format!("{}{folder}/", self.scratch.prefix());
                fill(self.store, &place, cell.design, cell.rows, progress).map_err(failed)?;
                self.filled = Some((cell.design, cell.rows, folder.clone()));
                folder
            }
        };
        let warm_up = std::mem::take(&mut self.warm_up);
        if warm_up > Span::ZERO {
            self.run(&origin, &Cell { duration: warm_up, ..*cell })?;
        }
        let outcome = self.run(&origin, cell)?;
        let predicted = profile.map(|profile| self.predicted(profile, cell)).transpose()?;
        Ok(Line::new(*cell, &outcome, predicted))
    }

    /// Lets the clients of a cell work, on a copy of the original unless they only read.
    fn run(&mut self, origin: &str, cell: &Cell) -> Result<Outcome, Failure> {
        let folder = if cell.operation.reads() { origin.to_owned() } else { self.folder() };
        if folder != origin {
            self.scratch.copy(origin, &folder).map_err(failed)?;
        }
        let place = format!("{}{folder}/", self.scratch.prefix());
        match cell.processes {
            true => in_processes(self.url, &place, cell),
            false => work(self.store, &place, cell, 0, self.stop).map_err(failed),
        }
    }

    /// A new one.
    fn folder(&mut self) -> String {
        self.folders += 1;
        format!("catalog-{:04}", self.folders)
    }

    fn predicted(&mut self, profile: &Profile, cell: &Cell) -> Result<Result<Outcome, FillError>, Failure> {
        let machine = match self.machine {
            Some(machine) => machine,
            None => {
                let place = format!("{}machine/", self.scratch.prefix());
                *self.machine.insert(Machine::here(self.store, &place).map_err(failed)?)
            }
        };
        // Requests as late as they are where nobody waits for a processor, so that as many clients meet as will.
        let undisturbed =
            match predict(profile, &Machine::boundless(), &Cell { duration: BRIEF, ..*cell }, 1, self.stop) {
                Ok(outcome) => outcome.figures(),
                Err(error) => return Ok(Err(error)),
            };
        let each_ms = undisturbed.p50_ms / undisturbed.requests_per_operation.max(1.0);
        let latency = Span::from_nanos_f64(each_ms * 1e6);
        let machine = machine.working(cell, latency, self.stop).map_err(failed)?;
        Ok(predict(profile, &machine, cell, 1, self.stop))
    }
}
