//! Priority for an overwrite that lost: the commits of others to its branch wait a moment for its next try.
//!
//! An overwrite conflicts with every commit since it was prepared, so beside fast appends it might never land. The server
//! that answers it with a conflict holds back further commits to that branch until the snapshot with the same id has
//! landed, but for [`Settings::priority`](crate::Settings) at most. Iceberg's client for Java keeps the id of a snapshot
//! when it tries again; other clients never come back with it, so
//!
//! * a commit waits once at most, and no longer than that time;
//! * after a hold, the next one begins only when as much time has passed as the hold took; each hold in a row that was in
//!   vain doubles this rest.
//!
//! All of this is in the memory of one server: another server's commits are not held back, and nothing depends on it but
//! who comes first.

use std::sync::{Mutex, PoisonError};

use futures_channel::oneshot;
use futures_util::future::{FutureExt as _, Shared};
use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use iceberg::spec::Operation;
use iceberg::{TableRequirement, TableUpdate};

use super::TableCommit;
use crate::mutant::{self, Mutant};

/// The most doublings of the rest after a hold.
const MOST_DOUBLINGS: u32 = 6;

/// Who has priority at one table.
#[derive(Default)]
pub(crate) struct Priority {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// No hold begins before.
    rests_until: Option<Instant>,
    /// Holds in a row that were in vain.
    in_vain: u32,
}

/// A branch is held for a snapshot.
struct Held {
    snapshot: i64,
    branch: String,
    from: Instant,
    until: Instant,
    /// Dropped at the end of the hold.
    _end: oneshot::Sender<()>,
    ended: Shared<oneshot::Receiver<()>>,
}

/// What a hold means for a commit that is not the one that it is for.
pub(crate) struct Hold {
    until: Instant,
    ended: Shared<oneshot::Receiver<()>>,
}

impl Hold {
    /// Waits for the end of the hold.
    pub(crate) async fn over<E: Env>(self, env: &E) {
        if mutant::is(Mutant::HeldForEver) {
            let _ = self.ended.await;
            return;
        }
        let late = std::pin::pin!(env.sleep_until(self.until));
        futures_util::future::select(late, self.ended).await;
    }
}

impl Priority {
    /// The hold that this commit has to wait for.
    pub(crate) fn before(&self, now: Instant, commit: &TableCommit) -> Option<Hold> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(now);
        let held = state.held.as_ref()?;
        let waits = added(commit) != Some(held.snapshot) && moves(commit, &held.branch);
        waits.then(|| Hold { until: held.until, ended: held.ended.clone() })
    }

    /// A commit lost. Returns whether a hold begins.
    pub(crate) fn lost(&self, now: Instant, commit: &TableCommit, longest: Span) -> bool {
        let Some((snapshot, branch)) = overwrite(commit) else { return false };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(now);
        let rests = state.rests_until.is_some_and(|until| now < until);
        if longest == Span::ZERO || rests || state.held.is_some() {
            return false;
        }
        let (end, ended) = oneshot::channel();
        let (until, ended) = (now + longest, ended.shared());
        state.held = Some(Held { snapshot, branch: branch.to_owned(), from: now, until, _end: end, ended });
        true
    }

    /// A commit took effect. Returns whether a hold was for it.
    pub(crate) fn landed(&self, now: Instant, commit: &TableCommit) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(now);
        let used = state.held.as_ref().is_some_and(|held| added(commit) == Some(held.snapshot));
        if used {
            state.in_vain = 0;
            state.end(now);
        }
        used
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        if let Some(held) = &self.held
            && now >= held.until
            && !mutant::is(Mutant::HeldForEver)
        {
            let until = held.until;
            self.in_vain = (self.in_vain + 1).min(MOST_DOUBLINGS);
            self.end(until);
        }
    }

    fn end(&mut self, at: Instant) {
        if let Some(held) = self.held.take() {
            let mut rest = at.since(held.from);
            for _ in 0..self.in_vain {
                rest = rest + rest;
            }
            self.rests_until = Some(at + rest);
        }
    }
}

/// The snapshot that a commit adds.
fn added(commit: &TableCommit) -> Option<i64> {
    commit.updates.iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
        _ => None,
    })
}

/// Whether a commit changes what a branch points to.
fn moves(commit: &TableCommit, branch: &str) -> bool {
    commit.updates.iter().any(|update| match update {
        TableUpdate::SetSnapshotRef { ref_name, .. } | TableUpdate::RemoveSnapshotRef { ref_name } => {
            ref_name == branch
        }
        _ => false,
    })
}

/// The snapshot and the branch of a commit that has read the branch: it adds a snapshot that is no append, and requires that
/// the branch has not moved.
fn overwrite(commit: &TableCommit) -> Option<(i64, &str)> {
    let snapshot = commit.updates.iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } if snapshot.summary().operation != Operation::Append => {
            Some(snapshot.snapshot_id())
        }
        _ => None,
    })?;
    let branch = commit.requirements.iter().find_map(|one| match one {
        TableRequirement::RefSnapshotIdMatch { r#ref, .. } => Some(r#ref.as_str()),
        _ => None,
    })?;
    moves(commit, branch).then_some((snapshot, branch))
}

#[cfg(test)]
mod tests;
