//! What is the knee at each point of a sweep?
//!
//! [`without_load`] removes the loads from an experiment, because they are searched; [`run`] finds the knee of each
//! remaining point, several at a time, and journals every result. Results depend neither on the number of threads nor
//! on the order in which searches end: each is one [`find`] on one thread.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use glidepath_model::Span;
use glidepath_point::{MODEL_VERSION, Point};
use glidepath_run::{Journal, JournalError, parallel};
use sha2::{Digest, Sha256};

use crate::experiment::{Experiment, PlannedPoint};
use crate::knee::{self, Knee, KneeError, KneeOptions, find};
use crate::pictures::LOAD;

/// The journal's name in a folder of knees.
pub const JOURNAL: &str = "knees.jsonl";

/// Increased whenever the same question has another answer although the model is the same, so that knees of different
/// searches are not mixed.
const SEARCH_VERSION: u32 = 6;

/// How to run.
pub struct Running<'a> {
    /// Searches at a time.
    pub threads: NonZeroUsize,
    /// Set by the caller to stop: running searches are finished, and no new one begins.
    pub stop: &'a AtomicBool,
    /// Called from one thread with the number of finished knees and of all.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// All knees, in the order of the points.
    Complete(Vec<Knee>),
    /// It was stopped; finished knees are in the journal.
    Stopped {
        /// Finished knees.
        done: usize,
        /// All knees.
        total: usize,
    },
}

/// Why it could not continue. Earlier results are in the journal.
#[derive(Debug, thiserror::Error)]
pub enum KneesError {
    /// The journal could not be written.
    #[error("{cause}\nThe {done} knees found so far are kept. Make room, and give the same command again to continue")]
    Journal {
        /// Finished knees, which are kept.
        done: usize,
        /// The cause.
        cause: JournalError,
    },
    /// A knee cannot be searched at a point.
    #[error("{place}{cause}")]
    Knee {
        /// The point, followed by a colon; empty if there is only one.
        place: String,
        /// The cause.
        cause: KneeError,
    },
}

/// The experiment without its axis of loads: each combination of the other axes once. Its `arrivals.scale` has no
/// meaning.
#[must_use]
pub fn without_load(mut experiment: Experiment) -> Experiment {
    experiment.axes.retain(|axis| axis.key != LOAD);
    let mut points: Vec<PlannedPoint> = Vec::new();
    for mut planned in experiment.points {
        planned.coordinates.retain(|(key, _)| key != LOAD);
        planned.point.config.arrivals.scale = Span::from_secs(1);
        if !points.iter().any(|known| known.coordinates == planned.coordinates) {
            points.push(planned);
        }
    }
    Experiment { points, seeds: vec![1], ..experiment }
}

/// Checks the options for all points, before anything is run or written.
///
/// # Errors
/// An option out of its range, or one that does not apply to a point.
pub fn check(experiment: &Experiment, options: &KneeOptions) -> Result<(), KneesError> {
    let one = |planned: &PlannedPoint| knee::check(&planned.point, options).map_err(|cause| at(planned, cause));
    experiment.points.iter().try_for_each(one)
}

/// Opens the journal of a folder's knees, and creates both if need be.
///
/// # Errors
/// The folder is unwritable, in use, or holds something else under the journal's name.
pub fn journal(folder: &Path) -> Result<Journal<Knee>, JournalError> {
    Journal::open(folder, JOURNAL)
}

/// Finds the knees of all points that are not in the journal yet. `options.threads` is ignored.
///
/// # Errors
/// A point at which a knee cannot be searched; a journal that cannot be written.
pub fn run(
    experiment: &Experiment,
    options: &KneeOptions,
    mut journal: Option<Journal<Knee>>,
    running: Running<'_>,
) -> Result<Ended, KneesError> {
    let options = &KneeOptions { threads: NonZeroUsize::MIN, ..options.clone() };
    let keys: Vec<String> = experiment.points.iter().map(|planned| key(&planned.point, options)).collect();
    let mut found: HashMap<&str, Knee> = HashMap::new();
    let mut todo: Vec<Search<'_>> = Vec::new();
    for (planned, key) in experiment.points.iter().zip(&keys) {
        match journal.as_ref().and_then(|journal| journal.get(key)) {
            Some(knee) => {
                found.insert(key, knee.clone());
            }
            None if todo.iter().any(|search| search.key == *key) => {}
            None => todo.push(Search { key, planned }),
        }
    }
    let total = found.len() + todo.len();
    work(&todo, options, &mut journal, &mut found, running)?;
    if found.len() < total {
        return Ok(Ended::Stopped { done: found.len(), total });
    }
    Ok(Ended::Complete(keys.iter().filter_map(|key| found.get(key.as_str()).cloned()).collect()))
}

/// One knee to be found.
struct Search<'a> {
    key: &'a str,
    planned: &'a PlannedPoint,
}

impl Search<'_> {
    fn find(&self, options: &KneeOptions) -> Result<Knee, KneesError> {
        find(&self.planned.point, options, &|_| ()).map_err(|cause| at(self.planned, cause))
    }
}

fn at(planned: &PlannedPoint, cause: KneeError) -> KneesError {
    let words = |(key, value): &(String, String)| format!("{key} = {value}");
    let words = planned.coordinates.iter().map(words).collect::<Vec<_>>().join(", ");
    KneesError::Knee { place: if words.is_empty() { words } else { format!("{words}: ") }, cause }
}

/// Equal exactly if point, question and versions are equal.
fn key(point: &Point, options: &KneeOptions) -> String {
    // These options do not affect the knee.
    let KneeOptions {
        threshold,
        tolerance,
        within,
        worst,
        commit_within,
        seeds,
        first_seed,
        events,
        sensitivity: _,
        protocols: _,
        threads: _,
    } = options;
    let question = (threshold, tolerance, within, worst, commit_within, seeds, first_seed, events);
    let content = serde_json::to_vec(&(MODEL_VERSION, SEARCH_VERSION, question, point));
    // A structure of strings and numbers always has a JSON form.
    let content = content.unwrap_or_else(|error| panic!("a question has no JSON form: {error}"));
    Sha256::digest(content).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn work<'a>(
    todo: &[Search<'a>],
    options: &KneeOptions,
    journal: &mut Option<Journal<Knee>>,
    found: &mut HashMap<&'a str, Knee>,
    Running { threads, stop, progress }: Running<'_>,
) -> Result<(), KneesError> {
    let total = found.len() + todo.len();
    progress(found.len(), total);
    let search = |number: u64| todo[number as usize].find(options);
    let take = |number: u64, knee: Result<Knee, KneesError>| {
        let (key, knee, done) = (todo[number as usize].key, knee?, found.len());
        if let Some(journal) = journal {
            journal.append(key, &knee).map_err(|cause| KneesError::Journal { done, cause })?;
        }
        found.insert(key, knee);
        progress(done + 1, total);
        Ok(())
    };
    parallel::each(todo.len() as u64, threads, stop, search, take).map(drop)
}

#[cfg(test)]
mod tests;
