//! What format version 3 has and the library for Iceberg does not: types of columns. And partitionings that it refuses.

use glidepath_server::Config;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Running, local, start, view_version};

fn schema(id: u64, types: &[&str]) -> Value {
    let column = |(at, name): (usize, &&str)| {
        let element = json!({"type": "list", "element-id": at + 101, "element-required": false, "element": name});
        let of = if at % 2 == 0 { json!(name) } else { element };
        json!({"id": at + 1, "name": format!("c{at}"), "required": false, "type": of})
    };
    let columns: Vec<_> = types.iter().enumerate().map(column).collect();
    json!({"type": "struct", "schema-id": id, "fields": columns})
}

/// Types of the columns, those of lists too.
fn types(metadata: &Value) -> Vec<String> {
    let of = |schema: &Value| schema["schema-id"] == metadata["current-schema-id"];
    let current = metadata["schemas"].as_array().unwrap().iter().find(|schema| of(schema)).unwrap();
    let name = |column: &Value| column["type"].as_str().or(column["type"]["element"].as_str()).unwrap().to_owned();
    current["fields"].as_array().unwrap().iter().map(name).collect()
}

const TYPES: [&str; 5] = ["variant", "geometry(srid:3857)", "unknown", "variant", "geography(OGC:CRS84, karney)"];

async fn created(server: &Running, name: &str, version: &str, schema: Value) -> (StatusCode, Value) {
    let body = json!({"name": name, "schema": schema, "properties": {"format-version": version}});
    server.ask("POST", "/v1/namespaces/n/tables", "", &body).await
}

#[tokio::test]
async fn types_of_version_3_are_kept_and_told() {
    let (folder, config) = local();
    let server = start(folder, config.clone()).await;
    server.create_namespace(&["n"], "").await;
    let (status, answer) = created(&server, "t", "3", schema(0, &TYPES)).await;
    assert_eq!((status, types(&answer["metadata"])), (StatusCode::OK, TYPES.map(str::to_owned).to_vec()), "{answer}");
    let (status, answer) = created(&server, "old", "2", schema(0, &TYPES)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"]["message"].as_str().unwrap().contains("has the type variant, which needs"), "{answer}");
    let more = [&TYPES[..], &["string", "geometry"]].concat();
    let updates = json!([
        {"action": "add-schema", "schema": schema(1, &more)}, {"action": "set-current-schema", "schema-id": -1},
    ]);
    let commit =
        json!({"requirements": [{"type": "assert-current-schema-id", "current-schema-id": 0}], "updates": updates});
    let (status, answer) = server.ask("POST", "/v1/namespaces/n/tables/t", "", &commit).await;
    assert_eq!(
        (status, types(&answer["metadata"])),
        (StatusCode::OK, more.iter().map(|name| (*name).to_owned()).collect())
    );
    // Another server knows only the file.
    let second = start(tempfile::tempdir().unwrap(), Config { ..config }).await;
    let set = json!({"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]});
    let (status, answer) = second.ask("POST", "/v1/namespaces/n/tables/t", "", &set).await;
    assert_eq!((status, types(&answer["metadata"]).len()), (StatusCode::OK, more.len()), "{answer}");
    let (_, answer) = server.ask("GET", "/v1/namespaces/n/tables/t?snapshots=refs", "", &Value::Null).await;
    assert_eq!(
        (&answer["metadata"]["properties"]["a"], types(&answer["metadata"])[6].as_str()),
        (&json!("b"), "geometry")
    );
    let page = server.request("GET", "/namespaces/n/tables/t", "").send().await.unwrap().text().await.unwrap();
    assert!(page.contains("<code>variant</code>") && !page.contains("fixed"), "{page}");
    let partitioned = json!([{"action": "add-spec", "spec": {"fields": [
        {"name": "p", "transform": "identity", "source-id": 1, "field-id": 1000}]}}]);
    let (status, answer) =
        server.ask("POST", "/v1/namespaces/n/tables/t", "", &json!({"requirements": [], "updates": partitioned})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"]["message"].as_str().unwrap().contains("none of the type variant"), "{answer}");
    let view = json!({"name": "v", "schema": schema(0, &TYPES), "properties": {}, "view-version": view_version()});
    let (status, answer) = server.ask("POST", "/v1/namespaces/n/views", "", &view).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(types(&json!({"schemas": answer["metadata"]["schemas"], "current-schema-id": 0})), TYPES);
}

#[tokio::test]
async fn days_may_be_beside_months() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    created(&server, "t", "2", schema(0, &["timestamptz"])).await;
    for (names, number) in
        [(&["month"][..], 1), (&["month", "day"], 2), (&["month", "day", "hour"], 3), (&["month"], 1)]
    {
        let field = |(at, name): (usize, &&str)| json!({"name": format!("c0_{name}"), "transform": name, "source-id": 1, "field-id": 1000 + at});
        let fields: Vec<_> = names.iter().enumerate().map(field).collect();
        let updates =
            json!([{"action": "add-spec", "spec": {"fields": fields}}, {"action": "set-default-spec", "spec-id": -1}]);
        let commit = json!({"requirements": [], "updates": updates});
        let (status, answer) = server.ask("POST", "/v1/namespaces/n/tables/t", "", &commit).await;
        let metadata = &answer["metadata"];
        assert_eq!((status, &metadata["default-spec-id"]), (StatusCode::OK, &json!(number)), "{answer}");
        assert_eq!(metadata["partition-specs"][number]["fields"], json!(fields));
    }
    let page = server.request("GET", "/namespaces/n/tables/t", "").send().await.unwrap().text().await.unwrap();
    assert!(page.contains("month(c0)") && !page.contains("bucket"), "{page}");
}

/// A staged table is told before it is made.
#[tokio::test]
async fn staged_tables_have_their_types() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    let fields = json!([
        {"name": "m", "transform": "month", "source-id": 6, "field-id": 1000},
        {"name": "d", "transform": "day", "source-id": 6, "field-id": 1001},
    ]);
    let mut columns = schema(0, &TYPES);
    let at = json!({"id": 6, "name": "at", "required": false, "type": "timestamp"});
    columns["fields"].as_array_mut().unwrap().push(at);
    let body = json!({"name": "t", "schema": columns, "stage-create": true, "partition-spec": {"fields": fields},
        "properties": {"format-version": "3"}});
    let (status, answer) = server.ask("POST", "/v1/namespaces/n/tables", "", &body).await;
    assert_eq!((status, &types(&answer["metadata"])[..5]), (StatusCode::OK, &TYPES.map(str::to_owned)[..]), "{answer}");
    assert_eq!(answer["metadata"]["partition-specs"][0]["fields"][1]["transform"], "day");
}

/// What Java cannot read, by the result of all updates of a commit.
#[tokio::test]
async fn what_no_client_can_read_is_refused() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    for of in ["fixed[9007199000000]", "fixed[3000000000]", "9007199000001", "geometry()"] {
        assert_eq!(created(&server, "x", "3", schema(0, &[of])).await.0, StatusCode::BAD_REQUEST, "{of}");
    }
    let hours = json!({"fields": [
        {"name": "m", "transform": "month", "source-id": 1}, {"name": "h", "transform": "hour", "source-id": 1}]});
    let dated = json!({"name": "x", "schema": schema(0, &["date"]), "partition-spec": hours});
    assert_eq!(server.ask("POST", "/v1/namespaces/n/tables", "", &dated).await.0, StatusCode::BAD_REQUEST);
    created(&server, "t", "3", schema(0, &["variant"])).await;
    let add = |schema: Value| json!({"action": "add-schema", "schema": schema});
    let current = |id: i64| json!({"action": "set-current-schema", "schema-id": id});
    let spec = |transform: &str| json!({"action": "add-spec", "spec": {"fields": [{"name": "p", "transform": transform, "source-id": 1}]}});
    let order = json!({"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [
        {"transform": "bucket[4]", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]}});
    let default = json!({"action": "set-default-spec", "spec-id": -1});
    let commit = async |updates: Value| {
        let body = json!({"requirements": [], "updates": updates});
        server.ask("POST", "/v1/namespaces/n/tables/t", "", &body).await.0
    };
    let long = schema(1, &["long"]);
    assert_eq!(commit(json!([add(long.clone()), spec("identity")])).await, StatusCode::BAD_REQUEST);
    assert_eq!(commit(json!([add(long.clone()), order])).await, StatusCode::BAD_REQUEST);
    assert_eq!(commit(json!([add(long), current(-1)])).await, StatusCode::OK);
    assert_eq!(commit(json!([spec("identity"), default, current(0)])).await, StatusCode::BAD_REQUEST);
    assert_eq!(commit(json!([spec("identity"), default])).await, StatusCode::OK);
    assert_eq!(commit(json!([current(0)])).await, StatusCode::BAD_REQUEST);
}

/// One request cannot use up the types that a server tells apart.
#[tokio::test]
async fn a_request_has_a_few_new_types_at_most() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    let many: Vec<String> = (0..70).map(|number| format!("geometry(many:{number})")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(created(&server, "x", "3", schema(0, &many)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(created(&server, "x", "3", schema(0, &many[66..])).await.0, StatusCode::OK);
}
