//! Stores that are broken on purpose: the store in memory behind one fault.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Guard, Key, ListPage, Metadata, Object, ObjectStore,
    Payload, PutError, ReadError, Tag,
};
use glidepath_model::ByteSize;
use glidepath_stores::memory::MemoryStore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    // Guards and tags.
    IgnoresGuards,
    /// Reads, and writes a moment later, as a server without a lock does.
    LooksThenWrites,
    WritesWhatItLost,
    AbsentNeverHolds,
    MatchesNeverHolds,
    MatchesHoldsWhereNothingIs,
    UnguardedOnlyCreates,
    /// The tag is the size.
    TagsAreSizes,
    /// A tag counts the writes since the object was created.
    TagsBeginAgain,
    /// Put returns another text for the tag than get and head.
    QuotesTags,
    // Contents and keys.
    RefusesEmpty,
    RefusesLarge,
    OnlyText,
    DropsFiller,
    OneLastRead,
    FoldsCase,
    RefusesLongParts,
    TidiesPaths,
    FilesAreNotFolders,
    RangesIncludeTheirEnd,
    RangesMustFit,
    RangesMustBegin,
    MissingIsAFailure,
    DeletesNothing,
    DeletesOnlyWhatIs,
    Undated,
    // Listings.
    ListsBackwards,
    PrefixesAreFolders,
    IgnoresAfter,
    IgnoresLimit,
    ForgetsMore,
    ForgetsSizes,
    ListsLate,
    // Appends.
    CannotAppendYetDoes,
    DropsAppends,
    AppendsAnywhere,
    AppendReplaces,
    AppendsOnlyToLogs,
    AppendsOnlyToObjects,
    AppendKeepsTag,
}

#[derive(Clone)]
pub(crate) struct BrokenStore {
    inner: MemoryStore,
    fault: Fault,
    memory: Arc<Mutex<Memory>>,
}

/// The state that some faults need.
#[derive(Default)]
struct Memory {
    /// What a key held before its last write.
    before: BTreeMap<Key, Object>,
    writes: BTreeMap<Key, u64>,
    was_put: BTreeMap<Key, bool>,
    listed: ListPage,
    frozen: BTreeMap<Key, Tag>,
}

fn refused(why: &str) -> PutError {
    PutError::Refused(Denial::words(why))
}

fn failed(why: &str) -> ReadError {
    ReadError::Failed(Cause::words(why))
}

impl BrokenStore {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { inner: MemoryStore::new(), fault, memory: Arc::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("no test panics while it holds this")
    }

    /// The key that the fault uses instead.
    fn key(&self, key: &Key) -> Key {
        match self.fault {
            Fault::FoldsCase => Key::new(&key.as_str().to_lowercase()),
            Fault::TidiesPaths => {
                let parts: Vec<_> = key.as_str().split('/').filter(|part| !["", "."].contains(part)).collect();
                Key::new(&parts.join("/"))
            }
            _ => key.clone(),
        }
    }

    /// The tag that the fault shows for an object.
    fn shown(&self, key: &Key, size: ByteSize, tag: Tag) -> Tag {
        let memory = self.memory();
        match self.fault {
            Fault::TagsAreSizes => Tag::number(size.as_bytes()),
            Fault::TagsBeginAgain => Tag::number(memory.writes.get(key).copied().unwrap_or_default()),
            Fault::QuotesTags => Tag::text(&format!("\"{tag}\"")),
            Fault::AppendKeepsTag => memory.frozen.get(key).cloned().unwrap_or(tag),
            _ => tag,
        }
    }

    async fn shown_now(&self, key: &Key) -> Option<(ByteSize, Tag)> {
        let Metadata { size, tag, .. } = self.inner.head(key).await.ok()?;
        Some((size, self.shown(key, size, tag)))
    }

    /// Whether the fault says that the guard holds.
    async fn holds(&self, key: &Key, guard: &Guard) -> bool {
        let now = self.shown_now(key).await;
        match (guard, self.fault) {
            (Guard::None, _) | (_, Fault::IgnoresGuards) => true,
            (Guard::Absent, Fault::AbsentNeverHolds) | (Guard::Matches(_), Fault::MatchesNeverHolds) => false,
            (Guard::Absent, _) => now.is_none(),
            (Guard::Matches(_), Fault::MatchesHoldsWhereNothingIs) if now.is_none() => true,
            // A tag that it has changed is accepted in either form.
            (Guard::Matches(tag), Fault::QuotesTags) => {
                now.is_some_and(|(_, now)| now == *tag || now.to_string() == format!("\"{tag}\""))
            }
            (Guard::Matches(tag), _) => now.is_some_and(|(_, now)| now == *tag),
        }
    }

    async fn refusal(&self, key: &Key, payload: &Payload, guard: &Guard) -> Option<PutError> {
        let size = payload.size().as_bytes();
        let refuses = match self.fault {
            Fault::RefusesEmpty => size == 0,
            Fault::RefusesLarge => size > 1 << 20,
            Fault::RefusesLongParts => key.as_str().split('/').any(|part| part.len() > 199),
            Fault::UnguardedOnlyCreates => *guard == Guard::None && self.inner.head(key).await.is_ok(),
            Fault::FilesAreNotFolders => {
                let name = key.as_str();
                let mut above = name.match_indices('/').map(|(at, _)| Key::new(&name[..at]));
                let inner = &self.inner;
                above.any(|above| at_once(inner.head(&above)).is_ok())
            }
            _ => false,
        };
        refuses.then(|| refused("not here"))
    }

    fn changed(&self, mut payload: Payload) -> Payload {
        match self.fault {
            Fault::DropsFiller => payload.filler = ByteSize::default(),
            Fault::OnlyText => payload.bytes = String::from_utf8_lossy(&payload.bytes).into_owned().into(),
            _ => {}
        }
        payload
    }

    fn note_put(&self, key: &Key) {
        let mut memory = self.memory();
        memory.was_put.insert(key.clone(), true);
        memory.frozen.remove(key);
    }

    fn forget(&self, key: &Key) {
        let mut memory = self.memory();
        memory.writes.remove(key);
        memory.was_put.remove(key);
    }

    async fn remember(&self, key: &Key) {
        let before = self.inner.get(key).await.ok();
        let mut memory = self.memory();
        *memory.writes.entry(key.clone()).or_default() += 1;
        match before {
            Some(before) => memory.before.insert(key.clone(), before),
            None => memory.before.remove(key),
        };
    }
}

/// The result of a future on the store in memory, which never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(ready) => ready,
        std::task::Poll::Pending => panic!("the store in memory waits for nothing"),
    }
}

impl ObjectStore for BrokenStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { append: self.fault != Fault::CannotAppendYetDoes, ..self.inner.capabilities() }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        let key = &self.key(key);
        if self.fault == Fault::OneLastRead
            && let Some(before) = self.memory().before.remove(key)
        {
            return Ok(before);
        }
        let object = self.inner.get(key).await.map_err(|error| self.read_error(error))?;
        Ok(Object { tag: self.shown(key, object.payload.size(), object.tag), ..object })
    }

    async fn get_range(&self, key: &Key, mut range: Range<u64>) -> Result<Object, ReadError> {
        let key = &self.key(key);
        let (size, tag) = self.shown_now(key).await.ok_or(self.read_error(ReadError::NotFound))?;
        match self.fault {
            Fault::RangesIncludeTheirEnd => range.end += 1,
            Fault::RangesMustFit if range.end > size.as_bytes() => return Err(failed("416")),
            Fault::RangesMustBegin if range.start >= size.as_bytes() => return Err(failed("416")),
            _ => {}
        }
        Ok(Object { tag, ..self.inner.get_range(key, range).await? })
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let key = &self.key(key);
        let (size, tag) = self.shown_now(key).await.ok_or(self.read_error(ReadError::NotFound))?;
        let written_ms = self.inner.head(key).await?.written_ms.filter(|_| self.fault != Fault::Undated);
        Ok(Metadata { size, tag, written_ms })
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let (key, payload) = (&self.key(key), self.changed(body.into_payload()));
        // Lets other writers run between this read and this write.
        tokio::task::yield_now().await;
        if let Some(refusal) = self.refusal(key, &payload, &guard).await {
            return Err(refusal);
        }
        let holds = self.holds(key, &guard).await;
        if !holds && self.fault != Fault::WritesWhatItLost {
            return Err(PutError::Lost);
        }
        if self.fault == Fault::LooksThenWrites {
            tokio::task::yield_now().await;
        }
        self.remember(key).await;
        let (size, tag) = (payload.size(), self.inner.put(key, payload, Guard::None).await?);
        self.note_put(key);
        match (holds, self.fault) {
            (false, _) => Err(PutError::Lost),
            (true, Fault::QuotesTags) => Ok(tag),
            (true, _) => Ok(self.shown(key, size, tag)),
        }
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let payload = self.changed(payload);
        let now = self.inner.head(key).await.ok();
        let end = now.as_ref().map_or(0, |metadata| metadata.size.as_bytes());
        if offset != end && self.fault != Fault::AppendsAnywhere {
            return Err(PutError::Lost);
        }
        let was_put = self.memory().was_put.get(key).copied().unwrap_or_default();
        match self.fault {
            Fault::AppendsOnlyToLogs if was_put => return Err(refused("not a log")),
            Fault::AppendsOnlyToObjects if now.is_none() => return Err(PutError::Lost),
            Fault::LooksThenWrites => tokio::task::yield_now().await,
            Fault::AppendKeepsTag if now.is_some() => {
                let tag = self.shown_now(key).await.map(|(_, tag)| tag);
                self.memory().frozen.extend(tag.map(|tag| (key.clone(), tag)));
            }
            Fault::DropsAppends => {
                let end = end + payload.size().as_bytes();
                return Ok(Appended { tag: Tag::text("dropped"), end });
            }
            _ => {}
        }
        self.remember(key).await;
        if self.fault == Fault::AppendReplaces {
            let end = offset + payload.size().as_bytes();
            let tag = self.inner.put(key, payload, Guard::None).await?;
            return Ok(Appended { tag, end });
        }
        let end = self.inner.head(key).await.map_or(0, |metadata| metadata.size.as_bytes());
        let appended = self.inner.append(key, payload, end).await?;
        Ok(Appended { tag: self.shown(key, ByteSize::from_bytes(appended.end), appended.tag), end: appended.end })
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let after = after.filter(|_| self.fault != Fault::IgnoresAfter);
        let limit = if self.fault == Fault::IgnoresLimit { usize::MAX } else { limit };
        let mut page = self.inner.list(prefix, after, limit).await?;
        match self.fault {
            Fault::ListsBackwards => page.objects.reverse(),
            Fault::PrefixesAreFolders if !prefix.as_str().ends_with('/') => {
                let folder = format!("{prefix}/");
                page.objects.retain(|listed| listed.key == *prefix || listed.key.as_str().starts_with(&folder));
            }
            Fault::ForgetsMore => page.more = false,
            Fault::ForgetsSizes => page.objects.iter_mut().for_each(|listed| listed.size = ByteSize::default()),
            Fault::ListsLate => std::mem::swap(&mut page, &mut self.memory().listed),
            _ => {}
        }
        Ok(page)
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let key = &self.key(key);
        if self.fault == Fault::DeletesOnlyWhatIs && self.inner.head(key).await.is_err() {
            return Err(DeleteError::Refused(Cause::words("404")));
        }
        if self.fault == Fault::DeletesNothing {
            return Ok(());
        }
        self.forget(key);
        self.inner.delete(key).await
    }
}

impl BrokenStore {
    fn read_error(&self, error: ReadError) -> ReadError {
        match (error, self.fault) {
            (ReadError::NotFound, Fault::MissingIsAFailure) => failed("403"),
            (error, _) => error,
        }
    }
}
