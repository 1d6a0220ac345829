//! Which requests and questions were asked, when, and what were the answers?

use std::collections::BTreeMap;

use glidepath_model::{CommitId, Instant, Version};

use super::rules::Rules;
use super::state::Difference;

/// A request and its answer.
pub(crate) struct Asked<R: Rules> {
    /// Writers of one group may share a version.
    pub(crate) group: u32,
    pub(crate) writer: u32,
    /// A unique mark that the request leaves in all that it writes.
    pub(crate) mark: u64,
    pub(crate) request: R::Request,
    pub(crate) called: Instant,
    /// `None` if the caller did not wait for the answer, or none came.
    pub(crate) answered: Option<Instant>,
    pub(crate) told: Told<R::Refusal>,
}

/// The answer to a caller.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told<F> {
    /// Committed as this version; or, if answers are not exact, in it or an earlier one.
    Done(Version),
    /// Committed by this commit; becomes [`Done`](Self::Done) when the versions are known.
    DoneBy(CommitId),
    /// Done, and nothing was written: the protocol has no versions to name.
    Idle,
    /// Refused by the rules of the catalog.
    Refused(F),
    /// Not done, for another reason.
    NotDone(String),
    /// It may have been done.
    Unknown,
    /// No answer: the caller was dropped, or died.
    Nothing,
}

/// A question about a version, and its answer.
pub(crate) struct Looked<R: Rules> {
    pub(crate) writer: u32,
    pub(crate) began: Instant,
    /// When the version was loaded; without versions, when the answer was there.
    pub(crate) loaded: Instant,
    /// `None` if the protocol has no versions: then the answer was right at some moment until `loaded`.
    pub(crate) version: Option<Version>,
    pub(crate) query: R::Query,
    pub(crate) found: R::Answer,
}

/// All requests and questions of a run, with their answers.
pub(crate) struct Book<R: Rules> {
    pub(crate) asked: Vec<Asked<R>>,
    pub(crate) looked: Vec<Looked<R>>,
    /// When a process was told that there is no catalog, that it is damaged, or that it had created it, although there
    /// was one, and whole.
    pub(crate) misled: Vec<(Instant, String)>,
    pub(crate) marks: u64,
}

impl<R: Rules> Default for Book<R> {
    fn default() -> Self {
        Self { asked: Vec::new(), looked: Vec::new(), misled: Vec::new(), marks: 0 }
    }
}

impl<R: Rules> Book<R> {
    /// A new mark.
    pub(crate) fn new_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }
}

/// The states of a catalog, version by version.
pub(crate) struct Versions<R: Rules> {
    pub(crate) first: (Version, BTreeMap<R::Key, R::Value>),
    pub(crate) steps: Vec<Step<R>>,
    /// The version that each commit made, if answers name commits.
    pub(crate) commits: BTreeMap<CommitId, Version>,
}

/// A version after the first.
pub(crate) struct Step<R: Rules> {
    pub(crate) version: Version,
    /// When it took effect.
    pub(crate) at: Instant,
    /// The process of the simulation that wrote it.
    pub(crate) by: u32,
    pub(crate) difference: Difference<R::Key, R::Value>,
}

impl<R: Rules> Versions<R> {
    /// Names the versions of requests that were answered with a commit.
    pub(crate) fn name_versions(&self, book: &mut Book<R>) -> Result<(), String> {
        for index in 0..book.asked.len() {
            if let Told::DoneBy(commit) = book.asked[index].told {
                let version = self.commits.get(&commit).copied();
                let lost = || format!("acknowledged, and in no version: {}", book.asked[index].words());
                book.asked[index].told = Told::Done(version.ok_or_else(lost)?);
            }
        }
        Ok(())
    }

    /// The newest.
    pub(crate) fn last(&self) -> Version {
        self.steps.last().map_or(self.first.0, |step| step.version)
    }
}

impl<R: Rules> Asked<R> {
    /// Whether an instant lies between call and answer.
    pub(crate) fn spans(&self, at: Instant) -> bool {
        self.called <= at && self.answered.is_none_or(|answered| at <= answered)
    }

    /// Whether some instant of a time, both ends included, lies between call and answer.
    pub(crate) fn meets(&self, (from, to): (Instant, Instant)) -> bool {
        self.called <= to && self.answered.is_none_or(|answered| from <= answered)
    }

    /// Whether nobody was told whether it was done: it may be in any version after its call, or in none.
    pub(crate) fn unheard(&self) -> bool {
        matches!(self.told, Told::Unknown | Told::Nothing)
    }

    pub(crate) fn words(&self) -> String {
        let seconds = |at: Instant| format!("{:.6} s", at.since(Instant::ZERO).as_secs_f64());
        let (called, answered) = (seconds(self.called), self.answered.map(seconds));
        let until = answered.map_or("never answered".to_owned(), |answered| format!("answered at {answered}"));
        format!(
            "request {} of writer {}, called at {called}, {until} ({}): {}",
            self.mark,
            self.writer,
            self.told.words(),
            R::words(&self.request)
        )
    }
}

impl<F> Told<F> {
    /// The last version that may contain it.
    pub(crate) fn deadline(&self) -> Version {
        match self {
            Self::Done(version) => *version,
            _ => Version(u64::MAX),
        }
    }
}

impl<F: std::fmt::Display> Told<F> {
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Done(version) => format!("done, {version}"),
            Self::DoneBy(commit) => format!("done, {commit}"),
            Self::Idle => "done, nothing to write".to_owned(),
            Self::Refused(refusal) => format!("refused: {refusal}"),
            Self::NotDone(cause) => format!("not done: {cause}"),
            Self::Unknown => "outcome unknown".to_owned(),
            Self::Nothing => "no answer".to_owned(),
        }
    }
}
