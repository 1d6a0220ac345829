//! Requests to the manifest chain: namespaces and tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::{Env, Key};
use glidepath_model::{
    Action, Advance, Entry, Instant, Kind, MetadataId, Name, PartitionId, Span, TableState, Version,
};
use glidepath_protocols::manifest_chain::{Attempt, Finding, Layout, ManifestChain, Place, Severity, Sizes, Snapshot};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use super::asking::{Asker, Asking};
use super::book::{Step, Versions};
use super::judge::Terms;
use super::names::{Found, MARK, Names, Query};
use super::rules::Rules;
use super::state::State;
use super::vacuumed::{self, GRACE, Kept};
use crate::frozen::{Frozen, at_once};
use crate::subject::{Manifests, STORE, Subject, first_written};

/// Namespaces that everybody creates and drops things in.
const BUSY: [&str; 6] = ["a", "b", "a/x", "a/y", "b/x", "a/x/m"];

/// Names of tables in them.
const TABLES: [&str; 3] = ["t0", "t1", "t2"];

/// Namespaces that are there from the beginning, and tables in each, so that trees have several levels.
const FILLED: u64 = 12;
const IN_EACH: u64 = 16;

/// Whole catalogs are written anew by each commit, and have fewer.
const FILLED_WHOLE: u64 = 6;

fn name(text: &str) -> Name {
    Name::parse(text).expect("letters, digits and slashes are a name")
}

fn table_at(partitions: usize, mark: u64) -> Entry {
    let state = TableState { metadata: MetadataId(mark), ..TableState::new(partitions) };
    Entry::table(Some(format!("there/{mark}")), state)
}

fn marked(mark: u64, entry: Entry) -> Entry {
    Entry { properties: BTreeMap::from([(MARK.to_owned(), mark.to_string())]), ..entry }
}

/// What a catalog begins with.
fn filling(namespaces: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    for namespace in 0..namespaces {
        let parent = format!("s{namespace:02}");
        actions.push(Action::Create { name: name(&parent), entry: Entry::namespace() });
        for table in 0..IN_EACH {
            let entry = table_at(1 + table as usize % 4, 0);
            actions.push(Action::Create { name: name(&format!("{parent}/f{table:02}")), entry });
        }
    }
    for (busy, table) in ["a", "b", "a/x"].into_iter().zip(TABLES) {
        actions.push(Action::Create { name: name(busy), entry: Entry::namespace() });
        actions.push(Action::Create { name: name(&format!("{busy}/{table}")), entry: table_at(2, 0) });
    }
    actions
}

impl<S: Asking<Grouped = ManifestChain<SimEnv>, Rules = Names>> Asker<'_, S> {
    fn namespace(&self) -> Name {
        match self.pick(12) {
            0 => self.filled(),
            _ => name(self.one_of(&BUSY)),
        }
    }

    fn filled(&self) -> Name {
        name(&format!("s{:02}", self.pick(FILLED_WHOLE)))
    }

    /// One that is there, as often as not.
    fn table(&self) -> Name {
        self.table_among(IN_EACH)
    }

    /// One that is not there, as often as not.
    fn new_table(&self) -> Name {
        self.table_among(3 * IN_EACH)
    }

    fn table_among(&self, in_each: u64) -> Name {
        let namespace = if self.pick(4) > 0 { self.filled() } else { self.namespace() };
        match namespace.as_str().starts_with('s') {
            true => name(&format!("{namespace}/f{:02}", self.pick(in_each))),
            false if self.pick(12) == 0 => name(self.one_of(&TABLES)),
            false => name(&format!("{namespace}/{}", self.one_of(&TABLES))),
        }
    }

    /// What a name stands for now.
    async fn entry(&self, name: &Name) -> Option<Option<Entry>> {
        let (at, loaded) = self.head().await?;
        let entry = self.catalog.entry(&at, name).await.ok()?;
        let found = entry.iter().map(|entry| (name.as_str().to_owned(), Some(entry.clone()))).collect();
        self.looked(loaded, at.version(), Query::Entry(name.clone()), found);
        Some(entry)
    }

    async fn head(&self) -> Option<(Snapshot, (Instant, Instant))> {
        let began = self.env.world_now();
        let at = self.catalog.load().await.ok()?;
        Some((at, (began, self.env.world_now())))
    }

    /// Looks something up that the request does not need.
    async fn look_around(&self) -> Option<()> {
        let (at, loaded) = self.head().await?;
        let query = match self.pick(4) {
            0 => Query::OfKind(self.one_of(&[Kind::Namespace, Kind::Table])),
            1 => Query::WithBase(self.table()),
            2 => Query::Children(None),
            _ => Query::Children(Some(self.namespace())),
        };
        let found = answer(self.catalog, &at, &query).await.ok()?;
        self.looked(loaded, at.version(), query, found);
        Some(())
    }

    /// Any action, marked where it writes.
    async fn action(&self, mark: u64) -> Option<Action> {
        Some(match self.pick(100) {
            0..28 => self.create_table(mark),
            28..36 => Action::Create { name: self.namespace(), entry: marked(mark, Entry::namespace()) },
            36..43 => Action::Drop { name: self.table(), kind: Kind::Table, expected: None },
            43..50 => {
                let name = self.table();
                let state = self.entry(&name).await?.and_then(|entry| entry.state);
                let expected = Some(state.map_or(Version(0), |state| state.version));
                Action::Drop { name, kind: Kind::Table, expected }
            }
            50..55 => {
                let kind = if self.pick(9) == 0 { Kind::Table } else { Kind::Namespace };
                Action::Drop { name: self.namespace(), kind, expected: None }
            }
            55..59 => Action::DropAll { name: self.namespace() },
            59..69 => Action::Rename { from: self.table(), to: self.new_table() },
            69..82 => self.properties(mark),
            _ => self.advance(mark).await?,
        })
    }

    fn create_table(&self, mark: u64) -> Action {
        let mut entry = marked(mark, table_at(1 + self.pick(4) as usize, mark));
        entry.base_objects = (0..self.pick(3)).map(|_| self.table()).collect();
        entry.properties.insert("p".to_owned(), mark.to_string());
        Action::Create { name: self.new_table(), entry }
    }

    /// Some are set, some are removed, or both.
    fn properties(&self, mark: u64) -> Action {
        let name = if self.pick(3) == 0 { self.namespace() } else { self.table() };
        let mut changes = BTreeMap::new();
        for key in ["p", "q"] {
            match self.pick(3) {
                0 => drop(changes.insert(key.to_owned(), None)),
                1 => drop(changes.insert(key.to_owned(), Some(mark.to_string()))),
                _ => {}
            }
        }
        if changes.values().any(Option::is_some) {
            changes.insert(MARK.to_owned(), Some(mark.to_string()));
        }
        Action::SetProperties { name, changes }
    }

    /// Of one partition or several, as they were just seen; now and then as they never were.
    async fn advance(&self, mark: u64) -> Option<Action> {
        let name = self.table();
        let state = self.entry(&name).await?.and_then(|entry| entry.state).unwrap_or_else(|| TableState::new(2));
        let chosen = 1 + self.pick((1 << state.partitions.len()) - 1);
        let wrong = u64::from(self.pick(16) == 0);
        let partitions = state.partitions.iter().enumerate().filter(|(number, _)| chosen >> number & 1 == 1);
        let partitions = partitions.map(|(number, at)| (PartitionId(number as u32), Version(at.0 + wrong))).collect();
        Some(Action::Advance { name, advance: Advance { metadata: MetadataId(mark), partitions } })
    }
}

/// The protocol's answer to a question.
async fn answer<E: Env>(catalog: &ManifestChain<E>, at: &Snapshot, query: &Query) -> Result<Found, LoadError> {
    let whole = |(name, entry): (Name, Entry)| (name.as_str().to_owned(), Some(entry));
    let names = |names: Vec<Name>| {
        let mut names: Vec<Name> = names;
        names.sort();
        names.into_iter().map(|name| (name.as_str().to_owned(), None)).collect()
    };
    Ok(match query {
        Query::Entry(name) => {
            catalog.entry(at, name).await?.map(|entry| whole((name.clone(), entry))).into_iter().collect()
        }
        Query::Children(namespace) => {
            let mut children = catalog.children(at, namespace.as_ref(), None, usize::MAX).await?;
            children.sort_by(|(one, _), (other, _)| one.cmp(other));
            children.into_iter().map(whole).collect()
        }
        Query::OfKind(kind) => names(catalog.of_kind(at, *kind).await?),
        Query::WithBase(base) => names(catalog.with_base(at, base).await?),
    })
}

impl<const WHOLE: bool> Asking for Manifests<WHOLE> {
    type Rules = Names;
    type Grouped = ManifestChain<SimEnv>;

    const TERMS: Terms = Terms { exact: true, most: usize::MAX };

    /// Pages are small, so that the tree has several levels; processes differ in how they lay out what they write.
    fn place(process: u32) -> Arc<Place> {
        let place = Place::new("catalog/", 1 << 20).pages_of(256 << (process % 3));
        let place = match process.is_multiple_of(2) {
            true => place.whole_sized(Sizes { block_bytes: 8 << 10, ..Sizes::default() }),
            false => place.inline_up_to(0).whole_sized(Sizes { block_bytes: 4 << 10, part_bytes: 1 }),
        };
        Arc::new(place)
    }

    fn grouped(env: &SimEnv, place: Arc<Place>) -> ManifestChain<SimEnv> {
        ManifestChain::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &ManifestChain<SimEnv>, _: u32) -> Result<(), String> {
        let layout = if WHOLE { Layout::Whole } else { Layout::Paged };
        let Outcome::Committed(empty) = catalog.create(layout, true).await else {
            return Err("not created".to_owned());
        };
        let filling = filling(if WHOLE { FILLED_WHOLE } else { FILLED });
        match catalog.attempt(&empty, &[&filling]).await {
            (_, Attempt::Ended(Outcome::Committed(_))) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn creates_again(catalog: &ManifestChain<SimEnv>, _: u32) -> bool {
        let layout = if WHOLE { Layout::Whole } else { Layout::Paged };
        matches!(catalog.create(layout, true).await, Outcome::Committed(_))
    }

    async fn ask(asker: &Asker<'_, Self>, mark: u64) -> Option<Vec<Action>> {
        if asker.pick(4) == 0 {
            asker.look_around().await?;
        }
        let mut request = Vec::new();
        for _ in 0..asker.one_of(&[1, 1, 1, 1, 1, 1, 2, 3]) {
            request.push(asker.action(mark).await?);
        }
        Some(request)
    }

    async fn clean(catalog: &ManifestChain<SimEnv>) {
        let _ = catalog.vacuum(GRACE).await;
    }

    fn became(simulation: &Simulation) -> Result<Versions<Names>, String> {
        let (catalog, versions) = every_version::<Self>(simulation)?;
        let journal: BTreeMap<Key, (Instant, u32)> =
            simulation.journal(STORE).into_iter().rev().map(|write| (write.key, (write.at, write.by))).collect();
        let broken = |error: LoadError| error.to_string();
        // Those that were there before the run are not judged.
        let before_the_run = |at: &&Snapshot| journal.get(&key_of(at)).is_some_and(|(_, by)| *by == 0);
        let first = versions.iter().rfind(before_the_run).ok_or("there is no first version")?;
        let all = versions.iter().filter(|at| at.version() > first.version());
        let entries = at_once(catalog.all(first, None, usize::MAX)).map_err(broken)?.into_iter().collect();
        let (mut before, mut steps) = (first, Vec::new());
        for at in all {
            let changed = at_once(catalog.changed(Some(before), at, usize::MAX)).map_err(broken)?;
            let difference = changed.into_iter().map(|changed| (changed.name, changed.now)).collect();
            let (instant, by) = journal.get(&key_of(at)).copied().unwrap_or_default();
            steps.push(Step { version: at.version(), at: instant, by, difference });
            before = at;
        }
        Ok(Versions { first: (first.version(), entries), steps })
    }

    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Names>,
        last: &BTreeMap<Name, Entry>,
        skew: Span,
    ) -> Result<(), String> {
        let journal = simulation.journal(STORE);
        if journal.iter().any(|write| write.object.is_none()) {
            let (catalog, all) = every_version::<Self>(simulation)?;
            let mut kept = Vec::new();
            for snapshot in all {
                let objects = at_once(catalog.objects(&snapshot)).map_err(|error| error.to_string())?;
                let step = versions.steps.iter().find(|step| step.version == snapshot.version());
                let at = step.map_or(Instant::ZERO, |step| step.at);
                kept.push(Kept { snapshot, at, objects });
            }
            vacuumed::chain(&journal, &kept, skew)?;
        }
        let objects = simulation.objects(STORE);
        Self::references(&objects, false)?;
        let world = Frozen(objects.into());
        let catalog = ManifestChain::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, versions.last(), last))
    }
}

fn key_of(version: &Snapshot) -> Key {
    Key::new(&format!("catalog/versions/{:016x}", u64::MAX - version.version().0))
}

/// All versions, those that were cleaned away too, from what was first written under each key.
fn every_version<S: Asking<Shared = Place>>(
    simulation: &Simulation,
) -> Result<(ManifestChain<Frozen>, Vec<Snapshot>), String> {
    let world = Frozen(first_written(&simulation.written(STORE)).into());
    let catalog = ManifestChain::new(world.clone(), world, S::place(0));
    let versions = at_once(catalog.every_version()).map_err(|error| error.to_string())?;
    Ok((catalog, versions))
}

/// Whether somebody who knows nothing, and comes when all is over, finds the last version, all that is in it, by every way
/// that there is, and no damage.
async fn found_again(
    catalog: &ManifestChain<Frozen>,
    version: Version,
    last: &BTreeMap<Name, Entry>,
) -> Result<(), String> {
    let lost = |error: LoadError| format!("when all was over, the catalog could not be read: {error}");
    let head = catalog.load().await.map_err(lost)?;
    if head.version() != version {
        return Err(format!("when all was over, a reader found {}; the last one is {version}", head.version()));
    }
    let listed: BTreeMap<Name, Entry> = catalog.all(&head, None, usize::MAX).await.map_err(lost)?.into_iter().collect();
    if listed != *last {
        return Err(format!("{version} lists other entries than it was made of"));
    }
    let state = State::new(listed);
    for query in [Query::OfKind(Kind::Namespace), Query::OfKind(Kind::Table), Query::Children(None)] {
        let found = answer(catalog, &head, &query).await.map_err(lost)?;
        if found != Names::found(&state, &query) {
            return Err(format!("{version} answers {query:?} with {found:?}"));
        }
    }
    let checked = catalog.fsck().await.map_err(lost)?;
    let damage = |finding: &&Finding| finding.severity() <= Severity::Unread;
    match checked.findings.iter().find(damage) {
        Some(finding) => Err(format!("when all was over, fsck found of {}: {finding}", finding.object)),
        None => Ok(()),
    }
}
