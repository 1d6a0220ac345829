//! One search for a knee: which runs does it need next, and what follows from their outcomes?
//!
//! A hunt has three stages. The first is a rough bisection with few transactions per load. The second bisects around
//! its result with more transactions: now all loads are judged with the same seeds and the same length of run, so that
//! they share their random numbers. The third makes more runs of the loads next to the knee, until its interval is
//! narrow enough (`narrowing`) or the budget is spent.
//!
//! Work is counted in simulated events, never by a clock, so the same question has the same answer on every machine. No
//! run begins that is likely to exceed the remaining budget; a run that does exceed it is stopped (`trial`).

use glidepath_model::Span;
use glidepath_point::Point;
use glidepath_workload::SpecError;

use super::KneeError;
use super::found::Reason;
use super::narrowing::{MOST_RUNS, next_runs};
use super::outcome::{Judgements, LeftOut};
use super::plan::{Plan, deciding_share, limits, longest};
use super::search::{Range, Search};
use super::trial::{Job, Rule, RunResult, Trial, Verdict};

/// The goal and the effort of a hunt.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The success at which a load holds.
    pub(super) threshold: f64,
    /// The load to begin with.
    pub(super) start: f64,
    /// No higher load is tried.
    pub(super) highest: f64,
    /// The first two stages.
    pub(super) rounds: [Round; 2],
    /// The half width of the 95 % interval at which the third stage ends, as a share of the knee.
    pub(super) within: f64,
    /// If given, the worst stretch of this length in the cycle from burst to burst decides.
    pub(super) worst: Option<Span>,
    /// If given, a commit counts only if it lands within this time.
    pub(super) commit_within: Option<Span>,
    /// If given, the second stage uses these seeds and runs of the configured length, and there is no third stage.
    pub(super) seeds: Option<Vec<u64>>,
    /// The first of the seeds, if none are given.
    pub(super) first_seed: u64,
    /// Whether to keep the transactions of the load that is found, or only its rates.
    pub(super) keep: bool,
    /// Its budget, in events.
    pub(super) events: u64,
}

/// One bisection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The approximate number of deciding transactions per load, budget permitting.
    pub(super) deciding: f64,
    /// The fewest runs per load.
    pub(super) fewest_runs: u64,
    /// The first step.
    pub(super) step: f64,
    /// The tolerance at which it ends.
    pub(super) tolerance: f64,
}

/// The fewest deciding transactions per load.
const FEWEST_DECIDING: f64 = 300.0;

/// The fewest clusters per load: fewer do not determine their spread.
const CLUSTERS: usize = 16;

/// The assumed number of loads of the second stage, for dividing the remaining budget.
const LOADS: f64 = 5.0;

/// The second stage begins with this number of deciding transactions per load, divided by the square of the requested
/// relative half width: 4,400 for 3 %, about half of what such an interval takes with fast appends only. The third
/// stage adds the rest.
const FIRST_LOOK: f64 = 4.0;

/// The greatest factor for more transactions in the first stage if the threshold requires it.
const MOST_ROUGH: f64 = 20.0;

/// The share of the remaining budget for one load of the first stage.
const ROUGH_SHARE: f64 = 0.3;

/// A load begins only if the remaining budget is at least this multiple of its expected work.
const SPARE: f64 = 1.2;

/// A load that exceeds its expected work by this factor is stopped, unless that is little of the remaining budget.
const EXPLOSION: f64 = 6.0;

/// The share of the remaining budget that counts as little.
const LITTLE: f64 = 0.15;

/// With a smaller remaining budget no load begins.
const FEWEST_EVENTS: f64 = 1000.0;

/// A running search.
pub(super) struct Hunt {
    pub(super) point: Point,
    pub(super) task: Task,
    stage: Stage,
    pub(super) search: Search,
    plan: Plan,
    /// The shortest run, from the observed times that transactions take to end.
    least: Span,
    /// Runs per load in the current stage; their length is the plan's.
    runs: u64,
    trial: Option<Trial>,
    /// The budget of the trial.
    most_events: u64,
    /// Runs that the trial had before it was extended.
    before: usize,
    /// The loads of this stage.
    pub(super) loads: Judgements,
    /// The loads of the first stage, once it has ended.
    pub(super) rough: Judgements,
    /// Loads that are to get more runs.
    to_extend: Vec<f64>,
    pub(super) work: Work,
    pub(super) reason: Option<Reason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rough,
    Fine,
    Ended,
}

/// What was simulated so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Events.
    pub(super) events: u64,
    /// Virtual time of complete runs.
    pub(super) seconds: f64,
}

impl Hunt {
    pub(super) fn new(point: &Point, mut task: Task) -> Self {
        task.rounds[0].deciding *= more_deciding(&task).min(MOST_ROUGH);
        let round = task.rounds[0];
        let plan = Plan::new(point, task.start, round.deciding, round.fewest_runs, Span::ZERO);
        let search = Search::new(range(point, &task, round, task.start));
        Self {
            point: point.clone(),
            task,
            stage: Stage::Rough,
            search,
            plan,
            least: Span::ZERO,
            runs: plan.runs,
            trial: None,
            most_events: 0,
            before: 0,
            loads: Judgements::default(),
            rough: Judgements::default(),
            to_extend: Vec::new(),
            work: Work::default(),
            reason: None,
        }
    }

    /// The next runs; `None` at the end. Call again once all of them have been [taken](Self::take).
    ///
    /// # Errors
    /// The point's checks refuse the load.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Job>>, SpecError> {
        loop {
            if let Some(trial) = &mut self.trial {
                return Ok(Some(trial.next_batch(self.most_events)));
            }
            if self.stage == Stage::Ended {
                return Ok(None);
            }
            match self.to_extend.pop().or_else(|| self.search.next()) {
                Some(load) => {
                    let (left, cost) = (self.left(), self.cost(load));
                    if left >= cost.map_or(FEWEST_EVENTS, |cost| SPARE * cost) {
                        self.begin(load)?;
                        let share = if self.stage == Stage::Rough { ROUGH_SHARE } else { 1.0 };
                        let explodes = cost.map_or(f64::INFINITY, |cost| (EXPLOSION * cost).max(LITTLE * left));
                        self.most_events = (share * left).min(explodes) as u64;
                    } else {
                        self.end(Some(Reason::BudgetSpent));
                    }
                }
                None => self.end_stage(),
            }
        }
    }

    /// The remaining budget, in events.
    fn left(&self) -> f64 {
        self.task.events.saturating_sub(self.work.events) as f64
    }

    /// The expected events of the missing runs of a load, from the nearest load with runs of the same length; `None`
    /// without such a load.
    fn cost(&self, load: f64) -> Option<f64> {
        let distance = |trial: &Trial| (trial.load / load).ln().abs();
        let trials = self.loads.trials().filter(|_| self.stage == Stage::Fine);
        let nearest = trials.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let has = if nearest.load == load { nearest.runs() as u64 } else { 0 };
        Some(nearest.events_of_run() * (load / nearest.load) * self.runs.saturating_sub(has) as f64)
    }

    /// Begins to judge a load, or to judge it by more runs.
    fn begin(&mut self, load: f64) -> Result<(), SpecError> {
        let mut trial = match self.loads.take(load) {
            Some(trial) => trial,
            None => self.new_trial(load)?,
        };
        self.before = trial.runs();
        let first = self.task.first_seed;
        let given = self.task.seeds.as_ref().filter(|_| self.stage != Stage::Rough);
        let seeds = given.cloned().unwrap_or_else(|| (first..first.saturating_add(self.runs)).collect());
        trial.extend_to(&seeds);
        self.trial = Some(trial);
        Ok(())
    }

    fn new_trial(&mut self, load: f64) -> Result<Trial, SpecError> {
        if self.stage == Stage::Rough {
            let round = self.task.rounds[0];
            self.plan = Plan::new(&self.point, load, round.deciding, round.fewest_runs, self.least);
            self.runs = self.plan.runs;
        }
        let mut config = self.point.config.clone();
        config.arrivals.scale = Span::from_secs_f64(1.0 / load);
        config.duration = self.plan.duration;
        // In the quarter of the run after its window, transactions of the window can end.
        config.run_on = Span::ZERO;
        // With bursts, clusters are comparable only if each has the same part of them.
        let bursts = config.arrivals.burst.map(|burst| burst.count_in(config.duration.half()).round());
        let clusters =
            bursts.map_or_else(|| CLUSTERS.div_ceil(self.plan.runs.max(1) as usize), |count| count.max(1.0) as usize);
        let Task { threshold, worst, commit_within, keep, .. } = self.task;
        let gives_up = load > limits(&self.point).0;
        let rule = Rule { threshold, clusters, worst, commit_within, keep, gives_up };
        Ok(Trial::new(load, self.point.with(config)?, rule))
    }

    /// Takes the result of a run; returns true if it was the last of the requested ones.
    ///
    /// # Errors
    /// No deciding transaction ended in any run of this load.
    pub(super) fn take(&mut self, place: usize, result: RunResult) -> Result<bool, KneeError> {
        let Some(trial) = &mut self.trial else { return Ok(false) };
        self.work.events += result.events;
        self.most_events = self.most_events.saturating_sub(result.events);
        self.work.seconds += trial.point.config.duration.as_secs_f64();
        if !trial.take(place, result) {
            return Ok(false);
        }
        let Some(verdict) = trial.verdict() else { return Ok(true) };
        let Some(mut trial) = self.trial.take() else { return Ok(true) };
        let (load, held) = (trial.load, verdict == Verdict::Held);
        let left_out = match verdict {
            Verdict::TooShort => LeftOut::TooShort,
            Verdict::TooDear => LeftOut::TooDear,
            _ => LeftOut::Fails,
        };
        match verdict {
            Verdict::Held | Verdict::Failed if trial.decided().ended == 0 => return Err(self.nothing_ends(&trial)),
            Verdict::TooShort if self.lengthen(&trial) => {
                if self.stage == Stage::Fine && !self.begin_fine_anew(load) {
                    self.end(Some(Reason::BudgetSpent));
                }
            }
            Verdict::Held | Verdict::Failed if self.before == 0 => {
                self.search.tell(load, held);
                self.loads.add(trial, held);
            }
            Verdict::Held | Verdict::Failed => {
                self.loads.add(trial, held);
                if self.to_extend.is_empty() {
                    // More runs may have changed the judgement of a load.
                    let (holds, fails) = self.loads.ends();
                    self.search.resume(holds, fails);
                }
            }
            _ if self.before == 0 => {
                self.search.tell(load, false);
                self.loads.leave_out(load, left_out);
            }
            _ => {
                // It was judged by fewer runs before, which still count.
                trial.shorten_to(self.before);
                let held = trial.verdict() == Some(Verdict::Held);
                self.loads.add(trial, held);
                self.end(Some(Reason::BudgetSpent));
            }
        }
        Ok(true)
    }

    /// No deciding transaction ended at this load.
    fn nothing_ends(&self, trial: &Trial) -> KneeError {
        // If the length of runs is given, more work does not help.
        if self.task.seeds.is_none() && (self.loads.any_unknown() || self.rough.any_unknown()) {
            return KneeError::BudgetSpent { load_per_s: trial.load };
        }
        let kind = if deciding_share(&self.point) < 1.0 { "validated overwrite" } else { "transaction" };
        KneeError::NothingEnds { kind, duration: trial.point.config.duration }
    }

    /// The longest run that may judge a load.
    pub(super) fn longest(&self) -> Span {
        if self.task.seeds.is_some() && self.stage != Stage::Rough { self.plan.duration } else { longest(&self.point) }
    }

    /// Makes later runs longer than those of this load, which were too short; returns false if they are at the maximum.
    fn lengthen(&mut self, trial: &Trial) -> bool {
        let (duration, longest) = (trial.point.config.duration, self.longest());
        let longer = trial.longer().unwrap_or(duration + duration).min(longest);
        let may = longer > duration;
        if may {
            self.least = longer;
        }
        may
    }

    /// Begins the second stage again, with longer runs; returns false if the budget does not suffice.
    fn begin_fine_anew(&mut self, load: f64) -> bool {
        self.loads.merge(std::mem::take(&mut self.rough));
        self.to_extend.clear();
        let (holds, fails) = self.loads.ends();
        self.search.resume(holds, Some(fails.map_or(load, |fails| fails.min(load))));
        self.begin_fine()
    }

    /// Continues after the last load of a stage.
    fn end_stage(&mut self) {
        if self.stage == Stage::Fine {
            self.narrow();
        } else if !self.begin_fine() {
            self.end(Some(Reason::BudgetSpent));
        }
    }

    fn end(&mut self, reason: Option<Reason>) {
        self.stage = Stage::Ended;
        self.reason = reason;
    }

    /// Begins the second stage at the result of the first; returns false if the budget does not suffice.
    fn begin_fine(&mut self) -> bool {
        let Some(best) = self.loads.best() else { return false };
        let per_deciding = best.events() as f64 / best.decided().ended.max(1) as f64;
        let start = match (self.search.holds(), self.search.fails()) {
            (Some(holds), Some(fails)) => (holds * fails).sqrt(),
            (holds, fails) => holds.or(fails).unwrap_or(self.task.start),
        };
        let affordable = self.left() / LOADS / per_deciding;
        if affordable < FEWEST_DECIDING {
            return false;
        }
        let round = self.task.rounds[1];
        let more = more_deciding(&self.task);
        let deciding = affordable.min(more * round.deciding);
        // The length is computed for all runs, so that it does not depend on how many are made at once.
        self.plan = Plan::new(&self.point, start, deciding, round.fewest_runs, self.least);
        let share = (more * FIRST_LOOK / (self.task.within * self.task.within) / deciding).min(1.0);
        let fewest = round.fewest_runs.min(self.plan.runs);
        self.plan.runs = ((share * self.plan.runs as f64).ceil() as u64).max(fewest);
        if let Some(seeds) = &self.task.seeds {
            self.plan = Plan { duration: self.point.config.duration, runs: seeds.len() as u64 };
        }
        self.runs = self.plan.runs;
        self.stage = Stage::Fine;
        self.search = Search::new(range(&self.point, &self.task, round, start));
        self.rough = std::mem::take(&mut self.loads);
        true
    }

    /// Requests more runs of the loads next to the knee, unless its interval is narrow enough or more runs cannot help.
    fn narrow(&mut self) {
        let Some((crossing, _)) = self.loads.crossing(&self.rough, self.task.threshold) else {
            return self.end(self.loads.undecided());
        };
        if crossing.is_within(self.task.within) {
            return self.end(Some(Reason::NarrowEnough));
        }
        if self.task.seeds.is_some() {
            return self.end(Some(Reason::SeedsGiven));
        }
        let next_to = self.loads.next_to_the_knee();
        let cost: f64 =
            self.loads.trials().filter(|trial| next_to.contains(&trial.load)).map(Trial::events_of_run).sum();
        let affordable = self.left() / SPARE / cost.max(1.0);
        match next_runs(self.runs, crossing.half_width(), self.task.within, affordable) {
            Some(runs) => {
                self.runs = runs;
                self.to_extend = next_to;
            }
            None => self.end(Some(if self.runs >= MOST_RUNS { Reason::MostRuns } else { Reason::BudgetSpent })),
        }
    }
}

/// The factor for deciding transactions, compared with a threshold of 95 %, that gives the same number of failures (or
/// successes).
fn more_deciding(task: &Task) -> f64 {
    const USUAL: f64 = 0.95 * (1.0 - 0.95);
    (USUAL / (task.threshold * (1.0 - task.threshold))).max(1.0)
}

fn range(point: &Point, task: &Task, Round { step, tolerance, .. }: Round, start: f64) -> Range {
    let (lowest, highest) = limits(point);
    Range { start, step, tolerance, lowest, highest: highest.min(task.highest) }
}
