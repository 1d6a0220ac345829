//! Does each folder have the files of one table only?
//!
//! A table has files in each folder that was its location since it came, and, if it was registered, in those in which
//! its metadata named manifest lists by then. No version of the catalog may have two tables of which one has files in
//! or around a folder of the other: what one deletes, the other would miss.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use glidepath_model::Name;
use glidepath_table::files::is_within;
use iceberg::spec::TableMetadata;
use uuid::Uuid;

/// The folders of the tables of one version of the catalog.
#[derive(Default)]
pub(super) struct Folders {
    at: BTreeMap<Name, Uuid>,
    of: BTreeMap<Uuid, BTreeSet<String>>,
}

fn meet(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

impl Folders {
    /// One more version, in which these names changed: to tables with this metadata, or to none.
    pub(super) fn follow(&mut self, changed: &[(Name, Option<Arc<TableMetadata>>)]) -> Result<(), String> {
        for (name, now) in changed {
            match now {
                Some(now) => drop(self.at.insert(name.clone(), now.uuid())),
                None => drop(self.at.remove(name)),
            }
        }
        let living: BTreeSet<&Uuid> = self.at.values().collect();
        self.of.retain(|table, _| living.contains(table));
        for (name, now) in changed {
            let Some(now) = now else { continue };
            let mut folders = vec![now.location().to_owned()];
            if !self.of.contains_key(&now.uuid()) {
                let lists = now.snapshots().filter_map(|snapshot| snapshot.manifest_list().rsplit_once('/'));
                folders.extend(lists.map(|(folder, _)| folder.to_owned()));
            }
            for folder in folders {
                if !self.of.entry(now.uuid()).or_default().insert(folder.clone()) {
                    continue;
                }
                let mut others = self.of.iter().filter(|(table, _)| **table != now.uuid());
                let other = others.find(|(_, of)| of.iter().any(|other| meet(other, &folder)));
                if let Some((table, of)) = other {
                    return Err(format!("{name} has files in {folder}, and table {table} in {of:?}"));
                }
            }
        }
        Ok(())
    }

    /// Whether a table has files in or around a folder.
    pub(super) fn are_at(&self, folder: &str) -> bool {
        self.of.values().flatten().any(|other| meet(other, folder))
    }
}
