//! Whatever a client sends, the server neither fails nor ends.

use crate::support::{Running, local, schema, secured, start, view_version};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// How many requests are sent.
const REQUESTS: usize = 1500;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,6}|\\PC{0,12}|\\.\\./\\.\\.|file:///etc/passwd".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z-]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Bodies that would be accepted, or nearly.
fn templates() -> Vec<Value> {
    let name = |name: &str| json!({"namespace": ["a"], "name": name});
    let snapshot = json!({
        "snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": "file:///x", "schema-id": 0,
        "summary": {"operation": "append"},
    });
    let updates = json!([
        {"action": "set-location", "location": "file:///x"},
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
        {"action": "set-properties", "updates": {"x": "y"}},
        {"action": "add-schema", "schema": schema(), "last-column-id": 1},
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": []}},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": []}},
    ]);
    let requirements = json!([
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": null},
        {"type": "assert-create"},
    ]);
    let mut all = vec![
        json!({"namespace": ["a", "b"], "properties": {"location": "file:///x"}}),
        json!({"updates": {"x": "y"}, "removals": ["z"]}),
        json!({"name": "t", "schema": schema(), "location": "file:///x", "partition-spec": {"spec-id": 0, "fields": [
            {"name": "p", "source-id": 1, "field-id": 1000, "transform": "bucket[4]"}
        ]}}),
        json!({"name": "v", "schema": schema(), "view-version": view_version(), "properties": {}}),
        json!({"source": name("t"), "destination": name("u")}),
        json!({"name": "r", "metadata-location": "file:///etc/passwd"}),
        json!({"report-type": "scan-report"}),
        json!({"requirements": requirements, "updates": updates}),
        json!({"table-changes": [{"identifier": name("t"), "requirements": requirements, "updates": updates}]}),
        json!({"id": ["a"], "location": "file:///x", "properties": {}, "mode": "Create", "new_table_name": "n"}),
        json!({"id": ["a", "t"], "version": 1, "manifest_path": "../x", "naming_scheme": "V2"}),
    ];
    // One update at a time: of several, the first that is wrong hides the others.
    all.extend(updates.as_array().unwrap().iter().map(|one| json!({"requirements": [], "updates": [one]})));
    all
}

/// Replaces one of the values in a value, found by `at`.
fn replace(value: &mut Value, at: &[prop::sample::Index], with: Value) {
    let next = match (at.split_first(), &mut *value) {
        (Some((index, rest)), Value::Object(map)) if !map.is_empty() => {
            let index = index.index(map.len());
            map.values_mut().nth(index).map(|inner| (inner, rest))
        }
        (Some((index, rest)), Value::Array(list)) if !list.is_empty() => {
            let index = index.index(list.len());
            list.get_mut(index).map(|inner| (inner, rest))
        }
        _ => None,
    };
    match next {
        Some((inner, rest)) => replace(inner, rest, with),
        None => *value = with,
    }
}

fn body() -> impl Strategy<Value = String> {
    let at = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    let mutated = (prop::sample::select(templates()), at, any_json()).prop_map(|(mut value, at, with)| {
        replace(&mut value, &at, with);
        value.to_string()
    });
    prop_oneof![
        6 => mutated,
        2 => prop::sample::select(templates()).prop_map(|value| value.to_string()),
        1 => any_json().prop_map(|value| value.to_string()),
        1 => "\\PC{0,40}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let part = "a|t|v|b|%2E%2E|%1F|a%1Fb|%00|%FF|\\.\\.|[a-z$%]{1,5}";
    let ends = prop::sample::select(vec![
        "/v1/config",
        "/v1/namespaces",
        "/v1/namespaces/{}",
        "/v1/namespaces/{}/properties",
        "/v1/namespaces/{}/tables",
        "/v1/namespaces/{}/tables/{}",
        "/v1/namespaces/{}/tables/{}/metrics",
        "/v1/namespaces/{}/tables/{}/credentials",
        "/v1/namespaces/{}/register",
        "/v1/tables/rename",
        "/v1/transactions/commit",
        "/v1/namespaces/{}/views",
        "/v1/namespaces/{}/views/{}",
        "/v1/namespaces/{}/register-view",
        "/v1/views/rename",
        "/v1/namespace/{}/create",
        "/v1/namespace/{}/list",
        "/v1/namespace/{}/describe",
        "/v1/table/{}/declare",
        "/v1/table/{}/describe",
        "/v1/table/{}/register",
        "/v1/table/{}/rename",
        "/v1/table/{}/version/create",
        "/v1/table/{}/version/list",
        "/v1/{}/{}/{}",
        "/{}",
    ]);
    let query = "(\\?(pageSize|pageToken|parent|snapshots|purgeRequested|delimiter|limit)=[a-z0-9%$-]{0,4})?";
    (ends, prop::collection::vec(part, 3), query).prop_map(|(end, parts, query)| {
        parts.iter().fold(end.to_owned(), |path, part| path.replacen("{}", part, 1)) + &query
    })
}

async fn survives(server: &Running, user: &str) {
    let mut runner = TestRunner::deterministic();
    let methods = prop::sample::select(vec!["GET", "HEAD", "POST", "DELETE", "PUT", "POST", "POST"]);
    let requests = (methods, path(), body());
    for _ in 0..REQUESTS {
        let (method, path, body) = requests.new_tree(&mut runner).unwrap().current();
        let request = server.request(method, &path, user).header("content-type", "application/json");
        // Some paths are none: the client itself refuses them.
        let Ok(answer) = request.body(body.clone()).send().await else { continue };
        let status = answer.status().as_u16();
        let told = answer.text().await.unwrap();
        assert!(status < 500, "{method} {path} {body}: {status} {told}");
    }
    let (status, _) = server.ask("GET", "/v1/namespaces", user, &Value::Null).await;
    assert_eq!(status, 200, "the server is still there");
}

#[tokio::test]
async fn no_request_breaks_a_server() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["a"], "").await;
    server.create_table("a", "t", "").await;
    survives(&server, "").await;
}

#[tokio::test]
async fn no_request_breaks_a_server_with_access_rules() {
    let server = secured().await;
    server.create_namespace(&["a"], "root").await;
    server.create_table("a", "t", "root").await;
    survives(&server, "writer").await;
}
