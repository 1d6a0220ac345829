//! scratch
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::knee::*;
use std::num::NonZeroUsize;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let events: u64 = args[0].parse().unwrap();
    let settings = args[1..].iter().map(|s| Setting::parse(s).unwrap()).collect();
    let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap();
    let point = &experiment.points[0].point;
    let within = std::env::var("WITHIN").map_or(0.03, |w| w.parse().unwrap());
    let options = KneeOptions { events, within, threads: NonZeroUsize::new(2).unwrap(), ..KneeOptions::default() };
    let most = std::sync::atomic::AtomicU64::new(0);
    let began = std::time::Instant::now();
    let answer = answer(point, &options, None, &|p| { most.fetch_max(p.events, std::sync::atomic::Ordering::Relaxed); });
    println!("spent {} of {events} in {:.1} s", most.into_inner(), began.elapsed().as_secs_f64());
    match answer {
        Err(error) => println!("{error}"),
        Ok(answer) => {
            let k = answer.knee;
            println!("{:?} {:.3} {:?} res {:?} load/s {:.3} success {:.4} n {} runs {} x {} s; knee events {}\n {:?}", k.bound, k.knee_commits_per_s, k.knee_interval_commits_per_s, k.resolution, k.offered_per_s, k.success, k.deciding_transactions, k.runs, k.run_duration_s, k.events, k.stopped);
            for r in answer.bottleneck.unwrap().reliefs { println!("  {:?} {:.2} {:?}", r.resource, r.factor, r.factor_interval); }
        }
    }
}
