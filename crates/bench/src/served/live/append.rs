//! Appends and overwrites on one table.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iceberg::spec::ManifestFile;

use super::files::TableFiles;
use super::head::Head;
use super::http::{Ask, Connection};
use super::work::{Meaning, PUT_OFF, THE_TABLE, acknowledged, begin, meaning};
use super::{Done, ServedError, Shared};
use crate::served::cell::{FIRST_WAIT, RETRIES};

/// The snapshot of the first append.
const FIRST: i64 = 1;

/// The snapshot ids of clients: each has its own four milliards.
pub(super) fn snapshot_id(client: u32, turn: u32) -> i64 {
    (i64::from(client) + 1) << 32 | i64::from(turn)
}

/// A client of the table.
struct Writer<'a> {
    shared: &'a Shared,
    connection: &'a mut Connection,
    files: &'a TableFiles,
    path: String,
    overwrites: bool,
    head: Arc<Head>,
}

impl Writer<'_> {
    async fn load(&mut self) -> Result<(), ServedError> {
        let body = self.shared.catalog.load(self.connection, &self.path).await?;
        self.head = self.shared.heads.of(&body)?;
        Ok(())
    }

    /// The commit of a snapshot on top of the head.
    async fn commit(&self, snapshot: i64, turn: u32, added: &ManifestFile) -> Result<String, ServedError> {
        let head = &self.head;
        let list = self.files.list(snapshot, turn, head, added).await?;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let operation = if self.overwrites { "overwrite" } else { "append" };
        let parent = head.snapshot.map_or_else(String::new, |id| format!(r#""parent-snapshot-id":{id},"#));
        let asserted = head.snapshot.map_or_else(|| "null".to_owned(), |id| id.to_string());
        let sequence = head.last_sequence + 1;
        Ok(format!(
            r#"{{"requirements":[{{"type":"assert-table-uuid","uuid":"{}"}},{{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":{asserted}}}],"updates":[{{"action":"add-snapshot","snapshot":{{"snapshot-id":{snapshot},{parent}"sequence-number":{sequence},"timestamp-ms":{now_ms},"manifest-list":"{list}","schema-id":0,"summary":{{"operation":"{operation}","added-records":"1","added-data-files":"1","added-files-size":"100"}}}}}},{{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":{snapshot}}}]}}"#,
            head.uuid
        ))
    }

    /// Brings one snapshot into the table, or gives it up.
    async fn land(&mut self, snapshot: i64, until: Instant, done: &mut Done) -> Result<(), ServedError> {
        let added = self.files.manifest(snapshot).await?;
        let (mut from, mut was_put_off) = (None, false);
        for turn in 0.. {
            let body = self.commit(snapshot, turn, &added).await?;
            let from = *from.get_or_insert_with(Instant::now);
            let answer = self.connection.send(Ask::post(&self.path, body)).await;
            match meaning(done, "POST table", &answer)? {
                Meaning::Acknowledged => {
                    acknowledged(done, from);
                    done.acknowledged.push(snapshot);
                    self.head = self.shared.heads.of(&answer?.body)?;
                    return Ok(());
                }
                Meaning::Unknown => {
                    done.unknown.push(snapshot);
                    return self.load().await;
                }
                Meaning::Busy => {
                    was_put_off = true;
                    tokio::time::sleep(PUT_OFF).await;
                }
                Meaning::Conflict if self.overwrites => {
                    if turn >= RETRIES {
                        done.samples.given_up += 1;
                        done.ended_without(snapshot, was_put_off);
                        return self.load().await;
                    }
                    let wait = FIRST_WAIT.as_nanos() << turn;
                    tokio::time::sleep(Duration::from_nanos(wait)).await;
                    self.validate().await?;
                }
                Meaning::Conflict => self.load().await?,
            }
            if !self.shared.goes_on(until) {
                done.ended_without(snapshot, was_put_off);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Loads the table, and reads what the commits since the last load have listed, as a client does that has to know
    /// whether they touch what it read.
    async fn validate(&mut self) -> Result<(), ServedError> {
        let seen = self.head.snapshot;
        self.load().await?;
        for list in self.head.lists_since(seen) {
            self.files.look_at(list).await?;
        }
        Ok(())
    }
}

/// Whether the table is one that these clients can write.
fn writable(head: &Head) -> Result<(), ServedError> {
    match head.format {
        2 => Ok(()),
        other => {
            let words = format!("the table has format version {other}, and the clients write version 2");
            Err(ServedError::Files(words))
        }
    }
}

/// The first append, alone.
pub(super) async fn first(shared: &Shared) -> Result<(), ServedError> {
    let Some(files) = &shared.files else { return Ok(()) };
    let mut connection = Connection::new(&shared.catalog.address);
    let path = shared.catalog.table(&shared.namespace, THE_TABLE);
    let body = shared.catalog.load(&mut connection, &path).await?;
    let head = shared.heads.of(&body)?;
    writable(&head)?;
    let mut writer = Writer { shared, connection: &mut connection, files, path, overwrites: false, head };
    let mut done = Done::default();
    writer.land(FIRST, Instant::now() + Duration::from_secs(60), &mut done).await?;
    match done.acknowledged.is_empty() {
        true => Err(ServedError::Answer {
            what: "the first append",
            words: done.samples.errors.first().map(|(words, _)| words.clone()).unwrap_or_default(),
        }),
        false => Ok(()),
    }
}

/// A client that appends, or overwrites.
pub(super) async fn client(
    shared: &Shared,
    connection: &mut Connection,
    number: u32,
    overwrites: bool,
) -> Result<Done, ServedError> {
    let path = shared.catalog.table(&shared.namespace, THE_TABLE);
    let body = shared.catalog.load(connection, &path).await;
    let mut done = Done { overwrites, ..Done::default() };
    let until = begin(shared, &mut done).await;
    let head = shared.heads.of(&body?)?;
    // Against a responder there are no files.
    let Some(files) = &shared.files else {
        return Err(ServedError::Files("the responder has no tables to append to".to_owned()));
    };
    let mut writer = Writer { shared, connection, files, path, overwrites, head };
    for turn in 0.. {
        if !shared.goes_on(until) {
            break;
        }
        writer.land(snapshot_id(number, turn), until, &mut done).await?;
    }
    done.ended = Some(Instant::now());
    Ok(done)
}
