//! The store on Cassandra keeps the contract, on one node that `scripts/servers` started.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cassandra_support;

use std::time::Duration;

use bytes::Bytes;
use cassandra_support::proxy::{Fault, Proxy};
use cassandra_support::{fresh, given, none, open};
use glidepath_env::conformance::kv::run_all;
use glidepath_env::{Cell, ConditionError, Denial, KvStore, ReadLevel, Table};
use glidepath_kv::Cassandra;
use glidepath_kv::cassandra::{OpenError, Options};
use glidepath_model::Span;
use scylla::client::session_builder::SessionBuilder;

const NODE: &str = "GLIDEPATH_CASSANDRA";

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let Some(node) = given(NODE) else { return };
    let keyspace = fresh("suite");
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(open(&node, &keyspace, &Options::default()).await);
    }
    none(&run_all(&handles, &Table::new("Scratch").unwrap()).await);
}

/// Whether the write happened or not, its outcome is unknown; a linearizable read that shows it settles it, and the
/// same write again does always.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_an_unknown_outcome() {
    let Some(node) = given(NODE) else { return };
    let proxy = Proxy::start(&node).await;
    let keyspace = fresh("unknown");
    let direct = open(&node, &keyspace, &Options::default()).await;
    let address = proxy.address.to_string();
    let patient = open(&address, &keyspace, &Options::default()).await;
    let impatient = Options { request_timeout: Span::from_secs(2), ..Options::default() };
    let impatient = open(&address, &keyspace, &impatient).await;
    let table = Table::new("cells").unwrap();
    direct.create_table(&table).await.unwrap();
    let mut lost = 0;
    for fault in [Fault::LostAnswer, Fault::LostRequest, Fault::Silence] {
        let store = if fault == Fault::Silence { &impatient } else { &patient };
        for count in [1, 3] {
            let row = bytes(&format!("{fault:?} {count}"));
            let mark = format!("value of {fault:?} {count}");
            let columns: Vec<_> = (0..count).map(|n| (bytes(&n.to_string()), bytes(&mark))).collect();
            let sent = put_under(&proxy, fault, &mark, || store.put_unless_exists(&table, &row, &columns)).await;
            assert!(matches!(sent, Err(ConditionError::Unknown(_))), "{fault:?}: {sent:?}");
            let written = fault != Fault::LostRequest;
            lost += usize::from(written);
            proxy.await_lost(lost).await;
            let cell = |(column, _): &(Bytes, Bytes)| Cell { row: row.clone(), column: column.clone() };
            let cells: Vec<_> = columns.iter().map(cell).collect();
            let found = direct.get(&table, &cells, ReadLevel::Linearizable).await.unwrap();
            let wanted = written.then_some(mark.as_bytes());
            assert!(found.iter().all(|value| value.as_deref() == wanted), "{fault:?} {found:?}");
            match direct.put_unless_exists(&table, &row, &columns).await {
                Err(ConditionError::Lost { found }) if written => assert_eq!(found, columns),
                Ok(()) if !written => {}
                other => panic!("{fault:?}: {other:?}"),
            }
        }
    }
}

/// Sends a write until the fault strikes it: after a connection was closed, none is sent until there is another.
async fn put_under<F>(proxy: &Proxy, fault: Fault, mark: &str, put: impl Fn() -> F) -> Result<(), ConditionError>
where
    F: Future<Output = Result<(), ConditionError>>,
{
    proxy.strike(fault, mark);
    loop {
        let sent = put().await;
        if proxy.struck() {
            return sent;
        }
        assert!(!matches!(sent, Ok(()) | Err(ConditionError::Lost { .. })), "it went by the proxy: {sent:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_would_refuse_is_not_sent() {
    let Some(node) = given(NODE) else { return };
    let options = Options { most_put_bytes: 10_000, ..Options::default() };
    let store = open(&node, &fresh("limits"), &options).await;
    let table = Table::new("cells").unwrap();
    store.create_table(&table).await.unwrap();
    let row = bytes("row");
    let value = |length: usize| Bytes::from(vec![b'x'; length]);
    let strange = [
        (row.clone(), vec![(bytes("a"), value(10_000))]),
        (row.clone(), vec![(bytes("a"), value(5_000)), (bytes("b"), value(5_000))]),
        (row.clone(), vec![(Bytes::new(), value(1))]),
        (row.clone(), vec![(value(65_536), value(1))]),
        (Bytes::new(), vec![(bytes("a"), value(1))]),
    ];
    for (row, columns) in strange {
        match store.put_unless_exists(&table, &row, &columns).await {
            Err(ConditionError::Refused(Denial { certain: true, passing: false, cause })) => {
                assert!(cause.to_string().contains(".cells: "), "{cause}");
            }
            other => panic!("{other:?}"),
        }
    }
    store.put_unless_exists(&table, &row, &[(bytes("a"), value(9_000))]).await.unwrap();
    let cell = Cell { row, column: bytes("a") };
    let both = store.compare_and_set(&table, &cell, Some(&value(9_000)), &value(9_000)).await;
    assert!(matches!(both, Err(ConditionError::Refused(Denial { certain: true, .. }))), "{both:?}");
}

/// More columns than one request asks for, and more cells than one answer holds.
#[tokio::test(flavor = "multi_thread")]
async fn long_rows_are_read_in_parts() {
    let Some(node) = given(NODE) else { return };
    let store = open(&node, &fresh("long"), &Options::default()).await;
    let table = Table::new("cells").unwrap();
    store.create_table(&table).await.unwrap();
    let row = bytes("row");
    let column = |n: usize| bytes(&format!("{n:05}"));
    for part in 0..6 {
        let columns: Vec<_> = (part * 1000..(part + 1) * 1000).map(|n| (column(n), column(n))).collect();
        store.put_unless_exists(&table, &row, &columns).await.unwrap();
    }
    let cells: Vec<_> = (0..6100).rev().map(|n| Cell { row: row.clone(), column: column(n) }).collect();
    let found = store.get(&table, &cells, ReadLevel::Plain).await.unwrap();
    for (cell, value) in cells.iter().zip(found) {
        assert_eq!(value, (cell.column < column(6000)).then(|| cell.column.clone()));
    }
    let mut columns = glidepath_env::Columns::default();
    let mut scanned = 0;
    loop {
        let slice = store.scan(&table, &row, &columns, usize::MAX, ReadLevel::Linearizable).await.unwrap();
        scanned += slice.cells.len();
        if !slice.more {
            break;
        }
        columns.from = slice.cells.last().map(|(column, _)| Bytes::from([column, &b"\0"[..]].concat()));
    }
    assert_eq!(scanned, 6000);
}

/// Another program may leave a row without a value. It is not read as absent: a writer would then believe to be the
/// first.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_value_is_an_error() {
    let Some(node) = given(NODE) else { return };
    let keyspace = fresh("torn");
    let store = open(&node, &keyspace, &Options::default()).await;
    let table = Table::new("cells").unwrap();
    store.create_table(&table).await.unwrap();
    let other = SessionBuilder::new().known_node(&node).build().await.unwrap();
    let torn = format!("INSERT INTO {keyspace}.cells (key, column1) VALUES (textAsBlob('row'), textAsBlob('a'))");
    other.query_unpaged(torn, ()).await.unwrap();
    let cell = Cell { row: bytes("row"), column: bytes("a") };
    let read = store.get(&table, std::slice::from_ref(&cell), ReadLevel::Linearizable).await;
    let said = read.unwrap_err().to_string();
    assert!(said.contains("has no value"), "{said}");
    for columns in [vec![(bytes("a"), bytes("1"))], vec![(bytes("a"), bytes("1")), (bytes("b"), bytes("1"))]] {
        let put = store.put_unless_exists(&table, &cell.row, &columns).await;
        assert!(matches!(put, Err(ConditionError::Refused(Denial { certain: true, .. }))), "{put:?}");
    }
    let set = store.compare_and_set(&table, &cell, Some(&bytes("1")), &bytes("2")).await;
    assert!(matches!(set, Err(ConditionError::Refused(Denial { certain: true, .. }))), "{set:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_said() {
    let Some(node) = given(NODE) else { return };
    let options = Options::default();
    let named = Cassandra::open(&[&node], "no name", &options).await.unwrap_err();
    assert!(matches!(named, OpenError::Name(_)), "{named}");
    // Nobody listens on port 1.
    let absent = Cassandra::open(&["127.0.0.1:1"], "keyspace", &options).await.unwrap_err();
    assert!(matches!(absent, OpenError::Connect { .. }) && absent.to_string().contains("127.0.0.1:1"), "{absent}");
}
