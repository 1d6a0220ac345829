//! `glidepath txn`: a transaction service on a key-value store.
//!
//! One file for each group of subcommands: `write.rs` (all that change transactions or timestamps), `read.rs`,
//! `maintain.rs`, `bench.rs`. What they share is in `place.rs`: from a URL to a service, and from failures to messages
//! and exit codes.

use clap::{Args, Subcommand};
use glidepath_txn::Timestamp;

use crate::failure::Failure;

mod bench;
mod maintain;
mod place;
mod read;
mod write;

/// Give out timestamps, and record how transactions end
///
/// STORE is a URL: kv+file:///directory (this machine's disk, one process at a time),
/// postgres://user@host:port/database?schema=name, cassandra://host:port,host:port/keyspace?copies=3. The last two are in
/// programs built with --features postgres,cassandra. START and COMMIT are timestamps that `txn begin` gave out.
///
/// Exit codes: 0 done, 1 failed, 2 a mistake on the command line, 3 no such service, 4 the service exists already with
/// another table, 6 another process has the store open or took over the timestamps (not done; try again), 7 outcome
/// unknown (may have been done), 9 the transaction had ended otherwise, 10 done, but the output could not be written.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Create(write::Create),
    Begin(write::Begin),
    Put(write::Put),
    Abort(write::Abort),
    Settle(write::Settle),
    Get(read::Get),
    Scan(read::Scan),
    Describe(read::Describe),
    Migrate(maintain::Migrate),
    Restore(maintain::Restore),
    FastForward(maintain::FastForward),
    Bench(bench::Bench),
}

/// The arguments of every subcommand.
#[derive(Args, Debug)]
struct Common {
    /// The key-value store, by its URL
    #[arg(value_name = "STORE")]
    store: String,
    /// The service in the store: letters, digits and _, at most 32
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = service)]
    service: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    /// The command that does this with STORE, on the same service.
    fn command(&self, words: &str) -> String {
        match self.service.as_str() {
            "main" => format!("`glidepath txn {words}`"),
            name => format!("`glidepath txn {words} --service {name}`"),
        }
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create(create) => create.run(),
        Command::Begin(begin) => begin.run(),
        Command::Put(put) => put.run(),
        Command::Abort(abort) => abort.run(),
        Command::Settle(settle) => settle.run(),
        Command::Get(get) => get.run(),
        Command::Scan(scan) => scan.run(),
        Command::Describe(describe) => describe.run(),
        Command::Migrate(migrate) => migrate.run(),
        Command::Restore(restore) => restore.run(),
        Command::FastForward(forward) => forward.run(),
        Command::Bench(bench) => bench.run(),
    }
}

fn service(text: &str) -> Result<String, String> {
    match glidepath_txn::names::is_service(text) {
        true => Ok(text.to_owned()),
        false => Err("a service is named by letters, digits and _, at most 32, first a letter or _".to_owned()),
    }
}

/// A timestamp on the command line.
fn timestamp(text: &str) -> Result<Timestamp, String> {
    let number: u64 = text
        .parse()
        .map_err(|_| format!("a timestamp is a whole number from {} to {}", Timestamp::FIRST, Timestamp::LAST))?;
    Timestamp::new(number).map_err(|error| error.to_string())
}
