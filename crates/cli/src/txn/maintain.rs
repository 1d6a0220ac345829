//! The subcommands that change the encoding of a service, and restore it.

use std::cell::Cell;

use clap::Args;
use glidepath_txn::Timestamp;
use glidepath_txn::restore::{Restored, restore};
use serde_json::json;

use super::place::{self, Site};
use super::write::Encoded;
use super::{Common, timestamp};
use crate::failure::{Failure, done};
use crate::output::{print, print_json};
use crate::progress::Display;
use crate::whole::from_one;

/// Write later transactions in another encoding, while transactions run; earlier ones stay where they are
#[derive(Args, Debug)]
pub(super) struct Migrate {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    encoded: Encoded,
}

impl Migrate {
    pub(super) fn run(&self) -> Result<(), Failure> {
        if !self.encoded.is_given() {
            let words = "say in which encoding: --encoding original, tickets or staged; `glidepath txn describe` shows those in use";
            return Err(Failure::Mistake(words.to_owned()));
        }
        let (table, encoding) = self.encoded.of(&self.common.service)?;
        let site = Site::of(&self.common)?;
        let installed = site.wait(site.service.install(table.clone(), encoding));
        let from = installed.map_err(|error| place::service(&error))?;
        done(match self.common.json {
            true => print_json(&json!({ "table": table.as_str(), "from": from.get() })),
            false => print(&format!("transactions that start at {from} or later are in table {table}")),
        })
    }
}

/// Timestamps that a fast-forward leaves: enough for a million a second, for twelve days.
const RESERVE: u64 = 1 << 40;

/// Give out no timestamp up to this one, because a backup may have used it
///
/// This cannot be undone. A timestamp that would leave fewer than 2^40 is refused, unless so many were given out
/// already.
#[derive(Args, Debug)]
pub(super) struct FastForward {
    #[command(flatten)]
    common: Common,
    /// The next timestamps are above this one
    #[arg(value_name = "TIMESTAMP", value_parser = timestamp)]
    to: Timestamp,
}

impl FastForward {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        self.leaves_enough(&site)?;
        // Where the bound is lost, this may be what gives it back.
        if let Ok(bound) = site.bound()
            && self.to.get() < bound
        {
            return done(match self.common.json {
                true => print_json(&json!({ "fast_forward": self.to.get() })),
                false => print(&format!(
                    "nothing to do: timestamps up to {} may have been given out, and none is given out twice",
                    bound - 1
                )),
            });
        }
        let is_remedy = self.to.get() >= site.service.bound();
        let allocator = if is_remedy { site.new_allocator(1)? } else { site.allocator(1)? };
        site.wait(allocator.fast_forward(self.to)).map_err(|error| place::take(&error))?;
        done(match self.common.json {
            true => print_json(&json!({ "fast_forward": self.to.get() })),
            false => print(&format!("the next timestamps are above {}", self.to)),
        })
    }

    /// An error where the timestamps would be used up, as by a mistyped one.
    fn leaves_enough(&self, site: &Site) -> Result<(), Failure> {
        let (to, last) = (self.to.get(), Timestamp::LAST.get());
        // What is as high already was not mistyped.
        if last - to >= RESERVE || to <= site.service.bound() || to < site.bound()? {
            return Ok(());
        }
        let words = format!(
            "fast-forward to {to}: it would leave {} timestamps for ever; give {} at most, which leaves {RESERVE}",
            last - to,
            last - RESERVE
        );
        Err(Failure::Mistake(words))
    }
}

/// Take a service back: abort what committed after a timestamp, and what has not ended
///
/// Stop what uses the service, put the data back as the backup has it, restore, and start again: programs keep in
/// memory how transactions ended. A restore that was broken off is repeated, with the same timestamp.
#[derive(Args, Debug)]
pub(super) struct Restore {
    #[command(flatten)]
    common: Common,
    /// The timestamp of the backup: given out before the backup was made
    #[arg(long, value_name = "TIMESTAMP", value_parser = timestamp)]
    to: Timestamp,
    /// All transactions that started before this one had ended when that timestamp was asked for; those that started
    /// after it are looked at anyway
    #[arg(long, value_name = "START", value_parser = timestamp, default_value = "1")]
    oldest: Timestamp,
    /// Refuse to go through more start timestamps: each costs a read, and a write if no transaction has ended with it
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000_000, value_parser = from_one::<u64>)]
    most_starts: u64,
}

impl Restore {
    /// Refuses what would take days.
    fn is_affordable(&self, last: u64) -> Result<(), Failure> {
        let first = self.oldest.get().min(self.to.get() + 1);
        let starts = last.saturating_sub(first);
        if starts <= self.most_starts {
            return Ok(());
        }
        let words = format!(
            "not restored, nothing was changed: this would go through {starts} start timestamps, from {first} on, and abort \
             each with which no transaction has ended (docs/transactions.md has the time it takes). Allowed: {} \
             (--most-starts). Perhaps a `fast-forward` went further than it had to: then restore the data once more, and \
             fast-forward to just above the highest timestamp that was given out",
            self.most_starts
        );
        Err(Failure::Mistake(words))
    }

    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common)?;
        site.given_out([self.to, self.oldest])?;
        let bound = site.bound()?;
        self.is_affordable(bound)?;
        let allocator = site.allocator(1)?;
        let (first, last) = (self.oldest.get(), bound.max(self.oldest.get() + 1));
        let display = Display::new();
        let pass = Cell::new((1, 0));
        let progress = |at: Timestamp| {
            let (number, before) = pass.get();
            let number = if at.get() < before { number + 1 } else { number };
            pass.set((number, at.get()));
            let share = (at.get().saturating_sub(first)) as f64 / (last - first) as f64;
            display.show(share.min(1.0), || format!("pass {number}, start timestamp {at} of {last}"));
        };
        let restored = site.wait(restore(&site.service, &allocator, self.oldest, self.to, &progress));
        drop(display);
        let Restored { undone, fenced, last } = restored.map_err(|error| {
            Failure::Failed(format!("{error}; some transactions may have been aborted: the same command again goes on"))
        })?;
        let last = last.map(Timestamp::get);
        done(match self.common.json {
            true => print_json(&json!({ "undone": undone, "fenced": fenced, "last": last })),
            false => print(&format!(
                "transactions aborted that had committed after {}: {undone}; timestamps aborted with which no transaction had \
                 ended, so that none can commit with them any more: {fenced}; the next transactions start above {}",
                self.to,
                last.unwrap_or_default()
            )),
        })
    }
}
