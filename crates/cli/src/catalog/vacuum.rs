//! `glidepath catalog vacuum`: removes what no kept version needs.

use clap::Args;
use glidepath_model::{ParseQuantityError, Span, Version};
use glidepath_protocols::registry::Protocol;
use glidepath_protocols::upkeep::{Count, Keep, Removed, VacuumError};
use serde_json::{Map, Value, json};

use super::Common;
use super::place::Site;
use crate::failure::{Failure, done};
use crate::output::{print, print_json};
use crate::whole::from_zero;

/// The default age, if versions carry times.
const KEPT: Span = Span::from_secs(24 * 3600);

/// Remove what no kept version needs; safe beside readers and writers
///
/// A version is kept if it is one of the newest --keep-versions, or if its successor is younger than --keep-age.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// The number of versions before the newest to keep; append-log keeps some more, because it keeps whole segments
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = from_zero::<u64>)]
    keep_versions: u64,
    /// The time to keep a version after the next one was written; at least 10min [default: 24h, where versions carry
    /// times]
    #[arg(long, value_name = "TIME", value_parser = age)]
    keep_age: Option<Age>,
}

/// A time as it was given, which messages repeat.
#[derive(Clone, Debug)]
struct Age {
    span: Span,
    given: String,
}

fn age(given: &str) -> Result<Age, ParseQuantityError> {
    Ok(Age { span: given.parse()?, given: given.to_owned() })
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        let protocol = site.catalog.protocol();
        let age = match (&self.keep_age, protocol.features().keeps_times) {
            (Some(_), false) => {
                let others = Protocol::which(|features| features.keeps_times);
                let features = protocol.features();
                let instead =
                    if features.versioned && features.keeps_old { "give --keep-versions" } else { "leave it out" };
                let words = format!(
                    "--keep-age: versions of {} carry no times; {instead} ({others} keeps times)",
                    protocol.name()
                );
                return Err(Failure::Mistake(words));
            }
            (given, true) => Some(given.as_ref().map_or(KEPT, |age| age.span)),
            (None, false) => None,
        };
        let keep = Keep { versions: self.keep_versions, age };
        let removed = site.wait(site.catalog.vacuum(keep)).map_err(|error| self.failed(&site, error))?;
        done(match self.common.json {
            true => print_json(&as_json(&removed, protocol.features().versioned)),
            false => print(&as_text(&removed, protocol.features().versioned)),
        })
    }

    /// The message of a vacuum that stopped.
    fn failed(&self, site: &Site, error: VacuumError) -> Failure {
        match (error, &self.keep_age) {
            (VacuumError::Mistake(words), Some(age)) => {
                // In the user's unit: zero has none of its own.
                let words = words.replacen(&format!("is {};", age.span), &format!("is {};", age.given), 1);
                Failure::Mistake(format!("--keep-age {}: {words}", age.given))
            }
            (VacuumError::Load(load), _) => site.failed(load),
            (error @ VacuumError::Mistake(_), None) => Failure::Mistake(error.to_string()),
            (error @ (VacuumError::Unproven(_) | VacuumError::Stopped(_)), _) => Failure::Failed(error.to_string()),
        }
    }
}

fn as_json(removed: &Removed, versioned: bool) -> Value {
    let counts = done_to(removed);
    let counts = counts.iter().flat_map(|(verb, counts)| {
        counts.iter().map(move |count| (format!("{verb}_{}", count.key), json!(count.count)))
    });
    let version = |version: Version| versioned.then_some(version.0);
    let others = [
        ("kept_old_objects", Some(removed.kept)),
        ("oldest_kept_version", version(removed.oldest)),
        ("oldest_kept_version_before", version(removed.before)),
        ("newest_version", version(removed.newest)),
    ];
    let others = others.map(|(key, count)| (key.to_owned(), json!(count)));
    Value::Object(counts.chain(others).collect::<Map<_, _>>())
}

/// What was done to which objects.
fn done_to(removed: &Removed) -> [(&'static str, &[Count]); 3] {
    [("deleted", &removed.deleted), ("emptied", &removed.emptied), ("retired", &removed.retired)]
}

fn as_text(removed: &Removed, versioned: bool) -> String {
    let all = done_to(removed).into_iter().filter(|(_, counts)| !counts.is_empty());
    let all = all.map(|(verb, counts)| {
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        format!("{verb} {}", counts.join(" and "))
    });
    let mut lines: Vec<String> = all.collect();
    if lines.is_empty() {
        lines.push("deleted nothing: there is nothing old".to_owned());
    }
    if versioned {
        let more = match removed.kept {
            0 => String::new(),
            kept => format!(", and {kept} older objects and packs that they need or that may still be needed"),
        };
        lines.push(format!("kept    versions {} to {}{more}", removed.oldest.0, removed.newest.0));
    }
    lines.join("\n")
}
