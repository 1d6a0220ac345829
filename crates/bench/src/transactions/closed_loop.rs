//! How many calls do so many clients make, each one after the other?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_run::statistics::quantile;
use glidepath_stores::LiveEnv;
use tokio::task::JoinSet;

/// Calls below which a 99th percentile would be the slowest call or two.
const LEAST_FOR_P99: usize = 300;
const LEAST_FOR_P95: usize = 60;

/// What one call did: how many items, or an error in words.
pub(super) type Called = Result<u64, String>;

/// What the clients did in the measured time.
pub(super) struct Looped {
    /// Items of the calls that began in the measured time, per second: of the time that the clients took for them, also
    /// to wait for a processor, which is longer than the measured time if calls are.
    pub(super) per_second: f64,
    pub(super) latency_ms: [Option<f64>; 3],
    pub(super) errors: u64,
    /// One of the first, of some client.
    pub(super) first_error: Option<String>,
}

/// What some clients did.
#[derive(Default)]
struct Done {
    items: u64,
    errors: u64,
    first_error: Option<String>,
    latencies_ms: Vec<f64>,
    /// From the begin of the first call to the end of the last one.
    took_ms: f64,
}

impl Done {
    fn add(&mut self, other: Self) {
        self.items += other.items;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latencies_ms.extend(other.latencies_ms);
        self.took_ms += other.took_ms;
    }

    /// By so many clients at a time.
    fn by(mut self, clients: u32) -> Looped {
        self.latencies_ms.sort_by(f64::total_cmp);
        let calls = self.latencies_ms.len();
        let of = |share: f64, least: usize| (calls >= least).then(|| quantile(&self.latencies_ms, share));
        Looped {
            per_second: if calls == 0 { 0.0 } else { f64::from(clients) * self.items as f64 * 1e3 / self.took_ms },
            latency_ms: [of(0.5, 1), of(0.95, LEAST_FOR_P95), of(0.99, LEAST_FOR_P99)],
            errors: self.errors,
            first_error: self.first_error,
        }
    }
}

/// Runs the clients for a fifth of `duration`, and then for `duration`, which is measured, and each until one of its
/// calls was measured. `call` gets the number of the client and of its call.
pub(super) async fn closed_loop<F, C>(clients: u32, duration: Span, stop: &AtomicBool, call: F) -> Looped
where
    F: Fn(u32, u64) -> C + Send + Sync + 'static,
    C: Future<Output = Called> + Send + 'static,
{
    run(clients, duration, stop, call).await.by(clients)
}

/// Runs several kinds of calls in turn, so often, each for its share of `duration`: what is compared has the same of
/// what else the machine does. Each round begins with another kind. `call` gets the kind.
pub(super) async fn in_turn<F, C>(
    kinds: usize,
    rounds: u64,
    (clients, duration): (u32, Span),
    stop: &AtomicBool,
    call: F,
) -> Vec<Looped>
where
    F: Fn(usize) -> C + Clone + Send + Sync + 'static,
    C: Future<Output = Called> + Send + 'static,
{
    let share = Span::from_nanos(duration.as_nanos() / rounds);
    let mut done: Vec<Done> = (0..kinds).map(|_| Done::default()).collect();
    for round in 0..rounds as usize {
        for kind in (0..kinds).map(|kind| (kind + round) % kinds) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let call = call.clone();
            done[kind].add(run(clients, share, stop, move |_, _| call(kind)).await);
        }
    }
    done.into_iter().map(|done| done.by(clients)).collect()
}

async fn run<F, C>(clients: u32, duration: Span, stop: &AtomicBool, call: F) -> Done
where
    F: Fn(u32, u64) -> C + Send + Sync + 'static,
    C: Future<Output = Called> + Send + 'static,
{
    let env = LiveEnv::new();
    let from = env.now() + Span::from_nanos(duration.as_nanos() / 5);
    let to = from + duration;
    let ended = Arc::new(AtomicBool::new(false));
    let call = Arc::new(call);
    let mut running = JoinSet::new();
    for client in 0..clients {
        running.spawn(one(client, Arc::clone(&call), (from, to), Arc::clone(&ended)));
    }
    let mut all = Done::default();
    loop {
        let look = env.now() + Span::from_millis(100);
        tokio::select! {
            () = env.sleep_until(look) => {
                if stop.load(Ordering::Relaxed) {
                    ended.store(true, Ordering::Relaxed);
                }
            }
            done = running.join_next() => match done {
                None => break,
                // A task that panicked has said so.
                Some(Err(_)) => all.errors += 1,
                Some(Ok(client)) => all.add(client),
            }
        }
    }
    all
}

async fn one<F, C>(client: u32, call: Arc<F>, (from, to): (Instant, Instant), ended: Arc<AtomicBool>) -> Done
where
    F: Fn(u32, u64) -> C,
    C: Future<Output = Called>,
{
    let env = LiveEnv::new();
    let mut done = Done::default();
    let (mut began, mut first) = (env.now(), None);
    for number in 0.. {
        // A call may take longer than all the time there is.
        if (began >= to && !done.latencies_ms.is_empty()) || ended.load(Ordering::Relaxed) {
            break;
        }
        let called = call(client, number).await;
        let now = env.now();
        if began >= from {
            done.latencies_ms.push(now.since(began).as_secs_f64() * 1e3);
            done.took_ms = now.since(*first.get_or_insert(began)).as_secs_f64() * 1e3;
        }
        match called {
            Ok(items) if began >= from => done.items += items,
            Ok(_) => {}
            Err(words) => {
                done.errors += 1;
                done.first_error.get_or_insert(words);
            }
        }
        // A call that waits for nothing would keep the other clients away from this processor.
        tokio::task::yield_now().await;
        began = env.now();
    }
    done
}
