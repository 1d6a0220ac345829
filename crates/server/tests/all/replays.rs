//! Requests that are delivered again, to a server that was started since.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Running, local, schema, start};

/// Two servers over one store, and a namespace `a`.
async fn two() -> (Running, Running) {
    let (folder, config) = local();
    let one = start(folder, config.clone()).await;
    one.create_namespace(&["a"], "").await;
    (one, start(tempfile::tempdir().unwrap(), config).await)
}

async fn deliver(server: &Running, path: &str, key: &str, body: &Value) -> (StatusCode, Value) {
    let request = server.request("POST", path, "").header("idempotency-key", key).json(body);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

/// A request for a table that keeps one old metadata file only.
fn forgetful() -> Value {
    let properties =
        json!({"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"});
    json!({"name": "t", "schema": schema(), "properties": properties})
}

async fn change(server: &Running, times: usize) {
    for turn in 0..times {
        let body = json!({"updates": [{"action": "set-properties", "updates": {"turn": turn.to_string()}}]});
        let (status, answer) = server.ask("POST", "/v1/namespaces/a/tables/t", "", &body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
}

/// The metadata file that the first delivery made is deleted when the second comes.
#[tokio::test]
async fn what_was_done_is_acknowledged_though_its_metadata_file_is_gone() {
    let (one, two) = two().await;
    let path = "/v1/namespaces/a/tables";
    let (status, made) = deliver(&one, path, "key-1", &forgetful()).await;
    assert_eq!(status, StatusCode::OK, "{made}");

    let mut wide = schema();
    wide["fields"].as_array_mut().unwrap().push(json!({"id": 2, "name": "y", "required": false, "type": "long"}));
    // Of a second delivery, this does not hold any more.
    let requirement = json!({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1});
    let added = json!([{"action": "add-schema", "schema": wide}, {"action": "set-current-schema", "schema-id": -1}]);
    let commit = json!({"requirements": [requirement], "updates": added});
    let table = format!("{path}/t");
    let (status, done) = deliver(&one, &table, "key-2", &commit).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    change(&one, 4).await;
    for answer in [&made, &done] {
        let file = answer["metadata-location"].as_str().unwrap().trim_start_matches("file://").to_owned();
        assert!(!std::path::Path::new(&file).exists(), "{file} is still there");
    }

    let (status, again) = deliver(&two, path, "key-1", &forgetful()).await;
    assert_eq!(status, StatusCode::OK, "{again}");
    assert_eq!(again["metadata"]["table-uuid"], made["metadata"]["table-uuid"]);
    let (status, again) = deliver(&two, &table, "key-2", &commit).await;
    assert_eq!(status, StatusCode::OK, "{again}");
    assert_eq!(again["metadata"]["schemas"].as_array().unwrap().len(), 2, "{again}");
    assert_eq!(again["metadata"]["properties"]["turn"], "3");
    // Without its key, it is another request.
    let (status, answer) = two.ask("POST", &table, "", &commit).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
}
