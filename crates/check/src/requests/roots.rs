//! Requests to the protocols whose snapshots hold a whole root: catalog file and append log.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::{ByteSize, Entry, Instant, Kind, Name, Root, Span, TableId, TableState, Version};
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::group::{GroupAttempt, Grouped};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use super::asking::Asking;
use super::book::{Step, Versions};
use super::judge::Terms;
use super::mix::{FILLED_WHOLE, filling};
use super::names::{Found, Names, Query};
use super::rules::Rules;
use super::state::{Difference, State};
use super::vacuumed;
use crate::frozen::{Frozen, at_once};
use crate::subject::{Log, OneFile, STORE, longest_written};

type Entries = BTreeMap<Name, Entry>;

fn first_tables(count: u32) -> Vec<(TableId, TableState)> {
    (0..count).map(|id| (TableId(id), TableState::new(1 + id as usize % 4))).collect()
}

/// Fills a catalog that has been created.
async fn filled<C: Grouped>(catalog: &C, created: Outcome<C::Snapshot>) -> Result<(), String> {
    let Outcome::Committed(first) = created else { return Err("not created".to_owned()) };
    match catalog.attempt_group(&first, &[&filling(FILLED_WHOLE)]).await {
        GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. } => Ok(()),
        _ => Err("not filled".to_owned()),
    }
}

/// By the trait where it has the question, else by looking at every entry.
async fn answer<C: Catalog>(catalog: &C, at: &C::Snapshot, root: &Root, query: &Query) -> Result<Found, LoadError> {
    let whole = |(name, entry): (Name, Entry)| (name.as_str().to_owned(), Some(entry));
    let names = |wanted: &dyn Fn(&Entry) -> bool| {
        let found: BTreeMap<Name, Entry> = root.all().filter(|(_, entry)| wanted(entry)).collect();
        found.into_keys().map(|name| (name.as_str().to_owned(), None)).collect()
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
        Query::OfKind(kind) => names(&|entry| entry.kind == *kind),
        Query::WithBase(base) => names(&|entry| entry.base_objects.contains(base)),
    })
}

fn difference(before: &Entries, now: &Entries) -> Difference<Name, Entry> {
    let gone = before.keys().filter(|name| !now.contains_key(name)).map(|name| (name.clone(), None));
    let new = now.iter().filter(|(name, entry)| before.get(name) != Some(entry));
    gone.chain(new.map(|(name, entry)| (name.clone(), Some(entry.clone())))).collect()
}

/// A version with all its entries: when it took effect, and who wrote it.
type Whole = (Version, Entries, Instant, u32);

/// Those that were there before the run are not judged.
fn versions(mut whole: Vec<Whole>) -> Result<Versions<Names>, String> {
    let first = whole.iter().rposition(|(.., by)| *by == 0).ok_or("there is no first version")?;
    let mut whole = whole.drain(first..);
    let (first, entries, ..) = whole.next().ok_or("there is no first version")?;
    let (mut before, mut steps) = (entries.clone(), Vec::new());
    for (version, entries, at, by) in whole {
        steps.push(Step { version, at, by, difference: difference(&before, &entries) });
        before = entries;
    }
    Ok(Versions { first: (first, entries), steps })
}

/// Whether a reader who comes when all is over finds the last version, and in it what it should.
async fn found_again<C: Catalog>(
    catalog: &C,
    root: impl Fn(&C::Snapshot) -> Root,
    (version, last): (Version, &Entries),
) -> Result<(), String> {
    let lost = |error: LoadError| format!("when all was over, the catalog could not be read: {error}");
    let found = catalog.load().await.map_err(lost)?;
    let root = root(&found);
    if catalog.version(&found) != version || root.all().collect::<Entries>() != *last {
        let found = catalog.version(&found);
        return Err(format!("when all was over, a reader found {found}, or other entries; the last one is {version}"));
    }
    let state = State::new(last.clone());
    let inside = last.iter().filter(|(_, entry)| entry.kind == Kind::Namespace).map(|(name, _)| Some(name.clone()));
    for query in inside.chain([None]).map(Query::Children).chain(last.keys().cloned().map(Query::Entry)) {
        let found = answer(catalog, &found, &root, &query).await.map_err(lost)?;
        if found != Names::found(&state, &query) {
            return Err(format!("{version} answers {query:?} with {found:?}"));
        }
    }
    Ok(())
}

impl Asking for OneFile {
    type Grouped = CatalogFile<SimEnv>;

    const TERMS: Terms = Terms { exact: false, least: 0, most: usize::MAX };
    const NUMBERED: bool = true;

    fn place(_: u32) -> Arc<catalog_file::Place> {
        Arc::new(catalog_file::Place::new(Key::new("catalog"), ByteSize::default()))
    }

    fn grouped(env: &SimEnv, place: Arc<catalog_file::Place>) -> CatalogFile<SimEnv> {
        CatalogFile::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &CatalogFile<SimEnv>, tables: u32) -> Result<(), String> {
        filled(catalog, catalog.create(first_tables(tables)).await).await
    }

    async fn creates_again(catalog: &CatalogFile<SimEnv>, tables: u32) -> bool {
        matches!(catalog.create(first_tables(tables)).await, Outcome::Committed(_))
    }

    async fn answer(
        catalog: &CatalogFile<SimEnv>,
        at: &catalog_file::Snapshot,
        query: &Query,
    ) -> Result<Found, LoadError> {
        answer(catalog, at, at.root(), query).await
    }

    async fn clean(_: &CatalogFile<SimEnv>) {}

    fn became(simulation: &Simulation) -> Result<Versions<Names>, String> {
        let mut whole = Vec::new();
        for write in simulation.journal(STORE) {
            let object = write.object.ok_or("the catalog was deleted")?;
            let file = catalog_file::File::decode(&object.bytes).map_err(|error| error.to_string())?;
            let root = file.root();
            whole.push((root.version, root.all().collect(), write.at, write.by));
        }
        versions(whole)
    }

    fn aftermath(simulation: &Simulation, versions: &Versions<Names>, last: &Entries, _: Span) -> Result<(), String> {
        let world = Frozen(simulation.objects(STORE).into());
        let catalog = CatalogFile::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, |at| at.root().clone(), (versions.last(), last)))
    }
}

impl Asking for Log {
    type Grouped = AppendLog<SimEnv>;

    const TERMS: Terms = Terms { exact: false, least: 1, most: 1 };
    const NUMBERED: bool = true;

    /// As in the other runs: segments are closed early, by each process at its own time.
    fn place(process: u32) -> Arc<append_log::Place> {
        let limits = Limits { records: 3 + u64::from(process % 4), ..Limits::default() };
        Arc::new(append_log::Place::new("catalog", limits))
    }

    fn grouped(env: &SimEnv, place: Arc<append_log::Place>) -> AppendLog<SimEnv> {
        AppendLog::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &AppendLog<SimEnv>, tables: u32) -> Result<(), String> {
        filled(catalog, catalog.create(first_tables(tables)).await).await
    }

    async fn creates_again(catalog: &AppendLog<SimEnv>, tables: u32) -> bool {
        matches!(catalog.create(first_tables(tables)).await, Outcome::Committed(_))
    }

    async fn answer(catalog: &AppendLog<SimEnv>, at: &append_log::Snapshot, query: &Query) -> Result<Found, LoadError> {
        answer(catalog, at, &at.root(), query).await
    }

    async fn clean(catalog: &AppendLog<SimEnv>) {
        let _ = catalog.vacuum(vacuumed::KEPT_SEGMENTS).await;
    }

    fn became(simulation: &Simulation) -> Result<Versions<Names>, String> {
        let placed = vacuumed::placed(simulation)?.into_iter();
        versions(placed.map(|placed| (placed.version, placed.entries, placed.at, placed.by)).collect())
    }

    fn aftermath(simulation: &Simulation, versions: &Versions<Names>, last: &Entries, _: Span) -> Result<(), String> {
        vacuumed::log(simulation)?;
        let world = Frozen(simulation.objects(STORE).into());
        let catalog = AppendLog::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, append_log::Snapshot::root, (versions.last(), last)))
    }
}

/// The whole log as it was before anything was emptied.
pub(crate) fn whole_log(simulation: &Simulation) -> Result<Vec<append_log::Placed>, String> {
    let world = Frozen(longest_written(&simulation.written(STORE))?.into());
    let catalog = AppendLog::new(world.clone(), world, Log::place(0));
    at_once(catalog.every_place()).map_err(|error| error.to_string())
}
