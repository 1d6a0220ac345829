//! Does what is written agree with what the clients were told?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Env, Key, Payload};
use glidepath_model::{Entry, Instant, Name, Span};
use glidepath_protocols::afterwards::{Made, Write};
use glidepath_protocols::registry::{Design, Protocol, Visitor};
use glidepath_service::RESERVED;
use glidepath_sim::{SimEnv, Simulation};
use glidepath_table::clients;
use iceberg::spec::TableMetadata;

use super::book::{Book, Told};
use super::{BASE, server};
use crate::run::calm;
use crate::subject::{PREFIX, STORE, shared_state, writes};

/// When the last purge runs: after almost all runs, and before the horizon of a calm world.
const PURGED: Span = Span::from_secs(71 * 3600);

/// What happened to all tables, derived from all that was written.
#[derive(Default)]
struct History {
    /// All metadata files that were ever written, as far as they were needed.
    bodies: BTreeMap<String, Arc<TableMetadata>>,
    /// Metadata files that were current in a version of the catalog, or came before one that was.
    current: BTreeSet<String>,
    /// By snapshot: in which versions of the catalog it appeared in a table that did not have it.
    appeared: BTreeMap<i64, Vec<usize>>,
    /// The same for marks in properties.
    marks: BTreeMap<String, u32>,
    /// Manifest lists, and manifests in them, of all versions of all tables.
    files: BTreeSet<String>,
    /// Locations that were to be purged.
    purged: BTreeSet<String>,
    /// By snapshot: the manifest that it removes.
    removed: BTreeMap<i64, String>,
    /// The entries at the end.
    entries: BTreeMap<Name, Entry>,
    /// Everything ever written in the warehouse, by location.
    written: BTreeMap<String, Bytes>,
}

/// Whether all was right.
pub(super) fn judged(protocol: Protocol, simulation: &Simulation, book: &Book) -> Result<(), String> {
    let all = writes(simulation);
    let mut history = History { removed: book.removed.clone(), ..History::default() };
    for write in &all {
        if let (false, Some(object)) = (write.key.as_str().starts_with(PREFIX), &write.object) {
            history.written.entry(format!("{BASE}/{}", write.key)).or_insert_with(|| object.bytes.clone());
        }
    }
    let of_catalog: Vec<_> = all.into_iter().filter(|write| write.key.as_str().starts_with(PREFIX)).collect();
    for (place, made) in protocol.visit(Versions(&of_catalog))?.into_iter().enumerate() {
        history.follow(place, made)?;
    }
    history.agrees(book)?;
    let objects = simulation.objects(STORE);
    history.complete(&objects)?;
    history.complete(&purged(protocol, &objects)).map_err(|words| format!("after a last purge: {words}"))
}

/// The versions of the catalog that follow from these writes.
struct Versions<'a>(&'a [Write]);

impl Visitor for Versions<'_> {
    type Output = Result<Vec<Made>, String>;

    fn visit<D: Design>(self) -> Self::Output {
        D::versions(shared_state::<D>(0), self.0)
    }
}

/// The objects after the purges that are due long after the run, without faults.
fn purged(protocol: Protocol, objects: &BTreeMap<Key, Payload>) -> BTreeMap<Key, Payload> {
    let mut simulation = calm(objects.iter().map(|(key, payload)| (key, payload.clone())));
    let cleaner = |env: SimEnv| async move {
        env.sleep_until(Instant::ZERO + PURGED).await;
        let (service, _) = server::service(&env, protocol, 1, false);
        let _ = (service.run_purges().await, service.clean_keys().await);
    };
    simulation.run([(Instant::ZERO, cleaner)]);
    simulation.objects(STORE)
}

impl History {
    /// One more version of the catalog.
    fn follow(&mut self, place: usize, made: Made) -> Result<(), String> {
        for (name, entry) in made.changed {
            let before = match &entry {
                Some(entry) => self.entries.insert(name.clone(), entry.clone()),
                None => self.entries.remove(&name),
            };
            let Some(entry) = entry else { continue };
            if name.parts().first().is_some_and(|first| first == RESERVED) {
                self.purged.extend(entry.properties.get("location").cloned());
                continue;
            }
            let earlier = before.as_ref().map(|entry| entry.properties.clone()).unwrap_or_default();
            self.count_marks(&earlier, &entry.properties, &name)?;
            if let Some(pointer) = &entry.pointer {
                self.advance(place, &name, before.and_then(|before| before.pointer), pointer)?;
            }
        }
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
        let had = |id| before.is_some_and(|before| before.snapshot_by_id(id).is_some());
        for snapshot in now.snapshots().filter(|snapshot| !had(snapshot.snapshot_id())) {
            self.appeared.entry(snapshot.snapshot_id()).or_default().push(place);
            let list = snapshot.manifest_list();
            self.files.insert(list.to_owned());
            let Some(bytes) = self.written.get(list) else {
                return Err(format!("{name} refers to {list}, which nobody wrote"));
            };
            let manifests = clients::manifests(bytes).map_err(|error| format!("{list}: {error}"))?;
            let paths: Vec<String> = manifests.into_iter().map(|manifest| manifest.manifest_path).collect();
            if let Some(back) = self.removed.get(&snapshot.snapshot_id()).filter(|removed| paths.contains(removed)) {
                return Err(format!("snapshot {} removes {back}, and has it", snapshot.snapshot_id()));
            }
            self.files.extend(paths);
        }
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
    fn agrees(&self, book: &Book) -> Result<(), String> {
        for (snapshot, times) in &self.appeared {
            if times.len() > 1 {
                return Err(format!("snapshot {snapshot} was added {} times", times.len()));
            }
        }
        let mut alive = BTreeSet::new();
        for attempt in &book.attempts {
            let appeared: Vec<_> = attempt.snapshots.iter().map(|snapshot| self.appeared.get(snapshot)).collect();
            if appeared.windows(2).any(|two| two[0] != two[1]) {
                return Err(format!(
                    "of the snapshots {:?} of one commit, not all were added at once",
                    attempt.snapshots
                ));
            }
            match attempt.told {
                Told::Done if appeared.contains(&None) => {
                    return Err(format!("snapshots {:?} were acknowledged, and are in no table", attempt.snapshots));
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
        self.agree_on_marks(book)?;
        book.missed(|location| self.purged.contains(location))
    }

    fn agree_on_marks(&self, book: &Book) -> Result<(), String> {
        for (mark, of) in &book.marks {
            let times = self.marks.get(mark).copied().unwrap_or(0);
            match of.told {
                Told::Done if times == 0 => return Err(format!("{mark} was acknowledged, and was never done")),
                Told::Refused if times > 0 && of.keyed => {
                    return Err(format!("{mark} was answered with a conflict, and was done"));
                }
                _ if times > 1 && of.keyed => return Err(format!("{mark} has a key, and was done {times} times")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether all is there that tables refer to at the end.
    fn complete(&self, objects: &BTreeMap<Key, Payload>) -> Result<(), String> {
        let is_there = |location: &str| {
            let key = location.strip_prefix(BASE).map(|key| Key::new(key.trim_start_matches('/')));
            key.is_some_and(|key| objects.contains_key(&key))
        };
        for (name, entry) in &self.entries {
            let (false, Some(pointer)) = (name.parts().first().is_some_and(|one| one == RESERVED), &entry.pointer)
            else {
                continue;
            };
            let Some(body) = self.bodies.get(pointer) else { continue };
            let log = body.metadata_log().iter().map(|log| log.metadata_file.clone());
            let mut needed: Vec<String> = log.chain([pointer.clone()]).collect();
            for snapshot in body.snapshots() {
                let list = snapshot.manifest_list();
                let manifests = self.written.get(list).map(|bytes| clients::manifests(bytes));
                let manifests = manifests.and_then(Result::ok).unwrap_or_default();
                needed.push(list.to_owned());
                needed.extend(manifests.into_iter().map(|manifest| manifest.manifest_path));
            }
            if let Some(file) = needed.iter().find(|file| !is_there(file)) {
                return Err(format!("{name} refers to {file}, which was deleted"));
            }
        }
        Ok(())
    }
}

fn sorted(metadata: &TableMetadata) -> BTreeMap<String, String> {
    let pairs: BTreeSet<_> = metadata.properties().clone().into_iter().collect();
    pairs.into_iter().collect()
}
