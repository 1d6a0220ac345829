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
    /// Items of calls that ended in the measured time, per second.
    pub(super) per_second: f64,
    pub(super) latency_ms: [Option<f64>; 3],
    pub(super) errors: u64,
    /// One of the first, of some client.
    pub(super) first_error: Option<String>,
}

/// What one client did.
#[derive(Default)]
struct Client {
    items: u64,
    errors: u64,
    first_error: Option<String>,
    latencies_ms: Vec<f64>,
}

/// Runs the clients for a fifth of `duration`, and then for `duration`, which is measured. `call` gets the number of the client and of its call.
pub(super) async fn closed_loop<F, C>(clients: u32, duration: Span, stop: &AtomicBool, call: F) -> Looped
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
    let mut all = Client::default();
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
                Some(Ok(client)) => {
                    all.items += client.items;
                    all.errors += client.errors;
                    all.first_error = all.first_error.or(client.first_error);
                    all.latencies_ms.extend(client.latencies_ms);
                }
            }
        }
    }
    all.latencies_ms.sort_by(f64::total_cmp);
    let calls = all.latencies_ms.len();
    let of = |share: f64, least: usize| (calls >= least).then(|| quantile(&all.latencies_ms, share));
    Looped {
        per_second: all.items as f64 / duration.as_secs_f64(),
        latency_ms: [of(0.5, 1), of(0.95, LEAST_FOR_P95), of(0.99, LEAST_FOR_P99)],
        errors: all.errors,
        first_error: all.first_error,
    }
}

async fn one<F, C>(client: u32, call: Arc<F>, (from, to): (Instant, Instant), ended: Arc<AtomicBool>) -> Client
where
    F: Fn(u32, u64) -> C,
    C: Future<Output = Called>,
{
    let env = LiveEnv::new();
    let mut done = Client::default();
    let mut began = env.now();
    for number in 0.. {
        if began >= to || ended.load(Ordering::Relaxed) {
            break;
        }
        let called = call(client, number).await;
        let now = env.now();
        if began >= from {
            done.latencies_ms.push(now.since(began).as_secs_f64() * 1e3);
        }
        match called {
            Ok(items) if now >= from && now < to => done.items += items,
            Ok(_) => {}
            Err(words) => {
                done.errors += 1;
                done.first_error.get_or_insert(words);
            }
        }
        began = now;
    }
    done
}
