//! Namespaces with what is in them, for people who look around: bounded, however large the catalog is.

use std::collections::{BTreeMap, VecDeque};

use glidepath_env::Env;
use glidepath_model::{Entry, Kind as EntryKind, Name};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;

use crate::Service;
use crate::error::ServiceError;
use crate::lance::is_lance;
use crate::names::{is_hidden, namespace_name};
use crate::namespaces::Page;
use crate::reading::is_iceberg;

/// The most entries of a namespace that are told at once.
const MOST_OF_A_LEVEL: usize = 100;

/// The most entries of a namespace within the one that is asked for.
const MOST_BELOW: usize = 12;

/// The most namespaces whose entries are told: each may be a request to the store.
const MOST_LEVELS: usize = 16;

/// The most entries that are looked at for one level, since a filter may drop most of them.
const MOST_LOOKED: usize = 5000;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A namespace.
    Namespace,
    /// A table of Iceberg.
    Iceberg,
    /// A table of Lance.
    Lance,
    /// A view.
    View,
}

/// An entry of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its own name.
    pub name: String,
    /// What it is.
    pub kind: ChildKind,
}

/// Entries directly in a namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The entries.
    pub children: Vec<Child>,
    /// The token of the next part; `None` if this is the last.
    pub next: Option<String>,
    /// Whether there may be more, and no token for them: it would name an entry that the filter hides.
    pub is_cut: bool,
}

/// Which namespaces, by their paths and properties, somebody may see.
pub type Filter = Box<dyn Fn(&[String], &BTreeMap<String, String>) -> bool + Send>;

fn kind_of(name: &Name, entry: &Entry) -> Option<ChildKind> {
    match entry.kind {
        EntryKind::Namespace => (!is_hidden(name)).then_some(ChildKind::Namespace),
        EntryKind::View => Some(ChildKind::View),
        EntryKind::Table if is_iceberg(entry) => Some(ChildKind::Iceberg),
        EntryKind::Table => is_lance(entry).then_some(ChildKind::Lance),
    }
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// What is in a namespace, and in the namespaces that are in it: by their paths, as many as the bounds allow. With
    /// a filter, only those namespaces of the first level that it selects, and nothing else of that level.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`](crate::Kind::NoNamespace).
    pub async fn browse(
        &self,
        namespace: &[String],
        after: Option<String>,
        filter: Option<Filter>,
    ) -> Result<BTreeMap<Vec<String>, Level>, ServiceError> {
        let at = self.head().await?;
        self.namespace_at(&at, namespace).await?;
        let page = Page { token: after, size: Some(MOST_OF_A_LEVEL) };
        let first = self.level(&at, namespace, &page, filter.as_ref()).await?;
        let (mut levels, mut closed) = (BTreeMap::new(), VecDeque::new());
        let mut keep = |path: Vec<String>, level: Level, closed: &mut VecDeque<Vec<String>>| {
            let inner = level.children.iter().filter(|child| child.kind == ChildKind::Namespace);
            closed.extend(inner.map(|child| path.iter().chain([&child.name]).cloned().collect()));
            levels.insert(path, level);
            levels.len()
        };
        let mut opened = keep(namespace.to_vec(), first, &mut closed);
        let page = Page { token: None, size: Some(MOST_BELOW) };
        while opened < MOST_LEVELS
            && let Some(path) = closed.pop_front()
        {
            let level = self.level(&at, &path, &page, None).await?;
            opened = keep(path, level, &mut closed);
        }
        Ok(levels)
    }

    async fn level(
        &self,
        at: &C::Snapshot,
        namespace: &[String],
        page: &Page,
        filter: Option<&Filter>,
    ) -> Result<Level, ServiceError> {
        let parent = namespace_name(namespace)?;
        let most = page.size.unwrap_or(MOST_OF_A_LEVEL);
        let last = page.token.as_deref().filter(|token| !token.is_empty());
        let after = last.map(|last| Name::in_namespace(parent.as_ref(), last));
        let mut after = after.transpose().map_err(|_| ServiceError::invalid("after: not a token of this server"))?;
        let (mut level, mut last, mut looked) = (Level::default(), None, 0);
        while looked < MOST_LOOKED {
            let asked = if filter.is_some() { 1000 } else { most + 1 };
            // Also what is not told, since it counts as looked at.
            let what = |name: &Name, entry: &Entry| {
                let seen = filter.is_none_or(|filter| filter(&name.parts(), &entry.properties));
                Some(kind_of(name, entry).filter(|kind| seen && (filter.is_none() || *kind == ChildKind::Namespace)))
            };
            let found = self.inner.committer.catalog().list(at, parent.as_ref(), after.as_ref(), asked, what).await?;
            let is_end = found.len() < asked;
            looked += found.len();
            for (name, kind) in found {
                if let Some(kind) = kind {
                    if level.children.len() == most {
                        level.next = last;
                        return Ok(level);
                    }
                    last = Some(name.last().to_owned());
                    level.children.push(Child { name: name.parts().pop().unwrap_or_default(), kind });
                }
                after = Some(name);
            }
            if is_end {
                return Ok(level);
            }
        }
        level.is_cut = filter.is_some();
        level.next = after.filter(|_| filter.is_none()).map(|last| last.last().to_owned());
        Ok(level)
    }
}
