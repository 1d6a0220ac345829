//! What is told where the store does not say whether the map of a service was changed?

use std::cell::Cell as Shared;
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::{
    Cause, Cell, Columns, ConditionError, Denial, Env, KvCapabilities, KvReadError, KvStore, Purpose, Rank, ReadLevel,
    Rows, Slice, Table, WriteError,
};
use glidepath_kv::Memory;
use glidepath_model::Instant;
use glidepath_txn::{Encoding, Original, Tickets};

use super::*;

/// Live, and it waits for nothing.
#[derive(Clone)]
struct Hasty(LiveEnv);

impl Env for Hasty {
    type Objects = <LiveEnv as Env>::Objects;

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    async fn sleep_until(&self, _: Instant) {}

    fn draw(&self, purpose: Purpose) -> u64 {
        self.0.draw(purpose)
    }
}

/// What becomes of changes of maps.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    /// The next one is made, and its writer is not told. Then the store takes no more, as the embedded one after a
    /// failed sync.
    MadeUntold,
    /// The same, and it is not made.
    DroppedUntold,
    Refused,
}

/// A store that may fail in a change of a map.
#[derive(Clone)]
struct Failing {
    cells: Memory,
    fate: Rc<Shared<Fate>>,
}

impl KvStore for Failing {
    fn capabilities(&self) -> KvCapabilities {
        self.cells.capabilities()
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        self.cells.create_table(table).await
    }

    async fn get(&self, table: &Table, cells: &[Cell], level: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        self.cells.get(table, cells, level).await
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        self.cells.scan(table, row, columns, limit, level).await
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        self.cells.rows(table, after, limit).await
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        self.cells.put_unless_exists(table, row, columns).await
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        let untold = || ConditionError::Unknown(Cause::words("the disk is full"));
        match self.fate.get() {
            Fate::Answered => self.cells.compare_and_set(table, cell, expected, new).await,
            Fate::MadeUntold => {
                self.fate.set(Fate::Refused);
                self.cells.compare_and_set(table, cell, expected, new).await.and(Err(untold()))
            }
            Fate::DroppedUntold => {
                self.fate.set(Fate::Refused);
                Err(untold())
            }
            Fate::Refused => Err(ConditionError::Refused(Denial::words("the store takes no more writes"))),
        }
    }

    async fn put_final(&self, table: &Table, cell: &Cell, value: &Bytes, rank: Rank) -> Result<(), WriteError> {
        self.cells.put_final(table, cell, value, rank).await
    }
}

fn table(name: &str) -> Table {
    Table::new(name).unwrap()
}

async fn created(store: &Failing) -> Result<Service<Hasty, Failing>, ServiceError> {
    let first = (table("main_tickets"), Encoding::Tickets(Tickets::default()));
    Service::create(Hasty(LiveEnv::new()), store.clone(), "main", first, Options::default()).await
}

async fn migrated(service: &Service<Hasty, Failing>) -> Result<Timestamp, ServiceError> {
    service.install(table("main_original"), Encoding::Original(Original)).await
}

/// Its code is 7, and its message says what to do.
fn is_unknown(error: &ServiceError) {
    match service(error) {
        Failure::Coded(7, words) => {
            assert!(words.contains("it may have been done: the same command again settles it"), "{words}");
            assert!(words.contains("map of the transaction service \"main\""), "{words}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_of_tables_that_is_not_told_has_the_code_of_unknown_and_may_be_repeated() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for fate in [Fate::MadeUntold, Fate::DroppedUntold] {
        let store = Failing { cells: Memory::default(), fate: Rc::new(Shared::new(fate)) };
        runtime.block_on(async {
            is_unknown(&created(&store).await.map(drop).unwrap_err());
            store.fate.set(Fate::Answered);
            let service = created(&store).await.unwrap();
            service.table_of(Timestamp::new(7).unwrap()).await.unwrap();
            let bound = service.bound();

            store.fate.set(fate);
            is_unknown(&migrated(&service).await.unwrap_err());
            store.fate.set(Fate::Answered);
            // The same again, from where the new table was to be used: once, whether the first one was made or not.
            assert_eq!(migrated(&service).await.unwrap().get(), bound + 1);
            let ranges = created(&store).await.unwrap().ranges();
            let found: Vec<_> = ranges.iter().map(|range| (range.from.get(), range.table.as_str())).collect();
            assert_eq!(found, [(1, "main_tickets"), (bound + 1, "main_original")]);

            // What was certainly not done is no such case.
            store.fate.set(Fate::Refused);
            let refused = service.install(table("main_other"), Encoding::Original(Original)).await.unwrap_err();
            let refused = super::service(&refused);
            assert!(
                matches!(&refused, Failure::Failed(words) if words.contains("takes no more writes")),
                "{refused:?}"
            );
        });
    }
}
