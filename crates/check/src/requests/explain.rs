//! Which requests, in which order, lead from one state to another?

use std::collections::BTreeSet;

use glidepath_model::Version;

use super::book::Asked;
use super::rules::Rules;
use super::state::{Difference, State};

/// Steps after which the search ends undecided.
const MOST_STEPS: u32 = 200_000;

/// A request that may be part of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its index among all requests of the run.
    pub(crate) index: usize,
    /// Whether it must be part of it.
    pub(crate) must: bool,
    /// The last version that may contain it, by the answer to its caller.
    pub(crate) by: Version,
}

/// The step to be explained, and the candidate requests.
pub(crate) struct Case<'a, R: Rules> {
    pub(crate) asked: &'a [Asked<R>],
    /// In the order of calls.
    pub(crate) parts: &'a [Part],
    pub(crate) difference: &'a Difference<R::Key, R::Value>,
    /// Whether each optional request must change only what differs.
    pub(crate) strict: bool,
    /// The fewest requests.
    pub(crate) least: usize,
    /// The most requests.
    pub(crate) most: usize,
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// These requests, in this order.
    Explained(Vec<usize>),
    /// No choice of requests explains it.
    Nothing,
    /// The search would take too long.
    Undecided,
}

/// Searches the explanation with the fewest optional requests; of several, the one whose requests have the earliest
/// last versions. Equal requests without a mark are interchangeable: an unanswered one must not take the place of an
/// acknowledged one, which would then have no version. Leaves the state unchanged.
pub(crate) fn explain<R: Rules>(state: &mut State<R::Key, R::Value>, case: &Case<'_, R>) -> Explanation {
    let optional: Vec<Version> = case.parts.iter().filter(|part| !part.must).map(|part| part.by).collect();
    let deadlines: BTreeSet<Version> = optional.iter().copied().collect();
    let (mut taken, mut steps) = (Vec::new(), 0);
    let mark = state.mark();
    for extra in 0..=optional.len() {
        for by in deadlines.iter().copied().chain(deadlines.is_empty().then_some(Version(0))) {
            let within = optional.iter().filter(|other| **other <= by).count();
            if within < extra {
                continue;
            }
            let parts: Vec<Part> = case.parts.iter().copied().filter(|part| part.must || part.by <= by).collect();
            let found = search(state, &Case { parts: &parts, ..*case }, 0, extra, &mut taken, &mut steps);
            state.back_to(mark);
            match found {
                Some(true) => return Explanation::Explained(taken),
                Some(false) => taken.clear(),
                None => return Explanation::Undecided,
            }
            if extra == 0 {
                break;
            }
        }
    }
    Explanation::Nothing
}

/// Whether the parts from this one on, with this number of optional ones, explain the step; `None` if the search takes
/// too long.
fn search<R: Rules>(
    state: &mut State<R::Key, R::Value>,
    case: &Case<'_, R>,
    from: usize,
    extra: usize,
    taken: &mut Vec<usize>,
    steps: &mut u32,
) -> Option<bool> {
    *steps += 1;
    if *steps > MOST_STEPS {
        return None;
    }
    let Some(part) = case.parts.get(from) else {
        return Some(extra == 0 && taken.len() >= case.least && state.differs_by(case.difference));
    };
    if !part.must && search(state, case, from + 1, extra, taken, steps)? {
        return Some(true);
    }
    if (!part.must && extra == 0) || taken.len() == case.most {
        return Some(false);
    }
    let (mark, request) = (state.mark(), &case.asked[part.index].request);
    let fits = R::apply(state, request).is_ok();
    if fits && (part.must || !case.strict || state.only_within(mark, case.difference)) {
        taken.push(part.index);
        if search(state, case, from + 1, extra - usize::from(!part.must), taken, steps)? {
            return Some(true);
        }
        taken.pop();
    }
    state.back_to(mark);
    Some(false)
}
