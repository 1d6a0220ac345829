//! How far may a profile be off? Other profiles that the same measurement allows: some from its trials drawn anew
//! (`resample.rs`), and two with the earliest and the latest effect time that the failure rates allow.
//!
//! Each is of the same kind as the profile: flat if the profile is flat, with holds fitted anew if the profile has
//! holds. Their distributions are the quantiles of the drawn samples, not fits, because only their differences matter.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_model::Span;
use glidepath_run::parallel;
use glidepath_sim::{Alternative, Alternatives, OperationProfile, Profile};

use crate::fit::Latencies;
use crate::flat::{alike, explains};
use crate::hold::{Rehearsal, fails_too_often, fit_each_hold, of_mut};
use crate::measurement::Measurement;
use crate::plan::{Operation, Plan};
use crate::profile::{ATTEMPTS, Provenance, Sorted, TIMES, assume_size_rates, failure_rates};
use crate::resample::Blocks;
use crate::sample::TrialSamples;

/// The number of draws. 16 determine their deviation to 18 %, and a knee on each takes as long as all what-ifs.
pub const DRAWN: u64 = 16;

/// The number of attempts after which the failure rate of a draw is certain enough.
const ATTEMPTS_OF_ONE: f64 = 6000.0;

/// Shares of the round trip after which writes may take effect, beginning with the farthest from the profile's: one
/// half in a flat profile, close to 0 in a profile with holds.
const FLAT: [[f64; 4]; 2] = [[0.0, 0.125, 0.25, 0.375], [1.0, 0.875, 0.75, 0.625]];
const HELD: [&[f64]; 2] = [&[0.0], &[1.0, 0.75, 0.5, 0.25]];

/// Indices of these shares.
const EARLIEST: usize = 0;
const LATEST: usize = 1;

/// The input of the alternatives.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What was measured.
    pub trials: &'a [TrialSamples],
    /// The plan.
    pub plan: &'a Plan,
    /// Where and when.
    pub provenance: &'a Provenance,
    /// The seed of all draws.
    pub seed: u64,
}

/// The alternatives to a profile that was made from this evidence. The same evidence gives the same ones on any number
/// of threads; `progress` gets the number made and the number in all. `None` if `stop` was set meanwhile.
#[must_use]
pub fn alternatives(
    profile: &Profile,
    evidence: &Evidence<'_>,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Option<Alternatives> {
    let blocks = Blocks::of(evidence.trials);
    let measurements = Measurement::of(evidence.trials);
    let effect = Effect { profile, found: &Sorted::of(measurements.iter()), plan: evidence.plan, stop };
    let task = |number: u64| match number {
        DRAWN => effect.extreme(EARLIEST),
        number if number > DRAWN => effect.extreme(LATEST),
        number => redrawn(profile, &blocks, evidence, (number, stop)).as_ref().map(Alternative::of),
    };
    let all = DRAWN + 2;
    // Alternatives of the effect time take longest, so they come first.
    let number = |turn: u64| (turn + DRAWN) % all;
    let mut made: Vec<(u64, Option<Alternative>)> = Vec::new();
    let keep = |turn: u64, alternative| {
        made.push((number(turn), alternative));
        progress(made.len(), all as usize);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = parallel::each(all, threads, stop, |turn| task(number(turn)), keep);
    if stop.load(Ordering::Relaxed) {
        return None;
    }
    made.sort_unstable_by_key(|(number, _)| *number);
    let mut made = made.into_iter().map(|(_, alternative)| alternative);
    let sampling = made.by_ref().take(DRAWN as usize).flatten().collect();
    let (earliest, latest) = (made.next().flatten(), made.next().flatten());
    Some(Alternatives { version: Alternatives::VERSION, of: profile.fingerprint(), sampling, earliest, latest })
}

/// The profile from another draw of the trials. `None` if a measured operation has no sample in it.
fn redrawn(
    profile: &Profile,
    blocks: &Blocks,
    evidence: &Evidence<'_>,
    (number, stop): (u64, &AtomicBool),
) -> Option<Profile> {
    let measurements = Measurement::of_each(blocks.draw(evidence.seed, number));
    let sorted = Sorted::of(measurements.iter());
    let mut drawn = sorted.profile(evidence.provenance, profile.latency_includes_read, &Latencies::quantiles)?;
    let rehearsal = Rehearsal::of(evidence.plan, 1, ATTEMPTS_OF_ONE, stop);
    for (operation, found) in sorted.contended() {
        let Some(base) = of(profile, operation) else { continue };
        if base.contended.is_empty() {
            let flat = alike(found, base)?;
            *of_mut(&mut drawn, operation)? = flat;
        } else {
            let place = of_mut(&mut drawn, operation)?;
            (place.effect_after, place.effect_share) = (base.effect_after, base.effect_share);
            fit_each_hold(&mut drawn, operation, &failure_rates(found), &rehearsal);
        }
    }
    assume_size_rates(&mut drawn, evidence.plan);
    (drawn.append.is_some() == profile.append.is_some()).then_some(drawn)
}

fn of(profile: &Profile, operation: Operation) -> Option<&OperationProfile> {
    if operation == Operation::Append { profile.append.as_ref() } else { Some(&profile.conditional_put) }
}

/// When writes take effect: the measurement and the profile made from it.
struct Effect<'a> {
    profile: &'a Profile,
    found: &'a Sorted<'a>,
    plan: &'a Plan,
    stop: &'a AtomicBool,
}

impl Effect<'_> {
    /// For each guarded operation, the profile with the first of these shares that the measurement allows. `None` if it
    /// allows none.
    fn extreme(&self, end: usize) -> Option<Alternative> {
        let mut extreme = self.profile.clone();
        for (operation, found) in self.found.contended() {
            let Some(base) = of(self.profile, operation).filter(|_| !found.is_empty()) else { continue };
            let allowed = match base.contended.is_empty() {
                true => FLAT[end].iter().find_map(|share| self.alike(operation, found, *share)),
                false => HELD[end].iter().find_map(|share| self.held(operation, found, *share)),
            };
            if let (Some(allowed), Some(place)) = (allowed, of_mut(&mut extreme, operation)) {
                *place = allowed;
            }
        }
        (extreme != *self.profile).then(|| Alternative::of(&extreme))
    }

    /// With one distribution for all: it must explain the measurement as the profile does.
    fn alike(&self, operation: Operation, found: &[&Measurement], share: f64) -> Option<OperationProfile> {
        let with = OperationProfile { effect_share: Some(share), ..of(self.profile, operation)?.clone() };
        let rehearsal = Rehearsal::of(self.plan, TIMES, ATTEMPTS, self.stop);
        explains(&with, self.profile, operation, found, &rehearsal).then_some(with)
    }

    /// With holds: a later effect makes more writes fail, which shorter holds must compensate, and a hold cannot be
    /// below 0.
    fn held(&self, operation: Operation, found: &[&Measurement], share: f64) -> Option<OperationProfile> {
        let rehearsal = Rehearsal::of(self.plan, TIMES, ATTEMPTS, self.stop);
        let rates = failure_rates(found);
        let mut with = self.profile.clone();
        let place = of_mut(&mut with, operation)?;
        (place.effect_share, place.effect_after) = (Some(share), None);
        place.contended.iter_mut().for_each(|knot| knot.hold = Span::ZERO);
        if fails_too_often(&with, operation, &rates, &rehearsal) {
            return None;
        }
        fit_each_hold(&mut with, operation, &rates, &rehearsal);
        of(&with, operation).cloned()
    }
}
