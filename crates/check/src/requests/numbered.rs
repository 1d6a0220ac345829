//! Requests to the protocols with numbered tables: catalog file and append log.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::{
    Advance, ByteSize, Changes, Edit, Instant, MetadataId, NotApplicable, PartitionId, Span, TableId, TableState,
    Version,
};
use glidepath_protocols::append_log::{self, AppendLog, Limits, Void};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use super::asking::{Asker, Asking};
use super::book::{Step, Versions};
use super::judge::Terms;
use super::state::Difference;
use super::tables::{Refused, Tables};
use super::vacuumed;
use crate::frozen::{Frozen, at_once};
use crate::subject::{Log, OneFile, STORE, longest_written};

type Rows = BTreeMap<TableId, TableState>;

/// Tables that come and go, besides those that a scenario has.
const PASSING: u32 = 5;

fn first_tables(count: u32) -> Vec<(TableId, TableState)> {
    (0..count).map(|id| (TableId(id), TableState::new(1 + id as usize % 4))).collect()
}

/// A request to some tables, mostly one that fits what was just seen.
async fn ask<S, F>(asker: &Asker<'_, S>, mark: u64) -> Option<Changes>
where
    F: Refused,
    S: Asking<Rules = Tables<F>>,
{
    let began = asker.env.world_now();
    let base = asker.catalog.load().await.ok()?;
    let loaded = asker.env.world_now();
    let ids: Vec<TableId> = (0..asker.tables + PASSING).map(TableId).collect();
    let states = asker.catalog.tables(&base, &ids).await.ok()?;
    let found: Vec<Option<TableState>> = states.iter().map(|state| state.as_deref().cloned()).collect();
    asker.looked((began, loaded), asker.catalog.version(&base), ids.clone(), found.clone());
    let mut changes = Changes::default();
    for _ in 0..asker.one_of(&[1, 1, 1, 2, 3]) {
        let passing = asker.pick(3) == 0;
        let table = match passing {
            true => asker.tables + asker.pick(u64::from(PASSING)) as u32,
            false => asker.pick(u64::from(asker.tables)) as u32,
        };
        let edit = match &found[table as usize] {
            Some(state) if passing && asker.pick(3) == 0 => Edit::Drop(state.version),
            Some(state) if asker.pick(12) > 0 => Edit::Advance(advance(asker, state, mark)),
            None if asker.pick(8) == 0 => Edit::Drop(Version(asker.pick(2))),
            _ => {
                let state = TableState::new(1 + asker.pick(4) as usize);
                Edit::Create(TableState { metadata: MetadataId(mark), ..state })
            }
        };
        changes.set(TableId(table), edit);
    }
    Some(changes)
}

/// Of one partition or several; now and then prepared against what never was.
fn advance<S: Asking>(asker: &Asker<'_, S>, state: &TableState, mark: u64) -> Advance {
    let count = state.partitions.len() as u64;
    let chosen = 1 + asker.pick((1 << count) - 1);
    let wrong = if asker.pick(20) == 0 { 1 } else { 0 };
    let partitions = state.partitions.iter().enumerate().filter(|(number, _)| chosen >> number & 1 == 1);
    let partitions =
        partitions.map(|(number, version)| (PartitionId(number as u32), Version(version.0 + wrong))).collect();
    Advance { metadata: MetadataId(mark), partitions }
}

fn difference(before: &Rows, now: &Rows) -> Difference<TableId, TableState> {
    let gone = before.keys().filter(|table| !now.contains_key(table)).map(|table| (*table, None));
    let new = now.iter().filter(|(table, state)| before.get(table) != Some(state));
    gone.chain(new.map(|(table, state)| (*table, Some(state.clone())))).collect()
}

/// A version with all its tables: when it took effect, and who wrote it.
type Whole = (Version, Rows, Instant, u32);

fn versions<F: Refused>(whole: Vec<Whole>) -> Result<Versions<Tables<F>>, String> {
    let mut whole = whole.into_iter();
    let (first, rows, ..) = whole.next().ok_or("there is no first version")?;
    let (mut before, mut steps) = (rows.clone(), Vec::new());
    for (version, rows, at, by) in whole {
        steps.push(Step { version, at, by, difference: difference(&before, &rows) });
        before = rows;
    }
    Ok(Versions { first: (first, rows), steps })
}

/// Whether a reader who comes when all is over finds the last version.
async fn found_again<C: Catalog>(catalog: &C, last: (Version, &Rows), tables: u32) -> Result<(), String> {
    let lost =
        |error: glidepath_protocols::LoadError| format!("when all was over, the catalog could not be read: {error}");
    let found = catalog.load().await.map_err(lost)?;
    let ids: Vec<TableId> = (0..tables).map(TableId).collect();
    let states = catalog.tables(&found, &ids).await.map_err(lost)?;
    let rows: Rows =
        ids.into_iter().zip(&states).filter_map(|(id, state)| Some((id, state.as_deref()?.clone()))).collect();
    if (catalog.version(&found), &rows) == last {
        return Ok(());
    }
    Err(format!(
        "when all was over, a reader found {} with {rows:?}; the last one is {} with {:?}",
        catalog.version(&found),
        last.0,
        last.1
    ))
}

/// More than any scenario of a run has, with those that pass.
const ALL: u32 = 64;

impl Asking for OneFile {
    type Rules = Tables<NotApplicable>;
    type Grouped = CatalogFile<SimEnv>;

    const TERMS: Terms = Terms { exact: false, most: usize::MAX };

    fn place(_: u32) -> Arc<catalog_file::Place> {
        Arc::new(catalog_file::Place::new(Key::new("catalog"), ByteSize::default()))
    }

    fn grouped(env: &SimEnv, place: Arc<catalog_file::Place>) -> CatalogFile<SimEnv> {
        CatalogFile::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &CatalogFile<SimEnv>, tables: u32) -> Result<(), String> {
        match catalog.create(first_tables(tables)).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn creates_again(catalog: &CatalogFile<SimEnv>, tables: u32) -> bool {
        matches!(catalog.create(first_tables(tables)).await, Outcome::Committed(_))
    }

    async fn ask(asker: &Asker<'_, Self>, mark: u64) -> Option<Changes> {
        ask(asker, mark).await
    }

    async fn clean(_: &CatalogFile<SimEnv>) {}

    fn became(simulation: &Simulation) -> Result<Versions<Self::Rules>, String> {
        let mut whole = Vec::new();
        for write in simulation.journal(STORE) {
            let object = write.object.ok_or("the catalog was deleted")?;
            let file = catalog_file::File::decode(&object.bytes).map_err(|error| error.to_string())?;
            let root = file.root();
            whole.push((root.version, root.tables().cloned().collect(), write.at, write.by));
        }
        versions(whole)
    }

    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Self::Rules>,
        last: &Rows,
        _: Span,
    ) -> Result<(), String> {
        let world = Frozen(simulation.objects(STORE).into());
        let catalog = CatalogFile::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, (versions.last(), last), ALL))
    }
}

impl Asking for Log {
    type Rules = Tables<Void>;
    type Grouped = AppendLog<SimEnv>;

    const TERMS: Terms = Terms { exact: false, most: 1 };

    /// As in the other runs: segments are closed early, by each process at its own time.
    fn place(process: u32) -> Arc<append_log::Place> {
        let limits = Limits { records: 3 + u64::from(process % 4), ..Limits::default() };
        Arc::new(append_log::Place::new("catalog", limits))
    }

    fn grouped(env: &SimEnv, place: Arc<append_log::Place>) -> AppendLog<SimEnv> {
        AppendLog::new(env.clone(), env.store(STORE), place)
    }

    async fn begin(catalog: &AppendLog<SimEnv>, tables: u32) -> Result<(), String> {
        match catalog.create(first_tables(tables)).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn creates_again(catalog: &AppendLog<SimEnv>, tables: u32) -> bool {
        matches!(catalog.create(first_tables(tables)).await, Outcome::Committed(_))
    }

    async fn ask(asker: &Asker<'_, Self>, mark: u64) -> Option<Changes> {
        ask(asker, mark).await
    }

    async fn clean(catalog: &AppendLog<SimEnv>) {
        let _ = catalog.vacuum(vacuumed::KEPT_SEGMENTS).await;
    }

    fn became(simulation: &Simulation) -> Result<Versions<Self::Rules>, String> {
        versions(
            vacuumed::placed(simulation)?
                .into_iter()
                .map(|placed| (placed.version, placed.rows, placed.at, placed.by))
                .collect(),
        )
    }

    fn aftermath(
        simulation: &Simulation,
        versions: &Versions<Self::Rules>,
        last: &Rows,
        _: Span,
    ) -> Result<(), String> {
        vacuumed::log(simulation)?;
        let world = Frozen(simulation.objects(STORE).into());
        let catalog = AppendLog::new(world.clone(), world, Self::place(0));
        at_once(found_again(&catalog, (versions.last(), last), ALL))
    }
}

/// The whole log as it was before anything was emptied.
pub(crate) fn whole_log(simulation: &Simulation) -> Result<Vec<append_log::Placed>, String> {
    let world = Frozen(longest_written(&simulation.written(STORE))?.into());
    let catalog = AppendLog::new(world.clone(), world, Log::place(0));
    at_once(catalog.every_place()).map_err(|error| error.to_string())
}
