//! What does a client do? It commits as the client of Iceberg for Java does: it writes the files of a snapshot, commits,
//! and after a conflict deletes those files, loads the table again and tries again, with the same number of the snapshot.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_model::{Instant, Span};
use glidepath_service::{Idempotency, Identifier, Kind, Loaded, TableCommit, Warehouse};
use glidepath_sim::{SimEnv, SimStore};
use glidepath_table::{FileError, Files, clients};
use iceberg::spec::{Operation, Snapshot, Summary, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use super::book::{Book, Told};
use super::wire::{Answer, Ask, Link, Net};
use super::{FAR_MS, identifier};
use crate::scenario::Writers;

/// Attempts of one commit, each on a newer version of the table.
const TRIES: u32 = 6;

/// How often a request is sent again, if it is safe to do so.
const SENDS: u32 = 5;

/// How often a file is written or read again.
const FILE_TRIES: u32 = 6;

/// Tables that are made and dropped, besides those of the scenario.
pub(super) const SPARE: u32 = 2;

pub(super) struct Client {
    pub(super) env: SimEnv,
    pub(super) number: u32,
    pub(super) net: Rc<Net>,
    pub(super) link: Link,
    pub(super) files: Warehouse<SimStore>,
    pub(super) book: Rc<RefCell<Book>>,
    pub(super) writers: Writers,
    /// Whether it asks for its appends to be rebased.
    pub(super) rebases: bool,
}

/// A snapshot whose files are written.
pub(super) struct Written {
    snapshot: Snapshot,
    files: Vec<String>,
}

impl Client {
    /// Lives until it has done all, or dies between two steps.
    pub(super) async fn live(self, dies: f64) {
        let mut life = pin!(self.act());
        let died = poll_fn(|context| match life.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if unit_interval(self.env.draw(Purpose::Validation)) < dies => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        })
        .await;
        if died {
            self.say(|| "dies".to_owned());
        }
        self.book.borrow_mut().reach(self.env.world_now());
        self.net.leave();
    }

    async fn act(&self) {
        for _ in 0..self.writers.commits {
            self.pause().await;
            match self.draw() % 16 {
                0..8 => self.append(&self.any_table()).await,
                8 | 9 => self.set_property(&self.any_table()).await,
                10 | 11 => self.append_to_two().await,
                12 => self.change_namespace().await,
                _ => self.make_or_drop().await,
            }
            self.look(&self.any_table()).await;
        }
    }

    async fn append(&self, table: &Identifier) {
        let snapshot = self.fresh();
        let (keyed, removes) = (self.chance(0.5), self.chance(0.15));
        // Some are set up to give up after a conflict.
        let tries = if self.chance(0.3) { 1 } else { TRIES };
        for attempt in 0..tries {
            let Some(current) = self.load(table).await else { return };
            let Some(written) = self.write(&current, snapshot, attempt, removes).await else { continue };
            let uuid = current.metadata.uuid();
            let key = self.key(keyed, format!("append {snapshot} {attempt}"));
            let commit = written.commit(uuid, key);
            let place = self.book.borrow_mut().attempt(vec![snapshot], written.files.clone());
            self.say(|| format!("commits snapshot {snapshot} to {}, attempt {attempt}", table.dotted()));
            let told = self.submit(&Ask::Commit(table.clone(), commit), keyed).await;
            self.say(|| format!("is told of snapshot {snapshot}, attempt {attempt}: {told:?}"));
            self.book.borrow_mut().told(place, told, &[uuid]);
            match told {
                Told::Done => return,
                Told::Refused => self.delete(&written.files).await,
                Told::Open => return self.search(table, uuid, place, snapshot).await,
            }
        }
    }

    /// After an unknown outcome: is the snapshot there? If not, the files stay.
    async fn search(&self, table: &Identifier, uuid: Uuid, attempt: usize, snapshot: i64) {
        let Some(current) = self.load(table).await else { return };
        if current.metadata.uuid() == uuid && current.metadata.snapshot_by_id(snapshot).is_some() {
            self.say(|| format!("finds snapshot {snapshot}"));
            self.book.borrow_mut().told(attempt, Told::Done, &[uuid]);
        }
    }

    async fn append_to_two(&self) {
        let (one, other) = (self.any_table(), self.any_table());
        if one == other {
            return;
        }
        let snapshots = [self.fresh(), self.fresh()];
        let keyed = self.chance(0.5);
        for attempt in 0..TRIES {
            let (mut changes, mut files, mut uuids) = (Vec::new(), Vec::new(), Vec::new());
            for (table, snapshot) in [&one, &other].into_iter().zip(snapshots) {
                let Some(current) = self.load(table).await else { return };
                let Some(written) = self.write(&current, snapshot, attempt, false).await else { return };
                uuids.push(current.metadata.uuid());
                changes.push((table.clone(), written.commit(current.metadata.uuid(), None)));
                files.extend(written.files);
            }
            if uuids[0] == uuids[1] {
                return;
            }
            let place = self.book.borrow_mut().attempt(snapshots.to_vec(), files.clone());
            let key = self.key(keyed, format!("pair {snapshots:?} {attempt}"));
            self.say(|| format!("commits {snapshots:?} to {} and {}", one.dotted(), other.dotted()));
            let told = self.submit(&Ask::Transact(changes, key), keyed).await;
            self.say(|| format!("is told of {snapshots:?}: {told:?}"));
            self.book.borrow_mut().told(place, told, &uuids);
            match told {
                Told::Refused => self.delete(&files).await,
                Told::Done | Told::Open => return,
            }
        }
    }

    /// Sets properties that name this request. Half of these requests assert what a later append makes untrue.
    async fn set_property(&self, table: &Identifier) {
        let Some(current) = self.load(table).await else { return };
        let mark = format!("p.{}", self.fresh());
        let mut updates = HashMap::from([(mark.clone(), "set".to_owned()), ("last".to_owned(), mark.clone())]);
        if self.rebases {
            updates.insert("glidepath.append-rebase".to_owned(), self.chance(0.5).to_string());
        }
        let mut requirements = vec![TableRequirement::UuidMatch { uuid: current.metadata.uuid() }];
        if self.chance(0.5) {
            let snapshot_id = current.metadata.current_snapshot_id();
            requirements.push(TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id });
        }
        let key = self.key(true, mark.clone());
        let commit = TableCommit { requirements, updates: vec![TableUpdate::SetProperties { updates }], key };
        self.ask_marked(&mark, &Ask::Commit(table.clone(), commit), true).await;
    }

    /// Sends a request that leaves a mark.
    pub(super) async fn ask_marked(&self, mark: &str, ask: &Ask, keyed: bool) {
        self.book.borrow_mut().marked(mark, Told::Open, keyed);
        self.say(|| format!("asks for {mark}"));
        let told = self.submit(ask, keyed).await;
        self.say(|| format!("is told of {mark}: {told:?}"));
        self.book.borrow_mut().marked(mark, told, keyed);
    }

    /// Loads a table and looks for its files, as a reader does.
    async fn look(&self, table: &Identifier) {
        let acknowledged = self.book.borrow().acknowledged();
        let Some(loaded) = self.load(table).await else { return };
        let metadata = &loaded.metadata;
        let uuid = metadata.uuid();
        let has = |snapshot| metadata.snapshot_by_id(snapshot).is_some();
        self.book.borrow_mut().loaded(uuid, acknowledged, has);
        let Some(snapshot) = metadata.current_snapshot() else { return };
        if let Err(FileError::NotFound(file)) = self.files.read(snapshot.manifest_list()).await {
            self.book.borrow_mut().miss(metadata.location(), file);
        }
    }

    /// Writes the files of a snapshot on top of this version; `None` if the store does not let it. A snapshot that removes
    /// leaves out a manifest of its parent, though it calls itself an append.
    async fn write(&self, on: &Loaded<TableMetadata>, snapshot: i64, attempt: u32, removes: bool) -> Option<Written> {
        let metadata = &on.metadata;
        let folder = format!("{}/metadata", metadata.location());
        let (list, manifest) =
            (format!("{folder}/snap-{snapshot}-{attempt}.avro"), format!("{folder}/{snapshot}-{attempt}-m0.avro"));
        let mut manifests = Vec::new();
        if let Some(parent) = metadata.current_snapshot() {
            manifests = clients::manifests(&self.read(parent.manifest_list()).await?).ok()?;
        }
        let gone = if removes { manifests.pop() } else { None };
        self.book.borrow_mut().removes(snapshot, gone.map(|gone| gone.manifest_path));
        let rows = 1 + snapshot.cast_unsigned() % 9;
        let bytes =
            clients::manifest(&format!("{}/data/{snapshot}.parquet", metadata.location()), rows.cast_signed()).ok()?;
        let sequence = metadata.next_sequence_number();
        manifests.insert(0, clients::listed(&manifest, bytes.len(), snapshot, sequence, rows));
        let files = vec![list.clone(), manifest.clone()];
        for (location, bytes) in [(manifest, bytes), (list.clone(), clients::list(&manifests).ok()?)] {
            self.files.write(&location, bytes).await.ok()?;
        }
        let mut counts = HashMap::from([("added-data-files".to_owned(), "1".to_owned())]);
        counts.insert("added-records".to_owned(), rows.to_string());
        if self.rebases && self.chance(0.5) {
            counts.insert("append-rebase".to_owned(), "true".to_owned());
        }
        let now = self.env.world_now().since(Instant::ZERO).as_nanos() / 1_000_000;
        let snapshot = Snapshot::builder()
            .with_snapshot_id(snapshot)
            .with_parent_snapshot_id(metadata.current_snapshot_id())
            .with_sequence_number(sequence)
            .with_timestamp_ms(FAR_MS + now.cast_signed())
            .with_manifest_list(list)
            .with_summary(Summary { operation: Operation::Append, additional_properties: counts })
            .with_schema_id(metadata.current_schema_id())
            .build();
        Some(Written { snapshot, files })
    }

    async fn read(&self, location: &str) -> Option<bytes::Bytes> {
        for _ in 0..FILE_TRIES {
            match self.files.read(location).await {
                Ok(bytes) => return Some(bytes),
                Err(FileError::Failed { .. }) => {}
                Err(_) => return None,
            }
        }
        None
    }

    async fn delete(&self, files: &[String]) {
        // Half of the clients delete manifest lists too: what is left behind harms nobody.
        let which = if self.chance(0.5) { ".avro" } else { "m0.avro" };
        for file in files.iter().filter(|file| file.ends_with(which)) {
            let _ = self.files.delete(file).await;
        }
    }

    /// The table as it is now; `None` if there is none, or no server says.
    pub(super) async fn load(&self, table: &Identifier) -> Option<Loaded<TableMetadata>> {
        for _ in 0..SENDS {
            match self.ask(&Ask::Load(table.clone())).await {
                Some(Ok(loaded)) => return loaded,
                Some(Err(error)) if error.kind == Kind::NoTable => return None,
                Some(Err(_)) | None => self.back_off().await,
            }
        }
        None
    }

    /// Sends a request until it is answered, as far as that is safe: with a key always, without one after "not done".
    pub(super) async fn submit(&self, ask: &Ask, keyed: bool) -> Told {
        for _ in 0..SENDS {
            match self.ask(ask).await {
                Some(Ok(_)) => return Told::Done,
                Some(Err(error)) => match error.kind {
                    Kind::Conflict => return Told::Refused,
                    Kind::Unavailable => {}
                    Kind::Unknown if keyed => {}
                    // The metadata has been purged meanwhile.
                    Kind::Invalid if matches!(ask, Ask::Register(..)) => return Told::Open,
                    Kind::Invalid | Kind::KeyReused | Kind::Unsupported | Kind::Broken => {
                        self.book
                            .borrow_mut()
                            .violated(format!("an answer that no request deserves: {error}: {ask:?}"));
                        return Told::Open;
                    }
                    _ => return Told::Open,
                },
                None if keyed => {}
                None => return Told::Open,
            }
            self.back_off().await;
        }
        Told::Open
    }

    async fn ask(&self, ask: &Ask) -> Option<Answer> {
        let server = self.draw() as usize % self.net.hosts.len();
        self.link.send(&self.env, &self.net, server, ask).await
    }

    pub(super) fn key(&self, keyed: bool, request: String) -> Option<Idempotency> {
        let key = format!("{:016x}", self.draw());
        keyed.then(|| Idempotency::new(&key, request).ok()).flatten()
    }

    fn any_table(&self) -> Identifier {
        let number = (self.draw() % u64::from(self.writers.tables + SPARE)) as u32;
        match number.checked_sub(self.writers.tables) {
            None => identifier(&format!("t{number}")),
            Some(spare) => identifier(&format!("w{spare}")),
        }
    }

    async fn pause(&self) {
        // Some wait until a purge is due.
        let longest = if self.chance(0.1) { Span::from_secs(120) } else { self.writers.pause };
        self.sleep(longest).await;
    }

    async fn back_off(&self) {
        self.sleep(Span::from_millis(500)).await;
    }

    /// Up to this long.
    async fn sleep(&self, longest: Span) {
        let share = unit_interval(self.env.draw(Purpose::Backoff));
        self.env.sleep_until(self.env.now() + Span::from_nanos_f64(share * longest.as_nanos() as f64)).await;
    }

    /// A number that was never used before.
    pub(super) fn fresh(&self) -> i64 {
        self.book.borrow_mut().fresh()
    }

    pub(super) fn say(&self, words: impl FnOnce() -> String) {
        self.book.borrow_mut().line(self.env.world_now(), self.number, words);
    }

    pub(super) fn chance(&self, chance: f64) -> bool {
        unit_interval(self.env.draw(Purpose::Tables)) < chance
    }

    pub(super) fn draw(&self) -> u64 {
        self.env.draw(Purpose::Tables)
    }
}

impl Written {
    fn commit(&self, uuid: Uuid, key: Option<Idempotency>) -> TableCommit {
        let (requirements, updates) = clients::commit(uuid, &self.snapshot);
        TableCommit { requirements, updates, key }
    }
}
