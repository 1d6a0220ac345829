//! How fast is the engine? `cargo bench -p glidepath-lab` prints processor time, events and memory per simulated hour.
//!
//! It measures processor time, not wall time, because that varies less on a shared machine. `scripts/instructions`
//! counts the instructions of one case (`-- --case NAME`), which is exactly repeatable.

use glidepath_lab::Metrics;
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_point::simulate;
use glidepath_sim::Mode;
use rustix::time::{ClockId, clock_gettime};

/// A point of a published experiment.
struct Case {
    name: &'static str,
    preset: &'static str,
    settings: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case { name: "1a-20ms", preset: "published-2026-06", settings: &["catalog.latency=1ms", "arrivals.scale=20ms"] },
    Case { name: "1a-100ms", preset: "published-2026-06", settings: &["catalog.latency=1ms", "arrivals.scale=100ms"] },
    Case {
        name: "s3-express-50-tables-20ms",
        preset: "published-2026-06",
        settings: &["provider=s3-express", "arrivals.scale=20ms", "tables.count=50"],
    },
    Case {
        name: "s3-express-half-overwrites-20ms",
        preset: "published-2026-06",
        settings: &["provider=s3-express", "arrivals.scale=20ms", "transaction.fast_append=0.5"],
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --all-targets` starts this too: then it does nothing.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let wanted = arguments.iter().position(|argument| argument == "--case").and_then(|at| arguments.get(at + 1));
    println!("{:34} {:>9} {:>10} {:>10} {:>9} {:>9}", "case", "CPU s/h", "events", "ns/event", "alive", "peak MB");
    for case in CASES.iter().filter(|case| wanted.is_none_or(|wanted| wanted == case.name)) {
        run(case, if wanted.is_some() { 1 } else { 5 });
    }
}

/// Prints the median over seeds.
fn run(case: &Case, seeds: u64) {
    let setting = |assignment: &&str| Setting::parse(assignment).unwrap_or_else(|error| panic!("{error}"));
    let overrides = Overrides { settings: case.settings.iter().map(setting).collect(), ..Overrides::default() };
    let experiment = Experiment::of_preset(case.preset, &overrides).unwrap_or_else(|error| panic!("{error}"));
    let point = &experiment.points[0].point;
    let mut runs: Vec<(f64, Metrics)> = (1..=seeds)
        .map(|seed| {
            let began = processor_seconds();
            let outcome = simulate(point, seed, Mode::LocalClocks);
            (processor_seconds() - began, Metrics::of(point, &outcome))
        })
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, metrics) = &runs[runs.len() / 2];
    let per_event = seconds * 1e9 / metrics.events as f64;
    let (name, events, alive) = (case.name, metrics.events, metrics.most_alive);
    println!("{name:34} {seconds:9.3} {events:10} {per_event:10.0} {alive:9} {:9.0}", peak_megabytes());
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The peak memory of this process so far, if the system reports it.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1000.0)
}
