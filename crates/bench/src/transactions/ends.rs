//! How many transactions end per second, and how many ends are read?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glidepath_env::{Env, Purpose};
use glidepath_kv::AnyKv;
use glidepath_stores::LiveEnv;
use glidepath_txn::table::{DecideError, Options, Status, Transactions};
use glidepath_txn::writer::Batches;
use glidepath_txn::{Encoding, Original, Outcome, Partitioning, Tickets, Timestamp};

use super::closed_loop::{Looped, closed_loop};
use super::{Context, Line, Part, TxnBenchError};

/// Clients of reads.
pub(super) const READERS: [u32; 2] = [100, 250];

/// Clients of the parts *batches* and *cache*.
const CLIENTS: u32 = 16;

/// Transactions that are there to be read.
const PREPARED: u64 = 10_000;

/// Ends in one call of the part *batches*.
const BATCH: u64 = 256;

/// Reads in one call of the part *cache*: reading the clock costs more than reading the cache.
const CACHED: u64 = 1000;

type Table = Transactions<LiveEnv, AnyKv>;

impl Context<'_> {
    async fn transactions(&self, name: &str, encoding: Encoding, cached: usize) -> Result<Table, TxnBenchError> {
        let options = Options { cached, ..Options::default() };
        let table = self.table(name)?;
        Ok(Transactions::create(LiveEnv::new(), self.store.clone(), table, encoding, options).await?)
    }
}

/// Why a call of the benchmark did not do what it should.
fn other_end(found: Outcome) -> String {
    format!("the transaction had ended otherwise: {found:?}")
}

/// A transaction, and its commit one later. Numbers that are no timestamps are not reached.
fn end(number: u64) -> Option<(Timestamp, Outcome)> {
    Some((Timestamp::new(number).ok()?, Outcome::Committed(Timestamp::new(number + 1).ok()?)))
}

fn timestamp(number: u64) -> Result<Timestamp, String> {
    Timestamp::new(number).map_err(|error| error.to_string())
}

/// Tickets with so many rows in a partition, of the usual quantum.
fn tickets(rows: u64) -> Option<Encoding> {
    let partitioning = Partitioning { rows, ..Partitioning::default() };
    Tickets::new(partitioning).ok().map(Encoding::Tickets)
}

/// Start timestamps of a client, all in one row of a partition; clients are spread over the rows.
struct Starts {
    rows: u64,
    next: Vec<AtomicU64>,
}

impl Starts {
    fn new(rows: u64) -> Self {
        // 0 is no timestamp.
        Self { rows, next: (0..rows).map(|_| AtomicU64::new(1)).collect() }
    }

    /// The next `count` start timestamps of the row of this client.
    fn take(&self, client: u32, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (rows, row) = (self.rows, u64::from(client) % self.rows);
        let first = self.next[row as usize].fetch_add(count, Ordering::Relaxed);
        (first..first + count).map(move |number| number * rows + row)
    }
}

pub(super) async fn puts(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    let mut cases = vec![(None, Encoding::Original(Original))];
    cases.extend(context.plan.rows.iter().filter_map(|rows| Some((Some(*rows), tickets(*rows)?))));
    for (rows, encoding) in cases {
        for clients in &context.plan.clients {
            if context.stopped() {
                return Ok(());
            }
            let name = format!("put{}_{clients}", rows.unwrap_or_default());
            let table = context.transactions(&name, encoding, 0).await?;
            let batches = Batches::new();
            // The writer ends when the last handle to its batches is dropped.
            let writer = batches.writer(LiveEnv::new(), context.store.clone()).ok();
            let writing = writer.map(|writer| tokio::spawn(writer.serve()));
            let starts = Arc::new(Starts::new(rows.unwrap_or(1)));
            let put = move |client, _| {
                let (table, batches, starts) = (table.clone(), batches.clone(), Arc::clone(&starts));
                async move {
                    let (start, outcome) = starts.take(client, 1).next().and_then(end).ok_or("no timestamp is left")?;
                    let found = batches.decide(&table, start, outcome).await.map_err(|error| error.to_string())?;
                    if found == outcome { Ok(1) } else { Err(other_end(found)) }
                }
            };
            let looped = closed_loop(*clients, context.plan.duration, context.stop, put).await;
            if let Some(writing) = writing {
                // It has nothing left to do; an error is a panic, which was printed.
                let _ = writing.await;
            }
            let what = match rows {
                None => "original".to_owned(),
                Some(1) => "tickets in 1 row".to_owned(),
                Some(rows) => format!("tickets in {rows} rows"),
            };
            add(Line { rows, ..Line::of(Part::Puts, what, *clients, looped) });
        }
    }
    Ok(())
}

pub(super) async fn batches(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    let rows = Partitioning::default().rows;
    let Some(encoding) = tickets(rows) else { return Ok(()) };
    let table = context.transactions("batches", encoding, 0).await?;
    let starts = Arc::new(Starts::new(rows));
    let put = move |client, _| {
        let (table, starts) = (table.clone(), Arc::clone(&starts));
        async move {
            let ends: Vec<_> = starts.take(client, BATCH).filter_map(end).collect();
            for (found, (_, outcome)) in table.decide_many(&ends).await.into_iter().zip(&ends) {
                let found = found.map_err(|error| error.to_string())?;
                if found != *outcome {
                    return Err(other_end(found));
                }
            }
            Ok(BATCH)
        }
    };
    let looped = closed_loop(CLIENTS, context.plan.duration, context.stop, put).await;
    add(Line::of(Part::Batches, format!("{BATCH} ends of a row in a call"), CLIENTS, looped));
    Ok(())
}

/// Ends the transactions with even start timestamps.
async fn prepare(table: &Table) -> Result<(), TxnBenchError> {
    let ends: Vec<_> = (1..=PREPARED).filter_map(|number| end(2 * number)).collect();
    for page in ends.chunks(1000) {
        table.decide_many(page).await.into_iter().collect::<Result<Vec<_>, DecideError>>()?;
    }
    Ok(())
}

pub(super) async fn reads(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    let Some(encoding) = tickets(Partitioning::default().rows) else { return Ok(()) };
    let table = context.transactions("reads", encoding, 0).await?;
    prepare(&table).await?;
    for clients in READERS {
        for share in [100, 50] {
            if context.stopped() {
                return Ok(());
            }
            let table = table.clone();
            let read = move |_, _| {
                let table = table.clone();
                async move {
                    let random = LiveEnv::new().draw(Purpose::Tables);
                    // The lowest bit says whether it is there, where that is to be left to chance.
                    let missing = u64::from(share == 50) * (random & 1);
                    let start = timestamp(2 * ((random >> 1) % PREPARED + 1) + missing)?;
                    let found = table.get(start).await.map_err(|error| error.to_string())?;
                    match (found != Status::InProgress) == (missing == 0) {
                        true => Ok(1),
                        false => Err(format!("transaction {start}: {found:?}")),
                    }
                }
            };
            let looped = closed_loop(clients, context.plan.duration, context.stop, read).await;
            add(Line::of(Part::Reads, format!("{share} % are there"), clients, looped));
        }
    }
    Ok(())
}

pub(super) async fn cache(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    let Some(encoding) = tickets(Partitioning::default().rows) else { return Ok(()) };
    let table = context.transactions("cache", encoding, 1_000_000).await?;
    prepare(&table).await?;
    let starts: Vec<_> = (1..=PREPARED).filter_map(|number| Timestamp::new(2 * number).ok()).collect();
    table.get_many(&starts).await?;
    let read = move |client, call: u64| {
        let table = table.clone();
        async move {
            let from = u64::from(client) * 7919 + call * CACHED;
            for number in from..from + CACHED {
                let start = timestamp(2 * (number % PREPARED + 1))?;
                if table.get(start).await.map_err(|error| error.to_string())? == Status::InProgress {
                    return Err(format!("transaction {start} is not there"));
                }
            }
            Ok(CACHED)
        }
    };
    let looped = closed_loop(CLIENTS, context.plan.duration, context.stop, read).await;
    // The latency of a call of a thousand reads says nothing.
    let looped = Looped { latency_ms: [None; 3], ..looped };
    add(Line::of(Part::Cache, format!("{PREPARED} ends in memory"), CLIENTS, looped));
    Ok(())
}
