//! Bodies of answers in several pieces, none of which is copied: the metadata of a table may be a megabyte, and many
//! clients get the same.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// The pieces that are not sent yet.
struct Frames(VecDeque<Bytes>);

/// A body of these pieces, one behind the other. Its length is known before it is sent.
pub(crate) fn body(pieces: impl IntoIterator<Item = Bytes>) -> Body {
    Body::new(Frames(pieces.into_iter().filter(|piece| !piece.is_empty()).collect()))
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_pieces_come_one_behind_the_other_and_their_length_is_known() {
        let body = body([&b"{\"a\":"[..], b"", b"1", b"}"].map(Bytes::from_static));
        assert_eq!(body.size_hint().exact(), Some(7));
        assert!(!body.is_end_stream());
        assert_eq!(axum::body::to_bytes(body, usize::MAX).await.unwrap(), "{\"a\":1}");
    }
}
