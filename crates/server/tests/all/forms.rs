//! Bodies that clients write in a form that only looks right.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Running, local, schema, secured, start, view_version};

async fn post(server: &Running, path: &str, user: &str, body: &Value) -> (StatusCode, String) {
    let (status, answer) = server.ask("POST", path, user, body).await;
    let words = answer["error"]["message"].as_str().or_else(|| answer["error"].as_str()).unwrap_or_default();
    (status, words.to_owned())
}

/// An array whose values have the order of an object's fields is no such object.
#[tokio::test]
async fn an_array_is_no_object() {
    let (folder, config) = local();
    let open = start(folder, config).await;
    let checked = secured().await;
    for (server, user) in [(&open, ""), (&checked, "root")] {
        server.create_namespace(&["n"], user).await;
        server.create_table("n", "t", user).await;
        let set = json!({"action": "set-properties", "updates": {"a": "1"}});
        let (t, u) = (json!({"namespace": ["n"], "name": "t"}), json!({"namespace": ["n"], "name": "u"}));
        for (path, body) in [
            ("/v1/namespaces", json!([["m"], {}])),
            ("/v1/namespaces/n/properties", json!([{"a": "1"}, []])),
            ("/v1/namespaces/n/tables", json!(["u", null, schema(), null, null, false, {}])),
            ("/v1/namespaces/n/tables", json!({"name": "u", "schema": ["struct", 0, []]})),
            ("/v1/namespaces/n/views", json!({"name": "v", "schema": schema(), "view-version": [1]})),
            ("/v1/namespaces/n/views", json!(["v", null, schema(), view_version(), {}])),
            ("/v1/namespaces/n/tables/t", json!([null, [], [set]])),
            ("/v1/namespaces/n/tables/t", json!({"updates": [["set-properties", {"a": "1"}]]})),
            ("/v1/namespaces/n/tables/t", json!({"requirements": [["assert-create"]], "updates": []})),
            ("/v1/namespaces/n/tables/t", json!({"identifier": [["n"], "t"], "updates": [set]})),
            ("/v1/transactions/commit", json!([[{"identifier": t, "updates": [set]}]])),
            ("/v1/transactions/commit", json!({"table-changes": [[t, [], [set]]]})),
            ("/v1/tables/rename", json!([t, u])),
            ("/v1/tables/rename", json!({"source": [["n"], "t"], "destination": u})),
            ("/v1/namespaces/n/register", json!(["u", "file:///x"])),
            ("/v1/namespaces/n/tables/t/metrics", json!(["report-type"])),
            ("/v1/namespace/m/create", json!([null, {}])),
            ("/v1/table/n$l/declare", json!([])),
            ("/v1/table/n$l/version/delete", json!({"ranges": [[0, 1]]})),
        ] {
            let (status, words) = post(server, path, user, &body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {words}");
            assert!(words.contains("found an array where an object is expected"), "{path} {body}: {words}");
        }
        let (status, words) = post(server, "/v1/namespaces", user, &json!("m")).await;
        assert!(status == 400 && words.contains("expected an object"), "{status} {words}");
        let (_, table) = server.ask("GET", "/v1/namespaces/n/tables/t", user, &Value::Null).await;
        assert!(table["metadata"]["properties"]["a"].is_null(), "{table}");
    }
}

/// RFC 9110: several lines of a header are one list, and `*` is any tag.
#[tokio::test]
async fn not_modified_is_told_for_each_form_of_the_question() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    server.create_namespace(&["n"], "").await;
    server.create_table("n", "t", "").await;
    let path = "/v1/namespaces/n/tables/t";
    let loaded = server.request("GET", path, "").send().await.unwrap();
    let tag = loaded.headers()["etag"].to_str().unwrap().to_owned();
    for (lines, known) in [
        (vec![tag.clone()], true),
        (vec!["*".to_owned()], true),
        (vec!["\"other\"".to_owned(), tag.clone()], true),
        (vec![format!("\"other\", W/{tag}")], true),
        (vec!["\"*\"".to_owned(), "\"other\"".to_owned()], false),
    ] {
        let request =
            lines.iter().fold(server.request("GET", path, ""), |request, line| request.header("if-none-match", line));
        let status = request.send().await.unwrap().status();
        assert_eq!(status == StatusCode::NOT_MODIFIED, known, "{lines:?}: {status}");
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_by_the_protocol_of_its_route() {
    let (folder, config) = local();
    let open = start(folder, config).await;
    let checked = secured().await;
    for (server, user) in [(&open, ""), (&checked, "root")] {
        for (method, path, words) in [
            ("GET", "/v1/table/n$l/describe", "all others POST"),
            ("POST", "/v1/namespace/n/list", "listings of namespaces and tables are GET"),
            ("PUT", "/v1/namespaces", "GET /v1/config lists what there is"),
        ] {
            let (status, answer) = server.ask(method, path, user, &Value::Null).await;
            let told = answer.to_string();
            assert!(status == StatusCode::METHOD_NOT_ALLOWED && told.contains(words), "{method} {path}: {told}");
            assert!(!told.contains("{id}"), "{method} {path}: {told}");
        }
    }
}
