//! A small catalog that works correctly, whatever happens to its clients: the source of correct histories, in a form
//! that a test can damage before it is checked.

use std::collections::BTreeMap;

use glidepath_history::{
    Chain, Change, Edit, Effect, Ending, Expected, History, Item, OperationId, ProcessId, Reported, Seen, State,
};
use glidepath_model::{CommitId, Instant, Version};

/// Namespaces are items 0 to 2; a table's number gives its namespace.
pub(crate) const NAMESPACES: u64 = 3;
pub(crate) const TABLES: std::ops::Range<u64> = 10..22;

pub(crate) fn parent(item: Item) -> Option<Item> {
    (item.0 >= TABLES.start).then_some(Item(item.0 % NAMESPACES))
}

/// An operation as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) process: u32,
    pub(crate) began: u64,
    pub(crate) ended: Option<u64>,
    pub(crate) what: Act,
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Commit { commit: CommitId, edits: Vec<Edit>, ending: Ending },
    Load { version: Option<Version>, seen: Vec<Seen> },
}

/// The commits of a version, with what each changed.
pub(crate) type Commits = Vec<(CommitId, Vec<Change>)>;

/// The operations of a run, and the resulting versions.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) done: Vec<Done>,
    pub(crate) versions: Vec<(Version, Commits)>,
    pub(crate) initial: Vec<(Item, CommitId)>,
}

impl World {
    pub(crate) fn history(&self) -> History {
        let mut history = History::new();
        let at = Instant::from_nanos;
        let mut ids: Vec<OperationId> = Vec::new();
        for done in &self.done {
            let process = ProcessId(done.process);
            ids.push(match &done.what {
                Act::Commit { commit, edits, .. } => {
                    history.begin_commit(process, at(done.began), *commit, edits.iter().copied())
                }
                Act::Load { .. } => history.begin_load(process, at(done.began)),
            });
        }
        for (done, id) in self.done.iter().zip(ids) {
            let Some(ended) = done.ended else { continue };
            match &done.what {
                Act::Commit { ending, .. } => history.end_commit(id, at(ended), *ending),
                Act::Load { version: Some(version), seen } => {
                    history.end_load(id, at(ended), *version, seen.iter().copied());
                }
                Act::Load { .. } => {}
            }
        }
        history
    }

    pub(crate) fn chain(&self) -> Chain {
        let mut chain = Chain::starting_at(Version(0), self.initial.iter().copied());
        for (version, commits) in &self.versions {
            chain.begin_version(*version);
            for (commit, changes) in commits {
                chain.push(*commit, changes.iter().copied());
            }
        }
        chain
    }

    /// The state of all items in a version.
    pub(crate) fn at(&self, version: Version) -> BTreeMap<Item, State> {
        let mut states: BTreeMap<Item, State> = self.initial.iter().map(|(item, id)| (*item, Some(*id))).collect();
        for change in
            self.versions.iter().filter(|(v, _)| *v <= version).flat_map(|(_, commits)| commits).flat_map(|c| &c.1)
        {
            states.insert(change.item, change.now);
        }
        states
    }
}

/// The faults between the clients and the catalog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) processes: u32,
    pub(crate) steps: u32,
    /// The percentage of operations that meet a fault.
    pub(crate) faults: u64,
    /// Whether acknowledgements name versions.
    pub(crate) tells: bool,
    /// Whether namespaces are dropped and created, which can conflict for a reason that no item shows.
    pub(crate) namespaces: bool,
}

struct Process {
    phase: Phase,
    base: BTreeMap<Item, State>,
}

#[derive(Clone)]
enum Phase {
    Idle,
    Looking(usize),
    Looked(usize, Version, Vec<Seen>),
    Asking(usize),
    Answered(usize, Ending),
}

struct Running {
    luck: u64,
    now: u64,
    weather: Weather,
    world: World,
    states: BTreeMap<Item, State>,
    processes: Vec<Process>,
    /// Commits that may still take effect although their clients no longer wait.
    late: Vec<usize>,
    /// Whether a client has seen the newest version, so that it takes no further commits.
    seen: bool,
}

/// Runs clients for this many steps, interleaved at random.
pub(crate) fn run(seed: u64, weather: Weather) -> World {
    let initial: Vec<_> = (0..NAMESPACES).chain(TABLES.step_by(2)).map(|n| (Item(n), CommitId(n + 1))).collect();
    let states: BTreeMap<_, _> = initial.iter().map(|(item, id)| (*item, Some(*id))).collect();
    let world = World { done: Vec::new(), versions: Vec::new(), initial };
    let processes = (0..weather.processes).map(|_| Process { phase: Phase::Idle, base: states.clone() }).collect();
    let luck = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut running = Running { luck, now: 5, weather, world, states, processes, late: Vec::new(), seen: true };
    for _ in 0..weather.steps {
        running.step();
    }
    running.world
}

impl Running {
    fn draw(&mut self, below: u64) -> u64 {
        self.luck = self.luck.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.luck ^ (self.luck >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn step(&mut self) {
        // Often no time passes: ends and beginnings coincide.
        self.now += self.draw(3);
        if !self.late.is_empty() && self.draw(10) == 0 {
            let slot = self.draw(self.late.len() as u64) as usize;
            let late = self.late.swap_remove(slot);
            self.try_commit(late);
            return;
        }
        let process = self.draw(u64::from(self.weather.processes)) as usize;
        let phase = self.processes[process].phase.clone();
        self.processes[process].phase = match phase {
            Phase::Idle if self.draw(2) == 0 => {
                Phase::Looking(self.begin(process, Act::Load { version: None, seen: Vec::new() }))
            }
            Phase::Idle => {
                let act = self.plan(process);
                Phase::Asking(self.begin(process, act))
            }
            Phase::Looking(_) if self.draw(300) < self.weather.faults => Phase::Idle,
            Phase::Looking(operation) => {
                // An effect lies strictly inside its operation.
                self.now += 1;
                self.seen = true;
                let version = self.world.versions.last().map_or(Version(0), |(version, _)| *version);
                let mut seen = Vec::new();
                for item in (0..NAMESPACES).chain(TABLES).map(Item) {
                    if self.draw(3) == 0 {
                        seen.push(Seen { item, state: self.states.get(&item).copied().flatten() });
                    }
                }
                self.processes[process].base = self.states.clone();
                Phase::Looked(operation, version, seen)
            }
            Phase::Looked(operation, version, seen) => {
                self.now += 1;
                self.world.done[operation].ended = Some(self.now);
                self.world.done[operation].what = Act::Load { version: Some(version), seen };
                Phase::Idle
            }
            Phase::Asking(operation) => {
                self.now += 1;
                self.ask(operation)
            }
            Phase::Answered(operation, ending) => {
                self.now += 1;
                self.end(operation, ending);
                Phase::Idle
            }
        };
    }

    fn begin(&mut self, process: usize, what: Act) -> usize {
        self.world.done.push(Done { process: process as u32, began: self.now, ended: None, what });
        self.world.done.len() - 1
    }

    fn end(&mut self, operation: usize, told: Ending) {
        self.world.done[operation].ended = Some(self.now);
        if let Act::Commit { ending, .. } = &mut self.world.done[operation].what {
            *ending = told;
        }
    }

    /// A commit on top of what the process saw last.
    fn plan(&mut self, process: usize) -> Act {
        let commit = CommitId(1000 + self.world.done.len() as u64);
        let put = Effect::Put(commit);
        let kind = self.draw(10);
        let (first, second) = (TABLES.start + self.draw(12), TABLES.start + self.draw(12));
        let base = &self.processes[process].base;
        let seen = |item| Expected::seen(base.get(&Item(item)).copied().flatten());
        let within =
            |item: u64| Edit { item: Item(item % NAMESPACES), expected: Expected::Present, effect: Effect::Keep };
        let write = |item| Edit { item: Item(item), expected: seen(item), effect: put };
        let edits = match kind {
            0 if self.weather.namespaces => {
                let item = first % NAMESPACES;
                let effect = if seen(item) == Expected::Absent { put } else { Effect::Remove };
                vec![Edit { item: Item(item), expected: seen(item), effect }]
            }
            1..=2 if seen(first) != Expected::Absent => {
                vec![Edit { item: Item(first), expected: seen(first), effect: Effect::Remove }]
            }
            3..=4 if second != first && second % NAMESPACES == first % NAMESPACES => {
                vec![write(first), within(first), write(second)]
            }
            _ => vec![within(first), write(first)],
        };
        Act::Commit { commit, edits, ending: Ending::Open }
    }

    /// The commit reaches the catalog, or does not; returns the answer.
    fn ask(&mut self, operation: usize) -> Phase {
        if self.draw(100) >= self.weather.faults {
            let ending = self.try_commit(operation);
            return Phase::Answered(operation, ending);
        }
        let kind = self.draw(6);
        match kind {
            0 => return Phase::Answered(operation, Ending::Refused),
            1 => {}
            2 | 3 => {
                self.try_commit(operation);
            }
            _ => self.late.push(operation),
        }
        // The outcome is unknown, or the process crashed and another one takes its place.
        if kind.is_multiple_of(2) { Phase::Answered(operation, Ending::Unknown) } else { Phase::Idle }
    }

    fn try_commit(&mut self, operation: usize) -> Ending {
        let Act::Commit { commit, edits, .. } = self.world.done[operation].what.clone() else { return Ending::Unknown };
        let state = |item: &Item| self.states.get(item).copied().flatten();
        let empty = |edit: &Edit| {
            edit.effect != Effect::Remove
                || !self.states.iter().any(|(item, state)| state.is_some() && parent(*item) == Some(edit.item))
        };
        if !edits.iter().all(|edit| edit.expected.holds(state(&edit.item)) && empty(edit)) {
            return Ending::Conflict;
        }
        let changes: Vec<_> = edits.iter().filter_map(|edit| Change::of(edit.item, edit.effect)).collect();
        self.states.extend(changes.iter().map(|change| (change.item, change.now)));
        if self.seen || self.draw(4) > 0 {
            let next = self.world.versions.last().map_or(Version(1), |(version, _)| version.next());
            self.world.versions.push((next, Vec::new()));
            self.seen = false;
        }
        let Some((version, commits)) = self.world.versions.last_mut() else { return Ending::Unknown };
        commits.push((commit, changes));
        let version = *version;
        if !self.weather.tells {
            return Ending::Committed(Reported::Nothing);
        }
        // A snapshot returned with an acknowledgement shows the version to others.
        self.seen = true;
        Ending::Committed(if self.draw(2) == 0 { Reported::At(version) } else { Reported::By(version) })
    }
}
