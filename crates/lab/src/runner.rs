//! How are many points run on all cores without losing finished runs?
//!
//! Workers take runs from one list, the heaviest first, and pass the results to one thread, which writes them to the
//! journal. The results are in the order of the plan, for any number of workers.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use glidepath_model::Span;
use glidepath_point::{MOST_AT_ONCE, Point, Underway, expected_arrivals, simulate_while};
use glidepath_run::{Journal, JournalError, parallel};
use glidepath_sim::Mode;

use crate::experiment::Experiment;
use crate::metrics::Metrics;
use crate::schema::{Provenance, SchemaError, TransactionFolder};

/// The journal's name in a folder of runs.
pub const JOURNAL: &str = "points.jsonl";

/// The share of a run after which its progress is told again.
const PART: f64 = 1.0 / 256.0;

/// Opens the journal of a folder's runs, and creates both if need be.
///
/// # Errors
/// The folder is unwritable, in use, or holds something else under the journal's name.
pub fn journal(folder: &Path) -> Result<Journal<Metrics>, JournalError> {
    Journal::open(folder, JOURNAL)
}

/// How to run.
pub struct Running<'a> {
    /// Runs at a time.
    pub threads: NonZeroUsize,
    /// Set by the caller to stop: running pieces are finished, and no new one begins.
    pub stop: &'a AtomicBool,
    /// Called after each finished run and during long ones, by one thread at a time.
    pub progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// The progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Finished runs, including earlier ones.
    pub done: usize,
    /// All runs: points times seeds, equal ones counted once.
    pub total: usize,
    /// Finished runs from the journal.
    pub found: usize,
    /// Simulated seconds so far, also of runs under way, without runs from the journal.
    pub simulated_s: f64,
    /// Expected work done so far, in arrivals, also of runs under way, without runs from the journal.
    pub arrivals_done: f64,
    /// Expected work in total, in arrivals, without runs from the journal.
    pub arrivals_total: f64,
}

/// The numbers of all runs, in the order of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    seeds: usize,
    metrics: Vec<Metrics>,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// All runs are done.
    Complete(Results),
    /// It was stopped; finished runs are in the journal.
    Stopped(Progress),
}

/// Why it could not continue. Earlier results are in the journal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal could not be written.
    #[error(
        "{cause}\nThe {done} runs finished so far are kept. Make room, and give the same command again to continue"
    )]
    Journal {
        /// Runs that are safe.
        done: usize,
        /// What happened.
        cause: JournalError,
    },
    /// The transactions of a run could not be written.
    #[error(
        "{cause}\nThe {done} runs finished so far are kept. Make room, and give the same command again to continue"
    )]
    Transactions {
        /// Runs that are safe.
        done: usize,
        /// What happened.
        cause: SchemaError,
    },
    /// A run would take too much memory.
    #[error(
        "with {every} between arrivals, more than {MOST_AT_ONCE} transactions were under way at once, and memory is not \
         taken for more: they arrive faster than they end. Give a larger --inter-arrival, or a shorter --duration (and \
         --set run_on=...)"
    )]
    Crowded {
        /// The point's `arrivals.scale`.
        every: Span,
    },
}

/// Why a run has no results.
#[derive(Debug)]
enum Missing {
    Unwritten(SchemaError),
    Crowded,
}

impl Results {
    /// For each point, its runs in the order of the seeds.
    pub fn points(&self) -> impl Iterator<Item = &[Metrics]> {
        self.metrics.chunks(self.seeds)
    }
}

/// Where results are kept.
pub struct Keeping<'a> {
    /// The journal of finished runs.
    pub journal: Journal<Metrics>,
    /// Where to write each run's transactions, if requested.
    pub transactions: Option<&'a Path>,
    /// The origin to record in the files.
    pub provenance: &'a Provenance,
}

/// One point with one seed.
struct Run<'a> {
    point: &'a Point,
    index: usize,
    seed: u64,
    key: String,
    arrivals: f64,
}

/// Runs all points and seeds of an experiment that are not done yet. Without a folder, results are only returned.
///
/// # Errors
/// Results could not be written.
pub fn run(experiment: &Experiment, keeping: Option<Keeping<'_>>, running: Running<'_>) -> Result<Ended, RunError> {
    let keys = keys(experiment);
    let (mut journal, transactions) = match keeping {
        None => (None, None),
        Some(Keeping { journal, transactions, provenance }) => {
            let folder = transactions.map(|path| TransactionFolder::create(path, experiment, provenance)).transpose();
            (Some(journal), folder.map_err(|cause| RunError::Transactions { done: 0, cause })?)
        }
    };
    let mut results: HashMap<String, Metrics> = HashMap::new();
    let mut todo: BTreeMap<&str, Run<'_>> = BTreeMap::new();
    for (number, key) in keys.iter().enumerate() {
        let (index, seed) = (number / experiment.seeds.len(), experiment.seeds[number % experiment.seeds.len()]);
        let written = transactions.as_ref().is_none_or(|folder| folder.has(index, seed, key));
        match journal.as_ref().and_then(|journal| journal.get(key)).filter(|_| written) {
            Some(metrics) => {
                results.insert(key.clone(), metrics.clone());
            }
            None => {
                let point = &experiment.points[index].point;
                let run = Run { point, index, seed, key: key.clone(), arrivals: expected_arrivals(point) };
                todo.entry(key).or_insert(run);
            }
        }
    }
    let mut todo: Vec<Run<'_>> = todo.into_values().collect();
    todo.sort_by(|a, b| b.arrivals.total_cmp(&a.arrivals).then(a.index.cmp(&b.index)).then(a.seed.cmp(&b.seed)));
    let stopped = work(&todo, &mut journal, transactions.as_ref(), &mut results, running)?;
    match stopped {
        Some(progress) => Ok(Ended::Stopped(progress)),
        None => {
            let metrics = keys.iter().filter_map(|key| results.get(key).cloned()).collect();
            Ok(Ended::Complete(Results { seeds: experiment.seeds.len(), metrics }))
        }
    }
}

/// The keys of all runs, in the order of the plan.
fn keys(experiment: &Experiment) -> Vec<String> {
    let of = |planned: &crate::experiment::PlannedPoint| {
        experiment.seeds.iter().map(|seed| planned.point.key(*seed)).collect::<Vec<_>>()
    };
    experiment.points.iter().flat_map(of).collect()
}

/// Runs these on several threads. Returns the progress if it was stopped before the end.
fn work(
    todo: &[Run<'_>],
    journal: &mut Option<Journal<Metrics>>,
    transactions: Option<&TransactionFolder<'_>>,
    results: &mut HashMap<String, Metrics>,
    Running { threads, stop, progress }: Running<'_>,
) -> Result<Option<Progress>, RunError> {
    let found = results.len();
    let arrivals_total = todo.iter().map(|run| run.arrivals).sum();
    let state = Progress { done: found, total: found + todo.len(), found, arrivals_total, ..Progress::default() };
    progress(state);
    let news = Mutex::new(News { state, underway: BTreeMap::new(), todo, progress });
    let work = |number: u64| {
        let mut part_done = |share: f64| {
            let mut news = locked(&news);
            news.underway.insert(number, share);
            news.tell();
        };
        todo[number as usize].execute(transactions, MOST_AT_ONCE, &mut part_done)
    };
    let take = |number: u64, outcome: Result<Metrics, Missing>| {
        let run = &todo[number as usize];
        let mut news = locked(&news);
        let state = news.state;
        let metrics = outcome.map_err(|missing| match missing {
            Missing::Unwritten(cause) => RunError::Transactions { done: state.done, cause },
            Missing::Crowded => RunError::Crowded { every: run.point.config.arrivals.scale },
        })?;
        if let Some(journal) = journal {
            let wrong = |cause| RunError::Journal { done: state.done, cause };
            journal.append(&run.key, &metrics).map_err(wrong)?;
        }
        results.insert(run.key.clone(), metrics);
        news.underway.remove(&number);
        news.state = run.done(state, 1.0);
        news.state.done += 1;
        news.tell();
        Ok(())
    };
    let ended = parallel::each(todo.len() as u64, threads, stop, work, take)?;
    let state = locked(&news).state;
    Ok((ended == parallel::Ended::Stopped).then_some(state))
}

/// What is told of the progress.
struct News<'a> {
    /// Of finished runs.
    state: Progress,
    /// The share that is done of each run under way, by its number.
    underway: BTreeMap<u64, f64>,
    todo: &'a [Run<'a>],
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

impl News<'_> {
    fn tell(&mut self) {
        let part = |state, (number, share): (&u64, &f64)| self.todo[*number as usize].done(state, *share);
        let state = self.underway.iter().fold(self.state, part);
        (self.progress)(state);
    }
}

/// A worker that panicked left nothing half done here.
fn locked<'a, 'b>(news: &'a Mutex<News<'b>>) -> MutexGuard<'a, News<'b>> {
    news.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run<'_> {
    /// The progress after a share of this run.
    fn done(&self, before: Progress, share: f64) -> Progress {
        Progress {
            simulated_s: before.simulated_s + share * self.point.config.duration.as_secs_f64(),
            arrivals_done: before.arrivals_done + share * self.arrivals,
            ..before
        }
    }

    /// `part_done` is called with the share that is done, of the longest that the run can be.
    fn execute(
        &self,
        transactions: Option<&TransactionFolder<'_>>,
        most_at_once: u64,
        part_done: &mut dyn FnMut(f64),
    ) -> Result<Metrics, Missing> {
        let longest_s = (self.point.config.duration + self.point.config.run_on).as_secs_f64();
        let (mut crowded, mut told) = (false, 0.0);
        let outcome = simulate_while(self.point, self.seed, Mode::LocalClocks, &mut |underway: Underway| {
            let share = (underway.reached.as_secs_f64() / longest_s).min(1.0);
            if share >= told + PART {
                told = share;
                part_done(share);
            }
            crowded = underway.at_once > most_at_once;
            !crowded
        });
        if crowded {
            return Err(Missing::Crowded);
        }
        if let Some(folder) = transactions {
            folder.write(self.index, self.seed, &self.key, &outcome).map_err(Missing::Unwritten)?;
        }
        Ok(Metrics::of(self.point, &outcome))
    }
}

#[cfg(test)]
mod tests;
