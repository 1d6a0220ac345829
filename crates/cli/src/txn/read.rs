//! The subcommands that read a service.

use std::io::{BufWriter, Write as _};

use clap::Args;
use glidepath_txn::table::Status;
use glidepath_txn::{Outcome, Timestamp};
use serde_json::json;

use super::place::{self, Site, object, words};
use super::{Common, timestamp};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::whole;

/// Transactions that a scan reads at once.
const PAGE: usize = 1000;

/// Start timestamps whose rows take longer than seconds to go through, if hardly any has an end: 64,000 rows of
/// tickets.
const MANY: u64 = 100_000_000_000;

/// Tell what became of transactions
#[derive(Args, Debug)]
pub(super) struct Get {
    #[command(flatten)]
    common: Common,
    /// The timestamps at which the transactions started
    #[arg(value_name = "START", required = true, value_parser = timestamp)]
    starts: Vec<Timestamp>,
}

impl Get {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        site.given_out(self.starts.iter().copied())?;
        let found = site.wait(site.service.get_many(&self.starts)).map_err(|error| place::get(&error))?;
        let outcomes = found.into_iter().map(|status| match status {
            Status::InProgress => None,
            Status::Ended(outcome) => Some(outcome),
        });
        let ends = self.starts.iter().copied().zip(outcomes);
        match self.common.json {
            true => print_json(&ends.map(|(start, outcome)| object(start, outcome)).collect::<Vec<_>>()),
            false => print(&ends.map(|(start, outcome)| words(start, outcome)).collect::<Vec<_>>().join("\n")),
        }
    }
}

/// List the transactions that have ended, in constant memory and in no order; --json prints one object a line
#[derive(Args, Debug)]
pub(super) struct Scan {
    #[command(flatten)]
    common: Common,
    /// Only those that started at this timestamp or later
    #[arg(long, value_name = "START", value_parser = timestamp)]
    from: Option<Timestamp>,
    /// Only those that started at this timestamp or earlier [default: the last one that was given out]
    #[arg(long, value_name = "START", value_parser = timestamp)]
    to: Option<Timestamp>,
    /// The most transactions to list, at least 1
    #[arg(long, value_name = "COUNT", value_parser = whole::from_one::<u64>)]
    limit: Option<u64>,
}

impl Scan {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        let last = site.bound()?.saturating_sub(1);
        let from = self.from.unwrap_or(Timestamp::FIRST);
        if let Some(to) = self.to.filter(|to| *to < from) {
            return Err(Failure::Mistake(format!("--from {from} is behind --to {to}")));
        }
        // None was given out, or none so late.
        let Some(last) = Timestamp::new(last).ok().filter(|last| *last >= from) else { return Ok(()) };
        let to = self.to.unwrap_or(last).min(last);
        if to.get() - from.get() > MANY {
            let words = "goes through all rows of the start timestamps";
            eprintln!("scan {words} from {from} to {to}, also where nothing started; --from and --to narrow it");
        }
        let mut output = BufWriter::new(std::io::stdout().lock());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let tables = site.wait(site.service.tables_of(from..=to)).map_err(|error| place::service(&error))?;
        for (table, range) in tables {
            let mut scan = table.scan(range, PAGE);
            while let Some(page) = site.wait(scan.next()).map_err(|error| place::get(&error))? {
                for (start, outcome) in page {
                    if left == 0 {
                        return output.flush().map_err(Failure::from);
                    }
                    left -= 1;
                    self.line(&mut output, start, outcome)?;
                }
            }
        }
        output.flush().map_err(Failure::from)
    }

    fn line(&self, output: &mut impl std::io::Write, start: Timestamp, outcome: Outcome) -> Result<(), Failure> {
        match self.common.json {
            true => writeln!(output, "{}", object(start, Some(outcome)))?,
            false => writeln!(output, "{}", words(start, Some(outcome)))?,
        }
        Ok(())
    }
}

/// Describe a service: its timestamps, and which table a start timestamp is in
#[derive(Args, Debug)]
pub(super) struct Describe {
    #[command(flatten)]
    common: Common,
}

impl Describe {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        let bound = site.bound()?;
        let mut tables = Vec::new();
        let ranges = site.service.ranges();
        for range in &ranges {
            let encoding = site.wait(site.service.encoding_of(&range.table)).map_err(|error| place::service(&error))?;
            tables.push((range.from, range.table.clone(), encoding));
        }
        if self.common.json {
            let tables: Vec<_> = tables
                .iter()
                .map(|(from, table, encoding)| {
                    json!({ "from": from.get(), "table": table.as_str(), "encoding": encoding.to_string() })
                })
                .collect();
            return print_json(&json!({
                "service": self.common.service,
                "next_timestamp_from": bound,
                "tables": tables,
            }));
        }
        let mut lines = vec![
            format!("service     {}", self.common.service),
            match bound {
                1 => "timestamps  none was given out".to_owned(),
                _ => format!("timestamps  all that were given out are below {bound}"),
            },
        ];
        for (from, table, encoding) in tables {
            lines.push(format!("from {from}: table {table}, encoded as {}", in_words(&encoding.to_string())));
        }
        print(&lines.join("\n"))
    }
}

/// An encoding, with what its numbers are.
fn in_words(encoding: &str) -> String {
    match encoding.split(' ').collect::<Vec<_>>()[..] {
        [name, quantum, rows] => format!("{encoding} ({name} in {rows} rows for each {quantum} timestamps)"),
        _ => encoding.to_owned(),
    }
}
