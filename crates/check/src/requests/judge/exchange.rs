//! Which other request may be in a version in place of the one that was found for it?
//!
//! Where a version holds one request, several may explain it equally well: requests without an answer, and those whose
//! answer may name a later version. The one that is taken for it may be the only one that explains a later version:
//! then another takes its place in the earlier one.

use std::collections::{BTreeMap, BTreeSet};

use super::super::book::Step;
use super::super::explain::{Explanation, Part};
use super::super::rules::Rules;
use super::super::state::Difference;
use super::Judge;

/// By a request that was found in a version: the others that explain that version alone.
pub(super) type Others = BTreeMap<usize, Vec<usize>>;

impl<R: Rules> Judge<'_, R> {
    /// Remembers which of the parts explain a version as well as the request that was taken for it.
    pub(super) fn remember_others(&mut self, taken: &[usize], parts: &[Part], step: &Step<R>) {
        let &[one] = taken else { return };
        if self.terms.most != 1 {
            return;
        }
        let mut others: Vec<usize> = parts.iter().map(|part| part.index).filter(|index| *index != one).collect();
        others.retain(|index| self.explains_alone(*index, &step.difference));
        if !others.is_empty() {
            self.others.insert(one, others);
        }
    }

    /// A request that explains a version that no open request explains: it was found in an earlier version, where
    /// another one takes its place.
    pub(super) fn exchanged(&mut self, step: &Step<R>, group: u32) -> Option<usize> {
        let possible = |index: &usize| self.asked(*index).group == group && self.may_be_in(*index, step);
        let found: Vec<usize> = self.others.keys().copied().filter(possible).collect();
        found
            .into_iter()
            .find(|index| self.explains_alone(*index, &step.difference) && self.make_free(*index, &mut BTreeSet::new()))
    }

    /// Puts another request into the version of this one, if need be by making that one free first.
    fn make_free(&mut self, index: usize, tried: &mut BTreeSet<usize>) -> bool {
        if !tried.insert(index) {
            return false;
        }
        let others = self.others.get(&index).cloned().unwrap_or_default();
        let Some(other) =
            others.iter().copied().find(|other| self.found_in[*other].is_none() || self.make_free(*other, tried))
        else {
            return false;
        };
        self.found_in[other] = self.found_in[index].take();
        self.others.remove(&index);
        let rest = others.into_iter().map(|one| if one == other { index } else { one }).collect();
        self.others.insert(other, rest);
        true
    }

    fn explains_alone(&mut self, index: usize, difference: &Difference<R::Key, R::Value>) -> bool {
        let part = Part { index, must: true, by: self.asked(index).told.deadline() };
        matches!(self.search(&[part], difference, false), Explanation::Explained(_))
    }
}
