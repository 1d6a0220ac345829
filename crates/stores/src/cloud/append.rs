//! Appends at an offset on stores in a cloud: one request whose offset the provider itself checks. This is `PutObject`
//! with a write offset on servers compatible with S3 Express One Zone, and `Append Block` with an append position on
//! Azure.
//!
//! An append blob must exist before a block can be appended, so an append at 0 on Azure takes two requests:
//!
//! 1. `Put Blob` of an empty append blob, if there is no blob with that name. An existing blob proves nothing: an empty
//!    one may be left by a writer that crashed after this step, and counts as absent for an append at 0.
//! 2. `Append Block` at position 0. Only this request decides: if another writer appended between the steps, it is
//!    lost.
//! 3. If the blob was deleted between the steps, nothing was appended: start again with step 1.
//! 4. If the second step is refused, the empty blob of the first is deleted, on condition that it is unchanged.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Appended, Cause, Denial, Key, Payload, PutError, Tag};
use http::header::ETAG;
use http::{HeaderMap, Method};
use object_store::path::Path;

use super::CloudStore;
use super::counts::Operation;
use super::outcome::{self, Condition, Ending, Provider, WriteMeaning};
use super::signed::Request;
use super::wire::Trace;

/// How often an append at 0 starts again because the object was deleted between its two steps.
const MOST_BEGINNINGS: usize = 8;

/// A write without the library that was not acknowledged.
struct Failure {
    meaning: WriteMeaning,
    ending: Ending,
    /// Whether any of its bytes can have left this process.
    sent: bool,
}

impl CloudStore {
    /// [`glidepath_env::ObjectStore::append`]. An empty append is refused, because no provider accepts one.
    pub(super) async fn append_at(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let path = self.path(key).map_err(|cause| PutError::Refused(Denial::certain(cause)))?;
        let body = flat(payload)?;
        let refused = |why: &str| Err(PutError::Refused(Denial::words(format!("{}: {why}", self.0.address.shown))));
        if body.is_empty() {
            return refused("the append is empty; give at least one byte");
        }
        match self.provider() {
            Provider::S3 if self.0.address.append => self.append_by_offset(&path, body, offset).await,
            Provider::Azure => self.append_block(&path, body, offset).await,
            Provider::Gcs => refused("Google Cloud Storage has no append at an offset"),
            Provider::S3 => refused(
                "S3 offers appends in directory buckets only, whose names end in --x-s3; for another server that \
                 takes write offsets \
                 say ?append=true",
            ),
        }
    }

    /// The size of the object after this append.
    fn end_of(&self, body: &Bytes, offset: u64) -> Result<u64, PutError> {
        offset.checked_add(body.len() as u64).ok_or_else(|| {
            let shown = &self.0.address.shown;
            PutError::Refused(Denial::words(format!("{shown}: no object is as long as {offset} bytes and more")))
        })
    }

    async fn append_by_offset(&self, path: &Path, body: Bytes, offset: u64) -> Result<Appended, PutError> {
        let end = self.end_of(&body, offset)?;
        let headers = vec![("x-amz-write-offset-bytes", offset.to_string())];
        let request = || Request { method: Method::PUT, path, query: "", headers: headers.clone(), body: body.clone() };
        let answer = self.write_by_hand(Operation::Append, Condition::Offset, request).await;
        let headers = answer.map_err(|failure| self.not_appended(&failure))?;
        // A server that does not know the write offset also answers 200, and has replaced the object by the tail.
        if offset > 0 && number(&headers, "x-amz-object-size") != Some(end) {
            return Err(PutError::Unknown(Cause::words(format!(
                "{}: the answer to an append does not say that the object has {end} bytes now; the server may have put \
                 the appended bytes in the place of the object",
                self.0.address.shown
            ))));
        }
        appended(&headers, end)
    }

    async fn append_block(&self, path: &Path, body: Bytes, offset: u64) -> Result<Appended, PutError> {
        let end = self.end_of(&body, offset)?;
        let headers = vec![("x-ms-blob-condition-appendpos", offset.to_string())];
        let request = || Request {
            method: Method::PUT,
            path,
            query: "?comp=appendblock",
            headers: headers.clone(),
            body: body.clone(),
        };
        let mut appended_before = false;
        for _ in 0..MOST_BEGINNINGS {
            let created = match offset {
                0 => self.create_append_blob(path).await.map_err(|error| uncertain(error, appended_before))?,
                _ => None,
            };
            match self.write_by_hand(Operation::Append, Condition::Offset, request).await {
                Ok(headers) if number(&headers, "x-ms-blob-append-offset").is_some_and(|found| found != offset) => {
                    return Err(PutError::Unknown(Cause::words("the store appended at another offset than requested")));
                }
                Ok(headers) => return appended(&headers, end),
                Err(failure) if offset == 0 && outcome::names_missing(&failure.ending) => appended_before = true,
                Err(failure) => {
                    if let (WriteMeaning::Refused { .. }, Some(etag)) = (failure.meaning, created) {
                        self.delete_if_unchanged(path, etag).await;
                    }
                    return Err(uncertain(self.not_appended(&failure), appended_before));
                }
            }
        }
        let cause = Cause::words("another client deleted the object each time after its creation");
        Err(PutError::Refused(Denial { cause, certain: false, passing: true }))
    }

    /// Makes sure that there is a blob; returns its ETag if this call created it.
    async fn create_append_blob(&self, path: &Path) -> Result<Option<String>, PutError> {
        let headers = vec![("x-ms-blob-type", "AppendBlob".to_owned()), ("if-none-match", "*".to_owned())];
        let request = || Request { method: Method::PUT, path, query: "", headers: headers.clone(), body: Bytes::new() };
        match self.write_by_hand(Operation::Append, Condition::Absent, request).await {
            Ok(headers) => Ok(text(&headers, ETAG.as_str()).map(str::to_owned)),
            Err(Failure { meaning: WriteMeaning::Lost, .. }) => Ok(None),
            Err(failure) => Err(self.not_appended(&failure)),
        }
    }

    /// Cleans up if possible: an empty append blob that stays does no harm to the next appender.
    async fn delete_if_unchanged(&self, path: &Path, etag: String) {
        let headers = vec![("if-match", etag)];
        let request = Request { method: Method::DELETE, path, query: "", headers, body: Bytes::new() };
        let permit = self.permit().await;
        self.0.signed.send(request, &Trace::new(Operation::Delete)).await;
        drop(permit);
    }

    /// Sends a write, and repeats it while it is refused for a passing reason; never repeats it if it may have taken
    /// effect. Returns the headers of the acknowledgement.
    async fn write_by_hand<'a>(
        &self,
        operation: Operation,
        condition: Condition,
        request: impl Fn() -> Request<'a>,
    ) -> Result<HeaderMap, Failure> {
        let mut repeated = 0;
        loop {
            let trace: Arc<Trace> = Trace::new(operation);
            let permit = self.permit().await;
            let (ending, headers) = self.0.signed.send(request(), &trace).await;
            drop(permit);
            match outcome::of_write(self.provider(), condition, &ending) {
                WriteMeaning::Done => return Ok(headers),
                WriteMeaning::Refused { later: true } if self.may_repeat(operation, &mut repeated).await => {}
                meaning => {
                    let sent = repeated > 0 || trace.was_sent();
                    return Err(Failure { meaning, ending, sent });
                }
            }
        }
    }

    fn not_appended(&self, failure: &Failure) -> PutError {
        match failure.meaning {
            WriteMeaning::Lost => PutError::Lost,
            WriteMeaning::Refused { .. } => PutError::Refused(self.denial(&failure.ending, failure.sent)),
            WriteMeaning::Unknown | WriteMeaning::Done => PutError::Unknown(self.cause(&failure.ending)),
        }
    }
}

/// An earlier delivery may have taken effect, even if this one is refused.
fn uncertain(error: PutError, sent_before: bool) -> PutError {
    match error {
        PutError::Refused(denial) if sent_before => PutError::Refused(Denial { certain: false, ..denial }),
        error => error,
    }
}

fn appended(headers: &HeaderMap, end: u64) -> Result<Appended, PutError> {
    match text(headers, ETAG.as_str()) {
        Some(etag) => Ok(Appended { tag: Tag::text(etag), end }),
        None => Err(PutError::Unknown(Cause::words("appended, but the answer has no tag (ETag)"))),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.parse().ok()
}

/// In one piece, because only that can be signed.
fn flat(payload: Payload) -> Result<Bytes, PutError> {
    if payload.filler.as_bytes() == 0 {
        return Ok(payload.bytes);
    }
    let size = usize::try_from(payload.size().as_bytes());
    let size = size.map_err(|error| PutError::Refused(Denial::certain(Cause::from_error(error))))?;
    let mut flat = Vec::new();
    flat.try_reserve_exact(size).map_err(|error| PutError::Refused(Denial::certain(Cause::from_error(error))))?;
    flat.extend_from_slice(&payload.bytes);
    flat.resize(size, 0);
    Ok(flat.into())
}
