//! Names of things: tables, partitions, versions, metadata objects, commits.

use std::fmt;

/// A table in a catalog, for its whole life. Names may change; the id does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// A partition of one table, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// A position in a chain of versions: of a catalog, a table or a partition. The first version is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The version that follows.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many versions lie between `earlier` and this one; 0 if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Names one immutable table-metadata object. Drawn at random by its writer, so no other process can name the object
/// before the catalog refers to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataId(pub u64);

/// Names one commit by one writer. Drawn at random and written into the guarded object, so a read-back shows whether a
/// write of unknown outcome was the writer's own. It also makes roots of equal content differ in their bytes, which
/// matters where a tag is a hash of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

macro_rules! display {
    ($($name:ident => $format:literal),* $(,)?) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    )*};
}

display! {
    TableId => "table {}",
    PartitionId => "partition {}",
    Version => "version {}",
    MetadataId => "metadata {:016x}",
    CommitId => "commit {:016x}",
}
