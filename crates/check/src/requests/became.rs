//! What does a catalog begin with, what did it become, and does a new reader find it so?

use std::collections::BTreeMap;

use glidepath_model::{Entry, Kind, Name, TableId, TableState, Version};
use glidepath_protocols::afterwards::{Made, at_once};
use glidepath_protocols::group::{GroupAttempt, Grouped};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::Design;
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::Simulation;

use super::asking::answer;
use super::book::{Step, Versions};
use super::judge::Terms;
use super::mix::{FILLED, FILLED_WHOLE, filling};
use super::names::{Names, Query};
use super::rules::Rules;
use super::state::State;
use crate::process::Process;
use crate::subject::{CatalogKind, STORE, shared};

pub(crate) type Entries = BTreeMap<Name, Entry>;

pub(crate) fn terms<D: Design>() -> Terms {
    let (least, most) = if D::VERSION_PER_REQUEST { (1, 1) } else { (0, usize::MAX) };
    Terms { exact: D::TELLS_OWN_VERSION, least, most }
}

pub(crate) fn first_tables(count: u32) -> Vec<(TableId, TableState)> {
    (0..count).map(|id| (TableId(id), TableState::new(1 + id as usize % 4))).collect()
}

/// Creates the catalog that a run begins with.
pub(crate) async fn begin<D: Design>(
    catalog: &D::Catalog<Process>,
    kind: CatalogKind,
    tables: u32,
) -> Result<(), String> {
    let created = D::create(catalog, kind.creation(first_tables(tables))).await;
    let Outcome::Committed(first) = created else { return Err("not created".to_owned()) };
    // Catalogs that each commit rewrites have fewer entries.
    let filling = filling(if kind.layout == Some(Layout::Paged) { FILLED } else { FILLED_WHOLE });
    match catalog.attempt_group(&first, &[&filling]).await {
        GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. } => Ok(()),
        _ => Err("not filled".to_owned()),
    }
}

/// The versions of the catalog. Those from before the run are not judged.
pub(crate) fn became(simulation: &Simulation, made: &[Made]) -> Result<Versions<Names>, String> {
    let journal = simulation.journal(STORE);
    let (mut first, mut entries, mut steps) = (None, Entries::new(), Vec::new());
    let mut commits = BTreeMap::new();
    for made in made {
        let write = &journal[made.write];
        if let Some(commit) = made.commit
            && commits.insert(commit, made.version).is_some()
        {
            return Err(format!("{commit} made two versions"));
        }
        if write.by == 0 {
            first = Some(made.version);
            for (name, entry) in &made.changed {
                match entry {
                    Some(entry) => drop(entries.insert(name.clone(), entry.clone())),
                    None => drop(entries.remove(name)),
                }
            }
        } else {
            let difference = made.changed.clone();
            steps.push(Step { version: made.version, at: write.at, by: write.by, difference });
        }
    }
    Ok(Versions { first: (first.ok_or("there is no first version")?, entries), steps, commits })
}

/// Whether the final objects are the last version, with these entries.
pub(crate) fn aftermath<D: Design>(simulation: &Simulation, last: (Version, &Entries)) -> Result<(), String> {
    let catalog = Process::afterwards(simulation.objects(STORE)).open::<D>(shared::<D>(0));
    at_once(found_again(&catalog, last.0, last.1))
}

/// Whether a new reader, after the end of the run, finds the last version and, by every kind of query, all its entries.
async fn found_again<C: Catalog>(catalog: &C, version: Version, last: &Entries) -> Result<(), String> {
    let lost = |error: LoadError| format!("after the run, the catalog could not be read: {error}");
    let head = catalog.load().await.map_err(lost)?;
    if let Some(found) = catalog.version(&head)
        && found != version
    {
        return Err(format!("after the run, a reader found {found}; the last version is {version}"));
    }
    let state = State::new(last.clone());
    let inside = last.iter().filter(|(_, entry)| entry.kind == Kind::Namespace).map(|(name, _)| Some(name.clone()));
    let namespaces = inside.chain([None]);
    let queries = namespaces.clone().map(Query::Children).chain(last.keys().cloned().map(Query::Entry));
    for query in queries.chain(Kind::ALL.map(Query::OfKind)).chain(namespaces.map(Query::List)) {
        // A snapshot without a version keeps what was read in it: each query gets one of its own.
        let head = catalog.load().await.map_err(lost)?;
        let found = answer(catalog, &head, &query).await.map_err(lost)?;
        if found != Names::found(&state, &query) {
            return Err(format!("{version} answers {query:?} with {found:?}"));
        }
    }
    Ok(())
}
