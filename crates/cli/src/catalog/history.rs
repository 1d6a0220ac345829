//! `glidepath catalog history`: which versions are there, newest first, and what did each change?

use std::io::{BufWriter, Write};

use clap::Args;
use glidepath_model::{Entry, Version};
use glidepath_protocols::Catalog as _;
use glidepath_protocols::registry::AnySnapshot;
use glidepath_protocols::upkeep::{Changed, Facts};
use serde_json::{Value, json};

use super::place::Site;
use super::{Common, show};
use crate::failure::Failure;
use crate::output::counted_entries;
use crate::whole::{from_one, from_zero};

/// Print versions, newest first: time, commit and what changed; --json prints one object a line
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The most versions to print
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = from_one::<u64>)]
    limit: u64,
    /// Begin at this version
    #[arg(long, value_name = "VERSION", value_parser = from_zero::<u64>)]
    version: Option<u64>,
    /// The most changes to print of each version
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = from_zero::<u32>)]
    changes: u32,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        site.versioned("history")?;
        let mut output = BufWriter::new(std::io::stdout().lock());
        let mut next = Some(site.at(self.version)?);
        for _ in 0..self.limit {
            let Some(at) = next.take() else { break };
            let number = site.catalog.version(&at).unwrap_or_default();
            let before = match number.0.checked_sub(1).map(Version).map(|before| site.kept(before)).transpose() {
                Ok(before) => before.flatten(),
                // The versions before the damage were printed.
                Err(error) => return Err(error.after(output.flush().map_err(Failure::from))),
            };
            // The changes of the oldest kept version are no longer known.
            let changes = match &before {
                Some(before) => {
                    let changed = site.catalog.changed(before, &at, (self.changes as usize).saturating_add(1));
                    match site.read_at(before, changed) {
                        Ok(changed) => Some(changed),
                        Err(error) => return Err(error.after(output.flush().map_err(Failure::from))),
                    }
                }
                None => None,
            };
            let kept = |at: &AnySnapshot| site.catalog.facts(at).oldest_kept;
            let vacuumed = before.as_ref().and_then(|before| kept(before).zip(kept(&at)));
            let vacuumed = vacuumed.filter(|(was, is)| was < is);
            self.print(&mut output, (number, site.catalog.facts(&at)), vacuumed, changes.as_deref())?;
            next = before;
        }
        output.flush().map_err(Failure::from)
    }

    fn print(
        &self,
        output: &mut impl Write,
        (number, facts): (Version, Facts),
        vacuumed: Option<(Version, Version)>,
        changes: Option<&[Changed]>,
    ) -> Result<(), Failure> {
        let shown = changes.map(|changes| &changes[..changes.len().min(self.changes as usize)]);
        let more = changes.is_some_and(|changes| changes.len() > self.changes as usize);
        let commit = format!("{:016x}", facts.commit.0);
        if self.common.json {
            let line = json!({
                "version": number.0,
                "written_unix_ms": facts.written_ms,
                "commit": commit,
                "entries": facts.entries,
                "oldest_kept_version": facts.oldest_kept.map(|oldest| oldest.0),
                "changes": shown.map(|changes| changes.iter().map(as_json).collect::<Vec<_>>()),
                "more_changes": more,
            });
            writeln!(output, "{line}")?;
            return Ok(());
        }
        let time = facts.written_ms.map(|written| format!("  {}", show::time(written))).unwrap_or_default();
        let entries = facts.entries.map(|entries| format!("  {}", counted_entries(entries))).unwrap_or_default();
        writeln!(output, "version {}{time}  commit {commit}{entries}", number.0)?;
        if let Some((was, is)) = vacuumed {
            writeln!(output, "  vacuum: oldest kept version {} -> {}", was.0, is.0)?;
        }
        match shown {
            None if number.0 == 0 => writeln!(output, "  the first version, empty")?,
            None => writeln!(output, "  the version before is no longer kept: what changed is not known")?,
            Some(changes) => {
                for change in changes {
                    writeln!(output, "  {}", as_text(change))?;
                }
            }
        }
        if more {
            writeln!(
                output,
                "  ... and more; --changes {} shows more of them",
                self.changes.saturating_mul(10).max(10)
            )?;
        }
        Ok(())
    }
}

fn as_json(change: &Changed) -> Value {
    let entry = |entry: &Option<Entry>| entry.as_ref().map(|entry| show::entry(&change.name, entry));
    let what = match (&change.before, &change.now) {
        (None, _) => "created",
        (_, None) => "dropped",
        _ => "changed",
    };
    json!({ "name": change.name.as_str(), "change": what, "before": entry(&change.before), "now": entry(&change.now) })
}

fn as_text(change: &Changed) -> String {
    let Changed { name, before, now } = change;
    let name = show::visible(name.as_str());
    match (before, now) {
        (Some(before), Some(now)) => {
            format!("~ {} {name}: {}", show::kind(now.kind), differences(before, now).join(", "))
        }
        (None, Some(now)) => format!("+ {} {name}", show::kind(now.kind)),
        (Some(before), None) => format!("- {} {name}", show::kind(before.kind)),
        (None, None) => format!("  {name}"),
    }
}

/// The changed parts of an entry.
fn differences(before: &Entry, now: &Entry) -> Vec<String> {
    let mut found = Vec::new();
    if before.kind != now.kind {
        found.push(format!("was a {}", show::kind(before.kind)));
    }
    if before.state != now.state {
        let version =
            |entry: &Entry| entry.state.as_ref().map_or("none".to_owned(), |state| state.version.0.to_string());
        found.push(format!("table version {} -> {}", version(before), version(now)));
    }
    if before.location != now.location {
        let location = |entry: &Entry| entry.location.as_deref().map_or("none".to_owned(), show::visible);
        found.push(format!("location {} -> {}", location(before), location(now)));
    }
    if before.pointer != now.pointer {
        let pointer = |entry: &Entry| entry.pointer.as_deref().map_or("none".to_owned(), show::visible);
        found.push(format!("metadata pointer {} -> {}", pointer(before), pointer(now)));
    }
    for (key, value) in &now.properties {
        if before.properties.get(key) != Some(value) {
            found.push(format!("{} = {}", show::visible(key), show::visible(value)));
        }
    }
    let removed = before.properties.keys().filter(|key| !now.properties.contains_key(*key));
    found.extend(removed.map(|key| format!("{} removed", show::visible(key))));
    if before.base_objects != now.base_objects {
        found.push("what it is made from".to_owned());
    }
    if before.unknown != now.unknown {
        found.push("fields of a newer version of Glidepath".to_owned());
    }
    found
}
