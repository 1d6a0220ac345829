//! For how long does a winner keep others out? This cannot be seen from outside, so it is fitted: the hold with which a simulated
//! store has the measured failure rate.
//!
//! The simulated store is measured like the real one ([`Rehearsal`]): in trials of the same length, each started afresh, so that the
//! trials affect both failure rates alike (indirect inference: Gourieroux, Monfort and Renault, *Journal of Applied
//! Econometrics* 8, 1993). The effect is real: if a request may take 45 s, no writer is inside such a request when a trial begins, so
//! more of them contend than in the long run.

use std::sync::atomic::AtomicBool;

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
    /// The share.
    pub rate: f64,
    /// Its error.
    pub error: f64,
}

impl FailureRate {
    /// That of a measurement. If its error is not known, it is assumed to be a point.
    #[must_use]
    pub fn of(measurement: &Measurement) -> Self {
        Self { rate: measurement.failure_rate(), error: measurement.failure_rate_error.unwrap_or(0.01) }
    }

    fn is_certainly_above(self, other: Self) -> bool {
        self.rate - other.rate > DIFFERENT * self.error.hypot(other.error)
    }
}

/// Halvings of the interval in which the hold is sought.
const HALVINGS: u32 = 9;

/// Fits the holds of a profile's operation to the failure rates measured (one for each of its `contended` entries, in
/// their order).
///
/// Where even without a hold certainly more writes would fail than did, they take effect sooner than half-way: `effect_after`.
pub fn fit_holds(profile: &mut Profile, operation: Operation, failure_rates: &[FailureRate], rehearsal: &Rehearsal) {
    fit_way(profile, operation, failure_rates, rehearsal);
    fit_each_hold(profile, operation, failure_rates, rehearsal);
}

/// The holds alone: when writes take effect is known.
pub(crate) fn fit_each_hold(
    profile: &mut Profile,
    operation: Operation,
    failure_rates: &[FailureRate],
    rehearsal: &Rehearsal,
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

/// Shortens the way until no hold is needed to explain fewer failures than there were. Where that does not help, the way is not
/// why, and stays what it was.
fn fit_way(profile: &mut Profile, operation: Operation, failure_rates: &[FailureRate], rehearsal: &Rehearsal) {
    let shortest = contended(profile, operation).iter().flat_map(|knot| [Some(&knot.success), knot.failure.as_ref()]);
    let shortest = shortest.flatten().map(|distribution| distribution.quantile_ns(0.0)).fold(f64::MAX, f64::min);
    let mut way = shortest / 2.0;
    for _ in 0..8 {
        if !fails_too_often(profile, operation, failure_rates, rehearsal) {
            return;
        }
        way *= 0.7;
        set_way(profile, operation, Some(Span::from_nanos_f64((way / 1e3).round() * 1e3)));
    }
    set_way(profile, operation, None);
}

/// Whether with the holds it has certainly more writes would fail than did, at any number of writers.
pub(crate) fn fails_too_often(
    profile: &Profile,
    operation: Operation,
    failure_rates: &[FailureRate],
    rehearsal: &Rehearsal,
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

/// What a profile says of a guarded operation.
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
    // To ten microseconds: what is fitted to noise needs no more digits.
    let hold = Span::from_nanos_f64((nanos / 1e4).round() * 1e4);
    if let Some(knot) = of.and_then(|operation| operation.contended.get_mut(index)) {
        knot.hold = hold;
    }
}

/// How candidates are measured.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// What each trial is like; none: one that goes on for as long as it takes to see enough.
    trial: Option<Plan>,
    /// Trials at most.
    trials: u32,
    /// The number of attempts after which no further trial is made.
    attempts: f64,
}

impl Rehearsal {
    /// For failure rates that were published: those of the long run, from about 6,000 attempts.
    #[must_use]
    pub fn long() -> Self {
        Self { trial: None, trials: 1, attempts: 6000.0 }
    }

    /// As it was measured, but so often as many trials (so that what is simulated is so much surer than what was measured), or as
    /// many as have that many attempts.
    #[must_use]
    pub fn of(plan: &Plan, times: u32, attempts: f64) -> Self {
        Self { trial: Some(plan.clone()), trials: plan.trials.saturating_mul(times), attempts }
    }

    fn failure_rate(&self, profile: &Profile, operation: Operation, writers: u32) -> FailureRate {
        const NONE: FailureRate = FailureRate { rate: 0.0, error: 0.0 };
        let knot = contended(profile, operation).iter().find(|knot| knot.writers == writers);
        let Some(knot) = knot else { return NONE };
        let mean = knot.failure.as_ref().unwrap_or(&knot.success).mean_ns().max(knot.success.mean_ns());
        self.simulated(profile, operation, writers, mean).as_ref().map_or(NONE, FailureRate::of)
    }

    /// How this number of writers affect each other in a closed loop on this store; `mean_ns` is about how long an attempt takes.
    pub(crate) fn simulated(
        &self,
        profile: &Profile,
        operation: Operation,
        writers: u32,
        mean_ns: f64,
    ) -> Option<Measurement> {
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
        let mut site = SimulatedSite::new(profile.clone(), 1);
        let (mut trials, mut seen) = (Vec::<TrialSamples>::new(), 0);
        for number in 1..=self.trials {
            // A simulated store cannot fail to be measured.
            let trial = site.measure(&plan, Trial { operation, writers, number }, &AtomicBool::new(false)).ok()?;
            seen += trial.samples.len();
            trials.push(trial);
            if seen as f64 >= self.attempts {
                break;
            }
        }
        Measurement::of(&trials).pop()
    }
}
