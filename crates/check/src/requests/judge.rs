//! Was every answer right, and do the requests explain every version?
//!
//! Goes through the versions once, with the state of the catalog in each:
//!
//! 1. The step from one version to the next must consist of requests of the process that wrote it, in the order of
//!    their calls: all that were answered with this version, perhaps some of unknown outcome, none that was answered
//!    "not done", none twice.
//! 2. A request that was answered "done" but changes nothing is right if the reported version does not change by it. If
//!    a protocol may report a later version, it is also right if an earlier version, current between call and answer,
//!    stays the same with that request in its place.
//! 3. A refusal is right if a version that was the newest between call and answer, or a state between two requests of
//!    such a version, refuses the request for the same reason.
//! 4. A request that only asserts is in no version, so its outcome is never unknown. The answer "done" is right if a
//!    state as in 3 allows it: of the reported version, or of the version before it, which its batch found. If a
//!    protocol may report a later version, a state of an earlier one counts too.
//! 5. A lookup must return the entries of its version, and the version must have been the newest at some time during
//!    its load.

mod exchange;
mod inside;

use std::collections::BTreeMap;

use glidepath_model::{Instant, Version};

use super::book::{Asked, Book, Looked, Step, Told, Versions};
use super::explain::{Explanation, Part};
use super::rules::Rules;
use super::state::{Difference, State};

/// The properties of a protocol that the judge needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether the answer names exactly the version that contains the request; otherwise that one or a later one.
    pub(crate) exact: bool,
    /// The fewest requests of a version.
    pub(crate) least: usize,
    /// The most requests of a version.
    pub(crate) most: usize,
}

struct Judge<'a, R: Rules> {
    book: &'a Book<R>,
    terms: Terms,
    state: State<R::Key, R::Value>,
    /// Requests by mark.
    indices: BTreeMap<u64, usize>,
    /// Per group, the requests that were done or may have been, and are not found yet.
    open: BTreeMap<u32, Vec<usize>>,
    /// Per request: the version that contains it, or at which its answer is right.
    found_in: Vec<Option<Version>>,
    /// For requests whose answer names a later version: a version that may contain them without a visible change,
    /// because later requests in it undid theirs.
    undone_in: BTreeMap<usize, Version>,
    others: exchange::Others,
    /// Refusals that are not yet justified.
    refused: Vec<usize>,
    /// Requests that only assert and were answered "done", not yet justified.
    asserted: Vec<usize>,
    /// Requests that were answered "done, nothing to write", not yet justified.
    idle: Vec<usize>,
    /// Look-ups without a version, not yet justified, by index.
    sights: Vec<usize>,
}

/// A state of a catalog that can justify answers.
#[derive(Clone, Copy)]
struct Moment {
    /// From when to when it was current.
    during: (Instant, Instant),
    /// The group whose requests it can justify; `None`: every group's.
    group: Option<u32>,
    /// The least version that an answer based on this state names; also the greatest, if answers are exact.
    told: (Version, Version),
}

/// Judges a run; returns the last state. `group_of` maps a process of the simulation to the group whose requests it
/// commits.
///
/// # Errors
/// The first violation, in words.
pub(crate) fn judge<R: Rules>(
    versions: &Versions<R>,
    book: &Book<R>,
    terms: Terms,
    group_of: impl Fn(u32) -> Option<u32>,
) -> Result<BTreeMap<R::Key, R::Value>, String> {
    let mut open = BTreeMap::<u32, Vec<usize>>::new();
    let (mut refused, mut asserted, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for (index, asked) in book.asked.iter().enumerate() {
        let only_asks = R::only_asks(&asked.request);
        match asked.told {
            Told::Done(_) if only_asks => asserted.push(index),
            Told::Idle => idle.push(index),
            Told::Nothing if only_asks => {}
            Told::Unknown if only_asks => {
                return Err(format!("a request that only asserts has an unknown outcome: {}", asked.words()));
            }
            Told::Done(_) | Told::Unknown | Told::Nothing => open.entry(asked.group).or_default().push(index),
            Told::Refused(_) => refused.push(index),
            Told::NotDone(_) | Told::DoneBy(_) => {}
        }
    }
    let sights = (0..book.looked.len()).filter(|index| book.looked[*index].version.is_none()).collect();
    let indices = book.asked.iter().enumerate().map(|(index, asked)| (asked.mark, index)).collect();
    let found_in = vec![None; book.asked.len()];
    let (first, entries) = &versions.first;
    let state = State::new(entries.clone());
    let (undone_in, others) = (BTreeMap::new(), BTreeMap::new());
    let mut judge =
        Judge { book, terms, state, indices, open, found_in, undone_in, others, refused, asserted, idle, sights };
    let until = |next: usize| versions.steps.get(next).map_or(Instant::from_nanos(u64::MAX), |step| step.at);
    judge.rest(*first, (Instant::ZERO, until(0)))?;
    let mut before = *first;
    for (number, step) in versions.steps.iter().enumerate() {
        if step.version != before.next() {
            return Err(format!("{} follows {before}", step.version));
        }
        judge.version(step, group_of(step.by))?;
        judge.rest(step.version, (step.at, until(number + 1)))?;
        before = step.version;
    }
    judge.end()?;
    for Looked { writer, version, .. } in &book.looked {
        if let Some(version) = version.filter(|version| !(*first..=before).contains(version)) {
            return Err(format!("writer {writer} loaded {version}, which is not there"));
        }
    }
    Ok(judge.state.now().clone())
}

impl<R: Rules> Judge<'_, R> {
    fn asked(&self, index: usize) -> &Asked<R> {
        &self.book.asked[index]
    }

    /// Step 1, and step 3 for states between the requests of a version.
    fn version(&mut self, step: &Step<R>, group: Option<u32>) -> Result<(), String> {
        let taken = match group {
            Some(group) => self.explained(step, group)?,
            None if step.difference.is_empty() => Vec::new(),
            None => return Err(format!("{} changes entries, and its writer commits no requests", step.version)),
        };
        for index in &taken {
            let asked = self.asked(*index);
            if let Told::Done(_) = asked.told
                && !asked.spans(step.at)
            {
                return Err(format!("{} took effect outside the time of a request: {}", step.version, asked.words()));
            }
            self.found_in[*index] = Some(step.version);
        }
        if let Some(group) = group {
            self.between(&taken, group, (step.at, step.at), step.version);
            self.undone(&taken, group, step);
            self.between_with_one_more(&taken, group, step);
            if let Some(open) = self.open.get_mut(&group) {
                open.retain(|index| self.found_in[*index].is_none());
            }
        }
        self.state.advance(&step.difference);
        Ok(())
    }

    /// Visits each state between these requests.
    fn between(&mut self, taken: &[usize], group: u32, during: (Instant, Instant), version: Version) {
        let moment = Moment { during, group: Some(group), told: (version, version) };
        for index in taken {
            let (mark, request) = (self.state.mark(), &self.book.asked[*index].request);
            if R::apply(&mut self.state, request).is_err() {
                self.state.back_to(mark);
            }
            self.look_at_answers(moment);
        }
        self.state.back_to(0);
    }

    /// The same, but a request without an answer may have been among these and may have been undone in the same
    /// version: later requests may have been refused because of it.
    fn between_with_one_more(&mut self, taken: &[usize], group: u32, step: &Step<R>) {
        let during = (step.at, step.at);
        let waits = |index: &usize| self.asked(*index).group == group && self.asked(*index).meets(during);
        if !self.refused.iter().chain(&self.asserted).any(waits) {
            return;
        }
        let open = self.open.get(&group).map(Vec::as_slice).unwrap_or_default();
        let unheard = |index: &&usize| {
            let asked = self.asked(**index);
            asked.unheard() && asked.called <= step.at && !taken.contains(*index)
        };
        for more in open.iter().filter(unheard).copied().collect::<Vec<_>>() {
            let mut all = [taken, &[more]].concat();
            all.sort_unstable();
            let part = |index: &usize| Part { index: *index, must: true, by: step.version };
            let parts: Vec<Part> = all.iter().map(part).collect();
            if let Explanation::Explained(_) = self.search(&parts, &step.difference, false) {
                self.between(&all, group, during, step.version);
            }
        }
    }

    /// Step 2, for requests whose answer names a later version than this one.
    fn undone(&mut self, taken: &[usize], group: u32, step: &Step<R>) {
        let open = self.open.get(&group).map(Vec::as_slice).unwrap_or_default();
        let told_later = |index: &&usize| {
            let asked = self.asked(**index);
            matches!(asked.told, Told::Done(told) if told > step.version) && asked.spans(step.at)
        };
        let later: Vec<usize> =
            open.iter().filter(told_later).filter(|index| !taken.contains(*index)).copied().collect();
        if self.terms.exact || later.is_empty() {
            return;
        }
        let mut all = taken.to_vec();
        for more in later {
            let mut with = [all.as_slice(), &[more]].concat();
            with.sort_unstable();
            let part = |index: &usize| Part { index: *index, must: true, by: step.version };
            let parts: Vec<Part> = with.iter().map(part).collect();
            if let Explanation::Explained(_) = self.search(&parts, &step.difference, false) {
                self.undone_in.insert(more, step.version);
                all = with;
            }
        }
        if all.len() > taken.len() {
            self.between(&all, group, (step.at, step.at), step.version);
        }
    }

    /// Steps 3 and 4: which refusals and assertions the current state justifies.
    fn look_at_answers(&mut self, moment: Moment) {
        let Self { book, terms, state, refused, asserted, idle, .. } = self;
        let mut decided = |index: usize| {
            let asked = &book.asked[index];
            if !asked.meets(moment.during) || moment.group.is_some_and(|group| group != asked.group) {
                return None;
            }
            let mark = state.mark();
            let decided = R::apply(state, &asked.request).map(|()| state.is_as_at(mark));
            state.back_to(mark);
            Some(decided)
        };
        idle.retain(|index| !matches!(decided(*index), Some(Ok(true))));
        refused.retain(|index| match (decided(*index), &book.asked[*index].told) {
            (Some(Err(refusal)), Told::Refused(told)) => refusal != *told,
            _ => true,
        });
        asserted.retain(|index| match book.asked[*index].told {
            Told::Done(told) if told >= moment.told.0 && (!terms.exact || told <= moment.told.1) => {
                !matches!(decided(*index), Some(Ok(_)))
            }
            _ => true,
        });
    }

    /// While a version is the newest.
    fn rest(&mut self, version: Version, during: (Instant, Instant)) -> Result<(), String> {
        // A request of a batch is answered with the version that the batch made.
        self.look_at_answers(Moment { during, group: None, told: (version, version.next()) });
        self.changed_nothing(version, during)?;
        let shows = |looked: &Looked<R>| {
            looked.began <= during.1
                && looked.loaded >= during.0
                && R::found(&self.state, &looked.query) == looked.found
        };
        self.sights.retain(|index| !shows(&self.book.looked[*index]));
        for looked in self.book.looked.iter().filter(|looked| looked.version == Some(version)) {
            if looked.began > during.1 || looked.loaded < during.0 {
                let words = "was not the newest while writer";
                return Err(format!("{version} {words} {} loaded it: {:?}", looked.writer, looked.query));
            }
            let there = R::found(&self.state, &looked.query);
            if there != looked.found {
                let Looked { writer, query, found, .. } = looked;
                return Err(format!(
                    "writer {writer} asked {version} {query:?}\n  found {found:?}\n  there is {there:?}"
                ));
            }
        }
        Ok(())
    }

    /// Step 2: requests that were answered with this version and are not in it.
    fn changed_nothing(&mut self, version: Version, during: (Instant, Instant)) -> Result<(), String> {
        let groups: Vec<u32> = self.open.keys().copied().collect();
        for group in groups {
            let open = &self.open[&group];
            let told = |index: &usize| self.asked(*index).told == Told::Done(version);
            if !open.iter().any(|index| told(index) && self.found_in[*index].is_none()) {
                continue;
            }
            let undone = |index: &usize| self.undone_in.contains_key(index);
            let part = |index: &usize| {
                let asked = self.asked(*index);
                let possible = told(index) || asked.unheard();
                let must = told(index) && !undone(index);
                let part = Part { index: *index, must, by: self.asked(*index).told.deadline() };
                (possible && asked.meets(during)).then_some(part)
            };
            let parts: Vec<Part> = open.iter().filter_map(part).collect();
            let late: Vec<usize> = open
                .iter()
                .copied()
                .filter(|index| told(index) && !undone(index) && !self.asked(*index).meets(during))
                .collect();
            let elsewhere: Vec<usize> = open.iter().copied().filter(|index| told(index) && undone(index)).collect();
            let terms = Terms { least: 0, most: usize::MAX, ..self.terms };
            let before = std::mem::replace(&mut self.terms, terms);
            let taken = self.explain(&parts, &Difference::new(), false);
            self.terms = before;
            let wrong = |index: usize| format!("{} is not there: {}", version, self.asked(index).words());
            if let Some(index) = late.first() {
                return Err(wrong(*index));
            }
            let Some(taken) = taken? else {
                let first = parts.iter().find(|part| part.must).map_or(0, |part| part.index);
                return Err(wrong(first));
            };
            for index in &taken {
                self.found_in[*index] = Some(version);
            }
            self.between(&taken, group, during, version);
            for index in elsewhere {
                self.found_in[index] = self.found_in[index].or(self.undone_in.get(&index).copied());
            }
            if let Some(open) = self.open.get_mut(&group) {
                open.retain(|index| self.found_in[*index].is_none());
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), String> {
        if let Some(index) = self.refused.first() {
            return Err(format!(
                "no version between call and answer gives this refusal: {}",
                self.asked(*index).words()
            ));
        }
        if let Some(index) = self.asserted.first() {
            return Err(format!(
                "no version between call and answer fulfils this assertion: {}",
                self.asked(*index).words()
            ));
        }
        if let Some(index) = self.idle.first() {
            return Err(format!(
                "no version between call and answer stays as it is by this: {}",
                self.asked(*index).words()
            ));
        }
        if let Some(index) = self.sights.first() {
            let Looked { writer, query, found, began, loaded, .. } = &self.book.looked[*index];
            let seconds = |at: &Instant| at.since(Instant::ZERO).as_secs_f64();
            return Err(format!(
                "no version from {:.6} s to {:.6} s gives writer {writer} this answer to {query:?}\n  found {found:?}",
                seconds(began),
                seconds(loaded)
            ));
        }
        let lost = |index: &&usize| matches!(self.asked(**index).told, Told::Done(_));
        if let Some(index) = self.open.values().flatten().find(lost) {
            return Err(format!("acknowledged, and in no version: {}", self.asked(*index).words()));
        }
        Ok(())
    }
}
