//! Runs of catalog servers, by the protocol of their catalog.

use super::{Beginnings, CatalogKind, Design, Ran, Trial, Visitor};
use crate::serve;

pub(super) struct Begin {
    pub(super) kind: CatalogKind,
    pub(super) tables: u32,
}

impl Visitor for Begin {
    type Output = Result<Beginnings, String>;

    fn visit<D: Design>(self) -> Self::Output {
        Ok(Beginnings { objects: serve::begun::<D>(self.kind, self.tables)?, begun: Vec::new() })
    }
}

pub(super) struct RunOf<'a> {
    pub(super) trial: &'a Trial,
    pub(super) seed: u64,
    pub(super) keep_mishaps: bool,
}

impl Visitor for RunOf<'_> {
    type Output = Ran;

    fn visit<D: Design>(self) -> Ran {
        serve::run::<D>(&self.trial.scenario, &self.trial.beginnings.objects, self.seed, self.keep_mishaps)
    }
}
