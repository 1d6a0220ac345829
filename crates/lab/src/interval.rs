//! How large is the random error of a figure? 95 % intervals, from the batches of a run.
//!
//! Transactions of a run are not independent, because they conflict with each other. So the window is cut into equal
//! stretches (*batches*), and the differences between these give the error (the method of batch means: Law, "Simulation
//! Modeling and Analysis", 2015, 9.5.3). A transaction belongs to the batch in which it arrived.
//!
//! - A *rate*: the mean of the batches, with Student's t.
//! - A *share*: a ratio of two sums over batches (its variance: Cochran, "Sampling Techniques", 1977, 6.3). Student's t
//!   on the scale of log odds, which suits rare failures that cluster (Korn and Graubard, "Analysis of Health Surveys",
//!   1999). Never narrower than for independent transactions; if all or none are counted, the interval of Clopper and
//!   Pearson ("The use of confidence or fiducial limits", Biometrika 26, 1934) for independent transactions.
//! - A *percentile*: the interval of the share that lies below it, converted back to percentiles (Woodruff, "Confidence
//!   intervals for medians and other position measures", Journal of the American Statistical Association 47, 1952).
//! - A *mean over seeds* of one of these: distances to the ends add as independent errors (Zou and Donner,
//!   "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008).
//!
//! If neighbouring batches are correlated, the variance is too small: it is multiplied by 1 + 2r, where r is their
//! correlation, if positive (corrected for its bias of -1 / batches: Kendall, "Note on bias in the estimation of
//! autocorrelation", Biometrika 41, 1954). Few long batches are better than many short ones if a store has a rate cap
//! and series of failures last minutes (`docs/model.md` has the coverage).
//!
//! With fewer than four batches there is no interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Its ends, the lower first.
pub type Interval = [f64; 2];

/// The default number of batches of a window.
pub(crate) const BATCHES: usize = 8;

const FEWEST_BATCHES: usize = 4;

/// The probability that the value lies beyond one end.
const TAIL: f64 = 0.025;

/// The transactions of a batch, and those of them that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) of: u64,
    pub(crate) counted: u64,
}

/// The interval of the mean of these batches.
pub(crate) fn rate(batches: &[f64]) -> Option<Interval> {
    if batches.len() < FEWEST_BATCHES {
        return None;
    }
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let off: Vec<f64> = batches.iter().map(|batch| batch - mean).collect();
    let reach = student(count - 1.0)? * variance_of_sum(&off).sqrt() / count;
    Some([(mean - reach).max(0.0), mean + reach])
}

/// The error of a sum of batches with these deviations from their expected values.
fn variance_of_sum(off: &[f64]) -> f64 {
    let count = off.len() as f64;
    let squares: f64 = off.iter().map(|off| off * off).sum();
    let neighbours: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = if squares > 0.0 { (neighbours / squares + 1.0 / count).max(0.0) } else { 0.0 };
    squares * count / (count - 1.0) * (1.0 + 2.0 * correlation)
}

/// The interval of the share that counts, over all batches. Absent also if there are no transactions.
pub(crate) fn share(batches: &[Part]) -> Option<Interval> {
    let sum = |of: fn(&Part) -> u64| batches.iter().map(of).sum::<u64>() as f64;
    let (all, counted) = (sum(|part| part.of), sum(|part| part.counted));
    if batches.len() < FEWEST_BATCHES || all < 2.0 {
        return None;
    }
    if counted == 0.0 {
        return Some([0.0, 1.0 - TAIL.powf(1.0 / all)]);
    } else if counted == all {
        return Some([TAIL.powf(1.0 / all), 1.0]);
    }
    let share = counted / all;
    let off: Vec<f64> = batches.iter().map(|part| part.counted as f64 - share * part.of as f64).collect();
    let spread = share * (1.0 - share);
    let variance = (variance_of_sum(&off) / (all * all)).max(spread / all);
    // The derivative of the log odds is 1 / spread.
    let reach = student(batches.len() as f64 - 1.0)? * variance.sqrt() / spread;
    let at = |odds: f64| odds / (1.0 + odds);
    let odds = share / (1.0 - share);
    Some([at(odds * (-reach).exp()), at(odds * reach.exp())])
}

/// The interval of a mean of independent estimates, each with its own interval; absent if one has none.
pub(crate) fn mean(of: impl Iterator<Item = (f64, Option<Interval>)>) -> Option<Interval> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, [0.0; 2]);
    for (estimate, interval) in of {
        let interval = interval?;
        count += 1.0;
        sum += estimate;
        for (square, end) in squares.iter_mut().zip(interval) {
            *square += (end - estimate).powi(2);
        }
    }
    let [below, above] = squares.map(f64::sqrt);
    (count > 0.0).then(|| [(sum - below) / count, (sum + above) / count])
}

fn student(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom.max(1.0)).ok()?.inverse_cdf(1.0 - TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<Interval>, expected: Interval) {
        let found = found.unwrap();
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 6e-4, "{found:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_rate_has_students_interval() {
        // Mean 5, deviation sqrt(16 / 3), t of three degrees of freedom 3.182; neighbours are unlike.
        near(rate(&[3.0, 7.0, 3.0, 7.0]), [5.0 - 3.674_77, 5.0 + 3.674_77]);
        assert_eq!(rate(&[1.0, 2.0, 3.0]), None);
        // Neighbours are correlated: r = 1 / 4 + 1 / 4.
        near(
            rate(&[3.0, 3.0, 7.0, 7.0]),
            [5.0 - 3.674_77 * 2.0_f64.sqrt(), 5.0 + 3.674_77 * 2.0_f64.sqrt()].map(|end| end.max(0.0)),
        );
    }

    /// 10 of 1,000 independent ones: log odds of -4.595, their standard error 0.318, t 1.962. And the rule of three.
    #[test]
    fn a_share_of_independent_transactions_has_the_interval_of_log_odds() {
        let batches: Vec<Part> = (0..1000).map(|n| Part { of: 1, counted: u64::from(n % 100 == 0) }).collect();
        near(share(&batches), [0.0054, 0.0185]);
        let none: Vec<Part> = batches.iter().map(|part| Part { counted: 0, ..*part }).collect();
        near(share(&none), [0.0, 0.003_68]);
        let all: Vec<Part> = batches.iter().map(|part| Part { counted: 1, ..*part }).collect();
        near(share(&all), [1.0 - 0.003_68, 1.0]);
        assert_eq!(share(&batches[..3]), None);
    }

    #[test]
    fn a_share_that_differs_between_batches_has_a_wider_interval() {
        let batches: Vec<Part> = (0..16).map(|n| Part { of: 100, counted: if n % 2 == 0 { 40 } else { 60 } }).collect();
        // A standard error of 0.1 / sqrt(15), and t of 15 degrees of freedom 2.131.
        let [low, high] = share(&batches).unwrap();
        assert!((high - low - 2.0 * 2.131 * 0.1 / 15.0_f64.sqrt()).abs() < 0.01, "{low} to {high}");
    }

    #[test]
    fn errors_of_seeds_add_as_squares() {
        let seeds = [(1.0, Some([0.7, 1.4])), (3.0, Some([2.6, 3.3]))];
        near(mean(seeds.into_iter()), [2.0 - 0.25, 2.0 + 0.25]);
        assert_eq!(mean([(1.0, None)].into_iter()), None);
    }
}
