//! Which requests are in a version?

use super::super::book::{Step, Told};
use super::super::explain::{Case, Explanation, Part, explain};
use super::super::rules::Rules;
use super::super::state::Difference;
use super::{Judge, Terms};

impl<R: Rules> Judge<'_, R> {
    /// The requests of a group that explain a version.
    pub(super) fn explained(&mut self, step: &Step<R>, group: u32) -> Result<Vec<usize>, String> {
        let marked = self.marked(step, group)?;
        let parts = self.parts(step, group, &marked);
        match self.open_that_explain(step, &parts, &marked)? {
            Some(taken) => {
                self.remember_others(&taken, &parts, step);
                Ok(taken)
            }
            None => match self.exchanged(step, group) {
                Some(index) => Ok(vec![index]),
                None => Err(self.unexplained(step, &parts)),
            },
        }
    }

    /// Those among the open ones.
    fn open_that_explain(
        &mut self,
        step: &Step<R>,
        parts: &[Part],
        marked: &[usize],
    ) -> Result<Option<Vec<usize>>, String> {
        let strict: Vec<Part> =
            parts.iter().copied().filter(|part| part.must || !R::is_marked(&self.asked(part.index).request)).collect();
        if let Some(taken) = self.explain(&strict, &step.difference, true)? {
            return Ok(Some(self.rather_heard(taken, parts, step)));
        }
        // Some requests may have changed entries that others in the same version changed again. If this search takes
        // too long, the next one may still decide.
        if let Explanation::Explained(taken) = self.search(parts, &step.difference, false) {
            return Ok(Some(taken));
        }
        // Some requests that were answered with this version may have changed nothing.
        let told = |part: &Part| matches!(self.asked(part.index).told, Told::Done(_)) && self.terms.exact;
        let loose: Vec<Part> = strict
            .iter()
            .map(|part| Part { must: part.must && (!told(part) || marked.contains(&part.index)), ..*part })
            .collect();
        if loose != strict
            && let Some(taken) = self.explain(&loose, &step.difference, true)?
        {
            return Ok(Some(taken));
        }
        let parts: Vec<Part> = parts.iter().map(|part| Part { must: marked.contains(&part.index), ..*part }).collect();
        self.explain(&parts, &step.difference, false)
    }

    /// If requests without an answer explain a version, others that were answered may explain it as well, though
    /// nothing of their marks is left. Those are taken, because a request without an answer may still be in any later
    /// version.
    fn rather_heard(&mut self, taken: Vec<usize>, parts: &[Part], step: &Step<R>) -> Vec<usize> {
        if !taken.iter().any(|index| self.asked(*index).unheard()) {
            return taken;
        }
        let heard = |part: &Part| part.must || !self.asked(part.index).unheard();
        let heard: Vec<Part> = parts.iter().copied().filter(heard).collect();
        match self.search(&heard, &step.difference, false) {
            Explanation::Explained(heard) => heard,
            Explanation::Nothing | Explanation::Undecided => taken,
        }
    }

    /// The requests whose marks a version adds.
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
            if self.may_be_in(index, step) {
                let must = asked.told == Told::Done(step.version) || marked.contains(&index);
                parts.push(Part { index, must, by: asked.told.deadline() });
            }
        }
        parts
    }

    /// Whether a request that was not refused may be in a version, by the times of its call and its answer.
    pub(super) fn may_be_in(&self, index: usize, step: &Step<R>) -> bool {
        let asked = self.asked(index);
        let answered_so = match asked.told {
            Told::Done(told) => {
                told == step.version || (!self.terms.exact && told > step.version && asked.spans(step.at))
            }
            _ => true,
        };
        asked.called <= step.at && answered_so
    }

    pub(super) fn search(
        &mut self,
        parts: &[Part],
        difference: &Difference<R::Key, R::Value>,
        strict: bool,
    ) -> Explanation {
        let Terms { least, most, .. } = self.terms;
        let case = Case { asked: &self.book.asked, parts, difference, strict, least, most };
        explain(&mut self.state, &case)
    }

    pub(super) fn explain(
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
}
