//! How long does bulk traffic take? It is private by contract, so it only advances the clock of its process. It has no
//! faults.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::task::{Context, Poll};

use glidepath_env::{BulkError, BulkStore, Purpose, Transfer};
use glidepath_model::{ByteSize, Span};

use super::{Service, SimStore};
use crate::latency::Sampler;
use crate::luck::Stream;
use crate::quantiles::{QuantileTable, Quantity};
use crate::simulation::Mode;
use crate::sum::Single;

/// Steps of several reads and writes, each with the distribution of its duration.
pub(super) type Steps = RefCell<Vec<Step>>;

pub(super) struct Step {
    transfers: Vec<Transfer>,
    sum: QuantileTable,
}

/// A client makes a few kinds of steps; beyond this number the oldest is dropped. Whether a step is one draw must not
/// depend on earlier steps, because the two modes make them in different orders.
const MOST_STEPS: usize = 16;

/// A step of more transfers is drawn one by one: the time to build the table of a sum grows with the square of their
/// number.
const MOST_TRANSFERS: usize = 8;

impl Service {
    /// How long these transfers take, one after another, as one draw. `None` if each has to be drawn: requests may
    /// overlap, or the sum would be too coarse.
    #[inline]
    fn draw_step(&self, transfers: &[Transfer], luck: &mut Stream) -> Option<Span> {
        if (2..=MOST_TRANSFERS).contains(&transfers.len()) { self.draw_sum(transfers, luck) } else { None }
    }

    #[inline]
    fn draw_sum(&self, transfers: &[Transfer], luck: &mut Stream) -> Option<Span> {
        let mut steps = self.steps.borrow_mut();
        let known = steps.iter().position(|step| are_same(&step.transfers, transfers));
        let place = match known {
            Some(place) => place,
            None => {
                let sum = QuantileTable::of(Quantity::Step(self.singles(transfers)?));
                if steps.len() == MOST_STEPS {
                    steps.remove(0);
                }
                steps.push(Step { transfers: transfers.to_vec(), sum });
                steps.len() - 1
            }
        };
        Some(Span::from_nanos_f64(steps[place].sum.value(luck.draw())))
    }

    fn singles(&self, transfers: &[Transfer]) -> Option<Vec<Single>> {
        let single = |transfer: &Transfer| match *transfer {
            Transfer::Read(size) => self.get.single(size),
            Transfer::Write(size) => self.put.single(size),
            Transfer::ReadMany { .. } => None,
        };
        transfers.iter().map(single).collect()
    }
}

/// Like `==`, but faster for possible steps: it is called in every attempt.
fn are_same(step: &[Transfer], transfers: &[Transfer]) -> bool {
    let same = |(a, b): (&Transfer, &Transfer)| match (a, b) {
        (Transfer::Read(a), Transfer::Read(b)) | (Transfer::Write(a), Transfer::Write(b)) => a == b,
        _ => false,
    };
    step.len() == transfers.len() && step.iter().zip(transfers).all(same)
}

impl BulkStore for SimStore {
    fn bulk(&self, transfers: &[Transfer]) -> impl Future<Output = Result<(), BulkError>> {
        Traffic { store: self, transfers, rest: None }
    }
}

/// Bulk traffic, made when this is polled.
struct Traffic<'a, 'b> {
    store: &'a SimStore,
    transfers: &'b [Transfer],
    /// The part that needs events. Boxed, because it is rare in long runs and would enlarge every process.
    rest: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Future for Traffic<'_, '_> {
    type Output = Result<(), BulkError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { store, transfers, rest } = &mut *self;
        if rest.is_none() {
            let made = match store.env.world.mode {
                Mode::LocalClocks => store.transfer_ahead(transfers),
                Mode::EveryOperation => 0,
            };
            if made < transfers.len() {
                let (store, transfers) = (store.clone(), transfers[made..].to_vec());
                *rest = Some(Box::pin(async move { store.transfer_each(&transfers).await }));
            }
        }
        match rest {
            None => Poll::Ready(Ok(())),
            Some(rest) => rest.as_mut().poll(context).map(Ok),
        }
    }
}

impl SimStore {
    /// Makes these transfers on the process's own clock, up to the first whose requests may overlap; returns how many
    /// those are.
    #[inline]
    fn transfer_ahead(&self, transfers: &[Transfer]) -> usize {
        let (process, service) = (&self.env.process, &*self.service);
        let Service { get, put, .. } = service;
        let (mut requests, mut took) = (0, Span::ZERO);
        let made = process.with_luck(Purpose::Store, |luck| {
            if let Some(step) = service.draw_step(transfers, luck) {
                (requests, took) = (transfers.len() as u32, step);
                return transfers.len();
            }
            for (place, transfer) in transfers.iter().enumerate() {
                match *transfer {
                    Transfer::Read(size) => took += get.draw(size, luck),
                    Transfer::Write(size) => took += put.draw(size, luck),
                    Transfer::ReadMany { count, size, parallel: 0 | 1 } => {
                        took += get.draw_many(count, size, luck);
                        requests += count as u32;
                        continue;
                    }
                    Transfer::ReadMany { .. } => return place,
                }
                requests += 1;
            }
            transfers.len()
        });
        process.operations.set(process.operations.get() + requests);
        process.clock.set(process.clock.get() + took);
        made
    }

    /// The same, each draw an event, and also those whose requests overlap.
    async fn transfer_each(&self, transfers: &[Transfer]) {
        let step = self.env.process.with_luck(Purpose::Store, |luck| self.service.draw_step(transfers, luck));
        if let Some(span) = step {
            return self.pass(transfers.len() as u64, span).await;
        }
        for transfer in transfers {
            match *transfer {
                Transfer::Read(size) => self.transfer(1, size, &self.service.get).await,
                Transfer::Write(size) => self.transfer(1, size, &self.service.put).await,
                Transfer::ReadMany { count, size, parallel: 0 | 1 } => {
                    self.transfer(count, size, &self.service.get).await;
                }
                Transfer::ReadMany { count, size, parallel } => self.read_in_lanes(count, size, parallel).await,
            }
        }
    }

    async fn transfer(&self, count: u64, size: ByteSize, latency: &Sampler) {
        let mut left = count;
        while left > 0 {
            let draw = |luck: &mut Stream| latency.draw_some(left, size, luck);
            let (done, span) = self.env.process.with_luck(Purpose::Store, draw);
            left -= done;
            self.pass(done, span).await;
        }
    }

    /// Lets `requests` requests take this time.
    async fn pass(&self, requests: u64, span: Span) {
        let process = &self.env.process;
        // The last one of them is counted below.
        process.operations.set(process.operations.get() + requests as u32 - 1);
        self.env.pass_until(process.clock.get() + span).await;
    }

    async fn read_in_lanes(&self, count: u64, size: ByteSize, lanes: u32) {
        let process = &self.env.process;
        let free = Reverse(process.clock.get());
        let mut lanes = BinaryHeap::from(vec![free; count.min(lanes.into()) as usize]);
        let mut ends = process.with_luck(Purpose::Store, |luck| {
            let mut read = || {
                // The next read starts on the lane that is free first.
                let mut lane = lanes.peek_mut()?;
                lane.0 += self.service.get.draw(size, luck);
                Some(lane.0)
            };
            (0..count).filter_map(|_| read()).collect::<Vec<_>>()
        });
        ends.sort_unstable();
        for end in ends {
            self.env.pass_until(end).await;
        }
    }
}
