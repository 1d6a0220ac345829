//! The subcommands that create a service, give out timestamps and end transactions.

use std::time::Duration;

use clap::{Args, ValueEnum};
use glidepath_env::Table;
use glidepath_model::Span;
use glidepath_stores::LiveEnv;
use glidepath_txn::service::Service;
use glidepath_txn::table::{Options, Status};
use glidepath_txn::{Encoding, Original, Outcome, Partitioning, Staged, Tickets, Timestamp, names};
use serde_json::json;

use super::place::{self, Opened, Site, object, otherwise, words};
use super::{Common, timestamp};
use crate::failure::{Failure, code, done};
use crate::output::{print, print_json};
use crate::whole::between;

/// The most rows of a partition: a scan looks at all of them, whether they are there or not.
const MOST_ROWS: u64 = 65_536;

/// How a table is encoded.
#[derive(Args, Debug)]
pub(super) struct Encoded {
    /// How transactions are written: see docs/transactions.md [default of `create`: tickets; `migrate` needs it]
    #[arg(long, value_enum)]
    encoding: Option<Kind>,
    /// Timestamps of a partition of tickets: a multiple of --rows
    #[arg(long, value_name = "TIMESTAMPS", default_value_t = Partitioning::default().quantum)]
    quantum: u64,
    /// Rows over which the timestamps of a partition are spread
    #[arg(long, value_name = "ROWS", default_value_t = Partitioning::default().rows, value_parser = between::<u64>(1, MOST_ROWS))]
    rows: u64,
    /// The table in the store [default: the service and the encoding, such as main_tickets]
    #[arg(long, value_name = "TABLE", value_parser = table)]
    table: Option<Table>,
}

/// An encoding, without its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A row for each transaction, as AtlasDB's first table has it
    Original,
    /// Compact, in rows over which concurrent transactions are spread
    #[default]
    Tickets,
    /// Tickets in two phases, for stores whose failed conditional writes may show in one read and not in the next
    Staged,
}

impl Encoded {
    /// Whether it says which encoding.
    pub(super) fn is_given(&self) -> bool {
        self.encoding.is_some()
    }

    /// The table and its encoding.
    pub(super) fn of(&self, service: &str) -> Result<(Table, Encoding), Failure> {
        let partitioning = Partitioning { quantum: self.quantum, rows: self.rows };
        let mistake = |error: glidepath_txn::PartitioningError| Failure::Mistake(error.to_string());
        let encoding = match self.encoding.unwrap_or_default() {
            Kind::Original if partitioning != Partitioning::default() => {
                let words = "--quantum and --rows are of tickets and staged: the original encoding has a row for each transaction";
                return Err(Failure::Mistake(words.to_owned()));
            }
            Kind::Original => Encoding::Original(Original),
            Kind::Tickets => Encoding::Tickets(Tickets::new(partitioning).map_err(mistake)?),
            Kind::Staged => Encoding::Staged(Staged::new(partitioning).map_err(mistake)?),
        };
        let table = self.table.clone().or_else(|| names::transactions(service, encoding));
        let table = table.ok_or_else(|| Failure::Mistake(format!("{service:?} is no service")))?;
        Ok((table, encoding))
    }
}

fn table(text: &str) -> Result<Table, String> {
    Table::new(text).ok_or_else(|| {
        format!("a table is named by letters, digits and _, at most {}, first a letter or _", Table::LONGEST)
    })
}

/// Create a service, with its first table; nothing changes where it exists
#[derive(Args, Debug)]
pub(super) struct Create {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    encoded: Encoded,
}

impl Create {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let encoded = self.encoded.of(&self.common.service)?;
        let opened = Opened::of(&self.common)?;
        let created = Service::create(
            LiveEnv::new(),
            opened.store.clone(),
            &self.common.service,
            encoded.clone(),
            Options::default(),
        );
        let created = opened.wait(created).map_err(|error| place::service(&error))?;
        let site = Site::with(&self.common, opened, created)?;
        let first = site.service.ranges().first().map(|range| range.table.clone());
        if first.as_ref() != Some(&encoded.0) {
            let words = format!(
                "the service {} exists already, with the table {}; `glidepath txn migrate` changes its encoding",
                self.common.service,
                site.service.ranges().last().map_or_else(String::new, |range| range.table.to_string())
            );
            return Err(Failure::Coded(code::EXISTS, words));
        }
        let found = site.wait(site.service.encoding_of(&encoded.0)).map_err(|error| place::service(&error))?;
        if found != encoded.1 {
            let words = format!(
                "the service {} exists already, with the table {} encoded as {found}, not as {}",
                self.common.service, encoded.0, encoded.1
            );
            return Err(Failure::Coded(code::EXISTS, words));
        }
        done(match self.common.json {
            true => print_json(&json!({ "service": self.common.service, "table": encoded.0.as_str() })),
            false => print(&format!("service {} with table {}", self.common.service, encoded.0)),
        })
    }
}

/// Give out timestamps, one a line: begin transactions
#[derive(Args, Debug)]
pub(super) struct Begin {
    #[command(flatten)]
    common: Common,
    /// How many
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = between::<u64>(1, 1_000_000))]
    count: u64,
}

impl Begin {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        let allocator = site.allocator(self.count)?;
        let run = site.wait(allocator.take(self.count)).map_err(|error| place::take(&error))?;
        done(match self.common.json {
            true => print_json(&run.range().collect::<Vec<_>>()),
            false => {
                let lines: Vec<String> = run.iter().map(|start| start.to_string()).collect();
                print(&lines.join("\n"))
            }
        })
    }
}

/// Commit a transaction, unless it has ended
#[derive(Args, Debug)]
pub(super) struct Put {
    #[command(flatten)]
    common: Common,
    /// The timestamp at which it started
    #[arg(value_name = "START", value_parser = timestamp)]
    start: Timestamp,
    /// A timestamp that was given out after START [default: the next one]
    #[arg(value_name = "COMMIT", value_parser = timestamp)]
    commit: Option<Timestamp>,
}

impl Put {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        site.given_out([self.start].into_iter().chain(self.commit))?;
        if self.commit.is_some_and(|commit| commit <= self.start) {
            let words = format!("COMMIT is given out after START: it must be {} or later", self.start.get() + 1);
            return Err(Failure::Mistake(words));
        }
        // Where any commit will do, an earlier try of the same command may have made it.
        let will_do = |found: Outcome| match found {
            Outcome::Committed(commit) => self.commit.is_none_or(|wanted| wanted == commit),
            Outcome::Aborted => false,
        };
        let commit = match self.commit {
            Some(commit) => commit,
            None => {
                // Where it ended before, no timestamp is spent.
                let found = site.wait(site.service.get(self.start)).map_err(|error| place::get(&error))?;
                match found {
                    Status::Ended(found) if will_do(found) => return tell(&self.common, self.start, found),
                    Status::Ended(found) => return Err(otherwise(self.start, found)),
                    _ => {}
                }
                let allocator = site.allocator(1)?;
                let run = site.wait(allocator.take(1)).map_err(|error| place::take(&error))?;
                let Some(commit) = run.iter().next() else {
                    return Err(Failure::Failed("no timestamp is left".into()));
                };
                commit
            }
        };
        end(&self.common, &site, (self.start, Outcome::Committed(commit)), will_do)
    }
}

/// Abort a transaction, unless it has ended
#[derive(Args, Debug)]
pub(super) struct Abort {
    #[command(flatten)]
    common: Common,
    /// The timestamp at which it started
    #[arg(value_name = "START", value_parser = timestamp)]
    start: Timestamp,
}

impl Abort {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        site.given_out([self.start])?;
        end(&self.common, &site, (self.start, Outcome::Aborted), |found| found == Outcome::Aborted)
    }
}

fn end(
    common: &Common,
    site: &Site,
    (start, outcome): (Timestamp, Outcome),
    will_do: impl Fn(Outcome) -> bool,
) -> Result<(), Failure> {
    let found = site.wait(site.service.decide(start, outcome));
    let found = found.map_err(|error| place::decide(&error, &again(common, start, outcome)))?;
    if !will_do(found) {
        return Err(otherwise(start, found));
    }
    tell(common, start, found)
}

/// The command that settles what became of this one.
fn again(common: &Common, start: Timestamp, outcome: Outcome) -> String {
    common.command(&match outcome {
        Outcome::Aborted => format!("abort STORE {start}"),
        Outcome::Committed(commit) => format!("put STORE {start} {commit}"),
    })
}

fn tell(common: &Common, start: Timestamp, found: Outcome) -> Result<(), Failure> {
    done(match common.json {
        true => print_json(&object(start, Some(found))),
        false => print(&words(start, Some(found))),
    })
}

/// Find out how a transaction ended; abort it if it has not ended after a grace period
#[derive(Args, Debug)]
pub(super) struct Settle {
    #[command(flatten)]
    common: Common,
    /// The timestamp at which it started
    #[arg(value_name = "START", value_parser = timestamp)]
    start: Timestamp,
    /// How long it may still take to end, such as 10s, 500ms
    #[arg(long, value_name = "TIME", default_value = "10s")]
    grace: Span,
}

impl Settle {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        site.given_out([self.start])?;
        let status = site.wait(site.service.get(self.start)).map_err(|error| place::get(&error))?;
        let (site, rest) = match status {
            // Nobody else could end it while this command has the store open.
            Status::InProgress if site.is_exclusive() => {
                drop(site);
                std::thread::sleep(Duration::from_nanos(self.grace.as_nanos()));
                (Site::of(&self.common)?, Span::ZERO)
            }
            _ => (site, self.grace),
        };
        let found = site.wait(site.service.settle(self.start, rest));
        let again = again(&self.common, self.start, Outcome::Aborted);
        tell(&self.common, self.start, found.map_err(|error| place::decide(&error, &again))?)
    }
}
