//! Catalogs of numbered tables, in one object and in a log.

use std::sync::Arc;

use glidepath_env::{Env, Key};
use glidepath_model::{ByteSize, Changes, Edit, TableId, TableState};
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::group::Request;
use glidepath_protocols::{Catalog, LoadError};

use crate::design::Design;

use super::{FillError, LISTED, MOST_CLIENTS, Subject, created};

pub(crate) enum File {}

pub(crate) enum Log {}

impl Subject for File {
    type Place = catalog_file::Place;
    type Catalog<E: Env> = CatalogFile<E>;

    fn place(prefix: &str) -> catalog_file::Place {
        catalog_file::Place::new(Key::new(&format!("{prefix}catalog")), ByteSize::default())
    }

    fn catalog<E: Env>(env: E, store: E::Objects, place: Arc<catalog_file::Place>) -> CatalogFile<E> {
        CatalogFile::new(env, store, place)
    }

    async fn fill<E: Env>(
        file: &CatalogFile<E>,
        _: Design,
        rows: u64,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<(), FillError> {
        created(file.create(tables(rows)).await)?;
        if progress(rows) { Ok(()) } else { Err(FillError::Stopped) }
    }

    fn create(rows: u64, writer: u32, number: u64) -> Request {
        creation(rows, writer, number)
    }

    async fn describe<E: Env>(
        file: &CatalogFile<E>,
        at: &catalog_file::Snapshot,
        number: u64,
    ) -> Result<bool, LoadError> {
        count(file, at, number..number + 1).await.map(|found| found == 1)
    }

    async fn list<E: Env>(file: &CatalogFile<E>, at: &catalog_file::Snapshot, rows: u64) -> Result<u64, LoadError> {
        count(file, at, 0..rows.min(LISTED as u64)).await
    }
}

impl Subject for Log {
    type Place = append_log::Place;
    type Catalog<E: Env> = AppendLog<E>;

    fn place(prefix: &str) -> append_log::Place {
        append_log::Place::new(prefix.trim_end_matches('/'), Limits::default())
    }

    fn catalog<E: Env>(env: E, store: E::Objects, place: Arc<append_log::Place>) -> AppendLog<E> {
        AppendLog::new(env, store, place)
    }

    async fn fill<E: Env>(
        log: &AppendLog<E>,
        _: Design,
        rows: u64,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<(), FillError> {
        created(log.create(tables(rows)).await)?;
        if progress(rows) { Ok(()) } else { Err(FillError::Stopped) }
    }

    fn create(rows: u64, writer: u32, number: u64) -> Request {
        creation(rows, writer, number)
    }

    async fn describe<E: Env>(log: &AppendLog<E>, at: &append_log::Snapshot, number: u64) -> Result<bool, LoadError> {
        count(log, at, number..number + 1).await.map(|found| found == 1)
    }

    async fn list<E: Env>(log: &AppendLog<E>, at: &append_log::Snapshot, rows: u64) -> Result<u64, LoadError> {
        count(log, at, 0..rows.min(LISTED as u64)).await
    }
}

fn id(number: u64) -> TableId {
    TableId(u32::try_from(number).unwrap_or(u32::MAX))
}

fn tables(rows: u64) -> Vec<(TableId, TableState)> {
    (0..rows).map(|number| (id(number), TableState::new(1))).collect()
}

/// The ids of different clients lie between one another; each has two million.
fn creation(rows: u64, client: u32, number: u64) -> Request {
    let number = rows + number * u64::from(MOST_CLIENTS) + u64::from(client);
    Changes::of(id(number), Edit::Create(TableState::new(1))).actions()
}

async fn count<C: Catalog>(catalog: &C, at: &C::Snapshot, numbers: std::ops::Range<u64>) -> Result<u64, LoadError> {
    let ids: Vec<TableId> = numbers.map(id).collect();
    let found = catalog.tables(at, &ids).await?;
    Ok(found.iter().flatten().count() as u64)
}
