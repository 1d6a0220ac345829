//! What does a disk keep if the power fails at this call, or the call fails?
//!
//! A simulated disk keeps only what was synced: of the content of files, and of the names in folders. After a power
//! cut, each name and each write that was not synced survives at random; a write may be torn between its sectors. Any
//! call may fail. A sync that fails leaves the new content visible but not durable, and no later sync makes it durable;
//! a process that had the file or folder open before learns of the failure once. Several processes share a disk; their
//! locks end with them.
//!
//! Start with [`Disk`]; `kept` has the rule of what survives, `tree` the files and folders.

mod calls;
mod kept;
mod tree;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use glidepath_env::unit_interval;
use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::clock::SimEnv;
use crate::fault::Mishap;
use crate::luck::Stream;
pub use calls::{DiskFile, SimFiles};
use tree::Tree;

/// The faults of a disk and of the processes that use it: probabilities per call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskFaults {
    /// Any call fails (EIO); one that changes something has then changed nothing.
    pub io_error: f64,
    /// A sync fails, besides.
    pub failed_sync: f64,
    /// A call that needs room finds none (ENOSPC).
    pub full: f64,
    /// A file cannot be opened, because too many are open (EMFILE).
    pub many_files: f64,
    /// A read or write is cut short.
    pub short: f64,
    /// The process dies before the call.
    pub death: f64,
    /// The process is paused for `pause` before the call, whatever locks it holds.
    pub paused: f64,
    /// How long a process is paused.
    pub pause: Span,
}

impl DiskFaults {
    /// The probabilities, each with the name of its field.
    #[must_use]
    pub fn shares(&self) -> [(&'static str, f64); 7] {
        let Self { io_error, failed_sync, full, many_files, short, death, paused, pause: _ } = *self;
        [
            ("io_error", io_error),
            ("failed_sync", failed_sync),
            ("full", full),
            ("many_files", many_files),
            ("short", short),
            ("death", death),
            ("paused", paused),
        ]
    }
}

/// A disk. Clones are the same one.
#[derive(Clone)]
pub struct Disk(Rc<State>);

struct State {
    seed: u64,
    faults: Cell<DiskFaults>,
    tree: RefCell<Tree>,
    /// Calls until the power fails; `None` if it does not.
    left: Cell<Option<u64>>,
    cuts: Cell<u64>,
    /// Processes so far. They are counted across power cuts.
    processes: Cell<u64>,
    failures: Cell<u64>,
    /// Locks by the open file or folder that took them: the process, and what is locked.
    locks: RefCell<BTreeMap<u64, Lock>>,
    opened: Cell<u64>,
    /// When each file was last written, in milliseconds since 1970.
    written_ms: RefCell<BTreeMap<u64, u64>>,
    /// The time that had passed when the current simulation began.
    began: Cell<Span>,
    shown: RefCell<Vec<(String, Option<Vec<u8>>)>>,
    watched: RefCell<Option<String>>,
    mishaps: RefCell<Option<Vec<Mishap>>>,
}

#[derive(Clone, Copy)]
struct Lock {
    process: u64,
    node: u64,
}

impl Disk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(State {
            seed,
            faults: Cell::default(),
            tree: RefCell::default(),
            left: Cell::new(None),
            cuts: Cell::new(0),
            processes: Cell::new(0),
            failures: Cell::new(0),
            locks: RefCell::default(),
            opened: Cell::new(0),
            written_ms: RefCell::default(),
            began: Cell::new(Span::ZERO),
            shown: RefCell::default(),
            watched: RefCell::default(),
            mishaps: RefCell::default(),
        }))
    }

    /// Sets the faults from now on.
    pub fn suffer(&self, faults: DiskFaults) {
        self.0.faults.set(faults);
    }

    /// The next simulation begins when this time has passed since the first one began: its files are dated accordingly.
    pub fn begins_after(&self, passed: Span) {
        self.0.began.set(passed);
    }

    /// From now on records the visible content of files below a folder after each change, for
    /// [`changes`](Self::changes).
    pub fn watch(&self, folder: &str) {
        *self.0.watched.borrow_mut() = Some(folder.to_owned());
    }

    /// The recorded changes since the last call, in order: path and content, or no content if the file's name was
    /// removed.
    #[must_use]
    pub fn changes(&self) -> Vec<(String, Option<Vec<u8>>)> {
        self.0.shown.take()
    }

    /// All visible files, by path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.tree.borrow().files()
    }

    /// Calls that failed, and processes that died or were paused.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.0.failures.get()
    }

    /// From now on records every call with a fault, for [`mishaps`](Self::mishaps).
    pub fn keep_mishaps(&self) {
        self.0.mishaps.borrow_mut().get_or_insert_default();
    }

    /// The faults since the last call.
    #[must_use]
    pub fn mishaps(&self) -> Vec<Mishap> {
        self.0.mishaps.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The file system as a new process has it.
    #[must_use]
    pub fn process(&self, env: SimEnv) -> SimFiles {
        self.0.processes.set(self.0.processes.get() + 1);
        SimFiles::new(self.clone(), env, self.0.processes.get())
    }

    /// Cuts the power before the call of this number, counted from now on. From then on no call is answered.
    pub fn cut_before(&self, calls: u64) {
        self.0.left.set(Some(calls));
    }

    /// The power fails, if it has not failed before, and comes back: all processes are dead; the disk has what was
    /// synced, and of the rest a random part.
    pub fn restart(&self) {
        let state = &self.0;
        state.left.set(None);
        state.cuts.set(state.cuts.get() + 1);
        state.locks.borrow_mut().clear();
        let mut luck = Stream::keyed(state.seed, state.cuts.get(), CUTS);
        // Mostly some of it survives; sometimes all or nothing does.
        let share = [0.0, 1.0, 0.5, 0.5, 0.8][(luck.draw() % 5) as usize];
        state.tree.borrow_mut().cut(&mut || unit_interval(luck.draw()) < share);
    }

    /// Records what a path shows now, if a caller asked for it.
    fn note(&self, path: &Path) {
        let Some(path) = path.to_str() else { return };
        if self.0.watched.borrow().as_deref().is_none_or(|folder| !path.starts_with(folder)) {
            return;
        }
        let tree = self.0.tree.borrow();
        let content = tree.find(Path::new(path)).and_then(|node| tree.content(node)).map(<[u8]>::to_vec);
        self.0.shown.borrow_mut().push((path.to_owned(), content));
    }
}

/// Keys of the random streams of disks: of power cuts, and of calls.
const CUTS: u64 = 1 << 33;
const CALLS: u64 = 1 << 34;

#[cfg(test)]
mod tests;
