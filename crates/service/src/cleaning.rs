//! Removing the service's own entries once they are old.

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;

use crate::Service;
use crate::error::ServiceError;
use crate::names::own_name;

/// The property that says when an entry was made, in milliseconds since 1970.
pub(crate) const AT: &str = "at";

/// The most entries that one commit removes.
const CLEANED_TOGETHER: usize = 256;

/// The most commits of one call: several servers clean at once, and each refuses what another has cleaned.
const MOST_CLEANINGS: usize = 1000;

/// When an entry was made, in milliseconds since 1970.
pub(crate) fn written(entry: &Entry) -> u64 {
    entry.properties.get(AT).and_then(|at| at.parse().ok()).unwrap_or(0)
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Removes the entries of a namespace of the service that are older than this. Returns how many were found.
    pub(crate) async fn clean(&self, folder: &str, lifetime_ms: u64) -> Result<usize, ServiceError> {
        let mut all = 0;
        for _ in 0..MOST_CLEANINGS {
            let old = self.old_entries(folder, lifetime_ms).await?;
            let found = old.len();
            all += found;
            if found > 0 {
                self.remove_old(old).await?;
            }
            if found < CLEANED_TOGETHER {
                break;
            }
        }
        // Also of what others have removed, and commits that end a claim.
        self.inner.committer.catalog().trim(Some(&own_name([folder])?)).await?;
        Ok(all)
    }

    /// Some entries that are old, each with the time at which it was made.
    pub(crate) async fn old_entries(
        &self,
        folder: &str,
        lifetime_ms: u64,
    ) -> Result<Vec<(Name, Option<String>)>, ServiceError> {
        let (at, now) = (self.head().await?, self.inner.env.unix_ms());
        let is_old = |_: &Name, entry: &Entry| {
            (written(entry).saturating_add(lifetime_ms) < now).then(|| entry.properties.get(AT).cloned())
        };
        let folder = own_name([folder])?;
        Ok(self.inner.committer.catalog().list(&at, Some(&folder), None, CLEANED_TOGETHER, is_old).await?)
    }

    /// Removes them, unless one was removed or made anew meanwhile: another server may have been faster, and a request
    /// have its key since. Then none is removed, and they are looked for again.
    pub(crate) async fn remove_old(&self, old: Vec<(Name, Option<String>)>) -> Result<(), ServiceError> {
        let removed = |(name, value): (Name, Option<String>)| {
            let same = Action::Assert { name: name.clone(), holds: Assertion::Property { key: AT.to_owned(), value } };
            [same, Action::Drop { name, kind: EntryKind::Table, expected: None }]
        };
        match self.inner.committer.commit(old.into_iter().flat_map(removed).collect()).await {
            Ok(_) | Err(CommitError::Refused(Refusal::NotFound(_) | Refusal::PropertyChanged { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
