//! Is every object that is referred to there, and after a vacuum no other? For protocols with more than one object.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Key, Payload};
use glidepath_history::{Leftovers, references};
use glidepath_model::{Span, Version};
use glidepath_protocols::LoadError;
use glidepath_protocols::afterwards::at_once;
use glidepath_protocols::append_log::{self, Log};
use glidepath_protocols::manifest_chain::{Chain, Snapshot};
use glidepath_protocols::registry::Design;
use glidepath_protocols::tickets::{self, PerName};
use glidepath_protocols::upkeep::Keep;

use crate::process::Process;
use crate::subject::shared;

/// Whether every object that is referred to exists; and after a vacuum long after the run, no other.
pub(crate) fn tidy<D: Design>(objects: &BTreeMap<Key, Payload>, cleaned: bool) -> Result<(), String> {
    match D::NAME {
        Chain::NAME => chain(objects, cleaned),
        Log::NAME => log(objects, cleaned),
        PerName::NAME if cleaned => registers(objects),
        _ => Ok(()),
    }
}

fn chain(objects: &BTreeMap<Key, Payload>, cleaned: bool) -> Result<(), String> {
    let catalog = Process::afterwards(objects.clone()).open::<Chain>(shared::<Chain>(0));
    let broken = |error: LoadError| error.to_string();
    let versions = at_once(catalog.every_version()).map_err(broken)?;
    let oldest = versions.last().map_or(Version(0), Snapshot::oldest_kept);
    let mut needed = BTreeSet::new();
    for version in versions.iter().filter(|version| version.version() >= oldest) {
        needed.extend(at_once(catalog.objects(version)).map_err(broken)?);
    }
    let needed = needed.iter().map(Key::as_str);
    // A pack that was staged for a lost attempt at a version may stay as long as that version is kept.
    let young = |key: &Key| {
        let pack = key.as_str().strip_prefix("catalog/packs/").and_then(|pack| pack.get(..16));
        let version = pack.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        key.as_str() == "catalog/hint" || version.is_some_and(|version| version > oldest.0)
    };
    let age = |key: &Key| if young(key) { Span::ZERO } else { Span::from_secs(1) };
    let present = objects.keys().map(|key| (key.as_str(), age(key)));
    let leftovers = if cleaned { Leftovers::NotOlderThan(Span::ZERO) } else { Leftovers::Allowed };
    references(present, needed, leftovers).map(drop).map_err(|violation| violation.to_string())
}

/// Reading the catalog finds missing objects; this finds unneeded ones. The newest segment may have no object yet.
fn log(objects: &BTreeMap<Key, Payload>, cleaned: bool) -> Result<(), String> {
    let segments = objects.keys().filter_map(numbered).filter(|(kind, _)| *kind == "log");
    let newest = segments.map(|(_, number)| number).max().unwrap_or(0);
    let left = objects.iter().filter_map(|(key, payload)| Some((numbered(key)?, payload)));
    // A vacuum keeps a number of versions, in any number of segments.
    let catalog = Process::afterwards(objects.clone()).open::<Log>(shared::<Log>(0));
    let needed = at_once(catalog.first_needed(Keep::LEAST.versions)).map_err(|error| error.to_string())?;
    let left = left.filter(|((kind, number), payload)| match *kind {
        _ if number + 2 >= newest || *number >= needed => false,
        "log" => payload.bytes.len() > append_log::EMPTIED_BYTES,
        _ => *number > 0,
    });
    match left.map(|((kind, number), _)| format!("{kind} {number}")).next() {
        Some(object) if cleaned => Err(format!("{object} is left although it is not needed; the newest is {newest}")),
        _ => Ok(()),
    }
}

/// Only the newest slot of each name has content. (That every object is there which is referred to, fsck finds.)
fn registers(objects: &BTreeMap<Key, Payload>) -> Result<(), String> {
    let mut newest = "";
    // Newer slots come first.
    for (key, payload) in objects {
        let Some((register, _)) = key.as_str().rsplit_once('/').filter(|(of, _)| of.contains("/tickets/names/")) else {
            continue;
        };
        if register == newest && payload.bytes.len() > tickets::EMPTIED_BYTES {
            return Err(format!("{key} has its content although it is not the newest slot"));
        }
        newest = register;
    }
    Ok(())
}

/// The kind of a log's object (`log` or `checkpoint`), and its number; `None` for an object that resembles one.
pub(crate) fn numbered(key: &Key) -> Option<(&str, u64)> {
    let (kind, digits) = key.as_str().strip_prefix("catalog/log/")?.split_once('/')?;
    let exact = digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit());
    exact.then(|| Some((kind, digits.parse().ok()?)))?
}
