//! A store on local disk whose directory is moved, removed or replaced while it is open.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_stores::local::{Durability, LocalStore};

fn store(directory: &Path) -> LocalStore {
    LocalStore::new(directory, Durability::None).unwrap()
}

fn body(text: &str) -> Payload {
    Bytes::copy_from_slice(text.as_bytes()).into()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// As if its file system were unmounted, or somebody had moved it: what is written elsewhere is not in the store.
#[tokio::test]
async fn nothing_is_written_into_another_directory_at_its_place() {
    let above = tempfile::tempdir().unwrap();
    let (place, away) = (above.path().join("lake"), above.path().join("away"));
    let store = store(&place);
    let put = async |key: &str| store.put(&Key::new(key), body("x"), Guard::Absent).await;
    put("a").await.unwrap();
    let tag = store.get(&Key::new("a")).await.unwrap().tag;
    fs::rename(&place, &away).unwrap();
    let other = async || match put("b").await {
        Err(PutError::Refused(denial)) => assert!(denial.cause.to_string().contains("is not the one"), "{denial:?}"),
        other => panic!("{other:?}"),
    };
    // What is in another directory says nothing of the store.
    let unseen = async || {
        let reads = [
            store.get(&Key::new("a")).await.map(drop).unwrap_err(),
            store.get(&Key::new("b")).await.map(drop).unwrap_err(),
            store.head(&Key::new("a")).await.map(drop).unwrap_err(),
            store.head(&Key::new("b")).await.map(drop).unwrap_err(),
            store.list(&Key::new(""), None, 9).await.map(drop).unwrap_err(),
        ];
        for error in reads {
            assert!(matches!(error, ReadError::Failed(_)) && error.to_string().contains("is not the one"), "{error}");
        }
    };
    other().await;
    unseen().await;
    assert!(!place.exists());
    fs::create_dir(&place).unwrap();
    other().await;
    unseen().await;
    // A copy of all of it, as after a move to another disk.
    fs::remove_dir(&place).unwrap();
    copy(&away, &place);
    other().await;
    unseen().await;
    for refused in [
        store.put(&Key::new("a"), body("z"), Guard::Matches(tag)).await.is_err(),
        store.append(&Key::new("a"), body("z"), 1).await.is_err(),
        store.delete(&Key::new("a")).await.is_err(),
    ] {
        assert!(refused);
    }
    fs::remove_dir_all(&place).unwrap();
    // Another store.
    LocalStore::new(&place, Durability::None).unwrap().put(&Key::new("a"), body("y"), Guard::None).await.unwrap();
    other().await;
    fs::rename(&place, above.path().join("theirs")).unwrap();
    fs::rename(&away, &place).unwrap();
    put("b").await.unwrap();
    // A top folder that somebody has removed is made again.
    fs::remove_dir_all(place.join("locks")).unwrap();
    fs::remove_dir_all(place.join("writers")).unwrap();
    put("c").await.unwrap();
    let found: Vec<_> =
        store.list(&Key::new(""), None, 9).await.unwrap().objects.into_iter().map(|one| one.key).collect();
    assert_eq!(found, ["a", "b", "c"].map(Key::new));
}

/// How many files this process has open in a folder.
#[cfg(target_os = "linux")]
fn open_in(folder: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|one| fs::read_link(one.path()).ok());
    open.filter(|path| path.starts_with(folder)).count()
}

/// What waits for its lock when the directory is moved is not done elsewhere, and leaves nothing there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn writes_that_wait_are_not_done_in_another_directory() {
    for copied in [false, true] {
        let above = tempfile::tempdir().unwrap();
        let (place, away) = (above.path().join("lake"), above.path().join("away"));
        let store = store(&place);
        let key = |name: &str| Key::new(name);
        for name in ["a", "b"] {
            store.put(&key(name), body("x"), Guard::Absent).await.unwrap();
        }
        let lock = |number: u8| {
            let path = place.join("locks").join(format!("{number:02x}"));
            let file = fs::File::options().create(true).write(true).truncate(false).open(path).unwrap();
            file.lock().unwrap();
            file
        };
        let held: Vec<fs::File> = (0..=u8::MAX).map(lock).collect();
        let new: Vec<String> = (0..8).map(|number| format!("new-{number}")).collect();
        let puts = new.iter().map(|name| {
            let (store, key) = (store.clone(), key(name));
            tokio::spawn(async move { store.put(&key, body("y"), Guard::Absent).await.is_err() })
        });
        let mut refused: Vec<_> = puts.collect();
        let (deletes, appends) = (store.clone(), store.clone());
        refused.push(tokio::spawn(async move { deletes.delete(&Key::new("b")).await.is_err() }));
        refused.push(tokio::spawn(async move { appends.append(&Key::new("a"), body("y"), 1).await.is_err() }));
        // Most have come as far as their locks (two may share one): they have opened its file too.
        while open_in(&place.join("locks")) < held.len() + refused.len() / 2 {
            tokio::task::yield_now().await;
        }
        fs::rename(&place, &away).unwrap();
        if copied {
            copy(&away, &place);
        }
        drop(held);
        for refused in refused {
            assert!(refused.await.unwrap(), "acknowledged, copied: {copied}");
        }
        assert_eq!(place.exists(), copied, "another store at its place");
        if copied {
            fs::remove_dir_all(&place).unwrap();
        }
        fs::rename(&away, &place).unwrap();
        assert_eq!(store.get(&key("b")).await.unwrap().payload.bytes, "x");
        assert_eq!(store.get(&key("a")).await.unwrap().payload.bytes, "x");
    }
}
