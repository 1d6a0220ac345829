//! The summary of a rebased snapshot: its totals are the head's and what it adds.

use iceberg::spec::Summary;

use super::manifest::Added;

/// The client's summary on top of the head's. `kept` manifests are the head's. A total that the head does not have, or
/// that is no number there, is left out: nobody knows it.
pub(super) fn on_top(client: &Summary, head: &Summary, added: Added, kept: usize) -> Summary {
    let mut properties = client.additional_properties.clone();
    let totals = [
        ("total-data-files", added.files),
        ("total-records", added.rows),
        ("total-files-size", added.bytes),
        ("total-delete-files", 0),
        ("total-position-deletes", 0),
        ("total-equality-deletes", 0),
    ];
    for (name, more) in totals {
        let before = head.additional_properties.get(name).and_then(|total| total.parse::<u64>().ok());
        match before.and_then(|before| before.checked_add(more)) {
            Some(total) => properties.insert(name.to_owned(), total.to_string()),
            None => properties.remove(name),
        };
    }
    if let Some(count) = properties.get_mut("manifests-kept") {
        *count = kept.to_string();
    }
    Summary { operation: client.operation.clone(), additional_properties: properties }
}
