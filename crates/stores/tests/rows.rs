//! Objects in the cells of key-value stores: do they keep the contract of objects, and do protocols keep theirs on
//! them?

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use glidepath_env::conformance::run_all;
use glidepath_env::{
    Cell, Columns, ConditionError, DeleteError, Guard, Key, KvCapabilities, KvReadError, KvStore, ObjectStore, Payload,
    PutError, Rank, ReadLevel, RowObjects, Rows, Slice, Table, WriteError,
};
use glidepath_kv::Memory;
use glidepath_model::ByteSize;
use glidepath_protocols::manifest_chain::{Layout, ManifestChain};
use glidepath_protocols::tickets::{self, Tickets};
use glidepath_protocols::{Outcome, conformance, manifest_chain};
use glidepath_stores::memory::MemoryStore;
use glidepath_stores::{LiveEnv, Options, Store, open};
use proptest::prelude::*;

/// What a server is called in the environment, if it runs.
fn server(variable: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(url) if ["none", "missing"].contains(&&*url) => None,
        Ok(url) => Some(url),
        Err(_) if std::env::var("GLIDEPATH_SERVERS").is_ok_and(|value| value == "required") => {
            panic!("{variable} is not set: run the tests by `scripts/servers exec cargo test`")
        }
        Err(_) => None,
    }
}

/// All but the time of writing, which no cell has, and these points.
async fn conforms(url: &str, but: &[&str]) {
    let handles: Vec<Store> = match url.starts_with("kv+") {
        // A folder is open once.
        true => std::iter::repeat_n(open(url, &Options::default()).unwrap(), 2).collect(),
        false => (0..2).map(|_| open(url, &Options::default()).unwrap()).collect(),
    };
    let broken = run_all(&handles, &Key::new("scratch")).await;
    let names: Vec<_> = broken.iter().map(|violation| violation.point.name).collect();
    assert_eq!(names, [but, &["written-at"]].concat(), "{broken:#?}");
}

async fn catalogs_keep_names(url: &str) {
    let store = open(url, &Options::default()).unwrap();
    let tickets = || {
        let shared_state = Arc::new(tickets::SharedState::new("a/"));
        Tickets::new(LiveEnv::new(), store.clone(), shared_state)
    };
    assert!(matches!(tickets().create(Vec::new()).await, Outcome::Committed(_)));
    assert_eq!(conformance::run_all(&tickets(), &tickets()).await, [], "tickets");
    let chain = || {
        let shared_state = Arc::new(manifest_chain::SharedState::new("b/", 1 << 20));
        ManifestChain::new(LiveEnv::new(), store.clone(), shared_state)
    };
    assert!(matches!(chain().create(Layout::Paged, true).await, Outcome::Committed(_)));
    assert_eq!(conformance::run_all(&chain(), &chain()).await, [], "manifest chain");
}

#[tokio::test]
async fn in_memory_the_contract_of_objects_holds() {
    conforms("kv+memory:", &[]).await;
    catalogs_keep_names("kv+memory:").await;
}

#[tokio::test]
async fn in_a_folder_the_contract_of_objects_holds() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&format!("kv+file://{}/one", folder.path().display()), &[]).await;
    catalogs_keep_names(&format!("kv+file://{}/other", folder.path().display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres_the_contract_of_objects_holds() {
    let Some(url) = server("GLIDEPATH_POSTGRES") else { return };
    let schema = |name: &str| format!("{url}?schema=objects_{}_{name}", std::process::id());
    conforms(&schema("one"), &[]).await;
    catalogs_keep_names(&schema("other")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_cassandra_the_contract_of_objects_holds() {
    let Some(node) = server("GLIDEPATH_CASSANDRA") else { return };
    let keyspace = |name: &str| format!("cassandra://{node}/objects_{}_{name}", std::process::id());
    // A put is of 4 MiB at most.
    conforms(&keyspace("one"), &["large-body"]).await;
    catalogs_keep_names(&keyspace("other")).await;
}

/// The tasks of a driver do not end with the runtime of the first request.
fn outlives_a_runtime(url: &str) {
    let store = open(url, &Options::default()).unwrap();
    let key = Key::new("a/b");
    for number in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (store, key) = (store.clone(), key.clone());
        runtime.block_on(async move {
            store.put(&key, payload(&format!("{number}")), Guard::None).await.unwrap();
            assert_eq!(store.get(&key).await.unwrap().payload, payload(&format!("{number}")));
        });
    }
}

#[test]
fn stores_outlive_the_runtime_of_their_first_request() {
    let folder = tempfile::tempdir().unwrap();
    outlives_a_runtime(&format!("kv+file://{}/cells", folder.path().display()));
    if let Some(url) = server("GLIDEPATH_POSTGRES") {
        outlives_a_runtime(&format!("{url}?schema=outlives_{}", std::process::id()));
    }
    if let Some(node) = server("GLIDEPATH_CASSANDRA") {
        outlives_a_runtime(&format!("cassandra://{node}/outlives_{}", std::process::id()));
    }
}

fn payload(text: &str) -> Payload {
    Bytes::copy_from_slice(text.as_bytes()).into()
}

fn in_cells<S: KvStore>(cells: S) -> RowObjects<S> {
    in_cells_from(cells, 1)
}

/// With states from this one on.
fn in_cells_from<S: KvStore>(cells: S, first: u64) -> RowObjects<S> {
    let number = AtomicU64::new(first);
    RowObjects::new(cells, Table::new("objects").unwrap(), move || number.fetch_add(1, Ordering::Relaxed))
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens between the two copies of the next write.
type Between = Arc<Mutex<Option<BoxFuture>>>;

/// A way on which each conditional write is delivered twice; the second answer arrives.
#[derive(Clone)]
struct Twice(Memory, Between);

impl Twice {
    async fn between(&self) {
        let happens = self.1.lock().unwrap().take();
        if let Some(happens) = happens {
            happens.await;
        }
    }
}

impl KvStore for Twice {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities { delivers_once: false, ..self.0.capabilities() }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        self.0.create_table(table).await
    }

    async fn get(&self, table: &Table, cells: &[Cell], level: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        self.0.get(table, cells, level).await
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        self.0.scan(table, row, columns, limit, level).await
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        self.0.rows(table, after, limit).await
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        let _ = self.0.put_unless_exists(table, row, columns).await;
        self.between().await;
        self.0.put_unless_exists(table, row, columns).await
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        let _ = self.0.compare_and_set(table, cell, expected, new).await;
        self.between().await;
        self.0.compare_and_set(table, cell, expected, new).await
    }

    async fn put_final(&self, table: &Table, cell: &Cell, value: &Bytes, rank: Rank) -> Result<(), WriteError> {
        self.0.put_final(table, cell, value, rank).await
    }
}

#[tokio::test]
async fn a_write_that_is_delivered_twice_is_not_lost_to_itself() {
    let store = in_cells(Twice(Memory::default(), Between::default()));
    let key = Key::new("a/b");
    let first = store.put(&key, payload("one"), Guard::Absent).await.unwrap();
    assert!(matches!(store.put(&key, payload("two"), Guard::Absent).await, Err(PutError::Lost)));
    let second = store.put(&key, payload("two"), Guard::Matches(first.clone())).await.unwrap();
    assert!(matches!(store.put(&key, payload("three"), Guard::Matches(first)).await, Err(PutError::Lost)));
    store.put(&key, payload("three"), Guard::None).await.unwrap();
    assert!(matches!(store.put(&key, payload("four"), Guard::Matches(second)).await, Err(PutError::Lost)));
    store.delete(&key).await.unwrap();
    store.put(&key, payload("four"), Guard::Absent).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().payload, payload("four"));
}

/// Row 1b of the fault table: another writer comes between the two copies, and what it did stays.
#[tokio::test]
async fn a_write_that_is_delivered_twice_takes_nothing_from_who_came_between() {
    let (memory, between) = (Memory::default(), Between::default());
    let store = in_cells(Twice(memory.clone(), Arc::clone(&between)));
    let other = Arc::new(in_cells_from(memory, 1000));
    let next = |happens: BoxFuture| *between.lock().unwrap() = Some(happens);
    let key = Key::new("a/b");

    store.put(&key, payload("one"), Guard::Absent).await.unwrap();
    let (they, at) = (Arc::clone(&other), key.clone());
    next(Box::pin(async move { drop(they.put(&at, payload("theirs"), Guard::Absent).await.unwrap()) }));
    assert!(matches!(store.delete(&key).await, Err(DeleteError::Unknown(_))));
    assert_eq!(store.get(&key).await.unwrap().payload, payload("theirs"));

    let (they, at) = (Arc::clone(&other), key.clone());
    next(Box::pin(async move {
        let tag = they.get(&at).await.unwrap().tag;
        they.put(&at, payload("theirs after it"), Guard::Matches(tag)).await.unwrap();
    }));
    assert!(matches!(store.put(&key, payload("two"), Guard::None).await, Err(PutError::Unknown(_))));
    assert_eq!(store.get(&key).await.unwrap().payload, payload("theirs after it"));

    // A tag that somebody has read before does not come back.
    let (key, read) = (Key::new("a/c"), Arc::new(Mutex::new(None)));
    let (they, at, tag) = (Arc::clone(&other), key.clone(), Arc::clone(&read));
    next(Box::pin(async move {
        let found = they.get(&at).await.unwrap().tag;
        *tag.lock().unwrap() = Some(found);
        they.delete(&at).await.unwrap();
    }));
    let written = store.put(&key, payload("one"), Guard::Absent).await.unwrap();
    assert_ne!(Some(written), *read.lock().unwrap());
}

#[tokio::test]
async fn more_than_memory_holds_is_refused() {
    let store = in_cells(Memory::default());
    let huge = Payload { filler: ByteSize::from_bytes(1 << 62), ..payload("x") };
    assert!(matches!(store.put(&Key::new("a"), huge, Guard::None).await, Err(PutError::Refused(_))));
}

#[tokio::test]
async fn what_is_read_before_the_first_write_is_not_there() {
    let store = in_cells(Memory::default());
    let key = Key::new("a");
    assert!(matches!(store.get(&key).await, Err(glidepath_env::ReadError::NotFound)));
    assert_eq!(store.list(&Key::new(""), None, 10).await.unwrap().objects, []);
    assert_eq!(store.list_folder(&Key::new("a/"), None, 10).await.unwrap().objects, []);
    assert!(matches!(store.put(&Key::new(""), payload("x"), Guard::None).await, Err(PutError::Refused(_))));
}

fn keys() -> impl Strategy<Value = Vec<String>> {
    // Parts that are longer than a column and shorter, and keys within keys.
    let part = prop::sample::select(vec!["a", "b", "ab", "", "0123456789abcdef", "0123456789abcdef0", "é"]);
    prop::collection::vec(prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/")), 1..20)
        .prop_map(|keys| keys.into_iter().filter(|key| !key.is_empty()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Listings are those of another store with the same objects.
    #[test]
    fn listings_are_those_of_any_store(
        keys in keys(),
        deleted in 0_usize..5,
        prefix in prop::sample::select(vec!["", "a", "a/", "a/b", "ab/", "0123456789abcdef/", "0123456789abcdef0", "é"]),
        after in 0_usize..30,
        limit in 1_usize..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (rows, other) = (in_cells(Memory::default()), MemoryStore::new());
            for key in &keys {
                rows.put(&Key::new(key), payload(key), Guard::None).await.unwrap();
                other.put(&Key::new(key), payload(key), Guard::None).await.unwrap();
            }
            for key in keys.iter().take(deleted) {
                rows.delete(&Key::new(key)).await.unwrap();
                other.delete(&Key::new(key)).await.unwrap();
            }
            let after = keys.get(after).map(|key| Key::new(key));
            let found = rows.list(&Key::new(prefix), after.as_ref(), limit).await.unwrap();
            let wanted = other.list(&Key::new(prefix), after.as_ref(), limit).await.unwrap();
            prop_assert_eq!(found.objects, wanted.objects);
            prop_assert_eq!(found.more, wanted.more);
            let flat = keys.iter().filter_map(|key| key.strip_prefix("a/"));
            if flat.clone().all(|name| !name.contains('/') && !name.is_empty() && name.len() <= 16) {
                let found = rows.list_folder(&Key::new("a/"), after.as_ref(), limit).await.unwrap();
                let wanted = other.list(&Key::new("a/"), after.as_ref(), limit).await.unwrap();
                prop_assert_eq!((found.objects, found.more), (wanted.objects, wanted.more));
            }
            Ok(())
        })?;
    }
}
