//! How does a writer choose a request, and how does a protocol answer a question?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use glidepath_env::{Env, Purpose};
use glidepath_model::{Entry, Instant, Kind, Name, Version};
use glidepath_protocols::group::Loads;
use glidepath_protocols::registry::Design;
use glidepath_protocols::{Catalog, LoadError};

use super::book::{Book, Looked};
use super::names::{Answer, Names, Query};
use crate::process::Process;

/// One writer while it chooses a request.
pub(crate) struct Asker<'a, D: Design> {
    pub(crate) env: &'a Process,
    pub(crate) catalog: &'a D::Catalog<Process>,
    /// If given, loads are shared with other writers.
    pub(crate) loads: Option<&'a Loads<D::Catalog<Process>>>,
    pub(crate) book: &'a Rc<RefCell<Book<Names>>>,
    pub(crate) writer: u32,
    /// The number of tables of the scenario.
    pub(crate) tables: u32,
}

impl<D: Design> Asker<'_, D> {
    /// A random number below this one.
    pub(crate) fn pick(&self, below: u64) -> u64 {
        self.env.draw(Purpose::Tables) % below
    }

    pub(crate) fn one_of<T: Copy>(&self, of: &[T]) -> T {
        of[self.pick(of.len() as u64) as usize]
    }

    /// Records a lookup for the judge.
    pub(crate) fn looked(
        &self,
        (began, loaded): (Instant, Instant),
        version: Option<Version>,
        query: Query,
        found: Answer,
    ) {
        let (writer, now) = (self.writer, self.env.world_now());
        let loaded = if version.is_some() { loaded } else { now };
        self.book.borrow_mut().looked.push(Looked { writer, began, loaded, version, query, found });
    }
}

/// The protocol's answer to a question.
pub(crate) async fn answer<C: Catalog>(catalog: &C, at: &C::Snapshot, query: &Query) -> Result<Answer, LoadError> {
    let whole = |(name, entry): (Name, Entry)| (name.as_str().to_owned(), Some(entry));
    let names = |names: Vec<Name>| {
        let ordered: BTreeMap<Name, ()> = names.into_iter().map(|name| (name, ())).collect();
        ordered.into_keys().map(|name| (name.as_str().to_owned(), None)).collect()
    };
    Ok(match query {
        Query::Entry(name) => {
            catalog.entry(at, name).await?.map(|entry| whole((name.clone(), entry))).into_iter().collect()
        }
        Query::Children(namespace) => {
            let mut children = catalog.children(at, namespace.as_ref(), None, usize::MAX).await?;
            children.sort_by(|(one, _), (other, _)| one.cmp(other));
            children.into_iter().map(whole).collect()
        }
        Query::List(namespace) => {
            let mut listed =
                catalog.list(at, namespace.as_ref(), None, usize::MAX, |_, entry| Some(entry.kind)).await?;
            listed.sort_by(|(one, _), (other, _)| one.cmp(other));
            let words = |(name, kind): (Name, Kind)| (format!("{kind} {name}"), None);
            listed.into_iter().map(words).collect()
        }
        Query::OfKind(kind) => names(catalog.of_kind(at, *kind).await?),
        Query::WithBase(base) => names(catalog.with_base(at, base).await?),
    })
}
