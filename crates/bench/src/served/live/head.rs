//! What a client that appends knows of its table.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use super::ServedError;

/// How many versions are kept.
const KEPT: usize = 16;

/// A version of a table.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) uuid: String,
    /// The newest snapshot of the branch `main`.
    pub(super) snapshot: Option<i64>,
    pub(super) last_sequence: i64,
    pub(super) format: u8,
    pub(super) properties: BTreeMap<String, String>,
    /// All snapshots in the metadata: each with its parent and its manifest list.
    pub(super) snapshots: Vec<(i64, Option<i64>, String)>,
}

impl Head {
    fn of(&self, snapshot: i64) -> Option<&(i64, Option<i64>, String)> {
        // The newest ones are at the end with most servers.
        self.snapshots.iter().rev().find(|(id, ..)| *id == snapshot)
    }

    /// The manifest list of the newest snapshot.
    pub(super) fn list(&self) -> Option<&str> {
        self.of(self.snapshot?).map(|(_, _, list)| list.as_str())
    }

    /// The newest snapshot and those before it, as far as the metadata has them; also whether that is a circle.
    pub(super) fn history(&self) -> (Vec<i64>, bool) {
        let by_id: BTreeMap<i64, Option<i64>> = self.snapshots.iter().map(|(id, parent, _)| (*id, *parent)).collect();
        let (mut found, mut next) = (Vec::new(), self.snapshot);
        while let Some(id) = next
            && let Some(parent) = by_id.get(&id)
        {
            if found.len() > by_id.len() {
                return (found, true);
            }
            found.push(id);
            next = *parent;
        }
        (found, false)
    }

    /// The manifest lists of the snapshots since `seen`.
    pub(super) fn lists_since(&self, seen: Option<i64>) -> Vec<&str> {
        let (mut lists, mut next) = (Vec::new(), self.snapshot);
        while next != seen
            && lists.len() < self.snapshots.len()
            && let Some((_, parent, list)) = next.and_then(|id| self.of(id))
        {
            lists.push(list.as_str());
            next = *parent;
        }
        lists
    }

    fn parse(body: &[u8]) -> Result<Self, ServedError> {
        let loaded: Loaded<'_> = serde_json::from_slice(body).map_err(|error| ServedError::Answer {
            what: "a table",
            words: format!("its metadata is not what it should be: {error}"),
        })?;
        let metadata = loaded.metadata;
        let main = metadata.refs.unwrap_or_default().get("main").map(|main| main.snapshot);
        let snapshots = metadata.snapshots.unwrap_or_default().into_iter();
        Ok(Self {
            uuid: metadata.uuid.into_owned(),
            snapshot: main.filter(|id| *id >= 0),
            last_sequence: metadata.last_sequence,
            format: metadata.format,
            properties: metadata.properties.unwrap_or_default(),
            snapshots: snapshots.map(|one| (one.id, one.parent, one.list.into_owned())).collect(),
        })
    }
}

#[derive(Deserialize)]
struct Loaded<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata<'a> {
    #[serde(rename = "table-uuid", borrow)]
    uuid: Cow<'a, str>,
    #[serde(rename = "format-version", default)]
    format: u8,
    #[serde(rename = "last-sequence-number", default)]
    last_sequence: i64,
    refs: Option<BTreeMap<String, Reference>>,
    #[serde(borrow)]
    snapshots: Option<Vec<Snapshot<'a>>>,
    properties: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "snapshot-id")]
    snapshot: i64,
}

#[derive(Deserialize)]
struct Snapshot<'a> {
    #[serde(rename = "snapshot-id")]
    id: i64,
    #[serde(rename = "parent-snapshot-id")]
    parent: Option<i64>,
    #[serde(rename = "manifest-list", borrow)]
    list: Cow<'a, str>,
}

/// The last versions that were seen. Clients that get the same version share the work of reading it: that is the
/// clients' work, not the server's.
#[derive(Default)]
pub(super) struct Heads {
    kept: Mutex<VecDeque<(Vec<u8>, Arc<Head>)>>,
}

impl Heads {
    /// The version in an answer.
    pub(super) fn of(&self, body: &[u8]) -> Result<Arc<Head>, ServedError> {
        let Some(location) = metadata_location(body) else { return Head::parse(body).map(Arc::new) };
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, head)) = kept.iter().find(|(known, _)| known == location) {
            return Ok(Arc::clone(head));
        }
        drop(kept);
        let head = Arc::new(Head::parse(body)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((location.to_owned(), Arc::clone(&head)));
        kept.truncate(KEPT);
        Ok(head)
    }
}

/// The location of the metadata file, if it stands at the beginning, as servers write it.
fn metadata_location(body: &[u8]) -> Option<&[u8]> {
    let field = br#""metadata-location":""#;
    let begin = &body[..body.len().min(256)];
    let at = begin.windows(field.len()).position(|window| window == field)? + field.len();
    let end = body[at..].iter().position(|byte| *byte == b'"')?;
    Some(&body[at..at + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"metadata-location":"file:///a/2.json","metadata":{"table-uuid":"u","location":"file:///a",
        "format-version":2,"last-sequence-number":3,"refs":{"main":{"snapshot-id":3,"type":"branch"}},"properties":{"a":"b"},
        "snapshots":[{"snapshot-id":1,"manifest-list":"l1"},{"snapshot-id":2,"parent-snapshot-id":1,"manifest-list":"l2"},
        {"snapshot-id":3,"parent-snapshot-id":2,"manifest-list":"l3"}]},"config":{}}"#;

    #[test]
    fn a_version_is_read_once() {
        let heads = Heads::default();
        let head = heads.of(BODY.as_bytes()).unwrap();
        assert_eq!((head.snapshot, head.list(), head.last_sequence), (Some(3), Some("l3"), 3));
        assert_eq!(head.history(), (vec![3, 2, 1], false));
        assert_eq!(head.lists_since(Some(1)), ["l3", "l2"]);
        assert!(Arc::ptr_eq(&head, &heads.of(BODY.as_bytes()).unwrap()));
        // Another version is not taken for it.
        let other =
            BODY.replace("2.json", "3.json").replace("\"last-sequence-number\":3", "\"last-sequence-number\":4");
        assert_eq!(heads.of(other.as_bytes()).unwrap().last_sequence, 4);
    }

    #[test]
    fn a_circle_is_seen() {
        let circle = BODY.replace(r#"{"snapshot-id":1,"#, r#"{"snapshot-id":1,"parent-snapshot-id":3,"#);
        assert!(Heads::default().of(circle.as_bytes()).unwrap().history().1);
    }
}
