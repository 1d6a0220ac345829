//! How many conditional puts of one column does Cassandra take per second, from 1, 16 and 64 clients, into one row and
//! into 16?
//!
//! ```sh
//! scripts/cassandra exec cargo run --release -p glidepath-kv --example cassandra_speed [SECONDS]
//! ```
//!
//! A row is a partition, and a partition takes its conditional writes one after another. Values have 200 bytes. All
//! clients share one store, and each sends its next put when the one before is answered. Nothing is asserted.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glidepath_env::{KvStore, Table};
use glidepath_kv::Cassandra;
use glidepath_kv::cassandra::Options;
use tokio::task::JoinSet;

const SIZE: usize = 200;
const WARM_UP: Duration = Duration::from_secs(3);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let hosts = std::env::var("GLIDEPATH_CASSANDRA").map_err(|_| "run it by scripts/cassandra exec")?;
    let span = Duration::from_secs(std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?);
    let hosts: Vec<&str> = hosts.split(',').collect();
    let store = Cassandra::open(&hosts, "speed", &Options::default()).await?;
    let table = Table::new("puts").ok_or("no name of a table")?;
    store.create_table(&table).await?;
    load(&store, &table, "warm", 16, 16, WARM_UP).await?;
    println!("| rows | clients | puts/s | median ms | p99 ms |\n|---|---|---|---|---|");
    for rows in [1, 16] {
        for clients in [1, 16, 64] {
            let name = format!("{rows}/{clients}");
            let mut times = load(&store, &table, &name, rows, clients, span).await?;
            times.sort();
            let at = |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, Duration::as_secs_f64);
            let rate = times.len() as f64 / span.as_secs_f64();
            println!("| {rows} | {clients} | {rate:.0} | {:.1} | {:.1} |", at(0.5) * 1e3, at(0.99) * 1e3);
        }
    }
    Ok(())
}

/// How long each acknowledged put took.
async fn load(
    store: &Cassandra,
    table: &Table,
    name: &str,
    rows: usize,
    clients: usize,
    span: Duration,
) -> Result<Vec<Duration>> {
    let until = Instant::now() + span;
    let mut running = JoinSet::new();
    for client in 0..clients {
        let (store, table, name) = (store.clone(), table.clone(), name.to_owned());
        running.spawn(async move {
            let mut times = Vec::new();
            for number in client.. {
                let began = Instant::now();
                if began >= until {
                    break;
                }
                let row = Bytes::from(format!("{name}/{}", number % rows));
                let column = Bytes::from(format!("{client}/{number}"));
                store.put_unless_exists(&table, &row, &[(column, vec![b'x'; SIZE].into())]).await?;
                times.push(began.elapsed());
            }
            Ok::<_, glidepath_env::ConditionError>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(client) = running.join_next().await {
        times.extend(client??);
    }
    Ok(times)
}
