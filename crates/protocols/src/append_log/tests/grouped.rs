//! Writers of one process that share appends.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Changes, Edit, Instant, Name, Span, TableId, TableState, Version};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use super::super::{AppendLog, Limits, MOST_APPEND_BYTES, MOST_RECORD_BYTES, SharedState};
use super::world::{advance, limits};
use crate::catalog::{Catalog, Outcome};
use crate::group::{CommitError, Committer, Group, GroupAttempt, Grouped, Leader, RetryPolicy, Verdict};
use crate::mutant::{self, Mutant};

const STORE: StoreId = StoreId(0);
const WRITERS: u32 = 40;
const COMMITS: u32 = 10;

type Life = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(SimEnv) -> Life>;

struct Ran {
    /// For each table, how often its writer was told "committed", and how often "unknown".
    told: Vec<(u64, u64)>,
    versions: Vec<Version>,
    took: Span,
}

/// Each writer has a table of its own; all share one process.
fn run(writers: u32, faults: Faults, limits: Limits) -> Ran {
    let profile = Profile::constant(Span::from_millis(30));
    let model = StoreModel { faults, effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 3, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let shared_state = Arc::new(SharedState::new("log/", limits));
    let group: Group<AppendLog<SimEnv>> = Group::default();
    let told = Rc::new(RefCell::new(vec![(0, 0); writers as usize]));
    let (ended, versions) = (Rc::new(Cell::new(Instant::ZERO)), Rc::new(RefCell::new(Vec::new())));
    let mut processes: Vec<(Instant, Start)> = Vec::new();
    let creator = Arc::clone(&shared_state);
    let create = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let tables: Vec<_> = (0..writers).map(|id| (TableId(id), TableState::new(1))).collect();
            let log = AppendLog::new(env.clone(), env.store(STORE), creator);
            while !matches!(log.create(tables.clone()).await, Outcome::Committed(_) | Outcome::Conflict(_)) {}
        })
    };
    processes.push((Instant::ZERO, Box::new(create)));
    let begin = Instant::ZERO + Span::from_secs(100);
    processes.push((begin, leader(Arc::clone(&shared_state), group.clone())));
    for writer in 0..writers {
        let (shared_state, group, told, ended) =
            (Arc::clone(&shared_state), group.clone(), Rc::clone(&told), Rc::clone(&ended));
        let start = move |env: SimEnv| -> Life {
            Box::pin(async move {
                let log = AppendLog::new(env.clone(), env.store(STORE), shared_state);
                let committer = Committer::grouped(env.clone(), log, group);
                for number in 0..COMMITS {
                    let Ok(at) = committer.catalog().load().await else { continue };
                    let state = at.table(TableId(writer)).unwrap();
                    let metadata = u64::from(writer) << 32 | u64::from(number) << 1 | 1;
                    let changes = Changes::of(TableId(writer), advance(state, metadata));
                    match committer.commit(changes.actions()).await {
                        Ok(_) => told.borrow_mut()[writer as usize].0 += 1,
                        Err(CommitError::Unknown(_)) => told.borrow_mut()[writer as usize].1 += 1,
                        Err(_) => {}
                    }
                }
                ended.set(env.now());
            })
        };
        processes.push((begin, Box::new(start)));
    }
    let seen = Rc::clone(&versions);
    let look = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let log = AppendLog::new(env.clone(), env.store(STORE), Arc::new(SharedState::new("log/", limits)));
            loop {
                let Ok(at) = log.load().await else { continue };
                *seen.borrow_mut() = (0..writers).map(|id| at.table(TableId(id)).unwrap().version).collect();
                break;
            }
        })
    };
    processes.push((Instant::ZERO + Span::from_secs(3500), Box::new(look)));
    simulation.run(processes);
    drop(simulation);
    Ran { told: told.take(), versions: versions.take(), took: ended.get().since(begin) }
}

fn leader(shared_state: Arc<SharedState>, group: Group<AppendLog<SimEnv>>) -> Start {
    Box::new(move |env: SimEnv| {
        let log = AppendLog::new(env.clone(), env.store(STORE), shared_state);
        Box::pin(Leader::new(env, log, &group, RetryPolicy::default()).unwrap().lead())
    })
}

#[test]
fn writers_of_different_tables_share_appends() {
    let ran = run(WRITERS, Faults::default(), limits(1 << 20));
    let commits = u64::from(WRITERS * COMMITS);
    assert_eq!(ran.told, vec![(u64::from(COMMITS), 0); WRITERS as usize]);
    assert_eq!(ran.versions, vec![Version(u64::from(COMMITS)); WRITERS as usize]);
    let rate = commits as f64 / ran.took.as_secs_f64();
    // One by one, each commit would take an append of 30 ms and a load of 30 ms.
    assert!(rate > 200.0, "{rate}");
}

#[test]
fn shared_appends_close_segments_and_survive_faults() {
    let (timeout, lateness) = (Span::from_millis(500), Span::from_secs(2));
    let bad = Faults { request_lost: 0.05, answer_lost: 0.08, late: 0.05, refused: 0.08, ..Faults::default() };
    for (faults, records) in [(Faults::default(), 7), (Faults { timeout, lateness, ..bad }, 25)] {
        let ran = run(WRITERS, faults, limits(records));
        let mut committed = 0;
        for ((told, unknown), version) in ran.told.iter().zip(&ran.versions) {
            assert!((*told..=told + unknown).contains(&version.0), "told {told}, unknown {unknown}, is {version}");
            committed += told;
        }
        assert!(committed > u64::from(WRITERS * COMMITS) / 2, "{committed}");
    }
}

/// A table whose creation takes about a mebibyte.
fn large(id: u32, partitions: usize) -> Changes {
    Changes::of(TableId(id), glidepath_model::Edit::Create(TableState::new(partitions)))
}

/// The answers that a group of writers gets that create these tables at the same time, and what is written.
fn created_at_once(tables: Vec<Changes>) -> (Vec<bool>, Vec<usize>, usize) {
    let model = StoreModel::of(Profile::constant(Span::from_millis(30)));
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 3, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    simulation.keep_writes(STORE);
    let told = Rc::new(RefCell::new(Vec::new()));
    let (seen, found) = (Rc::clone(&told), Rc::new(Cell::new(0)));
    let count = Rc::clone(&found);
    let start = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let shared_state = Arc::new(SharedState::new("log/", limits(1 << 20)));
            let log = AppendLog::new(env.clone(), env.store(STORE), shared_state);
            assert!(matches!(log.create(Vec::new()).await, Outcome::Committed(_)));
            let at = log.load().await.unwrap();
            let requests: Vec<_> = tables.iter().map(Changes::actions).collect();
            let mut rest: Vec<_> = requests.iter().map(Vec::as_slice).collect();
            while !rest.is_empty() {
                let GroupAttempt::Decided { verdicts, outcome } = log.attempt_group(&at, &rest).await else { panic!() };
                assert!(matches!(outcome, None | Some(Outcome::Committed(_))), "{outcome:?}");
                seen.borrow_mut().extend(verdicts.iter().map(|verdict| matches!(verdict, Verdict::Fits)));
                rest.drain(..verdicts.len());
            }
            let reader =
                AppendLog::new(env.clone(), env.store(STORE), Arc::new(SharedState::new("log/", limits(1 << 20))));
            let at = reader.load().await.expect("every process can read what was written");
            count.set((0..tables.len() as u32).filter(|id| at.table(TableId(*id)).is_some()).count());
        })
    };
    simulation.run([(Instant::ZERO, start)]);
    let sizes: Vec<usize> = simulation
        .written(STORE)
        .iter()
        .filter(|(key, _)| key.as_str().contains("/log/"))
        .map(|(_, payload)| payload.bytes.len())
        .collect();
    let appends = sizes.iter().scan(0, |before, size| Some(size - std::mem::replace(before, *size))).collect();
    drop(simulation);
    (told.take(), appends, found.get())
}

#[test]
fn batches_over_the_limit_go_in_several_appends() {
    let run = || created_at_once((0..6).map(|id| large(id, 1 << 17)).collect());
    let (told, appends, found) = run();
    assert_eq!((told, found), (vec![true; 6], 6));
    assert_eq!(appends.len(), 2, "{appends:?}");
    assert!(appends.iter().all(|bytes| *bytes <= MOST_APPEND_BYTES), "{appends:?}");
    let (_, appends, _) = mutant::with(Mutant::BatchUnlimited, run);
    assert!(appends[0] > MOST_APPEND_BYTES, "{appends:?}");
}

#[test]
fn a_record_is_as_large_as_an_append_and_no_larger() {
    // A partition takes eight bytes, the rest of such a record 43.
    let most = (MOST_RECORD_BYTES - 43) / 8;
    let (told, appends, found) = created_at_once(vec![large(0, 1), large(1, most), large(2, most + 1), large(3, 1)]);
    assert_eq!((told, found), (vec![true, true, false, true], 3));
    assert!(appends.iter().all(|bytes| *bytes <= MOST_APPEND_BYTES), "{appends:?}");
    assert!(appends.iter().any(|bytes| MOST_APPEND_BYTES - bytes < 32), "{appends:?}");
}

/// Another handle of the process knows a newer state than the base: assertions are decided on that, and must not be
/// reported for the base.
#[test]
fn what_is_only_asserted_is_told_of_no_older_place() {
    let model = StoreModel {
        faults: Faults::default(),
        effect: EffectPoint::Half,
        profile: Profile::constant(Span::from_millis(30)),
    };
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 3, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let done = Rc::new(Cell::new(false));
    let told = Rc::clone(&done);
    simulation.run([(Instant::ZERO, move |env: SimEnv| async move {
        let shared_state = Arc::new(SharedState::new("log/", Limits::default()));
        let log = AppendLog::new(env.clone(), env.store(STORE), shared_state);
        let Outcome::Committed(old) = log.create(Vec::new()).await else { panic!("not created") };
        let create = Changes::of(TableId(1), Edit::Create(TableState::new(1)));
        assert!(matches!(log.commit(&old, &create).await, Outcome::Committed(_)));
        let assert = |id, holds| [Action::Assert { name: Name::numbered(TableId(id)), holds }];
        let version = assert(1, Assertion::Version(Version(0)));
        let GroupAttempt::Decided { outcome: Some(Outcome::Conflict(Some(newer))), .. } =
            log.attempt_group(&old, &[&version]).await
        else {
            panic!("reported for the base, which has no such table")
        };
        assert_eq!(newer.version(), Version(1));
        for (base, request, fits) in [
            (&newer, &version, true),
            (&newer, &assert(2, Assertion::Absent), true),
            (&old, &assert(1, Assertion::Absent), false),
        ] {
            let GroupAttempt::Decided { verdicts, outcome: None } = log.attempt_group(base, &[request]).await else {
                panic!("something was sent")
            };
            assert_eq!(matches!(verdicts[..], [Verdict::Fits]), fits);
        }
        // A writer that commits alone continues from there.
        let committer = Committer::alone(env.clone(), log.clone(), RetryPolicy::default());
        assert_eq!(committer.commit(version.to_vec()).await.unwrap().version(), Version(1));
        told.set(true);
    })]);
    assert!(done.get());
}
