//! Priority for an overwrite that lost: the commits of others to its branch wait a moment for its next try.
//!
//! The rules are those of [`glidepath_protocols::table_turn::Priority`]. A hold ends when a snapshot with the same id
//! has landed: Iceberg's client for Java keeps the id of a snapshot when it tries again. Other clients never come back
//! with it, so their holds are in vain. Another server's commits are not held back.

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_protocols::table_turn::{self, Hold};
use iceberg::spec::Operation;
use iceberg::{TableRequirement, TableUpdate};

use super::TableCommit;
use crate::mutant::{self, Mutant};

/// A hundred years, for the mutant `HeldForEver`.
const FOR_EVER: Span = Span::from_secs(100 * 365 * 24 * 3600);

/// Who has priority at one table.
#[derive(Default)]
pub(crate) struct Priority {
    holds: table_turn::Priority<Try>,
}

/// A snapshot, and the branch that is held for it.
struct Try {
    snapshot: i64,
    branch: String,
}

impl Priority {
    /// The hold that this commit has to wait for.
    pub(crate) fn before(&self, now: Instant, commit: &TableCommit) -> Option<Hold> {
        self.holds.before(now, |held| !adds(commit, held.snapshot) && moves(commit, &held.branch))
    }

    /// Waits for the end of a hold.
    pub(crate) async fn over<E: Env>(&self, hold: Hold, env: &E) {
        let late = env.sleep_until(hold.until());
        self.holds.over(hold, late).await;
    }

    /// These parts of a commit, each to the table of its priority, lost. Returns whether holds begin. If one of them is
    /// an overwrite, they do for each part that adds a snapshot, because the next try has to come first at all their
    /// tables; or for none. In the order of the names of the tables.
    pub(crate) fn lost<'a>(parts: &[(&'a Self, &'a TableCommit)], now: Instant, longest: Span) -> bool {
        let longest = if mutant::is(Mutant::HeldForEver) { FOR_EVER } else { longest };
        if !parts.iter().any(|(_, commit)| overwrites(commit)) {
            return false;
        }
        let tries = parts.iter().filter_map(|(priority, commit)| {
            let (snapshot, branch) = overwrite(commit).or_else(|| added(commit))?;
            Some((&priority.holds, Try { snapshot, branch: branch.to_owned() }))
        });
        table_turn::Priority::lost_at(tries, now, longest)
    }

    /// A commit took effect. Returns whether a hold was for it.
    pub(crate) fn landed(&self, now: Instant, commit: &TableCommit) -> bool {
        self.holds.landed(now, |held| adds(commit, held.snapshot))
    }
}

fn adds(commit: &TableCommit, id: i64) -> bool {
    let is_it =
        |update: &TableUpdate| matches!(update, TableUpdate::AddSnapshot { snapshot } if snapshot.snapshot_id() == id);
    commit.updates.iter().any(is_it)
}

/// A snapshot that a commit adds, and the branch that it moves there.
fn added(commit: &TableCommit) -> Option<(i64, &str)> {
    commit.updates.iter().rev().find_map(|update| match update {
        TableUpdate::SetSnapshotRef { ref_name, reference } if adds(commit, reference.snapshot_id) => {
            Some((reference.snapshot_id, ref_name.as_str()))
        }
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

/// Whether a commit depends on all that was committed before.
pub(crate) fn overwrites(commit: &TableCommit) -> bool {
    overwrite(commit).is_some()
}

/// The snapshot and the branch of a commit that has read the branch: it adds a snapshot that is no append, and requires
/// that the branch has not moved.
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
