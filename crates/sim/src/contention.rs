//! How do guarded writes to one object affect each other? Measured stores answer winners and losers in
//! different times, both depend on the number of writers, and each winner keeps others out for a while.

use std::cell::RefCell;

use glidepath_model::{ByteSize, Instant, Span};

use crate::profile::{ContendedProfile, OperationProfile, RateCap};
use crate::quantiles::{QuantileTable, Quantity};

/// Guarded writes under contention, ready for drawing.
#[derive(Debug)]
pub(crate) struct Contention {
    knots: Vec<Knot>,
    /// Cached by number of writers: each takes hundreds of evaluations of a mixture, and every successful write needs
    /// one.
    holds: RefCell<Vec<Option<Span>>>,
    per_mib: Span,
    /// Time from the sender to the store: of every request, or of one of median latency.
    way: Span,
    /// If set, the time to the store is this share of the shortest round trip that a request with its draw could have.
    effect_share: Option<f64>,
    cap: Option<RateCap>,
}

/// The place of the median.
const MEDIAN: u64 = 1 << 63;

/// What was measured with this number of writers.
#[derive(Debug)]
struct Knot {
    writers: f64,
    /// The hold, as the share of the successes that are answered within it. If none is, a value from -1 to 0: the hold
    /// relative to the shortest success.
    hold: f64,
    success: QuantileTable,
    failure: QuantileTable,
}

/// The properties of a request that decide when it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) sent: Instant,
    pub(crate) size: ByteSize,
    /// The place of the answer's latency in its distribution.
    pub(crate) luck: u64,
}

impl Contention {
    /// `None` where the profile has one latency for all.
    pub(crate) fn new(operation: &OperationProfile, cap: Option<RateCap>) -> Option<Self> {
        let first = operation.contended.first()?;
        let knot = |knot: &ContendedProfile| Knot {
            writers: f64::from(knot.writers),
            hold: hold_place(knot),
            success: QuantileTable::of(Quantity::Given(knot.success.clone())),
            // A lone writer does not lose; if it does, losing takes as long as winning.
            failure: QuantileTable::of(Quantity::Given(knot.failure.as_ref().unwrap_or(&knot.success).clone())),
        };
        let latencies = || {
            let all = operation.contended.iter().flat_map(|knot| [Some(&knot.success), knot.failure.as_ref()]);
            all.flatten().map(|distribution| distribution.quantile_ns(0.0))
        };
        let shortest = latencies().fold(first.success.quantile_ns(0.0), f64::min);
        let half = Span::from_nanos_f64(shortest / 2.0);
        let mut contention = Self {
            knots: operation.contended.iter().map(knot).collect(),
            holds: RefCell::default(),
            per_mib: operation.per_mib,
            way: operation.effect_after.map_or(half, |after| after.min(half)),
            effect_share: operation.effect_share,
            cap,
        };
        contention.way = contention.way(MEDIAN);
        Some(contention)
    }

    /// How long a request is on its way before it takes effect, where its answer has this place in its distribution.
    pub(crate) fn way(&self, luck: u64) -> Span {
        let Some(share) = self.effect_share else { return self.way };
        let trips = self.knots.iter().flat_map(|knot| [&knot.success, &knot.failure]);
        Span::from_nanos_f64(share * trips.map(|trip| trip.value(luck)).fold(f64::MAX, f64::min))
    }

    /// The round trip of a request that met this number of writers, itself included.
    fn round_trip(&self, writers: usize, won: bool, ticket: &Ticket) -> Span {
        let latency = |knot: &Knot| {
            let table = if won { &knot.success } else { &knot.failure };
            table.value(ticket.luck)
        };
        let (low, high, share) = self.between(writers);
        // Between two measured counts, each quantile is interpolated along the logarithm of the count.
        let nanos = libm::exp(libm::log(latency(low)) * (1.0 - share) + libm::log(latency(high)) * share);
        Span::from_nanos_f64(nanos + self.per_mib.as_nanos() as f64 * ticket.size.as_mib_f64())
    }

    fn hold(&self, writers: usize) -> Span {
        let mut holds = self.holds.borrow_mut();
        if holds.len() <= writers {
            holds.resize(writers + 1, None);
        }
        *holds[writers].get_or_insert_with(|| self.interpolated_hold(writers))
    }

    fn interpolated_hold(&self, writers: usize) -> Span {
        let (low, high, share) = self.between(writers);
        // Interpolated by share of the successes, not by time: a winner is blocked by its own hold if it is answered
        // within it, so the failure rate depends on that share.
        let place = low.hold * (1.0 - share) + high.hold * share;
        let nanos = |knot: &Knot| knot.success.exact(place.max(0.0)) * (1.0 + place.min(0.0));
        Span::from_nanos_f64(nanos(low) * (1.0 - share) + nanos(high) * share)
    }

    /// The measured counts on either side, and how far between them this one is.
    fn between(&self, writers: usize) -> (&Knot, &Knot, f64) {
        let writers = writers as f64;
        let after = self.knots.partition_point(|knot| knot.writers < writers).min(self.knots.len() - 1);
        let (low, high) = (&self.knots[after.saturating_sub(1)], &self.knots[after]);
        if high.writers <= low.writers || writers >= high.writers {
            return (high, high, 0.0);
        }
        let share = (writers / low.writers).ln().max(0.0) / (high.writers / low.writers).ln();
        (low, high, share)
    }
}

fn hold_place(knot: &ContendedProfile) -> f64 {
    let (hold, shortest) = (knot.hold.as_nanos() as f64, knot.success.quantile_ns(0.0).max(1.0));
    if hold < shortest { hold / shortest - 1.0 } else { knot.success.cumulative(hold) }
}

/// One object that guarded writes contend for.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// When the writes that have taken effect, or failed, are answered.
    answers: Vec<Instant>,
    held_until: Instant,
    /// Writes it may take at once, as of `counted`.
    tokens: f64,
    counted: Option<Instant>,
}

/// What happens to a write when it arrives.
pub(crate) enum Entry {
    Free,
    /// Another write took effect less than a hold ago.
    Held,
    /// The object has reached its rate cap.
    Capped,
}

impl Hot {
    /// A write arrives. Returns what happens to it, and the number of writers, itself included.
    pub(crate) fn arrive(&mut self, now: Instant, contention: &Contention) -> (Entry, usize) {
        // A writer that was answered and writes again at once counts until its next write arrives.
        self.answers.retain(|answer| *answer + contention.way > now);
        let writers = self.answers.len() + 1;
        if now < self.held_until {
            return (Entry::Held, writers);
        }
        let Some(cap) = contention.cap else { return (Entry::Free, writers) };
        let passed = self.counted.map_or(f64::MAX, |counted| now.since(counted).as_secs_f64());
        self.tokens = (self.tokens + passed * cap.writes_per_s).min(cap.burst);
        self.counted = Some(now);
        (if self.tokens < 1.0 { Entry::Capped } else { Entry::Free }, writers)
    }

    /// The write has won, or not. Returns when it is answered.
    pub(crate) fn answer(&mut self, now: Instant, writers: usize, won: bool, to: (&Contention, &Ticket)) -> Instant {
        let (contention, ticket) = to;
        let at = (ticket.sent + contention.round_trip(writers, won, ticket)).max(now);
        self.answers.push(at);
        if won {
            self.held_until = now + contention.hold(writers);
            self.tokens -= 1.0;
        }
        at
    }
}
