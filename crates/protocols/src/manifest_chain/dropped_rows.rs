//! The rows to remove when a namespace is dropped with everything in it.
//!
//! By name they are in two ranges; in the index by type, in two ranges for each kind; in the index by base object they
//! are scattered. The layout `whole` reads all rows in any case and leaves these out. In `paged` each row is looked up
//! and removed, page by page.

use std::collections::BTreeMap;

use glidepath_env::Env;
use glidepath_model::{Entry, Name};

use super::rows::{self, Between};
use super::{ManifestChain, Snapshot};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// Everything in these namespaces, at all depths.
pub(super) struct DroppedRows<'a> {
    namespaces: &'a [Name],
    places: Vec<Between>,
}

impl<'a> DroppedRows<'a> {
    pub(super) fn of(namespaces: &'a [Name]) -> Self {
        Self { namespaces, places: namespaces.iter().flat_map(rows::within).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Whether rows from `least` on and before `next` may be among them.
    pub(super) fn may_be_in(&self, least: &[u8], next: Option<&[u8]>) -> bool {
        self.places.iter().any(|place| least < &place.to[..] && next.is_none_or(|next| next > &place.from[..]))
    }

    /// Whether the row with this key, of an entry or of an index, is among them.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        rows::name_in(key).is_some_and(|name| self.takes(&name))
    }

    fn takes(&self, name: &Name) -> bool {
        let goes_with = |namespace: &Name| match mutant::is(Mutant::GrandchildrenStay) {
            true => name.parent().as_ref() == Some(namespace),
            false => name.is_within(namespace),
        };
        self.namespaces.iter().any(goes_with)
    }
}

impl<E: Env> ManifestChain<E> {
    /// All entries of a version that are among them.
    pub(super) async fn entries_of(
        &self,
        at: &Snapshot,
        gone: &DroppedRows<'_>,
    ) -> Result<BTreeMap<Name, Entry>, LoadError> {
        let mut entries = BTreeMap::new();
        for between in gone.namespaces.iter().flat_map(rows::entries_within) {
            entries.extend(self.scan(at, between, usize::MAX).await?.into_iter().filter(|(name, _)| gone.takes(name)));
        }
        Ok(entries)
    }
}
