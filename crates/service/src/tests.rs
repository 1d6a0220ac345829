//! Requests that are delivered twice, when much has happened in between: no answer lets a client delete files that a
//! table refers to, or believe that something was done which was not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod careless;
mod large;
mod moving;
mod placing;
mod purging;
mod refusals;
mod registering;
mod repeats;
mod several;
mod told;
mod version1;

use std::collections::HashMap;

use glidepath_protocols::registry::Protocol;
use glidepath_table::Files;
use iceberg::spec::{
    NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference, SnapshotRetention, Summary,
    TableMetadata, Transform, Type, UnboundPartitionField, UnboundPartitionSpec,
};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::lance::tests::{Tested, World, kind};
use crate::*;

fn table(name: &str) -> Identifier {
    Identifier { namespace: vec!["n".to_owned()], name: name.to_owned() }
}

fn schema() -> Schema {
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    Schema::builder().with_fields([id.into()]).build().unwrap()
}

fn new(name: &str) -> NewTable {
    NewTable {
        identifier: table(name),
        schema: schema(),
        location: None,
        partition_spec: None,
        sort_order: None,
        properties: HashMap::new(),
    }
}

/// A server with these tables in the namespace `n`.
async fn with(world: &World, tables: &[&str]) -> Tested {
    let server = world.server().await;
    let space = Namespace { parts: vec!["n".to_owned()], properties: Default::default() };
    server.create_namespace(&space, None).await.unwrap();
    for name in tables {
        server.create_table(new(name), None).await.unwrap();
    }
    server
}

fn key(text: &str, request: &str) -> Option<Idempotency> {
    Some(Idempotency::new(text, request.to_owned()).unwrap())
}

fn set(property: &str, key: Option<Idempotency>) -> TableCommit {
    let updates = HashMap::from([(property.to_owned(), "1".to_owned())]);
    TableCommit { requirements: Vec::new(), updates: vec![TableUpdate::SetProperties { updates }], key }
}

/// A snapshot on top of the table, with this manifest list.
fn snapshot(on: &TableMetadata, id: i64, list: &str) -> Snapshot {
    Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(on.current_snapshot_id())
        .with_sequence_number(on.next_sequence_number())
        .with_timestamp_ms(4_102_444_800_000)
        .with_manifest_list(format!("{}/metadata/{list}", on.location()))
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
        .with_schema_id(on.current_schema_id())
        .build()
}

/// An append to a table, as its client prepares it.
fn append(on: &TableMetadata, id: i64) -> TableCommit {
    let snapshot = snapshot(on, id, &format!("snap-{id}.avro"));
    let reference = SnapshotReference { snapshot_id: id, retention: SnapshotRetention::branch(None, None, None) };
    let main = "main".to_owned();
    TableCommit {
        requirements: vec![
            TableRequirement::UuidMatch { uuid: on.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: main.clone(), snapshot_id: on.current_snapshot_id() },
        ],
        updates: vec![TableUpdate::AddSnapshot { snapshot }, TableUpdate::SetSnapshotRef { ref_name: main, reference }],
        key: None,
    }
}

/// Creates a table with this identity.
fn creation(uuid: u128) -> TableCommit {
    TableCommit {
        requirements: vec![TableRequirement::NotExist],
        updates: vec![
            TableUpdate::AssignUuid { uuid: Uuid::from_u128(uuid) },
            TableUpdate::AddSchema { schema: schema() },
            TableUpdate::AddSpec { spec: UnboundPartitionSpec::builder().build() },
        ],
        key: None,
    }
}

async fn loaded(server: &Tested, name: &str) -> Loaded<TableMetadata> {
    server.load_table(&table(name)).await.unwrap()
}

/// Else as many tables as commit would be in memory, however large they are.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_idle_tables_counts_as_metadata_in_memory() {
    let server = with(&World::new().await, &["t"]).await;
    server.commit_table(&table("t"), set("a", None)).await.unwrap();
    let table_queue = server.inner.table_queues.of(&table("t").catalog_name().unwrap());
    let known = table_queue.known().unwrap();
    let large = vec![b' '; server.inner.settings.cache_bytes as usize / 4];
    server.inner.bodies.tables.put(Arc::new(Body {
        location: "elsewhere".to_owned(),
        metadata: known.metadata.clone(),
        json: large.into(),
        written: false,
        registered: None,
    }));
    drop(known);
    assert!(table_queue.known().is_none());
    server.commit_table(&table("t"), set("b", None)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_commit_acknowledges_nothing() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    server.commit_table(&table("t"), set("a", key("k", "first"))).await.unwrap();
    let reused = server.commit_table(&table("t"), set("b", key("k", "second"))).await;
    assert_eq!(kind(reused), Kind::KeyReused);
    assert!(!loaded(&server, "t").await.metadata.properties().contains_key("b"));
}

#[tokio::test(start_paused = true)]
async fn two_deliveries_in_one_batch_are_done_once() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let (t, one) = (table("t"), set("a", key("k", "first")));
    let before = server.counts().versions.load(std::sync::atomic::Ordering::Relaxed);
    // The first one leads and waits for the store, so the others are taken together.
    let answers = futures_util::future::join5(
        server.commit_table(&t, set("z", None)),
        server.commit_table(&t, one.clone()),
        server.commit_table(&t, one.clone()),
        server.commit_table(&t, set("b", key("k", "other"))),
        server.commit_table(&t, one),
    )
    .await;
    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok() && answers.4.is_ok());
    assert_eq!(kind(answers.3), Kind::KeyReused);
    assert_eq!(server.counts().versions.load(std::sync::atomic::Ordering::Relaxed), before + 2);
    let properties = loaded(&server, "t").await.metadata.properties().clone();
    assert!(properties.contains_key("a") && !properties.contains_key("b"));
}

#[tokio::test(start_paused = true)]
async fn a_table_with_another_name_keeps_its_files() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let commit = append(&loaded(&server, "t").await.metadata, 5);
    server.commit_table(&table("t"), commit.clone()).await.unwrap();
    server.rename_table(&table("t"), &table("u"), None).await.unwrap();
    server.commit_table(&table("t"), commit.clone()).await.unwrap();
    // That server remembers what it did. Another one does not.
    let server = world.server().await;
    assert_eq!(kind(server.commit_table(&table("t"), commit.clone()).await), Kind::Unknown, "no table has the name");
    server.create_table(new("t"), None).await.unwrap();
    assert_eq!(kind(server.commit_table(&table("t"), commit.clone()).await), Kind::Unknown, "another table has it");
    let both = vec![(table("t"), commit.clone()), (table("u"), set("a", None))];
    assert_eq!(kind(server.commit_transaction(both, None).await), Kind::Unknown);
    server.drop_table(&table("u"), false, None).await.unwrap();
    assert_eq!(kind(server.commit_table(&table("t"), commit).await), Kind::Conflict, "nobody has its files");
}

#[tokio::test(start_paused = true)]
async fn a_table_that_its_own_commit_created_is_no_conflict() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let made = server.commit_table(&table("t"), creation(7)).await.unwrap();
    let again = server.commit_table(&table("t"), creation(7)).await.unwrap();
    assert_eq!(made.location, again.location);
    assert_eq!(kind(server.commit_table(&table("t"), creation(8)).await), Kind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_commit_to_two_tables_is_done_if_both_show_it() {
    let world = World::new().await;
    let server = with(&world, &["t", "u"]).await;
    let both = [("u", 5), ("t", 6)];
    let mut changes = Vec::new();
    for (name, id) in both {
        changes.push((table(name), append(&loaded(&server, name).await.metadata, id)));
    }
    server.commit_transaction(changes.clone(), None).await.unwrap();
    server.commit_transaction(changes.clone(), None).await.unwrap();
    // Another request with a part of the same.
    for other in [set("p", None), append(&loaded(&server, "u").await.metadata, 7)] {
        let part = vec![changes[1].clone(), (table("u"), other)];
        assert_eq!(kind(server.commit_transaction(part, None).await), Kind::Unknown);
        assert_eq!(loaded(&server, "u").await.metadata.snapshots().count(), 1);
    }
    server.drop_table(&table("u"), false, None).await.unwrap();
    assert_eq!(
        kind(server.commit_transaction(changes.clone(), None).await),
        Kind::Unknown,
        "one does not show it any more"
    );
    // A branch that was set back still has the snapshot in its table.
    let back = TableUpdate::RemoveSnapshotRef { ref_name: "main".to_owned() };
    let commit = TableCommit { requirements: Vec::new(), updates: vec![back], key: None };
    server.commit_table(&table("t"), commit).await.unwrap();
    assert_eq!(kind(server.commit_transaction(changes, None).await), Kind::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_purge_that_fails_holds_up_no_other() {
    let world = World::new().await;
    let server = with(&world, &["t", "u"]).await;
    let bad = loaded(&server, "t").await;
    // Whoever may write the files of a table can name any file in its metadata.
    let mut text: serde_json::Value = serde_json::from_slice(&bad.json).unwrap();
    let log = format!("{}/metadata/../x.json", bad.metadata.location());
    text["metadata-log"] = serde_json::json!([{ "timestamp-ms": 1, "metadata-file": log }]);
    let file = format!("{}/metadata/00007-bad.metadata.json", bad.metadata.location());
    server.inner.files.write(&file, text.to_string().into()).await.unwrap();
    let new = || Registration { identifier: table("b"), metadata_location: file.clone(), overwrite: false };
    assert_eq!(kind(server.register_table(new(), None).await), Kind::Invalid, "they are another table's");
    server.drop_table(&table("t"), false, None).await.unwrap();
    server.register_table(new(), None).await.unwrap();
    let good = loaded(&server, "u").await.location.clone();
    for name in ["b", "u"] {
        server.drop_table(&table(name), true, None).await.unwrap();
    }
    world.pass(10 * 60 * 1000);
    assert_eq!(server.run_purges().await.ended, 2);
    assert!(server.inner.files.read(&good).await.is_err() && server.inner.files.read(&file).await.is_err());
}

/// Without versions a name that moves makes a purge look again.
#[tokio::test(start_paused = true)]
async fn a_table_keeps_its_name_while_a_purge_may_look_for_it() {
    for protocol in [Protocol::Tickets, Protocol::ManifestChain] {
        let world = World::of(protocol).await;
        let server = with(&world, &["t"]).await;
        // A second table in the same folder, as two creations at once can make one.
        let body = loaded(&server, "t").await;
        let entry = crate::placing::table_entry(body.metadata.location(), &body.location);
        let create = glidepath_model::Action::Create { name: table("x").catalog_name().unwrap(), entry };
        server.inner.committer.commit(vec![create]).await.unwrap();
        server.rename_table(&table("x"), &table("y"), None).await.unwrap();
        server.drop_table(&table("t"), true, None).await.unwrap();
        let renamed = server.rename_table(&table("y"), &table("z"), None).await;
        if protocol == Protocol::ManifestChain {
            renamed.unwrap();
            continue;
        }
        assert_eq!(kind(renamed), Kind::Unavailable);
        world.pass(10 * 60 * 1000);
        assert_eq!(server.run_purges().await.ended, 1);
        server.rename_table(&table("y"), &table("z"), None).await.unwrap();
        assert!(server.inner.files.read(&loaded(&server, "z").await.location).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_deletes_no_metadata_elsewhere() {
    for protocol in [Protocol::Tickets, Protocol::ManifestChain] {
        purge_of_what_moved(World::of(protocol).await).await;
    }
}

async fn purge_of_what_moved(world: World) {
    let server = with(&world, &["t", "u"]).await;
    let (first, second) = (loaded(&server, "t").await, loaded(&server, "u").await);
    // A table gets the files of one that was dropped, and its own stay behind.
    server.drop_table(&table("u"), false, None).await.unwrap();
    let over = Registration { identifier: table("t"), metadata_location: second.location.clone(), overwrite: true };
    server.register_table(over, None).await.unwrap();
    server.drop_table(&table("t"), true, None).await.unwrap();
    world.pass(10 * 60 * 1000);
    assert_eq!(server.run_purges().await.ended, 1);
    assert!(server.inner.files.read(&second.location).await.is_err());
    assert!(server.inner.files.read(&first.location).await.is_ok());

    // A table that moved: what is in its first folder, and in the second, may be another's by then.
    server.create_table(new("m"), None).await.unwrap();
    let moved = TableUpdate::SetLocation { location: "s3://b/lake/elsewhere".to_owned() };
    let commit = TableCommit { requirements: Vec::new(), updates: vec![moved], key: None };
    let before = loaded(&server, "m").await;
    let after = server.commit_table(&table("m"), commit).await.unwrap();
    server.drop_table(&table("m"), true, None).await.unwrap();
    world.pass(10 * 60 * 1000);
    assert_eq!(server.run_purges().await.ended, 1);
    assert!(server.inner.files.read(&before.location).await.is_ok());
    assert!(server.inner.files.read(&after.location).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_a_bad_folder_fails_alone() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let t = table("t");
    let outside = HashMap::from([("write.metadata.path".to_owned(), "s3://other/place".to_owned())]);
    let updates = vec![TableUpdate::SetProperties { updates: outside }];
    let bad = TableCommit { requirements: Vec::new(), updates, key: None };
    let answers = futures_util::future::join4(
        server.commit_table(&t, set("a", None)),
        server.commit_table(&t, set("b", None)),
        server.commit_table(&t, bad),
        server.commit_table(&t, set("c", None)),
    )
    .await;
    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.3.is_ok());
    assert_eq!(kind(answers.2), Kind::Invalid);
    assert!(loaded(&server, "t").await.metadata.properties().contains_key("c"));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_there_acknowledges_no_other_change() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let mut commit = append(&loaded(&server, "t").await.metadata, 5);
    server.commit_table(&table("t"), commit.clone()).await.unwrap();
    server.commit_table(&table("t"), commit.clone()).await.unwrap();
    commit.updates.extend(set("p", None).updates);
    assert_eq!(kind(server.commit_table(&table("t"), commit).await), Kind::Unknown);
    assert_eq!(server.counts().waiting.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_change_of_properties_is_answered_as_before() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let space = ["n".to_owned()];
    let change = |updates: &[&str], removals: &[&str]| NamespaceChange {
        updates: updates.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect(),
        removals: removals.iter().map(|key| (*key).to_owned()).collect(),
    };
    server.change_namespace(&space, &change(&["a", "b"], &[]), None).await.unwrap();
    let removing = change(&["c"], &["a", "z"]);
    let first = server.change_namespace(&space, &removing, key("k", "one").as_ref()).await.unwrap();
    assert_eq!((&first.removed, &first.missing), (&vec!["a".to_owned()], &vec!["z".to_owned()]));
    let again = server.change_namespace(&space, &removing, key("k", "one").as_ref()).await.unwrap();
    assert_eq!(again, first);
    server.drop_namespace(&space, None).await.unwrap();
    assert_eq!(server.change_namespace(&space, &removing, key("k", "one").as_ref()).await.unwrap(), first);
}

/// A table whose other parts of a commit are there, and a part that changes nothing.
#[tokio::test(start_paused = true)]
async fn what_a_part_requires_must_hold() {
    let world = World::new().await;
    let server = with(&world, &["t", "u"]).await;
    let done = append(&loaded(&server, "t").await.metadata, 5);
    server.commit_table(&table("t"), done.clone()).await.unwrap();
    let of_u = |snapshot_id| TableCommit {
        requirements: vec![TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id }],
        updates: Vec::new(),
        key: None,
    };
    let both = |part| vec![(table("t"), done.clone()), (table("u"), part)];
    server.commit_transaction(both(of_u(None)), None).await.unwrap();
    assert_eq!(kind(server.commit_transaction(both(of_u(Some(3))), None).await), Kind::Unknown);
}

/// Clients such as Beam create a namespace in one that is not there.
#[tokio::test(start_paused = true)]
async fn namespaces_above_are_made_too() {
    for protocol in Protocol::ALL {
        let world = World::of(*protocol).await;
        let mut server = with(&world, &["t"]).await;
        let named = |parts: &[&str]| Namespace {
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            properties: [("a".to_owned(), "b".to_owned())].into(),
        };
        server.create_namespace(&named(&["a", "b", "c"]), key("k", "r").as_ref()).await.unwrap();
        server.create_namespace(&named(&["a", "b", "c"]), key("k", "r").as_ref()).await.unwrap();
        assert_eq!(kind(server.create_namespace(&named(&["a", "b", "c"]), None).await), Kind::Exists);
        assert_eq!(kind(server.create_namespace(&named(&["a", "b"]), None).await), Kind::Exists);
        let of = async |parts: &[&str]| server.load_namespace(&named(parts).parts).await.unwrap().properties.len();
        assert_eq!((of(&["a"]).await, of(&["a", "b"]).await, of(&["a", "b", "c"]).await), (0, 0, 1));
        // Several at once, and one in what is a table.
        let several = ["d", "e", "f"].map(|last| named(&["x", "y", last]));
        for made in glidepath_env::together(8, several.iter().map(|one| server.create_namespace(one, None))).await {
            made.unwrap();
        }
        assert_eq!(kind(server.create_namespace(&named(&["n", "t", "u"]), None).await), Kind::NoNamespace);
        assert_eq!(kind(server.create_namespace(&named(&["n", "t", "u", "v"]), None).await), Kind::NoNamespace);
        let own_folders = Settings { own_folders: true, ..server.inner.settings.clone() };
        std::sync::Arc::get_mut(&mut server.inner).unwrap().settings = own_folders;
        assert_eq!(kind(server.create_namespace(&named(&["z", "z"]), None).await), Kind::NoNamespace);
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_namespaces_may_be_missing() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    for parts in [
        &[RESERVED, "keys"][..],
        &[RESERVED, "purges"],
        &[RESERVED, "claims"],
        &[RESERVED, "purged"],
        &[RESERVED, "emptied"],
        &[RESERVED, "dropped"],
        &[RESERVED],
    ] {
        let name = glidepath_model::Name::of_parts(parts.iter().copied()).unwrap();
        let drop = glidepath_model::Action::Drop { name, kind: glidepath_model::Kind::Namespace, expected: None };
        server.inner.committer.commit(vec![drop]).await.unwrap();
    }
    let later = |answer: Kind| assert_eq!(answer, Kind::Unavailable);
    later(kind(server.commit_table(&table("t"), set("a", key("k", "commit"))).await));
    later(kind(server.create_table(new("u"), key("l", "create").as_ref()).await));
    later(kind(server.rename_table(&table("t"), &table("v"), key("m", "rename").as_ref()).await));
    later(kind(server.drop_table(&table("t"), true, None).await));
    server.prepare().await.unwrap();
    server.commit_table(&table("t"), set("a", key("k", "commit"))).await.unwrap();
    server.drop_table(&table("t"), true, None).await.unwrap();
}

/// With access rules, the answer about a table that is not there must not depend on tables elsewhere.
#[tokio::test(start_paused = true)]
async fn an_absent_table_tells_nothing_of_others() {
    let world = World::new().await;
    let mut server = with(&world, &["t"]).await;
    let there = loaded(&server, "t").await.metadata.location().to_owned();
    let own_folders = Settings { own_folders: true, ..server.inner.settings.clone() };
    std::sync::Arc::get_mut(&mut server.inner).unwrap().settings = own_folders;
    let asked = |folder: &str| {
        let mut commit = append(&metadata_at(folder), 5);
        commit.requirements.clear();
        let absent = Identifier { namespace: vec!["other".to_owned()], name: "absent".to_owned() };
        (absent, commit)
    };
    let mut answers = Vec::new();
    for folder in [there.as_str(), "s3://b/lake/n/nothing"] {
        let (absent, commit) = asked(folder);
        answers.push(kind(server.commit_table(&absent, commit).await));
    }
    assert_eq!(answers, [Kind::Unknown, Kind::Unknown]);
    let (absent, commit) = asked("s3://b/lake/other/nothing");
    assert_eq!(kind(server.commit_table(&absent, commit).await), Kind::NoTable);
}

/// The metadata of a new table in this folder.
fn metadata_at(folder: &str) -> TableMetadata {
    let creation =
        iceberg::TableCreation::builder().name("t".to_owned()).location(folder.to_owned()).schema(schema()).build();
    iceberg::spec::TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata
}
