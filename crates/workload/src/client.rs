//! One transaction, from its arrival to its end.
//!
//! 1. Read the catalog: the start snapshot.
//! 2. Work.
//! 3. With `commit.refresh_first`, read the catalog once more, and repair as in 6; that is no attempt.
//! 4. Prepare: write the new snapshot's files (once; and again after each table conflict).
//! 5. Install: try to commit against the snapshot last seen. If the store refuses, wait and install again.
//! 6. After a conflict, read the catalog again. If nothing that the transaction writes has changed, it is a catalog
//!    conflict: back to 5 with the same preparation. Otherwise it is a table conflict; a validated overwrite reads the
//!    commits that it missed; back to 4.
//! 7. Out of retries or time: stop.

use bytes::Bytes;
use glidepath_env::{
    Backoff, BulkStore, Env, Key, ObjectStore, Payload, Purpose, PutError, ReadError, Transfer, unit_interval,
};
use glidepath_model::{Advance, Changes, Edit, Instant, MetadataId, Overlap, PartitionId, Span, TableId, TableState};
use glidepath_protocols::{Catalog, Outcome, TableStates};
use smallvec::SmallVec;

use crate::record::{End, Kind, Record};
use crate::requests::{RequestList, Requests};
use crate::spec::{History, ManifestList, Refresh, Step, Workload};
use crate::tables::TablePicker;

/// Runs transactions in one process.
pub struct Client<'a, E: Env, C> {
    /// The process.
    pub env: &'a E,
    /// The catalog they commit to.
    pub catalog: &'a C,
    /// The store of table metadata.
    pub store: &'a E::Objects,
    /// The workload that they are part of.
    pub workload: &'a Workload,
    /// Their requests, derived from `workload`.
    pub requests: &'a Requests,
}

/// The object that contains a table's manifest list, if entries are appended to lists.
#[must_use]
pub fn manifest_list_key(table: TableId) -> Key {
    Key::new(&format!("tables/{}/manifest-list", table.0))
}

/// What a transaction writes: tables, and the partitions of each.
#[derive(Clone, Debug)]
struct Targets {
    tables: SmallVec<[TableId; 1]>,
    partitions: SmallVec<[SmallVec<[PartitionId; 1]>; 1]>,
}

impl Targets {
    fn pick(env: &impl Env, workload: &Workload, picker: &TablePicker, aimed: Option<TableId>) -> Self {
        let spec = &workload.transaction;
        let mut tables = picker.tables(spec.tables, || env.draw(Purpose::Tables));
        if let Some(aimed) = aimed.filter(|aimed| !tables.contains(aimed)) {
            tables[0] = aimed;
            tables.sort_unstable();
        }
        let partitions = |_: &TableId| picker.partitions(spec.partitions, || env.draw(Purpose::Tables));
        Self { partitions: tables.iter().map(partitions).collect(), tables }
    }
}

/// The state of a transaction after its work.
struct InFlight<'a, E: Env, C: Catalog> {
    client: &'a Client<'a, E, C>,
    record: Record,
    targets: Targets,
    base: C::Snapshot,
    changes: Changes,
    /// In append mode, whether the entries are already in the manifest lists.
    appended: bool,
    /// When it ran out of retries or time.
    gave_up: Option<Instant>,
}

/// What a transaction will do.
#[derive(Clone, Debug)]
pub struct Intent {
    /// What kind it is.
    pub kind: Kind,
    /// How long it works before it commits.
    pub runtime: Span,
    targets: Targets,
}

impl Intent {
    /// Draws a transaction. `aimed` is a table that it must write.
    #[must_use]
    pub fn draw(env: &impl Env, workload: &Workload, picker: &TablePicker, aimed: Option<TableId>) -> Self {
        let spec = &workload.transaction;
        let fast = unit_interval(env.draw(Purpose::Transaction)) < spec.fast_append;
        let kind = if fast { Kind::FastAppend } else { Kind::ValidatedOverwrite };
        let runtime = spec.runtime_of(kind).sample(|| env.draw(Purpose::Transaction));
        Self { kind, runtime, targets: Targets::pick(env, workload, picker, aimed) }
    }

    /// The first table that it writes.
    #[must_use]
    pub fn table(&self) -> TableId {
        self.targets.tables[0]
    }

    /// The record of the transaction in case it fails at once.
    fn record(&self, arrived: Instant) -> Record {
        Record::begin(arrived, self.kind, self.table())
    }
}

impl<E: Env<Objects: BulkStore>, C: Catalog> Client<'_, E, C> {
    /// Runs one transaction. Dropping the future stops it wherever it is. (Not an async fn, and without a record before
    /// the commit: that would store the intent twice, and thousands of transactions are waiting for the end of their
    /// work.)
    #[expect(clippy::manual_async_fn)]
    pub fn run(&self, intent: Intent) -> impl Future<Output = Record> {
        async move {
            let arrived = self.env.now();
            let Some((base, changes)) = self.start(&intent.targets).await else {
                return Record { ended: self.env.now(), ..intent.record(arrived) };
            };
            self.env.sleep_until(self.env.now() + intent.runtime).await;
            let (record, targets) = (intent.record(arrived), intent.targets);
            // Boxed, so that the thousands that are working do not reserve the memory of the few that are committing.
            Box::pin(InFlight { client: self, record, targets, base, changes, appended: false, gave_up: None }.end())
                .await
        }
    }

    /// Step 1: the start snapshot, and the changes to make to it.
    async fn start(&self, targets: &Targets) -> Option<(C::Snapshot, Changes)> {
        let base = self.catalog.load().await.ok()?;
        let states = self.catalog.tables(&base, &targets.tables).await.ok()?;
        let changes = self.changes(&states, targets)?;
        drop(states);
        Some((base, changes))
    }

    /// The changes that write these targets in their current states; `None` if one does not exist.
    fn changes(&self, states: &TableStates, targets: &Targets) -> Option<Changes> {
        let mut changes = Changes::default();
        for ((table, partitions), state) in targets.tables.iter().zip(&targets.partitions).zip(states) {
            let state = state.as_ref()?;
            let mut seen = SmallVec::new();
            for id in partitions {
                seen.push((*id, *state.partitions.get(id.0 as usize)?));
            }
            let metadata = MetadataId(self.env.draw(Purpose::Names));
            changes.set(*table, Edit::Advance(Advance { metadata, partitions: seen }));
        }
        Some(changes)
    }
}

/// What a newer snapshot shows.
struct Look<'a> {
    states: TableStates<'a>,
    overlap: Overlap,
}

impl<E: Env<Objects: BulkStore>, C: Catalog> InFlight<'_, E, C> {
    /// Everything after the work. (Not an async fn: that would store the transaction twice, as the argument and as the
    /// variable.)
    #[expect(clippy::manual_async_fn)]
    fn end(mut self) -> impl Future<Output = Record> {
        async move {
            self.record.work_done = self.now();
            self.record.end = self.commit().await.err().unwrap_or(End::Committed);
            // A transaction that ran out of retries ended before its last conflict was classified.
            self.record.ended = self.gave_up.unwrap_or_else(|| self.now());
            self.record
        }
    }

    /// Steps 3 to 6.
    async fn commit(&mut self) -> Result<(), End> {
        let commit = &self.client.workload.commit;
        if commit.refresh_first {
            let newer = self.load().await?;
            let look = self.look(&newer).await?;
            self.repair(&newer, &look).await?;
            drop(look);
            self.base = newer;
        }
        let began = self.now();
        self.make(&self.client.requests.once).await?;
        self.record.spent.prepare += self.since(began);
        let mut prepared = false;
        loop {
            if !prepared {
                let began = self.now();
                self.make(&self.client.requests.prepare).await?;
                self.record.spent.prepare += self.since(began);
                prepared = true;
            }
            let began = self.now();
            let outcome = self.client.catalog.commit(&self.base, &self.changes).await;
            self.record.spent.install += self.since(began);
            self.record.attempts += 1;
            match outcome {
                Outcome::Committed(_) => return Ok(()),
                Outcome::Unknown(_) => return Err(End::Unknown),
                Outcome::Refused(_) => {
                    self.record.refused += 1;
                    self.retry_or_give_up()?;
                    self.wait(&self.client.workload.retry.catalog, self.record.retries - 1).await;
                }
                Outcome::Conflict(newer) => {
                    if let Err(end) = self.retry_or_give_up() {
                        self.last_conflict(newer).await;
                        return Err(end);
                    }
                    prepared = self.after_conflict(newer).await?;
                }
            }
        }
    }

    /// Step 6.
    fn retry_or_give_up(&mut self) -> Result<(), End> {
        let retry = &self.client.workload.retry;
        let late = retry.time_limit.is_some_and(|limit| self.since(self.record.work_done) > limit);
        if self.record.retries == retry.retries || late {
            self.gave_up = Some(self.now());
            return Err(End::OutOfRetries);
        }
        self.record.retries += 1;
        Ok(())
    }

    /// Counts the last conflict of a transaction that ran out of retries, if the protocol reports what changed.
    async fn last_conflict(&mut self, newer: Option<C::Snapshot>) {
        if let Some(newer) = newer
            && let Ok(Look { overlap, .. }) = self.look(&newer).await
        {
            self.count_conflict(overlap);
        } else {
            self.record.unseen_conflicts += 1;
        }
    }

    /// Counts a conflict. Returns whether nothing that the transaction writes had changed.
    fn count_conflict(&mut self, overlap: Overlap) -> bool {
        let harmless = overlap == Overlap::None;
        self.record.catalog_conflicts += u32::from(harmless);
        self.record.table_conflicts += u32::from(!harmless);
        harmless
    }

    /// Step 5. Returns whether the preparation is still valid.
    ///
    /// If both kinds of conflict have the same wait, the wait comes before the catalog is read, as in Iceberg.
    /// Otherwise it must be read first to tell them apart; after a wait, it is read again to see what was committed
    /// meanwhile.
    async fn after_conflict(&mut self, newer: Option<C::Snapshot>) -> Result<bool, End> {
        let retry = &self.client.workload.retry;
        let alike = retry.catalog == retry.table;
        // Skips `wait` if there is none: this runs for every attempt under contention.
        let waits = alike && retry.catalog != Backoff::Immediate;
        let mut waited = waits && self.wait(&retry.catalog, self.record.retries - 1).await;
        let mut newer = match newer.filter(|_| !waited) {
            Some(newer) => newer,
            None => self.load().await?,
        };
        let mut look = self.look(&newer).await?;
        if !alike {
            waited = match look.overlap {
                Overlap::None => self.wait(&retry.catalog, self.record.catalog_conflicts).await,
                _ => self.wait(&retry.table, self.record.table_conflicts).await,
            };
            if waited {
                drop(look);
                newer = self.load().await?;
                look = self.look(&newer).await?;
            }
        }
        let harmless = self.count_conflict(look.overlap);
        self.repair(&newer, &look).await?;
        drop(look);
        self.base = newer;
        Ok(harmless)
    }

    /// Reads what has changed, and makes the changes fit the newer snapshot.
    async fn repair(&mut self, newer: &C::Snapshot, look: &Look<'_>) -> Result<(), End> {
        let began = self.now();
        let repaired = self.read_and_renew(newer, look).await;
        // Also for transactions that end here.
        self.record.spent.conflict_reads += self.since(began);
        repaired
    }

    async fn read_and_renew(&mut self, newer: &C::Snapshot, look: &Look<'_>) -> Result<(), End> {
        let overlap = look.overlap;
        let (commit, transaction) = (&self.client.workload.commit, &self.client.workload.transaction);
        if overlap != Overlap::None || commit.refresh_after == Refresh::EveryConflict {
            self.make(&self.client.requests.refresh).await?;
        }
        match overlap {
            Overlap::None => {}
            Overlap::Existence(_) => return Err(End::ValidationFailed),
            Overlap::Partitions { missed, partitions } => {
                if self.record.kind == Kind::ValidatedOverwrite {
                    let real = transaction.real_conflicts;
                    if real > 0.0 && unit_interval(self.client.env.draw(Purpose::Validation)) < real {
                        return Err(End::ValidationFailed);
                    }
                    self.read_history(newer, missed, partitions).await?;
                }
                let env = self.client.env;
                let state = |table| state_of(table, &self.targets.tables, &look.states);
                self.changes.renew(state, || MetadataId(env.draw(Purpose::Names))).ok_or(End::Failed)?;
            }
        }
        Ok(())
    }

    async fn read_history(&mut self, newer: &C::Snapshot, missed: u64, partitions: u64) -> Result<(), End> {
        let (commit, tables) = (&self.client.workload.commit, &self.client.workload.tables);
        let count = match (tables.manifest_list, commit.history) {
            // The list is one object in which the missed entries are adjacent.
            (ManifestList::Append, _) => partitions.min(self.targets.tables.len() as u64),
            (ManifestList::Rewrite, History::MissedSnapshots) => missed.saturating_sub(partitions),
            (ManifestList::Rewrite, History::MissedCatalogVersions) => {
                let version = |at| self.client.catalog.version(at);
                // Without versions of the catalog there are only those of the tables.
                version(newer).zip(version(&self.base)).map_or(missed, |(newer, base)| newer.since(base))
            }
        };
        self.record.history_reads += count;
        let (size, parallel) = (tables.manifest_list_size, commit.history_parallel);
        self.transfer(&[Transfer::ReadMany { count, size, parallel }]).await
    }

    /// Makes the requests of a list, for each table written.
    async fn make(&mut self, list: &RequestList) -> Result<(), End> {
        if list.appends {
            // Boxed, because it is rare and would otherwise enlarge every request's future.
            return Box::pin(self.make_with_appends(list)).await;
        }
        for _ in 0..self.targets.tables.len() {
            self.client.store.bulk(&list.transfers).await.map_err(|_| End::Failed)?;
        }
        Ok(())
    }

    /// As [`make`](Self::make), but appends an entry to the manifest list instead of rewriting it.
    async fn make_with_appends(&mut self, list: &RequestList) -> Result<(), End> {
        for n in 0..self.targets.tables.len() {
            for step in &list.steps {
                match step {
                    Step::WriteManifestList => self.append_entry(self.targets.tables[n]).await?,
                    _ => self.transfer(step.transfer(&self.client.workload.tables).as_slice()).await?,
                }
            }
        }
        self.appended = true;
        Ok(())
    }

    async fn transfer(&self, transfers: &[Transfer]) -> Result<(), End> {
        self.client.store.bulk(transfers).await.map_err(|_| End::Failed)
    }

    /// Appends this transaction's tentative entry to the table's manifest list, unless it is already there.
    async fn append_entry(&mut self, table: TableId) -> Result<(), End> {
        if self.appended {
            return Ok(());
        }
        let key = manifest_list_key(table);
        let store = self.client.store;
        loop {
            let end = match store.head(&key).await {
                Ok(metadata) => metadata.size.as_bytes(),
                Err(ReadError::NotFound) => 0,
                Err(ReadError::Failed(_)) => return Err(End::Failed),
            };
            let filler = self.client.workload.tables.manifest_entry_size;
            match store.append(&key, Payload { bytes: Bytes::new(), filler }, end).await {
                Ok(_) => return Ok(()),
                Err(PutError::Lost) => self.record.append_conflicts += 1,
                // A second entry of the same transaction would do no harm: the catalog names the transaction once.
                Err(PutError::Unknown(_) | PutError::Refused(_)) => return Err(End::Failed),
            }
        }
    }

    async fn load(&mut self) -> Result<C::Snapshot, End> {
        let began = self.now();
        let loaded = self.client.catalog.load().await;
        self.record.spent.catalog_reads += self.since(began);
        loaded.map_err(|_| End::Failed)
    }

    async fn look<'s>(&self, newer: &'s C::Snapshot) -> Result<Look<'s>, End> {
        let tables = &self.targets.tables;
        let states = self.client.catalog.tables(newer, tables).await.map_err(|_| End::Failed)?;
        let overlap = self.changes.overlap_with(|table| state_of(table, tables, &states));
        Ok(Look { states, overlap })
    }

    /// Waits according to a policy. Returns whether there was a wait.
    async fn wait(&mut self, backoff: &Backoff, repeat: u32) -> bool {
        let env = self.client.env;
        let wait = backoff.wait(repeat, || env.draw(Purpose::Backoff));
        if wait == Span::ZERO {
            return false;
        }
        env.sleep_until(self.now() + wait).await;
        self.record.spent.backoff += wait;
        true
    }

    fn now(&self) -> Instant {
        self.client.env.now()
    }

    fn since(&self, earlier: Instant) -> Span {
        self.now().since(earlier)
    }
}

/// The state of a table, from a list of tables and their states.
#[inline]
fn state_of<'a>(table: TableId, tables: &[TableId], states: &'a TableStates<'_>) -> Option<&'a TableState> {
    states[tables.iter().position(|id| *id == table)?].as_deref()
}
