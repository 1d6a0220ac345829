//! Which transactions that started in a range have ended? In constant memory, a page at a time.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use bytes::Bytes;
use glidepath_env::{Cell, Columns, Env, KvStore, ReadLevel};

use super::{GetError, Transactions};
use crate::encoding::RowsCovering;
use crate::{Encoding, Entry, Outcome, Stage, Timestamp};

/// The ends of the transactions that started in a range, a page at a time. Of tickets, by row: not in the order of
/// their timestamps. Of the original encoding, in the store's order of rows, all of which it goes through.
///
/// A transaction that ended before the scan began is in it. One that ended meanwhile may be.
pub struct Scan<'a, E, K> {
    of: &'a Transactions<E, K>,
    range: RangeInclusive<Timestamp>,
    limit: usize,
    level: ReadLevel,
    place: Place,
}

enum Place {
    Rows {
        rows: RowsCovering,
        /// The row that is read now, and which of its columns are left.
        now: Option<(Bytes, Columns)>,
    },
    Table {
        after: Option<Bytes>,
        ended: bool,
        found: VecDeque<Bytes>,
    },
}

impl<E: Env, K: KvStore> Transactions<E, K> {
    /// A scan in pages of at most `limit` (at least one).
    pub fn scan(&self, range: RangeInclusive<Timestamp>, limit: usize) -> Scan<'_, E, K> {
        let place = match self.shared.encoding {
            Encoding::Original(_) => Place::Table { after: None, ended: false, found: VecDeque::new() },
            Encoding::Tickets(tickets) => Place::Rows { rows: tickets.rows_covering(range.clone()), now: None },
            Encoding::Staged(staged) => Place::Rows { rows: staged.tickets().rows_covering(range.clone()), now: None },
        };
        let sure = self.store.capabilities().plain_reads_are_linearizable;
        let level = if sure { ReadLevel::Plain } else { ReadLevel::Linearizable };
        Scan { of: self, range, limit: limit.max(1), level, place }
    }
}

impl<E: Env, K: KvStore> Scan<'_, E, K> {
    /// The next page; `None` at the end. A page may be empty. After an error it may be asked for again.
    ///
    /// # Errors
    /// [`GetError`]
    pub async fn next(&mut self) -> Result<Option<Vec<(Timestamp, Outcome)>>, GetError> {
        let Some(cells) = self.next_cells().await? else { return Ok(None) };
        let mut page = Vec::with_capacity(cells.len());
        let mut staged: Vec<(Timestamp, Entry)> = Vec::new();
        for (cell, value) in cells {
            let (start, entry) = self.of.decode(&cell, &value)?;
            if !self.range.contains(&start) {
                continue;
            }
            page.push((start, entry.outcome));
            if entry.stage == Stage::Staged {
                staged.push((start, entry));
            }
        }
        // Read by a linearizable read, so what is staged has taken effect.
        self.of.make_final(&staged).await;
        Ok(Some(page))
    }

    async fn next_cells(&mut self) -> Result<Option<Vec<(Cell, Bytes)>>, GetError> {
        let Self { of, limit, level, .. } = *self;
        match &mut self.place {
            Place::Rows { rows, now } => {
                if now.is_none() {
                    *now = rows.next().map(|row| {
                        let columns = Columns { from: Some(row.columns.start), before: Some(row.columns.end) };
                        (row.row, columns)
                    });
                }
                let Some((row, columns)) = now else { return Ok(None) };
                let slice = of.store.scan(&of.shared.table, row, columns, limit, level).await?;
                let cells: Vec<_> =
                    slice.cells.into_iter().map(|(column, value)| (Cell { row: row.clone(), column }, value)).collect();
                match (slice.more, cells.last()) {
                    // The next column in byte order: this one and a zero.
                    (true, Some((last, _))) => columns.from = Some([&last.column[..], &[0]].concat().into()),
                    _ => *now = None,
                }
                Ok(Some(cells))
            }
            Place::Table { after, ended, found } => {
                if found.is_empty() && !*ended {
                    let rows = of.store.rows(&of.shared.table, after.as_ref(), limit).await?;
                    *ended = !rows.more || rows.rows.is_empty();
                    *after = rows.rows.last().cloned();
                    found.extend(rows.rows);
                } else if found.is_empty() {
                    return Ok(None);
                }
                let cells: Vec<_> =
                    found.iter().map(|row| Cell { row: row.clone(), column: Bytes::from_static(b"t") }).collect();
                let values = of.store.get(&of.shared.table, &cells, level).await?;
                found.clear();
                Ok(Some(cells.into_iter().zip(values).filter_map(|(cell, value)| Some((cell, value?))).collect()))
            }
        }
    }
}
