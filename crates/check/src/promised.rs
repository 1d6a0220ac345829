//! Does a store have what a catalog promises to keep, as it was? Asked of every protocol, by its traits alone.
//!
//! A protocol that keeps old versions promises each version from the oldest kept one on, what changed from one to the
//! next, and, after a vacuum, at least as many as the vacuum was to keep. Every protocol promises that its check finds
//! no damage where there is none; and that a damaged object gives a wrong answer to nobody, and does not escape the
//! check if something cannot be read.

use std::collections::BTreeMap;

use glidepath_env::{Key, Payload};
use glidepath_model::{Entry, Kind, Name, Version};
use glidepath_protocols::afterwards::{Made, at_once};
use glidepath_protocols::registry::Design;
use glidepath_protocols::upkeep::{Report, Severity};
use glidepath_protocols::{Catalog, LoadError};
use glidepath_sim::Stream;

use crate::process::Process;
use crate::subject::shared;

type Objects = BTreeMap<Key, Payload>;
type Entries = BTreeMap<Name, Entry>;

/// The key of the random stream of damages, above those of phases of a disk.
const DAMAGE: u64 = 1 << 36;

/// Of this many kept versions, all entries are read; of the others only what changed.
const READ: usize = 4;

/// How many of the newest versions must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Those that the catalog itself says it keeps.
    AsSaid,
    /// Also this many before the newest, if there were so many.
    AtLeast(u64),
}

/// Whether these objects have what the catalog promises, given all its versions.
pub(crate) fn promised<D: Design>(objects: &Objects, made: &[Made], kept: Kept) -> Result<(), String> {
    at_once(async {
        let reader = Reader::<D>::of(objects);
        if let Some(finding) = reader.fsck().await?.findings.iter().find(|found| found.severity <= Severity::Unread) {
            return Err(format!("fsck found in {}: {}", finding.object, finding.found));
        }
        if !D::VERSIONED {
            return Ok(());
        }
        let newest = reader.newest().await?;
        let oldest = if D::KEEPS_OLD { reader.oldest().await? } else { newest };
        let last = made.last().map_or(newest, |last| last.version);
        if let (true, Kept::AtLeast(count)) = (D::KEEPS_OLD, kept)
            && made.iter().any(|made| made.version < oldest && made.version.0 + count >= last.0)
        {
            return Err(format!("{oldest} is the oldest kept version; {count} before {last} are to be kept"));
        }
        if oldest > last {
            return Err(format!("{oldest} is the oldest kept version, and {last} is the newest"));
        }
        reader.versions(made, oldest).await?;
        match reader.version_at(Version(newest.0 + 1)).await? {
            Some(_) => Err(format!("there is a version after {newest}, the newest")),
            None => Ok(()),
        }
    })
}

/// Whether one damaged object gives no wrong answer, and is found by fsck if something cannot be read. The seed chooses
/// the damage.
pub(crate) fn damaged<D: Design>(objects: &Objects, made: &[Made], seed: u64) -> Result<(), String> {
    let mut objects = objects.clone();
    let Some(how) = damage(&mut objects, seed) else { return Ok(()) };
    at_once(async {
        let reader = Reader::<D>::of(&objects);
        let found = reader.fsck().await.is_ok_and(|report| report.is_damaged());
        match reader.answers(made).await {
            Ok(()) => Ok(()),
            Err(Wrong::Unreadable(_)) if found => Ok(()),
            Err(Wrong::Unreadable(why)) => Err(format!("with {how}, fsck finds no damage, though {why}")),
            Err(Wrong::Answer(what)) => Err(format!("with {how}, {what}")),
        }
    })
}

/// Changes a bit of one object, or replaces it by another one of the same kind, as the seed chooses. Returns what it
/// did, if it did anything.
fn damage(objects: &mut Objects, seed: u64) -> Option<String> {
    let mut luck = Stream::keyed(seed, 0, DAMAGE);
    let mut draw = |below: usize| (luck.draw() % below.max(1) as u64) as usize;
    let full: Vec<&Key> = objects.iter().filter(|(_, payload)| !payload.bytes.is_empty()).map(|(key, _)| key).collect();
    let key = (*full.get(draw(full.len()))?).clone();
    let kind = |key: &Key| {
        let (folder, _) = key.as_str().rsplit_once('/')?;
        Some(folder.split('/').take(3).map(str::to_owned).collect::<Vec<_>>())
    };
    let alike: Vec<&Key> = full.into_iter().filter(|other| **other != key && kind(other) == kind(&key)).collect();
    let (place, bit, other) = (draw(objects[&key].bytes.len()), draw(8), draw(2 * alike.len()));
    if let Some(other) = alike.get(other).filter(|_| kind(&key).is_some()).map(|other| (*other).clone()) {
        let how = format!("{key} replaced by {other}");
        let bytes = objects[&other].bytes.clone();
        objects.get_mut(&key)?.bytes = bytes;
        return Some(how);
    }
    let payload = objects.get_mut(&key)?;
    let mut bytes = payload.bytes.to_vec();
    bytes[place] ^= 1 << bit;
    payload.bytes = bytes.into();
    Some(format!("bit {bit} of byte {place} of {key} changed"))
}

/// What is wrong with an answer.
enum Wrong {
    /// There is none.
    Unreadable(String),
    /// It is false.
    Answer(String),
}

impl From<Wrong> for String {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Unreadable(words) | Wrong::Answer(words) => words,
        }
    }
}

fn unreadable(what: &str) -> impl FnOnce(LoadError) -> Wrong {
    move |error| Wrong::Unreadable(format!("{what} could not be read: {error}"))
}

/// A new process that reads what is there.
struct Reader<D: Design> {
    catalog: D::Catalog<Process>,
}

impl<D: Design> Reader<D> {
    fn of(objects: &Objects) -> Self {
        Self { catalog: Process::afterwards(objects.clone()).open::<D>(shared::<D>(0)) }
    }

    async fn fsck(&self) -> Result<Report, Wrong> {
        D::fsck(&self.catalog, false).await.map_err(unreadable("what fsck looks at"))
    }

    async fn load(&self) -> Result<D::Snapshot, Wrong> {
        self.catalog.load().await.map_err(unreadable("the newest version"))
    }

    async fn newest(&self) -> Result<Version, Wrong> {
        Ok(self.catalog.version(&self.load().await?).unwrap_or_default())
    }

    async fn oldest(&self) -> Result<Version, Wrong> {
        let newest = self.load().await?;
        D::oldest(&self.catalog, &newest).await.map_err(unreadable("the number of the oldest kept version"))
    }

    async fn version_at(&self, version: Version) -> Result<Option<D::Snapshot>, Wrong> {
        D::version_at(&self.catalog, version).await.map_err(unreadable(&version.to_string()))
    }

    /// Whether each kept version is what it was, and each changed what it did.
    async fn versions(&self, made: &[Made], oldest: Version) -> Result<(), Wrong> {
        let kept = made.iter().filter(|made| made.version >= oldest).count();
        let (mut entries, mut before, mut place) = (Entries::new(), None::<D::Snapshot>, 0);
        for made in made {
            let mut changed = Vec::new();
            for (name, now) in &made.changed {
                let then = match now {
                    Some(entry) => entries.insert(name.clone(), entry.clone()),
                    None => entries.remove(name),
                };
                changed.push((name.clone(), then, now.clone()));
            }
            if made.version < oldest {
                continue;
            }
            let version = made.version;
            let at = self.version_at(version).await?;
            let at = at.ok_or_else(|| Wrong::Unreadable(format!("{version}, which is to be kept, is not there")))?;
            if self.catalog.version(&at) != Some(version) {
                return Err(Wrong::Answer(format!(
                    "asked for {version}, a reader got {:?}",
                    self.catalog.version(&at)
                )));
            }
            if let Some(before) = &before {
                self.difference((before, &at), version, changed).await?;
            }
            // The oldest, the newest, and some between.
            if place * (READ - 1) % (kept - 1).max(1) < READ - 1 {
                self.is_as_it_was(&at, &version.to_string(), &entries).await?;
            }
            (before, place) = (D::KEEPS_OLD.then_some(at), place + 1);
        }
        Ok(())
    }

    /// Whether these are the changes from one version to the next.
    async fn difference(
        &self,
        (before, at): (&D::Snapshot, &D::Snapshot),
        version: Version,
        mut expected: Vec<(Name, Option<Entry>, Option<Entry>)>,
    ) -> Result<(), Wrong> {
        let what = format!("what {version} changed");
        let found = D::changed(&self.catalog, Some(before), at, usize::MAX).await.map_err(unreadable(&what))?;
        let mut found: Vec<_> = found.into_iter().map(|one| (one.name, one.before, one.now)).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        expected.retain(|(_, before, now)| before != now);
        if found == expected {
            return Ok(());
        }
        let names = |all: &[(Name, Option<Entry>, Option<Entry>)]| -> Vec<String> {
            all.iter().map(|(name, ..)| name.to_string()).collect()
        };
        let (found, expected) = (names(&found), names(&expected));
        Err(Wrong::Answer(format!("{what} is said to be {found:?}, and was {expected:?} (or their entries differ)")))
    }

    /// Whether a snapshot has these entries, and says how many.
    async fn is_as_it_was(&self, at: &D::Snapshot, what: &str, entries: &Entries) -> Result<(), Wrong> {
        let (mut found, mut namespaces) = (Entries::new(), vec![None]);
        while let Some(namespace) = namespaces.pop() {
            let children = self.catalog.children(at, namespace.as_ref(), None, usize::MAX).await;
            for (name, entry) in children.map_err(unreadable(what))? {
                if entry.kind == Kind::Namespace {
                    namespaces.push(Some(name.clone()));
                }
                found.insert(name, entry);
            }
        }
        let different = |name: &&Name| found.get(*name) != entries.get(*name);
        if let Some(name) = entries.keys().chain(found.keys()).find(different) {
            let (found, was) = (found.get(name), entries.get(name));
            return Err(Wrong::Answer(format!("in {what}, {name} is {found:?}; it was {was:?}")));
        }
        match D::facts(at).entries {
            Some(count) if count != entries.len() as u64 => {
                Err(Wrong::Answer(format!("{what} counts {count} entries; it has {}", entries.len())))
            }
            _ => Ok(()),
        }
    }

    /// Whether all that can be read is right.
    async fn answers(&self, made: &[Made]) -> Result<(), Wrong> {
        if D::VERSIONED {
            let oldest = if D::KEEPS_OLD { self.oldest().await? } else { self.newest().await? };
            return self.versions(made, oldest).await;
        }
        let mut entries = Entries::new();
        for (name, now) in made.iter().flat_map(|made| &made.changed) {
            match now {
                Some(entry) => drop(entries.insert(name.clone(), entry.clone())),
                None => drop(entries.remove(name)),
            }
        }
        self.is_as_it_was(&self.load().await?, "the catalog", &entries).await
    }
}
