//! Objects in the cells of a key-value store, so that a protocol for objects runs on rows too.
//!
//! An object is one cell. `/` and its key, one after the other, are the row and the column: the column is what follows
//! the last slash, or the last [`COLUMN_BYTES`] of it if that is longer; the row is the rest. So the slots of a
//! register are one row, whose newest slot is the first column; and objects with long random names are rows of their
//! own, which no other writer meets.
//!
//! | bytes of a cell | what |
//! |---|---|
//! | 0 | 1: an object; 2: it was deleted |
//! | 1 to 8 | the *state*, a random number, fresh for each write (little-endian) |
//! | 9 to the end | the content of the object |
//!
//! | operation | requests |
//! |---|---|
//! | get, ranged get, head | one linearizable read of the whole cell |
//! | put if absent | one conditional write; two where the object was deleted |
//! | put if it matches, put without a guard, delete | a read, and a conditional write |
//! | listing of a folder | one scan of its row |
//! | any other listing | a walk over all rows of the table, and a scan of each row that is on the page |
//!
//! The state makes each value of a cell unique, also that of a second try. So a conditional write that finds its own
//! value was delivered before, and a late copy of one changes nothing: the value that it expects never comes back. A
//! deleted object stays as a cell of nine bytes.
//!
//! Where a store may deliver a request twice, a conditional write that lost may have been made before: by its first
//! copy, which another writer replaced. So it is not made again without its caller: the outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, ops::Range};

use bytes::Bytes;
use glidepath_model::ByteSize;

use crate::kv::{Cell, Columns, ConditionError, KvReadError, KvStore, ReadLevel, Table, WriteError};
use crate::mutant::{self, Mutant};
use crate::object::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Guard, Key, ListPage, Listed, Metadata, Object,
    ObjectStore, Payload, PutError, ReadError, Tag,
};

/// The longest column, in bytes.
pub const COLUMN_BYTES: usize = 16;

/// How often a write without a guard is tried anew because another writer came first.
const TRIES: u32 = 16;

/// The most rows or cells in one request of a listing.
const PAGE: usize = 1000;

const OBJECT: u8 = 1;
const DELETED: u8 = 2;
const HEAD: usize = 9;

/// Objects in the cells of one table. Clones share it.
#[derive(Clone)]
pub struct RowObjects<S> {
    cells: S,
    table: Table,
    /// Gives the state of each write.
    fresh: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Whether the table is known to exist.
    is_made: Arc<AtomicBool>,
}

impl<S: fmt::Debug> fmt::Debug for RowObjects<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowObjects").field("cells", &self.cells).field("table", &self.table).finish_non_exhaustive()
    }
}

/// What is in a cell.
struct Held {
    /// The whole value.
    value: Bytes,
    is_object: bool,
    tag: Tag,
}

impl Held {
    fn content(&self) -> Bytes {
        self.value.slice(HEAD..)
    }

    fn size(&self) -> ByteSize {
        ByteSize::from_bytes((self.value.len() - HEAD) as u64)
    }
}

fn decoded(value: Bytes) -> Result<Held, Cause> {
    let state = value.get(1..HEAD).and_then(|state| state.first_chunk::<8>()).map(|state| u64::from_le_bytes(*state));
    match (value.first(), state) {
        (Some(&kind @ (OBJECT | DELETED)), Some(state)) => {
            Ok(Held { value, is_object: kind == OBJECT, tag: Tag::number(state) })
        }
        _ => Err(Cause::words("the cell holds no object: something else writes to this table, or a newer version did")),
    }
}

/// The cell of an object; `None` for the empty key.
fn place(key: &Key) -> Option<Cell> {
    let path = Bytes::from(format!("/{key}"));
    let last = path.len() - 1;
    let folder = path[..last].iter().rposition(|byte| *byte == b'/')? + 1;
    let column = folder.max(path.len().saturating_sub(COLUMN_BYTES));
    Some(Cell { row: path.slice(..column), column: path.slice(column..) })
}

/// The key of the object in this cell; `None` if no object can be there.
fn key_of(row: &[u8], column: &[u8]) -> Option<Key> {
    let path = [row, column].concat();
    std::str::from_utf8(path.strip_prefix(b"/")?).ok().map(Key::new)
}

/// The cell of an object and its value; `None` for the empty key, which no object has, and for more than memory holds.
#[must_use]
pub fn cell_of(key: &Key, payload: &Payload, state: u64) -> Option<(Cell, Bytes)> {
    Some((place(key)?, value(OBJECT, state, payload).ok()?))
}

/// The key of the object in this cell, and the object; `None` if it was deleted.
///
/// # Errors
/// The cell holds no object.
pub fn object_in(cell: &Cell, value: &Bytes) -> Result<(Key, Option<Payload>), Cause> {
    let held = decoded(value.clone())?;
    let key = key_of(&cell.row, &cell.column).ok_or_else(|| Cause::words("the name of the cell is no key"))?;
    Ok((key, held.is_object.then(|| held.content().into())))
}

/// How sure the read of an object must be.
fn level() -> ReadLevel {
    if mutant::is(Mutant::PlainReads) { ReadLevel::Plain } else { ReadLevel::Linearizable }
}

fn value(kind: u8, state: u64, payload: &Payload) -> Result<Bytes, Cause> {
    let filler = usize::try_from(payload.filler.as_bytes()).unwrap_or(usize::MAX);
    let size = (HEAD + payload.bytes.len()).saturating_add(filler);
    let mut value = Vec::new();
    value.try_reserve_exact(size).map_err(Cause::from_error)?;
    value.push(kind);
    value.extend_from_slice(&state.to_le_bytes());
    value.extend_from_slice(&payload.bytes);
    value.resize(size, 0);
    Ok(value.into())
}

impl<S: KvStore> RowObjects<S> {
    /// Objects in this table, which the first write makes. `fresh` gives a random number, another one each time.
    #[must_use]
    pub fn new(cells: S, table: Table, fresh: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { cells, table, fresh: Arc::new(fresh), is_made: Arc::default() }
    }

    /// The key-value store.
    pub fn cells(&self) -> &S {
        &self.cells
    }

    async fn held(&self, key: &Key) -> Result<Held, ReadError> {
        let cell = place(key).ok_or(ReadError::NotFound)?;
        self.read(&cell).await.map_err(ReadError::Failed)?.filter(|held| held.is_object).ok_or(ReadError::NotFound)
    }

    async fn read(&self, cell: &Cell) -> Result<Option<Held>, Cause> {
        match self.cells.get(&self.table, std::slice::from_ref(cell), level()).await {
            Ok(mut values) => values.pop().flatten().map(decoded).transpose(),
            Err(KvReadError::NoTable(_)) => Ok(None),
            Err(KvReadError::Failed(cause)) => Err(cause),
        }
    }

    /// Makes the table before the first write.
    async fn make_table(&self) -> Result<(), Denial> {
        if self.is_made.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.cells.create_table(&self.table).await {
            Ok(()) => self.is_made.store(true, Ordering::Relaxed),
            // The write itself is not sent.
            Err(WriteError::Refused(denial)) => return Err(Denial { certain: true, ..denial }),
            Err(WriteError::Unknown(cause)) => return Err(Denial::certain(cause).passing()),
        }
        Ok(())
    }

    /// A value with a state of its own.
    fn value(&self, kind: u8, payload: &Payload) -> Result<Bytes, PutError> {
        value(kind, (self.fresh)(), payload).map_err(|cause| PutError::Refused(Denial::certain(cause)))
    }

    /// Writes the object if there is none. Returns the value.
    async fn create(&self, cell: &Cell, payload: &Payload) -> Result<Bytes, PutError> {
        let value = self.value(OBJECT, payload)?;
        let column = [(cell.column.clone(), value.clone())];
        let found = match self.cells.put_unless_exists(&self.table, &cell.row, &column).await {
            Ok(()) => return Ok(value),
            Err(ConditionError::Lost { found }) => found,
            Err(error) => return Err(unsettled(error)),
        };
        match found.into_iter().next().map(|(_, there)| there) {
            // An earlier delivery of this request wrote it.
            Some(there) if there == value => Ok(value),
            Some(there) if there.first() == Some(&DELETED) => {
                // Not the same state: an earlier delivery may have written that one, and somebody read it.
                let swapped = self.swap(cell, &there, self.value(OBJECT, payload)?).await;
                swapped.map_err(|error| self.after_a_delivery(error))
            }
            _ => Err(PutError::Lost),
        }
    }

    /// A refusal of the second request says nothing of the first, which may have been delivered before.
    fn after_a_delivery(&self, error: PutError) -> PutError {
        match error {
            PutError::Refused(denial) => {
                let certain = denial.certain && self.cells.capabilities().delivers_once;
                PutError::Refused(Denial { certain, ..denial })
            }
            error => error,
        }
    }

    /// Replaces what is in the cell. Returns the value.
    async fn swap(&self, cell: &Cell, expected: &Bytes, value: Bytes) -> Result<Bytes, PutError> {
        match self.cells.compare_and_set(&self.table, cell, Some(expected), &value).await {
            Ok(()) => Ok(value),
            // An earlier delivery of this request wrote it.
            Err(ConditionError::Lost { found }) if found.iter().any(|(_, there)| *there == value) => Ok(value),
            Err(error) => Err(unsettled(error)),
        }
    }

    /// Puts the object, or deletes it if none is given, whatever there is. Returns the value, or `None` if there was
    /// nothing to delete.
    async fn overwrite(&self, cell: &Cell, payload: Option<&Payload>) -> Result<Option<Bytes>, PutError> {
        let delivers_once = self.cells.capabilities().delivers_once;
        for tried in 0..TRIES {
            let there = self.read(cell).await.map_err(|cause| {
                let certain = tried == 0 || delivers_once;
                PutError::Refused(Denial { cause, certain, passing: true })
            })?;
            if payload.is_none() && there.as_ref().is_none_or(|there| !there.is_object) {
                return Ok(None);
            }
            if tried > 0 && !delivers_once {
                return Err(PutError::Unknown(Cause::words(
                    "another writer came first; an earlier copy of this request may have come before that one",
                )));
            }
            let nothing = Payload::default();
            let (kind, content) = payload.map_or((DELETED, &nothing), |payload| (OBJECT, payload));
            let written = match there {
                Some(there) => self.swap(cell, &there.value, self.value(kind, content)?).await,
                None => self.create(cell, content).await,
            };
            match written {
                Err(PutError::Lost) => {}
                Err(error) if tried > 0 => return Err(self.after_a_delivery(error)),
                written => return written.map(Some),
            }
        }
        let cause = Cause::words(format!("other writers of this object came first {TRIES} times"));
        let denial = Denial { cause, certain: true, passing: true };
        Err(self.after_a_delivery(PutError::Refused(denial)))
    }

    /// All rows that may have objects whose paths begin so, in byte order.
    async fn rows_of(&self, begins: &[u8]) -> Result<Vec<Bytes>, ReadError> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = match self.cells.rows(&self.table, after.as_ref(), PAGE).await {
                Err(KvReadError::NoTable(_)) => break,
                page => page.map_err(not_read)?,
            };
            after = page.rows.last().cloned();
            rows.extend(page.rows.into_iter().filter(|row| row.starts_with(begins) || begins.starts_with(row)));
            if !page.more || after.is_none() {
                break;
            }
        }
        rows.sort_unstable();
        Ok(rows)
    }

    /// At most `limit` objects of a row whose paths begin so, behind a path.
    async fn scan(
        &self,
        row: &Bytes,
        begins: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Listed>, ReadError> {
        if after.is_some_and(|after| after > &row[..] && !after.starts_with(row)) {
            return Ok(Vec::new());
        }
        let part = |path: &[u8]| path.get(row.len()..).filter(|part| !part.is_empty()).map(Bytes::copy_from_slice);
        // The least column behind another one is that with a zero byte after it.
        let behind = after.filter(|after| after.starts_with(row)).map(|after| [&after[row.len()..], &[0]].concat());
        let mut from = part(begins).max(behind.map(Bytes::from));
        let mut found = Vec::new();
        while found.len() < limit {
            let columns = Columns { from: from.take(), before: None };
            let ask = PAGE.min(limit - found.len());
            let slice = match self.cells.scan(&self.table, row, &columns, ask, ReadLevel::Linearizable).await {
                Err(KvReadError::NoTable(_)) => break,
                slice => slice.map_err(not_read)?,
            };
            let mut is_behind = false;
            for (column, value) in slice.cells {
                from = Some(Bytes::from([&column[..], &[0]].concat()));
                let Some(key) = key_of(row, &column) else { continue };
                let held = decoded(value).map_err(ReadError::Failed)?;
                let path = [&row[..], &column[..]].concat();
                is_behind |= !path.starts_with(begins);
                if !is_behind && held.is_object {
                    found.push(Listed { key, size: held.size() });
                }
            }
            if is_behind || !slice.more || from.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

impl<S: KvStore> ObjectStore for RowObjects<S> {
    fn capabilities(&self) -> Capabilities {
        let delivers_once = self.cells.capabilities().delivers_once;
        Capabilities { put_if_absent: true, put_if_match: true, append: false, delivers_once }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        let held = self.held(key).await?;
        Ok(Object { payload: held.content().into(), tag: held.tag })
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let held = self.held(key).await?;
        let content = held.content();
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let (from, to) = (at(range.start), at(range.end));
        Ok(Object { payload: content.slice(from..to.max(from)).into(), tag: held.tag })
    }

    /// Gives no time of writing: the store's clock is not in a cell, and those of several writers are not one clock.
    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let held = self.held(key).await?;
        Ok(Metadata { size: held.size(), tag: held.tag, written_ms: None })
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let payload = body.into_payload();
        let Some(cell) = place(key) else { return Err(PutError::Refused(no_name())) };
        self.make_table().await.map_err(PutError::Refused)?;
        let written = match guard {
            Guard::Absent => self.create(&cell, &payload).await?,
            Guard::None => self.overwrite(&cell, Some(&payload)).await?.unwrap_or_default(),
            Guard::Matches(tag) => {
                let there = self.read(&cell).await.map_err(unsent)?;
                let there = there.filter(|there| there.is_object && there.tag == tag).ok_or(PutError::Lost)?;
                self.swap(&cell, &there.value, self.value(OBJECT, &payload)?).await?
            }
        };
        decoded(written).map(|held| held.tag).map_err(PutError::Unknown)
    }

    async fn append(&self, _: &Key, _: Payload, _: u64) -> Result<Appended, PutError> {
        Err(PutError::Refused(Denial::words("a key-value store has no appends")))
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let begins = format!("/{prefix}").into_bytes();
        let after = after.map(|after| format!("/{after}").into_bytes());
        let mut objects: Vec<Listed> = Vec::new();
        for row in self.rows_of(&begins).await? {
            // The paths of this row and of all that follow begin with it, or come behind it.
            if objects.len() > limit
                && objects.last().is_some_and(|last| format!("/{}", last.key).as_bytes() < &row[..])
            {
                break;
            }
            objects.extend(self.scan(&row, &begins, after.as_deref(), limit.saturating_add(1)).await?);
            objects.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            objects.truncate(limit.saturating_add(1));
        }
        Ok(page(objects, limit))
    }

    async fn list_folder(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let row = Bytes::from(format!("/{folder}"));
        let after = after.map(|after| format!("/{after}").into_bytes());
        let objects = self.scan(&row, &row, after.as_deref(), limit.saturating_add(1)).await?;
        Ok(page(objects, limit))
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let Some(cell) = place(key) else { return Ok(()) };
        self.make_table().await.map_err(|denial| DeleteError::Refused(denial.cause))?;
        match self.overwrite(&cell, None).await {
            Ok(_) => Ok(()),
            Err(PutError::Refused(denial)) if denial.certain => Err(DeleteError::Refused(denial.cause)),
            Err(error) => Err(DeleteError::Unknown(Cause::from_error(error))),
        }
    }
}

fn page(mut objects: Vec<Listed>, limit: usize) -> ListPage {
    let more = objects.len() > limit;
    objects.truncate(limit);
    ListPage { objects, more }
}

fn not_read(error: KvReadError) -> ReadError {
    ReadError::Failed(Cause::from_error(error))
}

/// The outcome of a conditional write that is not its own earlier delivery.
fn unsettled(error: ConditionError) -> PutError {
    match error {
        ConditionError::Lost { .. } => PutError::Lost,
        ConditionError::Unknown(cause) => PutError::Unknown(cause),
        ConditionError::Refused(denial) => PutError::Refused(denial),
    }
}

/// The read before the write failed, so the write was not sent.
fn unsent(cause: Cause) -> PutError {
    PutError::Refused(Denial::certain(cause).passing())
}

fn no_name() -> Denial {
    Denial::words("the key of an object is empty; allowed: one byte or more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_these_and_lead_back() {
        for (key, row, column) in [
            ("format", "/", "format"),
            ("a/b", "/a/", "b"),
            ("a/", "/", "a/"),
            ("/", "/", "/"),
            ("a//", "/a/", "/"),
            ("names/r/nt/fffffffffffffffe", "/names/r/nt/", "fffffffffffffffe"),
            ("txns/0123456789abcdef0123456789abcdef", "/txns/0123456789abcdef", "0123456789abcdef"),
        ] {
            let cell = place(&Key::new(key)).unwrap();
            assert_eq!((&cell.row[..], &cell.column[..]), (row.as_bytes(), column.as_bytes()), "{key}");
            assert_eq!(key_of(&cell.row, &cell.column).unwrap().as_str(), key);
        }
        assert!(place(&Key::new("")).is_none());
    }

    #[test]
    fn cells_of_others_are_no_objects() {
        for value in [&b""[..], b"\x01", b"\x03\0\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0"] {
            assert!(decoded(Bytes::from_static(value)).is_err(), "{value:?}");
        }
        assert!(decoded(Bytes::from_static(b"\x01\x07\0\0\0\0\0\0\0x")).is_ok_and(|held| held.is_object));
    }
}
