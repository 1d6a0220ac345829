//! Reading the bodies of requests, within a limit for each and one for all: a body of JSON takes up to twenty times its
//! length while a request works on it.

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
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: u64| length > self.most_bytes as u64) {
            return Err(self.too_long());
        }
        let (mut all, mut room) = (BytesMut::new(), Room(None));
        loop {
            let frame = timeout_at(deadline, body.frame()).await.map_err(|_| {
                let words = "the body of the request did not come in time; nothing was done".to_owned();
                Refusal::Other(StatusCode::REQUEST_TIMEOUT, "RequestTimeoutException", 13, words)
            })?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|_| {
                let words = "the body of the request did not come to its end; nothing was done".to_owned();
                Refusal::Other(StatusCode::BAD_REQUEST, "BadRequestException", 13, words)
            })?;
            // Trailers mean nothing.
            let Ok(data) = frame.into_data() else { continue };
            let length = all.len() + data.len();
            if length > self.most_bytes {
                return Err(self.too_long());
            }
            if !room.grow(&self.free, length) {
                metrics.turned_away.fetch_add(1, Ordering::Relaxed);
                return Err(Refusal::busy(
                    "the bodies of the requests at work take the memory that there is for them; nothing was done: try \
                     again later",
                ));
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

impl Room {
    /// Takes what is missing for so many bytes. Waiting for it could wait for a body that waits for this one.
    fn grow(&mut self, free: &Arc<Semaphore>, bytes: usize) -> bool {
        let has = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(has);
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
        assert!(one.grow(&bodies.free, 1) && one.grow(&bodies.free, 4 * UNIT));
        assert!(other.grow(&bodies.free, UNIT + 1));
        assert!(!other.grow(&bodies.free, 2 * UNIT + 1), "six are taken");
        assert!(other.grow(&bodies.free, 2 * UNIT), "what it has stays");
        drop(one);
        assert!(other.grow(&bodies.free, 4 * UNIT));
        drop(other);
        assert_eq!(bodies.free.available_permits(), 6);
    }
}
