//! Many cells are to be loaded: in which batches, one request each?
//!
//! The three cell loaders that Palantir AtlasDB's architecture decision record 16 compares, as plans for any store with
//! rows and columns. A [`Planner`] divides a list of cells into batches; sending them, in parallel or not, is the
//! caller's part. A store whose requests ask for one row each takes the batches [by row](Batch::by_row).
//!
//! AtlasDB's store reads one column of many rows with one request, so its selective loader keeps columns together. Over
//! CQL, Cassandra reads many columns of one row with one request, so there it keeps [rows](Axis::Row) together. The
//! other stores of this project take any cells in one request.
//!
//! Every plan holds the same cells as the list, a cell as many times as the list does. The same list in the same order
//! gives the same plan.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;

use glidepath_env::Cell;

/// How cells are divided into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Cells of one column in each batch: good for few columns with many cells each. The first cell loader of AtlasDB.
    PerColumn,
    /// Batches as long as [`Limits::cross_column`] allows, whatever the columns; in the order of the list. In AtlasDB
    /// it was measured and not used: one request with many cells keeps fewer threads of a store busy than several small
    /// ones.
    Full,
    /// Rows with many cells have batches to themselves, the others share batches: AtlasDB's `CellLoader` 2, which does
    /// so with columns ([`Axis`]).
    Selective,
}

/// Which cells a store reads best together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Axis {
    /// Those of one row, as Cassandra over CQL.
    #[default]
    Row,
    /// Those of one column, as AtlasDB's requests to Cassandra over Thrift.
    Column,
}

impl Axis {
    fn of(self, cell: &Cell) -> &Bytes {
        match self {
            Self::Row => &cell.row,
            Self::Column => &cell.column,
        }
    }
}

/// How many cells a batch may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In a batch with cells of several columns, or of several rows if the division keeps [rows](Axis::Row) together:
    /// from 1 to `single_query`. With 1 no two cells share a batch, unless their column or row has several.
    pub cross_column: usize,
    /// In any batch: at least 1.
    pub single_query: usize,
}

impl Default for Limits {
    /// What AtlasDB sets where nothing is configured: 200 and 50,000. The benchmarks of its architecture decision
    /// record 16 name the same two numbers, but in reverse.
    fn default() -> Self {
        Self { cross_column: 200, single_query: 50_000 }
    }
}

/// Limits under which nothing can be loaded, or that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// No batch could mix columns, or have a cell at all.
    #[error(
        "cross_column is 0; give how many cells a batch of several columns may have: 1 or more, up to single_query"
    )]
    NoCrossColumn,
    /// No batch could have a cell.
    #[error("single_query is 0; give how many cells a batch may have: 1 or more")]
    NoSingleQuery,
    /// Batches of several columns could be longer than batches can be.
    #[error(
        "cross_column is {cross_column}, more than single_query, which is {single_query}; lower the first or raise the second"
    )]
    CrossColumnBeyond {
        /// The limit of batches of several columns.
        cross_column: usize,
        /// The limit of all batches.
        single_query: usize,
    },
}

/// Divides lists of cells into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Planner {
    limits: Limits,
    axis: Axis,
}

impl Planner {
    /// A planner of batches within these limits, for a store that keeps [rows](Axis::Row) together.
    ///
    /// # Errors
    /// The limits are outside what [`Limits`] states.
    pub fn new(limits: Limits) -> Result<Self, LimitsError> {
        let Limits { cross_column, single_query } = limits;
        match () {
            () if cross_column == 0 => Err(LimitsError::NoCrossColumn),
            () if single_query == 0 => Err(LimitsError::NoSingleQuery),
            () if cross_column > single_query => Err(LimitsError::CrossColumnBeyond { cross_column, single_query }),
            () => Ok(Self { limits, axis: Axis::default() }),
        }
    }

    /// The same for a store that reads these cells best together. Only [`Division::Selective`] asks.
    #[must_use]
    pub fn along(self, axis: Axis) -> Self {
        Self { axis, ..self }
    }

    /// The limits of its batches.
    #[must_use]
    pub fn limits(self) -> Limits {
        self.limits
    }

    /// The batches of this division. No batch is empty; no cells give no batches.
    #[must_use]
    pub fn plan(self, division: Division, cells: Vec<Cell>) -> Vec<Batch> {
        match division {
            Division::PerColumn => self.per_column(cells),
            Division::Full => self.full(cells),
            Division::Selective => self.selective(cells),
        }
    }

    /// Columns in byte order, the cells of each in the order of the list, [`Limits::single_query`] at a time.
    #[must_use]
    pub fn per_column(self, cells: Vec<Cell>) -> Vec<Batch> {
        let columns = grouped(Axis::Column, cells).into_iter();
        columns.flat_map(|cells| chunks(cells, self.limits.single_query)).collect()
    }

    /// Cells in the order of the list, [`Limits::cross_column`] at a time.
    #[must_use]
    pub fn full(self, cells: Vec<Cell>) -> Vec<Batch> {
        chunks(cells, self.limits.cross_column).collect()
    }

    /// [Along columns](Self::along), read column for row:
    ///
    /// 1. Take the rows in the order of the list (columns in byte order), the cells of each in the order of the list.
    /// 2. A row with more cells than [`Limits::cross_column`] has batches of its own, of [`Limits::single_query`] cells
    ///    and then the rest. A row with exactly as many does not, as in AtlasDB; its decision record says that it does.
    /// 3. The cells of the other rows, one row after another, make up batches of [`Limits::cross_column`] cells and
    ///    then the rest. They come last.
    ///
    /// So a batch with cells of several rows holds all cells of each of them in the list, except perhaps of its first
    /// and its last row.
    #[must_use]
    pub fn selective(self, cells: Vec<Cell>) -> Vec<Batch> {
        let Limits { cross_column, single_query } = self.limits;
        // Usual, and then the plan is that of `full`. Groups of 10,000 cells take up to 0.8 ms, an embedded load of
        // them 4 ms.
        if self.axis == Axis::Row && rows_are_together(&cells, cross_column) {
            return self.full(cells);
        }
        let (large, small): (Vec<_>, Vec<_>) =
            grouped(self.axis, cells).into_iter().partition(|cells| cells.len() > cross_column);
        let own = large.into_iter().flat_map(|cells| chunks(cells, single_query));
        let shared = chunks(small.into_iter().flatten(), cross_column);
        own.chain(shared).collect()
    }
}

/// Cells that one request loads. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    cells: Vec<Cell>,
}

impl Batch {
    /// Its cells, in the order of the plan.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The same cells, for stores whose requests ask for one row each: rows in byte order, the columns of each in the
    /// order of the batch.
    #[must_use]
    pub fn by_row(&self) -> Vec<RowCells> {
        let mut rows: BTreeMap<&Bytes, Vec<Bytes>> = BTreeMap::new();
        for cell in &self.cells {
            rows.entry(&cell.row).or_default().push(cell.column.clone());
        }
        rows.into_iter().map(|(row, columns)| RowCells { row: row.clone(), columns }).collect()
    }
}

/// Cells of one row. At least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCells {
    /// The row.
    pub row: Bytes,
    /// Their columns.
    pub columns: Vec<Bytes>,
}

/// Whether the cells of each row follow one another, at most `most` of them.
fn rows_are_together(cells: &[Cell], most: usize) -> bool {
    let mut rows = Vec::new();
    for run in cells.chunk_by(|one, other| one.row == other.row) {
        if run.len() > most {
            return false;
        }
        rows.push(&run[0].row);
    }
    rows.sort_unstable();
    rows.is_sorted_by(|one, other| one < other)
}

/// The cells of each row or column, in the order of the list. Rows are in the order in which they begin there, because
/// a caller may know what is near to what in the store; columns are in byte order, as in AtlasDB.
fn grouped(axis: Axis, cells: Vec<Cell>) -> Vec<Vec<Cell>> {
    // Most lists have the cells of a row one after another, and looking up each run is cheaper than each cell.
    let runs: Vec<usize> = cells.chunk_by(|one, other| axis.of(one) == axis.of(other)).map(<[Cell]>::len).collect();
    let mut cells = cells.into_iter();
    let (mut groups, mut numbers) = (Vec::<Vec<Cell>>::new(), BTreeMap::<Bytes, usize>::new());
    for run in runs {
        let Some(first) = cells.as_slice().first() else { break };
        let (key, run) = (axis.of(first).clone(), cells.by_ref().take(run));
        match numbers.entry(key) {
            Entry::Occupied(number) => groups[*number.get()].extend(run),
            Entry::Vacant(free) => {
                free.insert(groups.len());
                groups.push(run.collect());
            }
        }
    }
    match axis {
        Axis::Row => groups,
        Axis::Column => numbers.into_values().map(|number| std::mem::take(&mut groups[number])).collect(),
    }
}

/// Batches of `size` cells, and one of the rest.
fn chunks(cells: impl IntoIterator<Item = Cell>, size: usize) -> impl Iterator<Item = Batch> {
    let mut cells = cells.into_iter();
    std::iter::from_fn(move || {
        let cells: Vec<Cell> = cells.by_ref().take(size).collect();
        (!cells.is_empty()).then_some(Batch { cells })
    })
}
