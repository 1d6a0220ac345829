//! Does the simulated store keep the contract?

use std::cell::RefCell;
use std::rc::Rc;

use glidepath_env::conformance::{Violation, run_all};
use glidepath_env::{Env, Key};
use glidepath_model::{Instant, Span};
use glidepath_sim::{EffectPoint, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

const PROFILE: &str = r#"
title = "a store whose latencies overlap"
source = "made up for this test"
get = { median = "20ms", sigma = 0.5, source = "made up" }
put = { median = "30ms", sigma = 0.5, source = "made up" }
conditional_put = { median = "40ms", sigma = 0.5, source = "made up" }
"#;

const APPEND: &str = r#"append = { median = "25ms", sigma = 0.5, source = "made up" }"#;

/// Runs the suite in one process with many requests in flight at once.
fn violations(profile: &str, effect: EffectPoint, seed: u64) -> Vec<Violation> {
    let model = StoreModel { effect, ..StoreModel::of(Profile::parse(profile).expect("a profile")) };
    let horizon = Instant::ZERO + Span::from_secs(1_000_000);
    let mut simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let found = Rc::new(RefCell::new(None));
    let result = Rc::clone(&found);
    let process = |env: SimEnv| async move {
        let violations = run_all(&[env.store(StoreId(0))], &Key::new("scratch")).await;
        assert!(env.now() > Instant::ZERO, "the suite took no virtual time");
        result.replace(Some(violations));
    };
    simulation.run([(Instant::ZERO, process)]);
    found.take().expect("the suite did not end within the horizon")
}

#[test]
fn keeps_the_contract() {
    for seed in 0..10 {
        for effect in [EffectPoint::Half, EffectPoint::HalfOfPut, EffectPoint::End] {
            assert_eq!(violations(PROFILE, effect, seed), [], "without appends, effect {effect:?}, seed {seed}");
            let profile = format!("{PROFILE}{APPEND}");
            assert_eq!(violations(&profile, effect, seed), [], "with appends, effect {effect:?}, seed {seed}");
        }
    }
}
