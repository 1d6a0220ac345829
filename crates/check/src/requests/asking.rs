//! What must a run of requests know of a protocol?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Purpose};
use glidepath_model::{Instant, Span, Version};
use glidepath_protocols::group::Grouped;
use glidepath_sim::{SimEnv, Simulation};

use super::book::{Book, Looked, Versions};
use super::judge::Terms;
use super::rules::Rules;
use crate::subject::Subject;

/// A protocol whose writers send requests.
pub(crate) trait Asking: Subject + Sized + 'static {
    type Rules: Rules;
    type Grouped: Grouped<Request = <Self::Rules as Rules>::Request, Refusal = <Self::Rules as Rules>::Refusal>
        + Clone
        + 'static;

    const TERMS: Terms;

    /// What the threads of one process share. Processes of different numbers may be set up differently.
    fn place(process: u32) -> Arc<Self::Shared>;

    fn grouped(env: &SimEnv, place: Arc<Self::Shared>) -> Self::Grouped;

    /// Creates the catalog that a run begins with.
    async fn begin(catalog: &Self::Grouped, tables: u32) -> Result<(), String>;

    /// Creates a catalog where there is one already; true if it was told that it is done.
    async fn creates_again(catalog: &Self::Grouped, tables: u32) -> bool;

    /// Makes up a request, and looks at the catalog for that where it must; `None` where that was not possible.
    async fn ask(asker: &Asker<'_, Self>, mark: u64) -> Option<<Self::Rules as Rules>::Request>;

    /// Cleans up, where the protocol does, and as much as it dares.
    async fn clean(catalog: &Self::Grouped);

    /// What the catalog became, from all that was ever written.
    fn became(simulation: &Simulation) -> Result<Versions<Self::Rules>, String>;

    /// Judges what is there at the end, and what was removed. `skew` is how far clocks were off.
    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Self::Rules>,
        last: &BTreeMap<<Self::Rules as Rules>::Key, <Self::Rules as Rules>::Value>,
        skew: Span,
    ) -> Result<(), String>;
}

/// One writer, as it makes up a request.
pub(crate) struct Asker<'a, S: Asking> {
    pub(crate) env: &'a SimEnv,
    pub(crate) catalog: &'a S::Grouped,
    pub(crate) book: &'a Rc<RefCell<Book<S::Rules>>>,
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
    pub(crate) fn looked(
        &self,
        (began, loaded): (Instant, Instant),
        version: Version,
        query: <S::Rules as Rules>::Query,
        found: <S::Rules as Rules>::Found,
    ) {
        let writer = self.writer;
        self.book.borrow_mut().looked.push(Looked { writer, began, loaded, version, query, found });
    }
}
