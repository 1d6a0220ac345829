//! What happens in one run, and was it correct?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Key, Payload, Purpose, unit_interval};
use glidepath_history::{Edit, Effect, Ending, Expected, History, Item, ProcessId, Reported, Seen, What};
use glidepath_model::{
    Advance, Changes, CommitId, Edit as TableEdit, Instant, MetadataId, PartitionId, Span, TableId, Version,
};
use glidepath_protocols::afterwards::{Write, at_once};
use glidepath_protocols::registry::{Design, Visitor};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::{EffectPoint, Faults, Mishap, Mode, Profile, Setup, SimEnv, Simulation, StoreModel};
use smallvec::smallvec;

use crate::on_disk;
use crate::on_rows;
use crate::process::{Process, misleads};
use crate::remains::{clean, right};
use crate::requests;
use crate::scenario::{Scenario, Writers};
#[cfg(feature = "serve")]
use crate::serve;
use crate::stranger::Copies;
use crate::subject::{self, CatalogKind, STORE, Standing, Subject, shared, shared_state, standings, tables, writes};
use crate::trace;
use crate::transactions;

/// The horizon, in simulated time.
pub(crate) const HORIZON: Span = Span::from_secs(24 * 3600);

/// Tries of one commit before a writer goes on to the next.
const TRIES: u32 = 20;

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Attempts to commit.
    pub attempts: u64,
    /// Of these, acknowledged.
    pub committed: u64,
    /// Of these, left unknown, or their writer died.
    pub open: u64,
    /// Requests with a fault.
    pub faults: u64,
    /// Simulated time until the last answer.
    pub simulated: Span,
    /// How often situations occurred that runs are to draw; of the catalog server.
    pub situations: BTreeMap<&'static str, u64>,
    /// The violation, in words; `None` if the run was correct.
    pub violation: Option<String>,
}

/// A protocol in a scenario, ready to be run with any seed.
#[derive(Clone, Debug)]
pub struct Trial {
    subject: Subject,
    scenario: Scenario,
    /// What runs of a catalog begin with; empty for transactions, which begin with nothing.
    beginnings: Beginnings,
}

/// The objects that runs begin with.
#[derive(Clone, Debug, Default)]
struct Beginnings {
    /// What a fresh catalog consists of.
    objects: Vec<(Key, Payload)>,
    /// The same for runs of requests.
    begun: Vec<(Key, Payload)>,
}

impl Trial {
    /// Prepares it.
    ///
    /// # Panics
    /// If the protocol cannot create a catalog in a store without faults.
    #[must_use]
    pub fn new(subject: Subject, scenario: &Scenario) -> Self {
        let tables = scenario.writers.tables;
        let beginnings = match subject {
            Subject::Catalog(kind) => kind.protocol.visit(Begin { kind, tables }),
            Subject::Transactions => Ok(Beginnings::default()),
            #[cfg(feature = "serve")]
            Subject::Serve(kind, clients) => {
                serve::begun(kind, clients, tables).map(|objects| Beginnings { objects, begun: Vec::new() })
            }
        };
        let beginnings =
            beginnings.unwrap_or_else(|words| panic!("creating a catalog in a store without faults: {words}"));
        Self { subject, scenario: scenario.clone(), beginnings }
    }

    /// What is checked.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Runs one seed and checks it.
    #[must_use]
    pub fn check(&self, seed: u64) -> Checked {
        self.run(seed, false).checked
    }

    /// What every process did in a run: one line each, by time.
    #[must_use]
    pub fn trace(&self, seed: u64) -> String {
        let Ran { lines, mishaps, .. } = self.run(seed, true);
        trace::written(lines, &mishaps)
    }

    fn run(&self, seed: u64, keep_mishaps: bool) -> Ran {
        match self.subject {
            Subject::Catalog(kind) => kind.protocol.visit(RunOf { trial: self, seed, keep_mishaps }),
            Subject::Transactions => transactions::run(&self.scenario, seed, keep_mishaps),
            #[cfg(feature = "serve")]
            Subject::Serve(kind, clients) => {
                serve::run((kind, clients), &self.scenario, &self.beginnings.objects, seed, keep_mishaps)
            }
        }
    }

    /// Every second seed is a run of requests, except on disks and in cells.
    fn run_of<D: Design>(&self, seed: u64, keep_mishaps: bool) -> Ran {
        let Beginnings { objects, begun } = &self.beginnings;
        let run = match &self.scenario.disk {
            Some(disk) => {
                let plan = on_disk::Plan { writers: self.scenario.writers, disk: *disk, objects };
                on_disk::run::<D>(&plan, seed, keep_mishaps)
            }
            None if self.scenario.rows => on_rows::run::<D>(&self.scenario, objects, seed, keep_mishaps),
            None if seed.is_multiple_of(2) => {
                return requests::run::<D>(&self.scenario, begun, seed, keep_mishaps);
            }
            None => run::<D>(&self.scenario, objects, seed, keep_mishaps),
        };
        let Run { checked, history, mishaps } = run;
        let lines = if keep_mishaps { trace::lines(&history) } else { Vec::new() };
        Ran { checked, lines, mishaps }
    }
}

struct Begin {
    kind: CatalogKind,
    tables: u32,
}

type Objects = Result<Vec<(Key, Payload)>, String>;

impl Visitor for Begin {
    type Output = Result<Beginnings, String>;

    fn visit<D: Design>(self) -> Self::Output {
        let Self { kind, tables } = self;
        Ok(Beginnings { objects: created::<D>(kind, tables)?, begun: requests::begun::<D>(kind, tables)? })
    }
}

struct RunOf<'a> {
    trial: &'a Trial,
    seed: u64,
    keep_mishaps: bool,
}

impl Visitor for RunOf<'_> {
    type Output = Ran;

    fn visit<D: Design>(self) -> Ran {
        self.trial.run_of::<D>(self.seed, self.keep_mishaps)
    }
}

/// The result of one run, and its trace.
pub(crate) struct Ran {
    pub(crate) checked: Checked,
    /// What every process did and was answered, if requested.
    pub(crate) lines: Vec<(Instant, String)>,
    pub(crate) mishaps: Vec<Mishap>,
}

/// A run of changes.
pub(crate) struct Run {
    pub(crate) checked: Checked,
    pub(crate) history: History,
    pub(crate) mishaps: Vec<Mishap>,
}

fn run<D: Design>(scenario: &Scenario, objects: &[(Key, Payload)], seed: u64, keep_mishaps: bool) -> Run {
    let mut simulation = world(scenario, objects, seed);
    if keep_mishaps {
        simulation.keep_mishaps();
    }
    let (history, copies) = (Rc::new(RefCell::new(History::new())), Copies::default());
    let mut processes = processes::<D>(scenario, &history, |sim, _| Process::new(sim));
    processes.extend(copies.start(&scenario.writers));
    let counts = simulation.run(processes);
    let history = history.take();
    let mut checked = counted(&history, counts.faults);
    let written = (&writes(&simulation)[..], simulation.objects(STORE), &copies);
    checked.violation = judged::<D>(written, &history, &scenario.writers, seed).err();
    let mishaps = trace::events(&simulation, keep_mishaps);
    Run { checked, history, mishaps }
}

/// The counts of a run, without the verdict.
pub(crate) fn counted(history: &History, faults: u64) -> Checked {
    let mut checked = Checked { faults, ..Checked::default() };
    for operation in history.operations() {
        checked.simulated = checked.simulated.max(operation.ended.unwrap_or_default().since(Instant::ZERO));
        if let What::Commit { ending, .. } = operation.what {
            checked.attempts += 1;
            checked.committed += u64::from(matches!(ending, Ending::Committed(_)));
            checked.open += u64::from(matches!(ending, Ending::Unknown | Ending::Open));
        }
    }
    checked
}

/// A store with these objects and the faults of the scenario.
pub(crate) fn world(scenario: &Scenario, objects: &[(Key, Payload)], seed: u64) -> Simulation {
    let profile = Profile::constant(scenario.writers.round_trip);
    let model = StoreModel { faults: faults(scenario, seed), effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + HORIZON;
    let simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    simulation.keep_writes(STORE);
    simulation.share_machines(scenario.writers.machine);
    for (key, payload) in objects {
        simulation.seed_object(STORE, key, payload.clone());
    }
    simulation
}

/// The faults. Half of the stores of a scenario without repeats do not report that requests are delivered at most once,
/// because protocols then settle differently.
fn faults(scenario: &Scenario, seed: u64) -> Faults {
    let mut faults = scenario.faults;
    if faults.repeated == 0.0 && seed & 4 != 0 {
        // So rare that no run has one.
        faults.repeated = f64::MIN_POSITIVE;
    }
    faults
}

/// A store with these objects and without faults.
pub(crate) fn calm<'a>(objects: impl IntoIterator<Item = (&'a Key, Payload)>) -> Simulation {
    let model = StoreModel::of(Profile::constant(Span::from_millis(1)));
    let horizon = Instant::ZERO + HORIZON + HORIZON + HORIZON;
    let setup = Setup { seed: 0, horizon, mode: Mode::LocalClocks, stores: vec![model] };
    let simulation = Simulation::new(setup);
    for (key, payload) in objects {
        simulation.seed_object(STORE, key, payload);
    }
    simulation
}

/// What a fresh catalog consists of.
fn created<D: Design>(kind: CatalogKind, count: u32) -> Objects {
    let mut simulation = calm([]);
    let result = Rc::new(RefCell::new(Err("never ended".to_owned())));
    let told = Rc::clone(&result);
    let creator = move |sim: SimEnv| async move {
        let catalog = Process::new(sim).open::<D>(shared::<D>(0));
        *told.borrow_mut() = match D::create(&catalog, kind.creation(tables(count))).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        };
    };
    simulation.run([(Instant::ZERO, creator)]);
    let objects = simulation.objects(STORE).into_iter().collect();
    result.replace(Ok(())).map(|()| objects)
}

/// What a process does.
pub(crate) type Life = Pin<Box<dyn Future<Output = ()>>>;

/// How it begins.
pub(crate) type Start = Box<dyn FnOnce(SimEnv) -> Life>;

/// The writers, and the process that cleans up. `at` makes a process, given its number, counted from 0.
pub(crate) fn processes<D: Design>(
    scenario: &Scenario,
    history: &Rc<RefCell<History>>,
    at: fn(SimEnv, u32) -> Process,
) -> Vec<(Instant, Start)> {
    let writers = scenario.writers;
    let mut shared_state = shared::<D>(0);
    let mut processes = Vec::new();
    for number in 0..=writers.count {
        let cleaner = number == writers.count;
        if number % writers.shared == 0 || cleaner {
            shared_state = shared::<D>(number / writers.shared);
        }
        let (shared_state, history) = (Arc::clone(&shared_state), Rc::clone(history));
        let start: Start = Box::new(move |sim: SimEnv| {
            let env = at(sim, number);
            let catalog = env.open::<D>(shared_state);
            Box::pin(async move {
                match writers.vacuum_every {
                    Some(every) if cleaner => clean::<D>(&env, &catalog, every).await,
                    None if cleaner => {}
                    _ => Writer::<D> { env, catalog, history, process: ProcessId(number), writers }.run().await,
                }
            })
        });
        processes.push((Instant::ZERO + Span::from_millis(u64::from(number)), start));
    }
    processes
}

pub(crate) struct Writer<D: Design> {
    pub(crate) env: Process,
    pub(crate) catalog: D::Catalog<Process>,
    pub(crate) history: Rc<RefCell<History>>,
    pub(crate) process: ProcessId,
    pub(crate) writers: Writers,
}

impl<D: Design> Writer<D> {
    pub(crate) async fn run(&self) {
        for _ in 0..self.writers.commits {
            let pause = unit_interval(self.env.draw(Purpose::Backoff)) * self.writers.pause.as_nanos() as f64;
            self.env.sleep_until(self.env.now() + Span::from_nanos_f64(pause)).await;
            let tables = self.pick();
            for _ in 0..TRIES {
                if self.attempt(&tables).await {
                    break;
                }
            }
        }
    }

    /// One table, or two different ones.
    fn pick(&self) -> Vec<TableId> {
        let place = unit_interval(self.env.draw(Purpose::Tables)) * f64::from(self.writers.tables);
        let first = place as u32 % self.writers.tables;
        let pair = unit_interval(self.env.draw(Purpose::Tables)) < self.writers.pairs && self.writers.tables > 1;
        let second = (first + 1) % self.writers.tables;
        if pair { vec![TableId(first), TableId(second)] } else { vec![TableId(first)] }
    }

    /// Loads, commits, and records both. Returns whether no retry is needed.
    async fn attempt(&self, tables: &[TableId]) -> bool {
        let operation = self.history.borrow_mut().begin_load(self.process, self.env.world_now());
        let base = match self.catalog.load().await {
            Ok(base) => base,
            Err(error) => return self.not_read(&error),
        };
        let loaded_at = self.env.world_now();
        let states = match self.catalog.tables(&base, tables).await {
            Ok(states) => states,
            Err(error) => return self.not_read(&error),
        };
        let version = self.catalog.version(&base);
        let metadata = MetadataId(self.env.draw(Purpose::Names) | 1);
        let (mut changes, mut edits, mut seen) = (Changes::default(), Vec::new(), Vec::new());
        for (table, state) in tables.iter().zip(&states) {
            // Nobody drops a table: this is a violation, and is recorded as what was seen.
            let Some(state) = state else {
                seen.push(Seen { item: Item::from(*table), state: None });
                continue;
            };
            let partitions = smallvec![(PartitionId(0), state.partitions[0])];
            changes.set(*table, TableEdit::Advance(Advance { metadata, partitions }));
            let (item, before) = (Item::from(*table), CommitId(state.metadata.0));
            seen.push(Seen { item, state: Some(before) });
            edits.push(Edit { item, expected: Expected::Is(before), effect: Effect::Put(CommitId(metadata.0)) });
        }
        match version {
            Some(version) => self.history.borrow_mut().end_load(operation, loaded_at, version, seen),
            None => self.history.borrow_mut().end_sight(operation, self.env.world_now(), seen),
        }
        if edits.len() < tables.len() {
            return true;
        }
        let commit = CommitId(metadata.0);
        let operation = self.history.borrow_mut().begin_commit(self.process, self.env.world_now(), commit, edits);
        let outcome = self.catalog.commit(&base, &changes).await;
        let (ending, done) = match outcome {
            Outcome::Committed(now) => {
                let told = if D::TELLS_OWN_VERSION { Reported::At } else { Reported::By };
                let reported = self.catalog.version(&now).map_or(Reported::Nothing, told);
                (Ending::Committed(reported), true)
            }
            Outcome::Conflict(_) => (Ending::Conflict, false),
            Outcome::Refused(_) => (Ending::Refused, false),
            Outcome::Unknown(_) => (Ending::Unknown, true),
        };
        self.history.borrow_mut().end_commit(operation, self.env.world_now(), ending);
        done
    }
}

impl<D: Design> Writer<D> {
    /// A load failed. The store may not have answered; but the catalog is there, and whole. `false`: it is tried again.
    fn not_read(&self, error: &LoadError) -> bool {
        if misleads(error) {
            self.history.borrow_mut().mislead(self.process, self.env.world_now(), error.to_string());
        }
        false
    }
}

/// Whether the run with this seed was correct, given all that was written, the final objects, and which of them are a
/// stranger's.
pub(crate) fn judged<D: Design>(
    (writes, objects, copies): (&[Write], BTreeMap<Key, Payload>, &Copies),
    history: &History,
    writers: &Writers,
    seed: u64,
) -> Result<(), String> {
    copies.untouched(writes)?;
    let made = D::versions(shared_state::<D>(0), writes)?;
    let versions = standings(&made, writers.tables)?;
    let chain = subject::chain(&versions);
    let mut history = history.clone();
    let placed = history.place(&chain).and_then(|()| glidepath_history::check(&history, &chain));
    placed.map_err(|violation| violation.to_string())?;
    right::<D>((&objects, copies), &made, writers.vacuum_every.is_some(), seed)?;
    found_again::<D>(objects, writers.tables, versions.last())
}

/// Whether a new reader, after the end of the run, finds the last version.
fn found_again<D: Design>(
    objects: BTreeMap<Key, Payload>,
    tables: u32,
    last: Option<&(Version, Standing)>,
) -> Result<(), String> {
    let catalog = Process::afterwards(objects).open::<D>(shared::<D>(0));
    let lost = |error: LoadError| format!("after the run, the catalog could not be read: {error}");
    let found = at_once(catalog.load()).map_err(lost)?;
    let ids: Vec<TableId> = (0..tables).map(TableId).collect();
    let states = at_once(catalog.tables(&found, &ids)).map_err(lost)?;
    let standing: Option<Standing> = states.iter().map(|state| Some(state.as_ref()?.metadata)).collect();
    let (version, standing) = (catalog.version(&found), standing.unwrap_or_default());
    if last.is_some_and(|(last, is)| version.is_none_or(|version| version == *last) && *is == standing) {
        return Ok(());
    }
    let last = last.map_or("none".to_owned(), |(version, _)| version.to_string());
    let found = version
        .map_or("other states of its tables".to_owned(), |version| format!("{version}, or other states of its tables"));
    Err(format!("after the run, a reader found {found}; the last version is {last}"))
}

#[cfg(test)]
mod tests {
    use glidepath_protocols::append_log::Log;
    use glidepath_protocols::manifest_chain::Chain;

    use super::*;
    use crate::library::scenario;
    use crate::remains::cleaned;
    use crate::tidy::tidy;

    /// The checker reports the remains of a scenario without vacuum, and this object; a vacuum removes them.
    fn leaves_and_cleans<D: Design>(name: &str, junk: &str) {
        let scenario = scenario("storm").unwrap().unwrap();
        let Some(Subject::Catalog(kind)) = Subject::named(name) else { panic!("{name}") };
        let fresh = created::<D>(kind, scenario.writers.tables).unwrap();
        for seed in 1..20 {
            let mut simulation = world(&scenario, &fresh, seed);
            let history = Rc::new(RefCell::new(History::new()));
            simulation.run(processes::<D>(&scenario, &history, |sim, _| Process::new(sim)));
            let mut objects = simulation.objects(STORE);
            objects.insert(Key::new(junk), bytes::Bytes::from_static(b"left over").into());
            assert!(tidy::<D>(&objects, true).is_err(), "seed {seed}");
            assert_eq!(tidy::<D>(&objects, false), Ok(()), "seed {seed}");
            let cleaned = cleaned::<D>(&objects).unwrap();
            assert_eq!(tidy::<D>(&cleaned, true), Ok(()), "seed {seed}");
            assert!(cleaned.len() < objects.len(), "seed {seed}");
        }
    }

    #[test]
    fn what_is_left_behind_is_noticed() {
        leaves_and_cleans::<Log>("append-log", "catalog/log/checkpoint/00000000000000000001");
        leaves_and_cleans::<Chain>("manifest-chain", "catalog/packs/0000000000000000-00000000000000ff-0000");
        leaves_and_cleans::<Chain>("manifest-chain-whole", "catalog/packs/0000000000000000-00000000000000ff-0000");
    }
}
