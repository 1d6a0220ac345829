//! How long does a server take to start on a large catalog? A catalog is filled, and a server that was just started is
//! asked until it answers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glidepath_env::{Cause, Guard, Key, ObjectStore, Payload};
use glidepath_model::{Action, Entry, Kind, Name};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::{GroupAttempt, Grouped, Verdict};
use glidepath_protocols::registry::{AnyCatalog, AnySnapshot, Creation, Protocol};
use glidepath_stores::{LiveEnv, Options, base_location, open, open_plain};
use serde::Serialize;

use super::live::{ServedError, first_answers};

/// Tables of a namespace.
const IN_NAMESPACE: u64 = 1000;

/// Entries that are created in one commit.
const BATCH: usize = 20_000;

/// One start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Start {
    /// From the start of the process to the first answer of `GET /v1/config`.
    pub config_ms: f64,
    /// To the first loaded table.
    pub table_ms: f64,
    /// The most memory of the process until then, if the system tells it.
    pub memory_mb: Option<f64>,
}

fn failed(why: impl std::fmt::Display) -> ServedError {
    ServedError::Files(format!("the catalog could not be filled: {why}"))
}

fn namespace(number: u64) -> String {
    format!("s{:05}", number / IN_NAMESPACE)
}

fn table(number: u64) -> String {
    format!("t{number:08}")
}

fn name(parts: &[&str]) -> Result<Name, ServedError> {
    Name::of_parts(parts.iter().copied()).map_err(failed)
}

/// The metadata of an empty table.
fn metadata(location: &str) -> String {
    let schema = r#"{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":false,"type":"long"}]}"#;
    format!(
        r#"{{"format-version":2,"table-uuid":"00000000-0000-4000-8000-000000000001","location":"{location}","last-sequence-number":0,"last-updated-ms":1000,"last-column-id":1,"schemas":[{schema}],"current-schema-id":0,"partition-specs":[{{"spec-id":0,"fields":[]}}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{{"order-id":0,"fields":[]}}],"default-sort-order-id":0,"properties":{{}}}}"#
    )
}

/// Creates a catalog with this many tables, a thousand in each namespace, in an empty store. All of them have the same
/// metadata file, in the folder `tables` of the store, where a server expects them. `progress` gets the number of
/// entries so far, and returns whether to go on.
///
/// # Errors
/// What failed; the store then has a part of it.
pub async fn fill_tables(
    url: &str,
    protocol: Protocol,
    tables: u64,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<(), ServedError> {
    let (options, warehouse) = (Options::default(), format!("{}/tables", url.trim_end_matches('/')));
    let location = format!("{}/one", base_location(&warehouse).map_err(failed)?);
    let pointer = format!("{location}/metadata/00000-one.metadata.json");
    let files = open_plain(&warehouse, &options).map_err(failed)?;
    let body = Payload::from(Bytes::from(metadata(&location)));
    let key = Key::new("one/metadata/00000-one.metadata.json");
    files.put(&key, body, Guard::None).await.map_err(|error| failed(format!("{error:?}")))?;
    let store = open(url, &options).map_err(failed)?;
    let (catalog, made) = AnyCatalog::create(LiveEnv::new(), store, "", protocol, Creation::default()).await;
    let mut head = landed(made)?;
    let mut actions = Vec::new();
    for number in 0..tables {
        if number.is_multiple_of(IN_NAMESPACE) {
            actions.push(Action::Create { name: name(&[&namespace(number)])?, entry: Entry::namespace() });
        }
        let entry = Entry {
            kind: Kind::Table,
            location: Some(location.clone()),
            pointer: Some(pointer.clone()),
            ..Entry::namespace()
        };
        actions.push(Action::Create { name: name(&[&namespace(number), &table(number)])?, entry });
        if actions.len() >= BATCH || number + 1 == tables {
            head = committed(&catalog, &head, &actions).await?;
            actions.clear();
            if !progress(number + 1) {
                return Err(failed("stopped"));
            }
        }
    }
    Ok(())
}

async fn committed(
    catalog: &AnyCatalog<LiveEnv>,
    head: &AnySnapshot,
    actions: &[Action],
) -> Result<AnySnapshot, ServedError> {
    match catalog.attempt_group(head, &[actions]).await {
        GroupAttempt::Decided { outcome: Some(outcome), .. } => landed(outcome),
        GroupAttempt::Decided { verdicts, outcome: None } => Err(failed(match verdicts.into_iter().next() {
            Some(Verdict::Failed(cause)) => cause,
            Some(Verdict::Refused(refusal)) => Cause::words(refusal.to_string()),
            Some(Verdict::Fits) | None => Cause::words("the entries were there before"),
        })),
        GroupAttempt::NotMade(error) => Err(failed(error)),
    }
}

fn landed<S>(outcome: Outcome<S>) -> Result<S, ServedError> {
    match outcome {
        Outcome::Committed(head) => Ok(head),
        Outcome::Conflict(_) => Err(failed("there is a catalog already: give an empty place")),
        Outcome::Refused(denial) => Err(failed(denial)),
        Outcome::Unknown(cause) => Err(failed(cause)),
    }
}

/// Asks a server whose process was started at `since` until it answers, for as long as it is `alive`. The table is in
/// the middle of a catalog with this many.
///
/// # Errors
/// If it ends, or answers with an error.
pub fn first_of(
    url: &str,
    process: u32,
    tables: u64,
    since: Instant,
    alive: impl FnMut() -> bool,
) -> Result<Start, ServedError> {
    let asked = tables / 2;
    let [config, loaded] = first_answers(url, &namespace(asked), &table(asked), alive)?;
    let ms = |at: Instant| at.duration_since(since).as_secs_f64() * 1e3;
    Ok(Start { config_ms: ms(config), table_ms: ms(loaded), memory_mb: memory_of(process) })
}

/// The most memory that a process has used.
fn memory_of(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}

/// How long to wait before a server is asked again.
pub(super) const AGAIN: Duration = Duration::from_millis(2);
