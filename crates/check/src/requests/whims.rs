//! Callers that are dropped, and tasks that are not polled for a while.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::Span;

use crate::process::Process;

/// The disturbances of one future.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whims {
    /// It is dropped after this time.
    patience: Option<Span>,
    /// After this number of polls it is not polled for this time.
    pause: Option<(u32, Span)>,
}

impl Whims {
    /// Of a caller: one of eight is dropped, one of twelve is not polled for a while. `round_trip` is that of a
    /// request, `long` the longest time without a poll.
    pub(crate) fn draw(env: &Process, round_trip: Span, long: Span) -> Self {
        let draw = || env.draw(Purpose::Transaction);
        let share = |of: Span| Span::from_nanos_f64(unit_interval(draw()) * of.as_nanos() as f64);
        let patience = draw().is_multiple_of(8).then(|| share(round_trip + round_trip + round_trip));
        let pause = draw().is_multiple_of(12).then(|| (1 + (draw() % 6) as u32, share(long)));
        Self { patience, pause }
    }

    /// Of a leader: it ends after at most the first time, and is once not polled for at most the second.
    pub(crate) fn of_a_leader(env: &Process, term: Span, long: Span) -> Self {
        let draw = || env.draw(Purpose::Transaction);
        let share = |of: Span| Span::from_nanos_f64(unit_interval(draw()) * of.as_nanos() as f64);
        Self { patience: Some(share(term)), pause: Some((1 + (draw() % 40) as u32, share(long))) }
    }
}

/// Runs a future with these disturbances; `None` if it was dropped.
pub(crate) async fn endured<T>(env: &Process, future: impl Future<Output = T>, whims: Whims) -> Option<T> {
    type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;
    let mut future = pin!(future);
    let mut bell: Option<Sleep<'_>> =
        whims.patience.map(|patience| -> Sleep<'_> { Box::pin(env.sleep_until(env.now() + patience)) });
    let (mut polls, mut asleep) = (0, None::<Sleep<'_>>);
    poll_fn(|context| {
        if let Some(sleep) = &mut asleep {
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            asleep = None;
        }
        if let Poll::Ready(done) = future.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        polls += 1;
        if let Some((after, pause)) = whims.pause
            && polls == after
        {
            let mut sleep: Sleep<'_> = Box::pin(env.sleep_until(env.now() + pause));
            if sleep.as_mut().poll(context).is_pending() {
                asleep = Some(sleep);
            }
        }
        match bell.as_mut().map(|bell| bell.as_mut().poll(context)) {
            Some(Poll::Ready(())) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    })
    .await
}
