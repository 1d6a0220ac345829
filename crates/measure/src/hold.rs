//! For how long does a winner keep others out? This cannot be seen from outside, so it is fitted: the hold with which a
//! simulated store has the measured failure rate.
//!
//! The simulated store is measured like the real one ([`Rehearsal`]): in trials of the same length, each started anew,
//! so that both failure rates have the same bias (indirect inference: Gourieroux, Monfort and Renault, *Journal of
//! Applied Econometrics* 8, 1993). The bias is real: if a request may take 45 s, no writer waits for such a request
//! when a trial begins, so more writers contend than in the long run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_model::{ByteSize, Span};
use glidepath_sim::{OperationProfile, Profile};

use crate::measurement::Measurement;
use crate::plan::{Operation, Plan, Trial};
use crate::sample::TrialSamples;
use crate::site::{SimulatedSite, Site};

/// The number of standard errors of the difference at which measurement and simulation count as different.
const DIFFERENT: f64 = 3.0;

/// A failure rate, a share of the attempts, and one standard error of it.
#[derive(Clone, Copy, Debug)]
pub struct FailureRate {
    /// Failures divided by attempts.
    pub rate: f64,
    /// Its standard error.
    pub error: f64,
}

impl FailureRate {
    /// The failure rate of a measurement. If its error is unknown, one percentage point is assumed.
    #[must_use]
    pub fn of(measurement: &Measurement) -> Self {
        Self { rate: measurement.failure_rate(), error: measurement.failure_rate_error.unwrap_or(0.01) }
    }

    fn is_certainly_above(self, other: Self) -> bool {
        self.rate - other.rate > DIFFERENT * self.error.hypot(other.error)
    }
}

/// Halvings of the interval that contains the hold.
const HALVINGS: u32 = 9;

/// Effect times that are tried.
const WAYS: u32 = 8;

/// The most simulated failure rates of [`fit_holds`] for one number of writers.
pub(crate) const MOST_FITS: usize = (HALVINGS + WAYS) as usize;

/// Fits the holds of a profile's operation to the failure rates measured (one for each of its `contended` entries, in
/// their order).
///
/// If significantly more writes would fail than were measured to, even without a hold, the effect time is earlier than
/// half-way: `effect_after`.
pub fn fit_holds(
    profile: &mut Profile,
    operation: Operation,
    failure_rates: &[FailureRate],
    rehearsal: &Rehearsal<'_>,
) {
    fit_way(profile, operation, failure_rates, rehearsal);
    fit_each_hold(profile, operation, failure_rates, rehearsal);
}

/// Fits the holds only, for a known effect time.
pub(crate) fn fit_each_hold(
    profile: &mut Profile,
    operation: Operation,
    failure_rates: &[FailureRate],
    rehearsal: &Rehearsal<'_>,
) {
    for (index, failure_rate) in failure_rates.iter().enumerate() {
        let Some(count) = contended(profile, operation).get(index).map(|knot| knot.writers) else { return };
        if count == 1 {
            continue;
        }
        let longest = contended(profile, operation)[index].success.mean_ns().max(1.0) * 2.0;
        let (mut low, mut high) = (0.0, longest);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            set_hold(profile, operation, index, middle);
            let found = rehearsal.failure_rate(profile, operation, count);
            if found.rate < failure_rate.rate { low = middle } else { high = middle }
        }
        set_hold(profile, operation, index, (low + high) / 2.0);
    }
}

/// Makes the effect time earlier until, without holds, no more writes fail than were measured to. If that does not
/// help, the effect time is not the cause and stays as it was.
fn fit_way(profile: &mut Profile, operation: Operation, failure_rates: &[FailureRate], rehearsal: &Rehearsal<'_>) {
    let shortest = contended(profile, operation).iter().flat_map(|knot| [Some(&knot.success), knot.failure.as_ref()]);
    let shortest = shortest.flatten().map(|distribution| distribution.quantile_ns(0.0)).fold(f64::MAX, f64::min);
    let mut way = shortest / 2.0;
    for _ in 0..WAYS {
        if !fails_too_often(profile, operation, failure_rates, rehearsal) {
            return;
        }
        way *= 0.7;
        set_way(profile, operation, Some(Span::from_nanos_f64((way / 1e3).round() * 1e3)));
    }
    set_way(profile, operation, None);
}

/// Whether, with the operation's holds, significantly more writes fail than were measured to, at any number of writers.
pub(crate) fn fails_too_often(
    profile: &Profile,
    operation: Operation,
    failure_rates: &[FailureRate],
    rehearsal: &Rehearsal<'_>,
) -> bool {
    let counts = contended(profile, operation).iter().map(|knot| knot.writers);
    counts.zip(failure_rates).any(|(writers, rate)| {
        writers > 1 && rehearsal.failure_rate(profile, operation, writers).is_certainly_above(*rate)
    })
}

fn set_way(profile: &mut Profile, operation: Operation, way: Option<Span>) {
    if let Some(of) = of_mut(profile, operation) {
        of.effect_after = way;
    }
}

/// A guarded operation of a profile.
pub(crate) fn of_mut(profile: &mut Profile, operation: Operation) -> Option<&mut OperationProfile> {
    if operation == Operation::Append { profile.append.as_mut() } else { Some(&mut profile.conditional_put) }
}

fn contended(profile: &Profile, operation: Operation) -> &[glidepath_sim::ContendedProfile] {
    of(profile, operation).map_or(&[], |operation| operation.contended.as_slice())
}

fn of(profile: &Profile, operation: Operation) -> Option<&OperationProfile> {
    if operation == Operation::Append { profile.append.as_ref() } else { Some(&profile.conditional_put) }
}

fn set_hold(profile: &mut Profile, operation: Operation, index: usize, nanos: f64) {
    let of = of_mut(profile, operation);
    // Rounded to 10 µs: more digits would be noise.
    let hold = Span::from_nanos_f64((nanos / 1e4).round() * 1e4);
    if let Some(knot) = of.and_then(|operation| operation.contended.get_mut(index)) {
        knot.hold = hold;
    }
}

/// The most operations for one failure rate: eight for each attempt of [`ATTEMPTS`](crate::profile::ATTEMPTS), for
/// warm-ups and for what goes on while a trial waits for a slow operation. Stores that need 100 µs or more for one do
/// not reach it.
const MOST_OPERATIONS: u64 = 200_000;

/// No one stops it.
static NEVER: AtomicBool = AtomicBool::new(false);

/// How candidates are measured.
#[derive(Clone)]
pub struct Rehearsal<'a> {
    /// The plan of each trial; `None`: one trial that is as long as necessary.
    trial: Option<Plan>,
    /// The most trials.
    trials: u32,
    /// The number of attempts after which no further trial is made.
    attempts: f64,
    /// If set, nothing more is simulated, and what is fitted means nothing.
    stop: &'a AtomicBool,
    /// Called after each simulated failure rate.
    told: Option<&'a dyn Fn()>,
}

impl fmt::Debug for Rehearsal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, trials, attempts, stop, told: _ } = self;
        f.debug_struct("Rehearsal")
            .field("trial", trial)
            .field("trials", trials)
            .field("attempts", attempts)
            .field("stop", stop)
            .finish_non_exhaustive()
    }
}

impl<'a> Rehearsal<'a> {
    /// For published failure rates: rates of the long run, from about 6,000 attempts.
    #[must_use]
    pub fn long() -> Self {
        Self { trial: None, trials: 1, attempts: 6000.0, stop: &NEVER, told: None }
    }

    /// As it was measured, but with this multiple of the trials, so that the simulated error is smaller than the
    /// measured one, or with as many trials as have this number of attempts. Once `stop` is set, nothing more is
    /// simulated.
    #[must_use]
    pub fn of(plan: &Plan, times: u32, attempts: f64, stop: &'a AtomicBool) -> Self {
        let trials = plan.trials.saturating_mul(times);
        Self { trial: Some(plan.clone()), trials, attempts, stop, told: None }
    }

    /// The same, and this is called after each simulated failure rate.
    pub(crate) fn watched(self, told: &'a dyn Fn()) -> Self {
        Self { told: Some(told), ..self }
    }

    fn failure_rate(&self, profile: &Profile, operation: Operation, writers: u32) -> FailureRate {
        const NONE: FailureRate = FailureRate { rate: 0.0, error: 0.0 };
        let knot = contended(profile, operation).iter().find(|knot| knot.writers == writers);
        let Some(knot) = knot else { return NONE };
        let mean = knot.failure.as_ref().unwrap_or(&knot.success).mean_ns().max(knot.success.mean_ns());
        self.simulated(profile, operation, writers, mean).as_ref().map_or(NONE, FailureRate::of)
    }

    /// The failure rate of this number of writers in a closed loop on this store; `mean_ns` is the approximate time of
    /// an attempt.
    pub(crate) fn simulated(
        &self,
        profile: &Profile,
        operation: Operation,
        writers: u32,
        mean_ns: f64,
    ) -> Option<Measurement> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let each = self.attempts / f64::from(writers);
        let plan = match &self.trial {
            None => Plan {
                duration: Span::from_nanos_f64(each * mean_ns),
                warm_up: Span::from_nanos_f64(4.0 * mean_ns),
                most_per_writer: usize::MAX,
                body: ByteSize::from_bytes(100),
                ..Plan::full()
            },
            Some(plan) => Plan { most_per_writer: plan.most_per_writer.min(each as usize), ..plan.clone() },
        };
        let mut site = SimulatedSite::new(profile.clone(), 1).at_most(MOST_OPERATIONS);
        let (mut trials, mut seen) = (Vec::<TrialSamples>::new(), 0);
        for number in 1..=self.trials {
            // Measuring a simulated store cannot fail.
            let trial = site.measure(&plan, Trial { operation, writers, number }, &AtomicBool::new(false)).ok()?;
            seen += trial.samples.len();
            trials.push(trial);
            if seen as f64 >= self.attempts || !site.may_go_on() {
                break;
            }
        }
        if let Some(told) = self.told {
            told();
        }
        Measurement::of(&trials).pop()
    }
}
