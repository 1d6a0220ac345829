//! Encryption keys in a commit: the crate `iceberg` leaves a key as it is if another comes under its id, and takes
//! snapshots whose key is not there. Then what was encrypted with the key that came cannot be read.

use std::collections::BTreeMap;

use iceberg::TableUpdate;
use iceberg::spec::{EncryptedKey, TableMetadata};

use super::Misfit;

/// Refuses such updates.
pub(super) fn check(updates: &[TableUpdate], current: &TableMetadata) -> Result<(), Misfit> {
    // What this commit has made of keys so far.
    let mut changed: BTreeMap<&str, Option<&EncryptedKey>> = BTreeMap::new();
    for update in updates {
        match update {
            TableUpdate::AddEncryptionKey { encryption_key: added } => {
                let id = added.key_id();
                let there = changed.get(id).copied().unwrap_or_else(|| current.encryption_key(id));
                if there.is_some_and(|there| there != added) {
                    let words = format!(
                        "the encryption key {id:?} is there with another content; add the new one under another id, or remove the \
                         old one first"
                    );
                    return Err(Misfit::Invalid(words));
                }
                changed.insert(id, Some(added));
            }
            TableUpdate::RemoveEncryptionKey { key_id } => {
                changed.insert(key_id, None);
            }
            _ => {}
        }
    }
    let is_there = |id: &str| changed.get(id).copied().unwrap_or_else(|| current.encryption_key(id)).is_some();
    for update in updates {
        if let TableUpdate::AddSnapshot { snapshot } = update
            && let Some(id) = snapshot.encryption_key_id()
            && !is_there(id)
        {
            let words =
                format!("the snapshot {} has the key-id {id:?}, and the table has no such key", snapshot.snapshot_id());
            return Err(Misfit::Invalid(words));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::table;
    use super::*;

    fn updates(given: Value) -> Vec<TableUpdate> {
        serde_json::from_value(given).unwrap()
    }

    fn key(id: &str, content: &str) -> Value {
        json!({"action": "add-encryption-key", "encryption-key": {"key-id": id, "encrypted-key-metadata": content}})
    }

    #[test]
    fn a_key_is_not_replaced_and_snapshots_have_keys_that_are_there() {
        let table = table(&[("format-version", "3")]).unwrap();
        let added = super::super::apply(&table, None, updates(json!([key("k", "AAAA")]))).unwrap().metadata;
        let snapshot = json!({"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "sequence-number": 1,
            "timestamp-ms": 1_900_000_000_000_i64, "manifest-list": "file:///lake/t/l.avro", "schema-id": 0, "key-id": "k",
            "first-row-id": 0, "added-rows": 1, "summary": {"operation": "append"}}});
        let remove = json!({"action": "remove-encryption-key", "key-id": "k"});
        for (on, given, fits) in [
            (&added, json!([key("k", "AAAA")]), true),
            (&added, json!([key("k", "BBBB")]), false),
            (&added, json!([remove, key("k", "BBBB")]), true),
            (&table, json!([key("k", "AAAA"), key("k", "BBBB")]), false),
            (&added, json!([snapshot]), true),
            (&table, json!([snapshot]), false),
            (&table, json!([snapshot, key("k", "AAAA")]), true),
            (&added, json!([remove, snapshot]), false),
        ] {
            assert_eq!(check(&updates(given.clone()), on).is_ok(), fits, "{given}");
        }
    }
}
