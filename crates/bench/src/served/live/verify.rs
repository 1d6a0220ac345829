//! Is what was acknowledged there, once?

use std::collections::BTreeMap;

use super::http::Connection;
use super::work::{THE_TABLE, own_table};
use super::{Done, ServedError, Shared};
use crate::served::cell::{Checked, Workload};

/// Looks at the tables of a cell after its end; nothing for loads.
pub(super) async fn checked(shared: &Shared, all: &[Done]) -> Result<Option<Checked>, ServedError> {
    match shared.cell.workload {
        Workload::Own => own(shared, all).await.map(Some),
        Workload::Hot | Workload::Fair => appended(shared, all).await.map(Some),
        Workload::Load | Workload::LoadUnchanged => Ok(None),
    }
}

/// Whether each table has the property of the last acknowledged commit, or of a later one of unknown outcome.
async fn own(shared: &Shared, all: &[Done]) -> Result<Checked, ServedError> {
    let mut connection = Connection::new(&shared.catalog.address);
    let mut checked = Checked::default();
    for done in all {
        let Some(last) = done.acknowledged.last() else { continue };
        let path = shared.catalog.table(&shared.namespace, &own_table(done.number));
        let head = shared.heads.of(&shared.catalog.load(&mut connection, &path).await?)?;
        let turn: Option<i64> = head.properties.get("turn").and_then(|turn| turn.parse().ok());
        checked.acknowledged += 1;
        match turn {
            Some(turn) if turn == *last => {}
            Some(turn) if turn > *last && done.unknown.contains(&turn) => checked.unknown_there += 1,
            _ => checked.lost += 1,
        }
    }
    Ok(checked)
}

/// Whether each acknowledged snapshot is in the history once, and its manifest in the list of the head once.
async fn appended(shared: &Shared, all: &[Done]) -> Result<Checked, ServedError> {
    let mut connection = Connection::new(&shared.catalog.address);
    let path = shared.catalog.table(&shared.namespace, THE_TABLE);
    let head = shared.heads.of(&shared.catalog.load(&mut connection, &path).await?)?;
    let (history, circle) = head.history();
    if circle {
        let words = "the history of the table is a circle".to_owned();
        return Err(ServedError::Answer { what: "GET table", words });
    }
    let mut manifests: BTreeMap<i64, u64> = BTreeMap::new();
    if let (Some(files), Some(list)) = (&shared.files, head.list()) {
        for manifest in files.manifests(list).await?.iter() {
            *manifests.entry(manifest.added_snapshot_id).or_default() += 1;
        }
    }
    let mut listed: BTreeMap<i64, u64> = BTreeMap::new();
    for (id, ..) in &head.snapshots {
        *listed.entry(*id).or_default() += 1;
    }
    let history: BTreeMap<i64, ()> = history.into_iter().map(|id| (id, ())).collect();
    let there = |id: &i64| history.contains_key(id) && manifests.contains_key(id);
    let anywhere = |id: &i64| history.contains_key(id) || manifests.contains_key(id);
    let mut checked = Checked::default();
    for done in all {
        checked.acknowledged += done.acknowledged.len() as u64;
        checked.lost += done.acknowledged.iter().filter(|id| !there(id)).count() as u64;
        checked.unknown_there += done.unknown.iter().filter(|id| there(id)).count() as u64;
        checked.refused_there += done.refused.iter().filter(|id| anywhere(id)).count() as u64;
    }
    checked.twice = listed.values().chain(manifests.values()).filter(|count| **count > 1).count() as u64;
    Ok(checked)
}
