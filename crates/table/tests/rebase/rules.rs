//! Each rule refuses what it is for, and nothing else refuses it: the same commit without the change is rebased.

use std::sync::Arc;

use glidepath_table::rebase::{NotRebased, Why, write_list};
use iceberg::spec::{FieldSummary, ManifestContentType};
use serde_json::json;

use crate::world::{Draft, World, entry, list_bytes, list_with, manifest_bytes};

const MINE: &str = "s3://lake/t/metadata/m-3.avro";

/// A table with snapshots 1 and 2, and an append 3 made when the head was 1.
fn stale(version: u8) -> (World, Draft) {
    let mut world = World::with_one(version);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    (world, late)
}

/// Why the append is refused with this change. Without it, it is rebased.
#[track_caller]
fn refused(change: impl FnOnce(&mut World, &mut Draft)) -> Why {
    refused_of(2, change)
}

#[track_caller]
fn refused_of(version: u8, change: impl FnOnce(&mut World, &mut Draft)) -> Why {
    let (mut world, mut late) = stale(version);
    world.rebase(&world.candidate(&late)).expect("it is rebased without the change");
    change(&mut world, &mut late);
    world.lists = glidepath_table::rebase::Lists::new(100);
    world.refused(&late)
}

#[track_caller]
fn misshapen(change: impl FnOnce(&mut World, &mut Draft)) {
    let why = refused(change);
    assert!(matches!(why, Why::Shape(_)), "{why:?}");
}

#[test]
fn only_one_append_to_one_branch() {
    misshapen(|_, d| d.snapshot["summary"]["operation"] = json!("overwrite"));
    misshapen(|_, d| d.snapshot["summary"]["operation"] = json!("delete"));
    misshapen(|_, d| d.snapshot["summary"]["operation"] = json!("replace"));
    misshapen(|_, d| d.more_updates.push(json!({"action": "set-properties", "updates": {}})));
    misshapen(|_, d| d.reference["type"] = json!("tag"));
    misshapen(|_, d| d.reference["snapshot-id"] = json!(1));
    misshapen(|_, d| d.reference["ref-name"] = json!("audit"));
    misshapen(|_, d| d.snapshot["parent-snapshot-id"] = json!(2));
    let (world, late) = stale(2);
    let mut commit = world.send(&late);
    commit.updates.remove(1);
    assert!(matches!(world.recognize(&commit), glidepath_table::rebase::Recognized::No(Why::Shape(_))));
}

#[test]
fn only_the_requirements_of_an_append() {
    misshapen(|_, d| d.requirements[0]["snapshot-id"] = json!(null));
    misshapen(|_, d| drop(d.requirements.remove(0)));
    misshapen(|_, d| d.requirements.push(d.requirements[0].clone()));
    misshapen(|_, d| d.requirements.push(d.requirements[1].clone()));
    misshapen(|_, d| d.requirements.push(json!({"type": "assert-current-schema-id", "current-schema-id": 0})));
    misshapen(|_, d| d.requirements[0]["snapshot-id"] = json!(2));
    let other = json!("0190d6a4-5a9e-7c31-8b0e-2d2f6d1c0a12");
    assert_eq!(refused(|_, d| d.requirements[1]["uuid"] = other), Why::OtherTable);
    // The uuid need not be asserted.
    let (world, mut late) = stale(2);
    late.requirements.pop();
    assert!(world.rebase(&world.candidate(&late)).is_ok());
}

#[test]
fn what_does_not_conflict_is_not_rebased() {
    for version in [2, 3] {
        let world = World::with_one(version);
        assert_eq!(world.refused(&world.draft(2, 5)), Why::NotStale);
    }
}

#[test]
fn version_1_is_refused() {
    let mut world = World::new(1);
    world.land(world.draft(1, 10));
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    assert_eq!(world.refused(&late), Why::Version1);
}

#[test]
fn the_format_version_must_be_that_of_the_client() {
    let upgrade = json!({"action": "upgrade-format-version", "format-version": 3});
    let version = |table: &str, commit: &str| Why::Version { table: table.into(), commit: commit.into() };
    assert_eq!(refused(|w, _| w.update(upgrade)), version("3", "2"));
    let (first, added) = (json!(10), json!(5));
    let row_range = |d: &mut Draft| (d.snapshot["first-row-id"], d.snapshot["added-rows"]) = (first, added);
    assert_eq!(refused(|_, d| row_range(d)), version("2", "3"));
    assert_eq!(refused(|_, d| d.list_version = "1".into()), version("2", "1"));
}

#[test]
fn encryption_is_refused() {
    let key = json!([{"key-id": "k", "encrypted-key-metadata": "AAAA"}]);
    assert_eq!(refused_of(3, |w, _| w.edit(|t| t["encryption-keys"] = key)), Why::Encrypted);
    assert_eq!(refused_of(3, |_, d| d.snapshot["key-id"] = json!("k")), Why::Encrypted);
    assert_eq!(refused(|_, d| d.list[0].key_metadata = Some(vec![1])), Why::Encrypted);
}

#[test]
fn the_branch_must_be_there() {
    let removed = json!({"action": "remove-snapshot-ref", "ref-name": "main"});
    assert_eq!(refused(|w, _| w.update(removed)), Why::NoBranch("main".into()));
}

#[test]
fn a_tag_is_no_branch() {
    let why = refused(|w, d| {
        w.update(json!({"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": 2}));
        d.reference["ref-name"] = json!("x");
        d.requirements[0]["ref"] = json!("x");
    });
    assert!(matches!(why, Why::Unfit(_)), "{why:?}");
}

#[test]
fn the_asserted_snapshot_must_be_in_the_table() {
    let expired = json!({"action": "remove-snapshots", "snapshot-ids": [1]});
    assert_eq!(refused(|w, _| w.update(expired)), Why::ParentGone(1));
}

#[test]
fn the_asserted_snapshot_must_be_in_the_history() {
    let (mut world, _) = stale(2);
    let late = world.draft(3, 5);
    world.land(world.draft(4, 1));
    assert!(world.rebase(&world.candidate(&late)).is_ok());
    world.update(json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}));
    assert_eq!(world.refused(&late), Why::NotAncestor(2));
}

#[test]
fn the_schema_must_be_current() {
    assert_eq!(refused(|_, d| drop(d.snapshot.as_object_mut().unwrap().remove("schema-id"))), Why::Schema(0));
    let fields = json!([{"id": 1, "name": "id", "required": false, "type": "long"},
        {"id": 2, "name": "b", "required": false, "type": "long"}]);
    let why = refused(|w, _| {
        w.update(json!({"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": fields}}));
        w.update(json!({"action": "set-current-schema", "schema-id": 1}));
    });
    assert_eq!(why, Why::Schema(1));
}

#[test]
fn the_partition_spec_must_be_the_default() {
    let why = refused(|w, _| {
        let field = json!({"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"});
        w.update(json!({"action": "add-spec", "spec": {"spec-id": 1, "fields": [field]}}));
        w.update(json!({"action": "set-default-spec", "spec-id": 1}));
    });
    assert_eq!(why, Why::Spec { manifest: MINE.into(), spec: 0, default: 1 });
}

#[test]
fn the_commit_may_not_change_the_retention() {
    assert_eq!(refused(|_, d| d.reference["max-snapshot-age-ms"] = json!(5)), Why::Retention);
}

#[test]
fn added_manifests_hold_data() {
    assert_eq!(refused(|_, d| d.list[0].content = ManifestContentType::Deletes), Why::Deletes(MINE.into()));
    assert_eq!(refused(|_, d| d.entries[0].content = 1), Why::Deletes(MINE.into()));
    assert_eq!(refused(|_, d| d.entries[0].content = 2), Why::Deletes(MINE.into()));
}

#[test]
fn added_manifests_only_add() {
    let why = Why::EntryNotAdded(MINE.into());
    // A merged append: the list says so.
    assert_eq!(refused(|_, d| d.list[0].existing_files_count = Some(1)), why);
    assert_eq!(refused(|_, d| d.list[0].deleted_files_count = Some(1)), why);
    assert_eq!(refused(|_, d| d.list[0].deleted_files_count = None), why);
    // The list does not say so.
    assert_eq!(refused(|_, d| d.entries[0].status = 0), why);
    assert_eq!(refused(|_, d| d.entries[0].status = 2), why);
    assert_eq!(refused(|_, d| d.entries.push(d.entries[0].clone())), Why::Counts(MINE.into()));
    assert_eq!(refused(|_, d| d.entries[0].rows = 6), Why::Counts(MINE.into()));
    assert_eq!(refused(|_, d| d.entries[0].snapshot = Some(2)), Why::EntryOfOther(MINE.into()));
    let (world, mut late) = stale(2);
    late.entries[0].snapshot = Some(3);
    assert!(world.rebase(&world.candidate(&late)).is_ok());
}

#[test]
fn added_entries_inherit() {
    assert_eq!(refused(|_, d| d.entries[0].sequence = Some(2)), Why::SequenceNumbers(MINE.into()));
    assert_eq!(refused(|_, d| d.entries[0].file_sequence = Some(2)), Why::SequenceNumbers(MINE.into()));
    assert_eq!(refused_of(3, |_, d| d.entries[0].first_row = Some(10)), Why::RowIds(MINE.into()));
}

#[test]
fn added_manifests_are_new() {
    let first = "s3://lake/t/metadata/m-1.avro";
    let second = "s3://lake/t/metadata/m-2.avro";
    // Of the parent, of the head, and twice in one list.
    assert_eq!(refused(|_, d| d.list[1].added_snapshot_id = 3), Why::Listed(first.into()));
    assert_eq!(refused(|_, d| d.list[0].manifest_path = second.into()), Why::Listed(second.into()));
    assert_eq!(refused(|_, d| d.list.push(d.list[0].clone())), Why::Twice(MINE.into()));
    // Of the parent, and meanwhile replaced in the head.
    let why = refused(|w, d| {
        let mut compacted = w.draft(4, 17);
        compacted.snapshot["summary"]["operation"] = json!("replace");
        compacted.list.truncate(1);
        w.land(compacted);
        d.list[1].added_snapshot_id = 3;
    });
    assert_eq!(why, Why::Listed(first.into()));
}

#[test]
fn kept_manifests_are_the_parents() {
    let second = "s3://lake/t/metadata/m-2.avro";
    let why = refused(|w, d| d.list.push(w.manifests(2).into_iter().find(|m| m.manifest_path == second).unwrap()));
    assert_eq!(why, Why::NotOfParent(second.into()));
}

#[test]
fn all_live_manifests_of_the_parent_are_kept() {
    let first = "s3://lake/t/metadata/m-1.avro";
    assert_eq!(refused(|_, d| drop(d.list.remove(1))), Why::LeftOut(first.into()));
}

/// Two clients replace the same rows. One of them writes its deletion as an added manifest and calls all of it an
/// append. Put on top of each other, both would leave their rows in the table.
#[test]
fn an_overwrite_in_the_clothes_of_an_append_is_refused() {
    let first = "s3://lake/t/metadata/m-1.avro";
    // Copy on write: the manifest of the replaced file is rewritten, or left out.
    let why = refused(|_, d| {
        d.entries.push(crate::world::Entry { status: 2, snapshot: Some(3), ..entry(10) });
        d.list[0].deleted_files_count = Some(1);
        d.list.remove(1);
    });
    assert_eq!(why, Why::LeftOut(first.into()));
    // Merge on read: a second manifest holds deletes.
    let why = refused(|w, d| {
        let mut deletes = d.list[0].clone();
        deletes.manifest_path = "s3://lake/t/metadata/deletes.avro".into();
        deletes.content = ManifestContentType::Deletes;
        w.disk.put(&deletes.manifest_path, manifest_bytes(&[crate::world::Entry { content: 1, ..entry(1) }]));
        d.list.push(deletes);
    });
    assert_eq!(why, Why::Deletes("s3://lake/t/metadata/deletes.avro".into()));
}

#[test]
fn files_that_are_not_there_are_a_conflict() {
    for name in [MINE, "s3://lake/t/metadata/snap-3.avro", "s3://lake/t/metadata/snap-1.avro"] {
        let (world, late) = stale(2);
        let candidate = world.candidate(&late);
        world.disk.files.lock().unwrap().remove(name);
        let error = world.rebase(&candidate).unwrap_err();
        assert!(matches!(&error, NotRebased::Refused(Why::NoFile(file)) if file == name), "{error:?}");
    }
}

#[test]
fn files_that_the_store_does_not_give_are_no_conflict() {
    for name in [MINE, "s3://lake/t/metadata/snap-3.avro", "s3://lake/t/metadata/snap-2.avro"] {
        let (world, late) = stale(2);
        let candidate = world.candidate(&late);
        world.disk.broken.lock().unwrap().insert(name.into());
        let error = world.rebase(&candidate).unwrap_err();
        assert!(matches!(&error, NotRebased::Store { location, .. } if location == name), "{error:?}");
        world.disk.broken.lock().unwrap().clear();
        assert!(world.rebase(&candidate).is_ok());
    }
}

#[test]
fn what_cannot_be_decoded_is_named() {
    let (world, late) = stale(2);
    let candidate = world.candidate(&late);
    let own = "s3://lake/t/metadata/snap-3.avro";
    let whole = world.disk.bytes(own);
    let faults = [
        (Vec::new(), "header"),
        (whole[..whole.len() - 20].to_vec(), ""),
        (list_with("2", &late.list, Some(777)), "field 777 is not known"),
        (list_with("2", &late.list, Some(500)), "two fields have the field-id 500"),
    ];
    for (bytes, words) in faults {
        world.disk.put(own, bytes);
        match world.rebase(&candidate).unwrap_err() {
            NotRebased::Undecodable { location, what } => {
                assert_eq!(location, own);
                assert!(what.to_lowercase().contains(words), "{what}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn counts_that_version_2_requires_must_be_known() {
    let (world, late) = stale(2);
    let candidate = world.candidate(&late);
    let mut head = world.manifests(2);
    head[1].added_rows_count = None;
    world.disk.put("s3://lake/t/metadata/snap-2.avro", list_bytes("2", &head));
    let error = world.rebase(&candidate).unwrap_err();
    assert!(matches!(error, NotRebased::Refused(Why::Unfit(_))), "{error:?}");
}

/// A file of a few bytes whose counts would have a reader reserve gigabytes, and one that decompresses to gigabytes.
#[test]
fn files_that_ask_for_much_memory_are_refused() {
    let (world, late) = stale(2);
    let candidate = world.candidate(&late);
    let own = "s3://lake/t/metadata/snap-3.avro";
    // This one is compressed.
    let (whole, huge) =
        (world.rebase(&candidate).unwrap().list, [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    let counted = [b"Obj\x01".as_slice(), &huge].concat();
    // The marker ends the header, and what follows is the number of records.
    let marker = &whole[whole.len() - 16..];
    let header = whole.windows(16).position(|bytes| bytes == marker).unwrap() + 16;
    let many = [&whole[..header], &huge, &[0], marker].concat();
    let long = [&whole[..header], &[2], &huge].concat();
    let zeros = miniz_oxide::deflate::compress_to_vec(&vec![0; 65 << 20], 6);
    let n = zeros.len() << 1;
    let bomb = [
        &whole[..header],
        &[2],
        &[(n & 0x7f | 0x80) as u8, (n >> 7 & 0x7f | 0x80) as u8, (n >> 14) as u8],
        &zeros,
        marker,
    ]
    .concat();
    for bytes in [counted, many, long, bomb] {
        world.disk.put(own, bytes);
        let error = world.rebase(&candidate).unwrap_err();
        assert!(matches!(&error, NotRebased::Undecodable { .. }), "{error:?}");
    }
}

/// Each takes many times the memory that it takes in a file.
#[test]
fn a_record_of_very_many_items_is_refused() {
    let (world, late) = stale(2);
    let candidate = world.candidate(&late);
    let summary = FieldSummary { contains_null: true, contains_nan: None, lower_bound: None, upper_bound: None };
    for (count, read) in [(20_000, true), (20_001, false)] {
        let mut manifests: Vec<_> = late.list.iter().cloned().map(Arc::new).collect();
        Arc::make_mut(&mut manifests[0]).partitions = Some(vec![summary.clone(); count]);
        let list = write_list((3, Some(1)), 2, &manifests, [7; 16]).unwrap();
        world.disk.put("s3://lake/t/metadata/snap-3.avro", list);
        match world.rebase(&candidate) {
            Err(NotRebased::Undecodable { what, .. }) => assert!(!read && what.contains("100000 values"), "{what}"),
            Err(NotRebased::Refused(Why::Unfit(words))) => assert!(read && words.contains("partitioning"), "{words}"),
            other => panic!("{count}: {other:?}"),
        }
    }
}

/// The files of a client's commit may be of a table that the client may not read.
#[test]
fn only_files_of_the_table_are_read() {
    let outside =
        |why: Why| assert!(matches!(&why, Why::Outside(words) if words.contains("s3://lake/other/")), "{why:?}");
    let (list, manifest) = ("s3://lake/other/snap-3.avro", "s3://lake/other/m-3.avro");
    outside(refused(|_, d| d.snapshot["manifest-list"] = json!(list)));
    outside(refused(|_, d| d.list[0].manifest_path = manifest.into()));
    outside(refused(|_, d| d.snapshot["manifest-list"] = json!("s3://lake/t/../../s3://lake/other/snap.avro")));
    // The list of the branch, which somebody committed without a rebase.
    outside(refused(|w, _| {
        w.edit(|table| {
            for snapshot in table["snapshots"].as_array_mut().unwrap() {
                if snapshot["snapshot-id"] == 2 {
                    snapshot["manifest-list"] = json!(list);
                }
            }
        });
    }));
    // Where the table's owner wants its metadata, it is looked for.
    let (mut world, mut late) = stale(2);
    world.update(json!({"action": "set-properties", "updates": {"write.metadata.path": "s3://lake/other"}}));
    late.snapshot["manifest-list"] = json!(list);
    assert_eq!(world.refused(&late), Why::NoFile(list.into()));
}
