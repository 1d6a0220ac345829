//! What must a run of requests know of a protocol?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Purpose};
use glidepath_model::{Entry, Instant, Name, Span, Version};
use glidepath_protocols::group::Grouped;
use glidepath_protocols::{Catalog, LoadError};
use glidepath_sim::{SimEnv, Simulation};

use super::book::{Book, Looked, Versions};
use super::judge::Terms;
use super::names::{Found, Names, Query};
use crate::subject::Subject;

/// A protocol whose writers send requests.
pub(crate) trait Asking: Subject + Sized + 'static {
    type Grouped: Grouped + Clone + 'static;

    const TERMS: Terms;

    /// Whether numbered tables are kept otherwise than other entries are, and must be among those that are asked for.
    const NUMBERED: bool;

    /// What the threads of one process share. Processes of different numbers may be set up differently.
    fn place(process: u32) -> Arc<Self::Shared>;

    fn grouped(env: &SimEnv, place: Arc<Self::Shared>) -> Self::Grouped;

    /// Creates the catalog that a run begins with.
    async fn begin(catalog: &Self::Grouped, tables: u32) -> Result<(), String>;

    /// Creates a catalog where there is one already; true if it was told that it is done.
    async fn creates_again(catalog: &Self::Grouped, tables: u32) -> bool;

    /// The protocol's answer to a question.
    async fn answer(catalog: &Self::Grouped, at: &Snapshot<Self>, query: &Query) -> Result<Found, LoadError>;

    /// Cleans up, where the protocol does, and as much as it dares.
    async fn clean(catalog: &Self::Grouped);

    /// What the catalog became, from all that was ever written.
    fn became(simulation: &Simulation) -> Result<Versions<Names>, String>;

    /// Judges what is there at the end, and what was removed. `skew` is how far clocks were off.
    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Names>,
        last: &BTreeMap<Name, Entry>,
        skew: Span,
    ) -> Result<(), String>;
}

pub(crate) type Snapshot<S> = <<S as Asking>::Grouped as Catalog>::Snapshot;

/// One writer, as it makes up a request.
pub(crate) struct Asker<'a, S: Asking> {
    pub(crate) env: &'a SimEnv,
    pub(crate) catalog: &'a S::Grouped,
    pub(crate) book: &'a Rc<RefCell<Book<Names>>>,
    pub(crate) writer: u32,
    /// Tables that the scenario has.
    pub(crate) tables: u32,
}

impl<S: Asking> Asker<'_, S> {
    /// A number below this one.
    pub(crate) fn pick(&self, below: u64) -> u64 {
        self.env.draw(Purpose::Tables) % below
    }

    pub(crate) fn one_of<T: Copy>(&self, of: &[T]) -> T {
        of[self.pick(of.len() as u64) as usize]
    }

    /// Notes what was looked up, for the judge.
    pub(crate) fn looked(&self, (began, loaded): (Instant, Instant), version: Version, query: Query, found: Found) {
        let writer = self.writer;
        self.book.borrow_mut().looked.push(Looked { writer, began, loaded, version, query, found });
    }
}
