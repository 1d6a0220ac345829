//! Which requests, in their order, make this state of that one?

use std::collections::BTreeSet;

use glidepath_model::Version;

use super::book::Asked;
use super::rules::Rules;
use super::state::{Difference, State};

/// Steps after which the search is given up: then nothing is shown.
const MOST_STEPS: u32 = 200_000;

/// A request that may be part of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its place among all requests of the run.
    pub(crate) index: usize,
    /// Whether it must be part of it.
    pub(crate) must: bool,
    /// The last version that it may be part of: what its caller was told.
    pub(crate) by: Version,
}

/// What is to be explained, and by what.
pub(crate) struct Case<'a, R: Rules> {
    pub(crate) asked: &'a [Asked<R>],
    /// In the order of calls.
    pub(crate) parts: &'a [Part],
    pub(crate) difference: &'a Difference<R::Key, R::Value>,
    /// Whether each request that need not be part of it must change what differs, and nothing else.
    pub(crate) strict: bool,
    /// So many requests at least.
    pub(crate) least: usize,
    /// So many requests at most.
    pub(crate) most: usize,
}

/// What came of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// These, in this order.
    Explained(Vec<usize>),
    /// No choice of them does.
    Nothing,
    /// The search would take too long.
    Undecided,
}

/// Looks for the explanation with the fewest requests that need not be part of it; of several, for the one whose requests
/// must be found soonest: equal requests without a mark can stand for each other, and one that was acknowledged must not be
/// left without a version because another, of which nobody heard, was taken in its place. The state is left as it was.
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

/// Whether the parts from this one on, so many of them that need not be, lead to what is to be explained; `None` if that
/// would take too long.
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
