//! A server in this process, and a client of it.

use std::path::PathBuf;

use glidepath_access::{Secret, entry_for};
use glidepath_server::{Config, Handle, Security, Server};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server that runs.
pub(crate) struct Running {
    pub(crate) base: String,
    pub(crate) operations: Option<String>,
    pub(crate) handle: Handle,
    pub(crate) folder: TempDir,
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<std::io::Result<()>>,
}

/// A folder, and a configuration of a server that keeps its catalog there.
pub(crate) fn local() -> (TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::of(&format!("file://{}/catalog", folder.path().display()));
    (folder, config)
}

pub(crate) async fn start(folder: TempDir, config: Config) -> Running {
    let server = Server::start(config).await.unwrap();
    let scheme = if server.is_tls() { "https" } else { "http" };
    let base = format!("{scheme}://{}", server.address().unwrap());
    let operations = server.operations_address().unwrap().map(|address| format!("http://{address}"));
    let handle = server.handle();
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(server.serve(async move {
        let _ = stopped.await;
    }));
    Running { base, operations, handle, folder, client: client(), stop: Some(stop), ended }
}

/// A client; the library that it speaks TLS with is chosen as the server does it.
pub(crate) fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new()
}

/// The token of a user in the tests.
pub(crate) fn token(user: &str) -> String {
    format!("token-of-{user}-0123456789")
}

/// Writes an access file with these users, and these grants.
pub(crate) fn write_access(folder: &TempDir, users: &[&str], grants: &str) -> PathBuf {
    let entries = users.iter().map(|user| entry_for(user, &Secret::new(token(user))).unwrap());
    let path = folder.path().join("access.toml");
    std::fs::write(&path, entries.collect::<String>() + grants).unwrap();
    path
}

pub(crate) const GRANTS: &str = r#"
[[grant]]
to = "user:root"
on = "*"
right = "admin"

[[grant]]
to = "user:writer"
on = "a"
right = "write"

[[grant]]
to = "user:reader"
on = "a"
right = "read"

[[grant]]
to = "user:other"
on = "b"
right = "admin"
"#;

/// A server with users: `root` may do everything, `writer` and `reader` what they are called in the namespace `a`,
/// `other` everything in the namespace `b`, and `nobody` nothing.
pub(crate) async fn secured() -> Running {
    let (folder, config) = local();
    let access = write_access(&folder, &["root", "writer", "reader", "other", "nobody"], GRANTS);
    start(folder, Config { security: Security { access: Some(access), ..Security::default() }, ..config }).await
}

pub(crate) fn schema() -> Value {
    json!({"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": false, "type": "long"}]})
}

pub(crate) fn view_version() -> Value {
    json!({
        "version-id": 1, "timestamp-ms": 1_700_000_000_000_i64, "schema-id": 0, "summary": {"engine-name": "test"},
        "default-namespace": ["a"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "test"}],
    })
}

impl Running {
    pub(crate) fn request(&self, method: &str, path: &str, user: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{path}", self.base));
        if user.is_empty() { request } else { request.bearer_auth(token(user)) }
    }

    /// Sends a request; `Value::Null` is no body.
    pub(crate) async fn ask(&self, method: &str, path: &str, user: &str, body: &Value) -> (StatusCode, Value) {
        let mut request = self.request(method, path, user);
        if !body.is_null() {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let bytes = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(crate) async fn create_namespace(&self, parts: &[&str], user: &str) {
        let (status, answer) = self.ask("POST", "/v1/namespaces", user, &json!({"namespace": parts})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    pub(crate) async fn create_table(&self, namespace: &str, name: &str, user: &str) -> Value {
        let path = format!("/v1/namespaces/{namespace}/tables");
        let (status, answer) = self.ask("POST", &path, user, &json!({"name": name, "schema": schema()})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    /// Asks the server to end.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits for its end.
    pub(crate) async fn ended(self) -> std::io::Result<()> {
        self.ended.await.unwrap()
    }
}
