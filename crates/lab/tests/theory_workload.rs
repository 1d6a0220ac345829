//! Are arrivals, tables and times distributed as configured? Compared with closed forms.
//!
//! Seeds are fixed. The tolerance is four standard errors, or a goodness of fit (Pearson's chi-square) that happens by
//! chance once in 16,000. Each test must also reject a wrong law.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_model::{Instant, Span};
use glidepath_point::{SimulatedRun, simulate};
use glidepath_sim::{Mode, Stream};
use glidepath_workload::{Distribution, Kind, Shape};
use statrs::distribution::{ChiSquared, ContinuousCDF, Discrete, DiscreteCDF, Normal, Poisson};

/// The tolerance in standard errors, and its probability.
const TOLERANCE: f64 = 4.0;
const CHANCE: f64 = 6.3e-5;

fn run(settings: &[&str]) -> SimulatedRun {
    let common = [
        "transaction.runtime={kind=\"fixed\",scale=\"1s\"}",
        "retry.retries=0",
        "catalog.latency=1ms",
        "arrivals.scale=100ms",
        "duration=4h",
    ];
    let settings = common.iter().chain(settings).map(|setting| Setting::parse(setting).unwrap()).collect();
    let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap();
    simulate(&experiment.points[0].point, 1, Mode::LocalClocks)
}

/// The probability that a chi-square with this number of degrees of freedom is larger.
fn exceeds(statistic: f64, degrees: f64) -> f64 {
    ChiSquared::new(degrees).unwrap().sf(statistic)
}

fn chi_square(found: &[f64], expected: &[f64]) -> f64 {
    found.iter().zip(expected).map(|(found, expected)| (found - expected).powi(2) / expected).sum()
}

/// Arrivals in each stretch that begins at a time of `starts` and has this length, in seconds.
fn counts(outcome: &SimulatedRun, starts: impl Iterator<Item = f64>, lasts: f64) -> Vec<f64> {
    let times: Vec<f64> = outcome.arrivals.iter().map(|(at, _)| at.since(Instant::ZERO).as_secs_f64()).collect();
    let below = |limit: f64| times.partition_point(|time| *time < limit);
    starts.map(|start| (below(start + lasts) - below(start)) as f64).collect()
}

/// For counts of a Poisson process with this mean, the sum is normal and the dispersion chi-square (Cox and Lewis, "The
/// Statistical Analysis of Series of Events", 1966, 6.3).
fn is_poisson(counts: &[f64], mean: f64) -> bool {
    let number = counts.len() as f64;
    let z = (counts.iter().sum::<f64>() - number * mean) / (number * mean).sqrt();
    let dispersion: f64 = counts.iter().map(|count| (count - mean).powi(2) / mean).sum();
    let (high, low) = (exceeds(dispersion, number), 1.0 - exceeds(dispersion, number));
    z.abs() < TOLERANCE && high > CHANCE && low > CHANCE
}

/// Ten arrivals a second, in a burst five times as many: 300 in each of six seconds, 540 in the 54 seconds between.
#[test]
fn arrivals_in_bursts_and_between_are_poisson_processes_of_the_stated_rates() {
    let outcome = run(&["arrivals.kind=exponential", "arrivals.burst={every=\"60s\",lasts=\"6s\",factor=5.0}"]);
    let starts = |offset: f64| (1..239).map(move |minute| f64::from(minute) * 60.0 + offset);
    let (inside, between) = (counts(&outcome, starts(0.0), 6.0), counts(&outcome, starts(6.0), 54.0));
    assert!(is_poisson(&inside, 300.0), "{inside:?}");
    assert!(is_poisson(&between, 540.0), "{between:?}");
    // A shift of 0.2 s is detected: 8 of 300 in each.
    assert!(!is_poisson(&counts(&outcome, starts(-0.2), 6.0), 300.0), "bursts begin at the configured times");
    // There is no burst at time 0, although it is the start of a period.
    assert!(is_poisson(&counts(&outcome, [0.0].into_iter(), 60.0), 600.0));
}

#[test]
fn arrivals_a_second_have_poissons_probabilities() {
    let outcome = run(&["arrivals.kind=exponential"]);
    let seconds = counts(&outcome, (0..14_399).map(f64::from), 1.0);
    // Up to 3, each to 17, and from 18 on.
    let place = |count: f64| (count.clamp(3.0, 18.0) - 3.0) as usize;
    let fit = |mean: f64| {
        let law = Poisson::new(mean).unwrap();
        let mut expected = vec![law.cdf(3)];
        expected.extend((4..18).map(|count| law.pmf(count)));
        expected.push(law.sf(17));
        let expected: Vec<f64> = expected.iter().map(|share| share * seconds.len() as f64).collect();
        let mut found = vec![0.0; expected.len()];
        seconds.iter().for_each(|count| found[place(*count)] += 1.0);
        exceeds(chi_square(&found, &expected), expected.len() as f64 - 1.0)
    };
    assert!(fit(10.0) > CHANCE, "{}", fit(10.0));
    assert!(fit(10.3) < CHANCE, "a rate 3 % higher is not seen: {}", fit(10.3));
}

/// Zipf's law: the k-th of n is chosen with probability k^-s / H, H the sum of all (Johnson, Kemp and Kotz, "Univariate
/// Discrete Distributions", 11.2.20).
#[test]
fn tables_are_chosen_by_zipfs_law() {
    let outcome = run(&["tables.count=50", "tables.choice={zipf=1.2}"]);
    let mut found = vec![0.0; 50];
    outcome.records.iter().for_each(|record| found[record.table.0 as usize] += 1.0);
    let fit = |exponent: f64| {
        let weights: Vec<f64> = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let norm = outcome.records.len() as f64 / weights.iter().sum::<f64>();
        exceeds(chi_square(&found, &weights.iter().map(|weight| weight * norm).collect::<Vec<_>>()), 49.0)
    };
    assert!(fit(1.2) > CHANCE, "{}", fit(1.2));
    assert!(fit(1.22) < CHANCE, "another exponent is not seen: {}", fit(1.22));
}

const DRAWS: usize = 200_000;

fn draws(distribution: &Distribution) -> Vec<f64> {
    let mut luck = Stream::keyed(1, 2, 3);
    (0..DRAWS).map(|_| distribution.sample(|| luck.draw()).as_secs_f64()).collect()
}

/// Standard errors between a share of the draws and a probability.
fn of_share(draws: &[f64], is: impl Fn(f64) -> bool, share: f64) -> f64 {
    let count = draws.iter().filter(|draw| is(**draw)).count() as f64;
    (count / DRAWS as f64 - share) / (share * (1.0 - share) / DRAWS as f64).sqrt()
}

/// Standard errors between the mean of the draws and a mean, given the deviation of one.
fn of_mean(draws: &[f64], mean: f64, deviation: f64) -> f64 {
    (draws.iter().sum::<f64>() / DRAWS as f64 - mean) / (deviation / (DRAWS as f64).sqrt())
}

const QUANTILES: [f64; 6] = [0.01, 0.1, 0.5, 0.9, 0.99, 0.999];

/// A lognormal of median m and sigma s has quantiles m exp(s z), mean m exp(s^2 / 2) and a deviation of the mean times
/// sqrt(exp(s^2) - 1) (Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions", volume 1, 14.3).
#[test]
fn lognormals_have_their_median_or_mean_and_their_quantiles() {
    let (scale, sigma) = (180.0, 1.5);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let half_square: f64 = sigma * sigma / 2.0;
    for (kind, median) in [(Shape::Lognormal, scale), (Shape::LognormalMean, scale / half_square.exp())] {
        let draws = draws(&Distribution { kind, scale: Span::from_secs(180), sigma, floor: Span::ZERO });
        let mean = median * half_square.exp();
        let z = of_mean(&draws, mean, mean * (sigma * sigma).exp_m1().sqrt());
        assert!(z.abs() < TOLERANCE, "{kind:?}: the mean, z = {z:.1}");
        for share in QUANTILES {
            let quantile = median * (sigma * normal.inverse_cdf(share)).exp();
            let z = of_share(&draws, |draw| draw < quantile, share);
            assert!(z.abs() < TOLERANCE, "{kind:?}: the quantile {share}, z = {z:.1}");
        }
        let other = if kind == Shape::Lognormal { scale / half_square.exp() } else { scale };
        assert!(of_share(&draws, |draw| draw < other, 0.5).abs() > 100.0, "{kind:?}: mean taken for median");
    }
}

#[test]
fn exponentials_have_their_mean_and_their_quantiles_and_fixed_ones_are_fixed() {
    let of = |kind| Distribution { kind, scale: Span::from_millis(250), sigma: 0.0, floor: Span::ZERO };
    let exponential = draws(&of(Shape::Exponential));
    let z = of_mean(&exponential, 0.25, 0.25);
    assert!(z.abs() < TOLERANCE, "the mean, z = {z:.1}");
    for share in QUANTILES {
        let z = of_share(&exponential, |draw| draw < -0.25 * (1.0 - share).ln(), share);
        assert!(z.abs() < TOLERANCE, "the quantile {share}, z = {z:.1}");
    }
    assert!(draws(&of(Shape::Fixed)).iter().all(|draw| *draw == 0.25));
}

/// Shorter draws take the floor: of the published runtimes 1 in 8.6.
#[test]
fn nothing_is_shorter_than_the_floor_and_what_would_be_is_as_long() {
    let floor = Span::from_secs(30);
    let draws = draws(&Distribution { kind: Shape::Lognormal, scale: Span::from_secs(180), sigma: 1.5, floor });
    let share = Normal::new(0.0, 1.0).unwrap().cdf((30.0_f64 / 180.0).ln() / 1.5);
    let z = of_share(&draws, |draw| draw == 30.0, share);
    assert!(z.abs() < TOLERANCE && draws.iter().all(|draw| *draw >= 30.0), "{share}: z = {z:.1}");
}

#[test]
fn overwrites_work_for_their_own_runtime() {
    let outcome = run(&["transaction.fast_append=0.5", "transaction.overwrite_runtime.scale=9s"]);
    for (kind, works) in [(Kind::FastAppend, 1), (Kind::ValidatedOverwrite, 9)] {
        let mut of_kind = outcome.records.iter().filter(|record| record.kind == kind).peekable();
        assert!(of_kind.peek().is_some());
        // Reading the catalog takes a millisecond.
        let works = Span::from_nanos(works * 1_000_000_000 + 1_000_000);
        assert!(of_kind.all(|record| record.work_done.since(record.arrived) == works), "{kind:?}");
    }
}
