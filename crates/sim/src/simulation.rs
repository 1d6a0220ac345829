//! Runs processes against stores until the horizon.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glidepath_env::{Key, Payload, Tag};
use glidepath_model::Instant;

use crate::agenda::{Agenda, Entry, Event, Order};
use crate::clock::{Process, SimEnv};
use crate::store::{Requests, SimStore, StoreId, StoreModel, StoreState};

/// When a private operation, one that nobody else can see, becomes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Never: the process adds its latency to its own clock and runs on. Same results, a quarter of the events.
    LocalClocks,
    /// Always. Needed where a fault may strike at any operation; and the yardstick for the other mode.
    EveryOperation,
}

/// All that a run depends on besides its processes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The same seed gives the same run.
    pub seed: u64,
    /// The end of virtual time. What would end after it has not ended.
    pub horizon: Instant,
    /// Ignored, and `EveryOperation`, where a store has faults.
    pub mode: Mode,
    /// The stores, by [`StoreId`].
    pub stores: Vec<StoreModel>,
}

/// What a run amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events processed, arrivals of processes included.
    pub events: u64,
    /// Processes that began.
    pub processes: u64,
    /// The most processes alive at one time.
    pub most_alive: u64,
}

/// One run.
pub struct Simulation {
    world: Rc<World>,
    tasks: Vec<Option<Task>>,
    free: Vec<u32>,
    counts: Counts,
}

struct Task {
    process: Rc<Process>,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

/// What processes share.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    pub(crate) agenda: RefCell<Agenda>,
    pub(crate) stores: RefCell<Vec<StoreState>>,
    pub(crate) requests: RefCell<Requests>,
}

impl World {
    pub(crate) fn schedule(&self, at: Instant, process: &Process, event: Event) {
        let order = Order::new(at, process.id, process.operations.get());
        self.agenda.borrow_mut().push(Entry { order, event });
    }
}

impl Simulation {
    /// A world with nobody in it.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let faulty = setup.stores.iter().any(|model| model.faults.any());
        let mode = if faulty { Mode::EveryOperation } else { setup.mode };
        let world = World {
            seed: setup.seed,
            mode,
            agenda: RefCell::new(Agenda::until(setup.horizon)),
            stores: RefCell::new(setup.stores.into_iter().map(StoreState::new).collect()),
            requests: RefCell::new(Requests::default()),
        };
        Self { world: Rc::new(world), tasks: Vec::new(), free: Vec::new(), counts: Counts::default() }
    }

    /// Puts an object into a store before the run begins, at no cost, and returns its tag.
    pub fn seed_object(&self, store: StoreId, key: &Key, payload: Payload) -> Tag {
        self.world.stores.borrow_mut()[store.0].seed(key, payload)
    }

    /// What a store holds now under a key, without a request.
    #[must_use]
    pub fn peek(&self, store: StoreId, key: &Key) -> Option<Payload> {
        self.world.stores.borrow()[store.0].peek(key)
    }

    /// From now on keeps every object version that is written to a store, for [`writes`](Self::writes).
    pub fn keep_writes(&self, store: StoreId) {
        self.world.stores.borrow_mut()[store.0].keep_writes();
    }

    /// What was written to a store since [`keep_writes`](Self::keep_writes), in the order in which it took effect.
    #[must_use]
    pub fn writes(&self, store: StoreId) -> Vec<Payload> {
        self.world.stores.borrow()[store.0].writes()
    }

    /// Runs until the horizon, or until nothing is left to happen. Processes begin at the times given, which must not
    /// fall; they are drawn from the iterator only as virtual time reaches them, so a run holds in memory only what is
    /// alive. A process is handed its view of the world; those alive at the end are dropped.
    pub fn run<P, F>(&mut self, arrivals: impl IntoIterator<Item = (Instant, P)>) -> Counts
    where
        P: FnOnce(SimEnv) -> F,
        F: Future<Output = ()> + 'static,
    {
        let mut arrivals = arrivals.into_iter().peekable();
        loop {
            let next_event = self.world.agenda.borrow_mut().next_at();
            // An arrival goes before an event of the same time, in both modes.
            let due = |at: Instant| next_event.is_none_or(|event| at <= event);
            if let Some((at, start)) = arrivals.next_if(|(at, _)| due(*at)) {
                self.begin(at, start);
            } else {
                let entry = self.world.agenda.borrow_mut().pop();
                let Some(entry) = entry else { break };
                self.happen(entry);
            }
            self.counts.events += 1;
        }
        self.tasks.clear();
        self.free.clear();
        self.counts
    }

    fn begin<P, F>(&mut self, at: Instant, start: P)
    where
        P: FnOnce(SimEnv) -> F,
        F: Future<Output = ()> + 'static,
    {
        self.counts.processes += 1;
        let id = u32::try_from(self.counts.processes).unwrap_or_else(|_| panic!("a run holds at most 2^32 processes"));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            (self.tasks.len() - 1) as u32
        });
        let process = Rc::new(Process::new(self.world.seed, id, slot, at));
        let env = SimEnv::new(Rc::clone(&self.world), Rc::clone(&process));
        let future = Box::pin(start(env));
        self.tasks[slot as usize] = Some(Task { process, future });
        let alive = (self.tasks.len() - self.free.len()) as u64;
        self.counts.most_alive = self.counts.most_alive.max(alive);
        self.poll(slot);
    }

    fn happen(&mut self, entry: Entry) {
        match entry.event {
            Event::Wake { task } => {
                if let Some(alive) = self.alive(task, entry.order.process()) {
                    alive.clock.set(alive.clock.get().max(entry.order.at()));
                    self.poll(task);
                }
            }
            Event::Arrive { request } => {
                if let Some(task) = SimStore::arrive(&self.world, request) {
                    self.poll(task);
                }
            }
            Event::Answer { request } => {
                if let Some(task) = SimStore::answer(&self.world, request) {
                    self.poll(task);
                }
            }
        }
    }

    /// The process in this slot, if it is still the one that scheduled the event.
    fn alive(&self, task: u32, process: u32) -> Option<&Process> {
        let task = self.tasks[task as usize].as_ref()?;
        (task.process.id == process).then_some(&*task.process)
    }

    fn poll(&mut self, slot: u32) {
        let Some(task) = &mut self.tasks[slot as usize] else { return };
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut context) {
            self.tasks[slot as usize] = None;
            self.free.push(slot);
        }
    }
}
