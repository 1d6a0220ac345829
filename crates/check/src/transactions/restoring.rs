//! What does an operator do who takes the service back to a timestamp, and what do the clients meanwhile?
//!
//! 1. Take a backup timestamp. (The data of transactions is not a part of the run.)
//! 2. Later, kill all clients. What they sent may still take effect.
//! 3. Restore. A restore that has not ended after a while is killed, and begun again by a new process.
//! 4. Start new clients, which know nothing.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::Span;
use glidepath_sim::SimEnv;
use glidepath_txn::restore::{Restored, restore};
use glidepath_txn::{Limits, Timestamp};

use super::life::{Client, House, PAUSES};

/// The operator gives up after so many restores that were killed or failed; no clients are started then.
const RESTORES: u32 = 60;

/// A restore in the middle of a run.
#[derive(Debug, Default)]
pub(super) struct Interruption {
    stopped: Cell<bool>,
    over: Cell<bool>,
}

impl Interruption {
    /// Lives until the operator kills all clients.
    pub(super) async fn kills(&self, life: impl Future<Output = ()>) {
        let mut life = pin!(life);
        poll_fn(|context| if self.stopped.get() { Poll::Ready(()) } else { life.as_mut().poll(context) }).await;
    }

    /// Waits until the service is restored.
    pub(super) async fn over(&self, env: &SimEnv) {
        while !self.over.get() {
            env.sleep_until(env.now() + Span::from_secs(20)).await;
        }
    }
}

impl Client {
    /// What the operator does: steps 1 to 4.
    pub(super) async fn restores(&self, interruption: &Interruption) {
        let rough = self.rough_time();
        self.sleep(rough * (0.05 + 0.4 * self.share())).await;
        let then = self.env.world_now();
        let Some(backup) = self.timestamp().await else { return interruption.over.set(true) };
        self.say(|| format!("makes a backup at {backup}"));
        self.sleep(rough * (0.1 + 0.5 * self.share())).await;
        interruption.stopped.set(true);
        self.told.borrow_mut().restoring(backup);
        let oldest = self.told.borrow().oldest_open(then);
        let oldest = if self.chance(0.5) { oldest } else { Timestamp::FIRST };
        for number in 0..RESTORES {
            let requests = f64::from(8 << number.min(6)) * self.share();
            let patience = Span::from_secs_f64(self.writers.round_trip.as_secs_f64() * requests * 8.0);
            self.say(|| format!("begins to restore to {backup}, from {oldest} on"));
            match self.within(patience, self.restore(oldest, backup)).await {
                Some(Some(restored)) => {
                    self.say(|| format!("has restored: {restored:?}"));
                    self.told.borrow_mut().restored(backup, restored, self.env.world_now());
                    interruption.over.set(true);
                    return;
                }
                Some(None) => self.say(|| "is told that the restore failed".to_owned()),
                None => self.say(|| "kills the restore".to_owned()),
            }
        }
    }

    /// About the seconds until the clients have ended.
    fn rough_time(&self) -> f64 {
        let waits = self.writers.pause.as_secs_f64() / 2.0 + PAUSES.as_secs_f64();
        (waits + 12.0 * self.writers.round_trip.as_secs_f64()) * f64::from(self.writers.commits)
    }

    /// By a process that knows nothing.
    async fn restore(&self, oldest: Timestamp, backup: Timestamp) -> Option<Restored> {
        let (env, store) = (self.env.clone(), self.store.clone());
        let house = House::new(self.house.encodings());
        let Self { number, writers, .. } = *self;
        let process = Self { env, store, number, house, told: self.told.clone(), writers };
        let service = process.service_with(Limits { cross_column: 500, single_query: 500 }).await?;
        let allocator = process.allocator().await?;
        restore(&service, &allocator, oldest, backup, &|_| ()).await.ok()
    }

    /// The result, unless it takes longer: it is dropped then.
    async fn within<T>(&self, patience: Span, work: impl Future<Output = T>) -> Option<T> {
        let mut late = pin!(self.env.sleep_until(self.env.now() + patience));
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => late.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    async fn sleep(&self, seconds: f64) {
        self.env.sleep_until(self.env.now() + Span::from_secs_f64(seconds)).await;
    }

    fn share(&self) -> f64 {
        unit_interval(self.env.draw(Purpose::Backoff))
    }
}
