//! One search for a knee: which runs does it need next, and what do their outcomes say?
//!
//! A hunt goes through *rounds*, each a bisection of its own: first a rough one with few transactions a load, which makes
//! sure that no time is wasted far from the knee; then one that starts at what the rough one found, with as many
//! transactions as the work it may do allows. Within a round after the first, all loads are judged by the same seeds and
//! the same length of run, so that luck is the same at all of them.
//!
//! The work is counted in simulated events, never by a clock: the same question has the same answer on every machine.

use std::sync::Arc;

use glidepath_model::Span;
use glidepath_sim::Counts;
use glidepath_workload::SpecError;

use super::KneeError;
use super::found::Bound;
use super::noise::{Tried, relative_error};
use super::plan::{Plan, deciding_share, limits};
use super::search::{Range, Search};
use crate::config::Point;
use crate::metrics::{Group, Metrics};
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
    /// If given, the last round uses these seeds and runs of the configured length.
    pub(super) seeds: Option<Vec<u64>>,
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
    tried: Vec<Tried>,
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
    ended: u64,
    committed: u64,
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
}

/// What a hunt found.
pub(super) struct Found {
    /// The load that was found: the highest that held; the lowest tried if none did.
    pub(super) load: f64,
    /// Whether this is a knee.
    pub(super) bound: Bound,
    /// How far the lowest load that failed lies above it, as a share of it.
    pub(super) resolution: Option<f64>,
    /// Commits per second of the window at this load, on average over its runs; 0 if it did not hold.
    pub(super) commits_per_s: f64,
    /// Transactions that decide and ended there.
    pub(super) deciding: u64,
    /// One standard error of the load, as a share of it; absent where the loads tried show no slope.
    pub(super) relative_error: Option<f64>,
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
        let metrics = Metrics::of(&job.point, &outcome);
        let group = deciding(&metrics);
        Self {
            events: outcome.counts.events,
            commits_per_s: metrics.all.throughput_per_s,
            ended: group.window_ended,
            committed: group.window_committed,
            outcome: job.keep.then_some(outcome),
        }
    }
}

impl Trial {
    fn complete(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    fn results(&self) -> impl Iterator<Item = &RunResult> {
        self.results.iter().flatten()
    }

    /// Deciding transactions that ended, and of these those that committed.
    fn decided(&self) -> (u64, u64) {
        self.results().fold((0, 0), |(ended, committed), run| (ended + run.ended, committed + run.committed))
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
        Self { point, task, round: 0, search, plan, trial: None, best: None, held: false, tried: Vec::new(), work }
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
        let point = Arc::new(Point::new(config, self.point.profile.clone())?);
        let given = self.task.seeds.as_ref().filter(|_| self.round > 0);
        let seeds: Vec<u64> = given.cloned().unwrap_or_else(|| (1..=self.plan.runs).collect());
        let job = |(run, &seed)| Job { point: Arc::clone(&point), seed, run, keep: self.task.keep };
        let jobs = seeds.iter().enumerate().map(job).collect();
        let results = seeds.iter().map(|_| None).collect();
        self.trial = Some(Trial { load, point, seeds, results });
        Ok(Some(jobs))
    }

    /// Begins the next round where the last one ended.
    fn next_round(&mut self) {
        let per_deciding = self.best.as_ref().map(|trial| trial.events() as f64 / trial.decided().0.max(1) as f64);
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
        let (ended, committed) = trial.decided();
        if ended == 0 {
            let kind = if deciding_share(&self.point) < 1.0 { "validated overwrite" } else { "transaction" };
            return Err(KneeError::NothingEnds { kind, duration: trial.point.config.duration });
        }
        self.tried.push(Tried { load: trial.load, ended, committed });
        let held = committed as f64 >= self.task.threshold * ended as f64;
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
        let (ended, committed) = trial.decided();
        let bound = match (self.held, fails) {
            (true, Some(_)) => Bound::Found,
            (true, None) if exhausted => Bound::Unfinished,
            (true, None) => Bound::AllHold,
            (false, _) => Bound::NothingHolds,
        };
        let of_run = |run: &RunResult| (run.ended > 0).then(|| run.committed as f64 / run.ended as f64);
        let success_by_run = trial.results().filter_map(of_run).collect();
        let commits_per_s = trial.results().map(|run| run.commits_per_s).sum::<f64>() / trial.seeds.len() as f64;
        let relative_error = relative_error(&self.tried, Tried { load: trial.load, ended, committed });
        Some(Found {
            load: trial.load,
            bound,
            resolution: fails.filter(|_| self.held).map(|fails| fails / trial.load - 1.0),
            commits_per_s: if self.held { commits_per_s } else { 0.0 },
            deciding: ended,
            relative_error: relative_error.filter(|_| bound == Bound::Found),
            success_by_run,
            outcome: as_one(trial.results.into_iter().flatten().filter_map(|run| run.outcome)),
            point: trial.point,
            seeds: trial.seeds,
            work: self.work,
        })
    }
}

fn as_one(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let nothing = Outcome { records: Vec::new(), arrivals: Vec::new(), counts: Counts::default() };
    let join = |mut all: Outcome, one: Outcome| {
        all.records.extend(one.records);
        all.arrivals.extend(one.arrivals);
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
