//! A simulated world for the log: writers and vacuums under faults, the answers they got, and a checker that folds
//! everything ever written by an implementation of its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use glidepath_env::{Env, Key, Payload, Purpose, unit_interval};
use glidepath_model::{
    Advance, ByteSize, Changes, CommitId, Edit, Instant, MetadataId, PartitionId, Root, Span, TableId, TableState,
    Version,
};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use proptest::prelude::*;
use smallvec::smallvec;

use super::super::record::{HEADER, Intent, Record};
use super::super::{AppendLog, Limits, SharedState, Snapshot, checkpoint};
use crate::catalog::{Catalog, Outcome};

pub(super) const STORE: StoreId = StoreId(0);
pub(super) const TABLES: u32 = 3;
/// A table that is created and dropped repeatedly.
pub(super) const FLEETING: TableId = TableId(TABLES);

/// The answer to one commit, keyed by the metadata id that only this commit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    Committed,
    Conflict,
    Refused,
    Unknown,
}

/// What the processes of a run do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) faults: Faults,
    pub(super) writers: u32,
    pub(super) commits: u32,
    pub(super) limits: Limits,
    /// Besides the writers, this many processes vacuum all the time.
    pub(super) vacuums: u32,
    /// Writers sometimes sleep between reading and committing, up to this long.
    pub(super) pause: Span,
    /// Writers drop an attempt that takes longer than this.
    pub(super) patience: Span,
}

#[derive(Default)]
pub(super) struct History {
    told: RefCell<BTreeMap<u64, Told>>,
    /// All snapshots that any process got.
    seen: RefCell<Vec<Snapshot>>,
    /// The newest version that was acknowledged.
    acknowledged: Cell<Version>,
    stale: Cell<u32>,
}

pub(super) struct Run {
    pub(super) told: BTreeMap<u64, Told>,
    pub(super) writes: Vec<Payload>,
    pub(super) stale: u32,
    seen: Vec<Snapshot>,
}

pub(super) fn limits(records: u64) -> Limits {
    Limits { records, size: ByteSize::from_bytes(1 << 20), tries: 4 }
}

pub(super) fn calm() -> Faults {
    Faults { timeout: Span::from_millis(500), lateness: Span::from_secs(2), ..Faults::default() }
}

pub(super) fn storm() -> Faults {
    Faults { request_lost: 0.08, answer_lost: 0.08, late: 0.08, refused: 0.08, crash: 0.002, ..calm() }
}

impl Plan {
    pub(super) fn calm(writers: u32, commits: u32, records: u64) -> Self {
        let (pause, patience) = (Span::ZERO, Span::from_secs(3600));
        Self { faults: Faults::default(), writers, commits, limits: limits(records), vacuums: 0, pause, patience }
    }
}

pub(super) fn advance(state: &TableState, metadata: u64) -> Edit {
    let partitions = smallvec![(PartitionId(0), state.partitions[0])];
    Edit::Advance(Advance { metadata: MetadataId(metadata), partitions })
}

pub(super) fn one_of(env: &SimEnv, count: u32) -> u32 {
    (unit_interval(env.draw(Purpose::Tables)) * f64::from(count)) as u32
}

/// One advance that names the metadata id; sometimes the fleeting table is also created or dropped.
fn changes(env: &SimEnv, at: &Snapshot, metadata: u64) -> Changes {
    let table = TableId(one_of(env, TABLES));
    let mut changes = Changes::of(table, advance(at.table(table).unwrap(), metadata));
    if one_of(env, 8) == 0 {
        let edit = match at.table(FLEETING) {
            Some(state) => Edit::Drop(state.version),
            None => Edit::Create(TableState::new(2)),
        };
        changes.set(FLEETING, edit);
    }
    changes
}

/// The future's result, or `None` if it was dropped at `deadline`.
async fn within<F: Future>(env: &SimEnv, deadline: Instant, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut bell = pin!(env.sleep_until(deadline));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => bell.as_mut().poll(context).map(|()| None),
    })
    .await
}

impl History {
    fn saw(&self, snapshot: &Snapshot, at_least: Version) {
        self.stale.set(self.stale.get() + u32::from(snapshot.0.version < at_least));
        self.seen.borrow_mut().push(snapshot.clone());
    }
}

async fn write(env: SimEnv, plan: Plan, history: Rc<History>) {
    let open = || AppendLog::new(env.clone(), env.store(STORE), Arc::new(SharedState::new("catalog", plan.limits)));
    let mut log = open();
    let mut seen = Version(0);
    for _ in 0..plan.commits {
        if one_of(&env, 10) == 0 {
            // The process restarts and knows nothing.
            log = open();
        }
        let acknowledged = history.acknowledged.get();
        let Ok(base) = log.load().await else { continue };
        history.saw(&base, acknowledged.max(seen));
        if plan.pause > Span::ZERO && one_of(&env, 10) == 0 {
            let pause = unit_interval(env.draw(Purpose::Tables)) * plan.pause.as_nanos() as f64;
            env.sleep_until(env.now() + Span::from_nanos_f64(pause)).await;
        }
        let metadata = env.draw(Purpose::Transaction) | 1;
        let changes = changes(&env, &base, metadata);
        let attempt = log.commit(&base, &changes);
        // Without faults no attempt needs a deadline, and clocks may be local.
        let outcome = match plan.faults == Faults::default() {
            true => Some(attempt.await),
            false => within(&env, env.now() + plan.patience, attempt).await,
        };
        let told = match outcome {
            Some(Outcome::Committed(now)) => {
                seen = now.0.version;
                history.saw(&now, base.0.version.next());
                history.acknowledged.set(history.acknowledged.get().max(seen));
                Told::Committed
            }
            Some(Outcome::Conflict(newer)) => {
                newer.iter().for_each(|newer| history.saw(newer, base.0.version));
                Told::Conflict
            }
            Some(Outcome::Refused(_)) => Told::Refused,
            Some(Outcome::Unknown(_)) | None => Told::Unknown,
        };
        history.told.borrow_mut().insert(metadata, told);
    }
}

async fn vacuum(env: SimEnv, plan: Plan) {
    let log = AppendLog::new(env.clone(), env.store(STORE), Arc::new(SharedState::new("catalog", plan.limits)));
    for _ in 0..10 * plan.commits {
        // Under faults most vacuums stop half-way; their effects are in the store.
        let _ = log.vacuum(2).await;
        env.sleep_until(env.now() + Span::from_millis(300)).await;
    }
}

pub(super) fn first_root() -> Root {
    let tables = (0..TABLES).map(|id| (TableId(id), TableState::new(1))).collect();
    Root::from_parts(Version(0), CommitId(1), tables).unwrap()
}

pub(super) fn world(seed: u64, faults: Faults, mode: Mode) -> Simulation {
    let mut profile = Profile::constant(Span::from_millis(10));
    if let Some(append) = &mut profile.append {
        append.sigma = 0.3;
    }
    let model = StoreModel { faults, effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let simulation = Simulation::new(Setup { seed, horizon, mode, stores: vec![model] });
    simulation.keep_writes(STORE);
    simulation
}

pub(super) fn seed_catalog(simulation: &Simulation) {
    let key = Key::new("catalog/checkpoint/00000000000000000000");
    simulation.seed_object(STORE, &key, checkpoint::encode(0, &first_root()).into());
}

pub(super) fn run(seed: u64, plan: Plan) -> Run {
    let mut simulation = world(seed, plan.faults, Mode::EveryOperation);
    seed_catalog(&simulation);
    let history = Rc::new(History::default());
    let starts = (0..plan.writers + plan.vacuums).map(|n| {
        let history = Rc::clone(&history);
        let start = move |env: SimEnv| async move {
            match n < plan.writers {
                true => write(env, plan, history).await,
                false => vacuum(env, plan).await,
            }
        };
        (Instant::ZERO + Span::from_millis(u64::from(n)), start)
    });
    simulation.run(starts);
    let writes = simulation.writes(STORE);
    drop(simulation);
    Run { told: history.told.take(), writes, stale: history.stale.get(), seen: history.seen.take() }
}

impl Run {
    pub(super) fn count(&self, what: Told) -> usize {
        self.told.values().filter(|told| **told == what).count()
    }

    /// How many times segments were emptied.
    pub(super) fn emptied(&self) -> usize {
        self.writes.iter().filter(|write| write.bytes.starts_with(b"GPLE")).count()
    }
}

/// Everything ever written, by kind and number.
#[derive(Default)]
struct Written {
    segments: BTreeMap<u64, Vec<u8>>,
    emptied: BTreeMap<u64, u32>,
    checkpoints: BTreeMap<u64, Vec<u8>>,
}

fn sort_out(run: &Run) -> Result<Written, TestCaseError> {
    let mut written = Written::default();
    for bytes in run.writes.iter().map(|payload| &payload.bytes) {
        let number = bytes.get(8..16).map_or(0, |number| u64::from_le_bytes(number.try_into().unwrap()));
        match bytes.get(..4) {
            Some(b"GPLS") => {
                prop_assert!(
                    !written.emptied.contains_key(&number),
                    "segment {} was written after it was emptied",
                    number
                );
                let before = written.segments.insert(number, bytes.to_vec()).unwrap_or_default();
                prop_assert!(bytes.starts_with(&before), "segment {} was overwritten", number);
            }
            Some(b"GPLE") => *written.emptied.entry(number).or_default() += 1,
            Some(b"GPLC") => {
                let before = written.checkpoints.insert(number, bytes.to_vec());
                prop_assert!(before.is_none_or(|before| before == *bytes), "two checkpoints {}", number);
            }
            _ => prop_assert!(std::str::from_utf8(bytes).is_ok_and(|hint| hint.ends_with('\n'))),
        }
    }
    Ok(written)
}

/// Every root that the catalog has had, computed only from the rules of the log.
pub(super) fn chain(run: &Run) -> Result<Vec<Root>, TestCaseError> {
    let written = sort_out(run)?;
    let mut chain = vec![first_root()];
    for (count, (number, bytes)) in (1..).zip(&written.segments) {
        prop_assert_eq!(*number + 1, count, "segments without a gap");
        if let Some(checkpoint) = written.checkpoints.get(number) {
            prop_assert_eq!(&checkpoint::encode(*number, &chain[chain.len() - 1])[..], &checkpoint[..]);
        }
        let (mut rest, mut closed) = (&bytes[HEADER..], false);
        while !rest.is_empty() {
            prop_assert!(!closed, "something was appended after the end of segment {}", number);
            let (record, behind) = Record::decode(rest).unwrap();
            let last = &chain[chain.len() - 1];
            let Some(Intent::Changes(changes)) = record.intent else { panic!("no writer writes other records") };
            let next = changes.apply(last, record.commit);
            prop_assert!(next.is_ok(), "a void record: its writer must have known that it would be");
            chain.extend(next);
            (rest, closed) = (behind, record.closes);
        }
        prop_assert_eq!(
            closed,
            written.segments.contains_key(&(number + 1)) || (closed && count == written.segments.len() as u64)
        );
        prop_assert!(!closed || written.checkpoints.contains_key(number), "a closed segment has its checkpoint");
    }
    Ok(chain)
}

/// What was acknowledged is in the chain exactly once; what was refused or lost is not; what is unknown may be. Every
/// snapshot that a process got is in the chain. No load is older than what had been acknowledged, or read by the same
/// reader, before it.
pub(super) fn check(run: &Run) -> Result<Vec<Root>, TestCaseError> {
    let chain = chain(run)?;
    let mut landed = BTreeMap::<u64, u32>::new();
    for pair in chain.windows(2) {
        prop_assert_eq!(pair[1].version, pair[0].version.next());
        for id in (0..TABLES).map(TableId) {
            let (old, new) = (pair[0].table(id).unwrap(), pair[1].table(id).unwrap());
            if old.metadata != new.metadata {
                *landed.entry(new.metadata.0).or_default() += 1;
            }
        }
    }
    prop_assert_eq!(landed.values().map(|n| *n as usize).sum::<usize>(), chain.len() - 1);
    for (metadata, told) in &run.told {
        let times = landed.remove(metadata).unwrap_or(0);
        match told {
            Told::Committed => prop_assert_eq!(times, 1, "acknowledged"),
            Told::Conflict | Told::Refused => prop_assert_eq!(times, 0, "told {:?}", told),
            Told::Unknown => prop_assert!(times <= 1, "unknown, and there {} times", times),
        }
    }
    prop_assert!(landed.values().all(|times| *times == 1), "a writer that crashed left its commit twice");
    for snapshot in &run.seen {
        let root = snapshot.0.root();
        prop_assert_eq!(chain.get(snapshot.0.version.0 as usize), root.as_ref(), "a snapshot that is not in the chain");
    }
    prop_assert_eq!(run.stale, 0, "loads that went back");
    Ok(chain)
}
