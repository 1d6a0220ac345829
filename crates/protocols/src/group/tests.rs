//! Writers of one simulated process that share commits. All run in `Mode::EveryOperation`: what they share must be seen
//! in the order of time.

mod answers;
mod fake;
mod loading;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use glidepath_model::{Action, Entry, Instant, Kind, Name, Refusal, Version};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use super::*;
use crate::manifest_chain::{Layout, ManifestChain, SharedState};

const STORE: StoreId = StoreId(0);
const ROUND_TRIP: Span = Span::from_millis(30);

type Chain = ManifestChain<SimEnv>;
type Told = Result<Version, CommitError>;
type Life = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(SimEnv) -> Life>;

fn create(text: &str) -> Vec<Action> {
    vec![Action::Create { name: Name::parse(text).unwrap(), entry: Entry::namespace() }]
}

fn drop_namespace(text: &str) -> Vec<Action> {
    vec![Action::Drop { name: Name::parse(text).unwrap(), kind: Kind::Namespace, expected: None }]
}

/// The requests of one writer, one after another, from a given time on. It may be killed at another time.
#[derive(Clone)]
struct Plan {
    from_ms: u64,
    requests: Vec<Vec<Action>>,
    killed_ms: Option<u64>,
}

struct Ran {
    /// For each writer, its answers and how long each took.
    told: Vec<Vec<(Told, Span)>>,
    names: Vec<String>,
    versions: u64,
    ended: Instant,
}

/// The end of every run.
const HORIZON: Instant = Instant::from_nanos(3600 * 1_000_000_000);

fn run(plans: Vec<Plan>, grouped: bool, faults: Faults) -> Ran {
    let model = StoreModel { faults, effect: EffectPoint::Half, profile: Profile::constant(ROUND_TRIP) };
    let setup = Setup { seed: 1, horizon: HORIZON, mode: Mode::EveryOperation, stores: vec![model] };
    let mut simulation = Simulation::new(setup);
    let shared_state = Arc::new(SharedState::new("", 1 << 20));
    let told = Rc::new(RefCell::new(vec![Vec::new(); plans.len()]));
    let ran = Rc::new(RefCell::new(Ran { told: Vec::new(), names: Vec::new(), versions: 0, ended: Instant::ZERO }));
    let mut processes = vec![(Instant::ZERO, creator(Arc::clone(&shared_state)))];
    let group: Group<Chain> = Group::default();
    if grouped {
        processes.push((Instant::ZERO, leader(Arc::clone(&shared_state), group.clone())));
    }
    for (number, plan) in plans.into_iter().enumerate() {
        let (shared_state, group) = (Arc::clone(&shared_state), grouped.then(|| group.clone()));
        let (start, told, ran) = (after_creation(plan.from_ms), Rc::clone(&told), Rc::clone(&ran));
        processes.push((
            start,
            writer(plan, (shared_state, group), move |answer| told.borrow_mut()[number].push(answer), ran),
        ));
    }
    processes.sort_by_key(|(at, _)| *at);
    let minute_before_the_end = Instant::ZERO + (HORIZON.since(Instant::ZERO) - Span::from_secs(60));
    processes.push((minute_before_the_end, reader(Rc::clone(&ran))));
    simulation.run(processes);
    drop(simulation);
    Ran { told: told.take(), ..Rc::into_inner(ran).unwrap().into_inner() }
}

fn after_creation(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(1000 + ms)
}

/// Creates the catalog, whatever the faults.
fn creator(shared_state: Arc<SharedState>) -> Start {
    Box::new(move |env: SimEnv| {
        Box::pin(async move {
            while !matches!(
                Chain::new(env.clone(), env.store(STORE), Arc::clone(&shared_state)).create(Layout::Paged, true).await,
                Outcome::Committed(_) | Outcome::Conflict(_)
            ) {}
        })
    })
}

fn leader(shared_state: Arc<SharedState>, group: Group<Chain>) -> Start {
    Box::new(move |env: SimEnv| {
        let chain = Chain::new(env.clone(), env.store(STORE), shared_state);
        Box::pin(Leader::new(env, chain, &group, RetryPolicy::default()).unwrap().lead())
    })
}

fn writer(
    plan: Plan,
    (shared_state, group): (Arc<SharedState>, Option<Group<Chain>>),
    tell: impl Fn((Told, Span)) + 'static,
    ran: Rc<RefCell<Ran>>,
) -> Start {
    Box::new(move |env: SimEnv| {
        Box::pin(async move {
            let chain = Chain::new(env.clone(), env.store(STORE), shared_state);
            let committer = match group {
                Some(group) => Committer::grouped(env.clone(), chain, group),
                None => Committer::alone(env.clone(), chain, RetryPolicy::default()),
            };
            let mut all = std::pin::pin!(async {
                for request in plan.requests {
                    let began = env.now();
                    let answer = committer.commit(request).await.map(|snapshot| snapshot.version());
                    tell((answer, env.now().since(began)));
                }
            });
            let mut bell = std::pin::pin!(env.sleep_until(plan.killed_ms.map_or(HORIZON, after_creation)));
            poll_fn(|context| match all.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => bell.as_mut().poll(context),
            })
            .await;
            ran.borrow_mut().ended = env.now();
        })
    })
}

/// Reads the catalog until that succeeds.
fn reader(ran: Rc<RefCell<Ran>>) -> Start {
    Box::new(move |env: SimEnv| {
        Box::pin(async move {
            let chain = Chain::new(env.clone(), env.store(STORE), Arc::new(SharedState::new("", 1 << 20)));
            loop {
                let Ok(head) = chain.load().await else { continue };
                let Ok(all) = chain.all(&head, None, usize::MAX).await else { continue };
                let mut ran = ran.borrow_mut();
                ran.names = all.into_iter().map(|(name, _)| name.to_string()).collect();
                ran.versions = head.version().0;
                break;
            }
        })
    })
}

fn many(writers: u64, commits: u64) -> Vec<Plan> {
    let requests = |writer: u64| (0..commits).map(|n| create(&format!("w{writer:03}-{n}"))).collect();
    (0..writers).map(|writer| Plan { from_ms: writer % 7, requests: requests(writer), killed_ms: None }).collect()
}

fn rate(ran: &Ran, commits: u64) -> f64 {
    commits as f64 / ran.ended.since(Instant::ZERO + Span::from_secs(1)).as_secs_f64()
}

#[test]
fn throughput_grows_with_the_writers_of_a_process() {
    let alone = run(many(1, 20), true, Faults::default());
    // One put per commit and no wait: the rate is that of the round trip, except for a hint every sixteenth time.
    assert!((30.0..=33.4).contains(&rate(&alone, 20)), "{}", rate(&alone, 20));
    let crowd = run(many(200, 10), true, Faults::default());
    assert_eq!(crowd.names.len(), 2000);
    assert!(crowd.told.iter().flatten().all(|(told, _)| told.is_ok()));
    assert!(rate(&crowd, 2000) > 1000.0, "{}", rate(&crowd, 2000));
    assert!(crowd.versions < 40, "{}", crowd.versions);
    // Without a group, they conflict with each other.
    let apart = run(many(50, 2), false, Faults::default());
    assert!(rate(&apart, 100) < 33.4, "{}", rate(&apart, 100));
}

#[test]
fn alone_nobody_waits_for_company() {
    for grouped in [true, false] {
        let ran = run(many(1, 5), grouped, Faults::default());
        for (told, took) in &ran.told[0] {
            assert!(told.is_ok());
            assert_eq!(*took, ROUND_TRIP);
        }
    }
}

#[test]
fn a_refused_request_fails_alone() {
    let plan = |from_ms, request| Plan { from_ms, requests: vec![request], killed_ms: None };
    // The first is committed alone; the others share the next version.
    let plans = vec![
        plan(0, create("first")),
        plan(1, create("a")),
        plan(2, create("a")),
        plan(3, create("nowhere/b")),
        plan(4, create("a/c")),
        plan(5, drop_namespace("a")),
        plan(6, drop_namespace("never")),
    ];
    let ran = run(plans, true, Faults::default());
    let told: Vec<_> = ran.told.iter().map(|told| &told[0].0).collect();
    assert!(matches!(told[1], Ok(Version(2))), "{:?}", told[1]);
    assert!(matches!(told[2], Err(CommitError::Refused(Refusal::Exists(_)))));
    assert!(matches!(told[3], Err(CommitError::Refused(Refusal::NoParent { .. }))));
    assert!(matches!(told[4], Ok(Version(2))));
    assert!(matches!(told[5], Err(CommitError::Refused(Refusal::NotEmpty(_)))));
    assert!(matches!(told[6], Err(CommitError::Refused(Refusal::NotFound(_)))));
    assert_eq!(ran.names, ["a", "first", "a/c"]);
}

#[test]
fn a_leader_that_is_killed_takes_nobody_along() {
    // Killed while its put is in flight, or while it waits in the queue.
    for killed_ms in [1, 10, 20, 29, 31, 45] {
        let mut plans = many(20, 3);
        plans[0].killed_ms = Some(killed_ms);
        plans[7].killed_ms = Some(killed_ms);
        let ran = run(plans, true, Faults::default());
        let mut certain = BTreeMap::new();
        for (writer, told) in ran.told.iter().enumerate() {
            assert!([0, 7].contains(&writer) || told.len() == 3, "writer {writer} was left waiting");
            for (number, (told, _)) in told.iter().enumerate() {
                match told {
                    Ok(_) => drop(certain.insert(format!("w{writer:03}-{number}"), true)),
                    Err(CommitError::Unknown(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for name in certain.keys() {
            assert!(ran.names.contains(name), "{name} was acknowledged");
        }
    }
}

#[test]
fn under_faults_each_is_told_the_truth() {
    let (timeout, lateness) = (Span::from_secs(1), Span::from_secs(5));
    let faults = Faults {
        request_lost: 0.05,
        answer_lost: 0.1,
        late: 0.05,
        refused: 0.1,
        timeout,
        lateness,
        ..Faults::default()
    };
    let ran = run(many(30, 5), true, faults);
    let mut committed = 0;
    for (writer, told) in ran.told.iter().enumerate() {
        for (number, (told, _)) in told.iter().enumerate() {
            let there = ran.names.contains(&format!("w{writer:03}-{number}"));
            match told {
                Ok(_) => assert!(there),
                Err(CommitError::Unknown(_)) => {}
                Err(_) => assert!(!there),
            }
            committed += usize::from(told.is_ok());
        }
    }
    assert!(committed > 50, "{committed}");
}
