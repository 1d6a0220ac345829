//! Tests that the store in files keeps the contract on a simulated disk, and what it reports when the disk fails.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::Cell;
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use glidepath_env::conformance::run_all;
use glidepath_env::{Access, Denial, Env, Files, Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_files::{Durability, FileStore};
use glidepath_model::{Instant, Span};
use glidepath_sim::{Disk, DiskFaults, Mode, Setup, SimEnv, SimFiles, Simulation};

const FOLDER: &str = "/store";

type Store = FileStore<SimFiles>;

async fn opened(disk: &Disk, env: &SimEnv, folder: &str) -> std::io::Result<Store> {
    FileStore::open(disk.process(env.clone()), Path::new(folder), Durability::Fsync).await
}

async fn store(disk: &Disk, env: &SimEnv) -> Store {
    opened(disk, env, FOLDER).await.unwrap()
}

/// Runs a future in a process of its own.
fn run<F: Future<Output = ()> + 'static>(act: impl FnOnce(SimEnv) -> F) {
    let horizon = Instant::ZERO + Span::from_secs(36_000);
    let setup = Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores: vec![] };
    let ended = Rc::new(Cell::new(false));
    let told = Rc::clone(&ended);
    Simulation::new(setup).run([(Instant::ZERO, move |env| {
        let act = act(env);
        async move {
            act.await;
            told.set(true);
        }
    })]);
    assert!(ended.get(), "it waits for ever");
}

fn body(text: &str) -> Payload {
    Bytes::copy_from_slice(text.as_bytes()).into()
}

fn failing(failed_sync: f64) -> DiskFaults {
    DiskFaults { failed_sync, ..DiskFaults::default() }
}

#[test]
fn keeps_the_contract() {
    let disk = Disk::new(1);
    run(|env| async move {
        let mut stores = Vec::new();
        for _ in 0..4 {
            stores.push(store(&disk, &env).await);
        }
        let broken = run_all(&stores, &Key::new("scratch")).await;
        assert!(broken.is_empty(), "{broken:?}");
    });
}

/// What a failed sync left is not read before it is durable.
#[test]
fn what_is_read_back_after_a_failed_sync_is_durable() {
    let ends = Rc::new(Cell::new([0; 3]));
    for seed in 0..50 {
        let counted = Rc::clone(&ends);
        let (disk, key) = (Disk::new(seed), Key::new("folder/object"));
        let (other, read) = (disk.clone(), key.clone());
        run(|env| async move {
            let store = store(&other, &env).await;
            let tag = store.put(&key, body("old"), Guard::Absent).await.unwrap();
            let appended = store.append(&Key::new("log"), body("first"), 0).await.unwrap();
            other.suffer(failing(1.0));
            // Its file cannot be made durable either, so nothing takes effect.
            let put = store.put(&key, body("new"), Guard::Matches(tag.clone())).await;
            assert!(matches!(put, Err(PutError::Refused(Denial { certain: true, .. }))), "{put:?}");
            let again = store.append(&Key::new("log"), body(" second"), appended.end).await;
            assert!(matches!(again, Err(PutError::Refused(_))), "{again:?}");
            assert_eq!(store.get(&key).await.unwrap().tag, tag);
            other.suffer(failing(0.5));
            let mut ends = counted.get();
            for round in 0..40 {
                let held = store.get(&key).await;
                let Ok(object) = held else { continue };
                match store.put(&key, body(&format!("new {round}")), Guard::Matches(object.tag)).await {
                    Ok(_) => ends[0] += 1,
                    Err(PutError::Unknown(_)) => ends[1] += 1,
                    Err(_) => ends[2] += 1,
                }
            }
            counted.set(ends);
        });
        // What a reader in a fresh process sees must survive the next power cut.
        let seen = Rc::new(Cell::new(None));
        let (told, key, other) = (Rc::clone(&seen), read.clone(), disk.clone());
        run(|env| async move {
            other.suffer(DiskFaults::default());
            let store = store(&other, &env).await;
            told.set(Some(store.get(&key).await.unwrap()));
        });
        disk.restart();
        let (key, other) = (read, disk.clone());
        run(|env| async move {
            let found = store(&other, &env).await.get(&key).await.unwrap();
            assert_eq!(Some(found), seen.take(), "seed {seed}");
        });
    }
    assert!(ends.get().iter().all(|end| *end > 50), "{:?}", ends.get());
}

/// Keys that share a lock.
fn neighbours(count: usize) -> Vec<Key> {
    let all = (0..100_000).map(|number| format!("folder/{number}"));
    all.filter(|key| crc32fast::hash(key.as_bytes()) & 0xff == 7).take(count).map(|key| Key::new(&key)).collect()
}

/// Writes to keys that share a lock while syncs and other calls fail. Returns whether everything that a second process
/// could read at the end survives a power cut.
fn what_was_read_outlives_a_power_cut(seed: u64) -> bool {
    let (disk, seen) = (Disk::new(seed), Rc::new(Cell::new(Vec::new())));
    let (other, told) = (disk.clone(), Rc::clone(&seen));
    run(|env| async move {
        let (writer, reader) = (store(&other, &env).await, store(&other, &env).await);
        let keys = neighbours(3);
        for round in 0..12_u64 {
            other.suffer(DiskFaults { failed_sync: 0.3, io_error: 0.1, ..DiskFaults::default() });
            let luck = seed.wrapping_mul(31) + round * round;
            let _ = writer.put(&keys[(luck % 3) as usize], body(&format!("{round}")), Guard::None).await;
        }
        other.suffer(DiskFaults::default());
        let mut found = Vec::new();
        for key in &keys {
            found.push(reader.get(key).await.ok());
        }
        told.set(found);
    });
    disk.restart();
    let same = Rc::new(Cell::new(false));
    let told = Rc::clone(&same);
    run(|env| async move {
        let store = store(&disk, &env).await;
        let mut found = Vec::new();
        for key in neighbours(3) {
            found.push(store.get(&key).await.ok());
        }
        told.set(found == seen.take());
    });
    same.get()
}

#[test]
fn keys_that_share_a_lock_are_in_doubt_each_for_itself() {
    assert_eq!((0..4000).find(|seed| !what_was_read_outlives_a_power_cut(*seed)), None);
}

#[cfg(feature = "mutants")]
#[test]
fn a_mark_that_names_another_key_is_caught() {
    use glidepath_files::mutant::{Mutant, with};
    let caught = with(Mutant::MarkOfAnother, || (0..4000).find(|seed| !what_was_read_outlives_a_power_cut(*seed)));
    println!("MarkOfAnother: caught by seed {}", caught.unwrap());
}

/// The first processes to open a store crash, or a sync of theirs fails; what the next one acknowledges is durable
/// nevertheless.
#[test]
fn a_store_whose_first_opening_failed_is_durable() {
    for seed in 0..2000 {
        // Folders above the store that a crashed process created are made durable, too, but not if that fails.
        let [first, second] = match seed % 2 {
            0 => [DiskFaults { death: 0.05, ..DiskFaults::default() }; 2],
            _ => [failing(0.4), failing(0.3)],
        };
        let folder = if seed % 2 == 0 { "/some/where/store" } else { "/store" };
        let disk = Disk::new(seed);
        let (other, after) = (disk.clone(), disk.clone());
        run(|env| async move {
            for faults in [first, second] {
                other.suffer(faults);
                drop(within(&env, opened(&other, &env, folder)).await);
            }
            other.suffer(DiskFaults::default());
            let store = opened(&other, &env, folder).await.unwrap();
            store.put(&Key::new("a/b"), body("kept"), Guard::Absent).await.unwrap();
        });
        disk.restart();
        run(|env| async move {
            let found = opened(&after, &env, folder).await.unwrap().get(&Key::new("a/b")).await;
            assert_eq!(found.map(|object| object.payload).ok(), Some(body("kept")), "seed {seed}");
        });
    }
}

/// A process creates nested folders while syncs fail, and may crash. What the next one acknowledges in them is durable.
#[test]
fn new_folders_are_durable_before_anything_in_them_is_acknowledged() {
    for seed in 0..6000 {
        let disk = Disk::new(seed);
        let (other, after) = (disk.clone(), disk.clone());
        run(|env| async move {
            let first = store(&other, &env).await;
            other.suffer(DiskFaults { failed_sync: 0.25, death: 0.02, ..DiskFaults::default() });
            drop(within(&env, first.put(&Key::new("a/b/c/one"), body("one"), Guard::None)).await);
            other.suffer(DiskFaults::default());
            store(&other, &env).await.put(&Key::new("a/b/c/two"), body("two"), Guard::None).await.unwrap();
        });
        disk.restart();
        run(|env| async move {
            let found = store(&after, &env).await.get(&Key::new("a/b/c/two")).await;
            assert_eq!(found.map(|object| object.payload).ok(), Some(body("two")), "seed {seed}");
        });
    }
}

/// The result of a future within a minute: a process that crashed never answers.
async fn within<T>(env: &SimEnv, act: impl Future<Output = T>) -> Option<T> {
    let mut minute = std::pin::pin!(env.sleep_until(env.now() + Span::from_secs(60)));
    let mut act = std::pin::pin!(act);
    poll_fn(|context| match act.as_mut().poll(context) {
        Poll::Ready(came) => Poll::Ready(Some(came)),
        Poll::Pending => minute.as_mut().poll(context).map(|()| None),
    })
    .await
}

#[test]
fn a_lock_that_is_held_too_long_is_named() {
    let disk = Disk::new(1);
    run(|env| async move {
        let store = store(&disk, &env).await;
        let key = Key::new("object");
        store.put(&key, body("x"), Guard::Absent).await.unwrap();
        let stuck = disk.process(env.clone());
        let mut held = Vec::new();
        for name in stuck.names(Path::new("/store/locks")).await.unwrap() {
            let file = stuck.open(&Path::new("/store/locks").join(name), Access::Write).await.unwrap();
            assert!(stuck.try_lock(&file).await.unwrap());
            held.push(file);
        }
        let put = store.put(&key, body("y"), Guard::None).await;
        let Err(PutError::Refused(Denial { cause, certain: true, passing: false })) = put else { panic!("{put:?}") };
        assert!(cause.to_string().contains("/store/locks/") && cause.is_busy(), "{cause}");
        assert_eq!(store.get(&key).await.unwrap().payload, body("x"), "readers take no lock");
        // A writer that stopped between its rename and its sync.
        for file in &held {
            stuck.write_at(file, b"?", 0).await.unwrap();
        }
        let read = store.get(&key).await;
        assert!(matches!(&read, Err(ReadError::Failed(cause)) if cause.is_busy()), "{read:?}");
        drop(held);
        assert_eq!(store.get(&key).await.unwrap().payload, body("x"));
    });
}

#[test]
fn a_damaged_object_is_listed_and_does_not_hide_others() {
    let disk = Disk::new(1);
    run(|env| async move {
        let store = store(&disk, &env).await;
        for name in ["a", "b", "c"] {
            store.put(&Key::new(name), body(name), Guard::Absent).await.unwrap();
        }
        let files = disk.process(env.clone());
        for (name, length) in [("a", 0), ("b", 1024)] {
            let path = format!("/store/objects/{name}%o");
            let file = files.open(Path::new(&path), Access::Write).await.unwrap();
            files.set_len(&file, length).await.unwrap();
        }
        let listed = store.list(&Key::new(""), None, 10).await.unwrap().objects;
        let sizes: Vec<_> = listed.iter().map(|listed| (listed.key.as_str(), listed.size.as_bytes())).collect();
        assert_eq!(sizes, [("a", 0), ("b", 1), ("c", 1)]);
        for name in ["a", "b"] {
            let error = store.get(&Key::new(name)).await.unwrap_err().to_string();
            assert!(error.contains(&format!("/store/objects/{name}%o")) && error.contains("damaged"), "{error}");
        }
        assert_eq!(store.get(&Key::new("c")).await.unwrap().payload, body("c"));
    });
}
