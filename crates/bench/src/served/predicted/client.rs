//! A client: it sends its next request when the last one is answered.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Env, together};
use glidepath_model::{Instant, Span};
use glidepath_service::{Kind, Loaded, TableCommit, Warehouse};
use glidepath_sim::{Envelope, SimEnv, SimStore, Slot};
use glidepath_table::rebase::{read_list, write_list};
use glidepath_table::{Files, clients};
use iceberg::spec::{Operation, Snapshot, Summary, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};

use super::server::{Answer, Ask, own};
use super::{BASE, Costs, FAR_MS, HOT, STORE, Scene, Workload, identifier};
use crate::served::{FIRST_WAIT, RETRIES};

/// Manifest lists that a client reads at once.
const READS_AT_ONCE: usize = 4;

pub(super) struct Client {
    env: SimEnv,
    scene: Rc<Scene>,
    number: u32,
    files: Warehouse<SimStore>,
}

/// Why a client cannot go on, in words.
type Stopped = String;

impl Client {
    pub(super) fn new(env: SimEnv, scene: Rc<Scene>, number: u32) -> Self {
        let files = Warehouse::new(env.store(STORE), BASE);
        Self { env, scene, number, files }
    }

    /// Works until the time is over.
    pub(super) async fn work(&self, overwrites: bool) -> Result<(), Stopped> {
        match self.scene.cell.workload {
            Workload::Own => self.own().await,
            Workload::Hot | Workload::Fair if overwrites => self.overwrite_all().await,
            Workload::Hot | Workload::Fair => self.append_all().await,
            Workload::Load | Workload::LoadUnchanged => self.load_all().await,
        }
    }

    fn goes_on(&self) -> bool {
        self.env.now() < self.scene.until()
    }

    async fn own(&self) -> Result<(), Stopped> {
        let table = identifier(&own(self.number));
        let uuid = self.load(&table.name).await?.metadata.uuid();
        for turn in 0_u64.. {
            if !self.goes_on() {
                break;
            }
            let updates = HashMap::from([("turn".to_owned(), turn.to_string())]);
            let commit = TableCommit {
                requirements: vec![TableRequirement::UuidMatch { uuid }],
                updates: vec![TableUpdate::SetProperties { updates }],
                key: None,
            };
            let began = self.env.now();
            match self.ask(Ask::Commit(table.clone(), commit)).await {
                Ok(_) => self.done(began),
                Err(error) => self.count(error.kind, &error.to_string(), false)?,
            }
        }
        Ok(())
    }

    async fn load_all(&self) -> Result<(), Stopped> {
        while self.goes_on() {
            let began = self.env.now();
            self.load(HOT).await?;
            self.done(began);
            let unchanged = u64::from(self.scene.cell.workload == Workload::LoadUnchanged);
            self.scene.not_modified.set(self.scene.not_modified.get() + unchanged);
        }
        Ok(())
    }

    async fn append_all(&self) -> Result<(), Stopped> {
        let mut loaded = self.load(HOT).await?;
        while self.goes_on() {
            let (snapshot, mut began) = (self.scene.fresh(), None);
            for attempt in 0_u32.. {
                let written = self.write(&loaded, snapshot, attempt, Operation::Append).await?;
                let began = *began.get_or_insert_with(|| self.env.now());
                match self.commit(&loaded, &written).await? {
                    Ok(now) => {
                        loaded = now;
                        self.done(began);
                        self.scene.acknowledged.borrow_mut().insert(snapshot);
                        break;
                    }
                    Err(()) if !self.goes_on() => break,
                    Err(()) => loaded = self.load(HOT).await?,
                }
            }
            self.wait(self.scene.world.pause).await;
        }
        Ok(())
    }

    async fn overwrite_all(&self) -> Result<(), Stopped> {
        while self.goes_on() {
            let (snapshot, mut began) = (self.scene.fresh(), None);
            let mut loaded = self.load(HOT).await?;
            let mut wait = FIRST_WAIT;
            for attempt in 0..=RETRIES {
                self.wait(self.scene.world.validation).await;
                let written = self.write(&loaded, snapshot, attempt, Operation::Overwrite).await?;
                let began = *began.get_or_insert_with(|| self.env.now());
                if self.commit(&loaded, &written).await?.is_ok() {
                    let took = self.env.now().since(began).as_nanos();
                    self.scene.overwrites.borrow_mut().latencies_ns.push(took);
                    self.scene.acknowledged.borrow_mut().insert(snapshot);
                    break;
                }
                if attempt == RETRIES {
                    self.scene.overwrites.borrow_mut().given_up += 1;
                    break;
                }
                self.wait(wait).await;
                wait = wait + wait;
                let newer = self.load(HOT).await?;
                self.read_missed(&loaded, &newer).await?;
                loaded = newer;
            }
        }
        Ok(())
    }

    /// Reads the manifest lists of the commits since `old`.
    async fn read_missed(&self, old: &Loaded<TableMetadata>, new: &Loaded<TableMetadata>) -> Result<(), Stopped> {
        let mut missed = Vec::new();
        let mut next = new.metadata.current_snapshot();
        while let Some(snapshot) = next.filter(|one| old.metadata.snapshot_by_id(one.snapshot_id()).is_none()) {
            missed.push(snapshot.manifest_list());
            next = snapshot.parent_snapshot_id().and_then(|parent| new.metadata.snapshot_by_id(parent));
        }
        for read in together(READS_AT_ONCE, missed.into_iter().map(|list| self.files.read(list))).await {
            read.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Commits a snapshot. The inner error: it conflicted, or was put off.
    async fn commit(
        &self,
        on: &Loaded<TableMetadata>,
        snapshot: &Snapshot,
    ) -> Result<Result<Loaded<TableMetadata>, ()>, Stopped> {
        let (requirements, updates) = clients::commit(on.metadata.uuid(), snapshot);
        let ask = Ask::Commit(identifier(HOT), TableCommit { requirements, updates, key: None });
        match self.ask(ask).await {
            Ok(now) => Ok(Ok(now)),
            Err(error) => {
                let overwrites = snapshot.summary().operation != Operation::Append;
                self.count(error.kind, &error.to_string(), overwrites).map(|()| Err(()))
            }
        }
    }

    /// The first append, alone: a rebase needs a parent.
    pub(super) async fn first(&self) -> Result<(), Stopped> {
        let loaded = self.load(HOT).await?;
        let written = self.write(&loaded, self.scene.fresh(), 0, Operation::Append).await?;
        self.scene.acknowledged.borrow_mut().insert(written.snapshot_id());
        self.commit(&loaded, &written).await?.map(|_| ()).map_err(|()| "the first append conflicts".to_owned())
    }

    /// Writes the files of a snapshot on top of this version.
    async fn write(
        &self,
        on: &Loaded<TableMetadata>,
        id: i64,
        attempt: u32,
        operation: Operation,
    ) -> Result<Snapshot, Stopped> {
        let metadata = &on.metadata;
        let folder = format!("{}/metadata", metadata.location());
        let (list, manifest) =
            (format!("{folder}/snap-{id}-{attempt}.avro"), format!("{folder}/{id}-{attempt}-m0.avro"));
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let mut manifests = Vec::new();
        if let Some(parent) = metadata.current_snapshot() {
            let bytes = self.files.read(parent.manifest_list()).await.map_err(|error| words(&error))?;
            manifests = read_list(&bytes)?;
        }
        let data = format!("{}/data/{id}.parquet", metadata.location());
        let bytes = clients::manifest(&data, 1, false).map_err(|error| words(&error))?;
        let sequence = metadata.next_sequence_number();
        manifests.insert(0, Arc::new(clients::listed(&manifest, bytes.len(), id, sequence, 1)));
        let listed: Bytes = write_list((id, metadata.current_snapshot_id()), sequence, &manifests, [7; 16])?.into();
        let costs = self.scene.world.costs;
        self.compute(costs.client_append + Costs::of_bytes(costs.client_list_kib, listed.len())).await;
        for (location, bytes) in [(&manifest, bytes), (&list, listed)] {
            self.files.write(location, bytes).await.map_err(|error| words(&error))?;
        }
        let counts = [("added-data-files", "1"), ("added-records", "1")];
        let counts = counts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let now = self.env.now().since(Instant::ZERO).as_nanos() / 1_000_000;
        Ok(Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(metadata.current_snapshot_id())
            .with_sequence_number(sequence)
            .with_timestamp_ms(FAR_MS + now.cast_signed())
            .with_manifest_list(list)
            .with_summary(Summary { operation, additional_properties: counts })
            .with_schema_id(metadata.current_schema_id())
            .build())
    }

    async fn load(&self, table: &str) -> Result<Loaded<TableMetadata>, Stopped> {
        self.ask(Ask::Load(identifier(table))).await.map_err(|error| error.to_string())
    }

    /// Sends a request, and waits for its answer.
    async fn ask(&self, ask: Ask) -> Answer {
        let half = self.scene.world.round_trip.half();
        self.compute(self.scene.world.costs.client_request).await;
        let slot = Rc::new(Slot::default());
        let envelope = Envelope { ask, due: self.env.now() + half, slot: Some(Rc::clone(&slot)) };
        self.scene.host().deliver(envelope);
        let answer = slot.answered().await;
        self.wait(half).await;
        if let Ok(loaded) = &answer
            && self.scene.cell.workload != Workload::LoadUnchanged
        {
            let received = &self.scene.received_bytes;
            received.set(received.get() + loaded.json.len() as u64);
        }
        answer
    }

    fn done(&self, began: Instant) {
        self.scene.operations.borrow_mut().latencies_ns.push(self.env.now().since(began).as_nanos());
    }

    /// Counts what was not acknowledged.
    fn count(&self, kind: Kind, words: &str, overwrites: bool) -> Result<(), Stopped> {
        let samples = if overwrites { &self.scene.overwrites } else { &self.scene.operations };
        let mut samples = samples.borrow_mut();
        match kind {
            Kind::Conflict => samples.conflicts += 1,
            Kind::Unavailable => samples.busy += 1,
            // The simulated store has no faults.
            _ => return Err(words.to_owned()),
        }
        samples.note(&words.chars().take(120).collect::<String>(), 1);
        Ok(())
    }

    /// Computes on its thread, which others share.
    async fn compute(&self, time: Span) {
        self.scene.thread(self.number).spend(&self.env, time).await;
    }

    async fn wait(&self, time: Span) {
        if time > Span::ZERO {
            self.env.sleep_until(self.env.now() + time).await;
        }
    }
}
