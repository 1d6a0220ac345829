//! Does a search stay within its budget, and stop when its interval is narrow enough?

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::tests::{options, point, providers};
use super::*;

/// All events of an answer.
fn spent(point: &Point, options: &KneeOptions, providers: Option<&[Provider]>) -> (u64, Result<Answer, KneeError>) {
    let most = AtomicU64::new(0);
    let watch = |progress: Progress| {
        assert_eq!(progress.budget, options.events);
        most.fetch_max(progress.events, Ordering::Relaxed);
    };
    let answer = answer(point, options, providers, &watch);
    (most.into_inner(), answer)
}

fn setting() -> impl Strategy<Value = Vec<String>> {
    let tables = prop_oneof![Just(1_u32), Just(3), Just(20)];
    let share = prop_oneof![Just(0.0), Just(0.5), Just(0.9), Just(1.0)];
    let retries = prop_oneof![Just(0_u32), Just(4), Just(30), Just(1000)];
    let waits = prop_oneof![
        Just("\"immediate\""),
        Just("{ exponential = { first = \"100ms\", factor = 2.0, longest = \"60s\", jitter = [1.0, 1.1] } }")
    ];
    let burst = prop_oneof![3 => Just(None), 1 => Just(Some("{ every = \"5min\", lasts = \"20s\", factor = 10.0 }"))];
    let provider = prop_oneof![Just("s3-standard"), Just("s3-express"), Just("gcs-2025-06")];
    (tables, share, retries, waits, burst, provider).prop_map(|(tables, share, retries, waits, burst, provider)| {
        let mut settings = vec![
            format!("provider={provider}"),
            format!("tables.count={tables}"),
            format!("transaction.fast_append={share}"),
            format!("retry.retries={retries}"),
            format!("retry.catalog={waits}"),
            format!("retry.table={waits}"),
        ];
        settings.extend(burst.map(|burst| format!("arrivals.burst={burst}")));
        settings
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// The stated margin is a tenth.
    #[test]
    fn no_answer_takes_more_work_than_it_may(settings in setting(), events in 200_000..800_000_u64, sensitivity: bool) {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let options = KneeOptions { events, sensitivity, ..options() };
        let (spent, answer) = spent(&point(&settings), &options, Some(&providers()));
        prop_assert!(spent <= events + events / 10, "{spent} of {events}");
        if let Ok(answer) = answer {
            prop_assert!(spent >= answer.knee.events);
            prop_assert!(answer.knee.success >= 0.95 || answer.knee.bound == Bound::NothingHolds, "{:?}", answer.knee);
        }
    }
}

#[test]
fn a_wide_interval_takes_less_work_than_a_narrow_one() {
    let point = point(&[]);
    let by = |within| find(&point, &KneeOptions { within, events: 8_000_000, ..options() }, &|_| ()).unwrap();
    let (wide, narrow) = (by(0.1), by(0.015));
    for (knee, within) in [(&wide, 0.1), (&narrow, 0.015)] {
        let stopped = knee.stopped.unwrap();
        assert_eq!(stopped.reason, Reason::NarrowEnough, "{stopped:?}");
        assert!(stopped.half_width.unwrap() <= within && stopped.budget_factor.is_none());
    }
    assert!(2 * wide.events < narrow.events, "{} and {}", wide.events, narrow.events);
    let overlap = (wide.knee_commits_per_s / narrow.knee_commits_per_s - 1.0).abs();
    assert!(overlap < 0.13, "{wide:?} {narrow:?}");
}

#[test]
fn a_spent_budget_says_how_much_more_would_do() {
    let point = point(&["transaction.fast_append=0.9"]);
    let by =
        |events| find(&point, &KneeOptions { within: 0.01, tolerance: 0.01, events, ..options() }, &|_| ()).unwrap();
    let stopped = by(1_000_000).stopped.unwrap();
    assert_eq!(stopped.reason, Reason::BudgetSpent, "{stopped:?}");
    let factor = stopped.budget_factor.unwrap();
    assert!((factor.sqrt() - stopped.half_width.unwrap() / 0.01).abs() < 1e-9 && factor > 1.0);
    // Four times the budget makes it about half as wide.
    let more = by(4_000_000).stopped.unwrap();
    let narrower = stopped.half_width.unwrap() / more.half_width.unwrap();
    assert!((1.2..4.0).contains(&narrower), "{narrower}");
}

/// The interval of a knee covers at least the error from its bracket.
#[test]
fn the_interval_contains_what_the_bracket_leaves_open() {
    for events in [100_000, 300_000, 1_000_000] {
        let knee = find(&point(&[]), &KneeOptions { events, ..options() }, &|_| ()).unwrap();
        let (Some([low, high]), Some(resolution)) = (knee.knee_interval_commits_per_s, knee.resolution) else {
            assert!(knee.resolution.is_none() || knee.knee_relative_error.is_none(), "{knee:?}");
            continue;
        };
        let half = (high - low) / 2.0 / knee.knee_commits_per_s;
        assert!(half >= 1.95 * resolution / 12.0_f64.sqrt(), "{half} beside {resolution}");
        assert!((half - knee.stopped.unwrap().half_width.unwrap()).abs() < 1e-9);
    }
}

#[test]
fn assumptions_are_ranked_and_each_is_another() {
    let base = point(&["transaction.fast_append=0.5", "tables.count=2"]);
    for variants in sensitivity::assumptions(&base) {
        for point in variants.points() {
            assert_ne!(*point, base);
        }
    }
    let options = KneeOptions { sensitivity: true, events: 4_000_000, ..options() };
    let (_, answer) = spent(&base, &options, None);
    let ranked = answer.unwrap().sensitivity;
    assert!(ranked.is_sorted_by(|a, b| a.largest_factor >= b.largest_factor));
    let find = |name: &str| ranked.iter().find(|one| one.name.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
    // A slower store gives a lower knee, and a faster one a higher knee.
    let latency = find("latency of the store");
    let (less, more) = (latency.less.as_ref().unwrap(), latency.more.as_ref().unwrap());
    let [faster, slower] = [less, more].map(|varied| varied.factor.value().unwrap());
    assert!(faster > 1.08 && slower < 0.93, "{latency:?}");
    assert!(!less.factor.no_difference_seen() && latency.largest_factor >= faster);
    for name in
        ["mean runtime", "share of fast appends", "skew of tables", "tail of latencies", "size of table metadata"]
    {
        assert!(find(name).less.is_some() || find(name).more.is_some(), "{name}");
    }
    assert!(find("skew of tables").less.is_none(), "uniform has no lower skew");
}

#[test]
fn no_assumption_of_any_store_breaks_its_profile() {
    for name in crate::library::Shelf::Providers.names() {
        if crate::library::profile(name).unwrap().catalogs_only {
            continue;
        }
        let point = point(&[&format!("provider={name}"), "tables.count=2"]);
        let all: Vec<_> = sensitivity::assumptions(&point);
        assert!(all.iter().any(|variants| variants.points().count() == 2), "{name}");
        for varied in all.iter().flat_map(sensitivity::Variants::points) {
            let text = toml::to_string(&varied.profile).unwrap();
            assert_eq!(glidepath_sim::Profile::parse(&text).unwrap(), varied.profile, "{name}");
        }
    }
}

/// The catalog is copied with each attempt: with a thousand tables events take longer, and fewer are allowed.
#[test]
fn many_tables_make_fewer_events() {
    let options = options();
    let events = |tables: &str| weighed(&point(&[tables]), &options).events;
    assert_eq!(events("tables.count=100"), options.events);
    assert!(events("tables.count=1000") < options.events / 2);
    assert!(events("tables.count=10000") < options.events / 13);
}

/// Those that the first estimates left out were of other protocols.
#[test]
fn a_budget_that_would_suffice_counts_other_protocols_more() {
    let point = point(&[]);
    let with = |protocols| {
        let options = KneeOptions { protocols, events: 300_000, ..options() };
        answer(&point, &options, Some(&providers()), &|_| ()).unwrap()
    };
    let (without, with) = (with(false), with(true));
    assert_eq!(without.knee, with.knee);
    let of_protocol =
        change::changes(&point, &providers(), true).iter().filter(|one| one.is_of_protocol(&point)).count();
    assert!(of_protocol > 3, "{of_protocol}");
    let searches = |protocols| enough::for_variants(&point, &with.knee, 2 * of_protocol, protocols);
    let of_another = (searches(of_protocol) - searches(0)) / 4;
    // The databases take the point's own protocol, too.
    let more = with.enough_events.unwrap() - without.enough_events.unwrap_or_default();
    assert!(more >= 5 * of_another, "{more} for {of_protocol} of {of_another}");
}
