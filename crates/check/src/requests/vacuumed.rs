//! Was what a vacuum removed allowed to go, at the instant at which it went?

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::Key;
use glidepath_model::{Entry, Instant, Name, Span, Version};
use glidepath_protocols::manifest_chain::{Grace, Snapshot};
use glidepath_sim::{Simulation, Written};

use super::roots::whole_log;
use crate::subject::STORE;

/// Segments that the vacuum of these runs keeps, besides the newest.
pub(crate) const KEPT_SEGMENTS: u64 = 2;

/// What the vacuum of a manifest chain keeps in these runs.
pub(crate) const GRACE: Grace = Grace { versions: 2, age: Grace::SHORTEST };

/// A version of a log.
pub(crate) struct Placed {
    pub(crate) version: Version,
    pub(crate) entries: BTreeMap<Name, Entry>,
    pub(crate) at: Instant,
    pub(crate) by: u32,
    /// The segment in which the next record goes.
    segment: u64,
}

/// The versions of a log, each with the instant of the append that it came with.
pub(crate) fn placed(simulation: &Simulation) -> Result<Vec<Placed>, String> {
    let mut appends = BTreeMap::<u64, Vec<(u64, Written)>>::new();
    for write in simulation.journal(STORE) {
        if let Some((number, object)) = segment(&write) {
            let length = object as u64;
            appends.entry(number).or_default().push((length, write));
        }
    }
    let mut versions = Vec::new();
    for place in whole_log(simulation)? {
        let all = appends.get(&place.segment).map(Vec::as_slice).unwrap_or_default();
        // The first append that made the segment so long.
        let append = all.iter().find(|(length, _)| *length >= place.end);
        let (at, by) = match append {
            Some((_, write)) if place.end > 0 => (write.at, write.by),
            _ => (Instant::ZERO, 0),
        };
        let segment = place.segment + u64::from(place.closes);
        let (version, entries) = (place.version.version(), place.version.root().all().collect());
        versions.push(Placed { version, entries, at, by, segment });
    }
    Ok(versions)
}

/// The number of the segment that was written, and its length.
fn segment(write: &Written) -> Option<(u64, usize)> {
    let digits = write.key.as_str().strip_prefix("catalog/log/")?;
    Some((digits.parse().ok()?, write.object.as_ref()?.bytes.len()))
}

/// Whether segments were emptied, and checkpoints removed, of those only that lie far enough back.
pub(crate) fn log(simulation: &Simulation) -> Result<(), String> {
    let versions = placed(simulation)?;
    let newest =
        |at: Instant| versions.iter().take_while(|version| version.at <= at).map(|version| version.segment).max();
    let mut lengths = BTreeMap::<u64, usize>::new();
    for write in simulation.journal(STORE) {
        let checkpoint = write.key.as_str().strip_prefix("catalog/checkpoint/").and_then(|digits| digits.parse().ok());
        let gone = match (segment(&write), checkpoint) {
            (Some((number, length)), _) => {
                let before = lengths.insert(number, length).unwrap_or(0);
                (length < before).then_some(number)
            }
            (None, Some(number)) if write.object.is_none() => Some(number),
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

/// A version of a manifest chain, and what it consists of.
pub(crate) struct Kept {
    pub(crate) snapshot: Snapshot,
    pub(crate) at: Instant,
    pub(crate) objects: BTreeSet<Key>,
}

/// Whether each version says rightly what need not be kept any more, and nothing was deleted that was kept or needed by
/// what was. `skew` is how far clocks were off.
pub(crate) fn chain(journal: &[Written], versions: &[Kept], skew: Span) -> Result<(), String> {
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
