//! Requests that were done, and come again when what they name has other names, or cannot be read.

use super::careless::view;
use super::refusals::committed_together;
use super::*;
use crate::keys::{KEPT_MS, KEYS};

fn to(location: &str, key: Option<Idempotency>) -> TableCommit {
    let updates = vec![TableUpdate::SetLocation { location: location.to_owned() }];
    TableCommit { requirements: Vec::new(), updates, key }
}

/// The repeat would move another table to the folder of the one that it has moved.
#[tokio::test(start_paused = true)]
async fn what_was_done_is_told_where_it_can_be_done_no_more() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t", "u"]).await;
        let moved = || to("s3://b/lake/elsewhere", key("k", "move"));
        let first = server.commit_table(&table("t"), moved()).await.unwrap();
        for (from, name) in [("t", "v"), ("u", "t")] {
            server.rename_table(&table(from), &table(name), None).await.unwrap();
        }
        assert_eq!(server.commit_table(&table("t"), moved()).await.unwrap().location, first.location);
        // Refused as it was the first time.
        let absent = || to("s3://b/lake/elsewhere", key("l", "move"));
        assert_eq!(kind(server.commit_table(&table("w"), absent()).await), Kind::NoTable);
        server.rename_table(&table("t"), &table("w"), None).await.unwrap();
        assert_eq!(kind(server.commit_table(&table("w"), absent()).await), Kind::NoTable);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_told_where_the_table_cannot_be_read() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let first = server.commit_table(&table("t"), set("a", key("k", "r"))).await.unwrap();
    let last = server.commit_table(&table("t"), set("b", None)).await.unwrap();
    let other = world.server().await;
    server.inner.files.delete(&last.location).await.unwrap();
    assert_eq!(kind(other.commit_table(&table("t"), set("c", key("l", "r"))).await), Kind::Broken);
    assert_eq!(other.commit_table(&table("t"), set("a", key("k", "r"))).await.unwrap().location, first.location);
}

#[tokio::test(start_paused = true)]
async fn what_was_done_to_a_view_is_told_where_its_file_is_gone() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let set = |name: &str| {
        let updates = vec![iceberg::ViewUpdate::SetProperties { updates: [(name.to_owned(), "1".to_owned())].into() }];
        ViewCommit { uuids: Vec::new(), creates: false, updates }
    };
    let made = server.create_view(view(schema(), 1), key("k", "r").as_ref()).await.unwrap();
    let changed = server.commit_view(&table("v"), set("a"), key("l", "r").as_ref()).await.unwrap();
    let now = server.commit_view(&table("v"), set("b"), None).await.unwrap();
    for gone in [&made, &changed] {
        server.inner.files.delete(&gone.location).await.unwrap();
    }
    let other = world.server().await;
    let again = other.create_view(view(schema(), 1), key("k", "r").as_ref()).await.unwrap();
    assert_eq!(again.location, now.location);
    let again = other.commit_view(&table("v"), set("a"), key("l", "r").as_ref()).await.unwrap();
    assert_eq!(again.location, now.location);
    server.drop_view(&table("v"), None).await.unwrap();
    assert_eq!(kind(other.commit_view(&table("v"), set("a"), key("l", "r").as_ref()).await), Kind::Unknown);
}

/// A commit whose snapshot is there, and whose other changes are not, is another one.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_there_does_not_speak_for_the_rest() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let before = loaded(&server, "t").await;
    let first = append(&before.metadata, 5);
    server.commit_table(&table("t"), first.clone()).await.unwrap();
    let field = NestedField::optional(2, "more", Type::Primitive(PrimitiveType::Long));
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let wider = Schema::builder().with_fields([id.into(), field.into()]).build().unwrap();
    let tag = SnapshotReference { snapshot_id: 5, retention: SnapshotRetention::Tag { max_ref_age_ms: None } };
    for other in [
        TableUpdate::AddSchema { schema: wider },
        TableUpdate::UpgradeFormatVersion { format_version: iceberg::spec::FormatVersion::V3 },
        TableUpdate::SetSnapshotRef { ref_name: "tag".to_owned(), reference: tag },
        TableUpdate::RemoveSnapshotRef { ref_name: "main".to_owned() },
        TableUpdate::RemoveSnapshots { snapshot_ids: vec![5] },
    ] {
        let mut more = first.clone();
        more.updates.push(other.clone());
        assert_eq!(kind(server.commit_table(&table("t"), more).await), Kind::Unknown, "{other:?}");
    }
    // As Java replaces a table.
    let mut replacement = first.clone();
    replacement.updates.insert(0, TableUpdate::RemoveSnapshotRef { ref_name: "main".to_owned() });
    server.commit_table(&table("t"), replacement).await.unwrap();
    for same in [
        TableUpdate::AddSchema { schema: schema() },
        TableUpdate::UpgradeFormatVersion { format_version: iceberg::spec::FormatVersion::V2 },
        TableUpdate::RemoveSnapshots { snapshot_ids: vec![4] },
    ] {
        let mut more = first.clone();
        more.updates.push(same);
        server.commit_table(&table("t"), more).await.unwrap();
    }
}

/// Clients repeat together what they sent to a server that died: an attempt for each would leave none for those that
/// wait with them.
#[tokio::test(start_paused = true)]
async fn repeats_together_do_not_keep_others_from_their_turn() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let keyed = |number: u32| set(&format!("p{number}"), key(&format!("k{number}"), &format!("r{number}")));
    let (count, others) = (60, ["a", "b", "c", "d"]);
    assert!(count > server.inner.settings.attempts);
    for number in 0..count {
        server.commit_table(&table("t"), keyed(number)).await.unwrap();
    }
    let commits = (0..count).map(keyed).chain(others.map(|other| set(other, None)));
    let answers = committed_together(&server, "t", commits.collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let now = loaded(&server, "t").await;
    assert!(others.iter().all(|other| now.metadata.properties().contains_key(*other)));
}

/// A server that slept between looking for old keys and removing them.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_in_use_again_is_not_cleaned() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        server.commit_table(&table("t"), set("a", key("k", "first"))).await.unwrap();
        world.pass(60 * 60 * 1000);
        let old = server.old_entries(KEYS, KEPT_MS).await.unwrap();
        assert_eq!(old.len(), 1);
        server.clean_keys().await.unwrap();
        server.create_table(new("u"), key("k", "second").as_ref()).await.unwrap();
        server.remove_old(old).await.unwrap();
        server.drop_table(&table("u"), false, None).await.unwrap();
        let _ = server.create_table(new("u"), key("k", "second").as_ref()).await;
        assert!(!server.table_exists(&table("u")).await.unwrap(), "its second delivery is none");
    }
}

/// The snapshot of a commit that sets no branch is staged, to be published later.
#[tokio::test(start_paused = true)]
async fn a_staged_snapshot_that_comes_again_is_there() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let before = loaded(&server, "t").await;
    let staged = || {
        let mut commit = append(&before.metadata, 7);
        commit.updates.truncate(1);
        commit.requirements.truncate(1);
        commit
    };
    let first = server.commit_table(&table("t"), staged()).await.unwrap();
    assert_eq!(server.commit_table(&table("t"), staged()).await.unwrap().location, first.location);
    let both = vec![(table("t"), staged())];
    server.commit_transaction(both, None).await.unwrap();
    assert_eq!(loaded(&server, "t").await.location, first.location);
    // Another snapshot of that number is no repeat.
    let mut other = staged();
    other.updates = vec![TableUpdate::AddSnapshot { snapshot: snapshot(&before.metadata, 7, "other.avro") }];
    server.commit_table(&table("t"), other).await.unwrap_err();
}

/// Without a table, only its absence and that of a branch hold.
#[tokio::test(start_paused = true)]
async fn a_creation_requires_nothing_of_a_table() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let uuid = Uuid::from_u128(9);
    for wrong in [
        TableRequirement::UuidMatch { uuid },
        TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id: Some(4) },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: 0 },
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: 1 },
    ] {
        let commit = || {
            let mut commit = creation(3);
            commit.requirements.push(wrong.clone());
            commit
        };
        assert_eq!(kind(server.commit_table(&table("u"), commit()).await), Kind::Invalid);
        assert_eq!(kind(server.commit_transaction(vec![(table("u"), commit())], None).await), Kind::Invalid);
    }
    assert!(!server.table_exists(&table("u")).await.unwrap());
    let mut commit = creation(3);
    commit.requirements.push(TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id: None });
    server.commit_table(&table("u"), commit).await.unwrap();
    // That the table is there is told first.
    let empty = TableCommit { requirements: vec![TableRequirement::NotExist], updates: Vec::new(), key: None };
    assert_eq!(kind(server.commit_table(&table("t"), empty).await), Kind::Conflict);
}
