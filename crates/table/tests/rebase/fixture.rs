//! Files that pyiceberg 0.12 wrote: a partitioned table with two appends, and a third append that was made when only
//! the first was there.

use futures_executor::block_on;
use glidepath_table::rebase::{Asked, Lists, Recognized, rebase, recognize};
use iceberg::TableUpdate;
use iceberg::spec::{FormatVersion, ManifestList, TableMetadata};
use serde_json::Value;
use uuid::Uuid;

use crate::world::{Disk, NOW};

#[test]
fn an_append_of_pyiceberg_is_rebased() {
    let told: Value = serde_json::from_str(include_str!("../data/pyiceberg.json")).unwrap();
    let metadata: TableMetadata = serde_json::from_value(told["metadata"].clone()).unwrap();
    let requirements: Vec<_> = serde_json::from_value(told["commit"]["requirements"].clone()).unwrap();
    let updates: Vec<_> = serde_json::from_value(told["commit"]["updates"].clone()).unwrap();
    let list_of = |value: &Value| value["manifest-list"].as_str().unwrap().to_owned();
    let snapshots = &told["metadata"]["snapshots"];
    let own = list_of(&told["commit"]["updates"][0]["snapshot"]);
    let disk = Disk::default();
    disk.put(&list_of(&snapshots[0]), include_bytes!("../data/pyiceberg-list-1.avro").as_slice());
    disk.put(&list_of(&snapshots[1]), include_bytes!("../data/pyiceberg-list-2.avro").as_slice());
    disk.put(&own, include_bytes!("../data/pyiceberg-list-3.avro").as_slice());
    let lists = Lists::new(100);
    let theirs = ManifestList::parse_with_version(&disk.bytes(&own), FormatVersion::V2).unwrap();
    let added = theirs.entries()[0].clone();
    disk.put(&added.manifest_path, include_bytes!("../data/pyiceberg-manifest-3.avro").as_slice());

    let Recognized::Candidate(candidate) = recognize(&requirements, &updates, &metadata, false) else { panic!() };
    let rebased = block_on(rebase(&candidate, &metadata, &disk, &lists, Uuid::from_u128(7), NOW)).unwrap();
    assert_eq!(rebased.asked, Asked::Commit);
    let TableUpdate::AddSnapshot { snapshot } = &rebased.updates[0] else { panic!() };
    let summary = &snapshot.summary().additional_properties;
    assert_eq!((summary["total-records"].as_str(), summary["total-data-files"].as_str()), ("6", "3"));
    assert_eq!(summary["total-files-size"], (1814 + 916).to_string());

    let list = ManifestList::parse_with_version(&rebased.list, FormatVersion::V2).unwrap();
    let head = ManifestList::parse_with_version(&disk.bytes(&list_of(&snapshots[1])), FormatVersion::V2).unwrap();
    let mut expected = added;
    (expected.sequence_number, expected.min_sequence_number) = (3, 3);
    assert_eq!(expected.partitions.as_ref().unwrap()[0].lower_bound.as_ref().unwrap().as_slice(), b"wed");
    assert_eq!(list.entries()[0], expected);
    assert_eq!(list.entries()[1..], *head.entries());
}
