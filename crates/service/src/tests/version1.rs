//! Branches and tags of format version 1, which the library for Iceberg neither reads nor writes.

use super::*;

fn tag(name: &str, snapshot: i64) -> TableCommit {
    let retention = SnapshotRetention::Tag { max_ref_age_ms: Some(5000) };
    let reference = SnapshotReference { snapshot_id: snapshot, retention };
    let update = TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference };
    TableCommit { requirements: Vec::new(), updates: vec![update], key: None }
}

async fn version_1(server: &Tested) {
    let properties = HashMap::from([("format-version".to_owned(), "1".to_owned())]);
    server.create_table(NewTable { properties, ..new("t") }, None).await.unwrap();
    let table_now = loaded(server, "t").await;
    server.commit_table(&table("t"), append(&table_now.metadata, 1)).await.unwrap();
}

fn refs(loaded: &Loaded<TableMetadata>) -> serde_json::Value {
    serde_json::from_slice::<serde_json::Value>(&loaded.json).unwrap()["refs"].take()
}

#[tokio::test(start_paused = true)]
async fn tags_survive_the_server_that_wrote_them() {
    let world = World::new().await;
    let first = with(&world, &[]).await;
    version_1(&first).await;
    first.commit_table(&table("t"), tag("keep", 1)).await.unwrap();
    let kept = serde_json::json!({"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5000});
    for property in ["a", "b"] {
        // Each one has nothing in memory.
        let server = world.server().await;
        let before = loaded(&server, "t").await;
        assert_eq!(refs(&before)["keep"], kept);
        assert!(before.metadata.snapshot_for_ref("keep").is_some());
        let now = server.commit_table(&table("t"), set(property, None)).await.unwrap();
        assert_eq!(refs(&now)["keep"], kept);
        assert_eq!(now.metadata.history().len(), 1);
    }
    let server = world.server().await;
    let requirement = TableRequirement::RefSnapshotIdMatch { r#ref: "keep".to_owned(), snapshot_id: Some(1) };
    let removal = TableUpdate::RemoveSnapshotRef { ref_name: "keep".to_owned() };
    let commit = TableCommit { requirements: vec![requirement], updates: vec![removal], key: None };
    server.commit_table(&table("t"), commit).await.unwrap();
    assert!(refs(&loaded(&world.server().await, "t").await).get("keep").is_none());
}

/// What refers to a snapshot that is not there is no reason to forget what refers to others.
#[tokio::test(start_paused = true)]
async fn a_broken_tag_costs_no_other() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    version_1(&server).await;
    let now = server.commit_table(&table("t"), tag("keep", 1)).await.unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&now.json).unwrap();
    json["refs"]["gone"] = serde_json::json!({"snapshot-id": 99, "type": "tag"});
    let file = format!("{}/metadata/other.metadata.json", now.metadata.location());
    server.inner.files.write(&file, json.to_string().into()).await.unwrap();
    server.drop_table(&table("t"), false, None).await.unwrap();
    let new = Registration { identifier: table("t"), metadata_location: file, overwrite: false };
    server.register_table(new, None).await.unwrap();
    let now = server.commit_table(&table("t"), set("a", None)).await.unwrap();
    assert!(refs(&now).get("keep").is_some() && refs(&now).get("gone").is_none(), "{}", refs(&now));
}

/// Java drops a field so, and leaves it its name.
#[tokio::test(start_paused = true)]
async fn an_identity_field_can_be_dropped() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let spec = |transform| {
        let field = UnboundPartitionField { source_id: 1, field_id: Some(1000), name: "id".to_owned(), transform };
        UnboundPartitionSpec::builder().add_partition_fields([field]).unwrap().build()
    };
    let properties = HashMap::from([("format-version".to_owned(), "1".to_owned())]);
    let partitioned = NewTable { properties, partition_spec: Some(spec(Transform::Identity)), ..new("t") };
    server.create_table(partitioned, None).await.unwrap();
    let updates =
        vec![TableUpdate::AddSpec { spec: spec(Transform::Void) }, TableUpdate::SetDefaultSpec { spec_id: -1 }];
    let commit = TableCommit { requirements: Vec::new(), updates, key: None };
    server.commit_table(&table("t"), commit).await.unwrap();
    let server = world.server().await;
    let now = server.commit_table(&table("t"), set("a", None)).await.unwrap();
    let fields = now.metadata.default_partition_spec().fields();
    assert!(fields.len() == 1 && fields[0].field_id == 1000 && fields[0].name == "id_1000", "{fields:?}");
}

/// Sequence numbers mean nothing in version 1, but this table could not be one of version 2.
#[tokio::test(start_paused = true)]
async fn one_bad_commit_does_not_fail_those_that_wait_beside_it() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    version_1(&server).await;
    let now = loaded(&server, "t").await;
    let numbered = |id, number| {
        let snapshot = Snapshot::builder()
            .with_snapshot_id(id)
            .with_sequence_number(number)
            .with_timestamp_ms(4_102_444_800_000)
            .with_manifest_list(format!("{}/metadata/snap-{id}.avro", now.metadata.location()))
            .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
            .with_schema_id(now.metadata.current_schema_id())
            .build();
        TableUpdate::AddSnapshot { snapshot }
    };
    let bad = TableCommit { requirements: Vec::new(), updates: vec![numbered(5, 5), numbered(6, 0)], key: None };
    let at = table("t");
    let answers = glidepath_env::together(
        3,
        [
            server.commit_table(&at, set("a", None)),
            server.commit_table(&at, bad),
            server.commit_table(&at, set("b", None)),
        ],
    )
    .await;
    let outcomes: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true], "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap_err().kind, Kind::Invalid);
    let properties = loaded(&server, "t").await.metadata.properties().clone();
    assert!(properties.contains_key("a") && properties.contains_key("b"));
}

/// What the library cannot build again is read without its tags; then nothing may be committed.
#[tokio::test(start_paused = true)]
async fn no_commit_loses_tags_that_could_not_be_read() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    version_1(&server).await;
    let without = loaded(&server, "t").await;
    let now = server.commit_table(&table("t"), tag("keep", 1)).await.unwrap();
    assert!(crate::commit::decide::committable(&now).is_ok());
    let lost = crate::Body {
        location: now.location.clone(),
        metadata: without.metadata.clone(),
        json: now.json.clone(),
        written: false,
        registered: None,
    };
    let error = crate::commit::decide::committable(&std::sync::Arc::new(lost)).unwrap_err();
    assert_eq!(error.kind, Kind::Broken);
}
