//! Does what is written agree with what the clients of Lance were told?

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use glidepath_env::{Key, Payload};
use glidepath_model::{Entry, Name};
use glidepath_protocols::afterwards::{Made, Write};
use glidepath_protocols::registry::Protocol;
use glidepath_service::RESERVED;
use glidepath_sim::Simulation;
use serde::Deserialize;

use super::super::BASE;
use super::super::book::{Book, Told};
use super::super::judge::versions;
use super::super::remains::purged;
use super::{Manifest, Versions, place, placed, read};
use crate::subject::{PREFIX, STORE, writes};

/// What the pointer of a table says.
#[derive(Clone, Debug, Deserialize)]
struct Head {
    location: String,
    version: u64,
    copy: Option<String>,
}

/// What happened to all tables, derived from all that was written.
#[derive(Default)]
struct History {
    /// By location: the manifest of each version, from 1 on.
    tables: BTreeMap<String, Vec<Manifest>>,
    /// The entries at the end.
    entries: BTreeMap<Name, Entry>,
    /// By location of a table that is to be purged, or was: the note.
    notes: BTreeMap<String, Name>,
    /// Everything that was ever written of tables, by location: the first time, and whether it was ever something else.
    written: BTreeMap<String, (Bytes, bool)>,
    /// Files that were deleted at some time.
    deleted: BTreeSet<String>,
}

/// Whether all was right.
pub(in super::super) fn judged(protocol: Protocol, simulation: &Simulation, book: &Book) -> Result<(), String> {
    let (of_catalog, of_tables): (Vec<_>, Vec<_>) =
        writes(simulation).into_iter().partition(|write| write.key.as_str().starts_with(PREFIX));
    let mut history = History::default();
    of_tables.into_iter().for_each(|write| history.write(write));
    for made in versions(protocol, &of_catalog)? {
        history.follow(made)?;
    }
    history.places()?;
    history.agrees(&book.lance)?;
    let objects = simulation.objects(STORE);
    history.complete(&book.lance, &objects)?;
    let objects = purged(protocol, &objects)?;
    history.complete(&book.lance, &objects).map_err(|words| format!("after a last purge: {words}"))?;
    history.all_purged(&objects)
}

impl History {
    fn write(&mut self, write: Write) {
        let file = format!("{BASE}/{}", write.key);
        let Some(object) = write.object else {
            self.deleted.insert(file);
            return;
        };
        let first = self.written.entry(file).or_insert_with(|| (object.bytes.clone(), false));
        first.1 |= first.0 != object.bytes;
    }

    /// One more version of the catalog.
    fn follow(&mut self, made: Made) -> Result<(), String> {
        for (name, entry) in made.changed {
            let Some(entry) = entry else {
                self.entries.remove(&name);
                continue;
            };
            if name.parts().first().is_some_and(|first| first == RESERVED) {
                let location = entry.properties.get("location").cloned();
                self.notes.extend(location.map(|location| (location, name.clone())));
            } else if let Some(head) = head(&entry) {
                self.advance(head)?;
            }
            self.entries.insert(name, entry);
        }
        Ok(())
    }

    /// A pointer came, or moved.
    fn advance(&mut self, head: Head) -> Result<(), String> {
        let Head { location, version, copy } = head;
        let manifests = self.tables.entry(location.clone()).or_default();
        if version == manifests.len() as u64 {
            return Ok(());
        }
        if version != manifests.len() as u64 + 1 {
            return Err(format!("{location} went from version {} to {version}", manifests.len()));
        }
        let copy = copy.ok_or_else(|| format!("version {version} of {location} has no copy"))?;
        let bytes = self.written.get(&copy).ok_or_else(|| format!("{copy} was never written"))?;
        let manifest = read(&bytes.0)?;
        let after = manifests.last().map_or(0, |manifest| manifest.attempt);
        if manifest.version != version || manifest.after.is_some_and(|looked| looked != after) {
            return Err(format!("version {version} of {location} comes after attempt {after}, and is {manifest:?}"));
        }
        manifests.push(manifest);
        Ok(())
    }

    /// At the place of each version is its manifest, and nothing else ever was.
    fn places(&self) -> Result<(), String> {
        for (file, (bytes, changed)) in &self.written {
            let Some((location, version)) = placed(file) else { continue };
            let manifest = self.tables.get(location).and_then(|manifests| manifests.get(version as usize - 1));
            if *changed || Some(&read(bytes)?) != manifest {
                return Err(format!("{file} was {bytes:?}, and the version is {manifest:?}"));
            }
        }
        Ok(())
    }

    /// Whether the answers agree with the history.
    fn agrees(&self, told: &Versions) -> Result<(), String> {
        let mut commits = BTreeSet::new();
        let mut made = BTreeMap::new();
        for (location, manifest) in
            self.tables.iter().flat_map(|(location, all)| all.iter().map(move |one| (location, one)))
        {
            if !commits.insert(manifest.commit) {
                return Err(format!("commit {} made two versions", manifest.commit));
            }
            made.insert(manifest.attempt, (location, manifest.version));
        }
        for (number, attempt) in &told.attempts {
            let is_made = made.get(number) == Some(&(&attempt.location, attempt.version));
            match attempt.told {
                Told::Done if !is_made => return Err(format!("{attempt:?} was acknowledged, and is no version")),
                Told::Refused if made.contains_key(number) => {
                    return Err(format!("{attempt:?} was answered with a conflict, and is a version"));
                }
                Told::Done | Told::Refused | Told::Open => {}
            }
        }
        // A table that is gone may have been purged.
        let lost = told
            .missed
            .iter()
            .find(|(location, version)| *version >= told.least(location) && !self.notes.contains_key(location));
        match lost {
            Some((location, version)) => Err(format!("a reader did not find version {version} of {location}")),
            None => Ok(()),
        }
    }

    /// Whether all versions are there that should be.
    fn complete(&self, told: &Versions, objects: &BTreeMap<Key, Payload>) -> Result<(), String> {
        let living: BTreeMap<String, Head> =
            self.entries.values().filter_map(head).map(|head| (head.location.clone(), head)).collect();
        for (location, manifests) in &self.tables {
            let head = living.get(location);
            if head.is_none() && self.notes.contains_key(location) {
                continue;
            }
            for version in told.least(location)..=manifests.len() as u64 {
                let copy = head.filter(|head| head.version == version).and_then(|head| head.copy.as_deref());
                if !is_there(&place(location, version), objects) && !copy.is_some_and(|copy| is_there(copy, objects)) {
                    return Err(format!("version {version} of {location} is gone"));
                }
            }
        }
        Ok(())
    }

    /// Whether purges that have ended deleted the versions: all that were at their places when the table was dropped,
    /// unless the store delivered an old write again.
    fn all_purged(&self, objects: &BTreeMap<Key, Payload>) -> Result<(), String> {
        let living: BTreeSet<String> = self.entries.values().filter_map(|entry| entry.location.clone()).collect();
        for (location, note) in &self.notes {
            let Some(manifests) = self.tables.get(location).filter(|_| !living.contains(location)) else { continue };
            let runs = self.entries.get(note).is_some_and(|entry| entry.properties.get("location") == Some(location));
            let places = (1..manifests.len() as u64).map(|version| place(location, version));
            let kept = places.into_iter().find(|file| is_there(file, objects) && !self.deleted.contains(file));
            if let (false, Some(file)) = (runs, kept) {
                return Err(format!("{file} was to be purged, and is there, though the note {note} is not"));
            }
        }
        Ok(())
    }
}

/// What an entry says of its versions, if the server orders them.
fn head(entry: &Entry) -> Option<Head> {
    serde_json::from_str(entry.pointer.as_deref()?).ok()
}

fn is_there(file: &str, objects: &BTreeMap<Key, Payload>) -> bool {
    let key = file.strip_prefix(BASE).map(|key| Key::new(key.trim_start_matches('/')));
    key.is_some_and(|key| objects.contains_key(&key))
}
