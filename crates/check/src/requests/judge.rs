//! Was every answer right, and is every version explained by what was asked?
//!
//! Goes through the versions once, with the catalog as it is in each:
//!
//! 1. What makes a version of the one before must be some requests of the process that wrote it, in the order of their calls:
//!    all that were told so, perhaps some whose outcome nobody knows, none that was told it was not done, none twice.
//! 2. A request that was told that it is done, and changes nothing, is right where the version it was told does not change by it;
//!    where a protocol may tell a later version, also where an earlier one of its time has room for it: it leads to the same
//!    entries with that request in its place.
//! 3. A refusal is right where a version that was the newest between call and answer, or a state between two requests of
//!    such a version, refuses the request for the same reason.
//! 4. A request that only asserts is in no version, so its outcome is never unknown. That it was done is right where such a state as
//!    in 3 allows it, of the version that it was told, or of the one before it as a batch found it; where a protocol may tell a
//!    later version, of an earlier one, too.
//! 5. What was looked up is what the version has, and the version was the newest at some moment of its loading.

use std::collections::BTreeMap;

use glidepath_model::{Instant, Version};

use super::book::{Asked, Book, Looked, Step, Told, Versions};
use super::explain::{Case, Explanation, Part, explain};
use super::rules::Rules;
use super::state::{Difference, State};

/// What the judge must know of a protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Whether a request is told exactly the version that it is in; else one that is not earlier.
    pub(crate) exact: bool,
    /// Requests that one version holds at least, where it changes anything or not.
    pub(crate) least: usize,
    /// Requests that one version holds at most.
    pub(crate) most: usize,
}

struct Judge<'a, R: Rules> {
    book: &'a Book<R>,
    terms: Terms,
    state: State<R::Key, R::Value>,
    /// By mark.
    indices: BTreeMap<u64, usize>,
    /// Of each group, those that were done or may have been, and are not found yet.
    open: BTreeMap<u32, Vec<usize>>,
    /// Of each request: the version that it was found in, or found to be right at.
    found_in: Vec<Option<Version>>,
    /// Of requests that were told a later version: one that they may have been in and changed nothing of, because others behind them
    /// in it undid what they did.
    undone_in: BTreeMap<usize, Version>,
    /// Refused, and not yet found to be right.
    refused: Vec<usize>,
    /// Told that what they assert holds, and not yet found to be right.
    asserted: Vec<usize>,
}

/// A state of a catalog that answers may rest on.
#[derive(Clone, Copy)]
struct Moment {
    /// From when to when it was so.
    during: (Instant, Instant),
    /// Whose requests it can have answered; `None`: anybody's.
    group: Option<u32>,
    /// Those that who asked here is told, at least, and at most where answers are exact.
    told: (Version, Version),
}

/// Judges a run; returns the last state. `group_of` tells whose requests the processes of the simulation commit; `None` of
/// one that commits none.
///
/// # Errors
/// What was not right, in words.
pub(crate) fn judge<R: Rules>(
    versions: &Versions<R>,
    book: &Book<R>,
    terms: Terms,
    group_of: impl Fn(u32) -> Option<u32>,
) -> Result<BTreeMap<R::Key, R::Value>, String> {
    let mut open = BTreeMap::<u32, Vec<usize>>::new();
    let (mut refused, mut asserted) = (Vec::new(), Vec::new());
    for (index, asked) in book.asked.iter().enumerate() {
        let only_asks = R::only_asks(&asked.request);
        match asked.told {
            Told::Done(_) if only_asks => asserted.push(index),
            Told::Nothing if only_asks => {}
            Told::Unknown if only_asks => return Err(format!("nothing to be unknown of: {}", asked.words())),
            Told::Done(_) | Told::Unknown | Told::Nothing => open.entry(asked.group).or_default().push(index),
            Told::Refused(_) => refused.push(index),
            Told::NotDone(_) => {}
        }
    }
    let indices = book.asked.iter().enumerate().map(|(index, asked)| (asked.mark, index)).collect();
    let found_in = vec![None; book.asked.len()];
    let (first, entries) = &versions.first;
    let state = State::new(entries.clone());
    let undone_in = BTreeMap::new();
    let mut judge = Judge { book, terms, state, indices, open, found_in, undone_in, refused, asserted };
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
    if let Some(looked) = book.looked.iter().find(|looked| !(*first..=before).contains(&looked.version)) {
        return Err(format!("writer {} loaded {}, which is not there", looked.writer, looked.version));
    }
    Ok(judge.state.now().clone())
}

impl<R: Rules> Judge<'_, R> {
    fn asked(&self, index: usize) -> &Asked<R> {
        &self.book.asked[index]
    }

    /// Step 1, and 3 for what lies between the requests of a version.
    fn version(&mut self, step: &Step<R>, group: Option<u32>) -> Result<(), String> {
        let taken = match group {
            Some(group) => self.explained(step, group)?,
            None if step.difference.is_empty() => Vec::new(),
            None => return Err(format!("{} was written by who was asked nothing, and changes entries", step.version)),
        };
        for index in &taken {
            let asked = self.asked(*index);
            if let Told::Done(_) = asked.told
                && !asked.spans(step.at)
            {
                return Err(format!(
                    "{} took effect before it was asked for, or after: {}",
                    step.version,
                    asked.words()
                ));
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

    /// The requests of a group that explain a version.
    fn explained(&mut self, step: &Step<R>, group: u32) -> Result<Vec<usize>, String> {
        let marked = self.marked(step, group)?;
        let parts = self.parts(step, group, &marked);
        let strict: Vec<Part> =
            parts.iter().copied().filter(|part| part.must || !R::is_marked(&self.asked(part.index).request)).collect();
        if let Some(taken) = self.explain(&strict, &step.difference, true)? {
            return Ok(taken);
        }
        // Some may have changed what others in the same version changed again. Where that takes too long to tell, what follows may
        // still tell.
        if let Explanation::Explained(taken) = self.search(&parts, &step.difference, false) {
            return Ok(taken);
        }
        // Some of those that were told this version may have changed nothing after it.
        let told = |part: &Part| matches!(self.asked(part.index).told, Told::Done(_)) && self.terms.exact;
        let loose: Vec<Part> = strict
            .iter()
            .map(|part| Part { must: part.must && (!told(part) || marked.contains(&part.index)), ..*part })
            .collect();
        if loose != strict
            && let Some(taken) = self.explain(&loose, &step.difference, true)?
        {
            return Ok(taken);
        }
        let parts: Vec<Part> = parts.iter().map(|part| Part { must: marked.contains(&part.index), ..*part }).collect();
        match self.explain(&parts, &step.difference, false)? {
            Some(taken) => Ok(taken),
            None => Err(self.unexplained(step, &parts)),
        }
    }

    /// The requests whose marks a version brings.
    fn marked(&self, step: &Step<R>, group: u32) -> Result<Vec<usize>, String> {
        let mut marked = Vec::new();
        for value in step.difference.values().flatten() {
            for mark in R::marks(value) {
                let Some(&index) = self.indices.get(&mark) else { continue };
                let asked = self.asked(index);
                if self.found_in[index].is_some() || marked.contains(&index) {
                    continue;
                }
                let possible = asked.group == group && asked.called <= step.at;
                let denied = matches!(asked.told, Told::Refused(_) | Told::NotDone(_));
                if denied || !possible {
                    return Err(format!("{} has what it should not: {}", step.version, asked.words()));
                }
                marked.push(index);
            }
        }
        Ok(marked)
    }

    fn parts(&self, step: &Step<R>, group: u32, marked: &[usize]) -> Vec<Part> {
        let open = self.open.get(&group).map(Vec::as_slice).unwrap_or_default();
        let mut parts = Vec::new();
        for &index in open {
            let asked = self.asked(index);
            if asked.called > step.at {
                break;
            }
            let must = match asked.told {
                Told::Done(version) if version == step.version => true,
                Told::Done(version) if self.terms.exact || version < step.version || !asked.spans(step.at) => continue,
                _ => marked.contains(&index),
            };
            parts.push(Part { index, must, by: asked.told.deadline() });
        }
        parts
    }

    fn search(&mut self, parts: &[Part], difference: &Difference<R::Key, R::Value>, strict: bool) -> Explanation {
        let Terms { least, most, .. } = self.terms;
        let case = Case { asked: &self.book.asked, parts, difference, strict, least, most };
        explain(&mut self.state, &case)
    }

    fn explain(
        &mut self,
        parts: &[Part],
        difference: &Difference<R::Key, R::Value>,
        strict: bool,
    ) -> Result<Option<Vec<usize>>, String> {
        match self.search(parts, difference, strict) {
            Explanation::Explained(taken) => Ok(Some(taken)),
            Explanation::Nothing => Ok(None),
            Explanation::Undecided => {
                Err("undecided: too many requests of unknown outcome may explain a version".to_owned())
            }
        }
    }

    fn unexplained(&self, step: &Step<R>, parts: &[Part]) -> String {
        let mut text = format!(
            "{} is not what was asked for. It changes {:?}. Requests that may be in it:",
            step.version,
            step.difference.iter().take(4).collect::<Vec<_>>()
        );
        let told = |part: &&Part| self.asked(part.index).told == Told::Done(step.version);
        for part in parts.iter().filter(told).chain(parts.iter().filter(|part| !told(part))).take(6) {
            text += &format!("\n  {}", self.asked(part.index).words());
        }
        text
    }

    /// Looks at each state between these requests.
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

    /// The same, where a request that nobody heard of may have been among these, and was undone in the same version: what it made
    /// was there for those behind it to be refused by.
    fn between_with_one_more(&mut self, taken: &[usize], group: u32, step: &Step<R>) {
        let during = (step.at, step.at);
        let waits = |index: &usize| self.asked(*index).group == group && self.asked(*index).meets(during);
        if !self.refused.iter().chain(&self.asserted).any(waits) {
            return;
        }
        let open = self.open.get(&group).map(Vec::as_slice).unwrap_or_default();
        let unheard = |index: &&usize| {
            let asked = self.asked(**index);
            matches!(asked.told, Told::Unknown | Told::Nothing) && asked.called <= step.at && !taken.contains(*index)
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

    /// Step 2, for requests that were told a later version than this one.
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

    /// Steps 3 and 4: which of the refused, and of those that only assert, are right by the state as it is.
    fn look_at_answers(&mut self, moment: Moment) {
        let Self { book, terms, state, refused, asserted, .. } = self;
        let mut decided = |index: usize| {
            let asked = &book.asked[index];
            if !asked.meets(moment.during) || moment.group.is_some_and(|group| group != asked.group) {
                return None;
            }
            let mark = state.mark();
            let decided = R::apply(state, &asked.request);
            state.back_to(mark);
            Some(decided)
        };
        refused.retain(|index| match (decided(*index), &book.asked[*index].told) {
            (Some(Err(refusal)), Told::Refused(told)) => refusal != *told,
            _ => true,
        });
        asserted.retain(|index| match book.asked[*index].told {
            Told::Done(told) if told >= moment.told.0 && (!terms.exact || told <= moment.told.1) => {
                !matches!(decided(*index), Some(Ok(())))
            }
            _ => true,
        });
    }

    /// While a version is the newest.
    fn rest(&mut self, version: Version, during: (Instant, Instant)) -> Result<(), String> {
        // Who asks in a batch is told the version that comes of it.
        self.look_at_answers(Moment { during, group: None, told: (version, version.next()) });
        self.changed_nothing(version, during)?;
        for looked in self.book.looked.iter().filter(|looked| looked.version == version) {
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

    /// Step 2: those that were told this version, and are not in it.
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
                let possible = told(index) || matches!(asked.told, Told::Unknown | Told::Nothing);
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
            return Err(format!("no version between call and answer refuses so: {}", self.asked(*index).words()));
        }
        if let Some(index) = self.asserted.first() {
            return Err(format!("no version between call and answer has it so: {}", self.asked(*index).words()));
        }
        let lost = |index: &&usize| matches!(self.asked(**index).told, Told::Done(_));
        if let Some(index) = self.open.values().flatten().find(lost) {
            return Err(format!("acknowledged, and in no version: {}", self.asked(*index).words()));
        }
        Ok(())
    }
}
