//! A store is measured with the defaults of `glidepath measure`, and the knee is searched on the measured profile: it
//! is within 5 % of the true one, or its interval contains the true one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/remeasure.rs"]
mod remeasure;

use glidepath_lab::knee::find;
use glidepath_lab::library::{Shelf, profile};
use glidepath_measure::{Operation, Plan};
use remeasure::{Remeasured, options, point};

/// The work of a few seconds on two processors.
const EVENTS: u64 = 6_000_000;

/// Without operations that do not affect the knee: catalog files are neither created nor appended to.
fn live() -> Plan {
    Plan { operations: vec![Operation::Cas], ..Plan::full() }
}

#[test]
fn a_knee_survives_being_measured() {
    for name in Shelf::Providers.names() {
        let store = profile(name).unwrap();
        if store.catalogs_only {
            continue;
        }
        let truth = find(&point(&store), &options(EVENTS), &|_| ()).unwrap().knee_commits_per_s;
        let measured = Remeasured::new(&store, live(), 1);
        let knee = find(&point(&measured.profile), &options(EVENTS), &|_| ()).unwrap().knee_commits_per_s;
        let off = knee / truth - 1.0;
        println!("{name}: {knee:.2} for {truth:.2} ({:+.1} %)", 100.0 * off);
        if off.abs() > 0.05 {
            let (_, sure) = measured.knee(&options(EVENTS));
            let [low, high] = sure.interval_commits_per_s;
            println!("    {low:.2} to {high:.2}: {:?}", sure.made_of);
            assert!((low..=high).contains(&truth), "{name}: {truth:.2} is not in {low:.2} to {high:.2}");
        }
    }
}

/// Short measurements of one store, whose knees scatter: `cargo run --release -p glidepath-cli --example
/// measured_coverage` is the long form, with the figures of docs/measure.md.
#[test]
fn intervals_hold_the_true_knee() {
    let store = profile("s3-standard-2025-06").unwrap();
    let truth = find(&point(&store), &options(EVENTS), &|_| ()).unwrap().knee_commits_per_s;
    let plan = Plan { writers: vec![1, 2, 4], trials: 4, ..live() };
    let holds = |seed: &u64| {
        let (knee, sure) = Remeasured::new(&store, plan.clone(), *seed).knee(&options(EVENTS));
        let [low, high] = sure.interval_commits_per_s;
        println!("{:.2}, {low:.2} to {high:.2}, for {truth:.2}: {:?}", knee.knee_commits_per_s, sure.made_of);
        // An interval must not be so wide that it is useless.
        assert!(high / low < 2.0, "{low:.2} to {high:.2}");
        (low..=high).contains(&truth)
    };
    let held = (1..=5).filter(holds).count();
    assert!(held >= 4, "{held} of 5 intervals hold {truth:.2}");
}

#[test]
fn the_same_measurement_gives_the_same_alternatives_and_they_fit_a_small_file() {
    let store = profile("azure-premium-2025-06").unwrap();
    let plan = Plan { writers: vec![1, 4], ..live() };
    let [one, two] = [1, 1].map(|seed| {
        let measured = Remeasured::new(&store, plan.clone(), seed);
        (measured.alternatives().text().unwrap(), measured.profile)
    });
    assert!(one.0 == two.0, "not the same");
    assert!(one.0.len() < 100_000, "{} bytes", one.0.len());
    let read = glidepath_sim::Alternatives::parse(&one.0, &one.1).unwrap();
    assert_eq!(read.sampling.len() as u64, glidepath_measure::DRAWN);
    let holds = |alternative: &glidepath_sim::Alternative| alternative.conditional_put.contended[1].hold;
    assert!(read.sampling.iter().any(|one| holds(one) != holds(&read.sampling[0])), "all alike");
    // With a later effect time, a shorter hold gives the measured failure rate.
    let (early, late) = (read.earliest.unwrap(), read.latest.unwrap());
    assert!(holds(&late) < holds(&early), "{} {}", holds(&late), holds(&early));
    let share = |alternative: &glidepath_sim::Alternative| alternative.conditional_put.effect_share;
    assert!(share(&early) == Some(0.0) && share(&late) > Some(0.1), "{:?}", share(&late));
}
