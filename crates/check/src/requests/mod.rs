//! Is every answer right if many threads of several processes send requests of every kind through the code that users
//! call?
//!
//! In `run.rs` a writer commits changes against a snapshot that it loaded; here it hands requests to a [`Committer`],
//! which decides them on the newest version, alone or in a group of threads. Callers are dropped at random times, and
//! tasks are not polled for a while. The judge has its own implementation of the rules of requests (`names.rs`).
//!
//! Start with [`run`], then `judge.rs`.

mod asking;
mod became;
mod book;
mod explain;
mod judge;
mod mix;
mod names;
mod rules;
mod state;
#[cfg(test)]
mod tests;
mod vacuumed;
mod whims;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Key, Payload, Purpose, unit_interval};
use glidepath_model::{CommitId, Instant, Span};
use glidepath_protocols::group::{CommitError, Committer, Group, Leader, Loader, Loads, Request, RetryPolicy};
use glidepath_protocols::registry::{Creation, Design};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_sim::{SimEnv, Simulation};

use crate::process::{Process, misleads};
use crate::remains::{clean, right};
use crate::run::{Checked, Ran, Start, calm, world};
use crate::scenario::Scenario;
use crate::stranger::Copies;
use crate::subject::{CatalogKind, STORE, shared, shared_state, writes};
use crate::trace;
use asking::Asker;
use became::{aftermath, became, begin, first_tables, terms};
use book::{Asked, Book, Told};
use names::Names;
use rules::Rules;
use whims::{Whims, endured};

/// Threads of a process, unless the scenario has more.
const THREADS: u32 = 3;

/// The capacity of a leader's queue: small, so that some requests find it full.
const MOST_WAITING: usize = 4;

/// The number of leaders of a group that end early, one after another; the next one stays until the end.
const TERMS: u32 = 6;

/// The number of tries of a process that commits alone, by its number: some never stop, some stop at once.
const TRIES: [u32; 3] = [60, 3, 12];

/// How often a new process opens the catalog in a run.
const VISITS: u32 = 40;

type Shelf = Rc<RefCell<Book<Names>>>;

/// What the threads of a process share: their knowledge of the catalog, and either commits or loads.
struct Shares<D: Design> {
    shared_state: Arc<D::SharedState>,
    group: Option<Group<D::Catalog<Process>>>,
    loads: Option<Loads<D::Catalog<Process>>>,
}

impl<D: Design> Shares<D> {
    fn of(process: u32, grouped: bool) -> Self {
        Self {
            shared_state: shared::<D>(process),
            group: grouped.then(|| Group::new(MOST_WAITING)),
            loads: (!grouped).then(Loads::new),
        }
    }

    fn handles(&self) -> Self {
        Self { shared_state: Arc::clone(&self.shared_state), group: self.group.clone(), loads: self.loads.clone() }
    }

    fn open(&self, env: &Process) -> D::Catalog<Process> {
        env.open::<D>(Arc::clone(&self.shared_state))
    }
}

/// The objects of a catalog with which a run begins.
pub(crate) fn begun<D: Design>(kind: CatalogKind, tables: u32) -> Result<Vec<(Key, Payload)>, String> {
    let mut simulation = calm([]);
    let result = Rc::new(RefCell::new(Err("never ended".to_owned())));
    let told = Rc::clone(&result);
    let creator = move |sim: SimEnv| async move {
        let catalog = Process::new(sim).open::<D>(shared::<D>(0));
        let begun = begin::<D>(&catalog, kind, tables).await;
        *told.borrow_mut() = begun;
    };
    simulation.run([(Instant::ZERO, creator)]);
    let objects = simulation.objects(STORE).into_iter().collect();
    result.replace(Ok(())).map(|()| objects)
}

/// Runs one seed.
pub(crate) fn run<D: Design>(scenario: &Scenario, objects: &[(Key, Payload)], seed: u64, keep_mishaps: bool) -> Ran {
    let mut simulation = world(scenario, objects, seed);
    if keep_mishaps {
        simulation.keep_mishaps();
    }
    let book = Shelf::default();
    let (groups, copies) = (Rc::new(RefCell::new(BTreeMap::new())), Copies::default());
    simulation.share_machines(machine(scenario));
    let mut processes = processes::<D>(scenario, seed, &book, &groups);
    processes.extend(copies.start(&scenario.writers));
    let counts = simulation.run(processes);
    let (mut book, groups) = (book.take(), groups.take());
    let mut checked = Checked { faults: counts.faults, ..Checked::default() };
    for asked in &book.asked {
        checked.simulated = checked.simulated.max(asked.answered.unwrap_or_default().since(Instant::ZERO));
        checked.attempts += 1;
        checked.committed += u64::from(matches!(asked.told, Told::Done(_) | Told::DoneBy(_) | Told::Idle));
        checked.open += u64::from(matches!(asked.told, Told::Unknown | Told::Nothing));
    }
    checked.violation = judged::<D>((&simulation, &copies), &mut book, &groups, scenario, seed).err();
    let lines = if keep_mishaps { lines(&book) } else { Vec::new() };
    Ran { checked, lines, mishaps: trace::events(&simulation, keep_mishaps) }
}

fn judged<D: Design>(
    (simulation, copies): (&Simulation, &Copies),
    book: &mut Book<Names>,
    groups: &BTreeMap<u32, u32>,
    scenario: &Scenario,
    seed: u64,
) -> Result<(), String> {
    if let Some((at, wrong)) = book.misled.first() {
        return Err(format!(
            "at {:.6} s {wrong}, though there was one, and whole",
            at.since(Instant::ZERO).as_secs_f64()
        ));
    }
    let writes = writes(simulation);
    copies.untouched(&writes)?;
    let made = D::versions(shared_state::<D>(0), &writes)?;
    let versions = became(simulation, &made)?;
    versions.name_versions(book)?;
    let last = judge::judge(&versions, book, terms::<D>(), |process| groups.get(&process).copied())?;
    vacuumed::rightly::<D>(simulation, &versions, scenario.faults.clock_skew)?;
    vacuumed::readable::<D>(simulation, &made, seed)?;
    right::<D>((&simulation.objects(STORE), copies), &made, scenario.writers.vacuum_every.is_some(), seed)?;
    aftermath::<D>(simulation, (versions.last(), &last))
}

fn lines(book: &Book<Names>) -> Vec<(Instant, String)> {
    let mut lines = Vec::new();
    for asked in &book.asked {
        let (writer, mark) = (asked.writer, asked.mark);
        lines.push((
            asked.called,
            format!("process {writer} asks for request {mark}: {}", Names::words(&asked.request)),
        ));
        let heard =
            |at: Instant| (at, format!("process {writer} gets the answer to request {mark}: {}", asked.told.words()));
        lines.extend(asked.answered.map(heard));
        if asked.answered.is_none() {
            lines.push((asked.called, format!("process {writer} gets no answer to request {mark}")));
        }
    }
    for looked in &book.looked {
        let what = looked.version.map_or_else(|| format!("{:?}", looked.query), |version| version.to_string());
        lines.push((looked.loaded, format!("process {} has loaded {what}", looked.writer)));
    }
    lines
}

/// The writers, the leaders of their groups, and the process that cleans up. Records in `groups` whose requests each
/// process commits.
fn processes<D: Design>(
    scenario: &Scenario,
    seed: u64,
    book: &Shelf,
    groups: &Rc<RefCell<BTreeMap<u32, u32>>>,
) -> Vec<(Instant, Start)> {
    let writers = scenario.writers;
    let threads = writers.shared.max(THREADS);
    let mut processes = Vec::<Start>::new();
    let mut process_shares = Shares::<D>::of(0, false);
    for number in 0..writers.count {
        let process = number / threads;
        if number.is_multiple_of(threads) {
            // Half of the processes; with the next seed the other half.
            let grouped = (u64::from(process) + seed / 2).is_multiple_of(2);
            process_shares = Shares::of(process, grouped);
            processes.push(leader::<D>(scenario, process, process_shares.handles(), groups));
        }
        let (shares, book, groups) = (process_shares.handles(), Rc::clone(book), Rc::clone(groups));
        let scenario = scenario.clone();
        processes.push(Box::new(move |sim: SimEnv| {
            Box::pin(async move {
                let env = Process::new(sim);
                let mine = if shares.group.is_some() { process } else { writers.count + number };
                groups.borrow_mut().insert(env.number(), mine);
                let catalog = shares.open(&env);
                let Shares { group, loads, .. } = shares;
                let committer = match group {
                    Some(group) => Committer::grouped(env.clone(), catalog, group),
                    None => Committer::alone(env.clone(), catalog, retry_policy(process)),
                };
                let number = env.number() - 1;
                Writer::<D> { env, book, number, mine, scenario, committer, loads }.write().await;
            })
        }));
    }
    // The process that cleans up has its own machine.
    while !(processes.len() as u32).is_multiple_of(machine(scenario)) {
        processes.push(Box::new(|_| Box::pin(async {})));
    }
    if let Some(every) = writers.vacuum_every {
        let shared_state = shared::<D>(writers.count);
        processes.push(Box::new(move |sim: SimEnv| {
            Box::pin(async move {
                let env = Process::new(sim);
                let catalog = env.open::<D>(shared_state);
                clean::<D>(&env, &catalog, every).await;
            })
        }));
        processes.push(newcomer::<D>(scenario, book));
    }
    let at = |number: usize| Instant::ZERO + Span::from_millis(number as u64);
    processes.into_iter().enumerate().map(|(number, start)| (at(number), start)).collect()
}

/// A new process that repeatedly looks for the catalog and tries to create one, while versions may be removed.
fn newcomer<D: Design>(scenario: &Scenario, book: &Shelf) -> Start {
    let (writers, book) = (scenario.writers, Rc::clone(book));
    let longest = writers.pause.as_nanos() as f64;
    Box::new(move |sim: SimEnv| {
        Box::pin(async move {
            let env = Process::new(sim);
            for _ in 0..VISITS {
                let pause = unit_interval(env.draw(Purpose::Backoff)) * longest;
                env.sleep_until(env.now() + Span::from_nanos_f64(pause)).await;
                let catalog = env.open::<D>(shared::<D>(writers.count + 1));
                let wrong = match catalog.load().await {
                    Err(error) if misleads(&error) => format!("a newcomer was told: {error}"),
                    _ if creates_again::<D>(&catalog, writers.tables).await => {
                        "a second catalog was acknowledged".to_owned()
                    }
                    _ => continue,
                };
                book.borrow_mut().misled.push((env.world_now(), wrong));
            }
        })
    })
}

/// Tries to create a catalog where there is one; true if the creation was acknowledged.
async fn creates_again<D: Design>(catalog: &D::Catalog<Process>, tables: u32) -> bool {
    let creation = Creation { tables: first_tables(tables), ..Creation::default() };
    matches!(D::create(catalog, creation).await, Outcome::Committed(_))
}

/// Processes of the simulation that share a machine: the threads of a process, and its leader.
fn machine(scenario: &Scenario) -> u32 {
    let processes = scenario.writers.machine.div_ceil(scenario.writers.shared.max(THREADS));
    processes * (scenario.writers.shared.max(THREADS) + 1)
}

fn retry_policy(process: u32) -> RetryPolicy {
    RetryPolicy { tries: TRIES[process as usize % TRIES.len()], ..RetryPolicy::default() }
}

/// The task that commits for a group, or loads for the threads of a process. Sometimes it is not polled for a while, or
/// ends and another one replaces it.
fn leader<D: Design>(
    scenario: &Scenario,
    process: u32,
    shares: Shares<D>,
    groups: &Rc<RefCell<BTreeMap<u32, u32>>>,
) -> Start {
    let groups = Rc::clone(groups);
    let term = Span::from_nanos(scenario.writers.pause.as_nanos() * u64::from(scenario.writers.commits) / 4);
    let long = scenario.faults.timeout + scenario.faults.timeout;
    Box::new(move |sim: SimEnv| {
        Box::pin(async move {
            let env = Process::new(sim);
            let Some(group) = &shares.group else { return load_for(&env, shares, term, long).await };
            groups.borrow_mut().insert(env.number(), process);
            let next = || Leader::new(env.clone(), shares.open(&env), group, retry_policy(process)).ok();
            for _ in 0..TERMS {
                let Some(leader) = next() else { return };
                endured(&env, leader.lead(), Whims::of_a_leader(&env, term, long)).await;
            }
            let Some(leader) = next() else { return };
            drop(shares);
            leader.lead().await;
        })
    })
}

/// Loads for the threads of a process.
async fn load_for<D: Design>(env: &Process, shares: Shares<D>, term: Span, long: Span) {
    let next = || Loader::new(shares.open(env), shares.loads.as_ref()?).ok();
    for _ in 0..TERMS {
        let Some(loader) = next() else { return };
        endured(env, loader.serve(), Whims::of_a_leader(env, term, long)).await;
    }
    let Some(loader) = next() else { return };
    drop(shares);
    loader.serve().await;
}

struct Writer<D: Design> {
    env: Process,
    book: Shelf,
    /// Counted from 0 in the order of beginning, leaders of groups too.
    number: u32,
    /// Its group.
    mine: u32,
    scenario: Scenario,
    committer: Committer<Process, D::Catalog<Process>>,
    loads: Option<Loads<D::Catalog<Process>>>,
}

impl<D: Design> Writer<D> {
    async fn write(&self) {
        let writers = self.scenario.writers;
        for _ in 0..writers.commits {
            // Half of the requests come without a wait, so that batches form.
            let longest = if self.env.draw(Purpose::Backoff) & 1 == 0 { writers.round_trip } else { writers.pause };
            let pause = unit_interval(self.env.draw(Purpose::Backoff)) * longest.as_nanos() as f64;
            self.env.sleep_until(self.env.now() + Span::from_nanos_f64(pause)).await;
            let mark = self.book.borrow_mut().new_mark();
            let asker = Asker::<D> {
                env: &self.env,
                catalog: self.committer.catalog(),
                loads: self.loads.as_ref(),
                book: &self.book,
                writer: self.number,
                tables: writers.tables,
            };
            if let Some(request) = asker.request(mark).await {
                self.send(mark, request).await;
            }
        }
    }

    async fn send(&self, mark: u64, request: Request) {
        let committer = &self.committer;
        let faults = self.scenario.faults;
        let whims = Whims::draw(&self.env, self.scenario.writers.round_trip, faults.timeout + faults.timeout);
        let index = {
            let mut book = self.book.borrow_mut();
            let (group, writer, called) = (self.mine, self.number, self.env.world_now());
            let request = request.clone();
            book.asked.push(Asked { group, writer, mark, request, called, answered: None, told: Told::Nothing });
            book.asked.len() - 1
        };
        let Some(answer) = endured(&self.env, committer.commit(request), whims).await else { return };
        let told = match answer {
            Ok(now) => match (committer.catalog().version(&now), D::facts(&now).commit) {
                (Some(version), _) => Told::Done(version),
                (None, CommitId(0)) => Told::Idle,
                (None, commit) => Told::DoneBy(commit),
            },
            Err(CommitError::Refused(refusal)) => Told::Refused(refusal),
            Err(CommitError::Unknown(_)) => Told::Unknown,
            Err(CommitError::Failed(cause)) => Told::NotDone(cause.to_string()),
            Err(CommitError::Contention { .. }) => Told::NotDone("contention".to_owned()),
            Err(CommitError::Full { .. }) => Told::NotDone("too many at once".to_owned()),
        };
        let mut book = self.book.borrow_mut();
        (book.asked[index].told, book.asked[index].answered) = (told, Some(self.env.world_now()));
    }
}
