//! The record of a transaction.

use glidepath_model::{Instant, Span, TableId};

/// The kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Adds files; any conflict is repaired without reading what others committed.
    FastAppend,
    /// Replaces files; after a table conflict it must read the commits that it missed.
    ValidatedOverwrite,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Its changes are in the catalog.
    Committed,
    /// It ran out of retries or time.
    OutOfRetries,
    /// A conflict was real: another commit changed what it would replace.
    ValidationFailed,
    /// A request to the store failed.
    Failed,
    /// It is not known whether its changes are in the catalog.
    Unknown,
}

/// The time spent on each step between the end of the work and the end of the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Reading the catalog.
    pub catalog_reads: Span,
    /// Writing and reading the metadata of an attempt.
    pub prepare: Span,
    /// Reading table metadata and history after a conflict.
    pub conflict_reads: Span,
    /// Attempts to change the catalog, successful or not.
    pub install: Span,
    /// Waiting between attempts.
    pub backoff: Span,
}

/// A transaction that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it arrived; its work began then.
    pub arrived: Instant,
    /// When its work was done and the commit began.
    pub work_done: Instant,
    /// When its outcome was known.
    pub ended: Instant,
    /// Its kind.
    pub kind: Kind,
    /// How it ended.
    pub end: End,
    /// The first of the tables it wrote.
    pub table: TableId,
    /// Attempts after the first.
    pub retries: u32,
    /// Attempts to change the catalog: each committed, had one of the four ends below, or is of unknown outcome.
    pub attempts: u32,
    /// Attempts that the store refused.
    pub refused: u32,
    /// Attempts that failed although nothing it writes had changed.
    pub catalog_conflicts: u32,
    /// Attempts that failed because something it writes had changed.
    pub table_conflicts: u32,
    /// Conflicts of unknown kind: the last one of a transaction that ran out of retries, if the protocol does not
    /// report what changed.
    pub unseen_conflicts: u32,
    /// Appends to a manifest list that lost to another append.
    pub append_conflicts: u32,
    /// Manifest lists read to see the missed commits.
    pub history_reads: u64,
    /// The time spent on each step.
    pub spent: Spent,
}

impl Record {
    /// A transaction that has just arrived; its end is "failed" unless something else is recorded.
    pub(crate) fn begin(now: Instant, kind: Kind, table: TableId) -> Self {
        Self {
            arrived: now,
            work_done: now,
            ended: now,
            kind,
            end: End::Failed,
            table,
            retries: 0,
            attempts: 0,
            refused: 0,
            catalog_conflicts: 0,
            table_conflicts: 0,
            unseen_conflicts: 0,
            append_conflicts: 0,
            history_reads: 0,
            spent: Spent::default(),
        }
    }

    /// From the end of the work to the answer of the last attempt.
    #[must_use]
    pub fn commit_latency(&self) -> Span {
        self.ended.since(self.work_done)
    }
}
