//! Reading the bodies of requests, within a limit for each and one for all: a body of JSON takes up to a hundred times
//! its length while it is decoded.
//!
//! What is refused is read to its end and thrown away before the answer: a client that still sends would otherwise find
//! its connection broken, and not know that nothing was done. So is what is longer than allowed, up to [`DISCARDED`]
//! times the limit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::metrics::Metrics;
use crate::security::refusal::Refusal;

/// What is counted of bodies together, so that their number fits into the permits of a semaphore.
const UNIT: usize = 1024;

/// So much of each body is not counted: who fills the memory for large bodies holds up no small ones. The most requests
/// at once limit these.
pub(crate) const SMALL: usize = 64 << 10;

/// How many times the most bytes of a body are read of one that is refused.
const DISCARDED: usize = 16;

/// The memory for bodies.
pub(crate) struct Bodies {
    /// The most bytes of one.
    most_bytes: usize,
    /// A permit for each [`UNIT`] of all bodies that may still come.
    free: Arc<Semaphore>,
}

/// The part of the memory that the body of a request has, until its work has ended.
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

impl Bodies {
    pub(crate) fn new(most_bytes: usize, all_bytes: usize) -> Self {
        let units = all_bytes.max(most_bytes).div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self { most_bytes, free: Arc::new(Semaphore::new(units)) }
    }

    /// The whole body of a request. Its room grows as it comes: what is announced and not sent takes none.
    pub(crate) async fn read(
        &self,
        headers: &HeaderMap,
        mut body: Body,
        deadline: Instant,
        metrics: &Metrics,
    ) -> Result<(Bytes, Room), Refusal> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let announced = length.map_or(0, |length: u64| usize::try_from(length).unwrap_or(usize::MAX));
        let refusal = match announced {
            _ if !body.is_end_stream() && is_encoded(headers) => encoded(),
            long if long > self.most_bytes => self.too_long(),
            long if counted(long) > self.free.available_permits() => busy(metrics),
            _ => match self.collect(&mut body, deadline, metrics).await {
                // A stream of HTTP/2 that its client resets without an error looks like one that has ended.
                Ok((whole, _)) if length.is_some() && whole.len() < announced => unended(),
                Ok(whole) => return Ok(whole),
                Err(refusal) => refusal,
            },
        };
        // A client that asks first has sent nothing, and does not if the answer is no.
        if !headers.contains_key(header::EXPECT) {
            discard(body, self.most_bytes.saturating_mul(DISCARDED), deadline).await;
        }
        Err(refusal)
    }

    async fn collect(&self, body: &mut Body, deadline: Instant, metrics: &Metrics) -> Result<(Bytes, Room), Refusal> {
        let (mut all, mut room) = (BytesMut::new(), Room(None));
        loop {
            let frame = timeout_at(deadline, body.frame()).await.map_err(|_| {
                let words = "the body of the request did not come in time; nothing was done".to_owned();
                Refusal::Other(StatusCode::REQUEST_TIMEOUT, "RequestTimeoutException", 13, words)
            })?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|_| unended())?;
            // Trailers mean nothing.
            let Ok(data) = frame.into_data() else { continue };
            let length = all.len() + data.len();
            if length > self.most_bytes {
                return Err(self.too_long());
            }
            if !room.grow(&self.free, length) {
                return Err(busy(metrics));
            }
            // Most bodies come in one piece, which is not copied.
            if all.is_empty() && body.is_end_stream() {
                return Ok((data, room));
            }
            all.extend_from_slice(&data);
        }
        Ok((all.freeze(), room))
    }

    fn too_long(&self) -> Refusal {
        let most = self.most_bytes;
        let words = format!("the body has more than {most} bytes, which this server allows; nothing was done");
        Refusal::Other(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeException", 13, words)
    }
}

/// Whether the body is compressed, or encoded in another way.
fn is_encoded(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(header::CONTENT_ENCODING);
    encodings.iter().any(|encoding| !encoding.is_empty() && !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn encoded() -> Refusal {
    let words = "the body is encoded (Content-Encoding), and this server reads bodies only as they are, without \
                 compression; nothing was done"
        .to_owned();
    Refusal::Other(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaTypeException", 13, words)
}

fn unended() -> Refusal {
    let words = "the body of the request did not come to its end; nothing was done".to_owned();
    Refusal::Other(StatusCode::BAD_REQUEST, "BadRequestException", 13, words)
}

fn busy(metrics: &Metrics) -> Refusal {
    metrics.turned_away.fetch_add(1, Ordering::Relaxed);
    Refusal::busy(
        "the bodies of the requests at work take the memory that there is for them; nothing was done: try again later",
    )
}

/// Reads what still comes, up to so many bytes.
pub(crate) async fn discard(mut body: Body, most_bytes: usize, deadline: Instant) {
    let mut left = most_bytes;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        if length >= left {
            return;
        }
        left -= length;
    }
}

/// The permits that so many bytes of one body take.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(SMALL).div_ceil(UNIT)
}

impl Room {
    /// Takes what is missing for so many bytes. Waiting for it could wait for a body that waits for this one.
    fn grow(&mut self, free: &Arc<Semaphore>, bytes: usize) -> bool {
        let has = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = counted(bytes).saturating_sub(has);
        if missing == 0 {
            return true;
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(free).try_acquire_many_owned(missing) else { return false };
        match &mut self.0 {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_for_all_together_and_comes_back() {
        let bodies = Bodies::new(4 * UNIT, 6 * UNIT);
        let (mut one, mut other) = (Room(None), Room(None));
        let of = |units: usize| SMALL + units * UNIT;
        assert!(one.grow(&bodies.free, of(0) + 1) && one.grow(&bodies.free, of(4)));
        assert!(other.grow(&bodies.free, of(1) + 1));
        assert!(!other.grow(&bodies.free, of(2) + 1), "six are taken");
        assert!(other.grow(&bodies.free, of(2)), "what it has stays");
        assert!(Room(None).grow(&bodies.free, SMALL), "a small body takes none");
        drop(one);
        assert!(other.grow(&bodies.free, of(4)));
        drop(other);
        assert_eq!(bodies.free.available_permits(), 6);
    }

    #[tokio::test]
    async fn a_body_that_is_shorter_than_announced_is_refused() {
        let bodies = Bodies::new(1 << 20, 1 << 20);
        for (announced, content, is_whole) in
            [("4", "{}  ", true), ("4", "{}", false), ("2", "", false), ("0", "", true)]
        {
            let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, announced.parse().unwrap())]);
            let deadline = Instant::now() + std::time::Duration::from_secs(60);
            let read = bodies.read(&headers, Body::from(content), deadline, &Metrics::default()).await;
            assert_eq!(read.is_ok(), is_whole, "{announced} {content:?}");
        }
    }

    #[tokio::test]
    async fn an_encoded_body_is_not_taken_for_json() {
        let bodies = Bodies::new(1 << 20, 1 << 20);
        for (encoding, content, is_read) in [
            ("gzip", "1", false),
            ("identity, br", "1", false),
            ("Identity", "{}", true),
            ("", "{}", true),
            ("gzip", "", true),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())]);
            let deadline = Instant::now() + std::time::Duration::from_secs(60);
            let read = bodies.read(&headers, Body::from(content), deadline, &Metrics::default()).await;
            assert_eq!(read.is_ok(), is_read, "{encoding} {content:?}");
        }
    }
}
