//! What is the result of a hunt? Which of the judged loads held, which did not, and what lies between.

use glidepath_point::{Point, SimulatedRun};

use super::KneeError;
use super::crossing::{Crossing, Judged, crossing, in_bracket, worst_part};
use super::found::{Bound, Reason};
use super::hunt::{Hunt, Work};
use super::narrowing::NEXT_TO;
use super::trial::Trial;
use crate::interval::Interval;

/// The loads of one stage.
#[derive(Default)]
pub(super) struct Judgements {
    /// Loads with all runs made; and whether they held.
    judged: Vec<(Trial, bool)>,
    /// Loads without all runs, or with runs that were too short; and what is known of them.
    left_out: Vec<(f64, LeftOut)>,
}

/// The reason why a load was not judged to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// It fails.
    Fails,
    /// Unknown: it takes too much work.
    TooDear,
    /// Unknown: it needs longer runs than allowed.
    TooShort,
}

/// The result of a hunt.
pub(super) struct KneeSearch {
    /// The load that was found: the highest that held; the lowest tried if none did.
    pub(super) load: f64,
    /// Whether this is a knee.
    pub(super) bound: Bound,
    /// What ended the search, if there is a knee.
    pub(super) reason: Option<Reason>,
    /// How far the lowest load that failed lies above it, as a share of it.
    pub(super) resolution: Option<f64>,
    /// Commits per second in the window at the crossing of the threshold; if that is unknown, at this load, averaged
    /// over its runs; 0 if it did not hold.
    pub(super) commits_per_s: f64,
    /// Where success crosses the threshold, if there is a load that held and one that failed.
    pub(super) crossing: Option<Crossing>,
    /// The deciding success, over all runs.
    pub(super) success: f64,
    /// Its 95 % interval; absent if unknown.
    pub(super) success_interval: Option<Interval>,
    /// The success in the worst stretch of a burst's cycle, if that decides.
    pub(super) worst_success: Option<f64>,
    /// Deciding transactions that ended at this load.
    pub(super) deciding: u64,
    /// The deciding success of each run in which deciding transactions ended.
    pub(super) success_by_run: Vec<f64>,
    /// The point at that load.
    pub(super) point: Point,
    /// The number of runs that judge it.
    pub(super) runs: usize,
    /// The runs with kept transactions, taken together; and their number.
    pub(super) outcome: (SimulatedRun, usize),
    /// The work it took.
    pub(super) work: Work,
}

impl Judgements {
    /// Records a load with all runs made.
    pub(super) fn add(&mut self, trial: Trial, held: bool) {
        self.judged.push((trial, held));
    }

    /// Records a load without all runs made.
    pub(super) fn leave_out(&mut self, load: f64, why: LeftOut) {
        self.left_out.push((load, why));
    }

    /// Adds the loads of another stage.
    pub(super) fn merge(&mut self, others: Self) {
        self.judged.extend(others.judged);
        self.left_out.extend(others.left_out);
    }

    /// Whether any load was left without a judgement.
    pub(super) fn any_unknown(&self) -> bool {
        self.left_out.iter().any(|(_, why)| *why != LeftOut::Fails)
    }

    /// Removes a load.
    pub(super) fn take(&mut self, load: f64) -> Option<Trial> {
        let place = self.judged.iter().position(|(trial, _)| trial.load == load)?;
        Some(self.judged.remove(place).0)
    }

    /// The loads with all runs made.
    pub(super) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.judged.iter().map(|(trial, _)| trial)
    }

    /// The highest load that held below the lowest that did not, and the latter. Loads without a judgement count as not
    /// held.
    pub(super) fn ends(&self) -> (Option<f64>, Option<f64>) {
        let of = |held: bool| self.judged.iter().filter(move |(_, holds)| *holds == held).map(|(trial, _)| trial.load);
        let fails = of(false).chain(self.left_out.iter().map(|(load, _)| *load)).min_by(f64::total_cmp);
        let holds = of(true).filter(|load| fails.is_none_or(|fails| *load < fails)).max_by(f64::total_cmp);
        (holds, fails)
    }

    /// The highest load below the lowest that did not hold which held not only by chance.
    fn surely_held(&self) -> Option<f64> {
        let (_, fails) = self.ends();
        let below = |load: f64| fails.is_none_or(|fails| load < fails);
        let held = self.judged.iter().filter(|(trial, held)| *held && below(trial.load) && trial.surely_held());
        held.map(|(trial, _)| trial.load).max_by(f64::total_cmp)
    }

    /// Why the lowest load that did not hold has no judgement; `None` if it is known to fail.
    pub(super) fn undecided(&self) -> Option<Reason> {
        let (_, fails) = self.ends();
        let of = |known: LeftOut| self.left_out.contains(&(fails.unwrap_or(f64::NAN), known));
        if of(LeftOut::TooShort) {
            return Some(Reason::RunsTooShort);
        }
        of(LeftOut::TooDear).then_some(Reason::BudgetSpent)
    }

    /// The highest load that held; if none did, the lowest that failed.
    pub(super) fn best(&self) -> Option<&Trial> {
        let (holds, fails) = self.ends();
        let best = holds.or(fails)?;
        self.trials().find(|trial| trial.load == best)
    }

    /// The loads that the knee is estimated from, the lowest last.
    pub(super) fn next_to_the_knee(&self) -> Vec<f64> {
        let (Some(holds), Some(fails)) = self.ends() else { return Vec::new() };
        let loads = self.trials().map(|trial| trial.load);
        let mut loads: Vec<f64> = loads.filter(|load| (holds / NEXT_TO..=fails * NEXT_TO).contains(load)).collect();
        loads.sort_by(|a, b| b.total_cmp(a));
        loads
    }

    /// The crossing of the threshold, and the width of the bracket; `None` without both ends.
    pub(super) fn crossing(&self, rough: &Self, threshold: f64) -> Option<(Crossing, f64)> {
        let (Some(holds), Some(fails)) = self.ends() else { return None };
        let resolution = fails / holds - 1.0;
        if self.undecided().is_some() {
            return None;
        }
        let [judged, rough]: [Vec<Judged>; 2] =
            [self, rough].map(|judgements| judgements.trials().map(Trial::judged).collect());
        if self.trials().any(|trial| trial.load == fails) {
            return Some((crossing(&judged, &rough, (holds, fails), threshold)?, resolution));
        }
        let low = judged.iter().find(|judged| judged.load == holds)?;
        Some((in_bracket(low, fails, threshold), resolution))
    }
}

impl Hunt {
    /// The highest load of both stages that surely held.
    fn surely_held(&self, fails: Option<f64>) -> Option<f64> {
        let held = [&self.loads, &self.rough].map(Judgements::surely_held).into_iter().flatten();
        held.filter(|load| fails.is_none_or(|fails| *load < fails)).max_by(f64::total_cmp)
    }

    /// The result.
    ///
    /// # Errors
    /// The budget was spent before any load held, and lower loads were left to try.
    pub(super) fn found(mut self) -> Result<KneeSearch, KneeError> {
        // If the later stages did not get far enough, the first stage's result is better.
        let both = |loads: &Judgements| matches!(loads.ends(), (Some(_), Some(_)));
        if !both(&self.loads) && self.rough.ends().0.is_some() {
            self.loads = std::mem::take(&mut self.rough);
        }
        let (holds, fails) = self.loads.ends();
        let bound = match (holds, fails) {
            (Some(_), Some(_)) if self.loads.undecided().is_none() => Bound::Found,
            (Some(_), None) if self.search.next().is_none() => Bound::AllHold,
            (Some(_), _) => Bound::Unfinished,
            (None, Some(_)) if self.search.next().is_none() && !self.loads.any_unknown() => Bound::NothingHolds,
            (None, _) => {
                let load_per_s = fails.unwrap_or(self.task.start);
                return Err(match self.loads.undecided() {
                    Some(Reason::RunsTooShort) => KneeError::TooShort { duration: self.longest() },
                    _ => KneeError::BudgetSpent { load_per_s },
                });
            }
        };
        let mut best = holds.or(fails);
        if bound == Bound::Unfinished {
            self.reason = self.loads.undecided().or(self.reason);
            // Other loads were to show whether this one held by chance. Without them, a lower one is the bound.
            best = self.surely_held(fails).or(best);
        }
        let (crossing, resolution) = self.loads.crossing(&self.rough, self.task.threshold).unzip();
        let taken = best.and_then(|load| self.loads.take(load).or_else(|| self.rough.take(load)));
        let Some(trial) = taken else { return Err(KneeError::BudgetSpent { load_per_s: self.task.start }) };
        // With few transactions the worst stretch may seem to succeed more often than all, which it cannot.
        let worst_part = self.task.worst.and_then(|_| worst_part(&trial.clusters().collect::<Vec<_>>()));
        let worst_success = worst_part.map(|worst| worst.success().min(trial.decided().success()));
        let mean = trial.judged().commits_per_s(None);
        let commits_per_s = crossing.map_or(mean, |crossing: Crossing| crossing.commits_per_s);
        Ok(KneeSearch {
            load: trial.load,
            bound,
            reason: self.reason.filter(|_| matches!(bound, Bound::Found | Bound::Unfinished)),
            resolution: fails.filter(|_| bound == Bound::Found).and(resolution),
            commits_per_s: if holds.is_some() { commits_per_s } else { 0.0 },
            crossing,
            success: trial.decided().success(),
            success_interval: trial.success_interval(),
            worst_success,
            deciding: trial.decided().ended,
            success_by_run: trial.success_by_run(),
            point: (*trial.point).clone(),
            runs: trial.runs(),
            outcome: trial.into_outcome(),
            work: self.work,
        })
    }
}
