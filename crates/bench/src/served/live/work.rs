//! What one client does.

use std::time::{Duration, Instant};

use super::catalog::set_property;
use super::http::{Answer, Ask, Connection};
use super::{Done, ServedError, Shared, append};
use crate::served::cell::Workload;

/// The table that all clients share.
pub(super) const THE_TABLE: &str = "hot";

/// How long a client waits that was put off. Servers ask for a second, which would measure the wait.
pub(super) const PUT_OFF: Duration = Duration::from_millis(20);

pub(super) fn own_table(number: u32) -> String {
    format!("t{number}")
}

/// What a client concludes from an answer.
pub(super) enum Meaning {
    Acknowledged,
    Conflict,
    Busy,
    Unknown,
}

/// Reads an answer, and counts what was not acknowledged.
///
/// # Errors
/// Answers after which nothing can be measured: the server does not take such requests.
pub(super) fn meaning(
    done: &mut Done,
    what: &'static str,
    answer: &Result<Answer, ServedError>,
) -> Result<Meaning, ServedError> {
    let samples = &mut done.samples;
    let answer = match answer {
        Ok(answer) => answer,
        Err(ServedError::Broken(words)) => {
            samples.unknown += 1;
            samples.note(&format!("the connection broke: {words}"), 1);
            return Ok(Meaning::Unknown);
        }
        Err(ServedError::Unreachable(words)) => return Err(ServedError::Unreachable(words.clone())),
        Err(error) => return Err(ServedError::Unreachable(error.to_string())),
    };
    done.received_bytes += answer.bytes;
    let (meaning, count) = match answer.status {
        200..=299 | 304 => return Ok(Meaning::Acknowledged),
        409 => (Meaning::Conflict, &mut samples.conflicts),
        429 | 503 => (Meaning::Busy, &mut samples.busy),
        500 | 502 | 504 => (Meaning::Unknown, &mut samples.unknown),
        _ => return Err(ServedError::Answer { what, words: answer.words() }),
    };
    *count += 1;
    samples.note(&answer.words(), 1);
    Ok(meaning)
}

/// Notes an acknowledged operation.
pub(super) fn acknowledged(done: &mut Done, since: Instant) {
    done.samples.latencies_ns.push(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
}

/// Runs a client from the common beginning to the end of the cell's time.
pub(super) async fn client(shared: &Shared, number: u32) -> Result<Done, ServedError> {
    let mut connection = Connection::new(&shared.catalog.address);
    let done = match shared.cell.workload {
        Workload::Own => own(shared, &mut connection, number).await,
        Workload::Load | Workload::LoadUnchanged => load(shared, &mut connection).await,
        Workload::Hot | Workload::Fair => {
            append::client(shared, &mut connection, number, number >= shared.cell.connections).await
        }
    };
    done.map(|done| Done { number, ..done })
}

/// Waits until all clients have come so far, and says until when they work.
pub(super) async fn begin(shared: &Shared, done: &mut Done) -> Instant {
    shared.ready.wait().await;
    let now = Instant::now();
    done.began = Some(now);
    now + Duration::from_nanos(shared.cell.duration.as_nanos())
}

async fn own(shared: &Shared, connection: &mut Connection, number: u32) -> Result<Done, ServedError> {
    let path = shared.catalog.table(&shared.namespace, &own_table(number));
    let body = shared.catalog.load(connection, &path).await;
    // A client that stops here would leave the others waiting.
    let mut done = Done::default();
    let until = begin(shared, &mut done).await;
    let uuid = shared.heads.of(&body?)?.uuid.clone();
    let mut turn = 0;
    while shared.goes_on(until) {
        turn += 1;
        let from = Instant::now();
        let answer = connection.send(Ask::post(&path, set_property(&uuid, turn)).dropping()).await;
        match meaning(&mut done, "POST table", &answer)? {
            Meaning::Acknowledged => {
                acknowledged(&mut done, from);
                done.acknowledged = vec![turn.cast_signed()];
            }
            Meaning::Conflict => done.samples.given_up += 1,
            Meaning::Busy => tokio::time::sleep(PUT_OFF).await,
            Meaning::Unknown => done.unknown.push(turn.cast_signed()),
        }
    }
    done.ended = Some(Instant::now());
    Ok(done)
}

async fn load(shared: &Shared, connection: &mut Connection) -> Result<Done, ServedError> {
    let path = shared.catalog.table(&shared.namespace, THE_TABLE);
    let first = connection.send(Ask::get(&path)).await;
    let mut done = Done::default();
    let until = begin(shared, &mut done).await;
    let tag = first?.tag;
    let known = tag.as_ref().filter(|_| shared.cell.workload == Workload::LoadUnchanged);
    while shared.goes_on(until) {
        let from = Instant::now();
        let answer = connection.send(Ask { known, ..Ask::get(&path).dropping() }).await;
        match meaning(&mut done, "GET table", &answer)? {
            Meaning::Acknowledged => {
                done.not_modified += u64::from(answer.is_ok_and(|answer| answer.status == 304));
                acknowledged(&mut done, from);
            }
            Meaning::Busy => tokio::time::sleep(PUT_OFF).await,
            Meaning::Conflict | Meaning::Unknown => {}
        }
    }
    done.ended = Some(Instant::now());
    Ok(done)
}
