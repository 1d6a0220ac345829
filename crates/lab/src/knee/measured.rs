//! How uncertain is a knee if the store's profile is a measurement? The knee of each alternative to the profile
//! ([`Alternatives`]) is searched, coarsely and starting near the known knee.
//!
//! - *Sampling*. Knees of profiles from resampled trials differ by the sampling error of the measurement and by the
//!   error of their simulation. By the law of total variance, the variance between them minus the mean variance of
//!   their simulations is that of the measurement (resampling for input uncertainty: Barton and Schruben, "Resampling
//!   Methods for Input Modeling", Winter Simulation Conference, 2001). Each has its own seeds, so that the two are
//!   independent.
//! - *Effect time*. When, within its round trip, a write takes effect cannot be observed. The knees of the two extremes
//!   are bounds: the interval extends beyond both by the random error (Imbens and Manski, "Confidence Intervals for
//!   Partially Identified Parameters", *Econometrica* 72, 2004).
//! - *Simulation*. The error of the knee itself (`crossing.rs`).
//!
//! All of this is on a logarithmic scale. For the variance shares, the range between the extremes counts as a
//! rectangular distribution (JCGM 100:2008, 4.3.7).

use glidepath_point::Point;
use glidepath_sim::{Alternative, Alternatives};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::enough::{of_one, run_events};
use super::found::{Bound, Knee};
use super::hunt::Hunt;
use super::outcome::KneeSearch;
use super::queue::Meter;
use super::variants::{in_waves, task};
use super::{KneeError, KneeOptions, Progress, weighed};

/// The fewest knees: fewer do not determine their spread.
const FEWEST: usize = 4;

/// A search takes about as much work as this number of runs of the knee's length. If the budget does not suffice for
/// all, fewer are searched.
const RUNS_OF_ONE: f64 = 5.0;

/// The knee of an extreme of the effect time is searched with this multiple of the work of a resampled one.
pub(super) const EXTREME: u64 = 3;

/// The distance between the seeds of two alternatives, more than any search uses.
const SEEDS_OF_ONE: u64 = 1 << 20;

/// The uncertainty of a knee, including that of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredKnee {
    /// The 95 % interval of the store's knee, if the store has not changed since the measurement.
    pub interval_commits_per_s: [f64; 2],
    /// The composition of that interval.
    pub made_of: VarianceShares,
    /// The relative standard error of the knee from the sampling error of the measurement.
    pub sampling_relative_error: f64,
    /// The bounds from the earliest and the latest effect time that the measurement allows, the lower first, with the
    /// knee itself between them; absent if the measurement determines the effect time.
    pub effect_time_commits_per_s: Option<[f64; 2]>,
    /// The number of knees of resampled profiles.
    pub drawn: usize,
}

/// Shares of the variance of a knee's logarithm; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VarianceShares {
    /// The error of the simulation.
    pub simulation: f64,
    /// The sampling error of the measurement.
    pub sampling: f64,
    /// The unknown effect time.
    pub effect_time: f64,
}

/// The uncertainty of the knee of a point, which was found with the profile itself; `None` if it is not a knee, or too
/// few alternatives have one. The whole budget of `options` is for the alternatives.
///
/// # Errors
/// An invalid alternative. Alternatives without a knee are left out.
pub fn with_measurement(
    point: &Point,
    options: &KneeOptions,
    knee: &Knee,
    alternatives: &Alternatives,
    watch: &(dyn Fn(Progress) + Sync),
) -> Result<Option<MeasuredKnee>, KneeError> {
    let extremes: Vec<_> = [&alternatives.earliest, &alternatives.latest].into_iter().flatten().collect();
    let options = &weighed(point, options);
    let drawn = alternatives.sampling.len();
    let Some(error) = knee.knee_relative_error.filter(|_| knee.bound == Bound::Found && drawn >= FEWEST) else {
        return Ok(None);
    };
    let affordable = (options.events as f64 / (RUNS_OF_ONE * run_events(knee))) as u64;
    let drawn = drawn.min((affordable.saturating_sub(EXTREME * extremes.len() as u64) as usize).max(FEWEST));
    let events = options.events / (drawn as u64 + EXTREME * extremes.len() as u64).max(1);
    let first_seed = |place: usize| options.first_seed.wrapping_add(SEEDS_OF_ONE * (place as u64 + 1));
    let searched = |alternative: &Alternative, first_seed: u64| -> Result<(Point, KneeOptions), KneeError> {
        // Given seeds fix the work for the knee itself; they do not apply here.
        Ok((with(point, alternative)?, KneeOptions { first_seed, seeds: None, ..options.clone() }))
    };
    let of_drawn = alternatives.sampling[..drawn].iter().enumerate();
    let of_drawn = of_drawn.map(|(place, alternative)| searched(alternative, first_seed(place)));
    // With the same random numbers as the knee itself, because only the difference counts.
    let of_extremes = extremes.iter().map(|alternative| searched(alternative, options.first_seed));
    let all = of_drawn.chain(of_extremes).collect::<Result<Vec<_>, _>>()?;
    let hunt = |place: usize, events: u64| {
        let (point, options) = &all[place];
        Hunt::new(point, task(options, 1.0 / knee.inter_arrival_scale_s, f64::INFINITY, events))
    };
    let first: Vec<u64> = (0..all.len()).map(|place| if place < drawn { events } else { EXTREME * events }).collect();
    let meter = &Meter::new(options.events, watch);
    let mut drawn_found = in_waves(&first, (options.events, of_one(knee) as u64), &hunt, options, meter);
    let extremes = drawn_found.split_off(drawn);
    let drawn: Vec<Searched> = drawn_found.iter().flatten().filter_map(Searched::of).collect();
    let extremes: Vec<f64> =
        extremes.iter().flatten().map(|found| found.commits_per_s).filter(|knee| *knee > 0.0).collect();
    let reach = knee.knee_interval_commits_per_s.map_or(0.0, |[_, high]| high / knee.knee_commits_per_s - 1.0) / error;
    Ok(combine(Simulated { knee: knee.knee_commits_per_s, error, reach }, &drawn, &extremes))
}

/// A point on a store with this alternative. Operations that the point never uses are left out, because preparing them
/// for drawing takes long.
fn with(point: &Point, alternative: &Alternative) -> Result<Point, KneeError> {
    let mut profile = alternative.profile(&point.profile);
    if !point.config.catalog.protocol.features().appends && !point.appends_to_lists() {
        profile.append = None;
    }
    Ok(point.with_tables_on(point.config.clone(), profile)?)
}

/// The knee itself, its relative standard error, and the half width of its interval in standard errors.
#[derive(Clone, Copy)]
struct Simulated {
    knee: f64,
    error: f64,
    reach: f64,
}

/// The knee of an alternative.
#[derive(Clone, Copy)]
struct Searched {
    logarithm: f64,
    /// The variance of its simulation.
    variance: f64,
}

impl Searched {
    fn of(found: &KneeSearch) -> Option<Self> {
        let crossing = found.crossing.filter(|_| found.bound == Bound::Found && found.commits_per_s > 0.0)?;
        // The error of a crossing includes the width of its bracket, which does not vary at random and must not be
        // subtracted.
        let bracket = found.resolution.unwrap_or_default() / 12.0_f64.sqrt();
        let variance = crossing.relative_error.map_or(0.0, |error| (error.powi(2) - bracket.powi(2)).max(0.0));
        Some(Self { logarithm: found.commits_per_s.ln(), variance })
    }
}

fn combine(simulated: Simulated, drawn: &[Searched], extremes: &[f64]) -> Option<MeasuredKnee> {
    let Simulated { knee, error, reach } = simulated;
    let count = drawn.len() as f64;
    if drawn.len() < FEWEST {
        return None;
    }
    let mean = |of: &dyn Fn(&Searched) -> f64| drawn.iter().map(of).sum::<f64>() / count;
    let average = mean(&|one| one.logarithm);
    let between = mean(&|one| (one.logarithm - average).powi(2)) * count / (count - 1.0);
    let sampling = (between - mean(&|one| one.variance)).max(0.0);
    let (low, high) = extremes.iter().fold((knee, knee), |(low, high), one| (low.min(*one), high.max(*one)));
    let effect = (high / low).ln().powi(2) / 12.0;
    let students_t = StudentsT::new(0.0, 1.0, count - 1.0).map_or(2.0, |t| t.inverse_cdf(0.975));
    let reach = reach.max(students_t) * error.hypot(sampling.sqrt());
    let total = error * error + sampling + effect;
    let share = |variance: f64| if total > 0.0 { variance / total } else { 0.0 };
    Some(MeasuredKnee {
        interval_commits_per_s: [low * (-reach).exp(), high * reach.exp()],
        made_of: VarianceShares {
            simulation: share(error * error),
            sampling: share(sampling),
            effect_time: share(effect),
        },
        sampling_relative_error: sampling.sqrt(),
        effect_time_commits_per_s: (!extremes.is_empty()).then_some([low, high]),
        drawn: drawn.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNEE: Simulated = Simulated { knee: 5.0, error: 0.01, reach: 2.1 };

    fn knees(deviation: f64, variance: f64) -> Vec<Searched> {
        // Alternately this far above and below.
        let at = |n: i32| 5.0_f64.ln() + if n % 2 == 0 { deviation } else { -deviation };
        (0..16).map(|n| Searched { logarithm: at(n), variance }).collect()
    }

    #[test]
    fn what_differs_by_simulation_alone_is_no_luck_of_the_measurement() {
        let found = combine(KNEE, &knees(0.03, 0.03 * 0.03 * 16.0 / 15.0), &[]).unwrap();
        assert!(found.sampling_relative_error < 1e-6, "{found:?}");
        assert!((found.made_of.simulation - 1.0).abs() < 1e-9);
        let [low, high] = found.interval_commits_per_s;
        // Student's t for 16.
        assert!((high / 5.0 - (0.01_f64 * 2.131_45).exp()).abs() < 1e-5 && (low * high / 25.0 - 1.0).abs() < 1e-9);
        assert_eq!(found.effect_time_commits_per_s, None);
    }

    #[test]
    fn shares_of_the_variance_add_up() {
        let found = combine(KNEE, &knees(0.05, 0.0004), &[4.5, 5.5]).unwrap();
        let VarianceShares { simulation, sampling, effect_time } = found.made_of;
        assert!((simulation + sampling + effect_time - 1.0).abs() < 1e-12, "{found:?}");
        let expected = 0.05 * 0.05 * 16.0 / 15.0 - 0.0004_f64;
        assert!((found.sampling_relative_error - expected.sqrt()).abs() < 1e-9, "{found:?}");
        assert!(effect_time > simulation && sampling > simulation, "{found:?}");
        let [low, high] = found.interval_commits_per_s;
        // Student's t times the root of both variances: 10.4 %.
        assert!((low / 4.5 - 0.9015).abs() < 0.001 && (high / 5.5 - 1.1093).abs() < 0.001, "{found:?}");
        assert_eq!(found.effect_time_commits_per_s, Some([4.5, 5.5]));
    }

    #[test]
    fn extremes_on_one_side_leave_the_knee_between_them() {
        let found = combine(KNEE, &knees(0.0, 0.0), &[4.6, 4.8]).unwrap();
        assert_eq!(found.effect_time_commits_per_s, Some([4.6, 5.0]));
        assert!(combine(KNEE, &knees(0.0, 0.0)[..3], &[]).is_none());
    }
}
