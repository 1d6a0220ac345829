//! The pages for people: what they show, to whom, and that nothing in them is markup of a client.

use std::time::Duration;

use crate::support::{GRANTS, Running, local, schema, secured, start, view_version, write_access};
use glidepath_server::{Config, Security};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

const EVIL: &str = "<script>alert(1)</script>";

/// [`EVIL`] as a segment of a path.
const EVIL_PATH: &str = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";

async fn get(server: &Running, path: &str, user: &str) -> (StatusCode, String) {
    let answer = server.request("GET", path, user).send().await.unwrap();
    let status = answer.status();
    has_headers_of_a_page(&answer, path);
    (status, answer.text().await.unwrap())
}

fn has_headers_of_a_page(answer: &Response, path: &str) {
    let header = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8", "{path}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("cache-control"), "no-store");
    let policy = header("content-security-policy");
    for rule in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
}

/// The page of something that exists.
async fn page(server: &Running, path: &str, user: &str) -> String {
    let (status, text) = get(server, path, user).await;
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    text
}

fn contains_all(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}

fn contains_none(text: &str, words: &[&str]) {
    for word in words {
        assert!(!text.contains(word), "{word} is in\n{text}");
    }
}

/// A commit of a snapshot to a branch, which it requires to be at `parent`.
fn snapshot(id: i64, parent: Option<i64>, number: i64, branch: &str, operation: &str) -> Value {
    let snapshot = json!({
        "snapshot-id": id, "parent-snapshot-id": parent, "sequence-number": number, "schema-id": 0,
        "timestamp-ms": 1_900_000_000_000_i64 + number, "manifest-list": format!("file:///none/{id}.avro"),
        "summary": {"operation": operation, "added-records": "1234567", "total-records": EVIL},
    });
    // A new branch is created by its first snapshot.
    let at = if branch == "main" { json!(parent) } else { Value::Null };
    json!({
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": at}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": id},
        ],
    })
}

async fn commit(server: &Running, table: &str, user: &str, body: &Value) -> StatusCode {
    let (status, answer) = server.ask("POST", &format!("/v1/namespaces/{table}"), user, body).await;
    assert!(status == StatusCode::OK || status == StatusCode::CONFLICT, "{answer}");
    status
}

#[tokio::test]
async fn a_person_sees_the_catalog_and_its_commits() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    contains_all(&page(&server, "/", "").await, &["There is nothing here.", "No commit waits for a table."]);
    server.create_namespace(&["a"], "").await;
    server.create_namespace(&["a", "inner"], "").await;
    server.create_table("a", "t", "").await;
    server.create_table("a%1Finner", "deep", "").await;
    for number in 1..=60 {
        let parent = (number > 1).then_some(number - 1);
        let body = snapshot(number, parent, number, "main", "append");
        assert_eq!(commit(&server, "a/tables/t", "", &body).await, StatusCode::OK);
    }
    let body = snapshot(99, Some(50), 61, EVIL, "overwrite");
    assert_eq!(commit(&server, "a/tables/t", "", &body).await, StatusCode::OK);
    let stale = json!({"requirements": [{"type": "assert-current-schema-id", "current-schema-id": 7}], "updates": []});
    assert_eq!(commit(&server, "a/tables/t", "", &stale).await, StatusCode::CONFLICT);
    let root = page(&server, "/", "").await;
    contains_all(
        &root,
        &[
            "manifest-chain in file:///",
            "<a href=\"/namespaces/a\">",
            "<a href=\"/namespaces/a/tables/t\">",
            "<a href=\"/namespaces/a%1Finner/tables/deep\">",
            "<dt>committed</dt><dd>63</dd>",
            "the schema had changed</td><td class=\"number\">1</td>",
            "<rect class=\"good\"",
            "<rect class=\"refused\"",
        ],
    );
    let table = page(&server, "/namespaces/a/tables/t", "").await;
    contains_all(
        &table,
        &[
            "<code>99</code>",
            "class=\"label branch\" title=\"branch\"><bdi>main</bdi>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "1\u{202F}234\u{202F}567",
            "The newest 50 of 61 snapshots; 11 more are older.",
            "<path class=\"lane0\" d=\"M10 0V20\">",
        ],
    );
    contains_none(&table, &["<script>alert", "<code>11</code>", "class=\"\" class="]);
    assert_eq!(table.matches("<circle").count(), 50);
}

#[tokio::test]
async fn names_of_clients_are_text() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    let properties = json!({"<b>": EVIL, "s3.secret-access-key": "hidden-0123"});
    let new = json!({"namespace": [EVIL], "properties": properties});
    assert_eq!(server.ask("POST", "/v1/namespaces", "", &new).await.0, StatusCode::OK);
    let field = json!({"id": 1, "name": EVIL, "required": true, "type": "long", "doc": "<i>"});
    let columns = json!({"type": "struct", "schema-id": 0, "fields": [field]});
    let table = json!({
        "name": EVIL, "schema": columns, "properties": {"write.x": EVIL, "s3.secret-access-key": "hidden-0123"},
    });
    let tables = format!("/v1/namespaces/{EVIL_PATH}/tables");
    assert_eq!(server.ask("POST", &tables, "", &table).await.0, StatusCode::OK);
    let mut version = view_version();
    version["representations"][0]["sql"] = json!(EVIL);
    let view = json!({"name": "v", "schema": schema(), "view-version": version, "properties": {}});
    assert_eq!(server.ask("POST", &format!("/v1/namespaces/{EVIL_PATH}/views"), "", &view).await.0, StatusCode::OK);
    for path in [
        "/".to_owned(),
        format!("/namespaces/{EVIL_PATH}"),
        format!("/namespaces/{EVIL_PATH}/tables/{EVIL_PATH}"),
        format!("/namespaces/{EVIL_PATH}/views/v"),
    ] {
        let text = page(&server, &path, "").await;
        contains_all(&text, &["&lt;script&gt;alert(1)&lt;/script&gt;"]);
        contains_none(&text, &["<script>alert", "hidden-0123", "<i>", "<b>"]);
    }
    // Also in what is said of a name that does not exist.
    let (status, text) = get(&server, &format!("/namespaces/n/tables/{EVIL_PATH}"), "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    contains_all(&text, &["&lt;script&gt;alert(1)&lt;/script&gt;"]);
}

#[tokio::test]
async fn a_large_catalog_has_pages() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    for index in 0..130 {
        server.create_namespace(&[&format!("n{index:03}")], "").await;
    }
    for index in 0..20 {
        server.create_namespace(&["n000", &format!("m{index:02}")], "").await;
    }
    let root = page(&server, "/", "").await;
    contains_all(
        &root,
        &["<bdi>n099</bdi>", "href=\"/?after=n099\" rel=\"next\"", "show all in <bdi>n000</bdi>", "m11"],
    );
    contains_none(&root, &["n100", "m12"]);
    let second = page(&server, "/?after=n099", "").await;
    contains_all(&second, &["<bdi>n100</bdi>", "<bdi>n129</bdi>", "First page"]);
    contains_none(&second, &["n099", "rel=\"next\""]);
    contains_all(&page(&server, "/namespaces/n000", "").await, &["m19"]);
    contains_all(&page(&server, "/?after=zzz", "").await, &["No further entries."]);
}

#[tokio::test]
async fn wrong_requests_are_told_so() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    for (path, expected) in [
        ("/?after=%2F%2F", 400),
        ("/?after=1&after=2", 400),
        ("/namespaces/none", 404),
        ("/namespaces/none/tables/t", 404),
        ("/namespaces/none/views/v", 404),
        ("/tables/none", 404),
        ("/namespaces/%FF", 400),
        ("/namespaces/a%1F", 400),
        ("/namespaces/.glidepath", 400),
        ("/namespaces/.glidepath/tables/x", 400),
    ] {
        let (status, text) = get(&server, path, "").await;
        assert_eq!(status.as_u16(), expected, "{path}: {text}");
    }
    let answer = server.request("POST", "/", "").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    contains_none(&page(&server, "/", "").await, &[".glidepath"]);
}

#[tokio::test]
async fn who_waits_is_told() {
    let (folder, mut config) = local();
    config.overwrite_priority = Duration::from_secs(600);
    let server = start(folder, config).await;
    server.create_namespace(&["a"], "").await;
    server.create_table("a", "t", "").await;
    assert_eq!(commit(&server, "a/tables/t", "", &snapshot(1, None, 1, "main", "append")).await, StatusCode::OK);
    // It lost, so that others wait for it.
    let lost = snapshot(2, Some(7), 2, "main", "overwrite");
    assert_eq!(commit(&server, "a/tables/t", "", &lost).await, StatusCode::CONFLICT);
    let append = server.request("POST", "/v1/namespaces/a/tables/t", "");
    let waiting = tokio::spawn(append.json(&snapshot(3, Some(1), 2, "main", "append")).send());
    let told = "<bdi>a / t</bdi></a></td><td class=\"number\">1</td><td class=\"number\">0</td>";
    loop {
        let root = page(&server, "/", "").await;
        if root.contains(told) {
            break;
        }
        assert!(!waiting.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    contains_all(&page(&server, "/namespaces/a", "").await, &[told]);
    contains_all(&page(&server, "/namespaces/a/tables/t", "").await, &["<dt>commits waiting</dt><dd>1</dd>"]);
    // One over two tables waits once at each.
    server.create_table("a", "u", "").await;
    let [mut t, mut u] = [snapshot(4, Some(1), 2, "main", "append"), snapshot(5, None, 1, "main", "append")];
    t["identifier"] = json!({"namespace": ["a"], "name": "t"});
    u["identifier"] = json!({"namespace": ["a"], "name": "u"});
    let both = server.request("POST", "/v1/transactions/commit", "").json(&json!({"table-changes": [t, u]}));
    let both = tokio::spawn(both.send());
    let told = told.replace("<td class=\"number\">1</td>", "<td class=\"number\">2</td>");
    let told_too = "<bdi>a / u</bdi></a></td><td class=\"number\">1</td><td class=\"number\">0</td>";
    loop {
        let root = page(&server, "/", "").await;
        if root.contains(&told) && root.contains(told_too) {
            break;
        }
        assert!(!both.is_finished());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    waiting.abort();
    both.abort();
}

#[tokio::test]
async fn without_a_token_there_is_only_the_form() {
    let server = secured().await;
    server.create_namespace(&["a"], "root").await;
    server.create_table("a", "t", "root").await;
    let mut forms = Vec::new();
    for path in [
        "/",
        "/?after=x",
        "/namespaces/a",
        "/namespaces/none",
        "/namespaces/a/tables/t",
        "/namespaces/a/views/v",
        "/tables/t",
    ] {
        forms.push(page(&server, path, "").await);
    }
    assert!(forms.iter().all(|form| *form == forms[0]), "the form says nothing of what exists");
    contains_all(&forms[0], &["<form id=\"ask\">", "type=\"password\"", "data-page=\"ask\""]);
    // Nothing that a browser would send by itself.
    contains_none(&forms[0], &["name=\"token\"", "action=", "method=", "<bdi>"]);
    for (asset, kind) in [("/page.css", "text/css; charset=utf-8"), ("/page.js", "text/javascript; charset=utf-8")] {
        for user in ["", "nobody"] {
            let answer = server.request("GET", asset, user).send().await.unwrap();
            assert_eq!((answer.status(), &answer.headers()["content-type"]), (StatusCode::OK, &kind.parse().unwrap()));
            assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        }
    }
    let wrong = server.request("GET", "/", "").bearer_auth("wrong-token-0123456789").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    has_headers_of_a_page(&wrong, "/");
    assert!(!wrong.text().await.unwrap().contains("wrong-token"));
    for (method, path) in [("POST", "/"), ("DELETE", "/namespaces/a")] {
        let answer = server.request(method, path, "").send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
    }
}

#[tokio::test]
async fn a_token_shows_what_it_may_read() {
    let server = secured().await;
    for namespace in ["a", "b", "c"] {
        server.create_namespace(&[namespace], "root").await;
        server.create_table(namespace, "t", "root").await;
    }
    let grant = json!({"updates": {"glidepath.grant.user:nobody": "read"}});
    assert_eq!(server.ask("POST", "/v1/namespaces/c/properties", "root", &grant).await.0, StatusCode::OK);
    let all = page(&server, "/", "root").await;
    contains_all(&all, &["/namespaces/a/tables/t", "/namespaces/b/tables/t", "<svg class=\"chart\"", ">root<"]);
    for (user, own, others) in [
        ("reader", "/namespaces/a", ["/namespaces/b", "/namespaces/c"]),
        ("other", "/namespaces/b", ["/namespaces/a", "/namespaces/c"]),
        ("nobody", "/namespaces/c", ["/namespaces/a", "/namespaces/b"]),
    ] {
        let root = page(&server, "/", user).await;
        contains_all(&root, &[&format!("<a href=\"{own}/tables/t\">"), "may read the whole catalog"]);
        contains_none(&root, &others);
        contains_none(&root, &["<svg", "<dt>committed</dt>", &crate::support::token(user)]);
        contains_all(&page(&server, &format!("{own}/tables/t"), user).await, &["Snapshots</h2>"]);
        for other in others {
            for path in ["", "/tables/t", "/tables/none", "/views/v"] {
                let (status, text) = get(&server, &format!("{other}{path}"), user).await;
                assert_eq!(status, StatusCode::NOT_FOUND, "{other}{path} as {user}: {text}");
                let (_, nowhere) = get(&server, &format!("/namespaces/z{path}"), user).await;
                assert_eq!(text.replace(&format!(": {}", &other[12..]), ": z"), nowhere);
            }
        }
        assert_eq!(get(&server, "/tables/t", user).await.0, StatusCode::FORBIDDEN);
    }
    // Grants are for administrators.
    contains_none(&page(&server, "/namespaces/c", "nobody").await, &["glidepath.grant"]);
    contains_all(&page(&server, "/namespaces/c", "root").await, &["glidepath.grant.user:nobody"]);
}

#[tokio::test]
async fn a_long_root_tells_nothing_of_what_it_hides() {
    let (folder, config) = local();
    let access = write_access(&folder, &["root", "other"], GRANTS);
    let security = Security { access: Some(access), ..Security::default() };
    let server = start(folder, Config { security, ..config }).await;
    for name in ["a", "b", "hidden"] {
        server.create_namespace(&[name], "root").await;
    }
    let root = page(&server, "/", "other").await;
    contains_all(&root, &["<bdi>b</bdi>"]);
    contains_none(&root, &["hidden", "rel=\"next\""]);
    contains_none(&page(&server, "/?after=b", "other").await, &["hidden"]);
}
