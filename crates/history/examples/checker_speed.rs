//! Measures how many operations per second are recorded and checked: `cargo run --release -p glidepath-history
//! --example checker_speed`
//!
//! The histories are correct and resemble simulated runs with faults: writers that load, read a table, and commit to
//! it. One of ten commits is of unknown outcome, and half of those took effect.

#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::hint::black_box;
use std::time::{Duration, Instant as Stopwatch};

use glidepath_history::{
    Chain, Change, Edit, Effect, Ending, Expected, History, Item, Placement, ProcessId, Reported, Seen, State,
    Violation, check, linearizable,
};
use glidepath_model::{CommitId, Instant, Version};

/// One size of history, and how often it is recorded and checked.
struct Size {
    name: &'static str,
    commits: u64,
    tables: u64,
    writers: u64,
    rounds: u64,
}

const SIZES: [Size; 4] = [
    Size { name: "one seed: 300 commits, 3 tables", commits: 300, tables: 3, writers: 12, rounds: 2000 },
    Size { name: "one table: 2,000 commits", commits: 2000, tables: 1, writers: 20, rounds: 300 },
    Size { name: "large: 200,000 commits, 100 tables", commits: 200_000, tables: 100, writers: 200, rounds: 3 },
    Size { name: "large: 200,000 commits, 1 table", commits: 200_000, tables: 1, writers: 200, rounds: 3 },
];

fn main() -> Result<(), Violation> {
    println!("operations (commits and loads) per second, one core");
    println!("{:<36} {:>12} {:>12} {:>14} {:>12}", "history", "recorded", "chain checks", "linearizable", "all checks");
    for size in &SIZES {
        let (mut recording, mut placing, mut ordering, mut all, mut operations) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
        for round in 0..size.rounds {
            let script = script(size, round + 1);
            let from = Stopwatch::now();
            let (history, chain) = record(&script);
            recording += from.elapsed();
            operations += history.len();

            let from = Stopwatch::now();
            let placement = Placement::new(&history, &chain)?;
            placement.expectations()?;
            placement.order()?;
            placement.loads()?;
            placing += from.elapsed();

            let from = Stopwatch::now();
            linearizable(&history, chain.initial())?;
            ordering += from.elapsed();

            let from = Stopwatch::now();
            check(black_box(&history), black_box(&chain))?;
            all += from.elapsed();
        }
        let rate = |time: Duration| operations as f64 / time.as_secs_f64() / 1e6;
        println!(
            "{:<36} {:>10.2} M {:>10.2} M {:>12.2} M {:>10.2} M",
            size.name,
            rate(recording),
            rate(placing),
            rate(ordering),
            rate(all)
        );
    }
    Ok(())
}

/// One commit with the load before it.
struct Step {
    writer: u32,
    load: [u64; 2],
    commit: [u64; 2],
    table: Item,
    version: Version,
    seen: State,
    id: CommitId,
    ending: Ending,
    happened: bool,
}

fn script(size: &Size, seed: u64) -> Vec<Step> {
    let mut luck = seed;
    let mut next = move |below: u64| {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (luck >> 33) % below
    };
    let mut states: Vec<State> = vec![None; size.tables as usize];
    let mut version = Version(0);
    let step = |n: u64| {
        let table = next(size.tables);
        // Loads read one version and commits make the next, one step after the other; the operations overlap.
        let effect = 1000 * (n + 1);
        let reach = 400 * size.writers;
        let load = [effect.saturating_sub(reach + next(1000)), effect - 300 + next(100)];
        let commit = [load[1] + next(100), effect + next(reach)];
        let (seen, id, before) = (states[table as usize], CommitId(n + 1), version);
        let luck = next(20);
        let (happened, told) = (luck > 0, luck > 1);
        if happened {
            version = version.next();
            states[table as usize] = Some(id);
        }
        let ending = if told { Ending::Committed(Reported::At(version)) } else { Ending::Unknown };
        Step { writer: n as u32, load, commit, table: Item(table), version: before, seen, id, ending, happened }
    };
    (0..size.commits).map(step).collect()
}

fn record(script: &[Step]) -> (History, Chain) {
    let (mut history, mut chain) = (History::new(), Chain::starting_at(Version(0), []));
    let at = Instant::from_nanos;
    for step in script {
        let process = ProcessId(step.writer);
        let load = history.begin_load(process, at(step.load[0]));
        history.end_load(load, at(step.load[1]), step.version, [Seen { item: step.table, state: step.seen }]);
        let edit = Edit { item: step.table, expected: Expected::seen(step.seen), effect: Effect::Put(step.id) };
        let commit = history.begin_commit(process, at(step.commit[0]), step.id, [edit]);
        history.end_commit(commit, at(step.commit[1]), step.ending);
        if step.happened {
            chain.begin_version(step.version.next());
            chain.push(step.id, [Change { item: step.table, now: Some(step.id) }]);
        }
    }
    (history, chain)
}
