//! Nobody does what no grant allows.

use crate::support::{Running, schema, secured, token, view_version};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// All routes, with bodies that would be accepted, about the namespace `b` and the table `b.t`.
fn routes() -> Vec<(&'static str, &'static str, Value)> {
    let rename = |from: &str, to: &str| json!({"source": {"namespace": [from], "name": "t"}, "destination": {"namespace": [to], "name": "u"}});
    let change = json!({"identifier": {"namespace": ["b"], "name": "t"}, "requirements": [], "updates": []});
    let table = "/v1/namespaces/b/tables/t";
    vec![
        ("POST", "/v1/namespaces", json!({"namespace": ["b", "c"]})),
        ("GET", "/v1/namespaces?parent=b", Value::Null),
        ("GET", "/v1/namespaces/b", Value::Null),
        ("HEAD", "/v1/namespaces/b", Value::Null),
        ("DELETE", "/v1/namespaces/b", Value::Null),
        ("POST", "/v1/namespaces/b/properties", json!({"updates": {"x": "y"}})),
        ("GET", "/v1/namespaces/b/tables", Value::Null),
        ("POST", "/v1/namespaces/b/tables", json!({"name": "n", "schema": schema()})),
        ("GET", table, Value::Null),
        ("HEAD", table, Value::Null),
        ("POST", table, json!({"requirements": [], "updates": []})),
        ("DELETE", table, Value::Null),
        ("POST", "/v1/namespaces/b/tables/t/metrics", json!({"report-type": "scan-report"})),
        ("GET", "/v1/namespaces/b/tables/t/credentials", Value::Null),
        ("POST", "/v1/namespaces/b/register", json!({"name": "r", "metadata-location": "file:///x"})),
        ("POST", "/v1/tables/rename", rename("b", "b")),
        ("POST", "/v1/tables/rename", rename("a", "b")),
        ("POST", "/v1/tables/rename", rename("b", "a")),
        ("POST", "/v1/transactions/commit", json!({"table-changes": [change]})),
        ("GET", "/v1/namespaces/b/views", Value::Null),
        (
            "POST",
            "/v1/namespaces/b/views",
            json!({"name": "v", "schema": schema(), "view-version": view_version(), "properties": {}}),
        ),
        ("GET", "/v1/namespaces/b/views/v", Value::Null),
        ("HEAD", "/v1/namespaces/b/views/v", Value::Null),
        ("POST", "/v1/namespaces/b/views/v", json!({"requirements": [], "updates": []})),
        ("DELETE", "/v1/namespaces/b/views/v", Value::Null),
        ("POST", "/v1/namespaces/b/register-view", json!({"name": "r", "metadata-location": "file:///x"})),
        ("POST", "/v1/views/rename", rename("b", "b")),
        ("POST", "/v1/views/rename", rename("a", "b")),
        ("POST", "/v1/views/rename", rename("b", "a")),
    ]
}

async fn filled() -> Running {
    let server = secured().await;
    server.create_namespace(&["a"], "root").await;
    server.create_namespace(&["b"], "root").await;
    server.create_table("a", "t", "root").await;
    server.create_table("b", "t", "root").await;
    server
}

#[tokio::test]
async fn each_route_needs_a_token_and_hides_what_the_client_cannot_read() {
    let server = filled().await;
    let (_, before) = server.ask("GET", "/v1/namespaces/b/tables/t", "root", &Value::Null).await;
    for (method, path, body) in routes() {
        let (status, answer) = server.ask(method, path, "", &body).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {answer}");
        let wrong = server.request(method, path, "").bearer_auth("wrong-token-0123456789").json(&body);
        let wrong = wrong.send().await.unwrap();
        assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        assert!(wrong.headers().contains_key("www-authenticate"));
        assert!(!wrong.text().await.unwrap().contains("wrong-token"));
        // Neither one without any grant, nor one with grants elsewhere, learns that there is such a namespace.
        for user in ["nobody", "writer"] {
            let (status, answer) = server.ask(method, path, user, &body).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path} as {user}: {answer}");
        }
    }
    assert_eq!(server.ask("GET", "/v1/config", "", &Value::Null).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(server.ask("GET", "/v1/config", "nobody", &Value::Null).await.0, StatusCode::OK);
    assert_eq!(server.ask("GET", "/v1/nothing", "", &Value::Null).await.0, StatusCode::UNAUTHORIZED);
    let (_, after) = server.ask("GET", "/v1/namespaces/b/tables/t", "root", &Value::Null).await;
    assert_eq!(before, after);
    assert_eq!(names(&server, "/v1/namespaces/b/tables", "root").await, json!([{"namespace": ["b"], "name": "t"}]));
}

async fn names(server: &Running, path: &str, user: &str) -> Value {
    let (status, answer) = server.ask("GET", path, user, &Value::Null).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer.get("identifiers").or_else(|| answer.get("namespaces")).cloned().unwrap()
}

#[tokio::test]
async fn what_is_hidden_answers_as_what_does_not_exist() {
    let server = filled().await;
    for (method, path, body) in routes().into_iter().filter(|(_, path, _)| path.starts_with("/v1/namespaces/b")) {
        let elsewhere = path.replacen("/b", "/z", 1);
        let there = server.ask(method, path, "nobody", &body).await;
        let nowhere = server.ask(method, &elsewhere, "nobody", &body).await;
        assert_eq!(there.0, nowhere.0);
        assert_eq!(there.1.to_string().replace(": b", ": z"), nowhere.1.to_string(), "{method} {path}");
        // As the handlers answer those who may know.
        if !path.contains("register") && !path.contains("views/v") && method == "GET" {
            let known = server.ask(method, &elsewhere, "root", &body).await;
            assert_eq!(known, nowhere, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn readers_read_and_writers_write() {
    let server = filled().await;
    for (method, path, body) in routes() {
        let path = path.replace("/b", "/a").replace("=b", "=a");
        let body: Value = serde_json::from_str(&body.to_string().replace("\"b\"", "\"a\"")).unwrap();
        let (status, answer) = server.ask(method, &path, "reader", &body).await;
        let reads = matches!(method, "GET" | "HEAD") || path.ends_with("/metrics");
        // There is no view `v`.
        let there = !path.contains("views/v");
        match reads {
            true if there => assert!(status.is_success(), "{method} {path}: {status} {answer}"),
            true => assert_eq!(status, StatusCode::NOT_FOUND),
            false => assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}: {answer}"),
        }
    }
    let done = server.ask("POST", "/v1/namespaces/a/properties", "writer", &json!({"updates": {"x": "y"}})).await;
    assert_eq!(done.0, StatusCode::OK, "{}", done.1);
    server.create_table("a", "n", "writer").await;
    server.create_namespace(&["a", "below"], "writer").await;
    let rename = json!({"source": {"namespace": ["a"], "name": "n"}, "destination": {"namespace": ["a"], "name": "m"}});
    assert_eq!(server.ask("POST", "/v1/tables/rename", "writer", &rename).await.0, StatusCode::NO_CONTENT);
    assert_eq!(
        server.ask("DELETE", "/v1/namespaces/a/tables/m", "writer", &Value::Null).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(server.ask("DELETE", "/v1/namespaces/a%1Fbelow", "writer", &Value::Null).await.0, StatusCode::FORBIDDEN);
    let at_root = server.ask("POST", "/v1/namespaces", "writer", &json!({"namespace": ["w"]})).await;
    assert_eq!(at_root.0, StatusCode::FORBIDDEN);
    let both = json!({"table-changes": [
        {"identifier": {"namespace": ["a"], "name": "t"}, "requirements": [], "updates": []},
        {"identifier": {"namespace": ["b"], "name": "t"}, "requirements": [], "updates": []},
    ]});
    assert_eq!(server.ask("POST", "/v1/transactions/commit", "writer", &both).await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.ask("POST", "/v1/transactions/commit", "root", &both).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn lists_have_only_what_the_client_can_read() {
    let server = filled().await;
    for index in 0..5 {
        server.create_namespace(&[&format!("z{index}")], "root").await;
    }
    assert_eq!(names(&server, "/v1/namespaces", "reader").await, json!([["a"]]));
    assert_eq!(names(&server, "/v1/namespaces", "other").await, json!([["b"]]));
    assert_eq!(names(&server, "/v1/namespaces", "nobody").await, json!([]));
    assert_eq!(names(&server, "/v1/namespaces", "root").await.as_array().unwrap().len(), 7);
    // A page tells nothing of what was left out.
    let (_, page) = server.ask("GET", "/v1/namespaces?pageSize=1&pageToken=", "other", &Value::Null).await;
    assert_eq!((&page["namespaces"], &page["next-page-token"]), (&json!([["b"]]), &Value::Null));
    let grant = json!({"updates": {"glidepath.grant.user:nobody": "read"}});
    assert_eq!(server.ask("POST", "/v1/namespaces/z3/properties", "root", &grant).await.0, StatusCode::OK);
    assert_eq!(names(&server, "/v1/namespaces", "nobody").await, json!([["z3"]]));
}

#[tokio::test]
async fn grants_of_the_catalog_are_changed_by_administrators_only() {
    let server = filled().await;
    let grant = json!({"updates": {"glidepath.grant.user:nobody": "write"}});
    for (user, expected) in
        [("writer", StatusCode::FORBIDDEN), ("other", StatusCode::NOT_FOUND), ("root", StatusCode::OK)]
    {
        assert_eq!(server.ask("POST", "/v1/namespaces/a/properties", user, &grant).await.0, expected, "{user}");
    }
    server.create_table("a", "by-nobody", "nobody").await;
    let wrong = json!({"updates": {"Glidepath.Grant.user:nobody": "write"}});
    assert_eq!(server.ask("POST", "/v1/namespaces/a/properties", "root", &wrong).await.0, StatusCode::BAD_REQUEST);
    // Nor by creating a namespace with them.
    let new = json!({"namespace": ["a", "mine"], "properties": {"glidepath.grant.user:writer": "admin"}});
    assert_eq!(server.ask("POST", "/v1/namespaces", "writer", &new).await.0, StatusCode::FORBIDDEN);
    let removal = json!({"removals": ["glidepath.grant.user:nobody"]});
    assert_eq!(server.ask("POST", "/v1/namespaces/a/properties", "nobody", &removal).await.0, StatusCode::FORBIDDEN);
    assert_eq!(server.ask("POST", "/v1/namespaces/a/properties", "root", &removal).await.0, StatusCode::OK);
    assert_eq!(server.ask("GET", "/v1/namespaces/a", "nobody", &Value::Null).await.0, StatusCode::NOT_FOUND);
    // A property given twice is refused, so that the check and the handler cannot see different ones.
    let twice = r#"{"namespace": ["b", "x"], "namespace": ["a", "x"]}"#;
    let sent = server.request("POST", "/v1/namespaces", "other").body(twice).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn locations_stay_in_the_folder_of_their_namespace() {
    let server = filled().await;
    let (_, foreign) = server.ask("GET", "/v1/namespaces/b/tables/t", "root", &Value::Null).await;
    let file = foreign["metadata-location"].as_str().unwrap();
    let place = foreign["metadata"]["location"].as_str().unwrap();
    let tables = place.rsplit_once("/b/").unwrap().0;
    for wrong in [
        place.to_owned(),
        format!("{place}/x"),
        format!("{tables}/a/../b/x"),
        format!("{tables}/a/%2e%2e/b/x"),
        format!("{tables}/a"),
        format!("{tables}/ab/x"),
        "file:///etc".to_owned(),
        "s3://elsewhere/x".to_owned(),
        "../x".to_owned(),
    ] {
        let table = json!({"name": "x", "schema": schema(), "location": wrong});
        let answer = server.ask("POST", "/v1/namespaces/a/tables", "writer", &table).await;
        assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
        let staged = json!({"name": "x", "schema": schema(), "location": wrong, "stage-create": true});
        assert_eq!(server.ask("POST", "/v1/namespaces/a/tables", "writer", &staged).await.0, StatusCode::BAD_REQUEST);
        let view = json!({
            "name": "x", "schema": schema(), "location": wrong, "view-version": view_version(), "properties": {}
        });
        let answer = server.ask("POST", "/v1/namespaces/a/views", "writer", &view).await;
        assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
        let moved = json!({"requirements": [], "updates": [{"action": "set-location", "location": wrong}]});
        let answer = server.ask("POST", "/v1/namespaces/a/tables/t", "writer", &moved).await;
        assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
        for route in ["register", "register-view"] {
            let register = json!({"name": "x", "metadata-location": format!("{wrong}/metadata/0.metadata.json")});
            let answer = server.ask("POST", &format!("/v1/namespaces/a/{route}"), "writer", &register).await;
            assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
        }
        if wrong != format!("{tables}/a") {
            let property = json!({"updates": {"location": wrong}});
            let answer = server.ask("POST", "/v1/namespaces/a/properties", "writer", &property).await;
            assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
            let namespace = json!({"namespace": ["a", "x"], "properties": {"location": wrong}});
            let answer = server.ask("POST", "/v1/namespaces", "writer", &namespace).await;
            assert_eq!(answer.0, StatusCode::BAD_REQUEST, "{wrong}: {}", answer.1);
        }
    }
    let register = json!({"name": "x", "metadata-location": file});
    assert_eq!(server.ask("POST", "/v1/namespaces/a/register", "writer", &register).await.0, StatusCode::BAD_REQUEST);
    let inside = json!({"name": "x", "schema": schema(), "location": format!("{tables}/a/own")});
    assert_eq!(server.ask("POST", "/v1/namespaces/a/tables", "writer", &inside).await.0, StatusCode::OK);
    // What one's own folder has can be registered.
    let (_, own) = server.ask("GET", "/v1/namespaces/a/tables/x", "writer", &Value::Null).await;
    let register = json!({"name": "y", "metadata-location": own["metadata-location"]});
    assert_eq!(
        server.ask("DELETE", "/v1/namespaces/a/tables/x", "writer", &Value::Null).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(server.ask("POST", "/v1/namespaces/a/register", "writer", &register).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_reload_changes_who_may_come_in() {
    let server = filled().await;
    crate::support::write_access(&server.folder, &["root", "new"], crate::support::GRANTS);
    server.handle.reload().unwrap();
    assert_eq!(server.ask("GET", "/v1/config", "new", &Value::Null).await.0, StatusCode::OK);
    assert_eq!(server.ask("GET", "/v1/config", "reader", &Value::Null).await.0, StatusCode::UNAUTHORIZED);
    std::fs::write(server.folder.path().join("access.toml"), "nonsense").unwrap();
    assert!(server.handle.reload().is_err());
    assert_eq!(server.ask("GET", "/v1/config", "new", &Value::Null).await.0, StatusCode::OK);
}

#[tokio::test]
async fn two_headers_with_tokens_are_refused() {
    let server = secured().await;
    let twice =
        server.request("GET", "/v1/config", "nobody").header("authorization", format!("Bearer {}", token("root")));
    assert_eq!(twice.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let basic = server.request("GET", "/v1/config", "").basic_auth("root", Some(token("root")));
    let basic = basic.send().await.unwrap();
    assert_eq!(basic.status(), StatusCode::UNAUTHORIZED);
    assert!(!basic.text().await.unwrap().contains(&token("root")));
}

#[tokio::test]
async fn the_settings_of_clients_are_for_those_who_may_read() {
    let (folder, mut config) = crate::support::local();
    let access = crate::support::write_access(&folder, &["root", "nobody"], crate::support::GRANTS);
    config.security.access = Some(access);
    config.storage.insert("s3.secret-access-key".to_owned(), "hush".to_owned());
    let server = crate::support::start(folder, config).await;
    server.create_namespace(&["a"], "root").await;
    let created = server.create_table("a", "t", "root").await;
    assert_eq!(created["config"]["s3.secret-access-key"], "hush");
    let (_, given) = server.ask("GET", "/v1/namespaces/a/tables/t/credentials", "root", &Value::Null).await;
    assert_eq!(given["storage-credentials"][0]["config"]["s3.secret-access-key"], "hush");
    assert_eq!(given["storage-credentials"][0]["prefix"], created["metadata"]["location"]);
    for path in ["/v1/namespaces/a/tables/t", "/v1/namespaces/a/tables/t/credentials", "/v1/config"] {
        let (_, answer) = server.ask("GET", path, "nobody", &Value::Null).await;
        assert!(!answer.to_string().contains("hush"), "{path}: {answer}");
    }
}

/// Lance's routes, about the namespace `b` and tables in it.
fn lance_routes() -> Vec<(&'static str, &'static str, Value)> {
    let empty = || json!({});
    vec![
        ("POST", "/v1/namespace/b$c/create", empty()),
        ("GET", "/v1/namespace/b/list", Value::Null),
        ("POST", "/v1/namespace/b/describe", empty()),
        ("POST", "/v1/namespace/b/drop", empty()),
        ("POST", "/v1/namespace/b/exists", empty()),
        ("GET", "/v1/namespace/b/table/list", Value::Null),
        ("POST", "/v1/table/b$l/declare", empty()),
        ("POST", "/v1/table/b$l/describe", empty()),
        ("POST", "/v1/table/b.l/describe?delimiter=.", json!({"id": ["b", "l"]})),
        ("POST", "/v1/table/b$l/exists", empty()),
        ("POST", "/v1/table/b$l/drop", empty()),
        ("POST", "/v1/table/b$l/deregister", empty()),
        ("POST", "/v1/table/b$l/register", json!({"location": "file:///x"})),
        ("POST", "/v1/table/b$l/rename", json!({"new_table_name": "m"})),
        ("POST", "/v1/table/a$l/rename", json!({"new_table_name": "m", "new_namespace_id": ["b"]})),
        ("POST", "/v1/table/b$l/version/list", empty()),
        ("POST", "/v1/table/b$l/version/create", json!({"version": 1, "manifest_path": "x"})),
        ("POST", "/v1/table/b$l/version/describe", json!({"version": 1})),
        ("POST", "/v1/table/b$l/version/delete", json!({"ranges": []})),
    ]
}

#[tokio::test]
async fn routes_of_lance_need_the_same_rights() {
    let server = filled().await;
    for (method, path, body) in lance_routes() {
        let (status, answer) = server.ask(method, path, "", &body).await;
        assert_eq!((status, &answer["code"]), (StatusCode::UNAUTHORIZED, &json!(16)), "{method} {path}: {answer}");
        for user in ["nobody", "writer"] {
            let (status, answer) = server.ask(method, path, user, &body).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path} as {user}: {answer}");
        }
        let path = path.replace("/b", "/a");
        let body: Value = serde_json::from_str(&body.to_string().replace("\"b\"", "\"a\"")).unwrap();
        let (status, answer) = server.ask(method, &path, "reader", &body).await;
        let ends = ["/list", "/describe", "/exists", "delimiter=."];
        if ends.iter().any(|end| path.ends_with(end)) {
            assert!(matches!(status.as_u16(), 200 | 404), "{method} {path}: {status} {answer}");
        } else {
            assert_eq!((status, &answer["code"]), (StatusCode::FORBIDDEN, &json!(15)), "{method} {path}: {answer}");
        }
    }
    let declared = server.ask("POST", "/v1/table/a$l/declare", "writer", &json!({})).await;
    assert_eq!(declared.0, StatusCode::OK, "{}", declared.1);
    let listed = server.ask("GET", "/v1/namespace/$/list", "reader", &Value::Null).await;
    assert_eq!((listed.0, &listed.1["namespaces"]), (StatusCode::OK, &json!(["a"])));
    let unsupported = server.ask("POST", "/v1/table/b$l/count_rows", "nobody", &json!({})).await;
    assert_eq!(unsupported.0, StatusCode::NOT_ACCEPTABLE);
    let foreign = json!({"location": declared.1["location"].as_str().unwrap().replace("/a/", "/b/")});
    let registered = server.ask("POST", "/v1/table/a$m/register", "writer", &foreign).await;
    assert_eq!(registered.0, StatusCode::BAD_REQUEST, "{}", registered.1);
}

#[tokio::test]
async fn grants_are_shown_to_administrators_only() {
    let server = filled().await;
    let change = json!({"updates": {"glidepath.grant.user:nobody": "read", "owner": "x"}});
    assert_eq!(server.ask("POST", "/v1/namespaces/a/properties", "root", &change).await.0, StatusCode::OK);
    for (user, seen) in [("root", true), ("reader", false), ("writer", false), ("nobody", false)] {
        let (_, iceberg) = server.ask("GET", "/v1/namespaces/a", user, &Value::Null).await;
        let (_, lance) = server.ask("POST", "/v1/namespace/a/describe", user, &json!({})).await;
        for answer in [iceberg, lance] {
            assert_eq!(answer["properties"]["owner"], "x", "{user}: {answer}");
            assert_eq!(answer.to_string().contains("glidepath.grant"), seen, "{user}: {answer}");
        }
    }
}

/// A table that was renamed to where its creator may read nothing keeps its folder for itself.
#[tokio::test]
async fn the_folder_of_a_table_that_one_may_not_see_is_refused() {
    let server = filled().await;
    let (_, made) = server.ask("GET", "/v1/namespaces/a/tables/t", "writer", &Value::Null).await;
    let place = made["metadata"]["location"].as_str().unwrap();
    let rename =
        json!({"source": {"namespace": ["a"], "name": "t"}, "destination": {"namespace": ["b"], "name": "hidden"}});
    assert_eq!(server.ask("POST", "/v1/tables/rename", "root", &rename).await.0, StatusCode::NO_CONTENT);
    for (name, staged) in [("t", false), ("t", true), ("mine", false), ("mine", true)] {
        let table = json!({"name": name, "schema": schema(), "location": place, "stage-create": staged});
        let (status, answer) = server.ask("POST", "/v1/namespaces/a/tables", "writer", &table).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(!answer.to_string().contains("hidden"), "{answer}");
    }
    let declare = json!({"location": place});
    for route in ["declare", "register"] {
        let path = format!("/v1/table/a$mine/{route}");
        assert_eq!(server.ask("POST", &path, "writer", &declare).await.0, StatusCode::BAD_REQUEST, "{route}");
    }
}
