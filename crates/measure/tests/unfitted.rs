//! A profile is fitted with 1, 2, 4, 8 and 16 writers. With other numbers of writers, too, the described store behaves
//! as the measured one.
//!
//! Tolerances: medians of successes 10 %; failure rates 4 points beyond three standard errors of what is compared (five
//! trials of five seconds are no more precise: if a request may take 45 s, a failure rate has a standard error of two
//! to four points), and 8 on GCS, where the trials have a hundred successes with 16 writers.

use std::sync::atomic::AtomicBool;

use glidepath_measure::{
    FailureRate, Fitted, Measurement, Numbers, Operation, Plan, Provenance, SimulatedSite, profile, run,
};
use glidepath_model::ByteSize;
use glidepath_sim::Profile;

fn measure(store: &Profile, plan: &Plan, seed: u64) -> Vec<Measurement> {
    let mut site = SimulatedSite::new(store.clone(), seed);
    let done = run(&mut site, plan, &AtomicBool::new(false), |_, _| {}).expect("a simulated store does not fail");
    Measurement::of(&done.trials)
}

fn compare(name: &str) {
    let path = format!("{}/../../profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let store = Profile::parse(&text).expect("a library profile parses");
    let live = Plan { operations: vec![Operation::Cas], sizes: vec![ByteSize::from_bytes(1 << 10)], ..Plan::full() };
    let [sim, machine, date, program] = ["sim", "a test", "2026-11-22", "glidepath"].map(str::to_owned);
    let provenance = Provenance { store: sim, machine, date, program };
    let measured = measure(&store, &live, 11);
    let from = (&provenance, store.latency_includes_read);
    let fitted = profile(&Fitted::all(&measured), from, &live, &AtomicBool::new(false), &|_, _| ());
    let fitted = fitted.expect("cas was measured");
    let others = Plan { writers: vec![3, 6, 12], trials: 40, sizes: Vec::new(), ..live };
    let points = if name == "gcs-2025-06" { 0.08 } else { 0.04 };
    for (was, is) in measure(&store, &others, 12).iter().zip(&measure(&fitted, &others, 13)) {
        let [a, b] = [was, is].map(FailureRate::of);
        let chance = 3.0 * a.error.hypot(b.error);
        let [p, q] = [was, is].map(|found| Numbers::of(&found.success_ms).expect("some succeed").median);
        println!(
            "{name}, {} writers: {:.1} % fail, fitted {:.1}; median {p:.1} ms, fitted {q:.1}",
            was.writers,
            100.0 * a.rate,
            100.0 * b.rate
        );
        assert!((a.rate - b.rate).abs() <= points + chance, "{name}, {} writers: {a:?} {b:?}", was.writers);
        assert!((q / p - 1.0).abs() <= 0.10, "{name}, {} writers: median {p} ms, fitted {q}", was.writers);
    }
}

#[test]
fn flat_stores_come_back_with_writer_counts_that_were_not_fitted() {
    ["s3-standard", "s3-express", "azure-standard", "azure-premium", "gcs"].into_iter().for_each(compare);
}

#[test]
fn stores_under_contention_come_back_with_writer_counts_that_were_not_fitted() {
    let names =
        ["s3-standard-2025-06", "s3-express-2025-06", "azure-standard-2025-06", "azure-premium-2025-06", "gcs-2025-06"];
    names.into_iter().for_each(compare);
}
