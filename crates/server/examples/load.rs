//! Commits against any Iceberg REST server, as fast as it answers.
//!
//! `cargo run --release -p glidepath-server --example load -- URL CONNECTIONS SECONDS own|hot|load`
//!
//! - `own`: each connection has its own table, and sets a property of it with each commit;
//! - `hot`: all connections append to one table that asks for rebases, each against the head that it saw last, with a
//!   manifest and a manifest list in the warehouse, which must be on this machine (`file:`); a conflict is counted, and
//!   the append is tried again on the newest head;
//! - `load`: all connections load one table, without `If-None-Match`.
//!
//! Prints acknowledged requests per second, quantiles of their latencies, and what was not acknowledged; after `hot`,
//! also whether each acknowledged snapshot is in the table's history exactly once.

#![allow(clippy::disallowed_methods, reason = "a load runs in real time")]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, ManifestListWriter, ManifestWriterBuilder, PartitionSpec, Schema,
    Struct,
};
use serde_json::{Value, json};

type Anyhow<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Default)]
struct Tally {
    done: AtomicU64,
    conflicts: AtomicU64,
    others: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
    acknowledged: Mutex<BTreeSet<i64>>,
    failures: Mutex<BTreeSet<String>>,
}

#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    base: String,
    tally: Arc<Tally>,
}

impl Client {
    async fn send(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> Anyhow<(u16, Value)> {
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    async fn post(&self, path: &str, body: &Value) -> Anyhow<(u16, Value)> {
        self.send(reqwest::Method::POST, path, Some(body)).await
    }

    fn count(&self, status: u16, answer: &Value, took: Duration) -> bool {
        match status {
            200 | 204 => {
                self.tally.done.fetch_add(1, Ordering::Relaxed);
                self.tally.latencies.lock().expect("no panic").push(took);
                return true;
            }
            409 => self.tally.conflicts.fetch_add(1, Ordering::Relaxed),
            _ => self.tally.others.fetch_add(1, Ordering::Relaxed),
        };
        let words = answer["error"]["message"].as_str().unwrap_or_default();
        let mut failures = self.tally.failures.lock().expect("no panic");
        if failures.len() < 5 {
            failures.insert(format!("{status}: {}", words.chars().take(160).collect::<String>()));
        }
        false
    }
}

fn new_table(name: &str) -> Value {
    json!({
        "name": name,
        "schema": {"type": "struct", "schema-id": 0,
                   "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]},
        "properties": {"glidepath.append-rebase": "true", "write.metadata.previous-versions-max": "10"},
    })
}

async fn own(client: Client, number: usize, until: Instant, namespace: String) -> Anyhow<()> {
    let table = format!("t{number}");
    let (_, answer) = client.post(&format!("namespaces/{namespace}/tables"), &new_table(&table)).await?;
    let uuid = answer["metadata"]["table-uuid"].clone();
    let path = format!("namespaces/{namespace}/tables/{table}");
    for turn in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        let body = json!({
            "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
            "updates": [{"action": "set-properties", "updates": {"turn": turn.to_string()}}],
        });
        let from = Instant::now();
        let (status, answer) = client.post(&path, &body).await?;
        client.count(status, &answer, from.elapsed());
    }
    Ok(())
}

async fn loading(client: Client, until: Instant, namespace: String) -> Anyhow<()> {
    let path = format!("namespaces/{namespace}/tables/hot");
    while Instant::now() < until {
        let from = Instant::now();
        let (status, answer) = client.send(reqwest::Method::GET, &path, None).await?;
        client.count(status, &answer, from.elapsed());
    }
    Ok(())
}

/// Writes a manifest with one data file and the manifest list of a snapshot; returns the list's location.
async fn files(location: &str, snapshot: i64, parent: Option<(i64, String)>, sequence: i64) -> Anyhow<String> {
    let io = FileIO::new_with_fs();
    let schema = Arc::new(Schema::builder().with_fields([]).build()?);
    let path = format!("{location}/metadata/{snapshot}-m0.avro");
    let mut writer =
        ManifestWriterBuilder::new(io.new_output(&path)?, Some(snapshot), schema, PartitionSpec::unpartition_spec())
            .build_v2_data();
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(format!("{location}/data/{snapshot}.parquet"))
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .partition_spec_id(0)
        .record_count(1)
        .file_size_in_bytes(100)
        .build()?;
    writer.add_file(file, sequence)?;
    let manifest = writer.write_manifest_file().await?;
    let list = format!("{location}/metadata/snap-{snapshot}.avro");
    let mut lists =
        ManifestListWriter::v2(io.new_output(&list)?.writer().await?, snapshot, parent.as_ref().map(|p| p.0), sequence);
    let mut all = vec![manifest];
    if let Some((_, earlier)) = &parent {
        let bytes = io.new_input(earlier)?.read().await?;
        let earlier = iceberg::spec::ManifestList::parse_with_version(&bytes, iceberg::spec::FormatVersion::V2)?;
        all.extend(earlier.entries().iter().cloned());
    }
    lists.add_manifests(all.into_iter())?;
    lists.close().await?;
    Ok(list)
}

fn head(metadata: &Value) -> (Option<(i64, String)>, i64) {
    let current = metadata["refs"]["main"]["snapshot-id"].as_i64();
    let list = metadata["snapshots"].as_array().into_iter().flatten();
    let found = list.filter(|one| one["snapshot-id"].as_i64() == current).find_map(|one| one["manifest-list"].as_str());
    (current.zip(found.map(str::to_owned)), metadata["last-sequence-number"].as_i64().unwrap_or(0))
}

async fn hot(client: Client, number: usize, until: Instant, namespace: String) -> Anyhow<()> {
    let path = format!("namespaces/{namespace}/tables/hot");
    let (_, mut loaded) = client.send(reqwest::Method::GET, &format!("{path}?snapshots=refs"), None).await?;
    for turn in 0_i64.. {
        if Instant::now() >= until {
            break;
        }
        let snapshot = (number as i64 + 1) * 1_000_000_007 + turn;
        let metadata = &loaded["metadata"];
        let location = metadata["location"].as_str().unwrap_or_default().to_owned();
        let (parent, last) = head(metadata);
        let list = files(&location, snapshot, parent.clone(), last + 1).await?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis() as i64;
        let mut added = json!({
            "snapshot-id": snapshot, "sequence-number": last + 1, "timestamp-ms": now, "manifest-list": list,
            "schema-id": 0, "summary": {"operation": "append", "added-records": "1", "added-data-files": "1"},
        });
        if let Some((parent, _)) = &parent {
            added["parent-snapshot-id"] = json!(parent);
        }
        let body = json!({
            "requirements": [
                {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent.map(|p| p.0)},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": added},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot},
            ],
        });
        let from = Instant::now();
        let (status, answer) = client.post(&path, &body).await?;
        if client.count(status, &answer, from.elapsed()) {
            client.tally.acknowledged.lock().expect("no panic").insert(snapshot);
            loaded = answer;
        } else {
            loaded = client.send(reqwest::Method::GET, &format!("{path}?snapshots=refs"), None).await?.1;
        }
    }
    Ok(())
}

/// Whether each acknowledged snapshot is in the history exactly once.
async fn verified(client: &Client, namespace: &str) -> Anyhow<String> {
    let (_, loaded) = client.send(reqwest::Method::GET, &format!("namespaces/{namespace}/tables/hot"), None).await?;
    let snapshots = loaded["metadata"]["snapshots"].as_array().cloned().unwrap_or_default();
    let mut next = loaded["metadata"]["refs"]["main"]["snapshot-id"].as_i64();
    let mut history = BTreeSet::new();
    while let Some(id) = next {
        if !history.insert(id) {
            return Err("the history has a circle".into());
        }
        let found = snapshots.iter().find(|one| one["snapshot-id"].as_i64() == Some(id));
        next = found.and_then(|one| one["parent-snapshot-id"].as_i64());
    }
    let acknowledged = client.tally.acknowledged.lock().expect("no panic").clone();
    let lost = acknowledged.difference(&history).count();
    Ok(format!("{} acknowledged, {} in the history, {lost} lost", acknowledged.len(), history.len()))
}

#[tokio::main]
async fn main() -> Anyhow<()> {
    // The client speaks plain HTTP, and still asks for a library for TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let usage = "load URL CONNECTIONS SECONDS own|hot|load";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, connections, seconds, kind] = &arguments[..] else { return Err(usage.into()) };
    let (connections, seconds): (usize, u64) = (connections.parse()?, seconds.parse()?);
    let client = Client {
        http: reqwest::Client::builder().pool_max_idle_per_host(connections).build()?,
        base: base.trim_end_matches('/').to_owned(),
        tally: Arc::default(),
    };
    let namespace = format!("load{}", std::process::id());
    client.post("namespaces", &json!({"namespace": [namespace]})).await?;
    client.post(&format!("namespaces/{namespace}/tables"), &new_table("hot")).await?;
    if kind == "hot" {
        // A rebase needs a parent: the first append is made alone.
        hot(client.clone(), 1 << 20, Instant::now() + Duration::from_millis(1), namespace.clone()).await?;
    }
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let mut running = tokio::task::JoinSet::new();
    for number in 0..connections {
        let (client, namespace) = (client.clone(), namespace.clone());
        match kind.as_str() {
            "own" => running.spawn(own(client, number, until, namespace)),
            "hot" => running.spawn(hot(client, number, until, namespace)),
            "load" => running.spawn(loading(client, until, namespace)),
            _ => return Err(usage.into()),
        };
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended? {
            eprintln!("{error}");
        }
    }
    let took = began.elapsed().as_secs_f64();
    let tally = &client.tally;
    let mut latencies = tally.latencies.lock().expect("no panic").clone();
    latencies.sort_unstable();
    let at =
        |share: f64| latencies.get((latencies.len() as f64 * share) as usize).map_or(0.0, |d| d.as_secs_f64() * 1e3);
    let done = tally.done.load(Ordering::Relaxed);
    println!(
        "{kind} x{connections}: {:.1}/s; median {:.1} ms, p99 {:.1} ms; conflicts {}, others {}",
        done as f64 / took,
        at(0.5),
        at(0.99),
        tally.conflicts.load(Ordering::Relaxed),
        tally.others.load(Ordering::Relaxed),
    );
    for failure in tally.failures.lock().expect("no panic").iter() {
        println!("  {failure}");
    }
    if kind == "hot" {
        println!("  {}", verified(&client, &namespace).await?);
    }
    Ok(())
}
