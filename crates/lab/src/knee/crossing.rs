//! At which load does success cross the threshold, how many commits a second are that, and how far may chance have moved it?
//!
//! Each load is judged by the same *clusters*: equal stretches of the windows of its runs, the same seeds and stretches at each
//! load. The success of a load is the ratio of two sums over its clusters. A line through the successes of the loads near the
//! bracket (weighed least squares, against the logarithm of the load) says where they cross the threshold; commits per second
//! are interpolated between the ends of the bracket to that load.
//!
//! Chance is judged by the delete-one jackknife over clusters (Shao and Tu, "The Jackknife and Bootstrap", 1995, chapters 1 and 2):
//! each cluster is left out of all loads at once, so that the random numbers which they share stay shared. Transactions of one cluster
//! need not be independent, only clusters among each other; nearly so, if they are long (the method of batch means: Law,
//! "Simulation Modeling and Analysis", 2015, 9.5.3).

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A stretch of a run's window: of the transactions that arrived in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Those that decide and ended, and of these those that committed; in parts of which the worst counts (one part, where
    /// success over all counts).
    pub(super) parts: Vec<Decided>,
    /// Of all, those that committed.
    pub(super) commits: u64,
}

/// Transactions that decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    /// Those that ended.
    pub(super) ended: u64,
    /// Of these, those that committed.
    pub(super) committed: u64,
}

/// Parts in which fewer decided are not compared with others: the worst of many small parts is only the unluckiest.
const FEWEST_OF_A_PART: u64 = 30;

impl Decided {
    pub(super) fn success(self) -> f64 {
        self.committed as f64 / self.ended.max(1) as f64
    }
}

/// The part with the lowest success of all these clusters together.
pub(super) fn worst<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Decided {
    let mut parts = Vec::<Decided>::new();
    for cluster in clusters {
        parts.resize(parts.len().max(cluster.parts.len()), Decided::default());
        for (sum, one) in parts.iter_mut().zip(&cluster.parts) {
            sum.ended += one.ended;
            sum.committed += one.committed;
        }
    }
    let enough = parts.iter().filter(|part| part.ended >= FEWEST_OF_A_PART);
    let lowest = enough.min_by(|a, b| a.success().total_cmp(&b.success())).copied();
    lowest.unwrap_or_else(|| parts.into_iter().max_by_key(|part| part.ended).unwrap_or_default())
}

/// A load that was judged.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The load.
    pub(super) load: f64,
    /// In an order that is the same for all loads.
    pub(super) clusters: Vec<Cluster>,
    /// Of one cluster, in seconds.
    pub(super) cluster_s: f64,
}

/// Where success crosses the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    /// The load there.
    pub(super) load: f64,
    /// Commits per second there.
    pub(super) commits_per_s: f64,
    /// One standard error of these commits, as a share of them; absent where it cannot be told.
    pub(super) relative_error: Option<f64>,
    /// How many standard errors lie to either side of a 95 % interval: Student's t for the clusters there are.
    pub(super) reach: f64,
    /// Clusters that this is known from.
    pub(super) clusters: usize,
}

/// Loads further outside the bracket than this share do not bear on the line: success is no line over more.
const NEAR: f64 = 1.15;

/// No crossing is looked for further outside the bracket than it is wide.
const OUTSIDE: f64 = 1.0;

impl Judged {
    fn kept(&self, without: Option<usize>) -> impl Iterator<Item = &Cluster> {
        self.clusters.iter().enumerate().filter(move |(place, _)| Some(*place) != without).map(|(_, cluster)| cluster)
    }

    fn success(&self, without: Option<usize>) -> Option<(f64, f64)> {
        let decided = worst(self.kept(without));
        (decided.ended > 0).then(|| (decided.success(), decided.ended as f64))
    }

    /// Commits per second, without one of the clusters if asked.
    pub(super) fn commits_per_s(&self, without: Option<usize>) -> f64 {
        let count = self.clusters.len() - usize::from(without.is_some());
        self.kept(without).map(|cluster| cluster.commits).sum::<u64>() as f64 / (count as f64 * self.cluster_s)
    }

    /// The first so many clusters; `None` where there are fewer.
    fn first(&self, count: usize) -> Option<Self> {
        Some(Self { clusters: self.clusters.get(..count)?.to_vec(), ..*self })
    }

    /// The standard error of the commits per second, as a share of them.
    fn relative_error(&self) -> Option<f64> {
        let count = self.clusters.len();
        let left_out: Vec<f64> = (0..count).map(|place| self.commits_per_s(Some(place))).collect();
        let error = jackknife(&left_out) / self.commits_per_s(None);
        (count > 2 && error.is_finite()).then_some(error)
    }
}

/// The error of what may lie anywhere in a bracket: the standard deviation of a uniform distribution, as a share.
fn error_of_bracket(holds: f64, fails: f64) -> f64 {
    (fails / holds - 1.0) / 12.0_f64.sqrt()
}

/// The crossing between a load that held and a higher one that failed, both among those judged; `None` where they are not.
/// Where loads were judged by runs of different numbers, the first of them count, as many as both have.
pub(super) fn crossing(judged: &[Judged], (holds, fails): (f64, f64), threshold: f64) -> Option<Crossing> {
    let at = |load: f64| judged.iter().find(|judged| judged.load == load);
    let count = at(holds)?.clusters.len().min(at(fails)?.clusters.len());
    let (low, high) = (at(holds)?.first(count)?, at(fails)?.first(count)?);
    let near = judged.iter().filter(|judged| (holds / NEAR..=fails * NEAR).contains(&judged.load));
    let near: Vec<Judged> = near.filter_map(|judged| judged.first(count)).collect();
    let of = |without: Option<usize>| -> Option<(f64, f64)> {
        let (from, to) = (holds.ln(), fails.ln());
        let room = OUTSIDE * (to - from);
        let place = root(&near, threshold, without).unwrap_or((from + to) / 2.0).clamp(from - room, to + room);
        let share = (place - from) / (to - from);
        let (low, high) = (low.commits_per_s(without), high.commits_per_s(without));
        Some((place.exp(), low + share * (high - low)))
    };
    let (load, commits_per_s) = of(None)?;
    let left_out: Option<Vec<f64>> = (0..count).map(|place| Some(of(Some(place))?.1)).collect();
    let error = left_out.filter(|_| count > 2).map(|left_out| jackknife(&left_out) / commits_per_s);
    // What lies within the bracket is taken for a line. Were it anything else, the crossing would be anywhere in it.
    let error = error.filter(|error| error.is_finite()).map(|error| error.hypot(error_of_bracket(holds, fails)));
    Some(Crossing { load, commits_per_s, relative_error: error, reach: reach(count), clusters: count })
}

/// The crossing between a load that held and a higher one that failed by so much that nobody counted by how much: anywhere
/// between the two, in the middle for choice. Commits are taken to grow with the load.
pub(super) fn in_bracket(low: &Judged, fails: f64) -> Crossing {
    let (count, up) = (low.clusters.len(), (fails / low.load).sqrt());
    let error = low.relative_error().map(|error| error.hypot(error_of_bracket(low.load, fails)));
    let commits_per_s = low.commits_per_s(None) * up;
    Crossing { load: low.load * up, commits_per_s, relative_error: error, reach: reach(count), clusters: count }
}

/// Where the line through these successes crosses the threshold, as a logarithm; `None` where it does not fall.
fn root(near: &[Judged], threshold: f64, without: Option<usize>) -> Option<f64> {
    let points: Vec<(f64, f64, f64)> = near
        .iter()
        .filter_map(|judged| judged.success(without).map(|(success, weight)| (judged.load.ln(), success, weight)))
        .collect();
    let weight: f64 = points.iter().map(|point| point.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| of(point) * point.2).sum::<f64>() / weight;
    let (load, success) = (mean(|point| point.0), mean(|point| point.1));
    let (mut product, mut square) = (0.0, 0.0);
    for (x, y, weight) in &points {
        product += (x - load) * (y - success) * weight;
        square += (x - load) * (x - load) * weight;
    }
    let slope = product / square;
    (slope < 0.0).then(|| load + (threshold - success) / slope)
}

/// The standard error of a statistic, from its values with one cluster each left out.
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

    /// Success falls by 0.2 for each unit of ln(load), and is 0.95 at 1; one commit a second at 1. Clusters differ by so much.
    fn judged(load: f64, luck: impl Fn(usize) -> f64) -> Judged {
        let cluster = |place: usize| {
            let success = 0.95 - 0.2 * load.ln() + luck(place);
            let commits = (10_000.0 * load) as u64;
            let decided = Decided { ended: 10_000, committed: (10_000.0 * success) as u64 };
            Cluster { parts: vec![decided], commits }
        };
        Judged { load, clusters: (0..10).map(cluster).collect(), cluster_s: 10_000.0 }
    }

    #[test]
    fn it_lies_where_the_line_does() {
        let all: Vec<Judged> = [0.97, 0.99, 1.03, 1.06, 3.0].map(|load| judged(load, |_| 0.0)).into();
        let found = crossing(&all, (0.99, 1.03), 0.95).unwrap();
        assert!((found.load - 1.0).abs() < 1e-3 && (found.commits_per_s - 1.0).abs() < 1e-3, "{found:?}");
        assert_eq!(crossing(&all, (0.98, 1.03), 0.95), None);
        assert!((found.reach - 2.262).abs() < 1e-3, "nine degrees of freedom: {}", found.reach);
    }

    /// Clusters whose success differs by 0.01 (a standard deviation) are ten judgements with an error of 0.01 / sqrt(10), which
    /// the slope makes 0.0158 of the load.
    #[test]
    fn the_error_is_that_of_the_clusters_over_the_slope() {
        let luck = |place: usize| if place.is_multiple_of(2) { 0.0095 } else { -0.0095 };
        let all: Vec<Judged> = [0.99, 1.01].map(|load| judged(load, luck)).into();
        let found = crossing(&all, (0.99, 1.01), 0.95).unwrap();
        let error = found.relative_error.unwrap();
        assert!((error / 0.0158 - 1.0).abs() < 0.15, "{found:?}");
    }

    #[test]
    fn the_worst_part_counts_if_it_is_large_enough() {
        let cluster = |parts: &[(u64, u64)]| Cluster {
            parts: parts.iter().map(|(ended, committed)| Decided { ended: *ended, committed: *committed }).collect(),
            commits: 0,
        };
        let clusters = [cluster(&[(50, 50), (20, 16), (5, 0)]), cluster(&[(50, 48), (20, 18), (5, 0)])];
        assert_eq!(worst(clusters.iter()), Decided { ended: 40, committed: 34 });
        assert_eq!(worst([cluster(&[(3, 0), (5, 5)])].iter()), Decided { ended: 5, committed: 5 });
        assert_eq!(worst([].iter()), Decided::default());
    }

    /// What is uniform between 1 and 1.04 has a standard deviation of 0.0115; clusters that are all alike add nothing.
    #[test]
    fn what_lies_anywhere_in_a_bracket_has_its_error() {
        let found = in_bracket(&judged(1.0, |_| 0.0), 1.04);
        assert!((found.load / 1.04_f64.sqrt() - 1.0).abs() < 1e-9 && (found.commits_per_s - found.load).abs() < 1e-9);
        assert!((found.relative_error.unwrap() / 0.0115 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn of_more_clusters_at_one_load_the_first_count() {
        let (low, mut high) = (judged(0.99, |_| 0.0), judged(1.01, |_| 0.0));
        let same = crossing(&[low.clone(), high.clone()], (0.99, 1.01), 0.95).unwrap();
        high.clusters.push(Cluster { parts: vec![Decided { ended: 1000, committed: 0 }], commits: 0 });
        assert_eq!(crossing(&[low, high], (0.99, 1.01), 0.95), Some(same));
    }

    #[test]
    fn what_does_not_fall_crosses_in_the_middle() {
        let rising = |load: f64| judged(load, |_| 0.4 * load.ln());
        let found = crossing(&[rising(0.99), rising(1.01)], (0.99, 1.01), 0.95).unwrap();
        assert!((found.load - 1.0).abs() < 1e-3, "{found:?}");
    }
}
