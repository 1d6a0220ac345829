//! What do the tables of a simulated store hold, and what does each request to them do when it takes effect?
//!
//! A row may have one conditional write that is *half done*: the store has accepted it and failed before the end. Each
//! plain read shows it or not, by a draw. The next linearizable read or conditional write of the row decides it: it
//! takes effect at that moment, or never.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, Denial, KvReadError, Rank, ReadLevel, Rows, Slice, Table, WriteError,
};
use glidepath_model::Instant;

use crate::contention::{Contention, Entry, Hot, Ticket};
use crate::luck::Stream;

/// The value that a cell got by a write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellWritten {
    /// When, by the clock of the world: of a write that was half done, when it was decided.
    pub at: Instant,
    /// The process that sent it, counted from 1 in the order of arrival.
    pub by: u32,
    /// In which table.
    pub table: Table,
    /// Which cell.
    pub cell: Cell,
    /// What linearizable reads show from then on.
    pub value: Bytes,
    /// `None` of a conditional write, else the rank of the final value.
    pub rank: Option<Rank>,
}

/// How a read looks at what is half done.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) level: ReadLevel,
    /// What a plain read draws from.
    pub(crate) luck: Stream,
}

/// A conditional write of some columns of a row.
#[derive(Clone)]
pub(crate) struct Conditional {
    pub(crate) table: Table,
    pub(crate) row: Bytes,
    /// Each with its new value.
    pub(crate) columns: Vec<(Bytes, Bytes)>,
    /// The value that each of them must have; `None`: it must not exist.
    pub(crate) expected: Option<Bytes>,
    /// Where the store leaves it half done: what becomes of it.
    pub(crate) fate: Option<Fate>,
}

/// What becomes of a write that is half done, once it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    TakesEffect,
    Vanishes,
}

pub(crate) struct Tables {
    tables: BTreeMap<Table, BTreeMap<Place, Row>>,
    journal: Journal,
    /// Whether a refusal is certain.
    delivers_once: bool,
}

/// The place of a row in its table: rows are in the order of their hashes, as in stores that spread them, so that
/// nobody relies on the order of their names.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hash: u64,
    row: Bytes,
}

#[derive(Default)]
struct Row {
    cells: BTreeMap<Bytes, Stored>,
    half_done: Option<HalfDone>,
    /// The writers that contend for it, where the profile says what that does to them.
    hot: Hot,
}

struct Stored {
    value: Bytes,
    /// Of a final value.
    rank: Option<Rank>,
}

struct HalfDone {
    by: u32,
    columns: Vec<(Bytes, Bytes)>,
    fate: Fate,
}

/// Who writes at what moment, and what was written.
struct Journal {
    now: Instant,
    sender: u32,
    written: Option<Vec<CellWritten>>,
}

impl Place {
    /// The hash is FNV-1a.
    fn of(row: &Bytes) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self { hash: row.iter().fold(0xcbf2_9ce4_8422_2325, step), row: row.clone() }
    }
}

impl Journal {
    fn note(&mut self, by: u32, (table, row): (&Table, &Bytes), column: &Bytes, stored: &Stored) {
        if let Some(written) = &mut self.written {
            let cell = Cell { row: row.clone(), column: column.clone() };
            let Stored { value, rank } = stored;
            let (table, value, rank) = (table.clone(), value.clone(), *rank);
            written.push(CellWritten { at: self.now, by, table, cell, value, rank });
        }
    }
}

impl Row {
    /// Decides what is half done.
    fn decide(&mut self, name: (&Table, &Bytes), journal: &mut Journal) {
        if let Some(HalfDone { by, columns, fate: Fate::TakesEffect }) = self.half_done.take() {
            self.write(by, columns, name, journal);
        }
    }

    /// Gives cells their values, but for those that are final.
    fn write(&mut self, by: u32, columns: Vec<(Bytes, Bytes)>, name: (&Table, &Bytes), journal: &mut Journal) {
        for (column, value) in columns {
            if !self.is_final(&column) {
                let stored = Stored { value, rank: None };
                journal.note(by, name, &column, &stored);
                self.cells.insert(column, stored);
            }
        }
    }

    fn is_final(&self, column: &Bytes) -> bool {
        self.cells.get(column).is_some_and(|stored| stored.rank.is_some())
    }

    fn value(&self, column: &Bytes) -> Option<&Bytes> {
        self.cells.get(column).map(|stored| &stored.value)
    }

    /// What a plain read may show besides what has taken effect; whether it does is drawn.
    fn half_done(&self, luck: &mut Stream) -> &[(Bytes, Bytes)] {
        self.half_done.as_ref().filter(|_| luck.draw() & 1 == 0).map_or(&[], |half_done| &half_done.columns)
    }

    fn get(&self, column: &Bytes, luck: &mut Stream) -> Option<Bytes> {
        let half_done = self.half_done(luck).iter().find(|(other, _)| other == column && !self.is_final(column));
        half_done.map(|(_, value)| value).or_else(|| self.value(column)).cloned()
    }

    fn scan(&self, columns: &Columns, limit: usize, luck: &mut Stream) -> Slice {
        let Columns { from, before } = columns;
        let inside = |column: &Bytes| {
            from.as_ref().is_none_or(|from| column >= from) && before.as_ref().is_none_or(|before| column < before)
        };
        let first = from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let stored = self.cells.range::<Bytes, _>((first, Bound::Unbounded)).take_while(|(column, _)| inside(column));
        let mut shown: BTreeMap<&Bytes, &Bytes> =
            stored.take(limit.saturating_add(1)).map(|(column, stored)| (column, &stored.value)).collect();
        let half_done = self.half_done(luck).iter();
        shown.extend(
            half_done
                .filter(|(column, _)| inside(column) && !self.is_final(column))
                .map(|(column, value)| (column, value)),
        );
        let more = shown.len() > limit;
        let cells = shown.into_iter().take(limit).map(|(column, value)| (column.clone(), value.clone()));
        Slice { cells: cells.collect(), more }
    }

    /// Decides what is half done, and says whether the condition of a write holds.
    fn judge(&mut self, write: &Conditional, journal: &mut Journal) -> Result<(), ConditionError> {
        self.decide(write.name(), journal);
        if write.columns.iter().all(|(column, _)| self.value(column) == write.expected.as_ref()) {
            return Ok(());
        }
        let there = |(column, _): &(Bytes, Bytes)| Some((column.clone(), self.value(column)?.clone()));
        Err(ConditionError::Lost { found: write.columns.iter().filter_map(there).collect() })
    }

    /// What a write does whose condition holds. One that is left half done is answered to nobody.
    fn accept(&mut self, write: Conditional, journal: &mut Journal) {
        let by = journal.sender;
        let Conditional { table, row, columns, fate, .. } = write;
        match fate {
            None => self.write(by, columns, (&table, &row), journal),
            Some(fate) => self.half_done = Some(HalfDone { by, columns, fate }),
        }
    }
}

impl Conditional {
    fn name(&self) -> (&Table, &Bytes) {
        (&self.table, &self.row)
    }
}

impl Tables {
    pub(crate) fn new(delivers_once: bool) -> Self {
        let journal = Journal { now: Instant::ZERO, sender: 0, written: None };
        Self { tables: BTreeMap::new(), journal, delivers_once }
    }

    /// What is done to them from now on takes effect at this moment, and was sent by this process.
    pub(crate) fn at(&mut self, now: Instant, sender: u32) -> &mut Self {
        (self.journal.now, self.journal.sender) = (now, sender);
        self
    }

    pub(crate) fn keep_writes(&mut self) {
        self.journal.written.get_or_insert_default();
    }

    pub(crate) fn written(&self) -> &[CellWritten] {
        self.journal.written.as_deref().unwrap_or_default()
    }

    pub(crate) fn peek(&self, table: &Table, cell: &Cell) -> Option<Bytes> {
        self.tables.get(table)?.get(&Place::of(&cell.row))?.value(&cell.column).cloned()
    }

    pub(crate) fn cells(&self, table: &Table) -> BTreeMap<Cell, Bytes> {
        let rows = self.tables.get(table).into_iter().flatten();
        let cells = rows.flat_map(|(place, row)| row.cells.iter().map(move |(column, stored)| (place, column, stored)));
        cells
            .map(|(place, column, stored)| {
                let cell = Cell { row: place.row.clone(), column: column.clone() };
                (cell, stored.value.clone())
            })
            .collect()
    }

    pub(crate) fn create(&mut self, table: Table) {
        self.tables.entry(table).or_default();
    }

    pub(crate) fn seed(&mut self, table: &Table, cell: Cell, value: Bytes) {
        let row = self.tables.entry(table.clone()).or_default().entry(Place::of(&cell.row)).or_default();
        row.write(0, vec![(cell.column, value)], (table, &cell.row), &mut self.journal);
    }

    pub(crate) fn get(&mut self, table: &Table, cells: &[Cell], view: View) -> Result<Vec<Option<Bytes>>, KvReadError> {
        let mut luck = view.luck;
        let mut values = Vec::with_capacity(cells.len());
        self.existing(table)?;
        for Cell { row, column } in cells {
            values.push(self.row(table, row, view.level).and_then(|row| row.get(column, &mut luck)));
        }
        Ok(values)
    }

    pub(crate) fn scan(
        &mut self,
        (table, row): (&Table, &Bytes),
        columns: &Columns,
        limit: usize,
        view: View,
    ) -> Result<Slice, KvReadError> {
        let mut luck = view.luck;
        self.existing(table)?;
        Ok(self.row(table, row, view.level).map(|row| row.scan(columns, limit, &mut luck)).unwrap_or_default())
    }

    /// Rows with nothing but a write that is half done are left out.
    pub(crate) fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        let first = after.map_or(Bound::Unbounded, |after| Bound::Excluded(Place::of(after)));
        let rows = self.existing(table)?.range((first, Bound::Unbounded));
        let mut rows = rows.filter(|(_, row)| !row.cells.is_empty()).map(|(place, _)| place.row.clone());
        let page = rows.by_ref().take(limit).collect();
        Ok(Rows { rows: page, more: rows.next().is_some() })
    }

    fn existing(&self, table: &Table) -> Result<&BTreeMap<Place, Row>, KvReadError> {
        self.tables.get(table).ok_or_else(|| KvReadError::NoTable(table.clone()))
    }

    /// A row for a read; a linearizable one decides what is half done.
    fn row(&mut self, table: &Table, row: &Bytes, level: ReadLevel) -> Option<&Row> {
        let found = self.tables.get_mut(table)?.get_mut(&Place::of(row))?;
        if level == ReadLevel::Linearizable {
            found.decide((table, row), &mut self.journal);
        }
        Some(found)
    }

    pub(crate) fn write(&mut self, write: Conditional) -> Result<(), ConditionError> {
        let (row, journal) = self.row_to_write(&write.table, &write.row).map_err(ConditionError::Refused)?;
        row.judge(&write, journal)?;
        row.accept(write, journal);
        Ok(())
    }

    /// The same, where writers of one row slow each other down. Returns when it is answered too.
    pub(crate) fn contend(
        &mut self,
        write: Conditional,
        contention: &Contention,
        ticket: &Ticket,
    ) -> (Result<(), ConditionError>, Instant) {
        let (now, certain) = (self.journal.now, self.delivers_once);
        let (row, journal) = match self.row_to_write(&write.table, &write.row) {
            Ok(found) => found,
            Err(denial) => return (Err(ConditionError::Refused(denial)), now + now.since(ticket.sent)),
        };
        let (entry, writers) = row.hot.arrive(now, contention);
        let busy = |words| Err(ConditionError::Refused(Denial { certain, ..Denial::words(words).passing() }));
        let judged = row.judge(&write, journal);
        let outcome = match entry {
            // As for objects: who has lost shall know it.
            _ if judged.is_err() => judged,
            Entry::Free => {
                row.accept(write, journal);
                Ok(())
            }
            Entry::Held => busy("another conditional write of this row was in flight"),
            Entry::Capped => busy("too many writes to this row"),
        };
        let at = row.hot.answer(now, writers, outcome.is_ok(), (contention, ticket));
        (outcome, at)
    }

    /// Of two different final values of one rank, which nobody may write, the later one stays: so the journal shows
    /// both.
    pub(crate) fn put_final(&mut self, table: &Table, cell: Cell, value: Bytes, rank: Rank) -> Result<(), WriteError> {
        let (row, journal) = self.row_to_write(table, &cell.row).map_err(WriteError::Refused)?;
        let (by, rank) = (journal.sender, Some(rank));
        let changes = |stored: &Stored| stored.rank < rank || (stored.rank == rank && stored.value != value);
        if row.cells.get(&cell.column).is_none_or(changes) {
            let stored = Stored { value, rank };
            journal.note(by, (table, &cell.row), &cell.column, &stored);
            row.cells.insert(cell.column, stored);
        }
        Ok(())
    }

    fn row_to_write(&mut self, table: &Table, row: &Bytes) -> Result<(&mut Row, &mut Journal), Denial> {
        let certain = self.delivers_once;
        match self.tables.get_mut(table) {
            Some(rows) => Ok((rows.entry(Place::of(row)).or_default(), &mut self.journal)),
            None => Err(Denial { certain, ..Denial::words(format!("there is no table {table}")) }),
        }
    }
}
