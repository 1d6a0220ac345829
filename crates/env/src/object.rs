//! What does an object store offer, and which outcomes does each operation have?

use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_model::ByteSize;

/// Objects under keys, with guarded writes.
///
/// Every operation is one request. No implementation may repeat a guarded write by itself: the repeat would meet the
/// first attempt's effect and report [`PutError::Lost`] for a write that happened.
///
/// Dropping a future after it was first polled leaves the request's outcome unknown: the store owns a request once sent.
pub trait ObjectStore {
    /// What this store can do. Fixed for its life.
    fn capabilities(&self) -> Capabilities;

    /// The whole object, as it was at some moment between call and answer.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Object, ReadError>>;

    /// Bytes `range` of the object, cut off at the end of the object; a range that begins at or beyond the end of the
    /// object gives no bytes.
    fn get_range(&self, key: &Key, range: Range<u64>) -> impl Future<Output = Result<Object, ReadError>>;

    /// The object's size and tag.
    fn head(&self, key: &Key) -> impl Future<Output = Result<Metadata, ReadError>>;

    /// Writes the whole object if the guard holds, and returns the new tag. All or nothing.
    fn put(&self, key: &Key, body: impl Body, guard: Guard) -> impl Future<Output = Result<Tag, PutError>>;

    /// Adds to the end of the object if it is now exactly `offset` bytes long; an absent object is created by an append
    /// at 0. [`PutError::Refused`] where [`Capabilities::append`] is false.
    fn append(&self, key: &Key, payload: Payload, offset: u64) -> impl Future<Output = Result<Appended, PutError>>;

    /// Objects whose keys begin with `prefix`, in the byte order of their keys, after `after` where given; at most
    /// `limit` of them.
    fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> impl Future<Output = Result<Page, ReadError>>;

    /// Removes the object; success too where there is none.
    fn delete(&self, key: &Key) -> impl Future<Output = Result<(), DeleteError>>;
}

/// Traffic whose cost counts and whose content does not: the metadata files of table formats.
///
/// Each write goes to a fresh key that no other process can name yet, and each read is of an object that never changes. So
/// bulk traffic commutes with everything, which is what lets a simulated process run ahead on its own clock.
pub trait BulkStore {
    /// Makes these transfers, one after another; stops at the first that fails.
    fn bulk(&self, transfers: &[Transfer]) -> impl Future<Output = Result<(), BulkError>>;
}

/// One step of bulk traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Reads an object of this size that never changes.
    Read(ByteSize),
    /// Writes a fresh object of this size.
    Write(ByteSize),
    /// Reads many objects that never change.
    ReadMany {
        /// How many.
        count: u64,
        /// The size of each.
        size: ByteSize,
        /// The most requests in flight at once; 0 means 1.
        parallel: u32,
    },
}

/// Bulk traffic failed. Nothing refers to what it may have written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a transfer of bulk data failed: {0}")]
pub struct BulkError(pub Cause);

/// What a store can do beyond plain reads, writes and deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Honours [`Guard::Absent`].
    pub put_if_absent: bool,
    /// Honours [`Guard::Matches`].
    pub put_if_match: bool,
    /// Offers [`ObjectStore::append`].
    pub append: bool,
    /// Every request reaches the store at most once: so [`PutError::Lost`] says that another writer was first. False wherever
    /// a proxy, a load balancer or a client library may repeat a request: there a write may have lost to
    /// an earlier delivery of itself.
    pub delivers_once: bool,
}

/// The name of an object: UTF-8, `/` between parts, no leading `/`.
#[derive(Clone, Debug)]
pub struct Key(Arc<str>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// Byte order of the names. Most comparisons are of a key with itself, which needs no look at the name.
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Key {
    /// A key of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one state of one object. Two states of an object have different tags, except on stores whose tag is a hash of
/// the content: there equal content has equal tags, so a guarded object must carry something fresh in every write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(TagKind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TagKind {
    Number(u64),
    /// Behind one pointer, so that a tag is two words.
    Text(Arc<Box<str>>),
}

impl Tag {
    /// A tag that is a number, such as a generation.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(TagKind::Number(number))
    }

    /// A tag that is a text, such as an ETag, exactly as the store wrote it.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self(TagKind::Text(Arc::new(text.into())))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            TagKind::Number(number) => write!(f, "{number}"),
            TagKind::Text(text) => f.write_str(text),
        }
    }
}

/// The condition on which a write takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Always.
    None,
    /// If there is no object of this key.
    Absent,
    /// If the object is in this state.
    Matches(Tag),
}

/// The content of an object: bytes, and after them filler whose content does not matter but whose transfer takes time.
/// A live store writes the filler as zeros; the simulated one keeps only its size.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    /// Real content.
    pub bytes: Bytes,
    /// Filler behind it.
    pub filler: ByteSize,
}

impl Payload {
    /// Size of content and filler together.
    #[must_use]
    pub fn size(&self) -> ByteSize {
        ByteSize::from_bytes(self.bytes.len() as u64) + self.filler
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, filler: ByteSize::default() }
    }
}

/// What is to be written: a payload, or what can be made into one. A store that learns that a guard does not hold before
/// it needs the bytes never asks for them.
pub trait Body: Unpin {
    /// The size of the payload.
    fn size(&self) -> ByteSize;

    /// The payload.
    fn into_payload(self) -> Payload;
}

impl Body for Payload {
    fn size(&self) -> ByteSize {
        Self::size(self)
    }

    fn into_payload(self) -> Payload {
        self
    }
}

/// An object as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its content, or the range asked for. A live store returns filler as part of the bytes.
    pub payload: Payload,
    /// The state it was read in.
    pub tag: Tag,
}

/// An object's outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Content and filler.
    pub size: ByteSize,
    /// The state it was in.
    pub tag: Tag,
}

/// What an append made of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The state of the object with the appended bytes.
    pub tag: Tag,
    /// Its size then: the offset for the next append.
    pub end: u64,
}

/// Part of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// In the byte order of their keys.
    pub objects: Vec<Listed>,
    /// Whether there may be more behind the last one.
    pub more: bool,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: Key,
    /// Its size when listed.
    pub size: ByteSize,
}

/// The cause of a failure, in words.
#[derive(Clone, Debug)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// A cause that is known by its words alone.
    #[must_use]
    pub fn words(words: impl Into<String>) -> Self {
        Self(Arc::from(Box::<dyn Error + Send + Sync>::from(words.into())))
    }

    /// A cause that another library reported.
    #[must_use]
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for Cause {
    /// The error and, behind colons, what caused it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Why a read gave nothing. A read has no effect, so it may always be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// There was no such object at some moment between call and answer.
    #[error("there is no object with that key")]
    NotFound,
    /// Says nothing about the object.
    #[error("the read failed: {0}")]
    Failed(Cause),
}

/// Why a guarded write did not return a tag: three failures that need three different reactions.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PutError {
    /// The guard did not hold; nothing was written. Read again before the next try.
    #[error("the guard did not hold: another writer was first")]
    Lost,
    /// It may have been written, or may yet be. Only reading back can settle it, and that only in part: what is absent
    /// now may still appear.
    #[error("it is not known whether the write happened: {0}")]
    Unknown(Cause),
    /// Refused. The denial says what that proves. The write may be sent again.
    #[error("the store refused the write: {0}")]
    Refused(Denial),
}

/// How a write was refused.
#[derive(Clone, Debug)]
pub struct Denial {
    /// For people.
    pub cause: Cause,
    /// Whether nothing of this write has taken effect or ever will: it never left this process, or nothing between process
    /// and store can have repeated it. Otherwise one delivery of it was refused, and another may have taken effect before, or may yet.
    pub certain: bool,
    /// Whether the same write may be accepted a little later by itself: the store is busy.
    pub passing: bool,
}

impl Denial {
    /// Refused for certain, before anything was sent.
    #[must_use]
    pub fn certain(cause: Cause) -> Self {
        Self { cause, certain: true, passing: false }
    }

    /// The same, known by its words alone.
    #[must_use]
    pub fn words(words: impl Into<String>) -> Self {
        Self::certain(Cause::words(words))
    }

    /// The same, and it may be taken a little later.
    #[must_use]
    pub fn passing(self) -> Self {
        Self { passing: true, ..self }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// Why a delete did not report success.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeleteError {
    /// It may have been deleted, or may yet be.
    #[error("it is not known whether the delete happened: {0}")]
    Unknown(Cause),
    /// Refused before any effect.
    #[error("the store refused the delete: {0}")]
    Refused(Cause),
}
