//! What is known of a knee: the numbers at the highest load that held.

use serde::{Deserialize, Serialize};

use super::KneeOptions;
use super::narrowing::times_the_work;
use super::outcome::KneeSearch;
use super::portrait::Portrait;
use crate::interval::Interval;
use crate::metrics::{Group, Metrics};

/// The highest load that held, with its figures. Rates are per second of virtual time, in the runs' windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The throughput at which success crosses the threshold, between the highest load that held and the lowest that
    /// failed; 0 if no load holds. All other figures are those of the highest load that held.
    pub knee_commits_per_s: f64,
    /// The 95 % interval of the knee, lower and upper end: `knee_relative_error` times Student's t to either side;
    /// absent if unknown.
    pub knee_interval_commits_per_s: Option<[f64; 2]>,
    /// Whether this is a knee, or a limit of what was tried.
    pub bound: Bound,
    /// What ended the search; absent if no load failed, or none held.
    pub stopped: Option<SearchEnd>,
    /// Transactions whose work ended: those that are judged. In a run that is long beside their runtimes, as many
    /// arrive; in a short one more do, which is why this and not the arrivals is the load that belongs to the knee.
    pub offered_per_s: f64,
    /// `arrivals.scale` at this load: the mean or median time between arrivals, depending on the distribution.
    pub inter_arrival_scale_s: f64,
    /// The success that a load needs to hold.
    pub threshold: f64,
    /// The time from the end of a transaction's work within which its commit must land to count, if there is one.
    /// Rates, and the figures of each kind, are of all commits, late ones too.
    pub commit_within_s: Option<f64>,
    /// The deciding success: that of validated overwrites if there are any, otherwise of all.
    pub success: f64,
    /// Its 95 % interval; absent if unknown.
    pub success_interval: Option<Interval>,
    /// The deciding success in bursts; absent without bursts.
    pub burst_success: Option<f64>,
    /// The length of the stretches, if the worst one of the cycle from burst to burst decides.
    pub worst_stretch_s: Option<f64>,
    /// The success in the worst stretch of the cycle from burst to burst, if that decides and some stretch has enough
    /// transactions.
    pub worst_success: Option<f64>,
    /// The standard error of `success`, from its spread over the runs; absent for a single run.
    pub success_standard_error: Option<f64>,
    /// The relative standard error of the knee, from the spread between parts of the runs and the distance between the
    /// loads that held and failed (`knee/crossing.rs`); absent if unknown.
    pub knee_relative_error: Option<f64>,
    /// The distance from the highest load that held to the lowest that failed, as a share of the former; absent without
    /// both.
    pub resolution: Option<f64>,
    /// Deciding transactions that ended at this load.
    pub deciding_transactions: u64,
    /// The number of their runs.
    pub runs: u64,
    /// The length of each.
    pub run_duration_s: f64,
    /// All virtual time simulated for the knee.
    pub simulated_s: f64,
    /// All events simulated for the knee.
    pub events: u64,
    /// The number of runs that the following figures come from: the first ones, as many as fit in memory (about 400,000
    /// transactions).
    pub kept_runs: u64,
    /// All transactions at this load.
    pub all: KindAtKnee,
    /// The fast appends; absent where there are none.
    pub fast_append: Option<KindAtKnee>,
    /// The validated overwrites; absent where there are none.
    pub validated_overwrite: Option<KindAtKnee>,
}

/// Whether a knee was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// A load held, and a slightly higher one failed.
    Found,
    /// Every load held, up to the highest that is simulated: the knee is higher.
    AllHold,
    /// The budget was spent before any load was known to fail: the knee is higher.
    Unfinished,
    /// Every load failed, down to the lowest. The numbers are those of the lowest.
    NothingHolds,
}

/// What ended the search for a knee.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchEnd {
    /// The first reason to stop.
    pub reason: Reason,
    /// The requested half width of the 95 % interval, as a share of the knee.
    pub within: f64,
    /// The half width reached, as a share of the knee; absent if unknown.
    pub half_width: Option<f64>,
    /// If the budget was spent: the approximate multiple of it that would reach the requested width. (Half the width
    /// takes four times the work.) Absent if unknown.
    pub budget_factor: Option<f64>,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The interval has the requested width.
    NarrowEnough,
    /// The rest of the budget would not make the interval significantly narrower, or decide on another load.
    BudgetSpent,
    /// The seeds were given, and all of them were used.
    SeedsGiven,
    /// The maximum number of runs per load was reached.
    MostRuns,
    /// At higher loads, transactions take longer to end than the longest runs, so these loads were not judged.
    RunsTooShort,
}

/// The transactions of one kind at the knee. Success, commits and retries come from the runs that judged the load.
/// Latencies come from separate runs, which continue as `run_on` says. Intervals are 95 % intervals, and absent if
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct KindAtKnee {
    pub success: Option<f64>,
    pub success_interval: Option<Interval>,
    /// The share with unknown latency, because they had not ended when their run did.
    pub not_ended: Option<f64>,
    pub commits_per_s: f64,
    pub commits_interval_per_s: Option<Interval>,
    pub latency_mean_s: Option<f64>,
    pub latency_p50_s: Option<f64>,
    pub latency_p95_s: Option<f64>,
    pub latency_p99_s: Option<f64>,
    pub latency_p99_interval_s: Option<Interval>,
    pub retries_mean: Option<f64>,
}

impl KneeSearch {
    /// The 95 % interval of the commits per second at the knee.
    pub(super) fn interval(&self) -> Option<[f64; 2]> {
        let crossing = self.crossing.filter(|_| self.bound == Bound::Found)?;
        let reach = crossing.reach * crossing.relative_error?;
        Some([1.0 - reach, 1.0 + reach].map(|share| (self.commits_per_s * share).max(0.0)))
    }
}

impl SearchEnd {
    fn of(reason: Reason, found: &KneeSearch, within: f64) -> Self {
        let half_width = found.crossing.and_then(|crossing| crossing.half_width());
        let budget_factor =
            half_width.filter(|_| reason == Reason::BudgetSpent).map(|half| times_the_work(half, within).max(1.0));
        Self { reason, within, half_width, budget_factor }
    }
}

/// The deciding transactions: validated overwrites if there are any, otherwise all.
pub(super) fn deciding(metrics: &Metrics) -> &Group {
    metrics.validated_overwrite.as_ref().unwrap_or(&metrics.all)
}

impl Bound {
    /// Whether the knee may be higher than the load that was found.
    #[must_use]
    pub fn is_lower(self) -> bool {
        matches!(self, Self::AllHold | Self::Unfinished)
    }
}

impl Knee {
    pub(super) fn of(found: &KneeSearch, portrait: &Portrait, options: &KneeOptions) -> Self {
        let (outcome, kept) = &found.outcome;
        let runs = *kept as f64;
        let config = &found.point.config;
        // All runs together: counts and percentiles cover all of them; rates must be divided by their number.
        let metrics = &Metrics::judged(&found.point, outcome);
        let of_kind = |of: fn(&Metrics) -> Option<&Group>| {
            of(metrics).map(|judged| KindAtKnee::of(judged, of(&portrait.metrics).unwrap_or(judged), runs))
        };
        let all = KindAtKnee::of(&metrics.all, &portrait.metrics.all, runs);
        let window = config.duration.as_secs_f64() / 2.0 * runs;
        Self {
            knee_commits_per_s: found.commits_per_s,
            knee_interval_commits_per_s: found.interval(),
            bound: found.bound,
            stopped: found.reason.map(|reason| SearchEnd::of(reason, found, options.within)),
            offered_per_s: metrics.all.window_arrived as f64 / window,
            inter_arrival_scale_s: config.arrivals.scale.as_secs_f64(),
            threshold: options.threshold,
            commit_within_s: options.commit_within.map(|most| most.as_secs_f64()),
            success: found.success,
            success_interval: found.success_interval,
            burst_success: deciding(metrics).burst_success(),
            worst_stretch_s: options.worst.map(|stretch| stretch.as_secs_f64()),
            worst_success: found.worst_success,
            success_standard_error: standard_error(&found.success_by_run),
            knee_relative_error: found.crossing.and_then(|crossing| crossing.relative_error),
            resolution: found.resolution,
            deciding_transactions: found.deciding,
            runs: found.runs as u64,
            run_duration_s: config.duration.as_secs_f64(),
            simulated_s: found.work.seconds + portrait.seconds,
            events: found.work.events + portrait.events,
            kept_runs: *kept as u64,
            all,
            fast_append: of_kind(|metrics| metrics.fast_append.as_ref()),
            validated_overwrite: of_kind(|metrics| metrics.validated_overwrite.as_ref()),
        }
    }
}

impl KindAtKnee {
    fn of(judged: &Group, lasting: &Group, runs: f64) -> Self {
        let latency = lasting.latency;
        Self {
            success: judged.success(),
            success_interval: judged.success_interval,
            not_ended: lasting.not_ended(),
            commits_per_s: judged.throughput_per_s / runs,
            commits_interval_per_s: judged.throughput_interval_per_s.map(|ends| ends.map(|end| end / runs)),
            latency_mean_s: latency.map(|latency| latency.mean_s),
            latency_p50_s: latency.map(|latency| latency.p50_s),
            latency_p95_s: latency.map(|latency| latency.p95_s),
            latency_p99_s: latency.map(|latency| latency.p99_s),
            latency_p99_interval_s: latency.and_then(|latency| latency.p99_interval_s),
            retries_mean: judged.retries_mean,
        }
    }
}

fn standard_error(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}
