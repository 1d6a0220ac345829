//! Requests that nobody would send on purpose: what is answered 200 can be read, and costs no server more than a
//! moment.

use iceberg::spec::{ListType, SqlViewRepresentation, UnboundPartitionSpec, ViewRepresentation, ViewVersion};

use super::*;
use crate::bodies::LARGE;
use crate::commit::decide::committable;

fn nested(levels: usize) -> Schema {
    let innermost = Type::Primitive(PrimitiveType::Long);
    let nested = (0..levels).fold(innermost, |inner, level| {
        let id = i32::try_from(levels - level).unwrap() + 1;
        Type::List(ListType::new(NestedField::list_element(id, inner, true).into()))
    });
    Schema::builder().with_fields([NestedField::required(1, "c", nested).into()]).build().unwrap()
}

pub(super) fn view(schema: Schema, timestamp_ms: i64) -> NewView {
    let sql = SqlViewRepresentation { sql: "select 1".to_owned(), dialect: "spark".to_owned() };
    let version = ViewVersion::builder()
        .with_version_id(1)
        .with_schema_id(0)
        .with_timestamp_ms(timestamp_ms)
        .with_default_namespace(iceberg::NamespaceIdent::new("n".to_owned()))
        .with_representations(serde_json::from_value(serde_json::json!([ViewRepresentation::Sql(sql)])).unwrap())
        .build();
    NewView { identifier: table("v"), location: None, schema, version, properties: HashMap::new() }
}

#[tokio::test(start_paused = true)]
async fn what_was_created_can_be_read_by_another_server() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let mut answers = [(0, 0), (0, 0)];
    for levels in 110..=130 {
        let asked = NewTable { schema: nested(levels), ..new("t") };
        let made = server.create_table(asked, None).await;
        answers[0] = (answers[0].0 + usize::from(made.is_ok()), answers[0].1 + usize::from(made.is_err()));
        if made.is_ok() {
            world.server().await.load_table(&table("t")).await.unwrap();
            server.drop_table(&table("t"), false, None).await.unwrap();
        }
        let made = server.create_view(view(nested(levels), 1), None).await;
        answers[1] = (answers[1].0 + usize::from(made.is_ok()), answers[1].1 + usize::from(made.is_err()));
        if made.is_ok() {
            world.server().await.load_view(&table("v")).await.unwrap();
            server.drop_view(&table("v"), None).await.unwrap();
        }
    }
    assert!(answers.iter().all(|(made, refused)| *made > 0 && *refused > 0), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn times_of_no_calendar_are_refused() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    for time in [-1, i64::MIN, i64::MAX] {
        assert_eq!(kind(server.create_view(view(schema(), time), None).await), Kind::Invalid);
    }
    server.create_view(view(schema(), 1), None).await.unwrap();
    let body = loaded(&server, "t").await;
    server.drop_table(&table("t"), false, None).await.unwrap();
    let new =
        |file: &str| Registration { identifier: table("b"), metadata_location: file.to_owned(), overwrite: false };
    // The library adds a minute to it.
    for time in [-1, i64::MIN, 1 << 62, i64::MAX - 60_000, i64::MAX] {
        let mut text: serde_json::Value = serde_json::from_slice(&body.json).unwrap();
        text["last-updated-ms"] = time.into();
        let file = format!("{}/metadata/00007-{time}.metadata.json", body.metadata.location());
        server.inner.files.write(&file, text.to_string().into()).await.unwrap();
        assert_eq!(kind(server.register_table(new(&file), None).await), Kind::Invalid, "{time}");
    }
    server.register_table(new(&body.location), None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_would_take_minutes_is_refused() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let commit = |update| TableCommit { requirements: Vec::new(), updates: vec![update], key: None };
    let spec = |count: u32| {
        let fields = (0..count).map(|bucket| UnboundPartitionField {
            source_id: 1,
            field_id: None,
            name: format!("f{bucket}"),
            transform: Transform::Bucket(bucket + 1),
        });
        UnboundPartitionSpec::builder().add_partition_fields(fields).unwrap().build()
    };
    let asked = NewTable { partition_spec: Some(spec(1001)), ..new("u") };
    assert_eq!(kind(server.create_table(asked, None).await), Kind::Invalid);
    let added = commit(TableUpdate::AddSpec { spec: spec(1001) });
    assert_eq!(kind(server.commit_table(&table("t"), added).await), Kind::Invalid);
    // Quadratic in the library, if they were given to it.
    let ids = commit(TableUpdate::RemoveSnapshots { snapshot_ids: (0..1_000_000).collect() });
    server.commit_table(&table("t"), ids).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_view_does_not_move_to_where_files_are_deleted() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    server.create_view(view(schema(), 1), None).await.unwrap();
    let location = "s3://b/lake/place".to_owned();
    server.create_table(NewTable { location: Some(location.clone()), ..new("t") }, None).await.unwrap();
    server.drop_table(&table("t"), true, None).await.unwrap();
    let updates = vec![iceberg::ViewUpdate::SetLocation { location }];
    let commit = ViewCommit { uuids: Vec::new(), creates: false, updates };
    assert_eq!(kind(server.commit_view(&table("v"), commit, None).await), Kind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn tables_of_lance_are_not_renamed_as_those_of_iceberg() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let declared = NewLanceTable { identifier: table("l"), location: None, properties: Default::default() };
    server.declare_lance(declared).await.unwrap();
    assert_eq!(kind(server.rename_table(&table("l"), &table("m"), None).await), Kind::NoTable);
    server.describe_lance(&table("l")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_table_whose_default_values_would_be_lost_is_not_changed() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    let body = loaded(&server, "t").await;
    let mut text: serde_json::Value = serde_json::from_slice(&body.json).unwrap();
    text["format-version"] = 3.into();
    text["next-row-id"] = 0.into();
    let column = &mut text["schemas"][0]["fields"][0];
    column["type"] = "timestamptz".into();
    column["initial-default"] = "1969-12-31T23:59:59.5+00:00".into();
    let content: bytes::Bytes = text.to_string().into();
    let file = format!("{}/metadata/00007-other.metadata.json", body.metadata.location());
    server.inner.files.write(&file, content.clone()).await.unwrap();
    // As it is, it can be read, and not changed.
    let wrong = Body::<TableMetadata>::read(&file, content, LARGE).unwrap().unwrap();
    let refused = committable(&Arc::new(wrong)).unwrap_err();
    assert!(refused.message.contains("default value"), "{refused}");
    server.drop_table(&table("t"), false, None).await.unwrap();
    let new = Registration { identifier: table("b"), metadata_location: file, overwrite: false };
    assert_eq!(kind(server.register_table(new, None).await), Kind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_view_keeps_a_number_of_versions_that_others_can_read() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    for (kept, fits) in [("0", false), ("-1", false), ("x", false), ("3", true)] {
        let properties = HashMap::from([("version.history.num-entries".to_owned(), kept.to_owned())]);
        let asked = NewView { properties, ..view(schema(), 1) };
        assert_eq!(server.create_view(asked, None).await.is_ok(), fits, "{kept}");
    }
}

/// Each schema and version is compared with all others.
#[tokio::test(start_paused = true)]
async fn a_commit_to_a_view_has_limits() {
    let world = World::new().await;
    let server = with(&world, &[]).await;
    let created = server.create_view(view(schema(), 1), None).await.unwrap().metadata.uuid();
    let commit = |uuids: Vec<uuid::Uuid>, schemas: usize| {
        let add = || iceberg::ViewUpdate::AddSchema { schema: schema(), last_column_id: None };
        let commit = ViewCommit { uuids, creates: false, updates: (0..schemas).map(|_| add()).collect() };
        let server = server.clone();
        async move { server.commit_view(&table("v"), commit, None).await }
    };
    commit(vec![created; 2], 200).await.unwrap();
    assert_eq!(kind(commit(vec![created], 201).await), Kind::Invalid);
    assert_eq!(kind(commit(vec![created; 6000], 1).await), Kind::Invalid);
    assert_eq!(kind(commit(vec![created, uuid::Uuid::nil(), created], 1).await), Kind::Conflict, "all must hold");
}

/// For views as for tables, and for all schemas of a commit together.
#[tokio::test(start_paused = true)]
async fn a_request_brings_no_more_columns_than_a_server_can_compare() {
    let world = World::new().await;
    let server = with(&world, &["t"]).await;
    server.create_view(view(schema(), 1), None).await.unwrap();
    let wide = |columns: i32| {
        let column = |id| NestedField::optional(id, format!("c{id}"), Type::Primitive(PrimitiveType::Long)).into();
        Schema::builder().with_fields((1..=columns).map(column)).build().unwrap()
    };
    let other = |schema| NewView { identifier: table("w"), ..view(schema, 1) };
    let add = |schema| iceberg::ViewUpdate::AddSchema { schema, last_column_id: None };
    let of_view = |updates| ViewCommit { uuids: Vec::new(), creates: false, updates };
    let add_to_table = TableUpdate::AddSchema { schema: wide(50_001) };
    let of_table = TableCommit { updates: vec![add_to_table], ..set("a", None) };
    for refused in [
        server.create_view(other(wide(50_001)), None).await.map(drop),
        server.commit_view(&table("v"), of_view(vec![add(wide(50_001))]), None).await.map(drop),
        server.commit_view(&table("v"), of_view(vec![add(wide(50_000)), add(schema())]), None).await.map(drop),
        server.create_table(NewTable { schema: wide(50_001), ..new("u") }, None).await.map(drop),
        server.commit_table(&table("t"), of_table).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(error.kind == Kind::Invalid && error.message.contains("50001 columns; at most 50000"), "{error}");
    }
    server.create_view(other(wide(1000)), None).await.unwrap();
}
