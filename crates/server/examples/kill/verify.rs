//! Whether what is there is what was acknowledged.
//!
//! In each table, the history of its branch is compared with the account of the clients:
//!
//! 1. what was acknowledged is there, exactly once; what was refused is not; what is unknown is there once at most;
//! 2. nothing else is there, in the history or beside it;
//! 3. a table whose snapshots have manifests has the manifest of each snapshot of its history exactly once, and all its
//!    files are there;
//! 4. two tables that were changed together have the same history.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::Anyhow;
use crate::book::{Fate, Kind};
use crate::client::{Client, Outcome, Request};
use crate::work::{Work, path_of};

/// Counts, and what is wrong.
#[derive(Default)]
struct Found {
    tables: usize,
    there: usize,
    unknown_there: usize,
    manifests: usize,
    wrong: Vec<String>,
}

pub(crate) async fn verify(client: &Client, work: &Work) -> Anyhow<(String, Vec<String>)> {
    let mut found = Found::default();
    for ((kind, name), fates) in work.book.tables() {
        let there = match kind {
            Kind::Own | Kind::Contended => history(client, &name, &mut found).await?,
            Kind::Columns => columns(client, &name, &mut found).await?,
            Kind::Hot => {
                let there = history(client, &name, &mut found).await?;
                manifests(client, work, &name, &there, &mut found).await?;
                there
            }
            Kind::Pair => {
                let one = history(client, &format!("{name}_a"), &mut found).await?;
                let two = history(client, &format!("{name}_b"), &mut found).await?;
                if two.iter().map(|id| id - 1).ne(one.iter().copied()) {
                    let (one, two) = (one.len(), two.len());
                    found.wrong.push(format!("{name}: the two histories differ, of {one} and {two} commits"));
                }
                one
            }
        };
        compare(&name, &fates, &there, &mut found);
    }
    let words = format!(
        "verified {} tables: {} commits in their histories, {} of them with an outcome that no client knew; {} manifests",
        found.tables, found.there, found.unknown_there, found.manifests
    );
    Ok((words, found.wrong))
}

fn compare(name: &str, fates: &BTreeMap<i64, Fate>, there: &[i64], found: &mut Found) {
    let set: BTreeSet<_> = there.iter().copied().collect();
    found.there += there.len();
    if set.len() != there.len() {
        found.wrong.push(format!("{name}: {} commits are there twice", there.len() - set.len()));
    }
    for (id, fate) in fates {
        match (fate, set.contains(id)) {
            (Fate::Acknowledged, false) => found.wrong.push(format!("{name}: {id} was acknowledged and is LOST")),
            (Fate::Refused, true) => found.wrong.push(format!("{name}: {id} was refused and is there")),
            (Fate::Unknown, true) => found.unknown_there += 1,
            _ => {}
        }
    }
    let foreign: Vec<_> = set.iter().filter(|id| !fates.contains_key(id)).collect();
    if let Some(first) = foreign.first() {
        found.wrong.push(format!("{name}: {} commits are there that no client sent, such as {first}", foreign.len()));
    }
}

async fn load(client: &Client, name: &str, found: &mut Found) -> Anyhow<Value> {
    found.tables += 1;
    match client.deliver(&Request::get(path_of(name))).await? {
        Outcome::Done(mut answer) => Ok(answer["metadata"].take()),
        other => Err(format!("loading {name}: {other:?}").into()),
    }
}

/// The snapshots of a table's branch, from the newest.
async fn history(client: &Client, name: &str, found: &mut Found) -> Anyhow<Vec<i64>> {
    let metadata = load(client, name, found).await?;
    let all: Vec<&Value> = metadata["snapshots"].as_array().into_iter().flatten().collect();
    let by_id: BTreeMap<_, _> = all.iter().filter_map(|one| Some((one["snapshot-id"].as_i64()?, *one))).collect();
    if by_id.len() != all.len() {
        found.wrong.push(format!("{name}: {} snapshots have {} ids", all.len(), by_id.len()));
    }
    let (mut history, mut sequence) = (Vec::new(), i64::MAX);
    let mut next = metadata["refs"]["main"]["snapshot-id"].as_i64();
    while let Some(id) = next {
        let Some(snapshot) = by_id.get(&id) else {
            found.wrong.push(format!("{name}: snapshot {id} of the history is not there"));
            break;
        };
        let own = snapshot["sequence-number"].as_i64().unwrap_or(0);
        if own >= sequence {
            found.wrong.push(format!("{name}: snapshot {id} has the sequence number {own}, its child {sequence}"));
            break;
        }
        sequence = own;
        history.push(id);
        next = snapshot["parent-snapshot-id"].as_i64();
    }
    if history.len() < by_id.len() {
        let beside = by_id.len() - history.len();
        found.wrong.push(format!("{name}: {beside} snapshots are there beside the history"));
    }
    Ok(history)
}

/// The ids of the columns that clients added.
async fn columns(client: &Client, name: &str, found: &mut Found) -> Anyhow<Vec<i64>> {
    let metadata = load(client, name, found).await?;
    let current = &metadata["current-schema-id"];
    let mut all = metadata["schemas"].as_array().into_iter().flatten();
    let schema = all.find(|one| one["schema-id"] == *current).cloned().unwrap_or_default();
    let fields = schema["fields"].as_array().cloned().unwrap_or_default();
    let names = fields.iter().filter_map(|one| one["name"].as_str()?.strip_prefix('c')?.parse().ok());
    Ok(names.collect())
}

/// The manifests of a table's head: one of each snapshot.
async fn manifests(client: &Client, work: &Work, name: &str, there: &[i64], found: &mut Found) -> Anyhow<()> {
    let metadata = load(client, name, found).await?;
    found.tables -= 1;
    let mut lists = BTreeMap::new();
    for snapshot in metadata["snapshots"].as_array().into_iter().flatten() {
        let list = snapshot["manifest-list"].as_str().unwrap_or_default().to_owned();
        lists.insert(snapshot["snapshot-id"].as_i64().unwrap_or(0), list);
    }
    for list in lists.values() {
        if !work.files.exists(list).await {
            found.wrong.push(format!("{name}: the manifest list {list} is not there"));
        }
    }
    let Some(head) = there.first().and_then(|id| lists.get(id)) else { return Ok(()) };
    let entries = work.files.manifests(head).await?;
    let mut times = BTreeMap::<i64, usize>::new();
    for entry in &entries {
        *times.entry(entry.added_snapshot_id).or_default() += 1;
        if !work.files.exists(&entry.manifest_path).await {
            found.wrong.push(format!("{name}: the manifest {} is not there", entry.manifest_path));
        }
    }
    found.manifests += entries.len();
    let expected: BTreeMap<_, _> = there.iter().map(|id| (*id, 1)).collect();
    if times != expected {
        let missing = there.iter().filter(|id| !times.contains_key(id)).count();
        let words = format!("{} manifests of {} snapshots, {missing} missing", entries.len(), there.len());
        found.wrong.push(format!("{name}: the head does not have the manifest of each snapshot once: {words}"));
    }
    Ok(())
}
