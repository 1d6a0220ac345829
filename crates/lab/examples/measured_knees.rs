//! What do measured profiles change in the knees? Finds the knee of each store with its flat and its measured profile,
//! and with one thing changed at a time. Prints both tables for `docs/measured-profiles.md`.
//!
//! ```sh
//! cargo run --release -p glidepath-lab --example measured_knees
//! ```

use std::error::Error;
use std::num::NonZeroUsize;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::knee::{Answer, Bottleneck, Knee, KneeOptions, Resource, answer, find};
use glidepath_model::Span;
use glidepath_point::Point;
use glidepath_sim::{EffectPoint, Profile};

const STORES: [&str; 5] = ["s3-standard", "s3-express", "azure-standard", "azure-premium", "gcs"];

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let options = KneeOptions { threads, ..KneeOptions::default() };
    beside_each_other(&options)?;
    println!();
    one_thing_at_a_time(&options)
}

fn point(provider: &str, tables: u32, share: &str) -> Result<Point, Box<dyn Error>> {
    let settings =
        [format!("provider={provider}"), format!("transaction.fast_append={share}"), format!("tables.count={tables}")];
    let settings = settings.iter().map(|setting| Setting::parse(setting)).collect::<Result<_, _>>()?;
    let mut experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() })?;
    Ok(experiment.points.remove(0).point)
}

fn beside_each_other(options: &KneeOptions) -> Result<(), Box<dyn Error>> {
    println!(
        "| store | tables | fast appends | flat | measured | | flat: P50 / P95 (s) | measured: P50 / P95 (s) | binds |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|---|");
    for store in STORES {
        for tables in [1, 10] {
            for share in ["1.0", "0.9"] {
                let ask = |provider: &str| -> Result<Answer, Box<dyn Error>> {
                    Ok(answer(&point(provider, tables, share)?, options, None, &|_| ())?)
                };
                let (flat, measured) = (ask(store)?, ask(&format!("{store}-2025-06"))?);
                let ratio = measured.knee.knee_commits_per_s / flat.knee.knee_commits_per_s;
                let [flat_binds, measured_binds] = [&flat, &measured].map(binds);
                let binds = match flat_binds == measured_binds {
                    true => flat_binds,
                    false => format!("{flat_binds}, then {measured_binds}"),
                };
                println!(
                    "| {store} | {tables} | {share} | {} | {} | {} | {} | {} | {binds} |",
                    with_interval(&flat.knee),
                    with_interval(&measured.knee),
                    signed(ratio),
                    latencies(&flat.knee),
                    latencies(&measured.knee),
                );
            }
        }
    }
    Ok(())
}

fn with_interval(knee: &Knee) -> String {
    let interval = knee.knee_interval_commits_per_s.map(|[low, high]| format!(" ({low:.2} to {high:.2})"));
    format!("{:.2}{}", knee.knee_commits_per_s, interval.unwrap_or_default())
}

fn signed(ratio: f64) -> String {
    let percent = (100.0 * (ratio - 1.0)).round();
    if percent == 0.0 { "0 %".to_owned() } else { format!("{percent:+.0} %") }
}

fn latencies(knee: &Knee) -> String {
    let seconds = |value: Option<f64>| match value {
        None => "-".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    };
    format!("{} / {}", seconds(knee.all.latency_p50_s), seconds(knee.all.latency_p95_s))
}

fn binds(answer: &Answer) -> String {
    let words = match answer.bottleneck.as_ref().and_then(|bottleneck| bottleneck.binds) {
        Some(Resource::Catalog) => "catalog",
        Some(Resource::TableMetadata) => "table",
        Some(Resource::History) => "history",
        Some(Resource::RealConflicts) => "real conflicts",
        Some(Resource::Retries) => "retries",
        None if answer.knee.bound.is_lower() => "not known",
        None if answer.bottleneck.as_ref().is_some_and(Bottleneck::is_open) => "not decided",
        None => "nothing alone",
    };
    words.to_owned()
}

/// Ten tables, fast appends only.
fn one_thing_at_a_time(options: &KneeOptions) -> Result<(), Box<dyn Error>> {
    println!("| store | flat, at the end | flat | measured | no hold | failures as successes |");
    println!("|---|--:|--:|--:|--:|--:|");
    for store in STORES {
        let (flat, measured) = (point(store, 10, "1.0")?, point(&format!("{store}-2025-06"), 10, "1.0")?);
        let mut at_the_end = flat.clone();
        at_the_end.config.catalog.effect = EffectPoint::End;
        let changed = |change: fn(&mut Profile)| {
            let mut point = measured.clone();
            change(&mut point.profile);
            point
        };
        let no_hold = changed(|profile| {
            profile.conditional_put.contended.iter_mut().for_each(|measured| measured.hold = Span::ZERO);
        });
        let as_successes = changed(|profile| {
            let each = profile.conditional_put.contended.iter_mut();
            each.for_each(|measured| measured.failure = measured.failure.as_ref().map(|_| measured.success.clone()));
        });
        let mut row = format!("| {store} |");
        for point in [&at_the_end, &flat, &measured, &no_hold, &as_successes] {
            row += &format!(" {} |", with_interval(&find(point, options, &|_| ())?));
        }
        println!("{row}");
    }
    Ok(())
}
