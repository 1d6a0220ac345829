//! Which division into batches loads many cells soonest?
//!
//! The three shapes and the two numbers of readers are those of AtlasDB's record.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Cause, Cell, ConditionError, KvStore, ReadLevel, Table};
use glidepath_kv::AnyKv;
use glidepath_txn::{Division, Planner};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::closed_loop::{Called, in_turn};
use super::{Context, Line, Part, TxnBenchError};

/// Rows and columns of the cells that are loaded together.
pub(super) const SHAPES: [(u32, u32); 3] = [(100, 100), (1000, 10), (16, 500)];

pub(super) const READERS: [u32; 2] = [1, 10];

pub(super) const DIVISIONS: [(Division, &str); 3] =
    [(Division::PerColumn, "per column"), (Division::Full, "full"), (Division::Selective, "selective")];

/// How often the divisions take turns.
const ROUNDS: u64 = 5;

/// Requests of one load at a time, as in `txn::table`.
const PARALLEL: usize = 16;

pub(super) async fn loads(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    for (rows, columns) in SHAPES {
        if context.stopped() {
            return Ok(());
        }
        let table = context.table(&format!("load{rows}"))?;
        let cells = prepare(context.store, &table, rows, columns).await?;
        for readers in READERS {
            let (store, table, cells) = (context.store.clone(), table.clone(), cells.clone());
            let load = move |kind: usize| load(store.clone(), table.clone(), cells.clone(), DIVISIONS[kind].0);
            let measured = (readers, context.plan.duration);
            let looped = in_turn(DIVISIONS.len(), ROUNDS, measured, context.stop, load).await;
            if context.stopped() {
                return Ok(());
            }
            for ((_, name), looped) in DIVISIONS.into_iter().zip(looped) {
                add(Line::of(Part::Loads, format!("{rows} rows of {columns} columns, {name}"), readers, looped));
            }
        }
    }
    Ok(())
}

/// Writes the cells: values of eight bytes.
async fn prepare(store: &AnyKv, table: &Table, rows: u32, columns: u32) -> Result<Vec<Cell>, TxnBenchError> {
    let failed = |cause: String| TxnBenchError::Cells(Cause::words(cause));
    store.create_table(table).await.map_err(|error| failed(error.to_string()))?;
    let most = store.capabilities().most_columns.clamp(1, 500);
    let mut cells = Vec::new();
    for row in 0..rows {
        let row = Bytes::copy_from_slice(&row.reverse_bits().to_be_bytes());
        let columns: Vec<_> = (0..columns).map(|column| Bytes::copy_from_slice(&column.to_be_bytes())).collect();
        for some in columns.chunks(most) {
            let values: Vec<_> = some.iter().map(|column| (column.clone(), Bytes::from_static(b"8 bytes."))).collect();
            match store.put_unless_exists(table, &row, &values).await {
                // An earlier delivery of this put was first.
                Ok(()) | Err(ConditionError::Lost { .. }) => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        cells.extend(columns.into_iter().map(|column| Cell { row: row.clone(), column }));
    }
    Ok(cells)
}

/// Loads all cells; an error if one is missing.
async fn load(store: AnyKv, table: Table, cells: Vec<Cell>, division: Division) -> Called {
    let expected = cells.len() as u64;
    let free = Arc::new(Semaphore::new(PARALLEL));
    let mut running = JoinSet::new();
    for batch in Planner::default().plan(division, cells) {
        let (store, table, free) = (store.clone(), table.clone(), Arc::clone(&free));
        running.spawn(async move {
            let _turn = free.acquire().await;
            let values = store.get(&table, batch.cells(), ReadLevel::Plain).await.map_err(|error| error.to_string())?;
            Ok::<_, String>(values.iter().flatten().count() as u64)
        });
    }
    let mut found = 0;
    while let Some(loaded) = running.join_next().await {
        found += loaded.map_err(|error| error.to_string())??;
    }
    if found == expected { Ok(found) } else { Err(format!("{found} of {expected} cells are there")) }
}
