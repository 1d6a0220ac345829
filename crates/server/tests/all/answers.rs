//! What is answered to requests that clients write in their own ways.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Running, local, schema, secured, start, view_version};

async fn post(server: &Running, path: &str, user: &str, body: &Value) -> (StatusCode, String, String) {
    let (status, answer) = server.ask("POST", path, user, body).await;
    let told = |what: &str| answer["error"][what].as_str().unwrap_or_default().to_owned();
    (status, told("type"), told("message"))
}

/// Clients in Go write an empty list or map as null.
#[tokio::test]
async fn null_counts_as_missing() {
    let (folder, config) = local();
    let open = start(folder, config).await;
    let checked = secured().await;
    for (server, user) in [(&open, ""), (&checked, "root")] {
        let ok = async |path: &str, body: Value| {
            let (status, _, words) = post(server, path, user, &body).await;
            assert!(status.is_success(), "{path} {body}: {status} {words}");
        };
        ok("/v1/namespaces", json!({"namespace": ["n"], "properties": null})).await;
        ok("/v1/namespaces/n/properties", json!({"updates": {"a": "1"}, "removals": null})).await;
        ok("/v1/namespaces/n/properties", json!({"updates": null, "removals": ["a"]})).await;
        let table = json!({
            "name": "t", "schema": schema(), "location": null, "partition-spec": null, "write-order": null,
            "stage-create": null, "properties": null,
        });
        ok("/v1/namespaces/n/tables", table).await;
        let set = json!([{"action": "set-properties", "updates": {"a": "1"}}]);
        ok("/v1/namespaces/n/tables/t", json!({"requirements": null, "updates": set})).await;
        ok("/v1/namespaces/n/tables/t", json!({"requirements": [], "updates": null})).await;
        let of_table = json!({"namespace": ["n"], "name": "t"});
        let change = json!({"identifier": of_table, "requirements": null, "updates": set});
        ok("/v1/transactions/commit", json!({"table-changes": [change]})).await;
        let view = json!({
            "name": "v", "schema": schema(), "location": null, "properties": null, "view-version": view_version(),
        });
        ok("/v1/namespaces/n/views", view).await;
        ok("/v1/namespaces/n/views/v", json!({"requirements": null, "updates": set})).await;
    }
}

/// As those of tables.
#[tokio::test]
async fn columns_that_no_table_can_have_are_refused_in_views() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    let of = |digits: u32| {
        json!({"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "price", "required": false, "type": format!("decimal({digits}, 2)")},
        ]})
    };
    let create =
        |digits: u32| json!({"name": "v", "schema": of(digits), "properties": {}, "view-version": view_version()});
    let (status, _, words) = post(&server, "/v1/namespaces/n/views", "", &create(39)).await;
    assert!(status == 400 && words.contains("1 to 38 digits"), "{status} {words}");
    let (status, _, words) = post(&server, "/v1/namespaces/n/views", "", &create(38)).await;
    assert!(status.is_success(), "{status} {words}");
    let replaced = json!({"requirements": [], "updates": [{"action": "add-schema", "schema": of(39)}]});
    let (status, _, words) = post(&server, "/v1/namespaces/n/views/v", "", &replaced).await;
    assert!(status == 400 && words.contains("1 to 38 digits"), "{status} {words}");
}

/// A client that sends no token does not know pages, and would take a page for everything.
#[tokio::test]
async fn pages_are_for_those_who_ask_for_the_first_one() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    for name in ["a", "b", "c"] {
        server.create_table("n", name, "").await;
    }
    for (query, found, last) in [
        ("", 3, true),
        ("?pageSize=1", 3, true),
        ("?pageSize=2&pageToken=", 2, false),
        ("?pageSize=2&pageToken=b", 1, true),
        ("?pageToken=b", 1, true),
    ] {
        let (status, answer) = server.ask("GET", &format!("/v1/namespaces/n/tables{query}"), "", &Value::Null).await;
        let names = answer["identifiers"].as_array().map_or(0, Vec::len);
        assert!(status.is_success() && names == found, "{query}: {status} {answer}");
        assert_eq!(answer["next-page-token"].is_null(), last, "{query}: {answer}");
    }
}

/// Java clients up to Iceberg 1.10 write a space in a path as `+`, and `+` as `%2B`. For others, `+` is itself.
#[tokio::test]
async fn a_plus_in_a_path_of_a_java_client_is_a_space() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    for name in ["a b", "a+b"] {
        server.create_table("n", name, "").await;
    }
    let id = async |path: &str, version: &str| {
        let url = format!("{}/v1/namespaces/n/tables/{path}", server.base);
        let answer = server.client.get(url).header("x-client-version", version).send().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        answer["metadata"]["table-uuid"].as_str().unwrap_or_else(|| panic!("{path}: {answer}")).to_owned()
    };
    let java = "Apache Iceberg 1.5.2 (commit cbb853073e681b4075d7c8707610dceecbee3a82)";
    assert_eq!(id("a+b?snapshots=all", java).await, id("a%20b", java).await);
    assert_eq!(id("a+b", "PyIceberg 0.9.1").await, id("a%2Bb", java).await);
    assert_ne!(id("a+b", java).await, id("a%2Bb", java).await);
}

/// Trino puts tables there, and takes a namespace without one for one that has no place.
#[tokio::test]
async fn a_namespace_says_where_its_tables_are() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    let created = server.ask("POST", "/v1/namespaces", "", &json!({"namespace": ["n"]})).await;
    let loaded = server.ask("GET", "/v1/namespaces/n", "", &Value::Null).await;
    server.create_table("n", "t", "").await;
    let (_, table) = server.ask("GET", "/v1/namespaces/n/tables/t", "", &Value::Null).await;
    for (status, answer) in [created, loaded] {
        let folder = answer["properties"]["location"].as_str().unwrap_or_default().to_owned();
        let location = table["metadata"]["location"].as_str().unwrap_or_default();
        assert!(status.is_success() && location.starts_with(&format!("{folder}/")), "{answer} {location}");
    }
}

/// It is in memory, but who loads the table is to know.
#[tokio::test]
async fn a_file_that_was_removed_from_a_folder_is_noticed() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    server.create_table("n", "t", "").await;
    let view = json!({"name": "v", "schema": schema(), "properties": {}, "view-version": view_version()});
    server.ask("POST", "/v1/namespaces/n/views", "", &view).await;
    for path in ["/v1/namespaces/n/tables/t", "/v1/namespaces/n/views/v"] {
        let (status, loaded) = server.ask("GET", path, "", &Value::Null).await;
        assert!(status.is_success(), "{path}: {status} {loaded}");
        let location = loaded["metadata-location"].as_str().unwrap();
        let file = std::path::Path::new(location.strip_prefix("file://").unwrap());
        let away = file.with_extension("away");
        std::fs::rename(file, &away).unwrap();
        let (status, answer) = server.ask("GET", path, "", &Value::Null).await;
        let error = &answer["error"];
        assert!(status == 404 && error["type"] == "NotFoundException", "{path}: {status} {answer}");
        assert!(error["message"].as_str().unwrap().contains(location), "{path}: {answer}");
        std::fs::rename(&away, file).unwrap();
        let (status, again) = server.ask("GET", path, "", &Value::Null).await;
        assert!(status.is_success() && again["metadata-location"] == location, "{path}: {status} {again}");
    }
}

/// A format version 1 file may have branches and tags.
#[tokio::test]
async fn tags_of_version_1_are_in_the_file() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    let table = json!({"name": "t", "schema": schema(), "properties": {"format-version": "1"}});
    server.ask("POST", "/v1/namespaces/n/tables", "", &table).await;
    let commit = async |updates: Value| {
        let (status, answer) =
            server.ask("POST", "/v1/namespaces/n/tables/t", "", &json!({"requirements": [], "updates": updates})).await;
        assert!(status.is_success(), "{status} {answer}");
        answer
    };
    let snapshot = json!({
        "snapshot-id": 1, "timestamp-ms": 4_102_444_800_000_i64, "summary": {"operation": "append"}, "schema-id": 0,
        "manifest-list": "file:///nowhere/list.avro",
    });
    commit(json!([
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
        {"action": "set-snapshot-ref", "ref-name": "keep", "type": "tag", "snapshot-id": 1},
    ]))
    .await;
    let answer = commit(json!([{"action": "set-properties", "updates": {"a": "1"}}])).await;
    assert_eq!(answer["metadata"]["refs"]["keep"], json!({"snapshot-id": 1, "type": "tag"}), "{answer}");
    let file = answer["metadata-location"].as_str().unwrap_or_default().trim_start_matches("file://");
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(written["refs"]["keep"]["snapshot-id"], 1, "{written}");
    let again = json!({"name": "u", "metadata-location": answer["metadata-location"]});
    let (_, dropped) = server.ask("DELETE", "/v1/namespaces/n/tables/t", "", &Value::Null).await;
    let (status, registered) = server.ask("POST", "/v1/namespaces/n/register", "", &again).await;
    assert!(status.is_success() && registered["metadata"]["refs"]["keep"].is_object(), "{dropped} {registered}");
}

/// Files of other writers may have no refs, though they have a current snapshot.
#[tokio::test]
async fn the_current_snapshot_is_among_those_that_are_referred_to() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    server.create_table("n", "t", "").await;
    let snapshot = json!({
        "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 4_102_444_800_000_i64, "schema-id": 0,
        "summary": {"operation": "append"}, "manifest-list": "file:///nowhere/list.avro",
    });
    let updates = json!([
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]);
    let body = json!({"requirements": [], "updates": updates});
    let (_, answer) = server.ask("POST", "/v1/namespaces/n/tables/t", "", &body).await;
    let file = answer["metadata-location"].as_str().unwrap_or_default();
    let path = file.trim_start_matches("file://");
    let mut metadata: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    metadata.as_object_mut().unwrap().remove("refs");
    let other = file.replace(".metadata.json", "-other.metadata.json");
    std::fs::write(other.trim_start_matches("file://"), metadata.to_string()).unwrap();
    server.ask("DELETE", "/v1/namespaces/n/tables/t", "", &Value::Null).await;
    server.ask("POST", "/v1/namespaces/n/register", "", &json!({"name": "u", "metadata-location": other})).await;
    let (status, loaded) = server.ask("GET", "/v1/namespaces/n/tables/u?snapshots=refs", "", &Value::Null).await;
    assert_eq!(loaded["metadata"]["snapshots"][0]["snapshot-id"], 7, "{status} {loaded}");
}

#[tokio::test]
async fn a_table_keeps_its_uuid() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    server.create_table("n", "t", "").await;
    let assign = json!([{"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}]);
    let body = json!({"requirements": [], "updates": assign});
    let (status, answer) = server.ask("POST", "/v1/namespaces/n/tables/t", "", &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
}

#[tokio::test]
async fn a_name_that_something_else_has_is_said_to_be_taken_by_that() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    for namespace in [&["a"][..], &["a", "space"]] {
        server.create_namespace(namespace, "").await;
    }
    server.create_table("a", "table", "").await;
    let table = json!({"name": "space", "schema": schema()});
    let view = json!({"name": "space", "schema": schema(), "properties": {}, "view-version": view_version()});
    let first = json!({
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": schema()},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    });
    let renamed = json!({
        "source": {"namespace": ["a"], "name": "table"}, "destination": {"namespace": ["a"], "name": "space"},
    });
    for (path, body, kind) in [
        ("/v1/namespaces/a/tables", table, "Namespace"),
        ("/v1/namespaces/a/views", view, "Namespace"),
        ("/v1/namespaces/a/tables/space", first, "Namespace"),
        ("/v1/tables/rename", renamed, "Namespace"),
        ("/v1/namespaces", json!({"namespace": ["a", "table"]}), "Table"),
    ] {
        let (status, name, words) = post(&server, path, "", &body).await;
        assert_eq!((status, &*name), (StatusCode::CONFLICT, "AlreadyExistsException"), "{path}: {words}");
        assert!(words.starts_with(&format!("{kind} with same name already exists: a.")), "{path}: {words}");
    }
    let file = json!({"name": "t", "metadata-location": "file:///elsewhere/t.metadata.json"});
    for (path, to) in [("/v1/namespaces/none/register", "register"), ("/v1/namespaces/none/register-view", "view")] {
        let (status, name, words) = post(&server, path, "", &file).await;
        assert_eq!((status, &*name), (StatusCode::NOT_FOUND, "NoSuchNamespaceException"), "{to}: {words}");
    }
}
