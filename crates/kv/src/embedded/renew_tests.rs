//! Does an opening write the files anew that an earlier process may have failed to sync?

use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fjall::{OwnedWriteBatch as WriteBatch, PersistMode};
use glidepath_env::{Cell, ConditionError, KvStore, ReadLevel, Table, WriteError};

use super::folder::Folder;
use super::renew::renew;
use super::tables::Tables;
use super::{Embedded, EmbeddedOptions, OpenError};

fn table() -> Table {
    Table::new("cells").unwrap()
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedOptions::default()).unwrap()
}

async fn put(store: &Embedded, column: &'static str) -> Result<(), ConditionError> {
    let column = (Bytes::from_static(column.as_bytes()), Bytes::from_static(b"value"));
    store.put_unless_exists(&table(), &Bytes::from_static(b"row"), &[column]).await
}

async fn has(store: &Embedded, column: &'static str) -> bool {
    let cell = Cell { row: Bytes::from_static(b"row"), column: Bytes::from_static(column.as_bytes()) };
    store.get(&table(), &[cell], ReadLevel::Linearizable).await.unwrap()[0].is_some()
}

/// A folder with one table and one cell, closed, and the paths of the files that an opening writes anew.
async fn one_cell() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.create_table(&table()).await.unwrap();
    put(&store, "first").await.unwrap();
    drop(store);
    let cells = folder.path().join("cells");
    let tables = fs::read_dir(cells.join("keyspaces")).unwrap();
    let mut renewed: Vec<_> = tables.map(|table| table.unwrap().path().join("current")).collect();
    assert_eq!(renewed.len(), 2, "the table, and what the library keeps of tables");
    renewed.insert(0, cells.join("0.jnl"));
    (folder, renewed)
}

fn number(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// How many bytes of a journal were written; behind them are zeros.
fn used(journal: &Path) -> usize {
    fs::read(journal).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// A disk that loses the pages of one failed sync: they can be read until the power cut, and no later sync writes them.
#[tokio::test]
async fn what_a_failed_sync_left_is_durable_once_it_was_found() {
    let (folder, _) = one_cell().await;
    let journal = folder.path().join("cells/0.jnl");
    let lost_from = used(&journal);
    let fails = |batch: WriteBatch| {
        batch.durability(Some(PersistMode::Buffer)).commit()?;
        Err(fjall::Error::Io(io::Error::other("the sync failed")))
    };
    let store = Embedded::open_with(folder.path(), &EmbeddedOptions::default(), Box::new(fails)).unwrap();
    let unknown = put(&store, "second").await;
    assert!(matches!(unknown, Err(ConditionError::Unknown(_))), "{unknown:?}");
    drop(store);
    let (lost, lost_to) = (number(&journal), used(&journal));
    assert!(lost_to > lost_from);
    let store = open(folder.path());
    let again = put(&store, "second").await;
    assert!(matches!(again, Err(ConditionError::Lost { .. })), "a retry finds its own write: {again:?}");
    put(&store, "third").await.unwrap();
    drop(store);
    // The power cut: what was never written to that file is gone.
    if number(&journal) == lost {
        let file = File::options().write(true).open(&journal).unwrap();
        file.write_all_at(&vec![0; lost_to - lost_from], lost_from as u64).unwrap();
    }
    let store = open(folder.path());
    for column in ["first", "second", "third"] {
        assert!(has(&store, column).await, "{column} was acknowledged, or found by a retry");
    }
}

#[tokio::test]
async fn an_opening_writes_these_files_anew_and_no_other() {
    let (folder, renewed) = one_cell().await;
    let cells = folder.path().join("cells");
    let others = ["0.jnl.old", "x.jnl.new", "version"].map(|name| cells.join(name));
    for other in &others[..2] {
        fs::write(other, "somebody's").unwrap();
    }
    let left = [cells.join("0.jnl.new"), cells.join("7.jnl.new"), renewed[1].with_added_extension("new")];
    for left in &left {
        fs::write(left, "the beginning of a copy").unwrap();
    }
    let state = |paths: &[PathBuf]| -> Vec<_> {
        paths.iter().map(|path| (number(path), fs::read(path).unwrap(), fs::metadata(path).unwrap().mode())).collect()
    };
    let (before, others_before) = (state(&renewed), state(&others));
    // The files that are replaced stay open, so that no new one gets the number of one of them.
    let _open: Vec<_> = renewed.iter().map(|path| File::open(path).unwrap()).collect();
    let store = open(folder.path());
    assert!(has(&store, "first").await);
    drop(store);
    for ((before, after), path) in before.iter().zip(state(&renewed)).zip(&renewed) {
        assert_ne!(before.0, after.0, "{path:?} is the same file as before");
        assert!(before.1 == after.1 && before.2 == after.2, "{path:?} has other bytes or another mode");
    }
    assert_eq!(others_before, state(&others));
    assert!(!left.iter().any(|left| left.exists()));
}

/// Zeros are not written, and the copy has them all the same, at whatever distance.
#[tokio::test]
async fn a_copy_has_the_same_bytes() {
    const PART: usize = 64 << 10;
    let (folder, renewed) = one_cell().await;
    for (zeros, more) in [(0, 0), (PART - 1, 1), (PART, 1), (3 * PART + 7, 0), (2 * PART, PART + 1), (1, 2 * PART)] {
        let bytes = [vec![0; zeros], vec![7; more], vec![0; zeros]].concat();
        fs::write(&renewed[0], &bytes).unwrap();
        renew(&folder.path().join("cells"), &File::sync_all).unwrap();
        assert!(fs::read(&renewed[0]).unwrap() == bytes, "{zeros} zeros around {more} bytes");
    }
}

#[tokio::test]
async fn each_copy_is_synced_before_its_name_and_each_folder_after_it() {
    let (folder, renewed) = one_cell().await;
    let synced = RefCell::new(Vec::new());
    let replaced: Vec<_> = renewed.iter().map(|path| File::open(path).unwrap()).collect();
    let is_replaced = |at: usize| number(&renewed[at]) != replaced[at].metadata().unwrap().ino();
    let sync = |file: &File| {
        let metadata = file.metadata()?;
        let names: Vec<bool> = (0..renewed.len()).map(is_replaced).collect();
        synced.borrow_mut().push((metadata.ino(), metadata.is_dir(), names));
        Ok(())
    };
    renew(&folder.path().join("cells"), &sync).unwrap();
    let synced = synced.borrow();
    assert_eq!(synced.len(), 2 * renewed.len() + 1);
    assert_eq!(synced.last().unwrap().0, number(&folder.path().join("cells/keyspaces")), "folders are moved in it");
    for (at, path) in renewed.iter().enumerate() {
        let file = synced.iter().find(|synced| synced.0 == number(path)).expect("the copy was synced");
        assert!(!file.2[at], "{path:?} had the copy before the copy was synced");
        let above = synced.iter().find(|synced| synced.0 == number(path.parent().unwrap())).unwrap();
        assert!(above.1 && above.2[at], "{path:?} had no copy yet when its folder was synced");
    }
}

#[tokio::test]
async fn where_a_sync_fails_nothing_is_opened_and_nothing_is_lost() {
    let (folder, renewed) = one_cell().await;
    let cells = folder.path().join("cells");
    // Each in turn fails; after the last one none does.
    for fails in 0..=2 * renewed.len() + 1 {
        let count = RefCell::new(0..);
        let sync = |_: &File| match count.borrow_mut().next() {
            Some(number) if number == fails => Err(io::Error::other("the sync failed")),
            _ => Ok(()),
        };
        match renew(&cells, &sync) {
            Ok(()) => assert_eq!(fails, 2 * renewed.len() + 1),
            Err(error) => {
                let words = error.to_string();
                assert!(words.contains(&*cells.to_string_lossy()) && words.contains("the sync failed"), "{words}");
                assert!(words.contains("room for a copy"), "{words}");
            }
        }
        for path in &renewed {
            assert!(!path.with_added_extension("new").exists());
        }
    }
    assert!(has(&open(folder.path()), "first").await);
    // A copy that cannot be made, as on a full disk: here something that is no copy has its name.
    fs::create_dir(cells.join("0.jnl.new")).unwrap();
    let error = Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Files { .. }), "{error:?}");
    assert!(error.to_string().contains("0.jnl.new"), "{error}");
    fs::remove_dir(cells.join("0.jnl.new")).unwrap();
    assert!(has(&open(folder.path()), "first").await);
}

#[tokio::test]
async fn folders_of_tables_come_back_from_where_a_kill_left_them() {
    let (folder, renewed) = one_cell().await;
    for current in &renewed[1..] {
        let place = current.parent().unwrap();
        fs::rename(place, place.with_added_extension("away")).unwrap();
    }
    assert!(has(&open(folder.path()), "first").await);
    assert!(renewed.iter().all(|path| path.exists()));
}

/// An opening that failed at the last steps leaves all but the file `format`, and one that was killed as it wrote the
/// name of the folder `cells` once more leaves that under another name.
#[tokio::test]
async fn a_folder_without_its_format_is_finished() {
    let (folder, _) = one_cell().await;
    let path = |name: &str| folder.path().join(name);
    for name in ["cells", "cells.away"] {
        fs::remove_file(path("format")).unwrap();
        fs::rename(path("cells"), path(name)).unwrap();
        assert!(has(&open(folder.path()), "first").await, "{name}");
        assert!(path("format").exists() && path("cells").exists() && !path("cells.away").exists(), "{name}");
    }
}

#[tokio::test]
async fn a_table_whose_name_failed_to_sync_is_not_made_by_a_second_try() {
    let (path, _) = one_cell().await;
    let mut folder = Folder::open(path.path(), &EmbeddedOptions::default()).unwrap();
    folder.sync = |_| Err(io::Error::other("the sync failed"));
    let (tables, broken) = (Tables::new(folder, 1 << 20).unwrap(), super::Broken::default());
    let other = Table::new("other").unwrap();
    match tables.create(&other, &broken) {
        Err(WriteError::Refused(denial)) => {
            assert!(!denial.certain, "the table may be there");
            let words = denial.to_string();
            assert!(words.contains("other") && words.contains("open it again"), "{words}");
        }
        made => panic!("{made:?}"),
    }
    assert!(broken.get().is_some(), "so the writer refuses the next try, and all writes");
    assert!(tables.get(&other).is_none());
    drop(tables);
    let store = open(path.path());
    store.create_table(&other).await.unwrap();
    assert!(has(&store, "first").await);
}
