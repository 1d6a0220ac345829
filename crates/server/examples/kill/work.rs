//! What the clients do.
//!
//! - *own*: a table for each client; it appends to it.
//! - *hot*: one table for many clients, whose appends ask to be rebased, beside one that overwrites and tries again
//!   after a conflict with the same snapshot.
//! - *contended*: one table for several clients, whose appends conflict.
//! - *pair*: several clients append to two tables in one commit.
//! - *columns*: several clients add a column each to one table: commits without a snapshot.
//!
//! After some commits a new table takes over, so that metadata stays small. The servers never read the manifest lists
//! of appends that they do not rebase, so only those of *hot* are written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::book::{Book, Fate, Kind};
use crate::client::{Client, Outcome, Request};
use crate::files::{Base, Files};
use crate::options::Options;
use crate::{Anyhow, sleep_ms};

pub(crate) const NAMESPACE: &str = "kill";

/// How often an overwrite is tried: as often as by Iceberg's client for Java.
const OVERWRITE_TRIES: i64 = 5;

pub(crate) struct Work {
    client: Client,
    pub(crate) book: Book,
    pub(crate) files: Files,
    commits: u64,
    last_id: Cell<i64>,
    /// The number of the current table of each kind that is shared.
    turns: RefCell<Vec<(Kind, u64)>>,
}

/// A table as a client knows it.
struct Head {
    metadata: Value,
    location: String,
    parent: Option<(i64, String)>,
    sequence: i64,
}

impl Head {
    fn of(mut answer: Value) -> Anyhow<Self> {
        let metadata = answer["metadata"].take();
        let location = metadata["location"].as_str().ok_or("an answer has no table")?.to_owned();
        let current = metadata["refs"]["main"]["snapshot-id"].as_i64();
        let mut all = metadata["snapshots"].as_array().into_iter().flatten();
        let head = all.find(|one| one["snapshot-id"].as_i64() == current);
        let list = head.and_then(|one| one["manifest-list"].as_str()).map(str::to_owned);
        let sequence = metadata["last-sequence-number"].as_i64().unwrap_or(0);
        Ok(Self { location, parent: current.zip(list), sequence, metadata })
    }

    fn has(&self, snapshot: i64) -> bool {
        let mut all = self.metadata["snapshots"].as_array().into_iter().flatten();
        all.any(|one| one["snapshot-id"].as_i64() == Some(snapshot))
    }

    fn is_at(&self, snapshot: i64) -> bool {
        self.parent.as_ref().is_some_and(|(id, _)| *id == snapshot)
    }

    /// A commit of a snapshot on this head.
    fn adding(&self, snapshot: i64, list: &str, operation: &str) -> Value {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut added = json!({
            "snapshot-id": snapshot, "sequence-number": self.sequence + 1, "manifest-list": list, "schema-id": 0,
            "timestamp-ms": now.map_or(0, |since| since.as_millis() as u64),
            "summary": {"operation": operation, "added-records": "1", "added-data-files": "1"},
        });
        let parent = self.parent.as_ref().map(|(id, _)| *id);
        if let Some(parent) = parent {
            added["parent-snapshot-id"] = json!(parent);
        }
        json!({
            "requirements": [
                {"type": "assert-table-uuid", "uuid": self.metadata["table-uuid"]},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": added},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot},
            ],
        })
    }

    /// A commit of one more column.
    fn widening(&self, name: &str) -> Value {
        let (current, last) = (&self.metadata["current-schema-id"], &self.metadata["last-column-id"]);
        let mut all = self.metadata["schemas"].as_array().into_iter().flatten();
        let mut schema = all.find(|one| one["schema-id"] == *current).cloned().unwrap_or_default();
        if let Some(fields) = schema["fields"].as_array_mut() {
            let id = last.as_i64().unwrap_or(0) + 1;
            fields.push(json!({"id": id, "name": name, "required": false, "type": "long"}));
        }
        json!({
            "requirements": [
                {"type": "assert-table-uuid", "uuid": self.metadata["table-uuid"]},
                {"type": "assert-current-schema-id", "current-schema-id": current},
                {"type": "assert-last-assigned-field-id", "last-assigned-field-id": last},
            ],
            "updates": [
                {"action": "add-schema", "schema": schema},
                {"action": "set-current-schema", "schema-id": -1},
            ],
        })
    }
}

pub(crate) fn path_of(table: &str) -> String {
    format!("namespaces/{NAMESPACE}/tables/{table}")
}

/// Commits to a table of this kind before another takes over.
fn most(kind: Kind) -> usize {
    match kind {
        Kind::Own | Kind::Pair => 120,
        Kind::Hot => 500,
        Kind::Contended => 250,
        Kind::Columns => 40,
    }
}

impl Work {
    pub(crate) fn new(client: Client, options: &Options) -> Anyhow<Rc<Self>> {
        let files = Files::of(&options.warehouse)?;
        let (book, last_id, turns) = (Book::default(), Cell::new(1000), RefCell::default());
        Ok(Rc::new(Self { client, book, files, commits: options.commits, last_id, turns }))
    }

    /// Runs all clients until enough is acknowledged.
    ///
    /// # Errors
    /// If one of them gets an answer that no right request gets, or no answer for long.
    pub(crate) async fn run(this: &Rc<Self>, options: &Options) -> Anyhow<()> {
        this.make("namespaces", json!({"namespace": [NAMESPACE]})).await?;
        let mut clients = JoinSet::new();
        for number in 0..options.clients {
            let this = Rc::clone(this);
            clients.spawn_local(async move {
                match number % 8 {
                    0..3 => this.own(number).await,
                    3 | 4 => this.hot(false).await,
                    5 if number == 5 => this.hot(true).await,
                    5 => this.contended().await,
                    6 => this.pair().await,
                    _ if number % 16 == 7 => this.columns().await,
                    _ => this.contended().await,
                }
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }

    fn over(&self) -> bool {
        self.book.acknowledged() >= self.commits
    }

    fn id(&self) -> i64 {
        // Two at a time, for the two tables of a pair.
        self.last_id.set(self.last_id.get() + 2);
        self.last_id.get()
    }

    fn key(&self) -> String {
        format!("{:016x}{:016x}", self.client.luck.draw(), self.client.luck.draw())
    }

    async fn send(&self, path: String, body: Value) -> Anyhow<Outcome> {
        let mut request = Request::post(path, body, self.key());
        if self.client.luck.one_in(20) {
            request.key = None;
        }
        let outcome = self.client.deliver(&request).await;
        for words in self.client.take_wrong() {
            self.book.wrong(words);
        }
        outcome
    }

    /// Creates something; another client may do so too.
    async fn make(&self, path: &str, body: Value) -> Anyhow<()> {
        loop {
            let request = Request::post(path.to_owned(), body.clone(), self.key());
            if !matches!(self.client.deliver(&request).await?, Outcome::Unknown) {
                return Ok(());
            }
        }
    }

    async fn load(&self, table: &str) -> Anyhow<Head> {
        match self.client.deliver(&Request::get(path_of(table))).await? {
            Outcome::Done(answer) => Head::of(answer),
            other => Err(format!("loading {table}: {other:?}").into()),
        }
    }

    async fn created(&self, table: &str, rebase: bool) -> Anyhow<Head> {
        let body = json!({
            "name": table,
            "schema": {"type": "struct", "schema-id": 0,
                       "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]},
            "properties": {"glidepath.append-rebase": rebase.to_string(), "write.metadata.previous-versions-max": "5",
                           "write.metadata.delete-after-commit.enabled": "true"},
        });
        self.make(&format!("namespaces/{NAMESPACE}/tables"), body).await?;
        self.load(table).await
    }

    /// The table that this kind has now.
    fn current(&self, kind: Kind) -> String {
        let mut turns = self.turns.borrow_mut();
        let at = turns.iter().position(|(of, _)| *of == kind).unwrap_or_else(|| {
            turns.push((kind, 0));
            turns.len() - 1
        });
        let name = |turn: u64| format!("{kind:?}_{turn}").to_lowercase();
        if self.book.acknowledged_in(kind, &name(turns[at].1)) >= most(kind) {
            turns[at].1 += 1;
        }
        name(turns[at].1)
    }

    async fn own(&self, number: u64) -> Anyhow<()> {
        for turn in 0.. {
            let table = format!("own_{number}_{turn}");
            let mut head = self.created(&table, false).await?;
            for _ in 0..most(Kind::Own) {
                if self.over() {
                    return Ok(());
                }
                let snapshot = self.id();
                let next = self.append(Kind::Own, &table, &head, snapshot).await?;
                let (acknowledged, next) = match next {
                    // Another server must know it at once.
                    Some(_) if self.client.luck.one_in(10) => (true, self.load(&table).await?),
                    Some(next) => (true, next),
                    None => (false, self.load(&table).await?),
                };
                if acknowledged && !next.is_at(snapshot) {
                    self.book.wrong(format!("{table} is not at {snapshot}, which was just acknowledged"));
                }
                head = next;
            }
        }
        Ok(())
    }

    /// Appends once, without files; the table as it is then, if that was acknowledged.
    async fn append(&self, kind: Kind, table: &str, head: &Head, snapshot: i64) -> Anyhow<Option<Head>> {
        let list = format!("{}/metadata/snap-{snapshot}.avro", head.location);
        let (fate, next) = match self.send(path_of(table), head.adding(snapshot, &list, "append")).await? {
            Outcome::Done(answer) => (Fate::Acknowledged, Some(Head::of(answer)?)),
            Outcome::Conflict => (Fate::Refused, None),
            Outcome::Unknown => (Fate::Unknown, None),
        };
        self.book.note(kind, table, snapshot, fate);
        self.seen(table, snapshot, next.as_ref());
        Ok(next)
    }

    /// The answer to an acknowledged commit has its snapshot.
    fn seen(&self, table: &str, snapshot: i64, answered: Option<&Head>) {
        if answered.is_some_and(|head| !head.has(snapshot)) {
            self.book.wrong(format!("{table}: the answer to {snapshot} does not have it"));
        }
    }

    async fn hot(&self, overwrites: bool) -> Anyhow<()> {
        loop {
            let table = self.current(Kind::Hot);
            let mut head = self.created(&table, true).await?;
            while self.current(Kind::Hot) == table {
                if self.over() {
                    return Ok(());
                }
                head = self.put(&table, head, overwrites).await?;
            }
        }
    }

    /// Appends or overwrites, and returns the table as it is known then.
    async fn put(&self, table: &str, mut head: Head, overwrites: bool) -> Anyhow<Head> {
        let (tries, operation) = if overwrites { (OVERWRITE_TRIES, "overwrite") } else { (1, "append") };
        let (snapshot, mut fate) = (self.id(), Fate::Refused);
        for attempt in 0..tries {
            let base = Base {
                location: &head.location,
                parent: head.parent.as_ref().map(|(id, list)| (*id, list.as_str())),
                sequence: head.sequence + 1,
            };
            let written = self.files.write(&base, snapshot, attempt).await?;
            match self.send(path_of(table), head.adding(snapshot, &written.list, operation)).await? {
                Outcome::Done(answer) => {
                    self.book.note(Kind::Hot, table, snapshot, Fate::Acknowledged);
                    let next = Head::of(answer)?;
                    self.seen(table, snapshot, Some(&next));
                    return Ok(next);
                }
                Outcome::Conflict => {
                    self.files.delete(&written).await;
                    if overwrites {
                        sleep_ms(100 << attempt).await;
                    }
                    head = self.load(table).await?;
                }
                Outcome::Unknown => {
                    fate = Fate::Unknown;
                    break;
                }
            }
        }
        self.book.note(Kind::Hot, table, snapshot, fate);
        self.load(table).await
    }

    async fn contended(&self) -> Anyhow<()> {
        loop {
            let table = self.current(Kind::Contended);
            let mut head = self.created(&table, false).await?;
            while self.current(Kind::Contended) == table {
                if self.over() {
                    return Ok(());
                }
                head = match self.append(Kind::Contended, &table, &head, self.id()).await? {
                    Some(next) => next,
                    None => self.load(&table).await?,
                };
            }
        }
    }

    async fn pair(&self) -> Anyhow<()> {
        loop {
            let pair = self.current(Kind::Pair);
            let (one, two) = (format!("{pair}_a"), format!("{pair}_b"));
            self.created(&one, false).await?;
            self.created(&two, false).await?;
            while self.current(Kind::Pair) == pair {
                if self.over() {
                    return Ok(());
                }
                let (snapshot, mut changes) = (self.id(), Vec::new());
                for (table, id) in [(&one, snapshot), (&two, snapshot + 1)] {
                    let head = self.load(table).await?;
                    let list = format!("{}/metadata/snap-{id}.avro", head.location);
                    let mut change = head.adding(id, &list, "append");
                    change["identifier"] = json!({"namespace": [NAMESPACE], "name": table});
                    changes.push(change);
                }
                let body = json!({"table-changes": changes});
                let fate = fate_of(&self.send("transactions/commit".to_owned(), body).await?);
                self.book.note(Kind::Pair, &pair, snapshot, fate);
            }
        }
    }

    async fn columns(&self) -> Anyhow<()> {
        loop {
            let table = self.current(Kind::Columns);
            let mut head = self.created(&table, false).await?;
            while self.current(Kind::Columns) == table {
                if self.over() {
                    return Ok(());
                }
                let id = self.id();
                let outcome = self.send(path_of(&table), head.widening(&format!("c{id}"))).await?;
                self.book.note(Kind::Columns, &table, id, fate_of(&outcome));
                head = match outcome {
                    Outcome::Done(answer) => Head::of(answer)?,
                    _ => self.load(&table).await?,
                };
            }
        }
    }

    pub(crate) fn summary(&self, took: Duration, kills: u64) -> String {
        let (events, seconds) = (&self.client.events, took.as_secs_f64());
        let mut words = format!(
            "{} acknowledged in {seconds:.0} s ({:.0}/s), {kills} servers killed; {}\n\
             {} requests; {} with unknown outcome, after which {} were acknowledged and {} refused by a later delivery; \
             {} delivered to two servers at once, {} left by their client",
            self.book.acknowledged(),
            self.book.acknowledged() as f64 / seconds,
            self.book.counts(),
            events.sent.get(),
            events.perhaps.get(),
            events.acknowledged_later.get(),
            events.refused_later.get(),
            events.twice.get(),
            events.left.get(),
        );
        for (why, count) in events.conflicts() {
            words += &format!("\n409, {count} times: {why}");
        }
        words
    }
}

fn fate_of(outcome: &Outcome) -> Fate {
    match outcome {
        Outcome::Done(_) => Fate::Acknowledged,
        Outcome::Conflict => Fate::Refused,
        Outcome::Unknown => Fate::Unknown,
    }
}
