//! Every protocol in every scenario of `experiments/faults`: fixed seeds, and fresh ones that change with every run.

use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use glidepath_check::{Protocol, Scenario, Trial, explore};

const SCENARIOS: [&str; 4] = ["storm", "repeats", "sleepers", "crowd"];

fn scenario(name: &str) -> Scenario {
    let path = format!("{}/../../experiments/faults/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn hold(first: u64, count: u64) {
    for protocol in Protocol::ALL {
        for name in SCENARIOS {
            let trial = Trial::new(protocol, &scenario(name));
            let explored = explore(&trial, (first, count), 2, &AtomicBool::new(false), |_| {});
            println!(
                "{} {name}: {} seeds from {first}, {} attempts, {} committed, {} open, {} faults",
                protocol.name(),
                explored.seeds,
                explored.attempts,
                explored.committed,
                explored.open,
                explored.faults
            );
            if let Some(found) = explored.found {
                let replay = format!("glidepath check {} --scenario {name} --seed {}", protocol.name(), found.seed);
                panic!("{replay}\n{}\n{}", found.violation, trial.trace(found.seed));
            }
            assert!(explored.committed > explored.attempts / 20, "too little gets through to show anything");
            assert!(explored.faults > count, "too few faults to show anything");
        }
    }
}

#[test]
fn fixed_seeds_hold() {
    hold(1, 150);
}

#[test]
fn fresh_seeds_hold() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    hold(since.as_nanos() as u64 | 1 << 40, 50);
}

#[test]
fn a_seed_is_a_replay() {
    for protocol in Protocol::ALL {
        let trial = Trial::new(protocol, &scenario("storm"));
        assert_eq!(trial.check(5), trial.check(5));
        assert_eq!(trial.trace(5), trial.trace(5));
        assert_ne!(trial.trace(5), trial.trace(6));
    }
}
