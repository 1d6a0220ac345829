//! A line of processes that commit to one table: who is next?
//!
//! The process that has just committed to a table knows its newest version; the others must read it first, and by then
//! it may have moved again. So a process that was overtaken waits in line for its turn. The line is in the properties
//! of the table's entry in the catalog:
//!
//! 1. *Join*: set a property of one's own, [`PLACE`] and a random text, to a number greater than all others there, and
//!    the property [`LINE`], which says that there is a line.
//! 2. *Respect*: who is not in the line commits only on the assertion that there is none. If there is one, it joins.
//! 3. *Take*: the first in the line commits on the assertion that its property is there, and removes it; with the last
//!    one, [`LINE`] too.
//! 4. *Pass over*: who sees the same one first for [`PATIENCE`] takes it for dead or slow, and removes its property
//!    with the next commit. If that one still lives, it joins again. All that live do the same at about the same time,
//!    and the next of them commits soon; so if the line does not move then either, all before one's own place are
//!    passed over. Nobody waits in line for longer than ten seconds, so who has joined long before that is passed over
//!    at once.
//!
//! What conflicts with each commit since it was prepared, such as an overwrite, does not wait: it would only conflict
//! for sure.
//!
//! Nothing depends on the line but who comes first.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_model::{Action, Assertion, Instant, Name, Span};

mod several;

pub use several::{Turns, Waited};

/// The property of a table's entry that says that there is a line.
pub const LINE: &str = "glidepath.line";

/// The beginning of the properties that are places in it.
pub const PLACE: &str = "glidepath.line.";

/// How long a process waits for the one that is first.
pub const PATIENCE: Span = Span::from_secs(2);

/// The same for the next one, when the first was passed over.
const PATIENCE_AFTER: Span = Span::from_millis(500);

/// Above all numbers of places: those are times of day in milliseconds.
const GREATEST: u64 = 1 << 53;

/// How long a table counts as one that other processes commit to as well, after one was seen to.
pub const SHARED: Span = Span::from_secs(10);

/// How long it waits at all.
const LONGEST: Span = Span::from_secs(10);

/// The age in milliseconds at which a place is taken for dead: twice the longest wait, since clocks differ.
const OLD_MS: u64 = 20_000;

/// How long it waits before it looks again, at first.
const LOOK: Span = Span::from_millis(10);

/// The same, at most.
pub const LONGEST_LOOK: Span = Span::from_millis(40);

/// The line at a table, as its entry has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The value of [`LINE`].
    open: Option<String>,
    /// The places: number and property. The least is first.
    places: BTreeSet<(u64, String)>,
}

impl Line {
    /// What removes a line from the properties of an entry that gets another name: whoever waits there waits elsewhere
    /// then.
    #[must_use]
    pub fn removal(properties: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
        let is_of_it = |key: &&String| *key == LINE || key.starts_with(PLACE);
        properties.keys().filter(is_of_it).map(|key| (key.clone(), None)).collect()
    }

    /// Takes it out of the properties of a table's entry.
    pub fn take(properties: &mut BTreeMap<String, String>) -> Self {
        if !properties.contains_key(LINE) && properties.range(PLACE.to_owned()..).next().is_none() {
            return Self::default();
        }
        let open = properties.remove(LINE);
        let (places, others) = std::mem::take(properties).into_iter().partition(|(key, _)| key.starts_with(PLACE));
        *properties = others;
        // What is no number that a process chose comes first, so that it is passed over soon.
        let number = |text: &str| text.parse().ok().filter(|number| *number < GREATEST).unwrap_or(0);
        let numbered = |(key, text): (String, String)| (number(&text), key);
        Self { open, places: BTreeMap::into_iter(places).map(numbered).collect() }
    }
}

/// What a process knows of a line, while it commits to the table.
#[derive(Debug, Default)]
struct Turn {
    line: Line,
    /// Its own place, as long as it may be there.
    own: Option<(u64, String)>,
    /// Places that are passed over.
    passed: BTreeSet<String>,
    /// Whether the first was passed over, and the line has not moved since.
    stuck: bool,
    /// Whether an attempt was lost.
    lost: bool,
    /// Whether it commits without regard to the line.
    free: bool,
    wait: Option<Wait>,
    /// Turns of others that were waited for.
    turns: u64,
}

#[derive(Debug)]
struct Wait {
    began: Instant,
    /// Who is first, and since when.
    first: Option<(u64, String)>,
    since: Instant,
    look: Span,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is this one's turn: commit.
    Go,
    /// Join the line, wait that long, and look again.
    JoinAndWait(Span),
    /// Wait that long, and look again.
    Wait(Span),
}

impl Turn {
    /// This is the line at this time, by the process's own clock and by the time of day. `patient`: pass nobody over.
    fn see(&mut self, line: Line, (now, unix_ms): (Instant, u64), patient: bool) -> Next {
        self.line = line;
        // Another one passed it over.
        self.own.take_if(|own| !self.line.places.contains(own));
        if self.free {
            return Next::Go;
        }
        if !patient {
            self.pass_over(|(number, _)| number + OLD_MS < unix_ms);
        }
        while let Some(first) = self.ahead() {
            let wait = self.wait.take().unwrap_or(Wait { began: now, first: None, since: now, look: LOOK });
            let wait = match &wait.first {
                Some(same) if *same == first => wait,
                before => {
                    self.turns += 1;
                    // It has moved, if the one before left by itself.
                    self.stuck &= before.as_ref().is_some_and(|(_, key)| self.passed.contains(key));
                    Wait { first: Some(first.clone()), since: now, ..wait }
                }
            };
            let (begun, since, look) = (wait.began, wait.since, wait.look);
            self.wait = Some(Wait { look: (look + look).min(LONGEST_LOOK), ..wait });
            if !patient && now >= begun + LONGEST {
                break;
            }
            let patience = if self.stuck { PATIENCE_AFTER } else { PATIENCE };
            if !patient && now >= since + patience {
                let all = std::mem::replace(&mut self.stuck, true);
                let own = self.own.clone();
                self.pass_over(|place| *place == first || all && own.as_ref().is_none_or(|own| place < own));
                continue;
            }
            return if self.own.is_none() { Next::JoinAndWait(look) } else { Next::Wait(look) };
        }
        self.wait = None;
        Next::Go
    }

    /// Passes over those of whom this is true, but not itself.
    fn pass_over(&mut self, is_passed: impl Fn(&(u64, String)) -> bool) {
        let passed = self.line.places.iter().filter(|place| is_passed(place) && Some(*place) != self.own.as_ref());
        self.passed.extend(passed.map(|(_, key)| key.clone()));
    }

    /// The place that has to be waited for.
    fn ahead(&self) -> Option<(u64, String)> {
        let first = self.line.places.iter().find(|(_, key)| !self.passed.contains(key));
        first.filter(|first| Some(*first) != self.own.as_ref()).cloned()
    }

    /// An attempt was lost. Returns whether to join the line: if it was not the first. Most retries succeed, and to
    /// join takes a commit.
    fn lost(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.lost, true);
        self.may_join() && !first
    }

    /// What joins the line at the end, or further behind. `random` was never used before.
    fn join(&mut self, name: &Name, unix_ms: u64, random: u64) -> Action {
        let (number, key) = (self.end().max(unix_ms).min(GREATEST - 1), format!("{PLACE}{random:016x}"));
        self.own = Some((number, key.clone()));
        let changes = [(LINE.to_owned(), Some("1".to_owned())), (key, Some(number.to_string()))].into();
        Action::SetProperties { name: name.clone(), changes }
    }

    /// Whether it would wait in line, and has no place there.
    fn may_join(&self) -> bool {
        self.own.is_none() && !self.free
    }

    /// Whether it may have a place in the line.
    fn has_place(&self) -> bool {
        self.own.is_some()
    }

    /// The least number of a place behind all others.
    fn end(&self) -> u64 {
        self.line.places.last().map_or(0, |(number, _)| number + 1)
    }

    /// It certainly did not join.
    fn not_joined(&mut self) {
        self.own = None;
    }

    /// What a commit to the table asserts and does because of the line.
    fn actions(&self, name: &Name) -> Vec<Action> {
        let assert = |key: &str, value: Option<String>| Action::Assert {
            name: name.clone(),
            holds: Assertion::Property { key: key.to_owned(), value },
        };
        let here = match &self.own {
            Some((number, key)) => assert(key, Some(number.to_string())),
            None if self.free => return Vec::new(),
            None => assert(LINE, self.line.open.clone()),
        };
        let leaves = self.leaves();
        if leaves.is_empty() {
            return vec![here];
        }
        let changes = leaves.into_iter().map(|key| (key, None)).collect();
        vec![here, Action::SetProperties { name: name.clone(), changes }]
    }

    /// The properties that are removed when this one leaves the line, with those that it passes over.
    fn leaves(&self) -> BTreeSet<String> {
        let places = || self.line.places.iter().chain(&self.own);
        let goes = |place: &&(u64, String)| self.passed.contains(&place.1) || self.own.as_ref() == Some(*place);
        let mut keys: BTreeSet<String> = places().filter(goes).map(|(_, key)| key.clone()).collect();
        if (self.line.open.is_some() || self.own.is_some()) && places().all(|place| keys.contains(&place.1)) {
            keys.insert(LINE.to_owned());
        }
        keys
    }

    /// A commit with these actions took effect.
    fn taken(&mut self) {
        self.own = None;
    }

    /// What leaves the line if nothing was committed; `None` if it is not there.
    fn leave(&self, name: &Name) -> Option<Vec<Action>> {
        self.own.as_ref().map(|_| self.actions(name))
    }
}

#[cfg(test)]
mod tests;
