//! Does the simulated server do what a server does, and the same each time?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_model::Span;
use glidepath_protocols::registry::Protocol;
use glidepath_sim::Profile;

use glidepath_bench::served::predicted::{Costs, Prediction, World, predicted};
use glidepath_bench::served::{Cell, Workload};

fn world() -> World {
    let profile = Profile::constant(Span::from_millis(1));
    World { added_latency: Span::from_millis(30), ..World::of(Protocol::ManifestChain, profile, Costs::measured()) }
}

fn cell(workload: Workload, connections: u32) -> Cell {
    Cell { workload, connections, overwrites: 1, duration: Span::from_secs(2) }
}

fn run(workload: Workload, connections: u32) -> Prediction {
    predicted(&cell(workload, connections), &world(), 1).unwrap()
}

fn rate(prediction: &Prediction) -> f64 {
    prediction.outcome.operations.figures(prediction.outcome.took_ns).per_s
}

#[test]
fn the_same_seed_gives_the_same_prediction() {
    for workload in [Workload::Own, Workload::Hot, Workload::Fair] {
        let once = run(workload, 4);
        assert!(!once.outcome.operations.latencies_ns.is_empty());
        assert_eq!(format!("{once:?}"), format!("{:?}", run(workload, 4)));
    }
    let of_store = World { profile: Profile { get: noisy(), ..Profile::constant(Span::from_millis(1)) }, ..world() };
    let seeded = |seed| predicted(&cell(Workload::Hot, 4), &of_store, seed).unwrap();
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
}

fn noisy() -> glidepath_sim::OperationProfile {
    glidepath_sim::OperationProfile { sigma: 0.5, ..Profile::constant(Span::from_millis(1)).get }
}

#[test]
fn connections_share_the_latency_of_the_store() {
    let (get, put, conditional_put) = (noisy(), noisy(), noisy());
    let noisy = World { profile: Profile { get, put, conditional_put, ..world().profile }, ..world() };
    let run = |workload, connections| predicted(&cell(workload, connections), &noisy, 1).unwrap();
    for workload in [Workload::Own, Workload::Hot] {
        let (one, many) = (run(workload, 1), run(workload, 64));
        assert!(rate(&many) > 10.0 * rate(&one), "{workload:?}: {} and {}", rate(&one), rate(&many));
    }
    // Where each read takes exactly as long as a commit, searches for the newest version find another one at each step.
    for workload in [Workload::Own, Workload::Hot] {
        let constant = predicted(&cell(workload, 64), &world(), 1).unwrap();
        println!("{workload:?}: {}", rate(&constant));
        assert!(rate(&constant) > 2.0 * rate(&run(workload, 1)), "{workload:?}: {}", rate(&constant));
    }
}

#[test]
fn appends_to_one_table_do_not_conflict_and_are_all_there() {
    let prediction = run(Workload::Hot, 16);
    let checked = prediction.outcome.checked.clone().unwrap();
    assert_eq!(prediction.outcome.operations.conflicts, 0, "{:?}", prediction.outcome.operations.errors);
    // One was there before.
    assert_eq!(checked.acknowledged, 1 + prediction.outcome.operations.latencies_ns.len() as u64);
    assert!(!checked.is_wrong() && checked.acknowledged > 0, "{checked:?}");
    assert!(prediction.rebased > 0 && 4 * prediction.versions < checked.acknowledged, "{prediction:?}");
}

/// Three servers that get the requests in turn: one that was overtaken gets a turn, so nobody waits for ever.
#[test]
fn servers_take_turns_at_one_table() {
    for protocol in [Protocol::ManifestChain, Protocol::Tickets] {
        let three = World { servers: 3, protocol, ..world() };
        let prediction =
            predicted(&Cell { duration: Span::from_secs(20), ..cell(Workload::Hot, 48) }, &three, 1).unwrap();
        let (checked, operations) = (prediction.outcome.checked.clone().unwrap(), &prediction.outcome.operations);
        assert!(!checked.is_wrong() && operations.conflicts == 0 && operations.busy == 0, "{:?}", operations.errors);
        let longest = operations.latencies_ns.iter().max().copied().unwrap_or_default();
        println!("{protocol:?}: {}/s, at most {} ms", rate(&prediction), longest / 1_000_000);
        assert!(longest < 5_000_000_000, "{protocol:?}: {longest} ns");
    }
}

#[test]
fn latency_of_the_store_is_paid_by_each_commit() {
    let slow = World { added_latency: Span::from_millis(60), ..world() };
    let (fast, slow) = (run(Workload::Own, 1), predicted(&cell(Workload::Own, 1), &slow, 1).unwrap());
    let ratio = rate(&fast) / rate(&slow);
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

#[test]
fn loads_are_limited_by_the_processors() {
    let costs = |processors| Costs { processors, server_request: Span::from_millis(20), ..world().costs };
    let with = |processors| World { costs: costs(processors), added_latency: Span::ZERO, ..world() };
    let rate = |processors| rate(&predicted(&cell(Workload::Load, 16), &with(processors), 1).unwrap());
    let (one, two) = (rate(1), rate(2));
    assert!((1.9..2.1).contains(&(two / one)), "{one}, {two}");
}

#[test]
fn a_hold_lets_overwrites_land_and_appends_wait() {
    let of = |priority| {
        let world = World { priority: Span::from_millis(priority), validation: Span::from_millis(500), ..world() };
        let cell = Cell { duration: Span::from_secs(20), ..cell(Workload::Fair, 8) };
        predicted(&cell, &world, 1).unwrap()
    };
    let landed = |prediction: &Prediction| prediction.outcome.overwrites.as_ref().map(|all| all.latencies_ns.len());
    let (without, with) = (of(0), of(3000));
    assert!(landed(&without) <= Some(1) && without.holds == (0, 0), "{:?}", without.outcome.overwrites);
    assert!(landed(&with) > Some(3) && with.holds.1 > 3, "{:?}", with.outcome.overwrites);
    assert!(rate(&with) < rate(&without), "{} and {}", rate(&with), rate(&without));
}

#[test]
fn costs_are_read_and_checked() {
    let costs = Costs::measured();
    assert!(costs.processors > 0 && costs.server_request > Span::ZERO);
    assert!(Costs::parse("processors = 2").unwrap_err().to_string().contains("client_request"));
    let none = toml::to_string(&Costs { processors: 0, ..costs }).unwrap();
    assert!(Costs::parse(&none).unwrap_err().to_string().contains("1 or more"));
}
