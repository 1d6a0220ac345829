//! How long is a write of unknown outcome looked at, or sent, again?

use glidepath_model::Span;

use crate::{Backoff, Env, Exponential, JitterRange, Purpose};

/// Rounds before an outcome stays unknown: 11 to 23 s of waiting, 17 s on average, of whoever waits before each of
/// them; of whoever waits between them, 6 to 13 s.
pub const ROUNDS: u32 = 8;

const WAIT: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(100),
    factor: 2.0,
    longest: Span::from_secs(10),
    jitter: JitterRange { low: 0.5, high: 1.0 },
});

/// Waits between two rounds, which are counted from 0: not after the last one, because nothing comes that it could wait
/// for.
pub async fn wait_after<E: Env>(env: &E, round: u32) {
    if round + 1 < ROUNDS {
        wait(env, round).await;
    }
}

/// Waits before this round, which is counted from 0; also before the first.
pub async fn wait<E: Env>(env: &E, round: u32) {
    let wait = WAIT.wait(round, || env.draw(Purpose::Backoff));
    env.sleep_until(env.now() + wait).await;
}
