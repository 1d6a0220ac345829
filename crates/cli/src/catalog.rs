//! `glidepath catalog`: show, change and maintain a catalog of any protocol.
//!
//! One file for each group of subcommands: `change.rs` (all that commit), `look.rs`, `history.rs`, `vacuum.rs`,
//! `fsck.rs`. What they share: `place.rs` (from a URL to a catalog, and from failures to messages), `show.rs`
//! (formats).

use clap::{Args, Subcommand};
use glidepath_model::Name;

use crate::failure::Failure;

mod change;
mod fsck;
mod history;
mod look;
mod place;
mod show;
mod vacuum;

/// Create, change, inspect and maintain a catalog on a store
///
/// STORE is a URL: file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, kv+file:///directory
/// (one process at a time), postgres://user@host:port/database, cassandra://host:port/keyspace. The last two are in programs
/// built with --features postgres,cassandra. NAME is the path of a namespace, table or view, such as sales/2026/orders;
/// within a part, "/" is written %2F and "%" is written %25.
///
/// Exit codes: 0 done, 1 failed, 2 a mistake on the command line, 3 not found, 4 exists already, 5 not empty, 6
/// contention (not done; try again), 7 outcome unknown (may have been done), 8 fsck found damage, 9 of another kind or
/// changed, 10 done, but the output could not be written.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Create(change::Create),
    List(look::List),
    Describe(look::Describe),
    Exists(look::Exists),
    CreateNamespace(change::CreateNamespace),
    CreateTable(change::CreateTable),
    CreateView(change::CreateView),
    Set(change::Set),
    Drop(change::Drop),
    Rename(change::Rename),
    History(history::Arguments),
    Vacuum(vacuum::Arguments),
    Fsck(fsck::Arguments),
}

/// The arguments of every subcommand.
#[derive(Args, Debug)]
struct Common {
    /// The store of the catalog, by its URL
    #[arg(value_name = "STORE")]
    store: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create(create) => create.run(),
        Command::List(list) => list.run(),
        Command::Describe(describe) => describe.run(),
        Command::Exists(exists) => exists.run(),
        Command::CreateNamespace(create) => create.run(),
        Command::CreateTable(create) => create.run(),
        Command::CreateView(create) => create.run(),
        Command::Set(set) => set.run(),
        Command::Drop(drop) => drop.run(),
        Command::Rename(rename) => rename.run(),
        Command::History(history) => history.run(),
        Command::Vacuum(vacuum) => vacuum.run(),
        Command::Fsck(fsck) => fsck.run(),
    }
}

/// A name on the command line.
fn name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| match text.contains("://") {
        true => "this is the URL of a store, which comes before the name: STORE NAME".to_owned(),
        false => error.to_string(),
    })
}
