//! What becomes of an append that is rebased.

use glidepath_table::rebase::{Asked, NotRebased, Recognized, Why};
use iceberg::TableUpdate;
use iceberg::spec::{FormatVersion, ManifestContentType, ManifestList, Snapshot};
use serde_json::json;

use crate::world::{NOW, World};

fn snapshot(updates: &[TableUpdate]) -> &Snapshot {
    match updates {
        [TableUpdate::AddSnapshot { snapshot }, TableUpdate::SetSnapshotRef { .. }] => snapshot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stale_append_lands_on_the_head() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let rebased = world.rebased(&late);

    let moved = snapshot(&rebased.updates);
    assert_eq!((moved.snapshot_id(), moved.parent_snapshot_id(), moved.sequence_number()), (3, Some(2), 3));
    assert_eq!((moved.timestamp_ms(), moved.schema_id(), moved.row_range()), (NOW, Some(0), None));
    assert_eq!(moved.manifest_list(), rebased.list_location);
    assert_eq!(rebased.replaced, "s3://lake/t/metadata/snap-3.avro");
    assert_eq!(rebased.asked, Asked::Table);
    let requirements = serde_json::to_value(&rebased.requirements).unwrap();
    assert_eq!(requirements[0], json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}));
    assert_eq!(requirements[1]["type"], "assert-table-uuid");
    let summary = &moved.summary().additional_properties;
    assert_eq!((summary["total-records"].as_str(), summary["manifests-kept"].as_str()), ("22", "2"));
    assert_eq!(summary["added-records"], "5");

    let manifests = world.manifests(3);
    let of: Vec<_> =
        manifests.iter().map(|m| (m.added_snapshot_id, m.sequence_number, m.min_sequence_number)).collect();
    assert_eq!(of, [(3, 3, 3), (2, 2, 2), (1, 1, 1)]);
    assert_eq!(manifests[1..], world.manifests(2));
    assert_eq!(world.rows(), (22, 22));
}

#[test]
fn a_batch_is_rebased_before_anything_is_written() {
    let mut world = World::with_one(2);
    let drafts = [world.draft(2, 2), world.draft(3, 3), world.draft(4, 4)];
    world.land(world.draft(9, 100));
    let mut lists = Vec::new();
    for draft in &drafts {
        let rebased = world.rebase(&world.candidate(draft)).unwrap();
        world.apply(rebased.updates.clone());
        lists.push((rebased.list_location, rebased.list));
    }
    let listed = world.disk.reads.lock().unwrap().iter().filter(|name| name.ends_with("snap-1.avro")).count();
    assert_eq!(listed, 1, "the list of the parent is read once");
    for (location, list) in lists {
        world.disk.put(&location, list);
    }
    assert_eq!(world.rows(), (119, 119));
    let by: Vec<_> = world.manifests(4).iter().map(|m| (m.added_snapshot_id, m.sequence_number)).collect();
    assert_eq!(by, [(4, 5), (3, 4), (2, 3), (9, 2), (1, 1)]);
}

#[test]
fn without_kept_lists_the_head_is_read_again() {
    let mut world = World::with_one(2);
    world.lists = glidepath_table::rebase::Lists::new(0);
    let (late, later) = (world.draft(3, 5), world.draft(4, 6));
    world.land(world.draft(2, 7));
    world.rebased(&late);
    world.rebased(&later);
    assert_eq!(world.rows(), (28, 28));
}

#[test]
fn kept_lists_are_bounded_and_forgotten() {
    let mut world = World::with_one(2);
    world.lists = glidepath_table::rebase::Lists::new(7);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let rebased = world.rebased(&late);
    // Lists of one, two and three manifests count two, three and four: the least recently used one gives way.
    assert!(world.lists.get("s3://lake/t/metadata/snap-1.avro").is_none());
    assert_eq!(world.lists.get("s3://lake/t/metadata/snap-2.avro").unwrap().len(), 2);
    assert_eq!(world.lists.get(&rebased.list_location).unwrap().len(), 3);
    world.lists.forget(&rebased.list_location);
    assert!(world.lists.get(&rebased.list_location).is_none());
}

#[test]
fn row_ids_are_assigned_anew() {
    let mut world = World::with_one(3);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let rebased = world.rebased(&late);
    assert_eq!(snapshot(&rebased.updates).row_range(), Some((17, 5)));
    let ids: Vec<_> = world.manifests(3).iter().map(|m| m.first_row_id).collect();
    assert_eq!(ids, [Some(17), Some(10), Some(0)]);
    assert_eq!(world.metadata.next_row_id(), 22);
}

#[test]
fn manifests_from_before_version_3_get_row_ids() {
    let mut world = World::with_one(2);
    world.update(json!({"action": "upgrade-format-version", "format-version": 3}));
    let late = world.draft(3, 5);
    let mut other = world.draft(2, 7);
    // The other client left the old manifest without row ids, so its own 7 are all it assigned.
    other.list[1].first_row_id = None;
    world.land(other);
    let rebased = world.rebased(&late);
    assert_eq!(snapshot(&rebased.updates).row_range(), Some((7, 15)));
    let ids: Vec<_> = world.manifests(3).iter().map(|m| m.first_row_id).collect();
    assert_eq!(ids, [Some(7), Some(0), Some(12)]);
    assert_eq!(world.metadata.next_row_id(), 22);
}

#[test]
fn deletes_and_other_snapshots_in_between_are_kept() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    let mut delete = world.draft(2, 1);
    delete.snapshot["summary"] = json!({"operation": "delete", "total-records": "10", "total-delete-files": "1"});
    delete.list[0].content = ManifestContentType::Deletes;
    world.land(delete);
    let rebased = world.rebased(&late);
    let summary = &snapshot(&rebased.updates).summary().additional_properties;
    assert_eq!((summary["total-records"].as_str(), summary["total-delete-files"].as_str()), ("15", "1"));
    let kinds: Vec<_> = world.manifests(3).iter().map(|m| m.content).collect();
    assert_eq!(kinds, [ManifestContentType::Data, ManifestContentType::Deletes, ManifestContentType::Data]);
}

#[test]
fn totals_that_the_head_does_not_have_are_left_out() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    let mut other = world.draft(2, 7);
    other.snapshot["summary"] = json!({"operation": "append", "total-data-files": "2", "total-files-size": "many"});
    world.land(other);
    let rebased = world.rebased(&late);
    let summary = &snapshot(&rebased.updates).summary().additional_properties;
    assert_eq!(summary["total-data-files"], "3");
    assert!(!summary.contains_key("total-records") && !summary.contains_key("total-files-size"));
}

#[test]
fn a_snapshot_whose_number_another_branch_took_is_rebased() {
    for version in [2, 3] {
        let mut world = World::with_one(version);
        let late = world.draft(3, 5);
        let mut other = world.draft(2, 7);
        other.reference["ref-name"] = json!("audit");
        world.land(other);
        let rebased = world.rebased(&late);
        assert_eq!((snapshot(&rebased.updates).parent_snapshot_id(), world.rows()), (Some(1), (15, 15)));
        assert_eq!(snapshot(&rebased.updates).sequence_number(), 3);
    }
}

#[test]
fn a_manifest_without_live_files_may_be_left_out() {
    let mut world = World::with_one(2);
    let mut other = world.draft(2, 7);
    other.list[0].added_files_count = Some(0);
    other.list[0].deleted_files_count = Some(1);
    world.land(other);
    let mut late = world.draft(4, 5);
    late.list.remove(1);
    world.land(world.draft(3, 7));
    world.rebased(&late);
    assert_eq!(world.manifests(4).len(), 4);
}

#[test]
fn time_does_not_run_backwards() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    let mut other = world.draft(2, 7);
    other.snapshot["timestamp-ms"] = json!(NOW + 5);
    world.land(other);
    assert_eq!(snapshot(&world.rebased(&late).updates).timestamp_ms(), NOW + 5);
}

#[test]
fn the_branch_keeps_its_retention() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    let mut other = world.draft(2, 7);
    other.reference["max-snapshot-age-ms"] = json!(1000);
    world.land(other);
    let rebased = world.rebased(&late);
    let reference = serde_json::to_value(&rebased.updates[1]).unwrap();
    assert_eq!((&reference["max-snapshot-age-ms"], &reference["snapshot-id"]), (&json!(1000), &json!(3)));
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let mut world = World::with_one(3);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let candidate = world.candidate(&late);
    let (one, two) = (world.rebase(&candidate).unwrap(), world.rebase(&candidate).unwrap());
    assert_eq!(one.list, two.list);
    assert!(one.list_location.starts_with("s3://lake/t/metadata/snap-3-rebased-"));
}

#[test]
fn the_list_goes_where_the_table_wants_metadata() {
    let mut world = World::with_one(2);
    world.update(json!({"action": "set-properties", "updates": {"write.metadata.path": "s3://lake/meta/"}}));
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    assert!(world.rebased(&late).list_location.starts_with("s3://lake/meta/snap-3-rebased-"));
}

#[test]
fn what_landed_is_already_there() {
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let candidate = world.candidate(&late);
    world.rebased(&late);
    // At the head, and below it.
    for id in 4..6 {
        assert!(matches!(world.recognize(&world.send(&late)), Recognized::AlreadyThere));
        assert!(matches!(world.rebase(&candidate), Err(NotRebased::AlreadyThere(3))));
        world.land(world.draft(id, 1));
    }
    // Whatever else the commit did, and if nobody asked for rebases.
    world.edit(|table| table["properties"] = json!({}));
    let mut more = late;
    more.more_updates.push(json!({"action": "set-properties", "updates": {"a": "b"}}));
    assert!(matches!(world.recognize(&world.send(&more)), Recognized::AlreadyThere));
}

#[test]
fn what_did_not_land_here_is_not_already_there() {
    let mut world = World::with_one(2);
    let draft = world.draft(2, 7);
    world.land(world.draft(2, 7));
    let mut other_table = world.draft(2, 7);
    other_table.requirements[1]["uuid"] = json!("0190d6a4-5a9e-7c31-8b0e-2d2f6d1c0a12");
    assert!(matches!(world.recognize(&world.send(&other_table)), Recognized::No(_)));
    let mut other_branch = world.draft(2, 7);
    other_branch.reference["ref-name"] = json!("audit");
    assert!(matches!(world.recognize(&world.send(&other_branch)), Recognized::No(_)));
    // One of the two branches that the commit sets is elsewhere.
    world.update(json!({"action": "set-snapshot-ref", "ref-name": "old", "type": "branch", "snapshot-id": 1}));
    let mut two_branches = world.draft(2, 7);
    let mut second = two_branches.reference.clone();
    second["ref-name"] = json!("old");
    two_branches.more_updates.push(second);
    assert!(matches!(world.recognize(&world.send(&two_branches)), Recognized::No(_)));
    let mut overwrite = world.draft(2, 7);
    overwrite.snapshot["summary"]["operation"] = json!("overwrite");
    assert!(matches!(world.recognize(&world.send(&overwrite)), Recognized::No(_)));
    // The branch was rolled back: the client must not be told that its append is there, nor delete its files.
    world.update(json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}));
    assert_eq!(world.refused(&draft), Why::InTable(2));
}

#[test]
fn who_asks() {
    let all = ["write.delete.isolation-level", "write.update.isolation-level", "write.merge.isolation-level"];
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    let mut asking = world.draft(4, 5);
    asking.snapshot["summary"]["append-rebase"] = json!("true");
    let mut declining = world.draft(5, 5);
    declining.snapshot["summary"]["append-rebase"] = json!("false");
    world.land(world.draft(2, 7));
    assert_eq!(world.refused(&declining), Why::Declined);

    world.edit(|table| table["properties"] = json!({}));
    assert_eq!(world.refused(&late), Why::NotAsked);
    assert_eq!(world.rebase(&world.candidate(&asking)).unwrap().asked, Asked::Commit);

    world.owner = true;
    assert_eq!(world.refused(&late), Why::Isolation);
    for missing in all {
        let levels = all.iter().filter(|name| **name != missing).map(|name| ((*name).to_owned(), json!("snapshot")));
        let levels: serde_json::Map<_, _> = levels.collect();
        world.edit(|table| table["properties"] = json!(levels));
        assert_eq!(world.refused(&late), Why::Isolation);
        world.edit(|table| table["properties"][missing] = json!("snapshot"));
        assert_eq!(world.rebase(&world.candidate(&late)).unwrap().asked, Asked::Owner);
    }
    let mut overwrite = world.draft(8, 1);
    overwrite.snapshot["summary"]["operation"] = json!("overwrite");
    world.land(overwrite);
    world.land(world.draft(9, 1));
    assert_eq!(world.refused(&late), Why::Between(8));
}

/// A sink that writes each row once looks at what another one of its stream has committed.
#[test]
fn appends_of_one_stream_are_not_put_on_each_other() {
    let kafka = |topic: &str, offset: u64| json!({format!("kafka.connect.offsets.{topic}.group"): format!("{{\"0\":{offset}}}")});
    let flink = |job: &str, checkpoint: u64| json!({"flink.job-id": job, "flink.operator-id": "o", "flink.max-committed-checkpoint-id": checkpoint.to_string()});
    let spark = |query: &str, epoch: u64| json!({"spark.sql.streaming.queryId": query, "spark.sql.streaming.epochId": epoch.to_string()});
    for (one, same, other) in [
        (kafka("a", 3), kafka("a", 5), kafka("b", 3)),
        (flink("a", 3), flink("a", 3), flink("b", 3)),
        (spark("a", 3), spark("a", 3), spark("b", 3)),
    ] {
        let mut world = World::with_one(2);
        let noting = |world: &World, id: i64, notes: &serde_json::Value| {
            let mut draft = world.draft(id, 1);
            draft.snapshot["summary"].as_object_mut().unwrap().extend(notes.as_object().unwrap().clone());
            draft
        };
        let (late, plain) = (noting(&world, 3, &same), world.draft(4, 1));
        let unrelated = noting(&world, 5, &other);
        world.land(noting(&world, 2, &one));
        world.land(world.draft(6, 1));
        assert_eq!(world.refused(&late), Why::SameStream(2));
        world.rebase(&world.candidate(&plain)).unwrap();
        world.rebase(&world.candidate(&unrelated)).unwrap();
        // It has looked at it.
        let seen = noting(&world, 7, &same);
        world.land(world.draft(8, 1));
        world.rebase(&world.candidate(&seen)).unwrap();
    }
}

/// Who publishes staged rows looks whether somebody else has, after a conflict.
#[test]
fn what_publishes_a_staged_snapshot_is_not_rebased() {
    for key in ["source-snapshot-id", "published-wap-id"] {
        let mut world = World::with_one(2);
        let mut late = world.draft(3, 1);
        late.snapshot["summary"][key] = json!("7");
        world.land(world.draft(2, 1));
        assert_eq!(world.refused(&late), Why::Shape("it publishes a staged snapshot"));
    }
}

#[test]
fn lists_of_the_library_and_of_this_crate_agree() {
    let mut world = World::with_one(3);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let rebased = world.rebased(&late);
    let theirs = ManifestList::parse_with_version(&rebased.list, FormatVersion::V3).unwrap();
    let ours = world.lists.get(&rebased.list_location).unwrap();
    assert!(theirs.entries().iter().eq(ours.iter().map(AsRef::as_ref)));
}

#[test]
fn a_future_of_files_that_can_be_sent_can_be_sent() {
    fn sent<T: Send>(_: &T) {}
    let mut world = World::with_one(2);
    let late = world.draft(3, 5);
    world.land(world.draft(2, 7));
    let candidate = world.candidate(&late);
    let fresh = uuid::Uuid::from_u128(1);
    let World { disk, metadata, lists, .. } = &world;
    sent(&glidepath_table::rebase::rebase(&candidate, metadata, disk, lists, fresh, NOW));
}
