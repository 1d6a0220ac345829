//! How far may a profile be off? Other profiles that the same measurement allows: some from its trials drawn anew
//! (`resample.rs`), and two with the earliest and the latest effect time that the failure rates allow.
//!
//! Each is of the same kind as the profile: flat if the profile is flat, with holds fitted anew if the profile has holds. Their
//! distributions are the quantiles of the drawn samples, not fits, because only their differences matter.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_model::Span;
use glidepath_run::parallel;
use glidepath_sim::{Alternative, Alternatives, OperationProfile, Profile};

use crate::fit::Latencies;
use crate::flat::{alike, explains};
use crate::hold::{Rehearsal, fails_too_often, fit_each_hold, of_mut};
use crate::measurement::Measurement;
use crate::plan::{Operation, Plan};
use crate::profile::{ATTEMPTS, Provenance, Sorted, TIMES, failure_rates};
use crate::resample::Blocks;
use crate::sample::TrialSamples;

/// The number of draws. The deviation between 16 is known to 18 %, and a knee on each takes as long as all what-ifs.
pub const DRAWN: u64 = 16;

/// The number of attempts after which the failure rate of a draw is certain enough.
const ATTEMPTS_OF_ONE: f64 = 6000.0;

/// Shares of the round trip after which writes may take effect, the farthest from what the profile has first: where that is flat,
/// half; where it has holds, next to nothing.
const FLAT: [[f64; 4]; 2] = [[0.0, 0.125, 0.25, 0.375], [1.0, 0.875, 0.75, 0.625]];
const HELD: [&[f64]; 2] = [&[0.0], &[1.0, 0.75, 0.5, 0.25]];

/// Places in these.
const EARLIEST: usize = 0;
const LATEST: usize = 1;

/// What the alternatives are made of.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What was measured.
    pub trials: &'a [TrialSamples],
    /// By which plan.
    pub plan: &'a Plan,
    /// Where and when.
    pub provenance: &'a Provenance,
    /// Of all draws.
    pub seed: u64,
}

/// The alternatives to a profile that was made of this. The same evidence gives the same ones, on however many threads;
/// `progress` gets the number made and the number in all.
#[must_use]
pub fn alternatives(
    profile: &Profile,
    evidence: &Evidence<'_>,
    threads: NonZeroUsize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Alternatives {
    let blocks = Blocks::of(evidence.trials);
    let measurements = Measurement::of(evidence.trials);
    let effect = Effect { profile, found: &Sorted::of(measurements.iter()), plan: evidence.plan };
    let task = |number: u64| match number {
        DRAWN => effect.extreme(EARLIEST),
        number if number > DRAWN => effect.extreme(LATEST),
        number => redrawn(profile, &blocks, evidence, number).as_ref().map(Alternative::of),
    };
    let all = DRAWN + 2;
    // Those of the effect take longest: they come first.
    let number = |turn: u64| (turn + DRAWN) % all;
    let mut made: Vec<(u64, Option<Alternative>)> = Vec::new();
    let keep = |turn: u64, alternative| {
        made.push((number(turn), alternative));
        progress(made.len(), all as usize);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = parallel::each(all, threads, &AtomicBool::new(false), |turn| task(number(turn)), keep);
    made.sort_unstable_by_key(|(number, _)| *number);
    let mut made = made.into_iter().map(|(_, alternative)| alternative);
    let sampling = made.by_ref().take(DRAWN as usize).flatten().collect();
    let (earliest, latest) = (made.next().flatten(), made.next().flatten());
    Alternatives { version: Alternatives::VERSION, of: profile.fingerprint(), sampling, earliest, latest }
}

/// The profile that another draw of the trials gives. `None` where something that was measured is not in it.
fn redrawn(profile: &Profile, blocks: &Blocks, evidence: &Evidence<'_>, number: u64) -> Option<Profile> {
    let measurements = Measurement::of_each(blocks.draw(evidence.seed, number));
    let sorted = Sorted::of(measurements.iter());
    let mut drawn = sorted.profile(evidence.provenance, profile.latency_includes_read, &Latencies::quantiles)?;
    let rehearsal = Rehearsal::of(evidence.plan, 1, ATTEMPTS_OF_ONE);
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
    (drawn.append.is_some() == profile.append.is_some()).then_some(drawn)
}

fn of(profile: &Profile, operation: Operation) -> Option<&OperationProfile> {
    if operation == Operation::Append { profile.append.as_ref() } else { Some(&profile.conditional_put) }
}

/// When writes take effect: what was measured with a profile made of it.
struct Effect<'a> {
    profile: &'a Profile,
    found: &'a Sorted<'a>,
    plan: &'a Plan,
}

impl Effect<'_> {
    /// The profile with the first of the shares at this end that the measurement allows, for each guarded operation. `None` where it
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

    /// Of one distribution for all: it has to explain the measurement as well as the profile does.
    fn alike(&self, operation: Operation, found: &[&Measurement], share: f64) -> Option<OperationProfile> {
        let with = OperationProfile { effect_share: Some(share), ..of(self.profile, operation)?.clone() };
        let rehearsal = Rehearsal::of(self.plan, TIMES, ATTEMPTS);
        explains(&with, self.profile, operation, found, &rehearsal).then_some(with)
    }

    /// Of what has holds: a longer way makes more writes fail, which a shorter hold has to make up for, and none is shorter than
    /// nothing.
    fn held(&self, operation: Operation, found: &[&Measurement], share: f64) -> Option<OperationProfile> {
        let rehearsal = Rehearsal::of(self.plan, TIMES, ATTEMPTS);
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
