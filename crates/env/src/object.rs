//! The operations of an object store, and the outcomes of each.

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
/// Every operation is one request. No implementation may repeat a guarded write by itself: the repeat would see the
/// effect of the first request and report [`PutError::Lost`] for a write that took effect.
///
/// Dropping a future after it was first polled leaves the request's outcome unknown: the store owns a request once
/// sent.
pub trait ObjectStore {
    /// What this store can do. Fixed for its life.
    fn capabilities(&self) -> Capabilities;

    /// The whole object, as it was at one moment between call and answer.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Object, ReadError>>;

    /// Bytes `range` of the object, cut off at its end. A range that begins at or beyond the end gives no bytes.
    fn get_range(&self, key: &Key, range: Range<u64>) -> impl Future<Output = Result<Object, ReadError>>;

    /// The object's size and tag, and when it was written.
    fn head(&self, key: &Key) -> impl Future<Output = Result<Metadata, ReadError>>;

    /// Whether there is such an object, where that is no request to another machine. Nothing where it would be one, or
    /// if it is not known.
    fn is_there(&self, _key: &Key) -> impl Future<Output = Option<bool>> {
        async { None }
    }

    /// Whether an object can have this key. If not, reads, writes and deletions of it fail for ever.
    fn can_name(&self, _key: &Key) -> bool {
        true
    }

    /// Writes the whole object if the guard holds, and returns the new tag. All or nothing.
    fn put(&self, key: &Key, body: impl Body, guard: Guard) -> impl Future<Output = Result<Tag, PutError>>;

    /// Adds to the end of the object if it is now exactly `offset` bytes long; an absent object is created by an append
    /// at 0. [`PutError::Refused`] where [`Capabilities::append`] is false.
    fn append(&self, key: &Key, payload: Payload, offset: u64) -> impl Future<Output = Result<Appended, PutError>>;

    /// Objects whose keys begin with `prefix`, in the byte order of their keys, after `after` if given; at most `limit`
    /// of them.
    fn list(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<ListPage, ReadError>>;

    /// As [`list`](Self::list), of a folder: a prefix that ends with `/`. The caller knows that what follows it in each
    /// key has no `/` and at most 16 bytes. Stores that keep such objects together answer with less work.
    fn list_folder(
        &self,
        folder: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> impl Future<Output = Result<ListPage, ReadError>> {
        self.list(folder, after, limit)
    }

    /// Removes the object; also succeeds if there is none.
    fn delete(&self, key: &Key) -> impl Future<Output = Result<(), DeleteError>>;
}

/// Traffic whose cost counts and whose content does not: the metadata files of table formats.
///
/// Each write goes to a fresh key that no other process can name yet, and each read is of an object that never changes.
/// So bulk traffic commutes with everything, and a simulated process can run ahead on its own clock.
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
    /// Every request reaches the store at most once, so [`PutError::Lost`] means that another writer was first. False
    /// wherever a proxy, a load balancer or a client library may repeat a request: there a write may have lost to an
    /// earlier delivery of itself.
    pub delivers_once: bool,
}

/// The name of an object: UTF-8, with `/` between parts. A store refuses those that it cannot name
/// ([`ObjectStore::can_name`]).
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
    /// Byte order of the names. Most comparisons are of a key with itself; these do not read the name.
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
/// the content: there equal content has equal tags, so every write of a guarded object must contain something fresh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(TagKind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TagKind {
    Number(u64),
    /// Boxed, so that a tag takes two words.
    Text(Arc<Box<str>>),
}

impl Tag {
    /// A numeric tag, such as a generation.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(TagKind::Number(number))
    }

    /// A text tag, such as an ETag, exactly as the store wrote it.
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

/// The content of an object: bytes, followed by filler, whose content does not matter but whose transfer takes time. A
/// live store writes filler as zeros; the simulated one keeps only its size.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Payload {
    /// Real content.
    pub bytes: Bytes,
    /// Filler after the bytes.
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

/// What to write: a payload, or something that can be turned into one. A store that finds that the guard does not hold
/// before it needs the bytes never asks for them.
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

/// An object's size and tag, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Content and filler.
    pub size: ByteSize,
    /// The state it was in.
    pub tag: Tag,
    /// When it got into this state, by the store's clock, in milliseconds since 1970, to the second or finer; `None` if
    /// the store does not say. Comparable with other times of the same store only.
    pub written_ms: Option<u64>,
}

/// The object's state after an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The state of the object with the appended bytes.
    pub tag: Tag,
    /// Its size: the offset for the next append.
    pub end: u64,
}

/// Part of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListPage {
    /// In the byte order of their keys.
    pub objects: Vec<Listed>,
    /// Whether there may be more after the last one.
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
    /// A cause known only by its text.
    #[must_use]
    pub fn words(words: impl Into<String>) -> Self {
        Self(Arc::from(Box::<dyn Error + Send + Sync>::from(words.into())))
    }

    /// Whether nothing was done because another process of this machine holds a lock for too long. It passes when that
    /// process goes on or ends.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(&*self.0);
        while let Some(error) = next {
            let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            if error.is::<Busy>() || inner.is_some_and(|inner| inner.is::<Busy>()) {
                return true;
            }
            next = error.source();
        }
        false
    }

    /// A cause that another library reported.
    #[must_use]
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for Cause {
    /// The error and, after colons, its causes.
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

/// Another process of this machine holds a lock for too long; the text says which, and what to do. See
/// [`Cause::is_busy`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Busy(pub String);

/// Why a read gave nothing. Reads have no effect and may always be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// There was no such object at one moment between call and answer.
    #[error("there is no object with that key")]
    NotFound,
    /// The read failed; this says nothing about the object.
    #[error("the read failed: {0}")]
    Failed(Cause),
}

/// Why a guarded write did not return a tag: three failures that call for three different reactions.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PutError {
    /// The guard did not hold; nothing was written. Read again before the next try.
    #[error("the guard did not hold: another writer was first")]
    Lost,
    /// It may have taken effect, or may still do so. Only reading back can tell, and only in part: what is absent now
    /// may still appear.
    #[error("it is not known whether the write happened: {0}")]
    Unknown(Cause),
    /// Refused. The denial says what that proves. The write may be sent again.
    #[error("the store refused the write: {0}")]
    Refused(Denial),
}

/// How a write was refused.
#[derive(Clone, Debug)]
pub struct Denial {
    /// The reason, for people.
    pub cause: Cause,
    /// Whether this write has had no effect and never will: it never left this process, or nothing between process and
    /// store can have repeated it. Otherwise only one delivery of it was refused; another may have taken effect before,
    /// or may still do so.
    pub certain: bool,
    /// Whether the same write may be accepted a little later: the store is busy.
    pub passing: bool,
}

impl Denial {
    /// Certainly refused, before anything was sent.
    #[must_use]
    pub fn certain(cause: Cause) -> Self {
        Self { cause, certain: true, passing: false }
    }

    /// The same, with a cause known only by its text.
    #[must_use]
    pub fn words(words: impl Into<String>) -> Self {
        Self::certain(Cause::words(words))
    }

    /// The same, and the write may be accepted a little later.
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
    /// It may have been deleted, or may still be.
    #[error("it is not known whether the delete happened: {0}")]
    Unknown(Cause),
    /// Refused before any effect. Where a store may deliver a request twice, this concerns the delivery that was
    /// answered.
    #[error("the store refused the delete: {0}")]
    Refused(Cause),
}
