//! What becomes of requests when a sync fails, the writer thread panics, or nobody waits for the answer?

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use fjall::OwnedWriteBatch as WriteBatch;
use glidepath_env::{Cell, ConditionError, KvStore, ReadLevel, Table, WriteError};
use tempfile::TempDir;

use super::{Embedded, EmbeddedOptions};

/// What becomes of the next batch.
#[derive(Clone, Copy)]
enum Fate {
    Durable,
    /// Its sync fails, and it may be in the journal all the same.
    Fails,
    Panics,
}

/// A store of which each batch waits for its fate, and says before how large it is.
struct Held {
    store: Embedded,
    fates: Sender<Fate>,
    batches: Receiver<usize>,
    folder: TempDir,
}

fn held(most_waiting: usize) -> Held {
    let folder = tempfile::tempdir().unwrap();
    let ((fates, next), (say, batches)) = (channel(), channel());
    let commit = move |batch: WriteBatch| {
        say.send(batch.len()).unwrap();
        match next.recv().unwrap_or(Fate::Durable) {
            Fate::Durable => batch.commit(),
            Fate::Fails => Err(fjall::Error::Io(std::io::Error::other("the disk is gone"))),
            Fate::Panics => panic!("a test's own"),
        }
    };
    let options = EmbeddedOptions { most_waiting, ..EmbeddedOptions::default() };
    let store = Embedded::open_with(folder.path(), &options, Box::new(commit)).unwrap();
    Held { store, fates, batches, folder }
}

fn table() -> Table {
    Table::new("cells").unwrap()
}

fn cell(column: &str) -> Cell {
    Cell { row: Bytes::from_static(b"row"), column: Bytes::copy_from_slice(column.as_bytes()) }
}

async fn put(store: &Embedded, columns: &[&str], value: &'static str) -> Result<(), ConditionError> {
    let value = Bytes::from_static(value.as_bytes());
    let columns: Vec<_> = columns.iter().map(|column| (cell(column).column, value.clone())).collect();
    store.put_unless_exists(&table(), &cell("a").row, &columns).await
}

async fn get(store: &Embedded, column: &str) -> Option<Bytes> {
    store.get(&table(), &[cell(column)], ReadLevel::Plain).await.unwrap().remove(0)
}

/// Starts a put in a task of its own.
fn start(
    store: &Embedded,
    columns: &'static [&'static str],
    value: &'static str,
) -> tokio::task::JoinHandle<Result<(), ConditionError>> {
    let store = store.clone();
    tokio::spawn(async move { put(&store, columns, value).await })
}

/// Sends a put and drops its future while it is under way.
async fn send_and_drop(store: &Embedded, columns: &[&str], value: &'static str) {
    let mut future = pin!(put(store, columns, value));
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn what_is_not_synced_shows_nowhere_and_its_batch_is_answered_together() {
    let Held { store, fates, batches, folder: _folder } = held(16);
    store.create_table(&table()).await.unwrap();
    send_and_drop(&store, &["first"], "1").await;
    assert_eq!(batches.recv().unwrap(), 1);
    // These wait for the first one's sync, and are one batch then, in their order.
    let winner = start(&store, &["a", "b"], "2");
    tokio::task::yield_now().await;
    let loser = start(&store, &["b", "c"], "3");
    tokio::task::yield_now().await;
    let neighbour = start(&store, &["c"], "4");
    tokio::task::yield_now().await;
    assert_eq!(get(&store, "first").await, None, "the first one is not synced");
    fates.send(Fate::Durable).unwrap();
    assert_eq!(batches.recv().unwrap(), 3, "the winner's two cells, and the neighbour's");
    assert_eq!(get(&store, "first").await.as_deref(), Some(&b"1"[..]), "a dropped future's put is done");
    for column in ["a", "b", "c"] {
        assert_eq!(get(&store, column).await, None, "column {column} is not synced");
    }
    // A loser to what is durable need not wait; one that is lost to the batch does.
    assert!(!loser.is_finished());
    fates.send(Fate::Durable).unwrap();
    winner.await.unwrap().unwrap();
    neighbour.await.unwrap().unwrap();
    match loser.await.unwrap() {
        Err(ConditionError::Lost { found }) => assert_eq!(found, [(cell("b").column, Bytes::from_static(b"2"))]),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&store, "c").await.as_deref(), Some(&b"4"[..]));
}

#[tokio::test]
async fn a_replacement_of_what_is_not_synced_waits_for_a_batch_of_its_own() {
    for fate in [Fate::Durable, Fate::Fails] {
        let Held { store, fates, batches, folder: _folder } = held(16);
        store.create_table(&table()).await.unwrap();
        send_and_drop(&store, &["first"], "1").await;
        assert_eq!(batches.recv().unwrap(), 1);
        let putting = start(&store, &["a", "b"], "1");
        tokio::task::yield_now().await;
        let replacing = tokio::spawn({
            let (store, one, two) = (store.clone(), Bytes::from_static(b"1"), Bytes::from_static(b"2"));
            async move { store.compare_and_set(&table(), &cell("a"), Some(&one), &two).await }
        });
        tokio::task::yield_now().await;
        fates.send(Fate::Durable).unwrap();
        assert_eq!(batches.recv().unwrap(), 2);
        fates.send(fate).unwrap();
        let put = putting.await.unwrap();
        drop(fates);
        let replaced = replacing.await.unwrap();
        if let Fate::Durable = fate {
            assert!(put.is_ok() && replaced.is_ok(), "{put:?} {replaced:?}");
            assert_eq!(batches.recv().unwrap(), 1);
            assert_eq!(get(&store, "a").await.as_deref(), Some(&b"2"[..]));
        } else {
            assert!(matches!(put, Err(ConditionError::Unknown(_))), "{put:?}");
            assert!(matches!(replaced, Err(ConditionError::Refused(_))), "{replaced:?}");
        }
    }
}

async fn is_refused(store: &Embedded) {
    match put(store, &["later"], "x").await {
        Err(ConditionError::Refused(denial)) => {
            assert!(denial.certain && !denial.passing);
            assert!(denial.to_string().contains("takes no more writes, because"), "{denial}");
        }
        other => panic!("{other:?}"),
    }
    assert!(store.stopped().unwrap().contains("takes no more writes"));
    let other = store.create_table(&Table::new("other").unwrap()).await;
    assert!(matches!(other, Err(WriteError::Refused(_))), "{other:?}");
}

async fn everybody_is_told(fate: Fate) {
    let Held { store, fates, batches, folder } = held(16);
    store.create_table(&table()).await.unwrap();
    fates.send(Fate::Durable).unwrap();
    put(&store, &["before"], "1").await.unwrap();
    batches.recv().unwrap();
    let failing = start(&store, &["a"], "2");
    tokio::task::yield_now().await;
    assert_eq!(batches.recv().unwrap(), 1);
    let queued = start(&store, &["b"], "3");
    let lost = start(&store, &["before"], "4");
    tokio::task::yield_now().await;
    fates.send(fate).unwrap();
    let failed = failing.await.unwrap();
    assert!(matches!(failed, Err(ConditionError::Unknown(_))), "{failed:?}");
    for later in [queued, lost] {
        let later = later.await.unwrap();
        assert!(matches!(later, Err(ConditionError::Refused(_))), "{later:?}");
    }
    is_refused(&store).await;
    assert_eq!(get(&store, "a").await, None, "what is unknown does not show");
    assert_eq!(get(&store, "before").await.as_deref(), Some(&b"1"[..]), "reads go on");
    drop(store);
    let again = Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    assert_eq!(get(&again, "before").await.as_deref(), Some(&b"1"[..]));
    put(&again, &["later"], "x").await.unwrap();
}

#[tokio::test]
async fn after_a_failed_sync_its_batch_is_unknown_and_the_rest_refused() {
    everybody_is_told(Fate::Fails).await;
}

#[tokio::test]
async fn after_a_panic_its_batch_is_unknown_and_the_rest_refused() {
    everybody_is_told(Fate::Panics).await;
}

#[tokio::test]
async fn where_the_queue_is_full_the_next_ones_wait_and_none_is_lost() {
    let Held { store, fates, batches, folder: _folder } = held(1);
    store.create_table(&table()).await.unwrap();
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let mut puts: Vec<_> = NAMES.iter().map(|name| start(&store, std::slice::from_ref(name), "1")).collect();
    // One is dropped while it waits for its place, or at any other moment.
    puts.pop().unwrap().abort();
    tokio::task::yield_now().await;
    drop(fates);
    for put in puts {
        put.await.unwrap().unwrap();
    }
    assert!(batches.try_iter().sum::<usize>() >= NAMES.len() - 1);
    for name in &NAMES[..5] {
        assert!(get(&store, name).await.is_some(), "{name}");
    }
}

#[tokio::test]
async fn the_last_handle_waits_for_what_was_sent() {
    let Held { store, fates, folder, batches: _batches } = held(16);
    store.create_table(&table()).await.unwrap();
    for column in ["a", "b", "c"] {
        send_and_drop(&store, &[column], "1").await;
    }
    drop(fates);
    drop(store);
    let again = Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap();
    for column in ["a", "b", "c"] {
        assert!(get(&again, column).await.is_some(), "{column}");
    }
}

/// A waker that panics, and one that holds the last handle: both are run by the writer thread.
#[test]
fn whatever_waking_does_the_writer_goes_on_or_ends() {
    struct Waker(Mutex<Option<Embedded>>);
    impl std::task::Wake for Waker {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            panic!("a test's own");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Held { store, fates, batches, folder } = held(16);
    runtime.block_on(store.create_table(&table())).unwrap();
    let poll_once = |columns: &[&str], held: Option<Embedded>| {
        let waker = std::task::Waker::from(Arc::new(Waker(Mutex::new(held))));
        // Leaked, so that its waker is what wakes, and not dropped with it.
        let (store, columns) = (store.clone(), columns.iter().map(ToString::to_string).collect::<Vec<_>>());
        let mut future = Box::pin(async move {
            let columns: Vec<_> = columns.iter().map(String::as_str).collect();
            let weak = put(&store, &columns, "1").await;
            drop(weak);
        });
        assert!(future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        future
    };
    let panics = poll_once(&["a"], None);
    assert_eq!(batches.recv().unwrap(), 1);
    let holds = poll_once(&["b"], Some(store.clone()));
    fates.send(Fate::Durable).unwrap();
    assert_eq!(batches.recv().unwrap(), 1);
    fates.send(Fate::Durable).unwrap();
    drop(fates);
    runtime.block_on(put(&store, &["c"], "1")).unwrap();
    drop((panics, holds, store));
    drop(Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap());
}

#[test]
fn what_the_file_system_said_is_told_and_not_how_the_library_says_it() {
    let full = || std::io::Error::from_raw_os_error(28);
    for error in [fjall::Error::Io(full()), fjall::Error::Storage(fjall::LsmError::Io(full()))] {
        assert_eq!(super::writer::cause(error).to_string(), "No space left on device (os error 28)");
    }
}
