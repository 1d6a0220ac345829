//! Health, metrics, limits, and the end of a server.

use std::time::{Duration, Instant};

use crate::support::{local, schema, secured, start};
use glidepath_server::{Limits, Operations};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn text(url: String) -> (StatusCode, String) {
    let answer = crate::support::client().get(url).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn health_and_metrics_are_told() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    assert_eq!(text(format!("{}/healthz", server.base)).await, (StatusCode::OK, "up\n".to_owned()));
    assert_eq!(text(format!("{}/readyz", server.base)).await, (StatusCode::OK, "ready\n".to_owned()));
    server.create_namespace(&["secret-name"], "").await;
    server.create_table("secret-name", "t", "").await;
    let uuid = json!({"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"});
    let commit = json!({"requirements": [uuid], "updates": []});
    let refused = server.ask("POST", "/v1/namespaces/secret-name/tables/t", "", &commit).await;
    assert_eq!(refused.0, StatusCode::CONFLICT, "{}", refused.1);
    let (status, metrics) = text(format!("{}/metrics", server.base)).await;
    assert_eq!(status, StatusCode::OK);
    for wanted in [
        "glidepath_commits_total 1",
        "glidepath_conflicts_total 1",
        "glidepath_errors_total{type=\"CommitFailedException\"} 1",
        "glidepath_requests_total{route=\"/v1/namespaces\",method=\"POST\",status=\"200\"} 1",
        "glidepath_file_seconds_count{operation=\"write\"} 1",
        "glidepath_requests_running 0",
        "glidepath_commits_waiting 0",
    ] {
        assert!(metrics.lines().any(|line| line == wanted), "{wanted} is not in\n{metrics}");
    }
    assert!(!metrics.contains("secret-name"));
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("glidepath_") && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn metrics_need_the_right_to_read_everything() {
    let server = secured().await;
    for (user, expected) in [("", 401), ("reader", 403), ("root", 200)] {
        let answer = server.request("GET", "/metrics", user).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{user}");
    }
    assert_eq!(server.request("GET", "/healthz", "").send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(server.request("GET", "/readyz", "").send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn operators_can_have_an_address_of_their_own() {
    let (folder, mut config) = local();
    config.operations = Operations { listen: Some("127.0.0.1:0".parse().unwrap()), ..Operations::default() };
    config.security.access = Some(crate::support::write_access(&folder, &["root"], crate::support::GRANTS));
    let server = start(folder, config).await;
    let own = server.operations.clone().unwrap();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(text(format!("{own}{path}")).await.0, StatusCode::OK, "{path}");
        assert_eq!(server.ask("GET", path, "root", &Value::Null).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(text(format!("{own}/v1/config")).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn requests_have_names() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    let answer = server.request("GET", "/v1/config", "").header("x-request-id", "mine-1").send().await.unwrap();
    assert_eq!(answer.headers()["x-request-id"], "mine-1");
    for wrong in ["two words", "", &"x".repeat(129)] {
        let answer = server.request("GET", "/v1/config", "").header("x-request-id", wrong).send().await.unwrap();
        assert_ne!(answer.headers()["x-request-id"], wrong);
    }
}

#[tokio::test]
async fn bodies_have_limits() {
    let (folder, mut config) = local();
    config.limits.most_body_bytes = 10_000;
    let server = start(folder, config).await;
    let long = json!({"namespace": ["x".repeat(20_000)]});
    let (status, answer) = server.ask("POST", "/v1/namespaces", "", &long).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!(413)));
    // Also if the length is not announced.
    let chunks = (0..20).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1000]));
    let body = reqwest::Body::wrap_stream(futures(chunks));
    let answer = server.request("POST", "/v1/namespaces", "").body(body).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let deep = format!("{}{}", "[".repeat(4000), "]".repeat(4000));
    for path in ["/v1/namespaces", "/v1/transactions/commit", "/v1/tables/rename"] {
        for body in [deep.clone(), format!("{{\"namespace\":[],\"x\":{deep}}}")] {
            let answer = server.request("POST", path, "").body(body).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path}");
        }
    }
    let wide = server.request("GET", "/v1/config", "").header("x-wide", "x".repeat(100_000));
    assert_eq!(wide.send().await.unwrap().status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(server.ask("GET", "/v1/config", "", &Value::Null).await.0, StatusCode::OK);
}

fn futures<T>(items: impl Iterator<Item = T>) -> impl futures_util::Stream<Item = T> {
    futures_util::stream::iter(items)
}

/// A request whose body does not come.
async fn hanging(base: &str) -> TcpStream {
    let mut stream = TcpStream::connect(base.trim_start_matches("http://")).await.unwrap();
    let head = "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\n{\"namespace\":";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn there_are_only_so_many_requests_at_once() {
    let (folder, mut config) = local();
    config.limits = Limits { most_requests: 2, ..Limits::default() };
    let server = start(folder, config).await;
    let held = [hanging(&server.base).await, hanging(&server.base).await];
    let mut turned_away = None;
    for _ in 0..100 {
        let answer =
            server.request("POST", "/v1/namespaces", "").json(&json!({"namespace": ["n"]})).send().await.unwrap();
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            turned_away = Some(answer);
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(turned_away.unwrap().headers()["retry-after"], "1");
    // Health is told nevertheless.
    assert_eq!(text(format!("{}/readyz", server.base)).await.0, StatusCode::OK);
    drop(held);
    for _ in 0..100 {
        if server.ask("GET", "/v1/config", "", &Value::Null).await.0 == StatusCode::OK {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the requests whose clients have gone are still counted");
}

#[tokio::test]
async fn bodies_have_a_limit_for_all_together() {
    let (folder, mut config) = local();
    config.limits = Limits { most_body_bytes: 1_000_000, all_bodies_bytes: 1_000_000, ..Limits::default() };
    let server = start(folder, config).await;
    let announced = async || {
        let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
        let head = "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    };
    let ask = async |name: &str, length: usize| {
        let body = json!({"namespace": [name], "properties": {"x": "x".repeat(length)}});
        server.ask("POST", "/v1/namespaces", "", &body).await
    };
    let silent = announced().await;
    assert_eq!(ask("announced", 500_000).await.0, StatusCode::OK, "what is announced takes no room");
    drop(silent);
    // One of the two bodies is turned away: perhaps the one that is held, so it is sent again.
    let mut turned_away = None;
    for index in 0..100 {
        let mut held = announced().await;
        held.write_all(&vec![b' '; 900_000]).await.unwrap();
        assert_eq!(ask(&format!("small{index}"), 50_000).await.0, StatusCode::OK, "small requests have room");
        let (status, answer) = ask(&format!("n{index}"), 500_000).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            turned_away = Some((index, answer));
            break;
        }
    }
    let (index, answer) = turned_away.unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains("nothing was done"), "{answer}");
    for _ in 0..100 {
        match ask(&format!("n{index}"), 500_000).await.0 {
            StatusCode::SERVICE_UNAVAILABLE => tokio::time::sleep(Duration::from_millis(10)).await,
            status => return assert_eq!(status, StatusCode::OK),
        }
    }
    panic!("the room of a body whose client has gone is still taken");
}

#[tokio::test]
async fn what_takes_too_long_is_answered() {
    let (folder, mut config) = local();
    config.limits = Limits { request_timeout: Duration::from_millis(300), ..Limits::default() };
    let server = start(folder, config).await;
    let mut stream = hanging(&server.base).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("nothing was done"), "{answer}");
}

#[tokio::test]
async fn a_late_change_is_of_unknown_outcome() {
    let (folder, mut config) = local();
    config.limits = Limits { request_timeout: Duration::from_nanos(1), ..Limits::default() };
    let server = start(folder, config).await;
    let mut unknown = 0;
    for index in 0..20 {
        let body = json!({"namespace": [format!("n{index}")]});
        let (status, answer) = server.ask("POST", "/v1/namespaces", "", &body).await;
        if status == StatusCode::GATEWAY_TIMEOUT {
            unknown += 1;
            assert_eq!(answer["error"]["type"], "CommitStateUnknownException");
        } else {
            assert!(status == StatusCode::REQUEST_TIMEOUT || status == StatusCode::OK, "{status} {answer}");
        }
    }
    assert!(unknown > 0);
    let (status, _) = server.ask("GET", "/v1/namespaces", "", &Value::Null).await;
    assert!(matches!(status.as_u16(), 200 | 503));
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let (folder, mut config) = local();
    config.limits = Limits { idle_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = start(folder, config).await;
    let address = server.base.trim_start_matches("http://").to_owned();
    for said in ["", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{said:?} keeps its connection");
    }
}

#[tokio::test]
async fn a_request_whose_client_goes_away_is_counted_and_done() {
    let (folder, mut config) = local();
    config.added_latency = Duration::from_millis(100);
    let server = start(folder, config).await;
    let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    let request = "POST /v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 19\r\n\r\n{\"namespace\":[\"a\"]}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let metrics = || text(format!("{}/metrics", server.base));
    while !metrics().await.1.lines().any(|line| line == "glidepath_requests_running 1") {}
    drop(stream);
    let counted = "glidepath_requests_total{route=\"/v1/namespaces\",method=\"POST\",status=\"499\"} 1";
    while !metrics().await.1.lines().any(|line| line == counted) {}
    while server.ask("GET", "/v1/namespaces/a", "", &Value::Null).await.0 != StatusCode::OK {}
}

#[tokio::test]
async fn an_ending_server_answers_what_has_arrived() {
    let (folder, mut config) = local();
    config.operations = Operations {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        drain_delay: Duration::from_millis(500),
        drain_timeout: Duration::from_secs(20),
    };
    let mut server = start(folder, config).await;
    server.create_namespace(&["a"], "").await;
    let own = server.operations.clone().unwrap();
    let mut late = hanging(&server.base).await;
    server.stop();
    let begun = Instant::now();
    while text(format!("{own}/readyz")).await.0 == StatusCode::OK {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    // Not ready, and still serving.
    let (status, _) =
        server.ask("POST", "/v1/namespaces/a/tables", "", &json!({"name": "t", "schema": schema()})).await;
    assert_eq!(status, StatusCode::OK);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let address = server.base.trim_start_matches("http://").to_owned();
    assert!(TcpStream::connect(&address).await.is_err(), "it still accepts");
    late.write_all(b"[\"late-one\"]}    ").await.unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.ended().await.unwrap();
}

#[tokio::test]
async fn a_server_does_not_wait_for_ever() {
    let (folder, mut config) = local();
    config.operations.drain_timeout = Duration::from_millis(200);
    let mut server = start(folder, config).await;
    let _held = hanging(&server.base).await;
    while server.ask("GET", "/metrics", "", &Value::Null).await.0 != StatusCode::OK {}
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop();
    assert_eq!(server.ended().await.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

/// What a server knows may be all in its memory.
#[tokio::test]
async fn a_server_whose_store_is_gone_is_not_ready() {
    let (folder, config) = local();
    let (there, away) = (folder.path().join("catalog"), folder.path().join("away"));
    let server = start(folder, config).await;
    let readyz = || text(format!("{}/readyz", server.base));
    assert_eq!(readyz().await.0, StatusCode::OK);
    std::fs::rename(&there, &away).unwrap();
    let (status, words) = readyz().await;
    assert_eq!((status, &*words), (StatusCode::SERVICE_UNAVAILABLE, "the catalog cannot be read; the log says why\n"));
    std::fs::rename(&away, &there).unwrap();
    assert_eq!(readyz().await.0, StatusCode::OK);
}

/// A namespace whose answer has more than a megabyte, and clients that ask for it again and again, and read nothing.
async fn unread(server: &crate::support::Running) -> Vec<TcpStream> {
    let long = "x".repeat(1 << 20);
    let made = json!({"namespace": ["long"], "properties": {"words": long}});
    assert_eq!(server.ask("POST", "/v1/namespaces", "", &made).await.0, StatusCode::OK);
    let asked = "GET /v1/namespaces/long HTTP/1.1\r\nhost: glidepath\r\n\r\n".repeat(40);
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
        stream.write_all(asked.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    silent
}

#[tokio::test]
async fn the_properties_of_a_namespace_have_a_limit() {
    let (folder, config) = local();
    let server = start(folder, config).await;
    let ask = async |path: &str, body: Value| server.ask("POST", path, "", &body).await.0;
    let long = |half_mebibytes: usize| "x".repeat(half_mebibytes << 19);
    let made = |half_mebibytes| json!({"namespace": ["n"], "properties": {"a": long(half_mebibytes)}});
    assert_eq!(ask("/v1/namespaces", made(5)).await, StatusCode::BAD_REQUEST);
    assert_eq!(ask("/v1/namespaces", made(2)).await, StatusCode::OK);
    for (key, half_mebibytes, expected) in
        [("b", 3, StatusCode::BAD_REQUEST), ("a", 3, StatusCode::OK), ("b", 1, StatusCode::BAD_REQUEST)]
    {
        let change = json!({"removals": [], "updates": {key: long(half_mebibytes)}});
        assert_eq!(ask("/v1/namespaces/n/properties", change).await, expected, "{key} {half_mebibytes}");
    }
}

/// What never comes fails the test.
async fn in_time(work: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap();
}

#[tokio::test]
async fn answers_that_are_not_read_take_no_more_than_allowed() {
    let (folder, mut config) = local();
    config.limits = Limits { all_answers_bytes: 4 << 20, ..Limits::default() };
    let server = start(folder, config).await;
    let silent = unread(&server).await;
    let asked = async || server.ask("GET", "/v1/namespaces/long", "", &Value::Null).await.0;
    in_time(async { while asked().await != StatusCode::SERVICE_UNAVAILABLE {} }).await;
    assert_eq!(server.ask("GET", "/v1/namespaces", "", &Value::Null).await.0, StatusCode::OK, "small answers pass");
    drop(silent);
    in_time(async { while asked().await != StatusCode::OK {} }).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    let (folder, mut config) = local();
    config.limits = Limits { idle_timeout: Duration::from_secs(3), ..Limits::default() };
    let server = start(folder, config).await;
    let silent = unread(&server).await;
    // On a busy machine a connection of its own may be ended before it has sent its request.
    let connections = async || {
        let answer = crate::support::client().get(format!("{}/metrics", server.base)).send().await.ok()?;
        let metrics = answer.text().await.ok()?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("glidepath_connections "))?;
        line.parse::<usize>().ok()
    };
    in_time(async { while connections().await.is_none_or(|count| count >= silent.len()) {} }).await;
    drop(silent);
}
