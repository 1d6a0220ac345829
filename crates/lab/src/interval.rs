//! How far may chance have moved a figure? 95 % intervals, from the batches of a run.
//!
//! Transactions of a run are not independent: they meet each other. So the window is cut into equal stretches (*batches*), and
//! what differs between these is taken for chance (the method of batch means: Law, "Simulation Modeling and Analysis", 2015,
//! 9.5.3). A transaction belongs to the batch in which it arrived.
//!
//! - A *rate*: the mean of the batches, with Student's t.
//! - A *share*: a ratio of two sums over batches. Its variance (Cochran, "Sampling Techniques", 1977, 6.3 and 9A.2) says how many
//!   independent transactions it is worth, and the interval is that of Clopper and Pearson for so many (Korn and Graubard,
//!   "Confidence intervals for proportions with small expected number of positive counts estimated from survey data",
//!   Survey Methodology 24, 1998). It does not collapse where all succeed.
//! - A *percentile*: the interval of the share that lies below it, read back as percentiles (Woodruff, "Confidence intervals for
//!   medians and other position measures", Journal of the American Statistical Association 47, 1952).
//! - A *mean over seeds* of one of these: distances to the ends add as independent errors do (Zou and Donner, "Construction of
//!   confidence limits about effect measures", Statistics in Medicine 27, 2008).
//!
//! What is known from fewer than four batches has no interval.

use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

/// Its ends, the lower first.
pub type Interval = [f64; 2];

/// Batches that a window is cut into, where nothing else says how many.
pub(crate) const BATCHES: usize = 16;

const FEWEST_BATCHES: usize = 4;

/// Each end is missed by so much.
const TAIL: f64 = 0.025;

/// Of the transactions of a batch, those that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) of: u64,
    pub(crate) counted: u64,
}

/// Of the mean of these batches.
pub(crate) fn rate(batches: &[f64]) -> Option<Interval> {
    if batches.len() < FEWEST_BATCHES {
        return None;
    }
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares: f64 = batches.iter().map(|batch| (batch - mean).powi(2)).sum();
    let reach = student(count - 1.0)? * (squares / (count - 1.0) / count).sqrt();
    Some([(mean - reach).max(0.0), mean + reach])
}

/// Of the share that is counted, of all batches together. Absent also where there is nothing to count.
pub(crate) fn share(batches: &[Part]) -> Option<Interval> {
    let sum = |of: fn(&Part) -> u64| batches.iter().map(of).sum::<u64>() as f64;
    let (all, counted) = (sum(|part| part.of), sum(|part| part.counted));
    if batches.len() < FEWEST_BATCHES || all < 2.0 {
        return None;
    }
    let (count, share) = (batches.len() as f64, counted / all);
    let off = |part: &Part| (part.counted as f64 - share * part.of as f64).powi(2);
    let variance = count / (count - 1.0) * batches.iter().map(off).sum::<f64>() / (all * all);
    // Batches know their own variance less well than so many transactions would.
    let lost = (student(all - 1.0)? / student(count - 1.0)?).powi(2);
    let worth = if variance > 0.0 { (lost * share * (1.0 - share) / variance).min(all) } else { all };
    let hits = share * worth;
    let low = if hits > 0.0 { beta(hits, worth - hits + 1.0, TAIL)? } else { 0.0 };
    let high = if hits < worth { beta(hits + 1.0, worth - hits, 1.0 - TAIL)? } else { 1.0 };
    Some([low, high])
}

/// Of a mean of independent estimates, each with its own interval; absent where one has none.
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

/// Where this share of a beta distribution lies below.
fn beta(a: f64, b: f64, share: f64) -> Option<f64> {
    let distribution = Beta::new(a, b).ok()?;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        *(if distribution.cdf(middle) < share { &mut low } else { &mut high }) = middle;
    }
    Some((low + high) / 2.0)
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
        // Mean 5, deviation sqrt(10 / 3), t of three degrees of freedom 3.182.
        near(rate(&[3.0, 5.0, 5.0, 7.0]), [5.0 - 2.598, 5.0 + 2.598]);
        assert_eq!(rate(&[1.0, 2.0, 3.0]), None);
    }

    /// 1,000 batches that agree as well as chance lets them: the interval of Clopper and Pearson for 10 of 1,000 (0.0048 to
    /// 0.0183), and the rule of three where none is counted.
    #[test]
    fn a_share_of_independent_transactions_has_clopper_and_pearsons_interval() {
        let batches: Vec<Part> = (0..1000).map(|n| Part { of: 1, counted: u64::from(n % 100 == 0) }).collect();
        near(share(&batches), [0.0048, 0.0183]);
        let none: Vec<Part> = batches.iter().map(|part| Part { counted: 0, ..*part }).collect();
        near(share(&none), [0.0, 0.003_68]);
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
