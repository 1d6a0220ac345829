//! What does a client do?

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Purpose, Table, unit_interval};
use glidepath_model::Span;
use glidepath_sim::{SimEnv, SimStore};
use glidepath_txn::service::{self, Service};
use glidepath_txn::table::{Options, Status};
use glidepath_txn::timestamps::{self, Allocator, AllocatorOptions, Residue, Sharing, TakeError};
use glidepath_txn::writer::Batches;
use glidepath_txn::{Division, Encoding, Limits, Outcome, Planner, Timestamp};

use super::judge::Told;
use crate::scenario::Writers;

/// A table name for each encoding.
pub(super) const TABLES: [&str; 3] = ["first", "second", "third"];

/// Where the bound of timestamps is.
const TIMESTAMPS: &str = "timestamps";

/// How long a slow transaction takes, and how long another waits before it settles it.
const SLOW: Span = Span::from_secs(20);
const GRACE: Span = Span::from_secs(5);

/// These waits of a transaction and a read, on average: a fifth are slow, and a quarter of the reads settle.
pub(super) const PAUSES: Span = Span::from_secs(5);

/// Start timestamps by which the bound of the map is raised: few, so that tables change within a run.
const QUANTUM: u64 = 40;

/// What the clients of one process share.
#[derive(Clone)]
pub(super) struct House {
    encodings: [Encoding; 3],
    service: Rc<RefCell<Option<Arc<service::Shared>>>>,
    allocator: Rc<RefCell<Option<Arc<timestamps::Shared>>>>,
    batches: Batches,
}

impl House {
    pub(super) fn new(encodings: [Encoding; 3]) -> Self {
        Self { encodings, service: Rc::default(), allocator: Rc::default(), batches: Batches::new() }
    }

    pub(super) fn encodings(&self) -> [Encoding; 3] {
        self.encodings
    }
}

/// What a client is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Commits,
    /// Commits, and installs tables meanwhile.
    Installs,
    /// Writes the batches of its house.
    Writes,
}

pub(super) struct Client {
    pub(super) env: SimEnv,
    pub(super) store: SimStore,
    /// Of the process, from 0 on.
    pub(super) number: u32,
    pub(super) house: House,
    pub(super) told: Rc<RefCell<Told>>,
    pub(super) writers: Writers,
}

type Served = Service<SimEnv, SimStore>;

impl Client {
    pub(super) async fn live(&self, role: Role) {
        if role == Role::Writes {
            if let Ok(writer) = self.house.batches.writer(self.env.clone(), self.store.clone()) {
                writer.serve().await;
            }
            return;
        }
        let Some(service) = self.service().await else { return };
        for number in 0..self.writers.commits {
            self.pause().await;
            if role == Role::Installs && number % 4 == 3 {
                let next = (number as usize / 4 + 1) % TABLES.len();
                if let Some(table) = Table::new(TABLES[next]) {
                    // Whether it worked is no matter.
                    let installed = service.install(table, self.house.encodings[next]).await;
                    self.say(|| format!("has installed table {}: {installed:?}", TABLES[next]));
                }
            }
            self.transact(&service).await;
            self.look(&service).await;
        }
    }

    async fn transact(&self, service: &Served) {
        let Some(start) = self.timestamp().await else { return };
        self.told.borrow_mut().began(start);
        if self.chance(0.2) {
            // Slow enough that others settle it.
            self.env.sleep_until(self.env.now() + SLOW).await;
        }
        let Some(commit) = self.timestamp().await else { return };
        let outcome = if self.chance(0.1) { Outcome::Aborted } else { Outcome::Committed(commit) };
        self.told.borrow_mut().asked(start, outcome);
        self.say(|| format!("is to end transaction {start}: {outcome:?}"));
        let decided = match service.table_of(start).await {
            Ok(table) if self.writers.shared > 2 => self.house.batches.decide(&table, start, outcome).await,
            Ok(table) => table.decide(start, outcome).await,
            Err(_) => return,
        };
        self.say(|| format!("gets the answer to the end of transaction {start}: {decided:?}"));
        self.told.borrow_mut().decided(start, outcome, decided.as_ref(), self.env.world_now());
    }

    /// Reads as a transaction does that finds data of others.
    async fn look(&self, service: &Served) {
        let Some(at) = self.timestamp().await else { return };
        let known = self.told.borrow().known(|| self.env.draw(Purpose::Tables));
        let began = self.env.world_now();
        match self.env.draw(Purpose::Tables) % 4 {
            0 => {
                let Some(start) = known.first() else { return };
                if let Ok(outcome) = service.settle(*start, GRACE).await {
                    self.say(|| format!("has settled transaction {start}: {outcome:?}"));
                    let mut told = self.told.borrow_mut();
                    told.saw(*start, Status::Ended(outcome), began, self.env.world_now());
                    told.resolved(*start, at, outcome);
                }
            }
            1 => {
                let Some(start) = known.first() else { return };
                if let Ok(status) = service.get(*start).await {
                    self.say(|| format!("has read transaction {start}: {status:?}"));
                    self.told.borrow_mut().saw(*start, status, began, self.env.world_now());
                }
            }
            2 => {
                if let Ok(found) = service.get_many(&known).await {
                    self.say(|| format!("has read transactions {known:?}: {found:?}"));
                    let mut told = self.told.borrow_mut();
                    known
                        .iter()
                        .zip(found)
                        .for_each(|(start, status)| told.saw(*start, status, began, self.env.world_now()));
                }
            }
            _ => self.scan(service, at).await,
        }
    }

    async fn scan(&self, service: &Served, to: Timestamp) {
        let began = self.env.world_now();
        let Ok(tables) = service.tables_of(Timestamp::FIRST..=to).await else { return };
        let mut found = Vec::new();
        let mut whole = Vec::new();
        for (table, range) in tables {
            whole.push(range.clone());
            let mut scan = table.scan(range, 5);
            loop {
                match scan.next().await {
                    Ok(Some(page)) => found.extend(page),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
        self.say(|| format!("has scanned {} transactions up to {to}", found.len()));
        let mut told = self.told.borrow_mut();
        told.scanned(&whole, &found, began, self.env.world_now());
    }

    async fn service(&self) -> Option<Served> {
        self.service_with(Limits { cross_column: 2, single_query: 3 }).await
    }

    pub(super) async fn service_with(&self, limits: Limits) -> Option<Served> {
        for _ in 0..20 {
            if let Some(shared) = self.house.service.borrow().as_ref() {
                return Some(Service::with(self.env.clone(), self.store.clone(), Arc::clone(shared)));
            }
            let planner = Planner::new(limits).ok()?;
            let division =
                [Division::PerColumn, Division::Full, Division::Selective][self.env.draw(Purpose::Tables) as usize % 3];
            let options = Options { division, planner, cached: 8, parallel: 3 };
            let first = (Table::new(TABLES[0])?, self.house.encodings[0]);
            if let Ok(service) = Service::create(self.env.clone(), self.store.clone(), "main", first, options).await {
                service.set_quantum(QUANTUM);
                self.house.service.borrow_mut().get_or_insert_with(|| Arc::clone(service.shared()));
            }
        }
        None
    }

    /// One timestamp, of a residue or not.
    pub(super) async fn timestamp(&self) -> Option<Timestamp> {
        for _ in 0..20 {
            let allocator = self.allocator().await?;
            let floor = self.told.borrow().highest();
            let taken = if self.chance(0.3) {
                let residue = Residue { modulus: 4, remainder: self.env.draw(Purpose::Tables) % 4 };
                allocator.take_residue(1, residue).await.map(|mut taken| taken.next())
            } else {
                allocator.take(1).await.map(|run| run.iter().next())
            };
            match taken {
                Ok(taken) => {
                    let taken = taken?;
                    self.told.borrow_mut().given(taken, floor);
                    return Some(taken);
                }
                Err(TakeError::Fenced { .. }) => {
                    let mut current = self.house.allocator.borrow_mut();
                    if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, allocator.shared())) {
                        *current = None;
                    }
                }
                Err(_) => {}
            }
            self.pause().await;
        }
        None
    }

    pub(super) async fn allocator(&self) -> Option<Allocator<SimEnv, SimStore>> {
        // Now and then another one takes over.
        let anew = self.chance(0.02);
        if let Some(shared) = self.house.allocator.borrow().as_ref().filter(|_| !anew) {
            return Some(Allocator::with(self.env.clone(), self.store.clone(), Arc::clone(shared)));
        }
        let options = AllocatorOptions { allotment: 10, sharing: Sharing::Shared };
        for _ in 0..20 {
            let table = Table::new(TIMESTAMPS)?;
            if let Ok(opened) = Allocator::open(self.env.clone(), self.store.clone(), table, options).await {
                *self.house.allocator.borrow_mut() = Some(Arc::clone(opened.shared()));
                return Some(opened);
            }
        }
        None
    }

    async fn pause(&self) {
        let share = unit_interval(self.env.draw(Purpose::Backoff));
        let pause = Span::from_secs_f64(self.writers.pause.as_secs_f64() * share);
        self.env.sleep_until(self.env.now() + pause).await;
    }

    /// For a trace.
    pub(super) fn say(&self, words: impl FnOnce() -> String) {
        self.told.borrow_mut().line(self.env.world_now(), self.number, words);
    }

    pub(super) fn chance(&self, share: f64) -> bool {
        unit_interval(self.env.draw(Purpose::Transaction)) < share
    }
}
