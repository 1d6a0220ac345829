//! Are the figures of a run consistent? Random small configurations, each counted a second time from its transactions.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::{Group, Metrics};
use glidepath_point::{Point, SimulatedRun, simulate};
use glidepath_sim::Mode;
use glidepath_workload::{End, Kind, Record};
use proptest::prelude::*;

fn point(settings: &[String]) -> Point {
    let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
    let overrides = Overrides { settings, ..Overrides::default() };
    Experiment::of_preset("iceberg", &overrides).unwrap().points.remove(0).point
}

fn settings() -> impl Strategy<Value = Vec<String>> {
    let providers = prop::sample::select(vec!["s3-express", "s3-standard", "azure-premium-2025-06", "gcs-2025-06"]);
    let protocols = prop::sample::select(vec!["catalog-file", "manifest-chain"]);
    let shares = prop::sample::select(vec![0.0, 0.5, 1.0]);
    (providers, protocols, shares, (1_u32..4, 0_u32..4, 50_u64..800), prop::bool::ANY).prop_map(
        |(provider, protocol, share, (tables, retries, between), bursts)| {
            let mut all = vec![
                format!("provider={provider}"),
                format!("catalog.protocol={protocol}"),
                format!("transaction.fast_append={share}"),
                format!("tables.count={tables}"),
                format!("retry.retries={retries}"),
                format!("arrivals.scale={between}ms"),
                "transaction.runtime={kind=\"exponential\",scale=\"3s\"}".to_owned(),
                "transaction.real_conflicts=0.1".to_owned(),
                "duration=3min".to_owned(),
            ];
            all.extend(bursts.then(|| "arrivals.burst={every=\"30s\",lasts=\"5s\",factor=4.0}".to_owned()));
            all
        },
    )
}

/// Every attempt has one end.
fn attempts_add_up(record: &Record) -> bool {
    let lost = record.catalog_conflicts + record.table_conflicts + record.unseen_conflicts + record.refused;
    let ended = u32::from(matches!(record.end, End::Committed | End::Unknown));
    record.attempts == lost + ended && record.attempts >= record.retries
}

/// No part of the time to commit is longer than the whole.
fn times_add_up(record: &Record) -> bool {
    let spent = record.spent;
    let parts = [spent.catalog_reads, spent.prepare, spent.conflict_reads, spent.install, spent.backoff];
    let sum: f64 = parts.iter().map(|part| part.as_secs_f64()).sum();
    sum <= record.ended.since(record.work_done).as_secs_f64() + 1e-9
}

fn count(group: &Group, outcome: &SimulatedRun, duration_s: f64, kind: Option<Kind>) -> Result<(), TestCaseError> {
    let of_kind = |other: Kind| kind.is_none_or(|kind| kind == other);
    let window = (duration_s * 0.25)..(duration_s * 0.75);
    let records: Vec<&Record> = outcome.records.iter().filter(|record| of_kind(record.kind)).collect();
    let inside: Vec<&&Record> =
        records.iter().filter(|record| window.contains(&record.arrived.as_secs_f64())).collect();
    let committed = |record: &&&&Record| record.end == End::Committed;
    let sum = |of: fn(&Record) -> u32| records.iter().map(|record| u64::from(of(record))).sum::<u64>();
    prop_assert_eq!(group.run_ended, records.len() as u64);
    prop_assert_eq!(group.window_ended, inside.len() as u64);
    prop_assert_eq!(group.window_committed, inside.iter().filter(committed).count() as u64);
    prop_assert_eq!(group.attempts, sum(|record| record.attempts));
    prop_assert_eq!(group.catalog_conflicts, sum(|record| record.catalog_conflicts));
    prop_assert_eq!(group.table_conflicts, sum(|record| record.table_conflicts));
    prop_assert_eq!(group.unseen_conflicts, sum(|record| record.unseen_conflicts));
    prop_assert_eq!(group.refused, sum(|record| record.refused));
    let arrived = outcome.arrivals.iter().filter(|(at, kind)| of_kind(*kind) && window.contains(&at.as_secs_f64()));
    prop_assert_eq!(group.window_arrived, arrived.count() as u64);
    prop_assert!(group.window_committed <= group.window_ended && group.window_ended <= group.window_arrived);
    prop_assert!(group.burst_committed <= group.burst_ended && group.burst_ended <= group.window_ended);
    // Commits count when they land; if the run does not continue, those of transactions that arrived in the window
    // count.
    let lands = |record: &&&Record| record.end == End::Committed && window.contains(&record.ended.as_secs_f64());
    let landed = records.iter().filter(lands).count() as u64;
    prop_assert_eq!(group.window_landed, landed);
    let commits = if group.counts_landed { landed } else { group.window_committed };
    prop_assert!((group.throughput_per_s * group.window_s - commits as f64).abs() < 1e-6);
    if let Some(latency) = group.latency {
        prop_assert!(latency.p50_s <= latency.p95_s && latency.p95_s <= latency.p99_s);
        let mean = inside.iter().filter(committed).map(|record| record.commit_latency().as_secs_f64()).sum::<f64>();
        prop_assert!((latency.mean_s * group.window_committed as f64 - mean).abs() < 1e-6);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_figures_of_a_run_are_those_of_its_transactions(settings in settings(), seed in 1_u64..1000) {
        let point = point(&settings);
        let outcome = simulate(&point, seed, Mode::LocalClocks);
        for record in &outcome.records {
            prop_assert!(attempts_add_up(record), "{:?}", record);
            prop_assert!(times_add_up(record), "{:?}", record);
        }
        let (metrics, duration_s) = (Metrics::of(&point, &outcome), point.config.duration.as_secs_f64());
        count(&metrics.all, &outcome, duration_s, None)?;
        for (group, kind) in
            [(&metrics.fast_append, Kind::FastAppend), (&metrics.validated_overwrite, Kind::ValidatedOverwrite)]
        {
            if let Some(group) = group {
                count(group, &outcome, duration_s, Some(kind))?;
            }
        }
        let ranks = metrics.ranks.iter().map(|rank| rank.unseen_conflicts + rank.catalog_conflicts + rank.table_conflicts);
        let all = metrics.all.unseen_conflicts + metrics.all.catalog_conflicts + metrics.all.table_conflicts;
        prop_assert_eq!(ranks.sum::<u64>(), all);
    }
}
