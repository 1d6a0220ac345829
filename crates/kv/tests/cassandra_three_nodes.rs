//! Nothing that was acknowledged is lost, and nobody is told another value than anybody else, when one of three nodes
//! is killed while writers put into the same cells.
//!
//! The nodes are this test's own: it starts and kills them by `scripts/cassandra`. It takes 40 to 100 seconds, most of
//! which is the start of the nodes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cassandra_support;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cassandra_support::{given, open};
use glidepath_env::{Cell, ConditionError, KvStore, ReadLevel, Table};
use glidepath_kv::Cassandra;
use glidepath_kv::cassandra::Options;
use tokio::sync::watch;

const WRITERS: usize = 8;
const STARTS: usize = 360;
const ROWS: usize = 16;

/// After so many starts of a writer a node is killed, and after so many nobody goes on before it is.
const KILL_AT: usize = STARTS / 3;
const WAIT_AT: usize = 2 * STARTS / 3;

/// The number of tries after which a writer gives up a write.
const MOST_TRIES: usize = 1000;

/// Three nodes in a folder, stopped in the end.
struct Nodes(String);

fn script(arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra");
    let output = Command::new(script).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

impl Nodes {
    fn start(folder: String) -> (Self, String) {
        let said = script(&["start3", &folder]);
        let hosts = said.split('\'').nth(1).unwrap_or_else(|| panic!("no addresses in {said:?}")).to_owned();
        (Self(folder), hosts)
    }

    fn kill(&self, node: &str) {
        script(&["kill-node", node, &self.0]);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        script(&["stop", &self.0]);
    }
}

/// What a writer was told of each start, and whether by an acknowledgement.
type Told = BTreeMap<usize, (Bytes, bool)>;

struct Writer {
    store: Cassandra,
    table: Table,
    name: usize,
    /// How many starts of all writers were decided.
    decided: Arc<AtomicUsize>,
    killed: watch::Receiver<bool>,
}

fn row(start: usize) -> Bytes {
    format!("row {}", start % ROWS).into()
}

fn column(start: usize) -> Bytes {
    format!("{start:06}").into()
}

impl Writer {
    /// Even writers commit, odd ones abort; what they write names them.
    fn value(&self) -> Bytes {
        let does = if self.name.is_multiple_of(2) { "commits" } else { "aborts" };
        format!("{} {does}", self.name).into()
    }

    async fn work(mut self) -> Told {
        let mut told = Told::new();
        // Batches of one, two and three columns of a row, which overlap with those of other writers.
        let size = 1 + self.name % 3;
        for part in 0..STARTS.div_ceil(ROWS * size) {
            let first = part * size * ROWS;
            if first >= WAIT_AT {
                self.killed.wait_for(|killed| *killed).await.unwrap();
            }
            for offset in 0..ROWS {
                let starts = (0..size).map(|n| first + n * ROWS + offset).filter(|start| *start < STARTS);
                self.settle(starts.collect(), &mut told).await;
            }
        }
        told
    }

    /// Puts into these starts of one row until it was told of each what it is. What is unknown is settled by the same
    /// put again.
    async fn settle(&self, mut starts: Vec<usize>, told: &mut Told) {
        let mut last = None;
        for _ in 0..MOST_TRIES {
            let Some(first) = starts.first() else { return };
            let columns: Vec<_> = starts.iter().map(|start| (column(*start), self.value())).collect();
            match self.store.put_unless_exists(&self.table, &row(*first), &columns).await {
                Ok(()) => {
                    self.decided.fetch_add(starts.len(), Ordering::Relaxed);
                    told.extend(starts.drain(..).map(|start| (start, (self.value(), true))));
                }
                Err(ConditionError::Lost { found }) => {
                    assert!(!found.is_empty(), "lost, and nothing was found");
                    for (name, value) in found {
                        let place = starts.iter().position(|start| column(*start) == name);
                        told.insert(starts.remove(place.expect("a column of the put")), (value, false));
                    }
                }
                // No acknowledgement; and under load no pause would be a storm.
                Err(error) => {
                    last = Some(error);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        panic!("{starts:?} failed {MOST_TRIES} times, the last time: {last:?}");
    }
}

async fn open_writers(hosts: &str, killed: &watch::Receiver<bool>) -> Vec<Writer> {
    let (table, decided) = (Table::new("starts").unwrap(), Arc::default());
    let mut writers = Vec::new();
    let options = Options { replication_factor: NonZeroUsize::new(3), ..Options::default() };
    for name in 0..WRITERS {
        let store = open(hosts, "three", &options).await;
        let (table, decided) = (table.clone(), Arc::clone(&decided));
        writers.push(Writer { store, table, name, decided, killed: killed.clone() });
    }
    writers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_loses_nothing_and_splits_nothing() {
    let Some(folder) = given("GLIDEPATH_CASSANDRA_NODES") else { return };
    let (nodes, hosts) = Nodes::start(folder);
    let (kill, killed) = watch::channel(false);
    let writers = open_writers(&hosts, &killed).await;
    // All at once, through different nodes: one table comes of it.
    let made = writers.iter().map(|writer| writer.store.create_table(&writer.table));
    #[allow(clippy::disallowed_methods, reason = "live")]
    let made = futures::future::join_all(made).await;
    for made in made {
        made.unwrap();
    }
    let (table, decided) = (writers[0].table.clone(), writers[0].decided.clone());
    let running: Vec<_> = writers.into_iter().map(|writer| tokio::spawn(writer.work())).collect();
    while decided.load(Ordering::Relaxed) < KILL_AT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let nodes = tokio::task::spawn_blocking(move || {
        nodes.kill("3");
        nodes
    });
    let nodes = nodes.await.unwrap();
    println!("node 3 was killed when {} of {STARTS} starts were decided", decided.load(Ordering::Relaxed));
    kill.send(true).unwrap();
    let mut told = Vec::new();
    for writer in running {
        told.push(writer.await.unwrap());
    }
    // One who was not there, and whom only two nodes answer.
    let reader = open(&hosts, "three", &Options::default()).await;
    judge(&reader, &table, &told).await;
    drop(nodes);
}

/// Until the others have noticed that a node is gone, which takes up to 20 seconds, they ask it too, and no other one
/// instead: the table says that they must not.
async fn read(reader: &Cassandra, table: &Table, cells: &[Cell], level: ReadLevel) -> Vec<Option<Bytes>> {
    let mut last = None;
    for _ in 0..MOST_TRIES {
        match reader.get(table, cells, level).await {
            Ok(found) => return found,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a read failed {MOST_TRIES} times, the last time: {last:?}");
}

async fn judge(reader: &Cassandra, table: &Table, told: &[Told]) {
    let cells: Vec<_> = (0..STARTS).map(|start| Cell { row: row(start), column: column(start) }).collect();
    let linearizable = read(reader, table, &cells, ReadLevel::Linearizable).await;
    let plain = read(reader, table, &cells, ReadLevel::Plain).await;
    let mut acknowledged = 0;
    for start in 0..STARTS {
        let there = linearizable[start].as_ref().unwrap_or_else(|| panic!("start {start} is not there"));
        let mut winners = 0;
        for (writer, told) in told.iter().enumerate() {
            let (value, won) = &told[&start];
            assert_eq!(value, there, "start {start}: writer {writer} was told another value than there is");
            winners += usize::from(*won);
        }
        assert!(winners <= 1, "start {start}: {winners} writers won");
        if winners == 1 {
            assert_eq!(plain[start].as_ref(), Some(there), "start {start}: a plain read misses what was acknowledged");
        }
        acknowledged += winners;
    }
    println!("{acknowledged} of {STARTS} starts were acknowledged; the others were found by who had written them");
}
