//! At which load does success cross the threshold, which commit rate is that, and how large is its random error?
//!
//! Each load is judged by the same *clusters*: equal stretches of the windows of its runs, the same seeds and stretches
//! at each load. A curve through the counts of failures of the loads around the bracket ([`Fit`]) gives the load at
//! which they cross the threshold; the commit rate there is interpolated between the ends of the bracket.
//!
//! The random error is the larger of two. The first is the delete-one jackknife over clusters (Shao and Tu, "The
//! Jackknife and Bootstrap", 1995, chapters 1 and 2): each cluster is left out at all loads at once, because loads
//! share their random numbers. Transactions of a cluster need not be independent, only clusters, which nearly are if
//! they are long (the method of batch means: Law, "Simulation Modeling and Analysis", 2015, 9.5.3). The second is the
//! binomial error of the number of failures, as if independent: with few failures, clusters can be equal by chance.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::fit::{FAR_ODDS, Fit, LoadCounts, SLOPE};

/// The transactions that arrived in a stretch of a run's window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Deciding transactions that ended, and those of them that committed; by part, if the worst part of a cycle
    /// decides (otherwise one part).
    pub(super) parts: Vec<Decided>,
    /// All transactions that committed.
    pub(super) commits: u64,
}

/// Deciding transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    /// Those that ended.
    pub(super) ended: u64,
    /// Of these, those that committed.
    pub(super) committed: u64,
    /// Those that had not ended when their run did.
    pub(super) open: u64,
}

/// Parts with fewer deciding transactions are not compared: the worst of many small parts is a product of chance.
const FEWEST_OF_A_PART: u64 = 30;

impl Decided {
    pub(super) fn success(self) -> f64 {
        self.committed as f64 / self.ended.max(1) as f64
    }

    pub(super) fn failed(self) -> u64 {
        self.ended - self.committed
    }

    fn add(&mut self, one: Self) {
        self.ended += one.ended;
        self.committed += one.committed;
        self.open += one.open;
    }
}

/// The deciding counts of all these clusters together. If they have parts, those of the worst part: each half of the
/// clusters chooses a part, the other half judges it, and both judgements count. If no part has enough transactions to
/// be chosen, all parts count. (A minimum over the same data that judge it is biased downwards. Cross-fitting:
/// Chernozhukov and others, "Double/debiased machine learning", Econometrics Journal 21, 2018.)
pub(super) fn worst<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Decided {
    let clusters: Vec<&Cluster> = clusters.collect();
    worst_part(&clusters).unwrap_or_else(|| {
        let mut all = Decided::default();
        parts(&clusters).into_iter().for_each(|part| all.add(part));
        all
    })
}

/// Those of the worst part; `None` if no part has enough transactions to be chosen, or none that judge it.
pub(super) fn worst_part(clusters: &[&Cluster]) -> Option<Decided> {
    let (first, second) = clusters.split_at(clusters.len() / 2);
    let (first, second) = (parts(first), parts(second));
    let mut judged = *second.get(place_of_worst(&first)?)?;
    judged.add(*first.get(place_of_worst(&second)?)?);
    (judged.ended > 0).then_some(judged)
}

fn parts(clusters: &[&Cluster]) -> Vec<Decided> {
    let mut parts = Vec::<Decided>::new();
    for cluster in clusters {
        parts.resize(parts.len().max(cluster.parts.len()), Decided::default());
        for (sum, one) in parts.iter_mut().zip(&cluster.parts) {
            sum.add(*one);
        }
    }
    parts
}

fn place_of_worst(parts: &[Decided]) -> Option<usize> {
    let enough = (0..parts.len()).filter(|place| parts[*place].ended >= FEWEST_OF_A_PART);
    enough.min_by(|a, b| parts[*a].success().total_cmp(&parts[*b].success()))
}

/// A judged load.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The load.
    pub(super) load: f64,
    /// The clusters, in the same order for all loads.
    pub(super) clusters: Vec<Cluster>,
    /// The length of one cluster, in seconds.
    pub(super) cluster_s: f64,
}

/// Where success crosses the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    /// The load there.
    pub(super) load: f64,
    /// Commits per second there.
    pub(super) commits_per_s: f64,
    /// The relative standard error of this rate; absent if unknown.
    pub(super) relative_error: Option<f64>,
    /// The half width of a 95 % interval in standard errors: Student's t for the number of clusters.
    pub(super) reach: f64,
    /// The number of clusters.
    pub(super) clusters: usize,
    /// The expected number of failures (or successes, if rarer) of deciding transactions at each neighbouring load, if
    /// that were the knee.
    pub(super) expected: f64,
}

impl Judged {
    fn kept(&self, without: Option<usize>) -> impl Iterator<Item = &Cluster> {
        self.clusters.iter().enumerate().filter(move |(place, _)| Some(*place) != without).map(|(_, cluster)| cluster)
    }

    /// The expected number of failures (or successes, if rarer) of deciding transactions at the threshold.
    fn expected(&self, threshold: f64) -> f64 {
        worst(self.kept(None)).ended as f64 * threshold.min(1.0 - threshold)
    }

    /// Commits per second, optionally without one of the clusters.
    pub(super) fn commits_per_s(&self, without: Option<usize>) -> f64 {
        let count = self.clusters.len() - usize::from(without.is_some());
        self.kept(without).map(|cluster| cluster.commits).sum::<u64>() as f64 / (count as f64 * self.cluster_s)
    }

    /// The first `count` clusters; `None` if there are fewer.
    fn first(&self, count: usize) -> Option<Self> {
        Some(Self { clusters: self.clusters.get(..count)?.to_vec(), ..*self })
    }

    /// The relative standard error of the commits per second.
    fn relative_error(&self) -> Option<f64> {
        let count = self.clusters.len();
        let left_out: Vec<f64> = (0..count).map(|place| self.commits_per_s(Some(place))).collect();
        let error = jackknife(&left_out) / self.commits_per_s(None);
        (count > 2 && error.is_finite()).then_some(error)
    }
}

/// The relative error of a value anywhere in a bracket: the standard deviation of a uniform distribution.
fn error_of_bracket(holds: f64, fails: f64) -> f64 {
    (fails / holds - 1.0) / 12.0_f64.sqrt()
}

/// The crossing between a load that held and a higher one that failed, both among those judged; otherwise `None`. If
/// they were judged by different numbers of runs, the runs that both have count. `rough` judgements (of other runs)
/// count for the curve only.
pub(super) fn crossing(
    judged: &[Judged],
    rough: &[Judged],
    (holds, fails): (f64, f64),
    threshold: f64,
) -> Option<Crossing> {
    let at = |load: f64| judged.iter().find(|judged| judged.load == load);
    let count = at(holds)?.clusters.len().min(at(fails)?.clusters.len());
    let (low, high) = (at(holds)?.first(count)?, at(fails)?.first(count)?);
    let all: Vec<Judged> = judged.iter().filter_map(|judged| judged.first(count)).collect();
    let (fit, range) =
        Fit::around((holds, fails), &[&points(&all, None)[..], &points(rough, None)].concat(), threshold);
    let near = |judged: &&Judged| range.contains(&judged.load);
    let others = points(rough, None).into_iter().filter(|point| range.contains(&point.load)).collect::<Vec<_>>();
    let all: Vec<Judged> = all.iter().filter(near).cloned().collect();
    let of = |without: Option<usize>| -> (f64, f64) {
        let fit = Fit::of(&[&points(&all, without)[..], &others].concat(), holds, threshold);
        let place = fit.root(threshold).clamp(range.start().ln(), range.end().ln());
        (place.exp(), commits_at(place.exp(), &low, &high, without))
    };
    let (load, commits_per_s) = of(None);
    // The loads share their seeds, and so their transactions: their errors are correlated, and they count as one.
    let counted = points(&all, None);
    let sum: f64 = counted.iter().map(|point| point.ended).sum();
    let most = counted.iter().map(|point| point.ended).fold(1.0, f64::max);
    let luck = fit.error_of_root(threshold) * (sum / most).sqrt();
    let left_out: Vec<f64> = (0..count).map(|place| of(Some(place)).1).collect();
    let error = (count > 2).then(|| (jackknife(&left_out) / commits_per_s).max(luck));
    // Success is assumed linear within the bracket. For any other shape, the crossing could be anywhere in it.
    let error = error.filter(|error| error.is_finite()).map(|error| error.hypot(error_of_bracket(holds, fails)));
    let expected = low.expected(threshold).min(high.expected(threshold));
    Some(Crossing { load, commits_per_s, relative_error: error, reach: reach(count), clusters: count, expected })
}

/// The crossing between a load that held and a higher one that was hopeless and therefore not finished: anywhere
/// between the two; the middle is used. Commits are assumed to grow with the load.
pub(super) fn in_bracket(low: &Judged, fails: f64, threshold: f64) -> Crossing {
    let (count, up) = (low.clusters.len(), (fails / low.load).sqrt());
    // The load may have held by chance. Between it and the other one the odds of failure rise at least threefold.
    let decided = worst(low.kept(None));
    let steep = (FAR_ODDS.ln() / (fails / low.load).ln()).max(SLOPE.0);
    let information = decided.ended as f64 * threshold * (1.0 - threshold);
    let luck = 1.0 / (steep * information.sqrt());
    let error = low.relative_error().map(|error| error.max(luck).hypot(error_of_bracket(low.load, fails)));
    let (commits_per_s, expected) = (low.commits_per_s(None) * up, low.expected(threshold));
    Crossing {
        load: low.load * up,
        commits_per_s,
        relative_error: error,
        reach: reach(count),
        clusters: count,
        expected,
    }
}

/// Commits per second at a load: interpolated between these two; outside, with the share of the offered load as at the
/// nearer one.
fn commits_at(load: f64, low: &Judged, high: &Judged, without: Option<usize>) -> f64 {
    let [of_low, of_high] = [low, high].map(|judged| judged.commits_per_s(without));
    if load <= low.load {
        of_low * load / low.load
    } else if load >= high.load {
        of_high * load / high.load
    } else {
        let share = (load / low.load).ln() / (high.load / low.load).ln();
        of_low + share * (of_high - of_low)
    }
}

fn points(judged: &[Judged], without: Option<usize>) -> Vec<LoadCounts> {
    let point = |judged: &Judged| {
        let decided = worst(judged.kept(without));
        LoadCounts { load: judged.load, ended: decided.ended as f64, failed: decided.failed() as f64 }
    };
    judged.iter().map(point).filter(|point| point.ended > 0.0).collect()
}

/// The standard error of a statistic, from its values with each cluster left out.
fn jackknife(left_out: &[f64]) -> f64 {
    let count = left_out.len() as f64;
    let mean = left_out.iter().sum::<f64>() / count;
    let squares: f64 = left_out.iter().map(|value| (value - mean).powi(2)).sum();
    ((count - 1.0) / count * squares).sqrt()
}

/// The 97.5th percentile of Student's t with one degree of freedom fewer than there are clusters.
fn reach(clusters: usize) -> f64 {
    let normal = 1.959_964;
    StudentsT::new(0.0, 1.0, clusters.saturating_sub(1).max(1) as f64).map_or(normal, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Success falls by 0.2 for each unit of ln(load), and is 0.95 at 1; one commit a second at 1. `spread` is the
    /// deviation between clusters.
    fn judged(load: f64, luck: impl Fn(usize) -> f64) -> Judged {
        let cluster = |place: usize| {
            let success = 0.95 - 0.2 * load.ln() + luck(place);
            let commits = (10_000.0 * load) as u64;
            let decided = Decided { ended: 10_000, committed: (10_000.0 * success).round() as u64, open: 0 };
            Cluster { parts: vec![decided], commits }
        };
        Judged { load, clusters: (0..10).map(cluster).collect(), cluster_s: 10_000.0 }
    }

    #[test]
    fn it_lies_where_the_line_does() {
        let all: Vec<Judged> = [0.97, 0.99, 1.03, 1.06, 3.0].map(|load| judged(load, |_| 0.0)).into();
        let found = crossing(&all, &[], (0.99, 1.03), 0.95).unwrap();
        // The counts lie on a line, and their odds nearly so.
        assert!((found.load - 1.0).abs() < 3e-3 && (found.commits_per_s - 1.0).abs() < 3e-3, "{found:?}");
        assert_eq!(crossing(&all, &[], (0.98, 1.03), 0.95), None);
        assert!((found.reach - 2.262).abs() < 1e-3, "nine degrees of freedom: {}", found.reach);
    }

    /// Clusters whose success differs by 0.01 (a standard deviation) are ten judgements with an error of 0.01 /
    /// sqrt(10), which the slope makes 0.0158 of the load.
    #[test]
    fn the_error_is_that_of_the_clusters_over_the_slope() {
        let luck = |place: usize| if place.is_multiple_of(2) { 0.0095 } else { -0.0095 };
        let all: Vec<Judged> = [0.99, 1.01].map(|load| judged(load, luck)).into();
        let found = crossing(&all, &[], (0.99, 1.01), 0.95).unwrap();
        let error = found.relative_error.unwrap();
        assert!((error / 0.0158 - 1.0).abs() < 0.15, "{found:?}");
    }

    fn parted(parts: &[(u64, u64)]) -> Cluster {
        let decided = |(ended, committed): &(u64, u64)| Decided { ended: *ended, committed: *committed, open: 0 };
        Cluster { parts: parts.iter().map(decided).collect(), commits: 0 }
    }

    #[test]
    fn the_worst_part_counts_if_it_is_large_enough() {
        let clusters = [parted(&[(50, 50), (40, 32), (5, 0)]), parted(&[(50, 48), (40, 36), (5, 0)])];
        assert_eq!(worst(clusters.iter()), Decided { ended: 80, committed: 68, open: 0 });
        let few = [parted(&[(3, 0), (25, 25)]), parted(&[(4, 0), (20, 20)])];
        assert_eq!(worst(few.iter()), Decided { ended: 52, committed: 45, open: 0 }, "no part is large enough");
        assert_eq!(worst_part(&few.iter().collect::<Vec<_>>()), None);
        let apart = [parted(&[(30, 30), (0, 0)]), parted(&[(0, 0), (30, 0)])];
        assert_eq!(worst(apart.iter()), Decided { ended: 60, committed: 30, open: 0 }, "no part is in both halves");
        assert_eq!(worst([].iter()), Decided::default());
    }

    /// Sixty equal parts: the lowest of sixty counts is low by chance only.
    #[test]
    fn the_worst_of_many_alike_is_not_taken_for_worse() {
        let (mut coin, mut sum) = (7_u64, 0.0);
        for _ in 0..200 {
            let mut part = || {
                let mut committed = 0;
                for _ in 0..50 {
                    coin = coin.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    committed += u64::from((coin >> 33) % 20 > 0);
                }
                (50, committed)
            };
            let clusters: Vec<Cluster> = (0..4).map(|_| parted(&(0..60).map(|_| part()).collect::<Vec<_>>())).collect();
            sum += worst(clusters.iter()).success() / 200.0;
        }
        assert!((sum - 0.95).abs() < 0.005, "{sum}");
    }

    /// Two failures at the load that failed, none at the one that held, and all clusters equal: the knee has an error
    /// of at least a quarter.
    #[test]
    fn few_failures_make_a_wide_interval() {
        let at = |load: f64, failed: u64| {
            let cluster = |place: u64| {
                let decided = Decided { ended: 1000, committed: 1000 - u64::from(place < failed), open: 0 };
                Cluster { parts: vec![decided], commits: (1e6 * load) as u64 }
            };
            Judged { load, clusters: (0..16).map(cluster).collect(), cluster_s: 1e6 }
        };
        let found = crossing(&[at(1.0, 0), at(1.02, 2)], &[], (1.0, 1.02), 0.9999).unwrap();
        assert!(found.relative_error.unwrap() > 0.12 && found.expected < 2.0, "{found:?}");
        let most = 2.0 * found.commits_per_s;
        assert!((0.5..most).contains(&1.0), "{found:?}");
    }

    /// A uniform value between 1 and 1.04 has a standard deviation of 0.0115; equal clusters add nothing.
    #[test]
    fn what_lies_anywhere_in_a_bracket_has_its_error() {
        let found = in_bracket(&judged(1.0, |_| 0.0), 1.04, 0.95);
        assert!((found.load / 1.04_f64.sqrt() - 1.0).abs() < 1e-9 && (found.commits_per_s - found.load).abs() < 1e-9);
        assert!((found.relative_error.unwrap() / 0.0115 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn of_more_clusters_at_one_load_the_first_count() {
        let (low, mut high) = (judged(0.99, |_| 0.0), judged(1.01, |_| 0.0));
        let same = crossing(&[low.clone(), high.clone()], &[], (0.99, 1.01), 0.95).unwrap();
        high.clusters.push(Cluster { parts: vec![Decided { ended: 1000, committed: 0, open: 0 }], commits: 0 });
        assert_eq!(crossing(&[low, high], &[], (0.99, 1.01), 0.95), Some(same));
    }

    #[test]
    fn what_does_not_fall_crosses_in_the_middle() {
        let rising = |load: f64| judged(load, |_| 0.4 * load.ln());
        let found = crossing(&[rising(0.99), rising(1.01)], &[], (0.99, 1.01), 0.95).unwrap();
        assert!((found.load - 1.0).abs() < 1e-3, "{found:?}");
    }
}
