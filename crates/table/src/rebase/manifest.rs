//! Added manifests: does each entry say only that a data file is new?

use iceberg::spec::ManifestFile;

use super::avro::{Fault, File, Most, Row, required};
use super::why::Why;

/// The status of an entry that adds a file.
const ADDED: i64 = 1;

/// The fields that are looked at: of entries, and of their data files.
const WANTED: [i64; 9] = [0, 1, 2, 3, 4, 103, 104, 134, 142];
/// What is read of a manifest. Writers begin another one at a few MB.
const MOST: Most = Most { bytes: 256 << 20, records: 1_000_000 };

/// What a manifest adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) files: u64,
    pub(super) rows: u64,
    /// The size of the files.
    pub(super) bytes: u64,
}

impl Added {
    /// Both, unless a number gets too large.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        Some(Self {
            files: self.files.checked_add(other.files)?,
            rows: self.rows.checked_add(other.rows)?,
            bytes: self.bytes.checked_add(other.bytes)?,
        })
    }
}

/// Why a manifest was not accepted.
pub(super) enum Unfit {
    /// It says something else than that data files are new.
    Why(Why),
    /// It cannot be decoded.
    Fault(Fault),
}

impl From<Fault> for Unfit {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The bytes of paths that are given at a time. A manifest of a few megabytes can have a million paths.
const PAGE: usize = 16 << 20;

/// The data and delete files that the entries of a manifest name, also those that they say are deleted, from entry
/// `from` on: up to 16 MiB of paths, one at least. None if there is no such entry.
///
/// # Errors
/// What is wrong with the file.
pub fn files(bytes: &[u8], from: usize) -> Result<Vec<String>, Fault> {
    let file = File::open(bytes)?;
    let Some(data) = file.fields.inner(2)? else { return Err("field 2 is missing".into()) };
    let (mut found, mut entry, mut size) = (Vec::new(), 0, 0);
    file.records(&[2, 100], MOST, |row| {
        if entry >= from && size < PAGE {
            let data = Row::of(&data, required(2, row.get(2))?)?;
            let path = required(100, data.string(100)?)?;
            size += path.len() + size_of::<String>();
            found.push(path.to_owned());
        }
        entry += 1;
        Ok::<_, Fault>(())
    })?;
    Ok(found)
}

/// Checks the entries of a manifest that snapshot `snapshot` adds, and that the list counts them right.
pub(super) fn inspect(bytes: &[u8], listed: &ManifestFile, snapshot: i64) -> Result<Added, Unfit> {
    let file = File::open(bytes)?;
    let Some(data) = file.fields.inner(2)? else { return Err(Unfit::Fault("field 2 is missing".into())) };
    let path = || listed.manifest_path.clone();
    let mut added = Added::default();
    file.records(&WANTED, MOST, |row| {
        if required(0, row.integer::<i64>(0)?)? != ADDED {
            return Err(Unfit::Why(Why::EntryNotAdded(path())));
        }
        if row.integer::<i64>(1)?.is_some_and(|id| id != snapshot) {
            return Err(Unfit::Why(Why::EntryOfOther(path())));
        }
        if row.get(3).is_some() || row.get(4).is_some() {
            return Err(Unfit::Why(Why::SequenceNumbers(path())));
        }
        let data = Row::of(&data, required(2, row.get(2))?)?;
        if data.integer::<i64>(134)?.unwrap_or(0) != 0 {
            return Err(Unfit::Why(Why::Deletes(path())));
        }
        if data.get(142).is_some() {
            return Err(Unfit::Why(Why::RowIds(path())));
        }
        let (rows, bytes) = (required(103, data.integer(103)?)?, required(104, data.integer(104)?)?);
        let one = Added { files: 1, rows, bytes };
        added = added.and(one).ok_or_else(|| Unfit::Fault("its counts are too large".into()))?;
        Ok(())
    })?;
    let counted = (listed.added_files_count.map(u64::from), listed.added_rows_count);
    if counted != (Some(added.files), Some(added.rows)) {
        return Err(Unfit::Why(Why::Counts(path())));
    }
    Ok(added)
}
