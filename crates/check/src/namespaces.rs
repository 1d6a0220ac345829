//! Do namespaces hold what is in them? Writers create and drop namespaces, and tables in them, all at once: whatever goes
//! wrong, no version of the catalog may have a table without its namespace, and none that was acknowledged may be missing.
//!
//! For the manifest chain, the protocol that has namespaces. A small runner beside `run.rs`, for here what is wanted
//! decides, not what was seen before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Purpose, unit_interval};
use glidepath_history::{Chain, Change, Item, parents_exist};
use glidepath_model::{Action, CommitId, Entry, Instant, Kind, Name, Span, TableState, Version};
use glidepath_protocols::manifest_chain::{Attempt, Layout, ManifestChain, Snapshot};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use crate::frozen::{Frozen, at_once};
use crate::run::{Checked, TRIES, created, world};
use crate::scenario::{Scenario, Writers};
use crate::subject::{Manifests, STORE, Subject, first_written};

const NAMESPACES: u64 = 2;
/// In each namespace.
const TABLES: u64 = 2;

/// What each process was told: the versions that it made.
type Acknowledged = Rc<RefCell<Vec<(Version, CommitId)>>>;

/// Runs one seed of a scenario with namespaces instead of its tables, on a catalog of this layout, and checks it.
///
/// # Panics
/// If not even an empty catalog can be created in a store without faults.
#[must_use]
pub fn check_namespaces(layout: Layout, scenario: &Scenario, seed: u64) -> Checked {
    match layout {
        Layout::Paged => checked::<false>(scenario, seed),
        Layout::Whole => checked::<true>(scenario, seed),
    }
}

fn checked<const WHOLE: bool>(scenario: &Scenario, seed: u64) -> Checked {
    let objects = created::<Manifests<WHOLE>>(0);
    let objects = objects.unwrap_or_else(|words| panic!("creating a catalog in a store without faults: {words}"));
    let mut simulation = world(scenario, &objects, seed);
    let (acknowledged, counts) = (Acknowledged::default(), Rc::new(RefCell::new(Checked::default())));
    let writers = scenario.writers;
    let processes = (0..writers.count).map(|number| {
        let (acknowledged, counts) = (Rc::clone(&acknowledged), Rc::clone(&counts));
        let start = move |env: SimEnv| async move {
            let place = Manifests::<WHOLE>::shared(number);
            let catalog = Manifests::<WHOLE>::catalog(env.clone(), env.store(STORE), Arc::clone(&place));
            write(&env, &catalog, writers, &acknowledged, &counts).await;
        };
        (Instant::ZERO + Span::from_millis(u64::from(number)), start)
    });
    let faults = simulation.run(processes).faults;
    let violation = judged(&simulation, &acknowledged.borrow()).err();
    Checked { faults, violation, ..counts.take() }
}

async fn write(
    env: &SimEnv,
    catalog: &ManifestChain<SimEnv>,
    writers: Writers,
    acknowledged: &Acknowledged,
    counts: &Rc<RefCell<Checked>>,
) {
    for _ in 0..writers.commits {
        let pause = unit_interval(env.draw(Purpose::Backoff)) * writers.pause.as_nanos() as f64;
        env.sleep_until(env.now() + Span::from_nanos_f64(pause)).await;
        let wanted = wanted(env);
        for _ in 0..TRIES {
            let Ok(base) = catalog.load().await else { continue };
            let (_, attempt) = catalog.attempt(&base, &[std::slice::from_ref(&wanted)]).await;
            let mut counts = counts.borrow_mut();
            counts.attempts += 1;
            counts.simulated = env.world_now().since(Instant::ZERO);
            match attempt {
                Attempt::Ended(Outcome::Committed(now)) => {
                    counts.committed += 1;
                    acknowledged.borrow_mut().push((now.version(), now.commit()));
                    break;
                }
                Attempt::Ended(Outcome::Unknown(_)) => {
                    counts.open += 1;
                    break;
                }
                // It exists already, or is gone already, or its namespace is: what is wanted has been decided.
                Attempt::Nothing => break,
                Attempt::Ended(Outcome::Conflict(_) | Outcome::Refused(_)) | Attempt::NotMade(_) => {}
            }
        }
    }
}

/// A namespace, or a table in one, to be created or dropped; a namespace also with all that is in it.
fn wanted(env: &SimEnv) -> Action {
    let draw = env.draw(Purpose::Tables);
    let (create, of_table, item) = (draw & 1 == 0, draw & 2 == 0, (draw >> 2) % (NAMESPACES * TABLES));
    let (name, kind) = match of_table {
        true => (name(NAMESPACES + item), Kind::Table),
        false => (name(item % NAMESPACES), Kind::Namespace),
    };
    match (create, kind) {
        (true, Kind::Table) => Action::Create { name, entry: Entry::table(None, TableState::new(1)) },
        (true, Kind::Namespace) => Action::Create { name, entry: Entry::namespace() },
        (false, Kind::Namespace) if draw & 64 == 0 => Action::DropAll { name },
        (false, kind) => Action::Drop { name, kind, expected: None },
    }
}

/// Which namespace an item is in.
fn parent(item: Item) -> Option<Item> {
    item.0.checked_sub(NAMESPACES).map(|table| Item(table / TABLES))
}

fn name(item: u64) -> Name {
    let own = format!("i{item}");
    let parts: Vec<String> =
        parent(Item(item)).map(|Item(parent)| format!("i{parent}")).into_iter().chain([own]).collect();
    Name::of_parts(parts.iter().map(String::as_str)).expect("letters and digits are a name")
}

fn judged(simulation: &Simulation, acknowledged: &[(Version, CommitId)]) -> Result<(), String> {
    let world = Frozen(Rc::new(first_written(&simulation.written(STORE))));
    let catalog = ManifestChain::new(world.clone(), world, Manifests::<false>::shared(0));
    let versions = at_once(catalog.every_version()).map_err(|error| error.to_string())?;
    let commits: BTreeMap<Version, CommitId> = versions.iter().map(|at| (at.version(), at.commit())).collect();
    if let Some((version, commit)) = acknowledged.iter().find(|(version, commit)| commits.get(version) != Some(commit))
    {
        return Err(format!("{commit} was acknowledged as {version}, and is not there"));
    }
    parents_exist(&chain(&catalog, &versions)?, parent).map_err(|violation| violation.to_string())
}

fn chain(catalog: &ManifestChain<Frozen>, versions: &[Snapshot]) -> Result<Chain, String> {
    let mut chain = Chain::new();
    let mut before = vec![false; (NAMESPACES + NAMESPACES * TABLES) as usize];
    for at in versions {
        chain.begin_version(at.version());
        let mut changes = Vec::new();
        for (item, existed) in before.iter_mut().enumerate() {
            let item = Item(item as u64);
            let entry = at_once(catalog.entry(at, &name(item.0))).map_err(|error| error.to_string())?;
            if entry.is_some() != *existed {
                *existed = entry.is_some();
                changes.push(Change { item, now: existed.then_some(at.commit()) });
            }
        }
        chain.push(at.commit(), changes);
    }
    Ok(chain)
}
