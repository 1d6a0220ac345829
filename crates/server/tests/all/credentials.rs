//! Who gets which short-lived credentials? On a storage of the test's own, which also is the token service. A real one
//! is in `scripts/clients/check_credentials.py`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use glidepath_server::{Config, Security, Server, StsOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{GRANTS, Running, local, schema, start, write_access};

const TASK: &str = "GLIDEPATH_TEST_CREDENTIALS";
const WANTED: (&str, &str) = ("x-iceberg-access-delegation", "vended-credentials");
const TABLE: &str = "/v1/namespaces/a/tables/t";

/// The storage: objects, and what the token service was asked.
#[derive(Default)]
struct Storage {
    objects: Mutex<BTreeMap<String, Bytes>>,
    asked: Mutex<Vec<BTreeMap<String, String>>>,
    signed: Mutex<String>,
    fails: AtomicBool,
    /// How long credentials live.
    seconds: AtomicU64,
}

impl Storage {
    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The session policy of the last request.
    fn policy(&self) -> Value {
        serde_json::from_str(&self.asked.lock().unwrap().last().unwrap()["Policy"]).unwrap()
    }

    fn token_service(&self, headers: &HeaderMap, body: &[u8]) -> Response {
        let form = format!("http://x/?{}", std::str::from_utf8(body).unwrap());
        let form = reqwest::Url::parse(&form).unwrap().query_pairs().into_owned().collect();
        self.asked.lock().unwrap().push(form);
        headers["authorization"].to_str().unwrap().clone_into(&mut self.signed.lock().unwrap());
        if self.fails.load(Ordering::SeqCst) {
            let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>No.</Message></Error></ErrorResponse>";
            return (StatusCode::FORBIDDEN, body).into_response();
        }
        // Each gets an end of its own, and the clock of this service is wrong by many years.
        let (number, seconds) = (self.asked(), self.seconds.load(Ordering::SeqCst));
        let ends =
            format!("2090-01-01T{:02}:{:02}:{:02}.{number:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let body = format!(
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ID{number}</AccessKeyId>\
             <SecretAccessKey>hush{number}</SecretAccessKey><SessionToken>hush-token</SessionToken>\
             <Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        );
        ([("date", "Sun, 01 Jan 2090 00:00:00 GMT")], body).into_response()
    }

    fn act(&self, method: &Method, path: &str, headers: &HeaderMap, body: Bytes) -> Response {
        let mut objects = self.objects.lock().unwrap();
        let found = [("etag", "\"1\""), ("last-modified", "Sun, 01 Jan 2090 00:00:00 GMT")];
        match method.as_str() {
            "PUT" if headers.contains_key("if-none-match") && objects.contains_key(path) => {
                StatusCode::PRECONDITION_FAILED.into_response()
            }
            "PUT" => {
                objects.insert(path.to_owned(), body);
                (found, "").into_response()
            }
            "GET" | "HEAD" => match objects.get(path) {
                // Whatever range is asked for, all objects here are shorter.
                Some(object) if headers.contains_key("range") => {
                    let range = format!("bytes 0-{}/{}", object.len() - 1, object.len());
                    (StatusCode::PARTIAL_CONTENT, found, [("content-range", range)], object.clone()).into_response()
                }
                Some(object) => (found, object.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            _ => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

async fn answer(
    State(storage): State<Arc<Storage>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match method {
        Method::POST => storage.token_service(&headers, &body),
        method => storage.act(&method, uri.path(), &headers, body),
    }
}

/// A server that keeps tables in a storage with a token service.
async fn configured() -> (TempDir, Config, Arc<Storage>) {
    let storage = Arc::new(Storage { seconds: AtomicU64::new(3600), ..Storage::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer).with_state(Arc::clone(&storage));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (folder, config) = local();
    let access = write_access(&folder, &["root", "writer", "reader", "other", "nobody"], GRANTS);
    let config = Config {
        warehouse: Some(format!("s3://lake/tables?endpoint={url}&region=us-east-1")),
        sts: Some(StsOptions { endpoint: Some(url), ..StsOptions::default() }),
        storage: BTreeMap::from([("s3.region".to_owned(), "us-east-1".to_owned())]),
        security: Security { access: Some(access), ..Security::default() },
        ..config
    };
    (folder, config, storage)
}

impl Running {
    /// The answer, and its tag; `known` is the tag that the client has.
    async fn load(&self, path: &str, user: &str, wants: bool, known: &str) -> (StatusCode, HeaderMap, Value) {
        let mut request = self.request("GET", path, user).header("if-none-match", known);
        if wants {
            request = request.header(WANTED.0, WANTED.1);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        (status, headers, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or(Value::Null))
    }

    async fn create(&self, body: &Value) -> (StatusCode, Value) {
        let request = self.request("POST", "/v1/namespaces/a/tables", "writer").header(WANTED.0, WANTED.1);
        let answer = request.json(body).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }
}

/// The environment belongs to a process, and the server takes its own credentials from there.
#[test]
fn clients_get_credentials_for_what_they_may_do() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["credentials::in_a_child", "--exact", "--nocapture"]).env(TASK, "yes");
    command.env("AWS_ACCESS_KEY_ID", "server").env("AWS_SECRET_ACCESS_KEY", "hush-of-server").env_remove("AWS_PROFILE");
    let output = command.output().unwrap();
    let (out, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{log}");
    assert!(log.contains("AccessDenied"), "the reason of a failure is not in the log: {log}");
    assert!(!log.contains("hush"), "a secret is in the log: {log}");
}

#[tokio::test]
async fn in_a_child() {
    if std::env::var_os(TASK).is_none() {
        return;
    }
    glidepath_server::log_to_stderr(glidepath_server::LogFormat::Text, glidepath_server::LogLevel::Info);
    what_protects_nothing_is_refused().await;
    let (folder, config, storage) = configured().await;
    let server = start(folder, config).await;
    server.create_namespace(&["a"], "root").await;
    let made = server.create_table("a", "t", "root").await;
    let location = made["metadata"]["location"].as_str().unwrap().strip_prefix("s3://lake/").unwrap().to_owned();
    rights_are_kept(&server, &storage, &location).await;
    tags_name_credentials(&server, &storage).await;
    failures_give_nothing_broken(&server, &storage).await;
}

async fn what_protects_nothing_is_refused() {
    for (part, change) in [
        (
            "s3.secret-access-key",
            (|config| drop(config.storage.insert("s3.secret-access-key".to_owned(), "hush".to_owned())))
                as fn(&mut Config),
        ),
        ("the catalog is in the warehouse", |config| config.store = config.warehouse.clone().unwrap()),
        ("has no token service", |config| config.warehouse = None),
        ("ARN of the role", |config| config.sts = Some(StsOptions::default())),
    ] {
        let (_folder, mut config, _) = configured().await;
        change(&mut config);
        let error = Server::start(config).await.err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("hush"), "{error}");
    }
}

async fn rights_are_kept(server: &Running, storage: &Storage, location: &str) {
    let before = storage.asked();
    let (status, _, plain) = server.load(TABLE, "reader", false, "").await;
    assert_eq!((status, &plain["config"]), (StatusCode::OK, &json!({"s3.region": "us-east-1"})));
    assert!(plain.get("storage-credentials").is_none() && storage.asked() == before);
    let (_, headers, told) = server.load(TABLE, "reader", true, "").await;
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(told["config"]["s3.session-token"], "hush-token");
    assert_eq!(told["storage-credentials"][0]["prefix"], format!("s3://lake/{location}"));
    assert_eq!(told["storage-credentials"][0]["config"], told["config"]);
    let policy = storage.policy();
    assert_eq!(policy["Statement"][0]["Resource"], format!("arn:aws:s3:::lake/{location}/*"));
    assert!(!policy.to_string().contains("Put"), "{policy}");
    // Those are given again, also by the other route.
    let (status, again) = server.ask("GET", &format!("{TABLE}/credentials"), "reader", &Value::Null).await;
    assert_eq!((status, &again["storage-credentials"]), (StatusCode::OK, &told["storage-credentials"]));
    assert_eq!(storage.asked(), before + 1);
    let (_, _, written) = server.load(TABLE, "writer", true, "").await;
    assert_ne!(written["config"], told["config"]);
    assert!(storage.policy().to_string().contains("PutObject") && storage.asked() == before + 2);
    for user in ["nobody", "other"] {
        assert_eq!(server.load(TABLE, user, true, "").await.0, StatusCode::NOT_FOUND);
        let (status, _) = server.ask("GET", &format!("{TABLE}/credentials"), user, &Value::Null).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    assert_eq!(storage.asked(), before + 2);
    let asked = storage.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!((asked["Action"].as_str(), asked["DurationSeconds"].as_str()), ("AssumeRole", "3600"));
    assert!(!asked.contains_key("RoleArn"));
    let signed = storage.signed.lock().unwrap().clone();
    assert!(signed.contains("Credential=server/") && signed.contains("/us-east-1/sts/aws4_request"), "{signed}");
}

async fn tags_name_credentials(server: &Running, storage: &Storage) {
    let (_, plain, _) = server.load(TABLE, "reader", false, "").await;
    let (_, vended, _) = server.load(TABLE, "reader", true, "").await;
    let tag = |headers: &HeaderMap| headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(server.load(TABLE, "reader", true, &tag(&vended)).await.0, StatusCode::NOT_MODIFIED);
    assert_eq!(server.load(TABLE, "reader", false, &tag(&plain)).await.0, StatusCode::NOT_MODIFIED);
    assert_eq!(server.load(TABLE, "reader", true, &tag(&plain)).await.0, StatusCode::OK);
    assert_eq!(server.load(TABLE, "writer", true, &tag(&vended)).await.0, StatusCode::OK);
    // Credentials that live for a second are replaced after half of it.
    server.create_table("a", "short", "root").await;
    storage.seconds.store(1, Ordering::SeqCst);
    let short = "/v1/namespaces/a/tables/short";
    let (_, first, _) = server.load(short, "reader", true, "").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let (status, second, told) = server.load(short, "reader", true, &tag(&first)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(tag(&first) != tag(&second) && told["config"]["s3.session-token"] == "hush-token");
    storage.seconds.store(3600, Ordering::SeqCst);
}

async fn failures_give_nothing_broken(server: &Running, storage: &Storage) {
    storage.fails.store(true, Ordering::SeqCst);
    let (status, staged) = server.create(&json!({"name": "s", "schema": schema(), "stage-create": true})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{staged}");
    // It is there, so the answer is that it is.
    let (status, made) = server.create(&json!({"name": "u", "schema": schema()})).await;
    assert_eq!((status, &made["config"]), (StatusCode::OK, &json!({"s3.region": "us-east-1"})));
    let made = "/v1/namespaces/a/tables/u";
    let (status, headers, told) = server.load(made, "reader", true, "").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{told}");
    assert!(headers.contains_key("retry-after") && !told.to_string().contains("AccessDenied"), "{told}");
    assert_eq!(server.load(made, "reader", false, "").await.0, StatusCode::OK);
    let (status, _) = server.ask("GET", &format!("{made}/credentials"), "reader", &Value::Null).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    // Lance: the table is there as well.
    let (status, told) = server.ask("POST", "/v1/table/a$l/declare", "writer", &json!({})).await;
    assert_eq!((status, &told["storage_options"]), (StatusCode::OK, &json!({"aws_region": "us-east-1"})));
    let describe = "/v1/table/a$l/describe";
    assert_eq!(server.ask("POST", describe, "reader", &json!({})).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let without = json!({"vend_credentials": false});
    assert_eq!(server.ask("POST", describe, "reader", &without).await.0, StatusCode::OK);
    let metrics = server.request("GET", "/metrics", "root").send().await.unwrap().text().await.unwrap();
    let asked = format!("glidepath_credentials_total {}\n", storage.asked());
    assert!(metrics.contains(&asked) && metrics.contains("glidepath_credential_failures_total 6\n"), "{metrics}");
    storage.fails.store(false, Ordering::SeqCst);
    let (_, told) = server.ask("POST", describe, "reader", &json!({})).await;
    assert_eq!(told["storage_options"]["aws_session_token"], "hush-token");
    assert!(!storage.policy().to_string().contains("Put"));
    // A file that clients can write is no metadata file.
    let location = told["location"].as_str().unwrap();
    let body = json!({"name": "r", "metadata-location": format!("{location}/mine.json")});
    let (status, told) = server.ask("POST", "/v1/namespaces/a/register", "writer", &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    assert!(told.to_string().contains(".metadata.json"), "{told}");
}
