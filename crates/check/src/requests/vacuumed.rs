//! Was each object that a vacuum removed unneeded at that instant?

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Key, Payload};
use glidepath_model::{Instant, Span, Version};
use glidepath_protocols::afterwards::{Made, at_once, first_written};
use glidepath_protocols::append_log::{Log, every_place_written};
use glidepath_protocols::manifest_chain::{Chain, Grace, Snapshot};
use glidepath_protocols::registry::Design;
use glidepath_protocols::upkeep::Keep;
use glidepath_sim::{Simulation, Stream, Written};

use super::book::Versions;
use super::names::Names;
use crate::process::Process;
use crate::promised;
use crate::subject::{STORE, shared, shared_state, writes};
use crate::tidy::numbered;

/// The fewest segments that a vacuum keeps, besides the newest.
const KEPT_SEGMENTS: u64 = 2;

/// The key of the random stream of moments, above those of damages.
const MOMENTS: u64 = 1 << 37;

/// The least that a vacuum of a manifest chain keeps.
const GRACE: Grace = Grace::LEAST;

/// Checks that all removed objects were unneeded.
pub(crate) fn rightly<D: Design>(
    simulation: &Simulation,
    versions: &Versions<Names>,
    skew: Span,
) -> Result<(), String> {
    match D::NAME {
        Log::NAME => log(simulation),
        Chain::NAME => {
            let journal = simulation.journal(STORE);
            let removed = journal.iter().any(|write| write.object.is_none());
            if removed { chain(&journal, &every_version(simulation, versions)?, skew) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Whether the catalog had all that it promises at a moment when something had just been removed: asked of protocols
/// that keep old versions. (Versions of the others cannot be read at all if something of the newest one was removed.)
/// The seed chooses the moment.
pub(crate) fn readable<D: Design>(simulation: &Simulation, made: &[Made], seed: u64) -> Result<(), String> {
    if !D::KEEPS_OLD {
        return Ok(());
    }
    let (journal, mut objects) = (simulation.journal(STORE), BTreeMap::new());
    let length = |object: &Option<Payload>| object.as_ref().map_or(0, |object| object.bytes.len());
    let mut shrinks = Vec::new();
    for (place, write) in journal.iter().enumerate() {
        let before = objects.insert(&write.key, length(&write.object)).unwrap_or(0);
        shrinks.extend((length(&write.object) < before).then_some(place));
    }
    let place = Stream::keyed(seed, 0, MOMENTS).draw() % shrinks.len().max(1) as u64;
    let Some(moment) = shrinks.get(place as usize).copied() else { return Ok(()) };
    let mut objects = BTreeMap::new();
    for write in &journal[..=moment] {
        match &write.object {
            Some(object) => drop(objects.insert(write.key.clone(), object.clone())),
            None => drop(objects.remove(&write.key)),
        }
    }
    let made = &made[..made.partition_point(|made| made.write <= moment)];
    promised::promised::<D>(&objects, made, promised::Kept::AtLeast(Keep::LEAST.versions)).map_err(|words| {
        let write = &journal[moment];
        let at = write.at.since(Instant::ZERO).as_secs_f64();
        format!("at {at:.6} s, when {} had been vacuumed, {words}", write.key)
    })
}

/// All versions of a chain, including removed ones.
fn every_version(simulation: &Simulation, versions: &Versions<Names>) -> Result<Vec<Kept>, String> {
    let catalog = Process::afterwards(first_written(&writes(simulation))).open::<Chain>(shared::<Chain>(0));
    let mut kept = Vec::new();
    for snapshot in at_once(catalog.every_version()).map_err(|error| error.to_string())? {
        let objects = at_once(catalog.objects(&snapshot)).map_err(|error| error.to_string())?;
        let step = versions.steps.iter().find(|step| step.version == snapshot.version());
        let at = step.map_or(Instant::ZERO, |step| step.at);
        kept.push(Kept { snapshot, at, objects });
    }
    Ok(kept)
}

/// Whether only segments far enough back were emptied, and only their checkpoints removed.
fn log(simulation: &Simulation) -> Result<(), String> {
    let journal = simulation.journal(STORE);
    // Each version with the segment of the next record.
    let versions = every_place_written(shared_state::<Log>(0), &writes(simulation))?.into_iter();
    let versions = versions.map(|(placed, write)| (journal[write].at, placed.segment + u64::from(placed.closes)));
    let versions: Vec<(Instant, u64)> = versions.collect();
    let newest = |now: Instant| versions.iter().take_while(|(at, _)| *at <= now).map(|(_, segment)| *segment).max();
    let mut lengths = BTreeMap::<u64, usize>::new();
    for write in journal {
        let gone = match (numbered(&write.key), &write.object) {
            (Some(("log", number)), Some(object)) => {
                let before = lengths.insert(number, object.bytes.len()).unwrap_or(0);
                (object.bytes.len() < before).then_some(number)
            }
            (Some((_, number)), None) => Some(number),
            _ => None,
        };
        let newest = newest(write.at).unwrap_or(0);
        if let Some(number) = gone
            && number + KEPT_SEGMENTS >= newest
        {
            return Err(format!(
                "{} was vacuumed at {:.6} s, when the newest segment was {newest}; {KEPT_SEGMENTS} before it are kept",
                write.key,
                write.at.since(Instant::ZERO).as_secs_f64()
            ));
        }
    }
    Ok(())
}

/// A version of a manifest chain, and its objects.
struct Kept {
    snapshot: Snapshot,
    at: Instant,
    objects: BTreeSet<Key>,
}

/// Whether each version names a correct oldest version to keep, and no object was deleted that a kept version needs.
/// `skew` is the greatest error of the clocks.
fn chain(journal: &[Written], versions: &[Kept], skew: Span) -> Result<(), String> {
    let ms = |span: Span| span.as_nanos() / 1_000_000;
    let written: BTreeMap<Version, u64> =
        versions.iter().map(|kept| (kept.snapshot.version(), kept.snapshot.written_ms())).collect();
    for pair in versions.windows(2) {
        let [before, now] = [&pair[0].snapshot, &pair[1].snapshot];
        let (oldest, last) = (now.oldest_kept(), before.version());
        if oldest < before.oldest_kept() {
            return Err(format!("{} keeps {oldest} again, which was given up before", now.version()));
        }
        if oldest == before.oldest_kept() {
            continue;
        }
        if oldest.0 + GRACE.versions > last.0 {
            let words = format!("{} versions before {last} are to be kept", GRACE.versions);
            return Err(format!("{} gives up what is older than {oldest}, but {words}", now.version()));
        }
        // The clocks of processes may be wrong; this is the world's.
        let real = versions.iter().find(|kept| kept.snapshot.version() == oldest).map(|kept| kept.at);
        if real.is_some_and(|real| real + GRACE.age > pair[1].at) {
            let words = format!("{oldest} had replaced it less than {} before", GRACE.age);
            return Err(format!("{} gives up a version, but {words}", now.version()));
        }
        let since = written.get(&oldest).copied().unwrap_or(u64::MAX);
        if since.saturating_add(ms(GRACE.age)) > now.written_ms() + 2 * ms(skew) {
            let age_ms = now.written_ms().saturating_sub(since);
            let words = format!("{oldest} was written only {age_ms} ms before, so what it replaced is too young");
            return Err(format!("{} gives up what is older than {oldest}; {words}", now.version()));
        }
    }
    let mut last_needed = BTreeMap::<&Key, Version>::new();
    for kept in versions {
        for key in &kept.objects {
            last_needed.insert(key, kept.snapshot.version());
        }
    }
    for write in journal.iter().filter(|write| write.object.is_none()) {
        let there = versions.iter().take_while(|kept| kept.at <= write.at);
        let oldest = there.map(|kept| kept.snapshot.oldest_kept()).max().unwrap_or_default();
        if let Some(needed) = last_needed.get(&write.key).filter(|needed| **needed >= oldest) {
            return Err(format!(
                "{} was deleted at {:.6} s by process {}, and {needed} needs it; kept was all from {oldest} on",
                write.key,
                write.at.since(Instant::ZERO).as_secs_f64(),
                i64::from(write.by) - 1
            ));
        }
    }
    Ok(())
}
