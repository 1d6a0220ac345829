//! Files of appends that are read before it is their turn: while others commit to the table, or for several at once.
//!
//! The next leader waits for those that still read ([`Readers`]): no longer than it took to read its own files, and no
//! longer than [`LONGEST_READ`].

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join;
use glidepath_env::Env;
use glidepath_model::Span;
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::{LONGEST_READ, Readers, TOGETHER};
use glidepath_table::Files;
use glidepath_table::rebase::{ReadAhead, read_ahead, read_parents};
use iceberg::spec::TableMetadata;

use super::TableCommit;
use crate::Inner;
use crate::table_queues::TableQueue;

/// Bytes that are kept for commits that wait, at all tables.
const MOST_KEPT: usize = 64 << 20;

/// Manifests in the lists that are read at once.
const MOST_AT_ONCE: usize = 200_000;

/// A commit in the queue of its table; or a commit over several tables, which is nowhere to be taken and only waits to
/// lead.
pub(crate) struct Request {
    pub(crate) commit: TableCommit,
    leads: bool,
    ahead: Option<Kept>,
    /// How long it took to read its files; zero if they were not read.
    reading: Span,
}

impl Deref for Request {
    type Target = TableCommit;

    fn deref(&self) -> &TableCommit {
        &self.commit
    }
}

impl Request {
    pub(crate) fn of(commit: TableCommit) -> Self {
        Self { commit, leads: false, ahead: None, reading: Span::ZERO }
    }

    /// A place in the queue of one that commits itself.
    pub(crate) fn to_lead() -> Self {
        let nothing = TableCommit { requirements: Vec::new(), updates: Vec::new(), key: None };
        Self { leads: true, ..Self::of(nothing) }
    }

    /// Whether it only waits to lead.
    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    /// What was read for it.
    pub(super) fn ahead(&self) -> Option<&ReadAhead> {
        self.ahead.as_ref().map(|kept| &kept.read)
    }
}

/// What was read, and counts as long as it is kept.
struct Kept {
    read: ReadAhead,
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Kept {
    /// Nothing if too much is kept already.
    fn within(read: ReadAhead, all: &Arc<AtomicUsize>) -> Option<Self> {
        let bytes = read.bytes();
        let before = all.fetch_add(bytes, Ordering::Relaxed);
        let kept = Self { read, bytes, all: Arc::clone(all) };
        (before + bytes <= MOST_KEPT).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Reads the files of an append that must wait for others anyway, if not too many read already.
    pub(crate) async fn read_meanwhile(&self, (table_queue, readers): (&TableQueue, &Readers), request: &mut Request) {
        let Some(on) = table_queue.known().filter(|on| self.may_read(&on.metadata)) else { return };
        let Some(_reader) = readers.enter() else { return };
        let begun = self.env.now();
        let read = read_ahead(&request.updates, &on.metadata, self.settings.rebase, &self.files, &self.lists).await;
        request.ahead = read.and_then(|read| Kept::within(read, &self.kept_ahead));
        request.reading = self.env.now().since(begun);
    }

    /// Whether files in the folder for metadata that the table names may be read for a client: it may be another
    /// table's.
    fn may_read(&self, on: &TableMetadata) -> bool {
        self.settings.metadata_folder(on.location(), on.properties()).is_ok()
    }

    /// Waits for others that read their files, before `own` leads.
    pub(super) async fn gather(&self, table_queue: &TableQueue, own: &Request) {
        if own.reading > Span::ZERO {
            table_queue.readers.gather(self.env.sleep_until(self.env.now() + own.reading.min(LONGEST_READ))).await;
        }
    }

    /// Reads the files of the next of several appends at once, since each is decided after the one before; as many as
    /// do not take too much memory. A single commit may need none.
    pub(super) async fn ahead(&self, on: &TableMetadata, requests: &[Arc<Request>]) -> VecDeque<Option<ReadAhead>> {
        if requests.len() < 2 || !self.may_read(on) {
            return VecDeque::new();
        }
        let list = on.current_snapshot().and_then(|head| self.lists.get(head.manifest_list()));
        let each = list.map_or(MOST_AT_ONCE / TOGETHER, |manifests| manifests.len() + requests.len());
        let some = &requests[..requests.len().min((MOST_AT_ONCE / each.max(1)).max(1))];
        let read = some.iter().map(async |request| match request.ahead() {
            Some(_) => None,
            None => read_ahead(&request.updates, on, self.settings.rebase, &self.files, &self.lists).await,
        });
        // Those that were read before may have parents that were not known then.
        let updates = some.iter().map(|request| request.updates.as_slice());
        let parents = read_parents(updates, on, self.settings.rebase, &self.files, &self.lists);
        join(parents, glidepath_env::together(TOGETHER, read)).await.1.into()
    }
}
