//! Does the store in PostgreSQL keep the contract, and tell what a failing server leaves open?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use glidepath_env::conformance::kv::run_all;
use glidepath_env::{Cell, ConditionError, KvReadError, KvStore, ReadLevel, Table, WriteError};
use glidepath_kv::{Postgres, PostgresOptions};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_postgres::NoTls;

/// The server's URL, or nothing where it was not started and need not have been.
fn server() -> Option<String> {
    match std::env::var("GLIDEPATH_POSTGRES") {
        Ok(url) if url == "none" => {
            eprintln!("skipped: scripts/servers could not install PostgreSQL; it says why");
            None
        }
        Ok(url) => Some(url),
        Err(_) if std::env::var("GLIDEPATH_SERVERS").is_ok_and(|value| value == "required") => {
            panic!("GLIDEPATH_POSTGRES is not set: run the tests by `scripts/servers exec cargo test -p glidepath-kv`")
        }
        Err(_) => {
            eprintln!(
                "skipped: GLIDEPATH_POSTGRES is not set; `scripts/servers exec cargo test -p glidepath-kv` runs this"
            );
            None
        }
    }
}

/// The same server, with a schema that no other test uses, made empty.
async fn fresh(url: &str, name: &str) -> String {
    let schema = format!("test_{}_{name}", std::process::id());
    let admin = admin(url).await;
    admin.batch_execute(&format!("drop schema if exists \"{schema}\" cascade")).await.unwrap();
    format!("{url}?schema={schema}")
}

/// What removes it again.
async fn remove(url: &str) {
    let (url, schema) = url.split_once("?schema=").unwrap();
    admin(url).await.batch_execute(&format!("drop schema if exists \"{schema}\" cascade")).await.unwrap();
}

async fn admin(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn open(url: &str) -> Postgres {
    Postgres::open(url, &PostgresOptions::default()).unwrap()
}

fn cells() -> Table {
    Table::new("Cells").unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn put(store: &Postgres, columns: &[&str], value: &str) -> Result<(), ConditionError> {
    let columns: Vec<_> = columns.iter().map(|column| (bytes(column), bytes(value))).collect();
    store.put_unless_exists(&cells(), &bytes("row"), &columns).await
}

async fn get(store: &Postgres, column: &str) -> Option<Bytes> {
    let cell = Cell { row: bytes("row"), column: bytes(column) };
    store.get(&cells(), &[cell], ReadLevel::Linearizable).await.unwrap().remove(0)
}

#[tokio::test]
async fn conforms_over_many_connections_and_over_one() {
    let Some(url) = server() else { return };
    for (name, connections) in [("many", 16), ("one", 1)] {
        let url = fresh(&url, name).await;
        let open = || Postgres::open(&url, &PostgresOptions { connections, ..PostgresOptions::default() }).unwrap();
        let violations = run_all(&[open(), open(), open()], &Table::new("scratch").unwrap()).await;
        assert!(violations.is_empty(), "{violations:#?}");
        remove(&url).await;
    }
}

#[tokio::test]
async fn what_a_table_takes_on_disk_is_told() {
    let Some(url) = server() else { return };
    let url = fresh(&url, "size").await;
    let store = open(&url);
    assert!(matches!(store.disk_bytes(&cells()).await, Err(KvReadError::NoTable(_))));
    store.create_table(&cells()).await.unwrap();
    let empty = store.disk_bytes(&cells()).await.unwrap();
    let value = "x".repeat(1000);
    for number in 0..20 {
        put(&store, &[&format!("column{number}")], &value).await.unwrap();
    }
    assert!(store.disk_bytes(&cells()).await.unwrap() > empty + 20_000);
    remove(&url).await;
}

#[tokio::test]
async fn many_may_make_one_table() {
    let Some(url) = server() else { return };
    let url = fresh(&url, "makers").await;
    let mut makers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = open(&url);
        makers.spawn(async move { store.create_table(&cells()).await });
    }
    while let Some(made) = makers.join_next().await {
        made.unwrap().unwrap();
    }
    remove(&url).await;
}

/// Batches whose columns overlap, given in any order: no deadlock, and none by half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_batches_are_all_or_nothing() {
    let Some(url) = server() else { return };
    let url = fresh(&url, "overlaps").await;
    let store = open(&url);
    store.create_table(&cells()).await.unwrap();
    let (won, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16_usize {
        let (store, won, lost) = (store.clone(), Arc::clone(&won), Arc::clone(&lost));
        writers.spawn(async move {
            for round in 0..30 {
                let names: Vec<_> = (0..4).map(|n| format!("{round}/{}", (writer * 5 + n * 3 + round) % 12)).collect();
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                match put(&store, &names, &writer.to_string()).await {
                    Ok(()) => won.fetch_add(1, Ordering::Relaxed),
                    Err(ConditionError::Lost { found }) => {
                        assert!(!found.is_empty() && found.iter().all(|(name, _)| names.iter().any(|n| n == name)));
                        lost.fetch_add(1, Ordering::Relaxed)
                    }
                    Err(other) => panic!("{other}"),
                };
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    let all = store.scan(&cells(), &bytes("row"), &glidepath_env::Columns::default(), 10_000, ReadLevel::Plain).await;
    let (won, lost) = (won.load(Ordering::Relaxed), lost.load(Ordering::Relaxed));
    assert_eq!(all.unwrap().cells.len(), won * 4, "every winner has its four columns, and nobody else has any");
    assert!(won >= 30 && won + lost == 16 * 30, "{won} won, {lost} lost");
    remove(&url).await;
}

/// What stopping the server does to a request that is under way: its backend is ended.
#[tokio::test]
async fn a_request_under_way_when_the_server_ends_it_is_unknown_and_does_not_hang() {
    let Some(url) = server() else { return };
    let admin = admin(&url).await;
    let url = fresh(&url, "ended").await;
    let store = open(&url);
    store.create_table(&cells()).await.unwrap();
    // It waits for this transaction, which writes the same cell and does not end.
    let schema = url.rsplit('=').next().unwrap();
    let insert = format!("begin; insert into \"{schema}\".\"Cells\" (k, c, v) values ('row', 'a', 'other')");
    admin.batch_execute(&insert).await.unwrap();
    let ours = tokio::spawn({
        let store = store.clone();
        async move { put(&store, &["a"], "ours").await }
    });
    let pattern = format!("insert into \"{schema}\"%");
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
               where wait_event_type = 'Lock' and query like $1 and pid <> pg_backend_pid()";
    let (mut ended, other) = (0, self::admin(url.split('?').next().unwrap()).await);
    while ended == 0 {
        ended = other.query(end, &[&pattern]).await.unwrap().len();
    }
    let ours = ours.await.unwrap();
    assert!(matches!(ours, Err(ConditionError::Unknown(_))), "{ours:?}");
    admin.batch_execute("rollback").await.unwrap();
    put(&store, &["a"], "again").await.unwrap();
    assert_eq!(get(&store, "a").await, Some(bytes("again")), "the next request has a new connection");
    remove(&url).await;
}

#[tokio::test]
async fn without_a_server_a_write_is_refused_for_certain() {
    // It has the port, so nobody else has, and it does not listen.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    let store = open(&format!("postgres://postgres:secret@127.0.0.1:{port}/postgres"));
    match put(&store, &["a"], "1").await {
        Err(ConditionError::Refused(denial)) => {
            let said = denial.to_string();
            assert!(denial.certain && said.contains("127.0.0.1") && !said.contains("secret"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    let made = store.create_table(&cells()).await;
    assert!(matches!(&made, Err(WriteError::Refused(denial)) if denial.certain), "{made:?}");
    let read = store.rows(&cells(), None, 1).await;
    assert!(matches!(read, Err(KvReadError::Failed(_))), "{read:?}");
}

/// What becomes of what the server says.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// It is held back for ever.
    Silent,
    /// The connection is closed instead.
    Cut,
}

/// A proxy before the server, and its port.
async fn proxy(url: &str, fault: watch::Receiver<Fault>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let at = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&at).await.unwrap();
            tokio::spawn(pass(client, server, fault.clone()));
        }
    });
    port
}

async fn pass(client: TcpStream, server: TcpStream, fault: watch::Receiver<Fault>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let sending = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = tokio::io::AsyncReadExt::read(&mut from_server, &mut buffer).await {
        let now = *fault.borrow();
        match now {
            Fault::None => tokio::io::AsyncWriteExt::write_all(&mut to_client, &buffer[..count]).await.unwrap(),
            Fault::Silent => std::future::pending().await,
            Fault::Cut => break,
        }
    }
    sending.abort();
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_and_happened() {
    let Some(url) = server() else { return };
    for fault in [Fault::Cut, Fault::Silent] {
        let url = fresh(&url, "faults").await;
        let (set, faults) = watch::channel(Fault::None);
        let port = proxy(&url, faults).await;
        let at = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let options = PostgresOptions { connections: 1, timeout: Duration::from_secs(1000) };
        let store = Postgres::open(&url.replace(at, &format!("127.0.0.1:{port}")), &options).unwrap();
        store.create_table(&cells()).await.unwrap();
        // The connection and its statement are there before the fault.
        put(&store, &["a"], "1").await.unwrap();
        set.send(fault).unwrap();
        let writing = tokio::spawn({
            let store = store.clone();
            async move { put(&store, &["b"], "2").await }
        });
        let direct = open(&url);
        while get(&direct, "b").await.is_none() {}
        if fault == Fault::Silent {
            // The clock goes on by itself when nothing else is left to do.
            tokio::time::pause();
        }
        let written = writing.await.unwrap();
        assert!(matches!(written, Err(ConditionError::Unknown(_))), "{written:?}");
        if fault == Fault::Silent {
            tokio::time::resume();
        }
        set.send(Fault::None).unwrap();
        match put(&store, &["b"], "3").await {
            Err(ConditionError::Lost { found }) => assert_eq!(found, [(bytes("b"), bytes("2"))]),
            other => panic!("{other:?}"),
        }
        remove(&url).await;
    }
}
