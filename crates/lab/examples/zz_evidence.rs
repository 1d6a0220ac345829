//! Scratch.
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::{Metrics, simulate};
use glidepath_sim::Mode;
use std::thread;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // name seeds settings...
    let first: u64 = args[0].parse().unwrap();
    let seeds: u64 = args[1].parse().unwrap();
    let settings = args[2..].iter().map(|s| Setting::parse(s).unwrap()).collect();
    let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap();
    let point = &experiment.points[0].point;
    let runs: Vec<Metrics> = thread::scope(|s| {
        let hs: Vec<_> = (0..2).map(|k| s.spawn(move || (first..first + seeds).filter(|n| n % 2 == k).map(|seed| Metrics::of(point, &simulate(point, seed, Mode::LocalClocks))).collect::<Vec<_>>())).collect();
        hs.into_iter().flat_map(|h| h.join().unwrap()).collect()
    });
    let events: u64 = runs.iter().map(|m| m.events).sum();
    print!("{} events {:.1}M ", args[2..].join(" "), events as f64 / 1e6);
    for of in [|m: &Metrics| Some(m.all.clone()), |m: &Metrics| m.validated_overwrite.clone()] {
        let g: Vec<_> = runs.iter().filter_map(of).collect();
        if g.is_empty() { continue; }
        let stat = |v: Vec<f64>| { let n = v.len() as f64; let m = v.iter().sum::<f64>() / n; let s = (v.iter().map(|x| (x - m).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt(); (m, s) };
        let (s, se) = stat(g.iter().filter_map(|g| g.success()).map(|x| x * 100.0).collect());
        let (x, xe) = stat(g.iter().map(|g| g.throughput_per_s).collect());
        let (a, _) = stat(g.iter().map(|g| g.arrived_per_s()).collect());
        let (p, pe) = stat(g.iter().filter_map(|g| g.latency.map(|l| l.p99_s)).collect());
        let (n, _) = stat(g.iter().filter_map(|g| g.not_ended()).map(|x| x * 100.0).collect());
        print!("| S {s:.2}±{se:.2} X {x:.3}±{xe:.3} of {a:.3} P99 {p:.2}±{pe:.2} ne {n:.3} ");
    }
    println!();
}
