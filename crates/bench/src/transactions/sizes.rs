//! What does an entry cost on disk? In the embedded store after it was closed, or in a server.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use glidepath_env::{Cause, Env, Table};
use glidepath_kv::{AnyKv, Embedded, EmbeddedOptions};
use glidepath_model::Span;
use glidepath_stores::LiveEnv;
use glidepath_txn::table::{DecideError, Options, Transactions};
use glidepath_txn::{Encoding, Original, Outcome, Tickets, Timestamp};

use super::{Context, Line, Part, TxnBenchError};

/// Transactions in one call.
const PAGE: u64 = 4096;

/// The bytes of the store's memory for entries that are not yet where they stay: small, so that few are left there at
/// the end; but with many entries, files of so few would be merged all the time.
fn memtable(entries: u64) -> u64 {
    (entries / 10).max(32 << 10)
}

/// Fewer entries would be in the journal for more than a tenth.
pub const LEAST_ENTRIES: u64 = 50_000;

/// In a folder of its own for each encoding.
pub(super) async fn of_files(
    context: &Context<'_>,
    scratch: &Path,
    add: &mut impl FnMut(Line),
) -> Result<(), TxnBenchError> {
    for (name, encoding) in encodings() {
        let folder = scratch.join(format!("bytes-{name}"));
        let memtable_bytes = memtable(context.plan.entries);
        let open = || Embedded::open(&folder, &EmbeddedOptions { memtable_bytes, ..EmbeddedOptions::default() });
        let written = write(context, AnyKv::Embedded(open()?), &context.table(name)?, encoding).await?;
        if context.stopped() {
            return Ok(());
        }
        // Opening it again empties the journal of what is in files already.
        drop(open()?);
        add(written.line(name, size(&folder)?));
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// In tables of the server.
pub(super) async fn of_server(context: &Context<'_>, add: &mut impl FnMut(Line)) -> Result<(), TxnBenchError> {
    // In memory there are none.
    if context.store.is_exclusive() {
        return Ok(());
    }
    for (name, encoding) in encodings() {
        let table = context.table(&format!("bytes_{name}"))?;
        let written = write(context, context.store.clone(), &table, encoding).await?;
        if context.stopped() {
            return Ok(());
        }
        let bytes =
            context.store.disk_bytes(&table).await.map_err(|error| TxnBenchError::Size(Cause::from_error(error)))?;
        if let Some(bytes) = bytes {
            add(written.line(name, bytes));
        }
    }
    Ok(())
}

fn encodings() -> [(&'static str, Encoding); 2] {
    [("original", Encoding::Original(Original)), ("tickets", Encoding::Tickets(Tickets::default()))]
}

/// Entries that were written.
struct Written {
    entries: u64,
    took: Span,
}

impl Written {
    fn line(&self, encoding: &str, bytes: u64) -> Line {
        let entries = self.entries;
        Line {
            part: Part::Bytes,
            what: format!("{encoding}, {entries} entries"),
            clients: 1,
            rows: None,
            per_second: entries as f64 / self.took.as_secs_f64(),
            latency_ms: [None; 3],
            errors: 0,
            first_error: None,
            bytes_per_entry: Some(bytes as f64 / entries.max(1) as f64),
        }
    }
}

/// Writes the entries of the plan, many in a call.
async fn write(
    context: &Context<'_>,
    store: AnyKv,
    table: &Table,
    encoding: Encoding,
) -> Result<Written, TxnBenchError> {
    let (env, entries) = (LiveEnv::new(), context.plan.entries);
    let began = env.now();
    let options = Options { cached: 0, ..Options::default() };
    let table = Transactions::create(env, store, table.clone(), encoding, options).await?;
    let mut written = 0;
    while written < entries && !context.stopped() {
        let page = written + 1..=entries.min(written + PAGE);
        let ends: Vec<_> = page.filter_map(end).collect();
        table.decide_many(&ends).await.into_iter().collect::<Result<Vec<_>, DecideError>>()?;
        written += ends.len() as u64;
    }
    Ok(Written { entries: written, took: env.now().since(began) })
}

/// Like real ones: transactions start at every third timestamp or so, commit some timestamps later, and one in 20 is
/// aborted.
fn end(number: u64) -> Option<(Timestamp, Outcome)> {
    let start = 3 * number;
    let outcome = match number % 20 {
        0 => Outcome::Aborted,
        _ => Outcome::Committed(Timestamp::new(start + 1 + number * 7 % 1000).ok()?),
    };
    Some((Timestamp::new(start).ok()?, outcome))
}

/// What the files of the tables take on the disk, in whole blocks; the journals, of a size that does not grow with the
/// entries, are left out.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let is_journal = entry.path().extension().is_some_and(|ending| ending == "jnl");
        bytes += match () {
            () if metadata.is_dir() => size(&entry.path())?,
            () if is_journal => 0,
            () => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}
