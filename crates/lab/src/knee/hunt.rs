//! One search for a knee: which runs does it need next, and what do their outcomes say?
//!
//! A hunt goes through *rounds*, each a bisection of its own: first a rough one with few transactions a load, which makes
//! sure that no time is wasted far from the knee; then one that starts at what the rough one found, with as many
//! transactions as the work it may do allows. Within a round after the first, all loads are judged by the same seeds and
//! the same length of run, so that luck is the same at all of them.
//!
//! The work is counted in simulated events, never by a clock: the same question has the same answer on every machine.

use std::sync::Arc;

use glidepath_model::{Instant, Span};
use glidepath_sim::Counts;
use glidepath_workload::{End, Kind, SpecError};

use super::KneeError;
use super::crossing::{Cluster, Crossing, Decided, Judged, crossing as crossing_of, worst};
use super::found::Bound;
use super::plan::{Plan, deciding_share, limits};
use super::search::{Range, Search};
use crate::config::Point;
use crate::metrics::{Group, Metrics, window};
use crate::simulate::Outcome;

/// What a hunt is after, and how hard it tries.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The success at which a load holds.
    pub(super) threshold: f64,
    /// The load to begin with.
    pub(super) start: f64,
    /// No higher load is tried.
    pub(super) highest: f64,
    /// The rounds.
    pub(super) rounds: [Round; 2],
    /// If given, stretches of this length in the cycle from burst to burst are judged one by one, and the worst decides.
    pub(super) worst: Option<Span>,
    /// If given, the last round uses these seeds and runs of the configured length.
    pub(super) seeds: Option<Vec<u64>>,
    /// The first of the seeds where none are given.
    pub(super) first_seed: u64,
    /// Whether the transactions of the load that is found are wanted, or its rates only.
    pub(super) keep: bool,
    /// The work it should do, in events: it decides how many transactions judge a load.
    pub(super) events: u64,
    /// The work it may do, in events, once it has found any load that holds: then it stops short of its tolerance.
    pub(super) most_events: u64,
}

/// One bisection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Deciding transactions a load: at most so many, if there is work left for them.
    pub(super) deciding: f64,
    /// In so many runs at least.
    pub(super) fewest_runs: u64,
    /// The first step.
    pub(super) step: f64,
    /// Where it ends.
    pub(super) tolerance: f64,
}

/// Even with no work left, a load is judged by so many deciding transactions.
const FEWEST_DECIDING: f64 = 300.0;

/// A load is judged by so many clusters at least: from fewer, how far they differ is hardly known.
const CLUSTERS: usize = 16;

/// How many loads a round after the first may try: the work left is divided by it.
const LOADS: f64 = 5.0;

/// A search under way.
pub(super) struct Hunt {
    point: Point,
    task: Task,
    round: usize,
    search: Search,
    plan: Plan,
    trial: Option<Trial>,
    /// The highest load of this round that held; as long as there is none, the lowest that failed.
    best: Option<Trial>,
    held: bool,
    /// The loads of this round.
    judged: Vec<Judged>,
    work: Work,
}

/// What was simulated so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Events.
    pub(super) events: u64,
    /// Runs.
    pub(super) runs: u64,
    /// Virtual time.
    pub(super) seconds: f64,
}

/// A load, and the runs that judge it.
pub(super) struct Trial {
    load: f64,
    point: Arc<Point>,
    seeds: Vec<u64>,
    results: Vec<Option<RunResult>>,
}

/// What came of one run.
pub(super) struct RunResult {
    outcome: Option<Outcome>,
    events: u64,
    commits_per_s: f64,
    clusters: Vec<Cluster>,
}

/// One run to be made.
pub(super) struct Job {
    /// What to simulate.
    pub(super) point: Arc<Point>,
    /// With which seed.
    pub(super) seed: u64,
    /// Its place in the trial.
    pub(super) run: usize,
    /// Whether its transactions are wanted.
    pub(super) keep: bool,
    /// Clusters that its window is cut into.
    pub(super) clusters: usize,
    /// The length of the stretches of which the worst decides.
    pub(super) worst: Option<Span>,
}

/// What a hunt found.
pub(super) struct Found {
    /// The load that was found: the highest that held; the lowest tried if none did.
    pub(super) load: f64,
    /// Whether this is a knee.
    pub(super) bound: Bound,
    /// How far the lowest load that failed lies above it, as a share of it.
    pub(super) resolution: Option<f64>,
    /// Commits per second of the window where success crosses the threshold; where that is not known, at this load, on
    /// average over its runs; 0 if it did not hold.
    pub(super) commits_per_s: f64,
    /// Where success crosses the threshold, if there is a load that held and one that failed.
    pub(super) crossing: Option<Crossing>,
    /// The success that was judged by, where the worst stretch of a burst's cycle decides.
    pub(super) worst_success: Option<f64>,
    /// Transactions that decide and ended there.
    pub(super) deciding: u64,
    /// The deciding success of each run in which anything that decides ended.
    pub(super) success_by_run: Vec<f64>,
    /// The point at that load.
    pub(super) point: Arc<Point>,
    /// The seeds of its runs.
    pub(super) seeds: Vec<u64>,
    /// All its runs as one, if they were to be kept.
    pub(super) outcome: Outcome,
    /// What it took.
    pub(super) work: Work,
}

/// The transactions that decide: validated overwrites where there are any, else all.
pub(super) fn deciding(metrics: &Metrics) -> &Group {
    metrics.validated_overwrite.as_ref().unwrap_or(&metrics.all)
}

impl RunResult {
    /// What came of a job.
    pub(super) fn new(job: &Job, outcome: Outcome) -> Self {
        let commits_per_s = Metrics::of(&job.point, &outcome).all.throughput_per_s;
        Self {
            events: outcome.counts.events,
            commits_per_s,
            clusters: clusters(job, &outcome),
            outcome: job.keep.then_some(outcome),
        }
    }
}

/// What became of those that arrived in each part of the window.
fn clusters(job: &Job, outcome: &Outcome) -> Vec<Cluster> {
    let all_decide = job.point.config.transaction.fast_append >= 1.0;
    let window = window(job.point.config.duration);
    let length = window.end.since(window.start).as_nanos().max(1) as f64;
    let stretch = job.point.config.arrivals.burst.zip(job.worst);
    let parts = stretch.map_or(1, |(burst, worst)| burst.every.as_nanos().div_ceil(worst.as_nanos().max(1)) as usize);
    let one = Cluster { parts: vec![Decided::default(); parts], commits: 0 };
    let mut clusters = vec![one; job.clusters];
    for record in outcome.records.iter().filter(|record| window.contains(&record.arrived)) {
        let share = record.arrived.since(window.start).as_nanos() as f64 / length;
        let cluster = &mut clusters[((share * job.clusters as f64) as usize).min(job.clusters - 1)];
        let part = stretch.map_or(0, |(burst, worst)| burst.phase(record.arrived).as_nanos() / worst.as_nanos().max(1));
        let (decides, committed) =
            (all_decide || record.kind == Kind::ValidatedOverwrite, record.end == End::Committed);
        let part = &mut cluster.parts[part as usize];
        part.ended += u64::from(decides);
        part.committed += u64::from(decides && committed);
        cluster.commits += u64::from(committed);
    }
    clusters
}

impl Trial {
    fn complete(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    fn results(&self) -> impl Iterator<Item = &RunResult> {
        self.results.iter().flatten()
    }

    fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.results().flat_map(|run| &run.clusters)
    }

    /// Deciding transactions that ended.
    fn ended(&self) -> u64 {
        self.clusters().flat_map(|cluster| &cluster.parts).map(|part| part.ended).sum()
    }

    fn judged(&self) -> Judged {
        let clusters: Vec<Cluster> = self.clusters().cloned().collect();
        let window = window(self.point.config.duration);
        let windows_s = window.end.since(window.start).as_secs_f64() * self.seeds.len() as f64;
        Judged { load: self.load, cluster_s: windows_s / clusters.len().max(1) as f64, clusters }
    }

    fn events(&self) -> u64 {
        self.results().map(|run| run.events).sum()
    }
}

impl Hunt {
    pub(super) fn new(point: &Point, task: Task) -> Self {
        let plan = Plan::new(point, task.start, task.rounds[0].deciding, task.rounds[0].fewest_runs);
        let search = Search::new(range(point, &task, 0, task.start));
        let (point, work) = (point.clone(), Work::default());
        Self { point, task, round: 0, search, plan, trial: None, best: None, held: false, judged: Vec::new(), work }
    }

    /// The runs that the next load needs; `None` at the end. Ask again once all of them have been [taken](Self::take).
    ///
    /// # Errors
    /// The load makes no sense to the point's checks.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Job>>, SpecError> {
        let exhausted = self.work.events >= self.task.most_events && self.held;
        let mut load = self.search.next().filter(|_| !exhausted);
        if load.is_none() && self.round + 1 < self.task.rounds.len() {
            self.next_round();
            load = self.search.next();
        }
        let Some(load) = load else { return Ok(None) };
        if self.round == 0 {
            let round = self.task.rounds[0];
            self.plan = Plan::new(&self.point, load, round.deciding, round.fewest_runs);
        }
        let mut config = self.point.config.clone();
        config.arrivals.scale = Span::from_secs_f64(1.0 / load);
        config.duration = self.plan.duration;
        // Why: see `portrait`.
        config.run_on = Span::ZERO;
        let point = Arc::new(Point::new(config, self.point.profile.clone())?);
        let given = self.task.seeds.as_ref().filter(|_| self.round > 0);
        let seeds: Vec<u64> = given.cloned().unwrap_or_else(|| {
            let first = self.task.first_seed;
            (first..first.saturating_add(self.plan.runs)).collect()
        });
        // Bursts make clusters alike only if each holds as much of them.
        let bursts = point.config.arrivals.burst.map(|burst| burst.count_in(point.config.duration.half()).round());
        let clusters = bursts.map_or_else(|| CLUSTERS.div_ceil(seeds.len().max(1)), |count| count.max(1.0) as usize);
        let (keep, worst) = (self.task.keep, self.task.worst);
        let job = |(run, &seed)| Job { point: Arc::clone(&point), seed, run, keep, clusters, worst };
        let jobs = seeds.iter().enumerate().map(job).collect();
        let results = seeds.iter().map(|_| None).collect();
        self.trial = Some(Trial { load, point, seeds, results });
        Ok(Some(jobs))
    }

    /// Begins the next round where the last one ended.
    fn next_round(&mut self) {
        let per_deciding = self.best.as_ref().map(|trial| trial.events() as f64 / trial.ended().max(1) as f64);
        let start = match (self.search.holds(), self.search.fails()) {
            (Some(holds), Some(fails)) => (holds * fails).sqrt(),
            (holds, fails) => holds.or(fails).unwrap_or(self.task.start),
        };
        self.round += 1;
        self.search = Search::new(range(&self.point, &self.task, self.round, start));
        let left = self.task.events.saturating_sub(self.work.events) as f64;
        let affordable = left / LOADS / per_deciding.unwrap_or(f64::INFINITY);
        let Round { deciding, fewest_runs, .. } = self.task.rounds[self.round];
        self.plan = Plan::new(&self.point, start, affordable.max(FEWEST_DECIDING).min(deciding), fewest_runs);
        if self.task.seeds.is_some() {
            self.plan.duration = self.point.config.duration;
        }
        (self.best, self.held) = (None, false);
        self.judged.clear();
    }

    /// Takes a run's result; true when it was the last of its load.
    ///
    /// # Errors
    /// No transaction that could decide ended in any run of this load.
    pub(super) fn take(&mut self, run: usize, result: RunResult) -> Result<bool, KneeError> {
        let Some(trial) = &mut self.trial else { return Ok(false) };
        self.work.events += result.events;
        self.work.runs += 1;
        self.work.seconds += trial.point.config.duration.as_secs_f64();
        trial.results[run] = Some(result);
        if !trial.complete() {
            return Ok(false);
        }
        let Some(trial) = self.trial.take() else { return Ok(false) };
        if trial.ended() == 0 {
            let kind = if deciding_share(&self.point) < 1.0 { "validated overwrite" } else { "transaction" };
            return Err(KneeError::NothingEnds { kind, duration: trial.point.config.duration });
        }
        self.judged.push(trial.judged());
        let decided = worst(trial.clusters());
        let held = decided.committed as f64 >= self.task.threshold * decided.ended as f64;
        self.search.tell(trial.load, held);
        if held || !self.held {
            self.best = Some(trial);
        }
        self.held |= held;
        Ok(true)
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// What was found; `None` if nothing was ever tried.
    pub(super) fn found(self) -> Option<Found> {
        let (fails, exhausted) = (self.search.fails(), self.search.next().is_some());
        let trial = self.best?;
        let (ended, worst) = (trial.ended(), worst(trial.clusters()));
        let bound = match (self.held, fails) {
            (true, Some(_)) => Bound::Found,
            (true, None) if exhausted => Bound::Unfinished,
            (true, None) => Bound::AllHold,
            (false, _) => Bound::NothingHolds,
        };
        let of_run = |run: &RunResult| {
            let parts = run.clusters.iter().flat_map(|cluster| &cluster.parts);
            let sum = parts.fold((0, 0), |sum, one| (sum.0 + one.ended, sum.1 + one.committed));
            (sum.0 > 0).then(|| sum.1 as f64 / sum.0 as f64)
        };
        let success_by_run = trial.results().filter_map(of_run).collect();
        let mean = trial.results().map(|run| run.commits_per_s).sum::<f64>() / trial.seeds.len() as f64;
        let crossing = fails.filter(|_| self.held);
        let crossing = crossing.and_then(|fails| crossing_of(&self.judged, (trial.load, fails), self.task.threshold));
        let commits_per_s = crossing.map_or(mean, |crossing| crossing.commits_per_s);
        Some(Found {
            load: trial.load,
            bound,
            resolution: fails.filter(|_| self.held).map(|fails| fails / trial.load - 1.0),
            commits_per_s: if self.held { commits_per_s } else { 0.0 },
            crossing,
            worst_success: (worst.ended > 0 && self.task.worst.is_some()).then(|| worst.success()),
            deciding: ended,
            success_by_run,
            outcome: as_one(trial.results.into_iter().flatten().filter_map(|run| run.outcome)),
            point: trial.point,
            seeds: trial.seeds,
            work: self.work,
        })
    }
}

/// All runs as one.
pub(super) fn as_one(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let nothing =
        Outcome { records: Vec::new(), arrivals: Vec::new(), ended: Instant::ZERO, counts: Counts::default() };
    let join = |mut all: Outcome, one: Outcome| {
        all.records.extend(one.records);
        all.arrivals.extend(one.arrivals);
        all.ended = all.ended.max(one.ended);
        all.counts.events += one.counts.events;
        all.counts.processes += one.counts.processes;
        all.counts.most_alive = all.counts.most_alive.max(one.counts.most_alive);
        all
    };
    outcomes.reduce(join).unwrap_or(nothing)
}

fn range(point: &Point, task: &Task, round: usize, start: f64) -> Range {
    let (lowest, highest) = limits(point);
    let Round { step, tolerance, .. } = task.rounds[round];
    Range { start, step, tolerance, lowest, highest: highest.min(task.highest) }
}
