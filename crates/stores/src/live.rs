//! The environment of a live process: the machine's clocks and its random numbers.
//!
//! | platform | the clock |
//! |---|---|
//! | Linux, Android | `CLOCK_BOOTTIME`, which counts sleep (`CLOCK_MONOTONIC`, and so `std::time::Instant`, does not) |
//! | macOS, iOS | `CLOCK_MONOTONIC`, which counts sleep there |
//! | others | `CLOCK_MONOTONIC`, which may stop in sleep |
//!
//! On all of them, and in a virtual machine that is paused, the time of day shows what the clock missed as soon as it
//! is set: see [`Watch`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glidepath_env::{Env, Purpose, Readings, Watch};
use glidepath_model::Instant;
use rand::Rng;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::store::Store;

/// One clock for the whole process, because what a process knows of a catalog is shared, with the times at which it was
/// new.
static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

/// A live process. Its clock begins at zero when it is first read, and all values of this type share it; its random
/// numbers come from the machine's entropy.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveEnv(());

impl LiveEnv {
    /// This process.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

fn readings() -> Readings {
    let monotonic_ns = nanoseconds(clock_gettime(ClockId::Monotonic));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let counting_sleep_ns = Some(nanoseconds(clock_gettime(ClockId::Boottime)));
    #[cfg(target_vendor = "apple")]
    let counting_sleep_ns = Some(monotonic_ns);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    let counting_sleep_ns = None;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Readings { monotonic_ns, counting_sleep_ns, unix_ns }
}

/// The time of day, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    readings().unix_ns / 1_000_000
}

fn nanoseconds(time: Timespec) -> u64 {
    let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or_default().saturating_mul(1_000_000_000).saturating_add(rest.unwrap_or_default())
}

impl Env for LiveEnv {
    type Objects = Store;

    fn now(&self) -> Instant {
        // Each reading is taken as a whole, so a panic elsewhere cannot leave it half-written. Clocks are read under
        // the lock, so that readings arrive in order.
        let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
        watch.get_or_insert_default().read(readings())
    }

    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    async fn sleep_until(&self, at: Instant) {
        // Timers stop in sleep, so this may wait too long, never too short.
        loop {
            let now = self.now();
            if now >= at {
                return;
            }
            tokio::time::sleep(Duration::from_nanos(at.since(now).as_nanos())).await;
        }
    }

    async fn step_aside(&self) {
        tokio::task::yield_now().await;
    }

    fn draw(&self, _: Purpose) -> u64 {
        rand::rng().next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two environments that share state: the times of one must be valid in the other.
    #[test]
    fn all_environments_of_a_process_show_one_time() {
        let first = LiveEnv::new().now();
        let second = LiveEnv::new();
        let shown: Vec<Instant> =
            (0..100).map(|n| if n % 2 == 0 { second.now() } else { LiveEnv::new().now() }).collect();
        assert!(first <= shown[0] && shown.is_sorted());
    }

    /// In a time namespace in which the machine has slept for a day: the clock that counts sleep is a day ahead of the
    /// other one. (The test runs itself again there; if that is not permitted, it says so.)
    #[test]
    #[cfg(target_os = "linux")]
    fn the_clock_is_the_one_that_counts_sleep() {
        const DAY_NS: u64 = 86_400_000_000_000;
        if std::env::var_os("GLIDEPATH_SLEPT_A_DAY").is_some() {
            let Readings { monotonic_ns, counting_sleep_ns, .. } = readings();
            let counting = counting_sleep_ns.expect("Linux has such a clock");
            assert!(counting > monotonic_ns + DAY_NS / 2, "{counting} {monotonic_ns}");
            return;
        }
        let unshare = |program: &std::ffi::OsStr| {
            let mut command = std::process::Command::new("unshare");
            command.args(["--time", "--boottime", "86400", "--fork"]).arg(program);
            command
        };
        if !unshare("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
            println!("no time namespace can be created here: NOT tested");
            return;
        }
        let own = std::env::current_exe().expect("the test's own program");
        let mut again = unshare(own.as_os_str());
        again.args(["the_clock_is_the_one_that_counts_sleep"]).env("GLIDEPATH_SLEPT_A_DAY", "1");
        let output = again.output().expect("it ran a moment ago");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}
