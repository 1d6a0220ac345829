//! Finds the protocols that have objects below a prefix. Used before a catalog is created, and if the label is missing
//! or wrong.

use glidepath_env::{Cause, Env, Key, ObjectStore, ReadError};

use super::{Design, Protocol, Visitor};
use crate::catalog::LoadError;

struct TracesOf;

impl Visitor for TracesOf {
    type Output = &'static [&'static str];

    fn visit<D: Design>(self) -> Self::Output {
        D::TRACES
    }
}

impl Protocol {
    /// The first part of the keys of a catalog's own objects below its prefix, of any protocol; without the label.
    pub fn own_folders() -> impl Iterator<Item = &'static str> {
        let traces = Self::ALL.iter().flat_map(|protocol| protocol.visit(TracesOf));
        traces.map(|trace| trace.split('/').next().unwrap_or(trace))
    }
}

/// The protocols that have objects below a prefix, each with the first of these objects. Makes up to one listing for
/// each kind of object.
///
/// # Errors
/// A listing failed.
pub(super) async fn found<E: Env>(store: &E::Objects, prefix: &str) -> Result<Vec<(Protocol, Key)>, LoadError> {
    let mut found = Vec::new();
    for &protocol in Protocol::ALL {
        if let Some(key) = first::<E>(store, prefix, protocol.visit(TracesOf)).await? {
            found.push((protocol, key));
        }
    }
    Ok(found)
}

async fn first<E: Env>(store: &E::Objects, prefix: &str, traces: &[&str]) -> Result<Option<Key>, LoadError> {
    for trace in traces {
        let begins = Key::new(&format!("{prefix}{trace}"));
        let page = store.list(&begins, None, 1).await.map_err(|error| match error {
            ReadError::Failed(cause) => LoadError::Failed(cause),
            ReadError::NotFound => LoadError::Failed(Cause::words("the store does not list its objects")),
        })?;
        // The listing may begin with an object whose key only has this one as a prefix.
        let key = page.objects.into_iter().next().map(|listed| listed.key);
        if let Some(key) = key.filter(|key| trace.ends_with('/') || *key == begins) {
            return Ok(Some(key));
        }
    }
    Ok(None)
}
