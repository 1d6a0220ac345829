//! Where is a value in a store with rows and columns?

use bytes::Bytes;

/// Names one value: the column of a row. Ordered by row, then by column, both in byte order (unsigned, and a beginning
/// comes before what it begins).
///
/// A store distributes data by row, and decides guarded writes row by row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The row; Cassandra calls it the partition key.
    pub row: Bytes,
    /// The column within the row; in Cassandra the first clustering column.
    pub column: Bytes,
}
