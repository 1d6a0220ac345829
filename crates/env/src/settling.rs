//! How long is a write of unknown outcome looked at, or sent, again?

use glidepath_model::Span;

use crate::{Backoff, Env, Exponential, JitterRange, Purpose};

/// Rounds before an outcome stays unknown: 11 to 23 s of waiting in all, 17 s on average.
pub const ROUNDS: u32 = 8;

const WAIT: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(100),
    factor: 2.0,
    longest: Span::from_secs(10),
    jitter: JitterRange { low: 0.5, high: 1.0 },
});

/// Waits before a round, the first being 0.
pub async fn wait<E: Env>(env: &E, round: u32) {
    let wait = WAIT.wait(round, || env.draw(Purpose::Backoff));
    env.sleep_until(env.now() + wait).await;
}
