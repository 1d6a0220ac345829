//! How long does a commit take at a server, while another server commits to one of its tables all the time?
//!
//! Two servers on one folder, with a latency added to each request to the storage. Eight clients of the first commit to
//! the table `hot`. At the second, two clients commit to the table `calm`, and one to both tables at once. Prints the
//! commits of each and how long they took.
//!
//! ```sh
//! cargo run --release -p glidepath-server --example overtaken -- PROTOCOL [LATENCY_MS [SECONDS]]
//! ```

#![allow(clippy::disallowed_methods, reason = "the time of real servers is measured")]

use std::error::Error;
use std::time::{Duration, Instant};

use glidepath_protocols::registry::Protocol;
use glidepath_server::{Config, Server};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

type Anyhow<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Clients: their words, the server, and the tables they commit to.
const CLIENTS: [(&str, usize, &[&str], usize); 3] = [
    ("one table, at the first", 0, &["hot"], 8),
    ("another, at the second", 1, &["calm"], 2),
    ("both, at the second", 1, &["hot", "calm"], 1),
];

#[tokio::main]
async fn main() -> Anyhow<()> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: overtaken PROTOCOL [LATENCY_MS [SECONDS]]")?;
    let protocol =
        Protocol::ALL.iter().copied().find(|known| known.name() == name).ok_or("there is no such protocol")?;
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (latency, length) = (Duration::from_millis(number(30)?), Duration::from_secs(number(40)?));
    // The client speaks plain HTTP, and still asks for a library for TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir()?;
    let config = Config {
        protocol: Some(protocol),
        added_latency: latency,
        ..Config::of(&format!("file://{}/catalog", folder.path().display()))
    };
    let bases = [start(config.clone()).await?, start(config).await?];
    let http = Client::new();
    ask(&http, &format!("{}/v1/namespaces", bases[0]), &json!({"namespace": ["n"]})).await?;
    for table in ["hot", "calm"] {
        let columns = json!([{"id": 1, "name": "x", "required": false, "type": "long"}]);
        let schema = json!({"type": "struct", "schema-id": 0, "fields": columns});
        ask(&http, &format!("{}/v1/namespaces/n/tables", bases[0]), &json!({"name": table, "schema": schema})).await?;
    }
    let end = Instant::now() + length;
    let mut clients = JoinSet::new();
    for (kind, (_, server, tables, count)) in CLIENTS.into_iter().enumerate() {
        for client in 0..count {
            let (http, base) = (http.clone(), bases[server].clone());
            clients.spawn(async move {
                Ok::<_, Box<dyn Error + Send + Sync>>((kind, commits(&http, &base, tables, client, end).await?))
            });
        }
    }
    let mut took: [Vec<Duration>; 3] = Default::default();
    while let Some(client) = clients.join_next().await {
        let (kind, each) = client??;
        took[kind].extend(each);
    }
    println!("{name}, {} ms, {} s:", latency.as_millis(), length.as_secs());
    for ((words, ..), mut took) in CLIENTS.into_iter().zip(took) {
        took.sort_unstable();
        let at = |share: f64| took.get(((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1)));
        let [half, most] = [0.5, 1.0].map(|share| at(share).map_or(f64::NAN, Duration::as_secs_f64));
        println!("  {words}: {} commits; half of them took {half:.2} s, the longest {most:.2} s", took.len());
    }
    Ok(())
}

/// The URL of a server that runs until the process ends.
async fn start(config: Config) -> Anyhow<String> {
    let server = Server::start(config).await?;
    let base = format!("http://{}", server.address()?);
    tokio::spawn(server.serve(std::future::pending()));
    Ok(base)
}

/// Commits to these tables, one after the other until the time is over. Each is tried until it is done.
async fn commits(http: &Client, base: &str, tables: &[&str], client: usize, end: Instant) -> Anyhow<Vec<Duration>> {
    let mut took = Vec::new();
    while Instant::now() < end {
        let updates =
            json!([{"action": "set-properties", "updates": {format!("client{client}"): took.len().to_string()}}]);
        let change = |table: &&str| json!({"identifier": {"namespace": ["n"], "name": table}, "requirements": [], "updates": updates});
        let (path, body) = match tables {
            [table] => (format!("/v1/namespaces/n/tables/{table}"), json!({"requirements": [], "updates": updates})),
            tables => (
                "/v1/transactions/commit".to_owned(),
                json!({"table-changes": tables.iter().map(change).collect::<Vec<_>>()}),
            ),
        };
        let began = Instant::now();
        while !ask(http, &format!("{base}{path}"), &body).await? {}
        took.push(began.elapsed());
    }
    Ok(took)
}

/// Whether it was done; otherwise it was not, and may be sent again.
async fn ask(http: &Client, url: &str, body: &Value) -> Anyhow<bool> {
    let answer = http.post(url).json(body).send().await?;
    let status = answer.status();
    match status {
        StatusCode::SERVICE_UNAVAILABLE => Ok(false),
        status if status.is_success() => Ok(true),
        _ => Err(format!("{url}: {status} {}", answer.text().await?).into()),
    }
}
