//! Stores in a cloud, and the meaning of their answers: S3, Azure Blob Storage and Google Cloud Storage, over the
//! `object_store` crate with its own retries switched off.
//!
//! One table per provider gives the meaning of every answer (`cloud/outcome.rs`, printed in `docs/stores/`). It uses
//! what the layer under the library saw on the wire (`cloud/wire.rs`).
//!
//! Start with [`CloudStore`].

mod address;
mod append;
mod aws_files;
mod connect;
mod counts;
mod folder;
mod gcs_dialect;
mod keys;
mod outcome;
mod probe;
mod session;
mod signed;
mod sts;
mod wire;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glidepath_env::{
    Appended, Backoff, Body, Capabilities, Cause, DeleteError, Denial, Exponential, Guard, JitterRange, Key, ListPage,
    Listed, Metadata, Object, ObjectStore, Payload, PutError, ReadError, Tag,
};
use glidepath_model::{ByteSize, Span};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::{Semaphore, SemaphorePermit};
use url::Url;

use crate::open::{OpenError, Options};
use address::Address;
use connect::Client;
use outcome::{Condition, Ending, ReadMeaning, WriteMeaning};
use signed::{Request, Signed};
use wire::{Connector, Trace};

pub use counts::{Counts, Operation, OperationCounts};
pub use outcome::Provider;
pub use sts::{LIFETIMES, Permission, Sts, StsError, StsOptions, Temporary, is_protected};

/// The address that a URL names.
pub(crate) fn address_of(url: &Url) -> Result<Address, OpenError> {
    Address::parse(url)
}

/// Waits before a repeat.
const BACKOFF: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(100),
    factor: 2.0,
    longest: Span::from_secs(5),
    jitter: JitterRange { low: 0.5, high: 1.5 },
});

/// The maximum number of objects in one listing request; providers may return fewer.
const PAGE_LIMIT: usize = 1000;

/// Filler is sent from this block of zeros, repeatedly.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// A bucket, or the part of it below a prefix. Clones share connections, limits and counters.
#[derive(Clone)]
pub struct CloudStore(Arc<Inner>);

struct Inner {
    address: Address,
    client: Client,
    signed: Signed,
    tally: Arc<counts::Tally>,
    permits: Semaphore,
    repeats: u32,
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CloudStore").field(&self.0.address.shown).finish()
    }
}

impl CloudStore {
    /// The store that a URL names, with the credentials that the provider's own tools would find. Makes no request.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the URL or missing in the environment.
    pub fn open(url: &Url, options: &Options) -> Result<Self, OpenError> {
        let address = Address::parse(url)?;
        let shown = address.shown.clone();
        let address = connect::located(address).map_err(|why| OpenError::Unusable { url: shown, why })?;
        let tally = Arc::new(counts::Tally::default());
        let unusable = |why| OpenError::Unusable { url: address.shown.clone(), why };
        let emulator = address.provider == Provider::Gcs && address.in_the_clear();
        let rewrite = |client| if emulator { gcs_dialect::translated(client) } else { client };
        let connector = Connector::new(options, &tally, rewrite).map_err(|error| unusable(wire::chain(&error)))?;
        let (client, signed) = connect::connect(&address, &connector, options.repeats).map_err(unusable)?;
        let permits = Semaphore::new(options.requests_in_flight.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self(Arc::new(Inner { address, client, signed, tally, permits, repeats: options.repeats })))
    }

    /// The traffic since the store was opened, over all clones.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.tally.counts()
    }

    fn provider(&self) -> Provider {
        self.0.address.provider
    }

    /// A permit for one request in flight; always granted in the end, because the semaphore is never closed.
    async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.0.permits.acquire().await.ok()
    }

    /// Waits before a repeat; `false` if there were enough.
    async fn may_repeat(&self, operation: Operation, repeated: &mut u32) -> bool {
        if *repeated >= self.0.repeats {
            return false;
        }
        let wait = BACKOFF.wait(*repeated, rand::random);
        *repeated += 1;
        tokio::time::sleep(Duration::from_nanos(wait.as_nanos())).await;
        self.0.tally.repeat(operation);
        true
    }

    fn path(&self, key: &Key) -> Result<Path, Cause> {
        self.0.address.keys.path(key.as_str()).map_err(Cause::words)
    }

    fn cause(&self, ending: &Ending) -> Cause {
        Cause::words(format!("{}: {ending}", self.0.address.shown))
    }

    /// After a request has been sent, a proxy or library may have delivered it before it was refused: `sent` says
    /// whether any of its bytes can have left, in this exchange or an earlier one.
    fn denial(&self, ending: &Ending, sent: bool) -> Denial {
        Denial { cause: self.cause(ending), certain: !sent, passing: ending.passes() }
    }

    /// Reads an object, or only its size and tag. `Ok(None)`: the range begins at or beyond the end.
    async fn read(&self, path: &Path, range: Option<Range<u64>>, head: bool) -> Result<Option<Read>, ReadError> {
        let operation = if head { Operation::Head } else { Operation::Get };
        let mut repeated = 0;
        loop {
            let trace = Trace::new(operation);
            let options = GetOptions {
                range: range.clone().map(GetRange::Bounded),
                head,
                extensions: trace.extensions(),
                ..GetOptions::default()
            };
            let permit = self.permit().await;
            let result = self.read_once(path, options).await;
            drop(permit);
            let result = match result {
                // Azurite answers 206 without a range if the object is too short, which the library reports as an
                // error.
                Err(Unread::Head(_)) if range.is_some() && trace.succeeded() => return Ok(None),
                Err(Unread::Head(error) | Unread::Body(error)) => Err(error),
                Ok(read) => Ok(read),
            };
            let ending = trace.ending(result.as_ref().err().map(|error| error as _));
            match (outcome::of_read(&ending), result) {
                (ReadMeaning::Done, Ok(read)) => return Ok(Some(read)),
                (ReadMeaning::NotFound, _) => return Err(ReadError::NotFound),
                (ReadMeaning::BeyondEnd, _) => return Ok(None),
                (ReadMeaning::Unconfirmed, _) if head => return Box::pin(self.read(path, Some(0..1), false)).await,
                (ReadMeaning::Failed { later: true } | ReadMeaning::Unconfirmed, _)
                    if self.may_repeat(operation, &mut repeated).await => {}
                _ => return Err(ReadError::Failed(self.cause(&ending))),
            }
        }
    }

    async fn read_once(&self, path: &Path, options: GetOptions) -> Result<Read, Unread> {
        let (head, asked) = (options.head, options.range.clone());
        let result = self.0.client.objects().get_opts(path, options).await.map_err(Unread::Head)?;
        let (size, version, etag) = (result.meta.size, result.meta.version.clone(), result.meta.e_tag.clone());
        let written_ms = u64::try_from(result.meta.last_modified.timestamp_millis()).ok();
        let range = result.range.clone();
        let bytes = if head { Bytes::new() } else { result.bytes().await.map_err(Unread::Body)? };
        let length = bytes.len() as u64;
        let whole = match asked {
            None => 0..size,
            Some(GetRange::Bounded(asked)) => asked.start..asked.end.min(size),
            Some(_) => range.clone(),
        };
        if !head && (range != whole || length != range.end.saturating_sub(range.start)) {
            let source = format!(
                "the answer has {length} bytes, and says that they are {range:?} of {size}; asked for {whole:?}"
            );
            return Err(Unread::Body(object_store::Error::Generic { store: "cloud", source: source.into() }));
        }
        let source = "the answer has no tag (ETag or generation)".into();
        let untagged = || Unread::Body(object_store::Error::Generic { store: "cloud", source });
        let tag = tag(self.provider(), etag, version).ok_or_else(untagged)?;
        Ok(Read { bytes, size, tag, written_ms })
    }

    async fn list_once(&self, prefix: &str, page: PaginatedListOptions) -> Result<PaginatedListResult, ReadError> {
        let given = (!prefix.is_empty()).then_some(prefix);
        let mut repeated = 0;
        loop {
            let trace = Trace::new(Operation::List);
            let options = PaginatedListOptions { extensions: trace.extensions(), ..page.clone() };
            let permit = self.permit().await;
            let result = self.0.client.pages().list_paginated(given, options).await;
            drop(permit);
            let ending = trace.ending(result.as_ref().err().map(|error| error as _));
            match (outcome::of_read(&ending), result) {
                (ReadMeaning::Done, Ok(result)) => return Ok(result),
                (ReadMeaning::Failed { later: true } | ReadMeaning::Unconfirmed, _)
                    if self.may_repeat(Operation::List, &mut repeated).await => {}
                _ => return Err(ReadError::Failed(self.cause(&ending))),
            }
        }
    }
}

impl CloudStore {
    /// The object whose key is the whole prefix, which the library omits from listings on Azure, because it takes such
    /// an object for a directory.
    async fn named_by_prefix(&self, prefix: &Key, after: Option<&Key>) -> Result<Option<Listed>, ReadError> {
        let possible = self.provider() == Provider::Azure && after.is_none_or(|after| prefix > after);
        if !possible || self.path(prefix).is_err() {
            return Ok(None);
        }
        match self.head(prefix).await {
            Ok(metadata) => Ok(Some(Listed { key: prefix.clone(), size: metadata.size })),
            Err(ReadError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Why an answer could not be used.
enum Unread {
    /// There was none, or its head is not of a success.
    Head(object_store::Error),
    /// Its body broke off, or it has no tag.
    Body(object_store::Error),
}

struct Read {
    bytes: Bytes,
    size: u64,
    tag: Tag,
    /// `None` for a time before 1970.
    written_ms: Option<u64>,
}

impl ObjectStore for CloudStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: self.0.address.append, delivers_once: false }
    }

    fn can_name(&self, key: &Key) -> bool {
        self.0.address.keys.can_name(key.as_str())
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        let path = self.path(key).map_err(ReadError::Failed)?;
        match self.read(&path, None, false).await? {
            Some(read) => Ok(Object { payload: read.bytes.into(), tag: read.tag }),
            None => Err(ReadError::Failed(Cause::words("the store answered as if a range had been asked for"))),
        }
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let path = self.path(key).map_err(ReadError::Failed)?;
        if range.start < range.end
            && let Some(read) = self.read(&path, Some(range.clone()), false).await?
        {
            return Ok(Object { payload: read.bytes.into(), tag: read.tag });
        }
        // No provider supports an empty range, and the refusal of one does not name the object's state.
        let metadata = self.head(key).await?;
        if range.start < range.end && range.start < metadata.size.as_bytes() {
            return Err(ReadError::Failed(Cause::words("the store did not return the requested range")));
        }
        Ok(Object { payload: Payload::default(), tag: metadata.tag })
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let path = self.path(key).map_err(ReadError::Failed)?;
        match self.read(&path, None, true).await? {
            Some(Read { size, tag, written_ms, .. }) => {
                Ok(Metadata { size: ByteSize::from_bytes(size), tag, written_ms })
            }
            // An object that came between a HEAD and its confirmation, and is empty.
            None => Err(ReadError::Failed(Cause::words("the object changed while it was looked at; try again"))),
        }
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let upload = upload(body.into_payload());
        let path = self.path(key).map_err(|cause| PutError::Refused(Denial::certain(cause)))?;
        let Some((mode, condition)) = mode(self.provider(), guard) else {
            return Err(PutError::Lost);
        };
        let mut repeated = 0;
        loop {
            let trace = Trace::new(Operation::Put);
            let options = PutOptions { mode: mode.clone(), extensions: trace.extensions(), ..PutOptions::default() };
            let permit = self.permit().await;
            let result = self.0.client.objects().put_opts(&path, upload.clone(), options).await;
            drop(permit);
            let ending = trace.ending(result.as_ref().err().map(|error| error as _));
            match (outcome::of_write(self.provider(), condition, &ending), result) {
                (WriteMeaning::Done, Ok(put)) => {
                    return tag(self.provider(), put.e_tag, put.version).ok_or_else(|| {
                        PutError::Unknown(Cause::words("written, but the answer has no tag (ETag or generation)"))
                    });
                }
                (WriteMeaning::Lost, _) => return Err(PutError::Lost),
                (WriteMeaning::Refused { later: true }, _) if self.may_repeat(Operation::Put, &mut repeated).await => {}
                (WriteMeaning::Refused { .. }, _) => {
                    let sent = repeated > 0 || trace.was_sent();
                    return Err(PutError::Refused(self.denial(&ending, sent)));
                }
                (WriteMeaning::Unknown | WriteMeaning::Done, _) => return Err(PutError::Unknown(self.cause(&ending))),
            }
        }
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.append_at(key, payload, offset).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        if self.0.address.zone.is_some() {
            return self.list_folder(prefix, after, limit).await;
        }
        let keys = &self.0.address.keys;
        let full = keys.full(prefix.as_str());
        let mut next = PaginatedListOptions {
            offset: after.map(|after| keys.full(after.as_str())),
            max_keys: Some(limit.clamp(1, PAGE_LIMIT)),
            ..PaginatedListOptions::default()
        };
        let mut objects = Vec::from_iter(self.named_by_prefix(prefix, after).await?);
        loop {
            let listed = self.list_once(&full, next.clone()).await?;
            for object in listed.result.objects {
                let Some(key) = keys.key(object.location.as_ref()).filter(|key| key.starts_with(prefix.as_str()))
                else {
                    continue;
                };
                let key = Key::new(key);
                if after.is_none_or(|after| key > *after) {
                    objects.push(Listed { key, size: ByteSize::from_bytes(object.size) });
                }
            }
            next.page_token = listed.page_token;
            if objects.len() >= limit || next.page_token.is_none() {
                break;
            }
        }
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        let more = next.page_token.is_some() || objects.len() > limit;
        objects.truncate(limit);
        Ok(ListPage { objects, more })
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let path = self.path(key).map_err(DeleteError::Refused)?;
        let mut repeated = 0;
        loop {
            let trace = Trace::new(Operation::Delete);
            let request = Request {
                method: http::Method::DELETE,
                path: &path,
                query: "",
                headers: Vec::new(),
                body: Bytes::new(),
            };
            let permit = self.permit().await;
            let (ending, _) = self.0.signed.send(request, &trace).await;
            drop(permit);
            match outcome::of_delete(self.provider(), &ending) {
                WriteMeaning::Done => return Ok(()),
                WriteMeaning::Refused { later: true } if self.may_repeat(Operation::Delete, &mut repeated).await => {}
                WriteMeaning::Refused { .. } => return Err(DeleteError::Refused(self.cause(&ending))),
                WriteMeaning::Unknown | WriteMeaning::Lost => return Err(DeleteError::Unknown(self.cause(&ending))),
            }
        }
    }
}

/// The tag of an object's state: the generation on GCS, the ETag elsewhere.
fn tag(provider: Provider, etag: Option<String>, version: Option<String>) -> Option<Tag> {
    match provider {
        Provider::Gcs => version?.parse().ok().map(Tag::number),
        Provider::S3 | Provider::Azure => etag.map(|etag| Tag::text(&etag)),
    }
}

/// The library's form of a guard. `None` if no object of this provider can be in the state that the guard names.
fn mode(provider: Provider, guard: Guard) -> Option<(PutMode, Condition)> {
    let tag = match guard {
        Guard::None => return Some((PutMode::Overwrite, Condition::None)),
        Guard::Absent => return Some((PutMode::Create, Condition::Absent)),
        Guard::Matches(tag) => tag.to_string(),
    };
    let possible = match provider {
        Provider::Gcs => tag.parse::<u64>().is_ok_and(|generation| generation > 0),
        // A star would match every state, and a list several.
        Provider::S3 | Provider::Azure => {
            tag.bytes().all(|byte| byte.is_ascii_graphic()) && !tag.is_empty() && !tag.contains(['*', ','])
        }
    };
    possible
        .then(|| (PutMode::Update(UpdateVersion { e_tag: Some(tag.clone()), version: Some(tag) }), Condition::Matches))
}

fn upload(payload: Payload) -> PutPayload {
    let mut filler = payload.filler.as_bytes();
    let mut parts = vec![payload.bytes];
    while filler > 0 {
        let part = usize::try_from(filler).map_or(ZEROS.len(), |filler| filler.min(ZEROS.len()));
        parts.push(Bytes::from_static(&ZEROS[..part]));
        filler -= part as u64;
    }
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}
