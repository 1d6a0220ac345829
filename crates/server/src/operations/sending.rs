//! Clients that do not read their answers, or ask for nothing: what they hold of the server is bounded, and does not
//! stay theirs.
//!
//! - A connection on which a write makes no progress for too long is ended ([`Patient`]).
//! - So is one whose client has answers to come, and gives none of them room for too long, as HTTP/2 allows while the
//!   connection lives; and one without a request for too long ([`Progress`]).
//! - An answer is given to the connection in pieces, so that most of it is not waiting there ([`Sending`]).
//! - What answers take that are in memory for one client only is counted until they are sent ([`Answers`]).

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::bodies::SMALL;

/// What is counted of answers together, so that their number fits into the permits of a semaphore.
const UNIT: usize = 1024;

/// The memory for answers.
pub(crate) struct Answers {
    free: Arc<Semaphore>,
}

/// Among the extensions of an answer: its body is in memory anyway, and many clients get the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsShared;

/// The part of the memory that an answer has until it is sent; among its extensions until then.
#[derive(Clone)]
struct Held(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

impl Answers {
    pub(crate) fn new(all_bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all_bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS))) }
    }

    /// Counts an answer until it is sent. `false` if there is no room for it; the first [`SMALL`] bytes need none.
    pub(crate) fn hold(&self, response: &mut Response) -> bool {
        if response.extensions_mut().remove::<IsShared>().is_some() {
            return true;
        }
        let length = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
        let units = u32::try_from(length.saturating_sub(SMALL).div_ceil(UNIT)).unwrap_or(u32::MAX);
        if units == 0 {
            return true;
        }
        let permit = Arc::clone(&self.free).try_acquire_many_owned(units);
        permit.map(|permit| response.extensions_mut().insert(Held(Arc::new(permit)))).is_ok()
    }
}

/// Whether the client of a connection asks for answers, and takes them.
pub(super) struct Progress(Mutex<Taken>);

struct Taken {
    /// Requests without an answer yet: these are the server's to end.
    working: usize,
    /// Answers that it has not taken to their end, by their numbers: when it last took a piece of each. So what it
    /// takes of one does not count for the others.
    open: BTreeMap<u64, Instant>,
    /// Answers so far.
    answers: u64,
    /// When it last asked, or had nothing to take.
    last: Instant,
}

/// A request whose answer is not there yet.
struct Working(Arc<Progress>);

impl Drop for Working {
    fn drop(&mut self) {
        let mut taken = self.0.locked();
        taken.working -= 1;
        taken.last = Instant::now();
    }
}

impl Progress {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Taken { working: 0, open: BTreeMap::new(), answers: 0, last: Instant::now() })))
    }

    /// The number of a new answer.
    fn opened(&self) -> u64 {
        let mut taken = self.locked();
        taken.answers += 1;
        let number = taken.answers;
        taken.open.insert(number, Instant::now());
        number
    }

    /// The answer that this future has, in pieces of at most so many bytes. It is known here from now on until the
    /// client has taken it.
    pub(super) fn answering<E, F: Future<Output = Result<Response, E>>>(
        self: &Arc<Self>,
        answer: F,
        most: usize,
    ) -> impl Future<Output = Result<Response, E>> + use<E, F> {
        self.locked().working += 1;
        let working = Working(Arc::clone(self));
        async move { answer.await.map(|answer| in_pieces(answer, most, &working.0)) }
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Done when the client has taken nothing of an answer for `longest`; or when no answer is on its way, and it has
    /// asked for nothing since `begun` for `idle`.
    pub(super) async fn stalled(&self, longest: Duration, (begun, idle): (Instant, Duration)) {
        loop {
            let late = {
                let taken = self.locked();
                match taken.open.values().min() {
                    Some(oldest) => *oldest + longest,
                    None if taken.working > 0 => Instant::now() + longest.min(idle),
                    None => taken.last.max(begun) + idle,
                }
            };
            if late <= Instant::now() {
                return;
            }
            sleep_until(late).await;
        }
    }
}

/// An answer on its way, in pieces of at most so many bytes.
struct Sending {
    body: Body,
    rest: Bytes,
    most: usize,
    progress: Arc<Progress>,
    number: u64,
    /// Pieces that the connection has been given.
    given: u64,
    _held: Option<Held>,
}

/// The same answer, in pieces; `progress` learns what becomes of it.
fn in_pieces(mut response: Response, most: usize, progress: &Arc<Progress>) -> Response {
    let held = response.extensions_mut().remove::<Held>();
    response.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        let number = progress.opened();
        let progress = Arc::clone(progress);
        Body::new(Sending { body, rest: Bytes::new(), most, progress, number, given: 0, _held: held })
    })
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut taken = self.progress.locked();
        taken.open.remove(&self.number);
        taken.last = Instant::now();
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        // The connection asks for the first piece before the client has given room for it.
        self.given += 1;
        if self.given > 1 {
            self.progress.locked().open.insert(self.number, Instant::now());
        }
        let most = self.most.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

/// A connection that fails if a write makes no progress for so long.
pub(super) struct Patient<I> {
    io: I,
    longest: Duration,
    /// When a write that waits has waited too long.
    late: Option<Pin<Box<Sleep>>>,
}

impl<I> Patient<I> {
    pub(super) fn new(io: I, longest: Duration) -> Self {
        Self { io, longest, late: None }
    }

    fn written<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.late = None;
            return done;
        }
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(self.longest)));
        ready!(late.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Patient<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Patient<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(context, bytes);
        self.written(done, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.written(done, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_flush(context);
        self.written(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_shutdown(context);
        self.written(done, context)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(5);

    fn answer(length: usize) -> Response {
        Response::new(Body::from(vec![b'x'; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_fails_in_the_end_and_one_that_goes_on_does_not() {
        let (client, server) = tokio::io::duplex(8);
        let mut server = Patient::new(server, LONGEST);
        let mut client = client;
        let slowly = tokio::spawn(async move {
            let mut read = [0; 8];
            for _ in 0..4 {
                sleep(LONGEST / 2).await;
                tokio::io::AsyncReadExt::read_exact(&mut client, &mut read).await.unwrap();
            }
            client
        });
        server.write_all(&[1; 40]).await.unwrap();
        let _client = slowly.await.unwrap();
        let begun = Instant::now();
        let error = server.write_all(&[1; 40]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed().as_secs()), (io::ErrorKind::TimedOut, LONGEST.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_stalled_while_an_answer_is_not_taken() {
        let progress = Progress::new();
        let begun = Instant::now();
        let stalls = async |within: Duration| {
            tokio::time::timeout(within, progress.stalled(LONGEST, (begun, LONGEST))).await.is_ok()
        };
        let mut body = in_pieces(answer(100), 40, &progress).into_body();
        let mut lengths = Vec::new();
        while let Some(frame) = body.frame().await {
            lengths.push(frame.unwrap().into_data().unwrap().len());
            sleep(LONGEST / 2).await;
            assert!(!stalls(LONGEST / 4).await);
        }
        assert_eq!(lengths, [40, 40, 20]);
        assert!(stalls(LONGEST).await, "the connection still has the body");
        drop(body);
        assert!(!stalls(LONGEST / 2).await, "it has a while to ask for more");
        assert!(stalls(LONGEST).await);
    }

    /// Others are asked for meanwhile, and taken, or given up.
    #[tokio::test(start_paused = true)]
    async fn an_answer_of_which_nothing_is_taken_stalls_the_connection_whatever_others_do() {
        let progress = Progress::new();
        let begun = Instant::now();
        let mut unread = in_pieces(answer(100), 40, &progress).into_body();
        unread.frame().await.unwrap().unwrap();
        let others = async {
            loop {
                sleep(LONGEST / 5).await;
                drop(in_pieces(answer(100), 40, &progress));
                in_pieces(answer(100), 40, &progress).into_body().collect().await.unwrap();
            }
        };
        tokio::select! {
            () = progress.stalled(LONGEST, (begun, LONGEST)) => {}
            () = others => {}
        }
        assert_eq!(begun.elapsed(), LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_stalled_while_the_server_works() {
        let progress = Progress::new();
        let slow = progress.answering(
            async {
                sleep(LONGEST * 10).await;
                Ok::<_, ()>(answer(1))
            },
            1,
        );
        let stalled = progress.stalled(LONGEST, (Instant::now(), LONGEST));
        tokio::pin!(slow, stalled);
        let answered = tokio::select! {
            answer = slow.as_mut() => answer.unwrap(),
            () = stalled.as_mut() => panic!("the server works"),
        };
        let begun = Instant::now();
        stalled.await;
        assert_eq!(begun.elapsed(), LONGEST, "the answer is not taken");
        drop(answered);
    }

    #[tokio::test]
    async fn answers_are_counted_until_they_are_sent() {
        let (answers, progress) = (Answers::new(2 * UNIT), Progress::new());
        let mut first = answer(SMALL + 2 * UNIT);
        assert!(answers.hold(&mut first));
        let first = in_pieces(first, UNIT, &progress);
        assert!(!answers.hold(&mut answer(SMALL + 1)));
        assert!(answers.hold(&mut answer(SMALL)), "small ones are not counted");
        let mut shared = answer(SMALL * 2);
        shared.extensions_mut().insert(IsShared);
        assert!(answers.hold(&mut shared));
        assert_eq!(first.body().size_hint().exact(), Some((SMALL + 2 * UNIT) as u64));
        let sent = first.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(sent.len(), SMALL + 2 * UNIT);
        assert!(answers.hold(&mut answer(SMALL + 1)));
    }
}
