//! What a live process sees of the world: the machine's monotonic clock and its random numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glidepath_env::{Env, Purpose};
use glidepath_model::Instant;
use rand::Rng;

use crate::store::Store;

/// A live process. Its clock begins at zero when it is made; its luck comes from the machine's entropy.
#[derive(Clone, Copy, Debug)]
pub struct LiveEnv {
    began: std::time::Instant,
}

impl LiveEnv {
    /// A process whose clock begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { began: std::time::Instant::now() }
    }
}

impl Default for LiveEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Env for LiveEnv {
    type Objects = Store;

    fn now(&self) -> Instant {
        let passed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(passed)
    }

    fn unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    async fn sleep_until(&self, at: Instant) {
        // Beyond what the machine's clock can show, the end of the wait cannot be reached either.
        match self.began.checked_add(Duration::from_nanos(at.as_nanos())) {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    fn draw(&self, _: Purpose) -> u64 {
        rand::rng().next_u64()
    }
}
