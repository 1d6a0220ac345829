//! How does a run proceed? Processes run against stores until the horizon.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use bytes::Bytes;
use glidepath_env::{Cell as RowCell, Key, Payload, Table, Tag};
use glidepath_model::Instant;

use crate::agenda::{Agenda, Entry, Event, Order};
use crate::clock::{Process, SimEnv};
use crate::fault::{Faults, Mishap};
use crate::machine::Machine;
use crate::store::{CellWritten, Requests, SimStore, StoreId, StoreModel, StoreState, Written};

/// When a private operation, which no other process can see, becomes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never: the process adds the latency to its own clock and continues. Same results, a quarter of the events.
    LocalClocks,
    /// Always. Needed if any operation may have a fault; also the reference for the other mode.
    EveryOperation,
}

/// The parameters of a run, without its processes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The same seed gives the same run.
    pub seed: u64,
    /// The end of virtual time, unless a process [ends the run](SimEnv::end_run_after) earlier. Work that would end
    /// after it counts as not ended.
    pub horizon: Instant,
    /// Ignored if a store has faults: then it is `EveryOperation`.
    pub mode: Mode,
    /// The stores, by [`StoreId`].
    pub stores: Vec<StoreModel>,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events processed, arrivals of processes included.
    pub events: u64,
    /// Processes that began.
    pub processes: u64,
    /// The most processes alive at one time.
    pub most_alive: u64,
    /// Requests with a fault.
    pub faults: u64,
    /// Processes that had not ended when the run did. In a run without faults and without load they wait for what never
    /// happens.
    pub unfinished: u64,
}

/// Scheduled events between two checks whether to continue.
const BETWEEN_QUESTIONS: u64 = 64;

/// One run.
pub struct Simulation {
    world: Rc<World>,
    counts: Counts,
}

/// State shared by all processes.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    pub(crate) agenda: RefCell<Agenda>,
    pub(crate) stores: RefCell<Vec<StoreState>>,
    pub(crate) requests: RefCell<Requests>,
    /// The place of the current event.
    pub(crate) turn: Cell<Order>,
    /// When the next process may begin.
    next_arrival: Cell<Instant>,
    /// The end of the run: the horizon, unless a process asked for an earlier end.
    pub(crate) end: Cell<Instant>,
    /// Events that were processed without having been scheduled.
    unscheduled: Cell<u64>,
    woken: Arc<Woken>,
    pub(crate) faults: Cell<u64>,
    pub(crate) mishaps: RefCell<Option<Vec<Mishap>>>,
    /// The faults of clocks; `None` if there are none.
    clock_faults: Option<Faults>,
    machines: RefCell<Vec<Rc<Machine>>>,
    /// The number of consecutive processes that share a machine.
    processes_a_machine: Cell<u32>,
}

impl World {
    /// Schedules the event of the process's current operation, and returns its place in the order of events.
    pub(crate) fn schedule(&self, at: Instant, process: &Process, event: Event) -> Order {
        let order = Order::new(at, process.id, process.operations.get());
        self.agenda.borrow_mut().push(Entry { order, event });
        order
    }

    fn machine_of(&self, process: u32) -> Option<Rc<Machine>> {
        let faults = self.clock_faults?;
        let index = ((process - 1) / self.processes_a_machine.get()) as usize;
        let mut machines = self.machines.borrow_mut();
        while machines.len() <= index {
            let number = machines.len() as u64 + 1;
            machines.push(Rc::new(Machine::new(self.seed, number, faults)));
        }
        machines.get(index).cloned()
    }

    /// Like [`schedule`](Self::schedule), for the turn of the running process. If that turn would be the next event, it
    /// happens now, without waiting.
    #[inline]
    pub(crate) fn take_turn(&self, at: Instant, process: &Process) -> Order {
        let order = Order::new(at, process.id, process.operations.get());
        // Processes that it has woken continue at the time that its clock shows when it next waits.
        let alone = at < self.next_arrival.get() && !self.woken.any.load(Ordering::Relaxed);
        if alone && self.agenda.borrow().is_next(order) {
            self.turn.set(order);
            self.unscheduled.set(self.unscheduled.get() + 1);
            return order;
        }
        self.schedule(at, process, Event::Turn { task: process.task })
    }
}

impl Simulation {
    /// A world without processes.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let faulty = setup.stores.iter().any(|model| model.faults.any());
        let clock_faults = setup.stores.iter().map(|model| model.faults).find(Faults::of_clocks);
        let mode = if faulty { Mode::EveryOperation } else { setup.mode };
        let world = World {
            seed: setup.seed,
            mode,
            agenda: RefCell::new(Agenda::until(setup.horizon)),
            stores: RefCell::new(setup.stores.into_iter().map(StoreState::new).collect()),
            requests: RefCell::new(Requests::default()),
            turn: Cell::new(Order::new(Instant::ZERO, 0, 0)),
            next_arrival: Cell::new(Instant::ZERO),
            end: Cell::new(Instant::from_nanos(u64::MAX)),
            unscheduled: Cell::new(0),
            woken: Arc::default(),
            faults: Cell::new(0),
            mishaps: RefCell::new(None),
            clock_faults,
            machines: RefCell::default(),
            processes_a_machine: Cell::new(1),
        };
        Self { world: Rc::new(world), counts: Counts::default() }
    }

    /// From now on, each `processes` (at least one) consecutive processes share a machine: its clocks and its sleep.
    pub fn share_machines(&self, processes: u32) {
        self.world.processes_a_machine.set(processes.max(1));
    }

    /// Puts an object into a store before the run begins, at no cost, and returns its tag.
    pub fn seed_object(&self, store: StoreId, key: &Key, payload: Payload) -> Tag {
        self.world.stores.borrow_mut()[store.0].seed(key, payload)
    }

    /// Makes a table in a store before the run begins, at no cost.
    pub fn seed_table(&self, store: StoreId, table: Table) {
        self.world.stores.borrow_mut()[store.0].seed_table(table);
    }

    /// Gives a cell of a store a value before the run begins, at no cost.
    pub fn seed_cell(&self, store: StoreId, table: &Table, cell: RowCell, value: Bytes) {
        self.world.stores.borrow_mut()[store.0].seed_cell(table, cell, value);
    }

    /// What a store holds now under a key, without a request.
    #[must_use]
    pub fn peek(&self, store: StoreId, key: &Key) -> Option<Payload> {
        self.world.stores.borrow()[store.0].peek(key)
    }

    /// All objects that a store holds now, by key, without a request.
    #[must_use]
    pub fn objects(&self, store: StoreId) -> BTreeMap<Key, Payload> {
        self.world.stores.borrow()[store.0].objects()
    }

    /// From now on keeps every object version that is written to a store, for [`writes`](Self::writes), and every value
    /// of a cell, for [`cells_written`](Self::cells_written).
    pub fn keep_writes(&self, store: StoreId) {
        self.world.stores.borrow_mut()[store.0].keep_writes();
    }

    /// The writes to a store since [`keep_writes`](Self::keep_writes), in the order in which they took effect.
    #[must_use]
    pub fn writes(&self, store: StoreId) -> Vec<Payload> {
        let stores = self.world.stores.borrow();
        stores[store.0].writes().iter().filter_map(|write| write.object.clone()).collect()
    }

    /// The same, each with its key. An append is recorded as the whole object after it.
    #[must_use]
    pub fn written(&self, store: StoreId) -> Vec<(Key, Payload)> {
        let stores = self.world.stores.borrow();
        let written = |write: &Written| Some((write.key.clone(), write.object.clone()?));
        stores[store.0].writes().iter().filter_map(written).collect()
    }

    /// The same, including deletes, each with its time and its sender.
    #[must_use]
    pub fn journal(&self, store: StoreId) -> Vec<Written> {
        self.world.stores.borrow()[store.0].writes().to_vec()
    }

    /// What linearizable reads of a cell would show now, but for a write that is half done; without a request.
    #[must_use]
    pub fn peek_cell(&self, store: StoreId, table: &Table, cell: &RowCell) -> Option<Bytes> {
        self.world.stores.borrow()[store.0].look_at_tables().peek(table, cell)
    }

    /// The same of all cells of a table; none where there is no such table.
    #[must_use]
    pub fn cells(&self, store: StoreId, table: &Table) -> BTreeMap<RowCell, Bytes> {
        self.world.stores.borrow()[store.0].look_at_tables().cells(table)
    }

    /// Every value that a write gave to a cell of a store since [`keep_writes`](Self::keep_writes), in the order in
    /// which they took effect. What changes nothing that reads show is left out: a conditional write of a final cell, a
    /// final value again, or one of a lower rank.
    #[must_use]
    pub fn cells_written(&self, store: StoreId) -> Vec<CellWritten> {
        self.world.stores.borrow()[store.0].look_at_tables().written().to_vec()
    }

    /// From now on records every request with a fault, for [`mishaps`](Self::mishaps).
    pub fn keep_mishaps(&self) {
        self.world.mishaps.borrow_mut().get_or_insert_default();
    }

    /// The requests with a fault since [`keep_mishaps`](Self::keep_mishaps), in the order in which they were sent.
    #[must_use]
    pub fn mishaps(&self) -> Vec<Mishap> {
        self.world.mishaps.borrow().clone().unwrap_or_default()
    }

    /// Runs until the horizon, or until a process [ends](SimEnv::end_run_after) the run, or until nothing is left to
    /// happen. Processes begin at the given times, which must not decrease. They are taken from the iterator when
    /// virtual time reaches them, so memory holds live processes only. Each process gets its view of the world; those
    /// alive at the end are dropped.
    pub fn run<P, F>(&mut self, arrivals: impl IntoIterator<Item = (Instant, P)>) -> Counts
    where
        P: FnOnce(SimEnv) -> F,
        F: Future<Output = ()> + 'static,
    {
        self.run_while(arrivals, |_| true)
    }

    /// The same, but asks `go_on` after every 64 scheduled events whether to continue, with the number of events so
    /// far. If the answer is no, the run ends there, as if the horizon were reached.
    pub fn run_while<P, F>(
        &mut self,
        arrivals: impl IntoIterator<Item = (Instant, P)>,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Counts
    where
        P: FnOnce(SimEnv) -> F,
        F: Future<Output = ()> + 'static,
    {
        let mut arrivals = arrivals.into_iter();
        let mut next_arrival = arrivals.next();
        let mut tasks = Tasks { world: Rc::clone(&self.world), slots: Vec::new(), free: Vec::new() };
        loop {
            // An arrival goes before an event of the same time, in both modes.
            let until = next_arrival.as_ref().map(|(at, _)| *at);
            self.world.next_arrival.set(until.unwrap_or(Instant::from_nanos(u64::MAX)));
            let entry = self.world.agenda.borrow_mut().pop_before(until);
            let next = entry.map(|entry| entry.order.at()).or(until);
            if next.is_none_or(|at| at > self.world.end.get()) {
                break;
            }
            if let Some(entry) = entry {
                tasks.happen(entry);
            } else if let Some((at, start)) = next_arrival {
                self.counts.processes += 1;
                tasks.begin(self.counts.processes, at, start);
                self.counts.most_alive = self.counts.most_alive.max(tasks.alive() as u64);
                next_arrival = arrivals.next();
            }
            self.counts.events += 1;
            if self.counts.events.is_multiple_of(BETWEEN_QUESTIONS)
                && !go_on(self.counts.events + self.world.unscheduled.get())
            {
                break;
            }
        }
        self.counts.faults = self.world.faults.get();
        self.counts.unfinished = tasks.alive() as u64;
        self.counts.events += self.world.unscheduled.take();
        self.counts
    }
}

/// The processes of a run, each in a slot.
struct Tasks<F> {
    world: Rc<World>,
    slots: Vec<Task<F>>,
    free: Vec<u32>,
}

struct Task<F> {
    /// `None` where the slot is free.
    alive: Option<Alive>,
    /// The allocation outlives the process: the next process in this slot reuses it.
    future: Pin<Box<Option<F>>>,
}

struct Alive {
    /// Of the process.
    id: u32,
    process: Rc<Process>,
    waker: Waker,
}

impl<F: Future<Output = ()>> Tasks<F> {
    /// How many there are.
    fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn begin(&mut self, number: u64, at: Instant, start: impl FnOnce(SimEnv) -> F) {
        let id = u32::try_from(number).unwrap_or_else(|_| panic!("a run holds at most 2^32 processes"));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Task { alive: None, future: Box::pin(None) });
            (self.slots.len() - 1) as u32
        });
        let machine = self.world.machine_of(id);
        let process = Rc::new(Process::new(self.world.seed, id, slot, at, machine));
        let env = SimEnv::new(Rc::clone(&self.world), Rc::clone(&process));
        let waker = Waker::from(Arc::new(ProcessWaker(Arc::clone(&self.world.woken), slot, id)));
        let task = &mut self.slots[slot as usize];
        task.future.set(Some(start(env)));
        task.alive = Some(Alive { id, process, waker });
        self.poll(slot);
    }

    fn happen(&mut self, entry: Entry) {
        self.world.turn.set(entry.order);
        let task = match entry.event {
            Event::Turn { task } => self.find(task, entry.order.process()).map(|_| task),
            Event::Wake { task } => match self.find(task, entry.order.process()) {
                None => None,
                Some(alive) => match alive.process.asleep_until(entry.order.at()) {
                    None => {
                        alive.process.reach(entry.order.at());
                        Some(task)
                    }
                    Some(awake) => {
                        self.world.schedule(awake, &alive.process, entry.event);
                        None
                    }
                },
            },
            Event::Arrive { request } => {
                SimStore::arrive(&self.world, request);
                None
            }
            Event::Answer { request } => SimStore::answer(&self.world, request),
        };
        if let Some(task) = task {
            self.poll(task);
        }
    }

    /// The process in this slot, if it is still the one that scheduled the event.
    fn find(&self, slot: u32, process: u32) -> Option<&Alive> {
        self.slots[slot as usize].alive.as_ref().filter(|alive| alive.id == process)
    }

    fn poll(&mut self, slot: u32) {
        let Task { alive: Some(alive), future } = &mut self.slots[slot as usize] else { return };
        let Some(running) = future.as_mut().as_pin_mut() else { return };
        let ended = running.poll(&mut Context::from_waker(&alive.waker)).is_ready();
        let clock = alive.process.clock.get();
        if ended {
            let task = &mut self.slots[slot as usize];
            task.future.set(None);
            task.alive = None;
            self.free.push(slot);
        }
        if self.world.woken.any.load(Ordering::Relaxed) {
            self.wake_others(clock);
        }
    }

    /// Processes that a process has woken continue at the time that its clock shows.
    fn wake_others(&self, clock: Instant) {
        self.world.woken.any.store(false, Ordering::Relaxed);
        let woken = std::mem::take(&mut *self.world.woken.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for (slot, id) in woken {
            if let Some(alive) = self.find(slot, id) {
                alive.process.count_operation();
                self.world.schedule(clock, &alive.process, Event::Wake { task: slot });
            }
        }
    }
}

/// Processes that others have woken, in the order of waking. The locks are needed because the contract of wakers allows
/// sending them to other threads, although none is sent.
#[derive(Default)]
struct Woken {
    any: AtomicBool,
    tasks: Mutex<Vec<(u32, u32)>>,
}

/// Wakes one process: its slot and number.
struct ProcessWaker(Arc<Woken>, u32, u32);

impl Wake for ProcessWaker {
    fn wake(self: Arc<Self>) {
        let Self(woken, slot, id) = &*self;
        woken.tasks.lock().unwrap_or_else(PoisonError::into_inner).push((*slot, *id));
        woken.any.store(true, Ordering::Relaxed);
    }
}
