//! How long is a write of unknown outcome sent again?

use glidepath_env::{Backoff, Env, Exponential, JitterRange, Purpose};
use glidepath_model::Span;

/// Times that a request is sent before its outcome is left unknown: about 25 s of waiting in all.
pub(crate) const ROUNDS: u32 = 8;

const WAIT: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(100),
    factor: 2.0,
    longest: Span::from_secs(10),
    jitter: JitterRange { low: 0.5, high: 1.0 },
});

/// Waits before the request is sent again.
pub(crate) async fn wait<E: Env>(env: &E, round: u32) {
    let wait = WAIT.wait(round, || env.draw(Purpose::Backoff));
    env.sleep_until(env.now() + wait).await;
}
