use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::{BulkStore, Env, Guard, Key, ObjectStore, Payload, PutError, Transfer};
use glidepath_model::{ByteSize, Instant, Span};
use proptest::prelude::*;

use crate::{
    Component, ContendedProfile, Distribution, EffectPoint, Faults, Mode, OperationProfile, Profile, RateCap, Setup,
    SimEnv, Simulation, StoreId, StoreModel,
};

fn noisy() -> Profile {
    let operation = |millis, sigma| OperationProfile {
        median: Span::from_millis(millis),
        per_mib: Span::from_millis(20),
        sigma,
        floor: Span::from_millis(1),
        source: "assumed".into(),
        contended: Vec::new(),
        effect_after: None,
        effect_share: None,
    };
    Profile {
        title: "noisy".into(),
        source: "assumed".into(),
        get: operation(5, 0.6),
        put: operation(7, 0.3),
        conditional_put: operation(6, 0.4),
        append: Some(operation(6, 0.4)),
        latency_includes_read: false,
        catalogs_only: false,
        rate_cap: None,
        measured: None,
    }
}

/// A store where guarded writes slow each other down, keep each other out, and are capped.
fn crowded() -> Profile {
    let knot = |writers: u32, millis: u64| ContendedProfile {
        writers,
        hold: Span::from_millis(millis),
        success: lognormals(millis * 2),
        failure: Some(lognormals(millis)),
    };
    let mut profile = noisy();
    profile.conditional_put.contended = vec![knot(1, 3), knot(4, 9)];
    profile.append.as_mut().unwrap().contended = vec![knot(2, 2), knot(8, 20)];
    profile.rate_cap = Some(RateCap { writes_per_s: 20.0, burst: 3.0 });
    profile
}

fn lognormals(millis: u64) -> Distribution {
    let component = |weight, millis| Component { weight, median: Span::from_millis(millis), sigma: 0.5 };
    Distribution {
        floor: Span::from_millis(1),
        mixture: vec![component(3.0, millis), component(1.0, millis * 10)],
        quantiles: Vec::new(),
    }
}

fn setup(mode: Mode, seed: u64, profile: Profile, effect: EffectPoint) -> Setup {
    let model = StoreModel { effect, ..StoreModel::of(profile) };
    Setup { seed, horizon: Instant::ZERO + Span::from_secs(2), mode, stores: vec![model] }
}

/// What one process did and when, by its own clock.
type Log = Rc<RefCell<Vec<(u32, u64, String)>>>;

/// Contends for a few keys with every kind of operation, mixed with private ones.
async fn contend(env: SimEnv, script: Vec<u8>, log: Log) {
    let store = env.store(StoreId(0));
    let key = Key::new("shared");
    let (mut tag, mut end) = (None, 0);
    for step in script {
        let saw = match step % 6 {
            0 => match store.get(&key).await {
                Ok(object) => {
                    end = object.payload.size().as_bytes();
                    let seen = format!("get {} {}", object.tag, object.payload.bytes.len());
                    tag = Some(object.tag);
                    seen
                }
                Err(error) => error.to_string(),
            },
            1 => {
                let guard = tag.clone().map_or(Guard::Absent, Guard::Matches);
                let body = Bytes::from(vec![step; usize::from(step)]);
                format!("put {:?}", store.put(&key, Payload::from(body), guard).await.map(|tag| tag.to_string()).ok())
            }
            2 => format!("append {:?}", store.append(&key, Bytes::from_static(b"x").into(), end).await.ok()),
            3 => {
                let (count, parallel) = (u64::from(step) % 7 * 30, u32::from(step) % 3 + 1);
                let size = ByteSize::from_bytes(10_000);
                let reads = [Transfer::Read(size), Transfer::ReadMany { count, parallel, size }];
                format!("reads {:?}", store.bulk(&reads).await.is_ok())
            }
            4 => {
                // A single transfer, or a step of several; more kinds of steps than a store remembers.
                let size = ByteSize::from_bytes(100_000 + u64::from(step) % 50);
                let transfers = [Transfer::Write(size), Transfer::Read(size), Transfer::Write(size)];
                format!("transfers {:?}", store.bulk(&transfers[..1 + usize::from(step) / 6 % 3]).await.is_ok())
            }
            _ => {
                env.sleep_until(env.now() + Span::from_millis(u64::from(step) % 4)).await;
                "slept".into()
            }
        };
        log.borrow_mut().push((env.process(), env.now().as_nanos(), saw));
    }
}

fn run(setup: Setup, scripts: &[(u64, Vec<u8>)]) -> (Vec<(u32, u64, String)>, Option<Payload>) {
    let horizon = setup.horizon;
    run_until(setup, scripts, horizon)
}

/// Every process asks for an end of the run.
fn run_until(setup: Setup, scripts: &[(u64, Vec<u8>)], end: Instant) -> (Vec<(u32, u64, String)>, Option<Payload>) {
    let horizon = setup.horizon.min(end).as_nanos();
    let log = Log::default();
    let mut simulation = Simulation::new(setup);
    let starts: Vec<_> = scripts
        .iter()
        .map(|(at, script)| {
            let (script, log) = (script.clone(), Rc::clone(&log));
            let start = move |env: SimEnv| {
                env.end_run_after(end);
                contend(env, script, log)
            };
            (Instant::ZERO + Span::from_millis(*at), start)
        })
        .collect();
    simulation.run(starts);
    let last = simulation.peek(StoreId(0), &Key::new("shared"));
    drop(simulation);
    let mut log = log.take();
    // Work that ends after the horizon counts as not ended.
    log.retain(|(_, at, _)| *at <= horizon);
    log.sort();
    (log, last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Both modes give each process the same observations, to the nanosecond.
    #[test]
    fn local_clocks_change_nothing(
        seed in any::<u64>(),
        scripts in prop::collection::vec((0_u64..30, prop::collection::vec(any::<u8>(), 1..30)), 1..8),
        kind in 0..3,
        effect_share in prop::option::of(0.0..=1.0_f64),
        effect in prop::sample::select(vec![EffectPoint::Half, EffectPoint::HalfOfPut, EffectPoint::End]),
    ) {
        let mut scripts = scripts;
        scripts.sort();
        // A store of constant latency makes many ties; one of zero latency makes only ties.
        let mut profile = match kind {
            0 => Profile::constant(Span::from_millis(seed % 3)),
            1 => noisy(),
            _ => crowded(),
        };
        profile.conditional_put.effect_share = effect_share;
        profile.append.as_mut().unwrap().effect_share = effect_share;
        let fast = run(setup(Mode::LocalClocks, seed, profile.clone(), effect), &scripts);
        let plain = run(setup(Mode::EveryOperation, seed, profile, effect), &scripts);
        prop_assert_eq!(fast, plain);
    }

    /// A run that a process ends is the beginning of the run without that end.
    #[test]
    fn an_earlier_end_changes_nothing_before_it(
        seed in any::<u64>(),
        scripts in prop::collection::vec((0_u64..30, prop::collection::vec(any::<u8>(), 1..30)), 1..8),
        end in 0_u64..200,
        mode in prop::sample::select(vec![Mode::LocalClocks, Mode::EveryOperation]),
    ) {
        let mut scripts = scripts;
        scripts.sort();
        let end = Instant::ZERO + Span::from_millis(end);
        let whole = setup(mode, seed, noisy(), EffectPoint::Half);
        let (mut log, _) = run(whole.clone(), &scripts);
        log.retain(|(_, at, _)| *at <= end.as_nanos());
        prop_assert_eq!(run_until(whole, &scripts, end).0, log);
    }

    /// Same seed, same bytes, with faults too.
    #[test]
    fn the_same_seed_gives_the_same_run(seed in any::<u64>()) {
        let scripts: Vec<_> = (0..4).map(|n| (n, (0..40_u64).map(|step| ((step * 7 + n) % 251) as u8).collect())).collect();
        let faults = Faults { answer_lost: 0.1, late: 0.1, refused: 0.1, crash: 0.02, request_lost: 0.1,
            timeout: Span::from_millis(40), lateness: Span::from_millis(300), ..Faults::default() };
        let mut setup = setup(Mode::LocalClocks, seed, noisy(), EffectPoint::Half);
        setup.stores[0].faults = faults;
        prop_assert_eq!(run(setup.clone(), &scripts), run(setup, &scripts));
    }
}

fn alone<F, Fut>(faults: Faults, script: F) -> Simulation
where
    F: FnOnce(SimEnv) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let model = StoreModel { faults, ..StoreModel::of(Profile::constant(Span::from_millis(10))) };
    let horizon = Instant::ZERO + Span::from_secs(1000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::LocalClocks, stores: vec![model] });
    simulation.run([(Instant::ZERO, script)]);
    simulation
}

const KEY: &str = "k";

fn put_once(faults: Faults) -> (Result<(), String>, bool, u64) {
    let outcome = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&outcome);
    let simulation = alone(faults, move |env| async move {
        let result = env.store(StoreId(0)).put(&Key::new(KEY), Payload::default(), Guard::Absent).await;
        let result = result.map(|_| ()).map_err(|error| match error {
            PutError::Lost => "lost".into(),
            PutError::Unknown(cause) => format!("unknown: {cause}"),
            PutError::Refused(cause) => format!("refused: {cause}"),
        });
        *seen.borrow_mut() = Some((result, env.now().as_nanos() / 1_000_000));
    });
    let exists = simulation.peek(StoreId(0), &Key::new(KEY)).is_some();
    let (result, millis) = outcome.take().unwrap_or((Err("no answer".into()), 0));
    (result, exists, millis)
}

#[test]
fn each_fault_does_what_it_says() {
    let none = Faults::default();
    assert_eq!(put_once(none), (Ok(()), true, 10));
    let lost = put_once(Faults { request_lost: 1.0, ..none });
    assert_eq!(lost, (Err("unknown: the request was lost".into()), false, 30_000));
    let silent = put_once(Faults { answer_lost: 1.0, ..none });
    assert_eq!(silent, (Err("unknown: the answer was lost".into()), true, 30_000));
    let late = put_once(Faults { late: 1.0, ..none });
    assert_eq!(late, (Err("unknown: no answer in time".into()), true, 30_000));
    let refused = put_once(Faults { refused: 1.0, ..none });
    assert_eq!(refused, (Err("refused: 503 Slow Down".into()), false, 10));
    let crashed = put_once(Faults { crash: 1.0, ..none });
    assert_eq!(crashed, (Err("no answer".into()), true, 0));
}

#[test]
fn a_request_outlives_the_future_that_sent_it() {
    let simulation = alone(Faults::default(), |env| async move {
        let store = env.store(StoreId(0));
        let key = Key::new(KEY);
        let mut put = Box::pin(store.put(&key, Payload::default(), Guard::Absent));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(put.as_mut().poll(&mut context).is_pending());
        drop(put);
        assert!(store.get(&key).await.is_ok());
    });
    assert!(simulation.peek(StoreId(0), &Key::new(KEY)).is_some());
}

#[test]
fn a_lagging_listing_hides_what_is_young_and_reads_do_not() {
    let faults = Faults { list_lag: Span::from_secs(5), ..Faults::default() };
    alone(faults, |env| async move {
        let (store, key) = (env.store(StoreId(0)), Key::new(KEY));
        let listed = async || store.list(&key, None, 10).await.unwrap().objects.len();
        store.put(&key, Payload::default(), Guard::None).await.unwrap();
        assert_eq!(listed().await, 0);
        assert!(store.get(&key).await.is_ok());
        env.sleep_until(env.now() + Span::from_secs(5)).await;
        // Its age is unchanged: only its content is new.
        store.put(&key, Payload::default(), Guard::None).await.unwrap();
        assert_eq!(listed().await, 1);
    });
}

#[test]
fn a_clock_that_is_off_jumps_within_its_bounds() {
    let right = 1_767_225_600_000_i64;
    let faults = Faults { clock_skew: Span::from_secs(60), ..Faults::default() };
    alone(faults, move |env| async move {
        let mut offsets = Vec::new();
        for minute in 0..15 {
            let off = env.unix_ms() as i64 - right - minute * 60_000;
            assert!(off.abs() <= 60_000, "{off}");
            offsets.push(off);
            env.sleep_until(env.now() + Span::from_secs(60)).await;
        }
        assert_eq!(offsets[0], offsets[9], "between jumps the offset is constant");
        assert_ne!(offsets[9], offsets[10], "it jumped");
    });
}

#[test]
fn mishaps_are_told_in_words() {
    let model = StoreModel { faults: Faults { refused: 1.0, ..Faults::default() }, ..StoreModel::of(noisy()) };
    let horizon = Instant::ZERO + Span::from_secs(1000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::LocalClocks, stores: vec![model] });
    simulation.keep_mishaps();
    let script = |env: SimEnv| async move {
        assert!(env.store(StoreId(0)).append(&Key::new(KEY), Payload::default(), 7).await.is_err());
    };
    simulation.run([(Instant::ZERO, script)]);
    let [mishap] = &simulation.mishaps()[..] else { panic!("one request") };
    assert_eq!((mishap.process, mishap.words.as_str()), (1, "append to k at 7: refused"));
}

#[test]
fn a_request_takes_effect_where_its_store_says() {
    let millis = Span::from_millis;
    let split =
        |effect: EffectPoint, round_trip, plain: Option<u64>| effect.split(millis(round_trip), plain.map(millis));
    assert_eq!(split(EffectPoint::Half, 14, Some(20)), (millis(7), millis(14)));
    assert_eq!(split(EffectPoint::End, 14, Some(20)), (millis(14), millis(14)));
    assert_eq!(split(EffectPoint::HalfOfPut, 14, None), (millis(7), millis(14)));
    assert_eq!(split(EffectPoint::HalfOfPut, 14, Some(10)), (millis(7), millis(14)));
    assert_eq!(split(EffectPoint::HalfOfPut, 14, Some(20)), (millis(10), millis(17)));
}

/// Put in 20 ms, conditional put in 10 and get in 4: the guarded one arrives after half of 20 and is answered half of
/// 10 later.
#[test]
fn a_conditional_put_travels_no_faster_than_a_plain_one() {
    let millis = Span::from_millis;
    let mut profile = Profile::constant(millis(10));
    (profile.put.median, profile.get.median) = (millis(20), millis(4));
    for (effect, arrives, answered) in [(EffectPoint::Half, 5, 10), (EffectPoint::HalfOfPut, 10, 15)] {
        for mode in [Mode::LocalClocks, Mode::EveryOperation] {
            let mut simulation = Simulation::new(setup(mode, 1, profile.clone(), effect));
            let key = Key::new(KEY);
            let script = |reader: bool| {
                let key = key.clone();
                move |env: SimEnv| async move {
                    let store = env.store(StoreId(0));
                    if reader {
                        // A read sees what took effect within half of its round trip after it was sent.
                        env.sleep_until(Instant::ZERO + millis(arrives - 3)).await;
                        assert!(store.get(&key).await.is_err(), "{effect:?} {mode:?}: too early");
                        assert!(store.get(&key).await.is_ok(), "{effect:?} {mode:?}: too late");
                    } else {
                        store.put(&key, Payload::default(), Guard::Absent).await.unwrap();
                        assert_eq!(env.now(), Instant::ZERO + millis(answered), "{effect:?} {mode:?}");
                        store.put(&key, Payload::default(), Guard::None).await.unwrap();
                        assert_eq!(env.now(), Instant::ZERO + millis(answered + 20), "{effect:?} {mode:?}");
                    }
                }
            };
            simulation.run([(Instant::ZERO, script(false)), (Instant::ZERO, script(true))]);
        }
    }
}

/// A guarded write that takes 40 ms, of one distribution for all or under contention, where a loser takes 20 ms: with
/// contention the share is of the shorter of the two.
#[test]
fn a_guarded_write_takes_effect_after_its_share_of_the_round_trip() {
    let millis = Span::from_millis;
    let always = |after: u64| Distribution {
        quantiles: vec![(0.0, millis(after)), (1.0, millis(after))],
        ..Distribution::default()
    };
    let knot = |writers| ContendedProfile { writers, hold: Span::ZERO, success: always(40), failure: Some(always(20)) };
    for (contended, share, effect) in [
        (Vec::new(), 0.0, 0),
        (Vec::new(), 0.25, 10),
        (Vec::new(), 1.0, 40),
        (vec![knot(1), knot(2)], 0.0, 0),
        (vec![knot(1), knot(2)], 0.5, 10),
        (vec![knot(1), knot(2)], 1.0, 20),
    ] {
        let mut profile = Profile::constant(millis(2));
        profile.conditional_put =
            OperationProfile { median: millis(40), contended, effect_share: Some(share), ..profile.conditional_put };
        let mut simulation = Simulation::new(setup(Mode::LocalClocks, 1, profile, EffectPoint::Half));
        let script = |reader: bool| {
            move |env: SimEnv| async move {
                let (store, key) = (env.store(StoreId(0)), Key::new(KEY));
                if !reader {
                    store.put(&key, Payload::default(), Guard::Absent).await.unwrap();
                    assert_eq!(env.now(), Instant::ZERO + millis(40), "{share}: the answer");
                    return;
                }
                // A read sees the state after 1 ms.
                if effect > 1 {
                    env.sleep_until(Instant::ZERO + millis(effect - 2)).await;
                    assert!(store.get(&key).await.is_err(), "{share}: too early");
                }
                env.sleep_until(Instant::ZERO + millis(effect + 1)).await;
                assert!(store.get(&key).await.is_ok(), "{share}: too late");
            }
        };
        simulation.run([(Instant::ZERO, script(false)), (Instant::ZERO, script(true))]);
    }
}

/// More kinds of steps than a store remembers, in different orders: the duration of a step does not depend on the
/// order.
#[test]
fn local_clocks_change_nothing_where_steps_are_of_many_kinds() {
    let steps: Vec<u8> = (0..=u8::MAX).filter(|step| step % 6 == 4 && step / 6 % 3 > 0).collect();
    assert!(steps.len() > 20);
    let backwards = steps.iter().rev().copied().collect();
    let scripts = [(0, steps), (1, backwards)];
    let both = [Mode::LocalClocks, Mode::EveryOperation];
    let [fast, plain] = both.map(|mode| run(setup(mode, 1, noisy(), EffectPoint::Half), &scripts));
    assert_eq!(fast, plain);
}

/// Long runs hold many of them, and move hundreds of millions. What is large is boxed.
#[test]
fn requests_are_no_larger_than_they_were() {
    let sizes = [size_of::<super::Action>(), size_of::<super::Answer>(), size_of::<super::Request>()];
    for (size, most) in sizes.into_iter().zip([72, 56, 184]) {
        assert!(size <= most, "{sizes:?}");
    }
}
