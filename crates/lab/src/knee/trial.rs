//! One load, and the runs that judge it: which are made, which end early, and what is the judgement?
//!
//! Runs are made in *batches*, so that no more are made once the outcome is certain. A run ends early in two cases:
//!
//! * Its load is *hopeless*: so many deciding transactions have failed that, even if all others of all runs succeeded,
//!   the odds of failure would still be [`FAR`] times what the threshold allows.
//! * It is *too expensive*: its share of the budget is spent. Then the load has no judgement.
//!
//! A load is judged by the transactions whose *work ended* in the windows of its runs, and each is followed until it
//! has ended or its run has. One that has not ended is *open*: a load holds only if enough succeed even when all open
//! ones count as failed, and fails only if too few succeed even when all open ones count as successful. Otherwise its
//! runs were *too short*. They were also too short if decisions take long compared with the quarter of a run before its
//! window (and the one after it), because then commits of the window met fewer others than later ones would; and if
//! transactions that [work too long](super::unseen) to end in the window matter.
//!
//! Both early ends depend on counts of the run itself and of earlier batches, never on time or other threads. The
//! success of a run that ended early is biased (failures take longer than successes), so it is not used.

use std::sync::Arc;

use glidepath_point::{Point, SimulatedRun, Underway, arrivals_in_window, simulate_while, window};
use glidepath_sim::Mode;

use super::counts::Counts;
use super::crossing::{Cluster, Decided, Judged, worst};
use super::unseen::{Worked, excess, matters};
use crate::interval::{Interval, Part, share};
use glidepath_model::{Instant, Span};

/// A load is hopeless if its odds of failure are this multiple of those that the threshold allows: with a threshold of
/// 95 %, if less than 86.4 % can succeed. Other failing loads are finished, because the curve through the successes
/// needs them.
const FAR: f64 = 3.0;

/// The quarter of a run before its window is at least this multiple of the time from the end of the work to the end of
/// the transaction, for all but a [share](SLOW) of the failures that the threshold allows.
const SETTLED: f64 = 1.5;

/// That share. (With a threshold of 95 % the 99th percentile counts: if failures take longest, it is the time of a
/// failure.)
const SLOW: f64 = 0.2;

/// Runs that were too short are made longer by a factor between these.
const LONGER: (f64, f64) = (1.5, 4.0);

/// Runs of the first batch; each later batch has as many as all before it.
const FIRST_BATCH: usize = 4;

/// The approximate number of transactions of a load that are kept for the figures beside the knee: a few hundred bytes
/// each.
const KEPT: usize = 400_000;

/// How loads are judged, the same for all loads of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// The success at which a load holds.
    pub(super) threshold: f64,
    /// Clusters per window of a run.
    pub(super) clusters: usize,
    /// The length of the stretches, if the worst one decides.
    pub(super) worst: Option<Span>,
    /// The time from the end of the work within which a commit must land, if there is one.
    pub(super) commit_within: Option<Span>,
    /// Whether to keep transactions, or only their numbers.
    pub(super) keep: bool,
    /// Whether a hopeless load may end early.
    pub(super) gives_up: bool,
}

/// A load, and the runs that judge it.
pub(super) struct Trial {
    /// The load.
    pub(super) load: f64,
    /// The simulated point.
    pub(super) point: Arc<Point>,
    rule: Rule,
    seeds: Vec<u64>,
    /// Results of finished runs, in the order of their seeds.
    results: Vec<RunResult>,
    /// Results of the current batch.
    batch: Vec<Option<RunResult>>,
    /// The most deciding transactions in all runs.
    may_decide: u64,
}

/// The judgement of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Enough succeeded.
    Held,
    /// Not enough succeeded.
    Failed,
    /// Not enough could succeed; its runs were not all finished.
    Hopeless,
    /// Too few have ended, or decisions take so long that the window was not representative.
    TooShort,
    /// The budget did not suffice.
    TooDear,
}

/// One run to be made.
pub(super) struct Job {
    /// What to simulate.
    point: Arc<Point>,
    /// Its seed.
    seed: u64,
    /// Its place in the batch.
    pub(super) place: usize,
    rule: Rule,
    /// The run ends soon after this number of events.
    most_events: u64,
    /// The run ends after more than this number of failures.
    most_failed: u64,
    keep: bool,
}

/// The result of one run.
pub(super) struct RunResult {
    outcome: Option<SimulatedRun>,
    /// Events.
    pub(super) events: u64,
    clusters: Vec<Cluster>,
    failed: u64,
    /// Of deciding transactions that ended: the times from the end of the work, sorted.
    waits: Vec<Span>,
    /// The same transactions, in order.
    worked: Vec<Worked>,
    ended: Ended,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Whole,
    Hopeless,
    TooDear,
}

impl Job {
    /// Makes the run. `watch` sometimes gets the number of further events.
    pub(super) fn run(&self, watch: &mut dyn FnMut(u64)) -> RunResult {
        let (mut ended, mut told, mut failed) = (Ended::Whole, 0, 0);
        let outcome = simulate_while(&self.point, self.seed, Mode::LocalClocks, &mut |underway: Underway| {
            watch(underway.events - told);
            told = underway.events;
            failed = underway.failed;
            if underway.failed > self.most_failed {
                ended = Ended::Hopeless;
            } else if underway.events > self.most_events {
                ended = Ended::TooDear;
            }
            ended == Ended::Whole
        });
        watch(outcome.counts.events - told);
        let (counts, events) = (Counts::of(&self.point, &self.rule, &outcome), outcome.counts.events);
        if ended == Ended::Whole {
            failed = counts.failed();
        }
        let Counts { clusters, waits, worked } = counts;
        RunResult { events, clusters, failed, waits, worked, ended, outcome: self.keep.then_some(outcome) }
    }
}

impl Trial {
    /// A load without runs.
    pub(super) fn new(load: f64, point: Point, rule: Rule) -> Self {
        let point = Arc::new(point);
        Self { load, point, rule, seeds: Vec::new(), results: Vec::new(), batch: Vec::new(), may_decide: 0 }
    }

    /// Requests the runs of these seeds, the first of which it has already.
    pub(super) fn extend_to(&mut self, seeds: &[u64]) {
        for &seed in seeds.get(self.seeds.len()..).unwrap_or_default() {
            self.seeds.push(seed);
            if self.rule.gives_up {
                self.may_decide += may_decide(&self.point, seed);
            }
        }
    }

    /// The next runs, which share this budget of events; empty once all are made.
    pub(super) fn next_batch(&mut self, most_events: u64) -> Vec<Job> {
        let made = self.results.len();
        let count = made.max(FIRST_BATCH).min(self.seeds.len() - made);
        self.batch = (0..count).map(|_| None).collect();
        let kept: usize = self.results.iter().filter_map(|run| Some(run.outcome.as_ref()?.records.len())).sum();
        let most_failed = if self.rule.gives_up { self.most_failed().saturating_sub(self.failed()) } else { u64::MAX };
        let job = |(place, &seed)| Job {
            point: Arc::clone(&self.point),
            seed,
            place,
            rule: self.rule,
            most_events: most_events / count as u64,
            most_failed,
            keep: self.rule.keep && kept < KEPT,
        };
        self.seeds[made..made + count].iter().enumerate().map(job).collect()
    }

    /// The number of failures beyond which the load is hopeless.
    fn most_failed(&self) -> u64 {
        let odds = FAR * (1.0 - self.rule.threshold) / self.rule.threshold;
        (self.may_decide as f64 * odds / (1.0 + odds)).ceil() as u64
    }

    fn failed(&self) -> u64 {
        self.results.iter().map(|run| run.failed).sum()
    }

    /// Takes the result of a run; returns true if it was the last of its batch.
    pub(super) fn take(&mut self, place: usize, result: RunResult) -> bool {
        self.batch[place] = Some(result);
        let complete = self.batch.iter().all(Option::is_some);
        if complete {
            self.results.extend(self.batch.drain(..).flatten());
        }
        complete
    }

    /// The judgement; `None` while runs are left.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let whole = self.results.iter().all(|run| run.ended == Ended::Whole);
        if self.rule.gives_up && self.failed() > self.most_failed() && !(whole && self.is_complete()) {
            return Some(Verdict::Hopeless);
        }
        if !whole {
            return Some(Verdict::TooDear);
        }
        self.is_complete().then(|| match self.judge(self.decided()) {
            _ if self.longer().is_some() => Verdict::TooShort,
            // The worst stretch does not succeed more often than all; with few transactions it may seem to.
            Verdict::Failed => Verdict::Failed,
            _ => self.judge(worst(self.clusters())),
        })
    }

    fn judge(&self, decided: Decided) -> Verdict {
        let wanted = self.rule.threshold * (decided.ended + decided.open) as f64;
        match decided.committed as f64 {
            committed if committed >= wanted => Verdict::Held,
            committed if committed + (decided.open as f64) < wanted => Verdict::Failed,
            _ => Verdict::TooShort,
        }
    }

    /// How long runs should be; `None` if they are long enough, or there are no deciding transactions.
    pub(super) fn longer(&self) -> Option<Span> {
        self.for_the_slow().max(self.for_the_unseen())
    }

    /// How long runs should be so that transactions that cannot end in their windows do not matter.
    fn for_the_unseen(&self) -> Option<Span> {
        let config = &self.point.config;
        let excess = excess(self.results.iter().flat_map(|run| &run.worked).copied().collect());
        let work = self.point.deciding_runtime();
        let matters = |duration: Span| matters(&work, duration, excess, self.rule.threshold);
        let [least, most] =
            [LONGER.0, LONGER.1].map(|factor| Span::from_secs_f64(factor * config.duration.as_secs_f64()));
        let mut longer = least;
        while matters(config.duration) && longer < most && matters(longer) {
            longer = Span::from_secs_f64(1.25 * longer.as_secs_f64()).min(most);
        }
        matters(config.duration).then_some(longer)
    }

    /// How long runs should be compared with the time until a decision.
    fn for_the_slow(&self) -> Option<Span> {
        let decided = self.decided();
        let all = decided.ended + decided.open;
        let slow = (SLOW * (1.0 - self.rule.threshold) * all as f64) as u64;
        let duration = self.point.config.duration.as_secs_f64();
        let wanted = if decided.open > slow {
            f64::INFINITY
        } else {
            let mut waits: Vec<Span> = self.results.iter().flat_map(|run| &run.waits).copied().collect();
            waits.sort_unstable();
            4.0 * SETTLED * waits.iter().rev().nth((slow - decided.open) as usize)?.as_secs_f64()
        };
        let (least, most) = (LONGER.0 * duration, LONGER.1 * duration);
        (wanted > duration).then(|| Span::from_secs_f64((1.1 * wanted).clamp(least, most).ceil()))
    }

    fn is_complete(&self) -> bool {
        self.results.len() == self.seeds.len()
    }

    /// Drops all but this number of runs.
    pub(super) fn shorten_to(&mut self, runs: usize) {
        self.results.truncate(runs);
        self.seeds.truncate(runs);
        self.may_decide = 0;
        if self.rule.gives_up {
            self.may_decide = self.seeds.iter().map(|&seed| may_decide(&self.point, seed)).sum();
        }
    }

    /// Runs that were made.
    pub(super) fn runs(&self) -> usize {
        self.results.len()
    }

    /// The clusters of all runs, in order.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.results.iter().flat_map(|run| &run.clusters)
    }

    /// Deciding transactions, over all runs.
    pub(super) fn decided(&self) -> Decided {
        sum(self.clusters())
    }

    /// The 95 % interval of their success; absent if unknown.
    pub(super) fn success_interval(&self) -> Option<Interval> {
        let part = |decided: Decided| Part { of: decided.ended, counted: decided.committed };
        let batches: Vec<Part> = self.clusters().map(|cluster| part(sum(std::iter::once(cluster)))).collect();
        share(&batches)
    }

    /// Whether it is not by chance that this load held: the lower end of the interval suffices. Of the worst stretch no
    /// interval is known.
    pub(super) fn surely_held(&self) -> bool {
        self.rule.worst.is_some() || self.success_interval().is_some_and(|[low, _]| low >= self.rule.threshold)
    }

    /// The deciding success of each run in which deciding transactions ended.
    pub(super) fn success_by_run(&self) -> Vec<f64> {
        let runs = self.results.iter().map(|run| sum(run.clusters.iter()));
        runs.filter(|decided| decided.ended > 0).map(Decided::success).collect()
    }

    /// The input of the curve through the successes.
    pub(super) fn judged(&self) -> Judged {
        let clusters: Vec<Cluster> = self.clusters().cloned().collect();
        let window = window(self.point.config.duration);
        let windows_s = window.end.since(window.start).as_secs_f64() * self.results.len() as f64;
        Judged { load: self.load, cluster_s: windows_s / clusters.len().max(1) as f64, clusters }
    }

    /// Events of all runs.
    pub(super) fn events(&self) -> u64 {
        self.results.iter().map(|run| run.events).sum()
    }

    /// Events of a run, on average.
    pub(super) fn events_of_run(&self) -> f64 {
        self.events() as f64 / self.runs().max(1) as f64
    }

    /// All runs with kept transactions, taken together, and their number.
    pub(super) fn into_outcome(self) -> (SimulatedRun, usize) {
        let kept: Vec<SimulatedRun> = self.results.into_iter().filter_map(|run| run.outcome).collect();
        let count = kept.len();
        (as_one(kept.into_iter()), count)
    }
}

/// All runs taken together.
pub(super) fn as_one(outcomes: impl Iterator<Item = SimulatedRun>) -> SimulatedRun {
    let nothing = SimulatedRun {
        records: vec![],
        arrivals: vec![],
        open: vec![],
        ended: Instant::ZERO,
        counts: glidepath_sim::Counts::default(),
    };
    let join = |mut all: SimulatedRun, one: SimulatedRun| {
        all.records.extend(one.records);
        all.arrivals.extend(one.arrivals);
        all.open.extend(one.open);
        all.ended = all.ended.max(one.ended);
        all.counts.events += one.counts.events;
        all.counts.processes += one.counts.processes;
        all.counts.most_alive = all.counts.most_alive.max(one.counts.most_alive);
        all
    };
    outcomes.reduce(join).unwrap_or(nothing)
}

fn sum<'a>(clusters: impl Iterator<Item = &'a Cluster>) -> Decided {
    clusters.flat_map(|cluster| &cluster.parts).fold(Decided::default(), |sum, part| Decided {
        ended: sum.ended + part.ended,
        committed: sum.committed + part.committed,
        open: sum.open + part.open,
    })
}

/// An upper bound of the deciding transactions whose work ends in the window of a run: the deciding share of the
/// arrivals in it, plus six standard deviations. (Arrivals do not depend on outcomes.)
fn may_decide(point: &Point, seed: u64) -> u64 {
    let arrived = arrivals_in_window(point, seed) as f64;
    let share = if point.overwrites_decide() { 1.0 - point.config.transaction.fast_append } else { 1.0 };
    (arrived * share + 6.0 * (arrived * share).sqrt()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::point;
    use super::*;

    const RULE: Rule =
        Rule { threshold: 0.95, clusters: 4, worst: None, commit_within: None, keep: false, gives_up: true };

    fn trial(load: f64, gives_up: bool, most_events: u64) -> (Trial, Verdict) {
        let mut point = point(&["transaction.fast_append=0.5"]);
        point.config.arrivals.scale = Span::from_secs_f64(1.0 / load);
        let mut trial = Trial::new(load, point, Rule { gives_up, ..RULE });
        trial.extend_to(&[1, 2, 3, 4, 5, 6, 7, 8]);
        loop {
            if let Some(verdict) = trial.verdict().filter(|_| trial.runs() > 0) {
                return (trial, verdict);
            }
            for job in trial.next_batch(most_events) {
                let (place, result) = (job.place, job.run(&mut |_| ()));
                trial.take(place, result);
            }
        }
    }

    /// No later transaction could change it: a load that was stopped early would have failed clearly.
    #[test]
    fn what_is_hopeless_would_have_failed() {
        let (whole, verdict) = trial(8.0, false, u64::MAX);
        let success = whole.decided().success();
        assert!(verdict == Verdict::Failed && success < 0.864, "{success}");
        let (given_up, verdict) = trial(8.0, true, u64::MAX);
        assert_eq!(verdict, Verdict::Hopeless);
        assert!(given_up.events() < whole.events() * 2 / 3, "{} of {}", given_up.events(), whole.events());
    }

    #[test]
    fn what_fails_by_little_is_finished() {
        let loads = [1.0, 1.5, 2.0, 2.5, 3.0].map(|load| (load, trial(load, false, u64::MAX)));
        let near = loads.iter().filter(|(_, (trial, _))| trial.decided().success() >= 0.864);
        assert!(near.clone().count() >= 2);
        for (load, (whole, verdict)) in near {
            let (again, same) = trial(*load, true, u64::MAX);
            assert_eq!((again.events(), same), (whole.events(), *verdict));
        }
    }

    #[test]
    fn what_is_too_dear_says_nothing() {
        let (trial, verdict) = trial(2.0, true, 20_000);
        assert_eq!(verdict, Verdict::TooDear);
        assert!(trial.events() < 20_000 + 8 * 512, "{}", trial.events());
    }
}
