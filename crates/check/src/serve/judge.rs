//! Does what is written agree with what the clients were told?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::Key;
use glidepath_model::{Entry, Name};
use glidepath_protocols::afterwards::{Made, Write};
use glidepath_protocols::registry::{Design, Protocol, Visitor};
use glidepath_service::RESERVED;
use glidepath_sim::Simulation;
use glidepath_table::clients;
use glidepath_table::files::is_within;
use iceberg::spec::{ManifestFile, TableMetadata};
use uuid::Uuid;

use super::BASE;
use super::book::{Attempt, Book, Told};
use super::folders::Folders;
use super::remains::{ToPurge, purged};
use crate::subject::{PREFIX, STORE, shared_state, writes};

/// What happened to all tables, derived from all that was written.
#[derive(Default)]
pub(super) struct History {
    /// All metadata files that were ever written, as far as they were needed.
    pub(super) bodies: BTreeMap<String, Arc<TableMetadata>>,
    /// Metadata files that were current in a version of the catalog, or came before one that was.
    current: BTreeSet<String>,
    /// By snapshot: in which versions of the catalog it appeared in a table that did not have it, and in which table.
    appeared: BTreeMap<i64, Vec<(usize, Uuid)>>,
    /// The same for marks in properties.
    marks: BTreeMap<String, u32>,
    /// Manifest lists, and manifests in them, of all versions of all tables.
    files: BTreeSet<String>,
    /// Locations that were to be purged, and the others of their tables.
    purged: BTreeSet<String>,
    /// By manifest list: the manifest that it removes.
    removed: BTreeMap<String, String>,
    /// By snapshot: the head that it follows, and its manifest list.
    placed: BTreeMap<i64, (Option<i64>, String)>,
    /// Tables that a version of the catalog no longer has.
    dropped: BTreeSet<Uuid>,
    /// Metadata files that tables got and were dropped with in one version of the catalog: none refers to them.
    hidden: BTreeSet<String>,
    /// The folders of the tables.
    folders: Folders,
    /// Purges where no other table was.
    pub(super) to_purge: Vec<ToPurge>,
    /// The entries at the end.
    pub(super) entries: BTreeMap<Name, Entry>,
    /// Everything ever written in the warehouse, by location.
    pub(super) written: BTreeMap<String, Bytes>,
}

/// What one version of the catalog added and dropped.
#[derive(Default)]
struct Hidden {
    marks: BTreeSet<String>,
    snapshots: BTreeSet<i64>,
}

/// Whether all was right; and in how many acknowledged commits to two tables an append was rebased. No version of the
/// catalog refers to these `hidden` metadata files.
pub(super) fn judged(
    protocol: Protocol,
    simulation: &Simulation,
    book: &Book,
    hidden: BTreeSet<String>,
) -> Result<u64, String> {
    let all = writes(simulation);
    let mut history = History { removed: book.removed.clone(), hidden, ..History::default() };
    for write in &all {
        if let (false, Some(object)) = (write.key.as_str().starts_with(PREFIX), &write.object) {
            history.written.entry(format!("{BASE}/{}", write.key)).or_insert_with(|| object.bytes.clone());
        }
    }
    let deleted: BTreeSet<Key> =
        all.iter().filter(|write| write.object.is_none()).map(|write| write.key.clone()).collect();
    let of_catalog: Vec<_> = all.into_iter().filter(|write| write.key.as_str().starts_with(PREFIX)).collect();
    for (place, made) in versions(protocol, &of_catalog)?.into_iter().enumerate() {
        history.follow(place, made)?;
    }
    history.agrees(book)?;
    let objects = simulation.objects(STORE);
    history.complete(&objects)?;
    let objects = purged(protocol, &objects)?;
    history.complete(&objects).map_err(|words| format!("after a last purge: {words}"))?;
    history.all_purged(&objects, &deleted)?;
    Ok(history.rebased_of_two(book))
}

/// The versions of the catalog that follow from these writes.
pub(super) fn versions(protocol: Protocol, writes: &[Write]) -> Result<Vec<Made>, String> {
    protocol.visit(Versions(writes))
}

struct Versions<'a>(&'a [Write]);

impl Visitor for Versions<'_> {
    type Output = Result<Vec<Made>, String>;

    fn visit<D: Design>(self) -> Self::Output {
        D::versions(shared_state::<D>(0), self.0)
    }
}

/// Whether an entry is the server's own.
pub(super) fn is_reserved(name: &Name) -> bool {
    name.parts().first().is_some_and(|first| first == RESERVED)
}

impl History {
    /// One more version of the catalog.
    fn follow(&mut self, place: usize, made: Made) -> Result<(), String> {
        let (mut notes, mut tables) = (Vec::new(), Vec::new());
        for (name, entry) in made.changed {
            let before = match &entry {
                Some(entry) => self.entries.insert(name.clone(), entry.clone()),
                None => self.entries.remove(&name),
            };
            let Some(entry) = entry else {
                let pointer = before.and_then(|before| before.pointer);
                let body = pointer.map(|pointer| self.body(&pointer)).transpose().unwrap_or_default();
                self.dropped.extend(body.map(|body| body.uuid()));
                tables.push((name, None));
                continue;
            };
            if is_reserved(&name) {
                self.purged.extend(entry.properties.get("location").cloned());
                if let (Some(location), Some(file)) =
                    (entry.properties.get("location"), entry.properties.get("metadata"))
                {
                    // A reader may have seen the table at any of its folders: it moves, also within its first one,
                    // which the note names.
                    if let Ok(body) = self.body(file) {
                        let former = body.properties().get("glidepath.former-locations");
                        let former = former.and_then(|noted| serde_json::from_str::<Vec<String>>(noted).ok());
                        self.purged.extend(former.unwrap_or_default().into_iter().chain([body.location().to_owned()]));
                    }
                    notes.push((name, location.clone(), file.clone()));
                }
                continue;
            }
            let earlier = before.as_ref().map(|entry| entry.properties.clone()).unwrap_or_default();
            self.count_marks(&earlier, &entry.properties, &name)?;
            if let Some(pointer) = &entry.pointer {
                self.advance(place, &name, before.and_then(|before| before.pointer), pointer)?;
                tables.push((name, Some(self.body(pointer)?)));
            }
        }
        let mut named: BTreeMap<&str, &Name> = BTreeMap::new();
        for (name, entry) in self.entries.iter().filter(|(name, _)| !is_reserved(name)) {
            let other = entry.pointer.as_deref().and_then(|file| Some((file, named.insert(file, name)?)));
            if let Some((file, other)) = other {
                return Err(format!("{other} and {name} are both at {file}: what one deletes, the other misses"));
            }
        }
        self.folders.follow(&tables)?;
        // Another table keeps the files, and so does one that has moved.
        notes.retain(|(_, location, file)| !self.folders.are_at(location) && is_within(file, location));
        self.to_purge.extend(notes.into_iter().map(|(note, location, file)| ToPurge { note, location, file }));
        Ok(())
    }

    /// A pointer moved, or came: what did each version since then add?
    fn advance(&mut self, place: usize, name: &Name, old: Option<String>, new: &str) -> Result<(), String> {
        let (mut steps, mut at) = (Vec::new(), new.to_owned());
        // A file that was never current before has at most one log, so this ends.
        while !self.current.contains(&at) {
            let body = self.body(&at).map_err(|words| format!("{name} points to {at}: {words}"))?;
            let earlier = body.metadata_log().last().map(|log| log.metadata_file.clone());
            let first = earlier.is_none();
            steps.push((std::mem::replace(&mut at, earlier.unwrap_or_default()), body));
            if first {
                break;
            }
        }
        let base = self.current.contains(&at).then(|| at.clone());
        if let Some(old) = old {
            let same = self.body(&old)?.uuid() == self.body(new)?.uuid();
            if same && base.as_ref() != Some(&old) {
                return Err(format!(
                    "{name} moved from {old} to {new}, which was built on {base:?}: a commit was lost"
                ));
            }
        }
        let mut before = base.map(|base| self.body(&base)).transpose()?;
        for (file, body) in steps.into_iter().rev() {
            self.step(place, name, before.as_deref(), &body)?;
            self.current.insert(file);
            before = Some(body);
        }
        Ok(())
    }

    /// A version of a table, after the one before.
    fn step(
        &mut self,
        place: usize,
        name: &Name,
        before: Option<&TableMetadata>,
        now: &TableMetadata,
    ) -> Result<(), String> {
        self.add_snapshots(place, name, before, now)?;
        let Some(before) = before else { return self.count_marks(&BTreeMap::new(), &sorted(now), name) };
        if let Some(gone) = before.snapshots().find(|old| now.snapshot_by_id(old.snapshot_id()).is_none()) {
            return Err(format!("a version of {name} has lost snapshot {}", gone.snapshot_id()));
        }
        let same = before.snapshots().count() == now.snapshots().count();
        if same && sorted(before) == sorted(now) {
            return Err(format!("a version of {name} changes nothing: a request took effect twice"));
        }
        self.count_marks(&sorted(before), &sorted(now), name)
    }

    /// The snapshots that a version adds: each follows the one before in its branch, and has what that has.
    fn add_snapshots(
        &mut self,
        place: usize,
        name: &Name,
        before: Option<&TableMetadata>,
        now: &TableMetadata,
    ) -> Result<(), String> {
        let had = |id| before.is_some_and(|before| before.snapshot_by_id(id).is_some());
        let mut head = before.and_then(|before| before.current_snapshot_id());
        let mut fresh: Vec<_> = now.snapshots().filter(|snapshot| !had(snapshot.snapshot_id())).collect();
        fresh.sort_by_key(|snapshot| snapshot.sequence_number());
        for snapshot in fresh {
            let id = snapshot.snapshot_id();
            if snapshot.parent_snapshot_id() != head {
                let parent = snapshot.parent_snapshot_id();
                return Err(format!("snapshot {id} of {name} follows {parent:?}, and the branch was at {head:?}"));
            }
            self.appeared.entry(id).or_default().push((place, now.uuid()));
            let list = snapshot.manifest_list();
            let manifests = self.manifests(name, list)?;
            let parent = head.and_then(|head| now.snapshot_by_id(head));
            let parent = parent.map(|parent| self.manifests(name, parent.manifest_list())).transpose()?;
            let paths: BTreeSet<&String> = manifests.iter().map(|manifest| &manifest.manifest_path).collect();
            let removed = self.removed.get(list);
            if let Some(back) = removed.filter(|removed| paths.contains(removed)) {
                return Err(format!("snapshot {id} removes {back}, and has it"));
            }
            let mut kept = parent.iter().flatten().map(|manifest| &manifest.manifest_path);
            if let Some(lost) = kept.find(|path| !paths.contains(path) && Some(*path) != removed) {
                return Err(format!("snapshot {id} of {name} has lost {lost} of the one before"));
            }
            let said = |total: &str| {
                let said = snapshot.summary().additional_properties.get(total);
                said.and_then(|said| said.parse::<u64>().ok())
            };
            let (files, rows) = clients::totals(&manifests);
            let told = (said("total-data-files"), said("total-records"));
            if told != (Some(files), Some(rows)) {
                return Err(format!("snapshot {id} of {name} has {files} files and {rows} rows; it says {told:?}"));
            }
            self.placed.insert(id, (head, list.to_owned()));
            self.files.insert(list.to_owned());
            self.files.extend(manifests.into_iter().map(|manifest| manifest.manifest_path));
            head = Some(id);
        }
        if now.current_snapshot_id() != head {
            return Err(format!("the branch of {name} is at {:?} after {head:?}", now.current_snapshot_id()));
        }
        Ok(())
    }

    fn manifests(&self, name: &Name, list: &str) -> Result<Vec<ManifestFile>, String> {
        let bytes = self.written.get(list).ok_or_else(|| format!("{name} refers to {list}, which nobody wrote"))?;
        clients::manifests(bytes).map_err(|error| format!("{list}: {error}"))
    }

    fn count_marks(
        &mut self,
        before: &BTreeMap<String, String>,
        now: &BTreeMap<String, String>,
        name: &Name,
    ) -> Result<(), String> {
        let is_mark = |key: &&String| key.starts_with("p.");
        for mark in now.keys().filter(is_mark).filter(|key| !before.contains_key(*key)) {
            *self.marks.entry(mark.clone()).or_default() += 1;
        }
        let (old, new) = (before.get("last"), now.get("last"));
        // A mark that is there, and becomes the last again, was set twice.
        if let Some(again) = new.filter(|new| Some(*new) != old && before.contains_key(*new)) {
            return Err(format!("{again} was set on {name} twice"));
        }
        Ok(())
    }

    fn body(&mut self, location: &str) -> Result<Arc<TableMetadata>, String> {
        if let Some(body) = self.bodies.get(location) {
            return Ok(Arc::clone(body));
        }
        let bytes = self.written.get(location).ok_or_else(|| format!("{location} was never written"))?;
        let body: TableMetadata = serde_json::from_slice(bytes).map_err(|error| format!("{location}: {error}"))?;
        let body = Arc::new(body);
        self.bodies.insert(location.to_owned(), Arc::clone(&body));
        Ok(body)
    }

    /// Whether the answers agree with the history.
    fn agrees(&mut self, book: &Book) -> Result<(), String> {
        let pointers = self.entries.values().filter_map(|entry| entry.pointer.as_ref());
        let living: BTreeSet<Uuid> = pointers.filter_map(|file| Some(self.bodies.get(file)?.uuid())).collect();
        let hidden = self.hidden_by_drops()?;
        let was_dropped = |table: &Uuid| self.dropped.contains(table);
        // Whether a commit without a key was done is not known any more when its table has been dropped, also if it is
        // registered again.
        let is_forgotten = |attempt: &Attempt| {
            let is_gone = |table: &Uuid| !living.contains(table) || was_dropped(table);
            attempt.told == Told::Refused && !attempt.keyed && attempt.tables.iter().all(is_gone)
        };
        for (snapshot, times) in &self.appeared {
            let attempts = book.attempts.iter().flat_map(|one| one.snapshots.iter().zip(&one.tables));
            let meant: BTreeSet<&Uuid> = attempts.filter(|(of, _)| *of == snapshot).map(|(_, table)| table).collect();
            if let Some((_, table)) = times.iter().find(|(_, table)| !meant.contains(table)) {
                return Err(format!("snapshot {snapshot} was added to table {table}, and no commit named that"));
            }
            // Then its client commits the snapshot again, to another table of the name.
            let of = |attempt: &&Attempt| attempt.snapshots.contains(snapshot) && is_forgotten(attempt);
            let forgotten: BTreeSet<&Uuid> = book.attempts.iter().filter(of).flat_map(|one| &one.tables).collect();
            let tables: BTreeSet<&Uuid> = times.iter().map(|(_, table)| table).collect();
            if tables.len() < times.len() || tables.difference(&forgotten).count() > 1 {
                return Err(format!("snapshot {snapshot} was added {} times", times.len()));
            }
        }
        let mut alive = BTreeSet::new();
        for attempt in &book.attempts {
            let places_of = |snapshot| Some(self.appeared.get(snapshot)?.iter().map(|(place, _)| *place).collect());
            let appeared: Vec<Option<Vec<usize>>> = attempt.snapshots.iter().map(places_of).collect();
            let none = |snapshot: &&i64| !self.appeared.contains_key(*snapshot);
            let mut missing = attempt.snapshots.iter().filter(none).peekable();
            let one_is_hidden = missing.peek().is_some() && missing.all(|missing| hidden.snapshots.contains(missing));
            if appeared.windows(2).any(|two| two[0] != two[1]) && !one_is_hidden {
                return Err(format!(
                    "of the snapshots {:?} of one commit, not all were added at once",
                    attempt.snapshots
                ));
            }
            match attempt.told {
                Told::Done if appeared.contains(&None) && !one_is_hidden => {
                    return Err(format!("snapshots {:?} were acknowledged, and are in no table", attempt.snapshots));
                }
                Told::Refused if is_forgotten(attempt) => {
                    alive.extend(attempt.snapshots.iter().copied());
                }
                Told::Refused => {
                    if let Some(file) = attempt.files.iter().find(|file| self.files.contains(*file)) {
                        return Err(format!("a table refers to {file}, whose commit was answered with a conflict"));
                    }
                }
                Told::Done | Told::Open => {}
            }
            if attempt.told != Told::Refused {
                alive.extend(attempt.snapshots.iter().copied());
            }
        }
        if let Some(zombie) = self.appeared.keys().find(|snapshot| !alive.contains(snapshot)) {
            return Err(format!(
                "snapshot {zombie} is in a table, and each of its commits was answered with a conflict"
            ));
        }
        self.agree_on_marks(book, &hidden)?;
        self.agree_on_heads(book)?;
        book.missed(|location| self.purged.contains(location))
    }

    /// What has looked at a version follows that version: nothing came between, and its files are its own.
    fn agree_on_heads(&self, book: &Book) -> Result<(), String> {
        for (snapshot, (head, list)) in &self.placed {
            let Some(intent) = book.looked.get(snapshot) else { continue };
            let as_prepared = book.attempts.iter().any(|attempt| {
                let of = attempt.snapshots.iter().position(|one| one == snapshot);
                of.is_some_and(|of| attempt.heads.get(of) == Some(head) && attempt.files.contains(list))
            });
            if !as_prepared {
                return Err(format!(
                    "snapshot {snapshot} ({intent:?}) follows {head:?} with {list}: its client has not looked at that"
                ));
            }
        }
        Ok(())
    }

    fn rebased_of_two(&self, book: &Book) -> u64 {
        let two = book.attempts.iter().filter(|attempt| attempt.snapshots.len() == 2 && attempt.told == Told::Done);
        let is_rebased = |attempt: &&Attempt| {
            let mut lists = attempt.snapshots.iter().filter_map(|snapshot| self.placed.get(snapshot));
            lists.any(|(_, list)| !attempt.files.contains(list))
        };
        two.filter(is_rebased).count() as u64
    }

    /// What was committed with a metadata file that no version of the catalog refers to.
    fn hidden_by_drops(&mut self) -> Result<Hidden, String> {
        let mut hidden = Hidden::default();
        for file in std::mem::take(&mut self.hidden) {
            let body = self.body(&file)?;
            hidden.marks.extend(sorted(&body).into_keys());
            hidden.snapshots.extend(body.snapshots().map(|snapshot| snapshot.snapshot_id()));
        }
        Ok(hidden)
    }

    fn agree_on_marks(&self, book: &Book, hidden: &Hidden) -> Result<(), String> {
        for (mark, of) in &book.marks {
            let times = self.marks.get(mark).copied().unwrap_or(0);
            match of.told {
                Told::Done if times == 0 && !hidden.marks.contains(mark) => {
                    return Err(format!("{mark} was acknowledged, and was never done"));
                }
                Told::Refused if times > 0 && of.keyed => {
                    return Err(format!("{mark} was answered with a conflict, and was done"));
                }
                _ if times > 1 && of.keyed => return Err(format!("{mark} has a key, and was done {times} times")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn sorted(metadata: &TableMetadata) -> BTreeMap<String, String> {
    let pairs: BTreeSet<_> = metadata.properties().clone().into_iter().collect();
    pairs.into_iter().collect()
}
