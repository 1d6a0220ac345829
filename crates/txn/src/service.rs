//! Which table is a transaction in, while the tables are being changed under way?
//!
//! A service has one table at first. To move to another (another encoding, other parameters), a new one is *installed*:
//! transactions that start late enough go to it, and those that started before stay where they are, for ever. Nothing
//! is copied.
//!
//! One cell holds the *map*: ranges of start timestamps, each with its table, and a *bound*. Two rules keep every
//! process to one table for each start timestamp:
//!
//! - Whoever looks up a start timestamp needs a map whose bound is not below it. A process keeps the map with the
//!   highest bound that it has seen.
//! - A change of the map changes nothing at or below the bound.
//!
//! Steps of a lookup:
//!
//! 1. The map that is kept reaches to the timestamp: its range says the table.
//! 2. Else read the cell, by a linearizable read.
//! 3. That map does not reach to it either: raise its bound by compare-and-set, to the timestamp and a quantum more.
//!    Whoever is first, one map of that bound is there. Go to 2.
//!
//! To install a table: the last range ends at the bound, and the new table has all start timestamps behind it. This is
//! one compare-and-set. A change whose outcome is unknown is settled by reading back: each change has random bits of
//! its own. So a new table is used from the next quantum on; until then the old one is.
//!
//! Only look up start timestamps that were given out: the bound follows the highest one that was asked for.

mod map;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_env::{Cause, Cell, ConditionError, Env, KvReadError, KvStore, Purpose, ReadLevel, Table, together};
use glidepath_model::Span;

use crate::mutant::{self, Mutant};
use crate::names;
use crate::table::{self, DecideError, GetError, OpenError, Options, Status, Transactions};
use crate::{Encoding, Outcome, Timestamp};
use glidepath_env::settling::{self, ROUNDS};
use map::Map;

pub use map::Range;

/// Start timestamps by which the bound is raised, unless told otherwise. AtlasDB's quantum is 5,000,000.
pub const QUANTUM: u64 = 5_000_000;

/// Why a table was not found, or a service not created, opened or changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no service of this name.
    #[error("there is no transaction service {0:?}: create it first")]
    NoService(String),
    /// No service has such a name.
    #[error("a transaction service is named by letters, digits and _, at most {longest}, first a letter or _; found {0:?}",
        longest = names::LONGEST)]
    Name(String),
    /// One of its tables cannot be opened, or was not made.
    #[error(transparent)]
    Table(#[from] OpenError),
    /// There is none of this name, although there was.
    #[error(
        "the map of the transaction service {name:?} is lost: timestamps up to {highest} were given out, and which table has which \
         transactions is not known. Put the table glidepath_services back from a backup, or create a service of another name"
    )]
    Lost {
        /// The service.
        name: String,
        /// Timestamps up to this one may have been given out.
        highest: u64,
    },
    /// The map is not what this program writes.
    #[error("the map of the transaction service {name:?} cannot be read: {found}")]
    Unreadable {
        /// The service.
        name: String,
        /// What is wrong.
        found: String,
    },
    /// The map may have been changed, or may be later: the store did not say. To do the same again is safe.
    #[error("whether the map of the transaction service {name:?} was changed is unknown: {cause}")]
    Unknown {
        /// The service.
        name: String,
        /// Why.
        cause: Cause,
    },
    /// The store does not answer, or refuses. To install a table again is safe: it is installed once.
    #[error("the store of the transaction service {name:?} failed: {cause}")]
    Store {
        /// The service.
        name: String,
        /// Why.
        cause: Cause,
    },
}

impl From<ServiceError> for DecideError {
    /// Nothing was sent to a table of transactions.
    fn from(error: ServiceError) -> Self {
        let passes = matches!(error, ServiceError::Store { .. } | ServiceError::Unknown { .. });
        let denial = glidepath_env::Denial::certain(Cause::from_error(error));
        Self::Refused(if passes { denial.passing() } else { denial })
    }
}

impl From<ServiceError> for GetError {
    fn from(error: ServiceError) -> Self {
        Self::Store(KvReadError::Failed(Cause::from_error(error)))
    }
}

/// A handle to a transaction service: its tables, by start timestamp. Share it by reference among tasks and threads, or
/// make [others](Self::with).
#[derive(Clone)]
pub struct Service<E, K> {
    env: E,
    store: K,
    shared: Arc<Shared>,
}

/// What all handles of a process to one service share.
#[derive(Debug)]
pub struct Shared {
    name: String,
    options: Options,
    quantum: AtomicU64,
    known: Mutex<Known>,
}

/// Items that are about transactions of one table.
type Part<E, K, T> = (Transactions<E, K>, Vec<T>);

/// What a process keeps of a service.
#[derive(Debug)]
struct Known {
    /// The map with the highest bound that was seen.
    map: Map,
    tables: BTreeMap<Table, Arc<table::Shared>>,
}

impl<E: Env + Clone, K: KvStore + Clone> Service<E, K> {
    /// Creates a service whose transactions are in one table of this encoding, or opens it if there is one of this
    /// name, whatever its tables. May be repeated, by anybody, at any time.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn create(
        env: E,
        store: K,
        name: &str,
        (table, encoding): (Table, Encoding),
        options: Options,
    ) -> Result<Self, ServiceError> {
        if !names::is_service(name) {
            return Err(ServiceError::Name(name.to_owned()));
        }
        let maps = maps().ok_or_else(|| failed(name, Cause::words("the table of maps has no name")))?;
        table::make(&env, &store, &maps).await.map_err(|cause| failed(name, cause))?;
        // Timestamps are given out after a service is made. So where some were, a map that is not there was lost.
        let given_out = given_out(&env, &store, name).await?;
        if read(&env, &store, name).await?.is_some() {
            return Self::open(env, store, name, options).await;
        }
        if let Some(bound) = given_out {
            return Err(ServiceError::Lost { name: name.to_owned(), highest: bound - 1 });
        }
        let first = Map::first(table.clone(), change(&env));
        table::claim(&env, &store, &table, name).await?;
        Transactions::create(env.clone(), store.clone(), table, encoding, options).await?;
        set(&env, &store, name, None, &first).await?;
        Self::open(env, store, name, options).await
    }

    /// Opens a service that was created before.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn open(env: E, store: K, name: &str, options: Options) -> Result<Self, ServiceError> {
        let (map, _) = read(&env, &store, name).await?.ok_or_else(|| ServiceError::NoService(name.to_owned()))?;
        let known = Mutex::new(Known { map, tables: BTreeMap::new() });
        let (name, quantum) = (name.to_owned(), AtomicU64::new(QUANTUM));
        Ok(Self { env, store, shared: Arc::new(Shared { name, options, quantum, known }) })
    }

    /// A handle to the same service, for a task with this view of the world.
    #[must_use]
    pub fn with(env: E, store: K, shared: Arc<Shared>) -> Self {
        Self { env, store, shared }
    }

    /// What its handles share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// From now on this process raises the bound by so many start timestamps, at least 1.
    pub fn set_quantum(&self, quantum: u64) {
        self.shared.quantum.store(quantum.max(1), Ordering::Relaxed);
    }

    /// The tables, oldest first, as this process last saw them.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range> {
        self.known().map.ranges().to_vec()
    }

    /// No start timestamp above it was looked up yet, as this process last saw it; 0 if none was.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.known().map.bound()
    }

    /// How one of its tables is encoded.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn encoding_of(&self, table: &Table) -> Result<Encoding, ServiceError> {
        Ok(self.opened(table.clone()).await?.encoding())
    }

    /// The table of transactions that started then: steps 1 to 3.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn table_of(&self, start: Timestamp) -> Result<Transactions<E, K>, ServiceError> {
        let mut round = 0;
        loop {
            let table = self.known().map.table_of(start).cloned();
            if let Some(table) = table {
                return self.opened(table).await;
            }
            let (map, stored) = self.read().await?;
            if map.table_of(start).is_none() {
                if round == ROUNDS {
                    return Err(failed(
                        &self.shared.name,
                        Cause::words("other processes changed the map each time it was to be raised"),
                    ));
                }
                round += 1;
                let raised = map.raised(start, self.shared.quantum.load(Ordering::Relaxed), change(&self.env));
                set(&self.env, &self.store, &self.shared.name, Some(&stored), &raised).await?;
                continue;
            }
            self.learn(map);
        }
    }

    /// Transactions that start late enough go to this table, which is made if it does not exist. Nothing changes where
    /// the last table is this one already. Answers from which start timestamp on it is used.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn install(&self, table: Table, encoding: Encoding) -> Result<Timestamp, ServiceError> {
        table::claim(&self.env, &self.store, &table, &self.shared.name).await?;
        Transactions::create(self.env.clone(), self.store.clone(), table.clone(), encoding, self.shared.options)
            .await?;
        // What the last change became is read too.
        for round in 0..=ROUNDS {
            let (map, stored) = self.read().await?;
            self.learn(map.clone());
            if let Some(from) = map.last_if(&table) {
                return Ok(from);
            }
            if round == ROUNDS {
                break;
            }
            let Some(changed) = map.with(table.clone(), change(&self.env)) else {
                return Err(failed(&self.shared.name, Cause::words("no start timestamps are left")));
            };
            set(&self.env, &self.store, &self.shared.name, Some(&stored), &changed).await?;
            if round > 0 {
                settling::wait(&self.env, round).await;
            }
        }
        Err(failed(
            &self.shared.name,
            Cause::words("other processes changed the map each time the table was to be installed"),
        ))
    }

    /// As [`Transactions::get`].
    ///
    /// # Errors
    /// [`GetError`]
    pub async fn get(&self, start: Timestamp) -> Result<Status, GetError> {
        self.table_of(start).await?.get(start).await
    }

    /// As [`Transactions::get_many`].
    ///
    /// # Errors
    /// [`GetError`]: of none then.
    pub async fn get_many(&self, starts: &[Timestamp]) -> Result<Vec<Status>, GetError> {
        let parts = self.by_table(starts.iter().copied().enumerate(), |(_, start)| *start).await?;
        let get = |(table, part): Part<E, K, (usize, Timestamp)>| async move {
            let starts: Vec<_> = part.iter().map(|(_, start)| *start).collect();
            let found = table.get_many(&starts).await?;
            Ok(part.into_iter().zip(found).map(|((place, _), status)| (place, status)).collect::<Vec<_>>())
        };
        let found = together(self.shared.options.parallel, parts.into_iter().map(get)).await;
        let mut statuses = vec![Status::InProgress; starts.len()];
        for part in found {
            let part: Result<_, GetError> = part;
            part?.into_iter().for_each(|(place, status)| statuses[place] = status);
        }
        Ok(statuses)
    }

    /// As [`Transactions::decide`].
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn decide(&self, start: Timestamp, outcome: Outcome) -> Result<Outcome, DecideError> {
        self.table_of(start).await?.decide(start, outcome).await
    }

    /// As [`Transactions::settle`].
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn settle(&self, start: Timestamp, grace: Span) -> Result<Outcome, DecideError> {
        self.table_of(start).await?.settle(start, grace).await
    }

    /// The tables that have transactions which started in this range, each with its part of the range, oldest first: to
    /// scan one after another.
    ///
    /// # Errors
    /// [`ServiceError`]
    pub async fn tables_of(
        &self,
        range: RangeInclusive<Timestamp>,
    ) -> Result<Vec<(Transactions<E, K>, RangeInclusive<Timestamp>)>, ServiceError> {
        // What is behind the bound of the newest map has not started.
        let (map, _) = self.read().await?;
        let parts = map.parts(range);
        self.learn(map);
        let mut tables = Vec::with_capacity(parts.len());
        for (table, part) in parts {
            tables.push((self.opened(table).await?, part));
        }
        Ok(tables)
    }

    async fn by_table<T>(
        &self,
        items: impl Iterator<Item = T>,
        start: impl Fn(&T) -> Timestamp,
    ) -> Result<Vec<Part<E, K, T>>, ServiceError> {
        let mut parts: BTreeMap<Table, Part<E, K, T>> = BTreeMap::new();
        for item in items {
            let table = self.table_of(start(&item)).await?;
            parts.entry(table.name().clone()).or_insert_with(|| (table, Vec::new())).1.push(item);
        }
        Ok(parts.into_values().collect())
    }

    async fn opened(&self, table: Table) -> Result<Transactions<E, K>, ServiceError> {
        let (env, store) = (self.env.clone(), self.store.clone());
        if let Some(opened) = self.known().tables.get(&table) {
            return Ok(Transactions::with(env, store, Arc::clone(opened)));
        }
        let opened = Transactions::open(env.clone(), store.clone(), table.clone(), self.shared.options).await?;
        // Another task may have opened it meanwhile: one of them is kept, for its cache.
        let mut known = self.known();
        let kept = known.tables.entry(table).or_insert_with(|| Arc::clone(opened.shared()));
        Ok(Transactions::with(env, store, Arc::clone(kept)))
    }

    async fn read(&self) -> Result<(Map, Bytes), ServiceError> {
        let read = read(&self.env, &self.store, &self.shared.name).await?;
        read.ok_or_else(|| ServiceError::NoService(self.shared.name.clone()))
    }

    fn learn(&self, map: Map) {
        let mut known = self.known();
        // Maps of one bound differ in what is above it only, so look-ups may use either.
        if map.bound() >= known.map.bound() || mutant::is(Mutant::BoundIgnored) {
            known.map = map;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one assignment or insertion, so a panic elsewhere leaves none half done.
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table of maps. A name that [`Table::new`] takes.
fn maps() -> Option<Table> {
    Table::new("glidepath_services")
}

fn failed(name: &str, cause: Cause) -> ServiceError {
    ServiceError::Store { name: name.to_owned(), cause }
}

fn change<E: Env>(env: &E) -> u64 {
    env.draw(Purpose::Names)
}

fn cell(name: &str) -> Cell {
    Cell { row: Bytes::copy_from_slice(name.as_bytes()), column: Bytes::from_static(b"map") }
}

/// The bound of the service's timestamps, if it shows that some were given out.
async fn given_out<E: Env, K: KvStore>(env: &E, store: &K, name: &str) -> Result<Option<u64>, ServiceError> {
    let Some(table) = crate::names::timestamps(name) else { return Ok(None) };
    let bound = crate::timestamps::bound(env, store, &table).await;
    let bound = bound.map_err(|error| failed(name, Cause::from_error(error)))?;
    Ok(Some(bound).filter(|bound| *bound > 1))
}

/// The map, and the bytes that it is.
async fn read<E: Env, K: KvStore>(env: &E, store: &K, name: &str) -> Result<Option<(Map, Bytes)>, ServiceError> {
    let maps = maps().ok_or_else(|| failed(name, Cause::words("the table of maps has no name")))?;
    let cells = [cell(name)];
    let mut cause = Cause::words("the store was not asked");
    for round in 0..ROUNDS {
        match store.get(&maps, &cells, ReadLevel::Linearizable).await {
            Ok(mut found) => {
                let Some(found) = found.pop().flatten() else { return Ok(None) };
                let map = Map::decode(&found);
                let map = map.map_err(|wrong| ServiceError::Unreadable { name: name.to_owned(), found: wrong })?;
                return Ok(Some((map, found)));
            }
            Err(KvReadError::NoTable(_)) => return Ok(None),
            Err(KvReadError::Failed(why)) => cause = why,
        }
        settling::wait_after(env, round).await;
    }
    Err(failed(name, cause))
}

/// Sends this change of the map until it is certain whether it happened. Whether it did is not told: whoever needs to
/// know reads the map again, because others may have changed it since.
async fn set<E: Env, K: KvStore>(
    env: &E,
    store: &K,
    name: &str,
    expected: Option<&Bytes>,
    map: &Map,
) -> Result<(), ServiceError> {
    let maps = maps().ok_or_else(|| failed(name, Cause::words("the table of maps has no name")))?;
    let (cell, new) = (cell(name), map.encode());
    let (mut cause, mut is_unknown) = (Cause::words("the store was not asked"), false);
    for round in 0..ROUNDS {
        match store.compare_and_set(&maps, &cell, expected, &new).await {
            Ok(()) | Err(ConditionError::Lost { .. }) => return Ok(()),
            // A refusal says nothing about the requests before it.
            Err(ConditionError::Refused(denial)) if !denial.passing && denial.certain && !is_unknown => {
                return Err(failed(name, denial.cause));
            }
            Err(ConditionError::Refused(denial)) => {
                is_unknown |= !denial.certain;
                cause = denial.cause;
            }
            Err(ConditionError::Unknown(why)) => {
                is_unknown = true;
                cause = why;
            }
        }
        settling::wait_after(env, round).await;
    }
    match is_unknown {
        true => Err(ServiceError::Unknown { name: name.to_owned(), cause }),
        false => Err(failed(name, cause)),
    }
}
