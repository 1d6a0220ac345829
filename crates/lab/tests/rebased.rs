//! What do appends gain that go through a server which keeps the tables and puts appends on top of each other?

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_point::simulate;
use glidepath_sim::Mode;
use glidepath_workload::{End, Kind, Record};

const OURS: [&str; 3] = ["catalog.protocol=manifest-chain", "catalog.server=1ms", "tables.appends=rebased"];

fn run(settings: &[&[&str]]) -> Result<Vec<Record>, String> {
    let usual = [
        "duration=5min",
        "run_on=1min",
        "provider=s3-standard",
        "transaction.runtime={ kind = \"fixed\", scale = \"1s\" }",
    ];
    let settings = usual.iter().chain(settings.concat().iter()).map(|one| Setting::parse(one).unwrap()).collect();
    let overrides = Overrides { settings, ..Overrides::default() };
    let experiment = Experiment::of_preset("iceberg", &overrides).map_err(|error| error.to_string())?;
    Ok(simulate(&experiment.points[0].point, 1, Mode::LocalClocks).records)
}

fn committed(records: &[Record], kind: Kind) -> f64 {
    let all = || records.iter().filter(|record| record.kind == kind);
    all().filter(|record| record.end == End::Committed).count() as f64 / all().count() as f64
}

#[test]
fn appends_to_one_table_do_not_conflict() {
    let load = ["arrivals.scale=50ms", "tables.count=1"];
    let behind_a_server = run(&[&load, &["catalog.server=1ms"]]).unwrap();
    assert!(committed(&behind_a_server, Kind::FastAppend) < 0.5);
    let rebased = run(&[&load, &OURS]).unwrap();
    assert!(committed(&rebased, Kind::FastAppend) > 0.999, "{}", committed(&rebased, Kind::FastAppend));
    assert!(rebased.iter().all(|record| record.attempts == 1 && record.table_conflicts == 0));
    assert_eq!(rebased, run(&[&load, &OURS]).unwrap());
}

#[test]
fn every_protocol_can_be_behind_it() {
    for protocol in ["catalog-file", "manifest-chain", "tickets"] {
        let protocol = format!("catalog.protocol={protocol}");
        let load = ["arrivals.scale=100ms", "tables.count=2"];
        let records = run(&[&load, &OURS, &[&protocol]]).unwrap();
        assert!(committed(&records, Kind::FastAppend) > 0.999, "{protocol}");
    }
}

#[test]
fn overwrites_conflict_and_land_because_appends_wait_for_them() {
    let load = ["arrivals.scale=100ms", "tables.count=1", "transaction.fast_append=0.95"];
    let records = run(&[&load, &OURS]).unwrap();
    let overwrites: Vec<_> = records.iter().filter(|record| record.kind == Kind::ValidatedOverwrite).collect();
    assert!(overwrites.iter().any(|record| record.table_conflicts > 0));
    // An append lands every 100 ms, and each try of an overwrite takes longer: if none waited, hardly any would land.
    assert!(committed(&records, Kind::ValidatedOverwrite) > 0.5, "{}", committed(&records, Kind::ValidatedOverwrite));
    assert!(committed(&records, Kind::FastAppend) > 0.999);
}

/// Several servers move the same table, each with the appends of its own clients: no conflict reaches a client, and
/// what one server commits costs the others another try.
#[test]
fn appends_through_several_servers_do_not_conflict() {
    for protocol in ["catalog-file", "manifest-chain", "tickets"] {
        let protocol = format!("catalog.protocol={protocol}");
        let load = ["arrivals.scale=200ms", "tables.count=1", &protocol];
        let one = run(&[&load, &OURS]).unwrap();
        let three = [&load[..], &OURS, &["catalog.servers=3"]];
        let several = run(&three).unwrap();
        assert_eq!(several, run(&three).unwrap(), "{protocol}");
        assert!(committed(&several, Kind::FastAppend) > 0.999, "{protocol}: {}", committed(&several, Kind::FastAppend));
        assert!(several.iter().all(|record| record.table_conflicts == 0), "{protocol}");
        let installing =
            |records: &[Record]| records.iter().map(|record| record.spent.install.as_secs_f64()).sum::<f64>();
        assert!(installing(&several) > 1.05 * installing(&one), "{protocol}");
    }
}

/// Then each table has one server, and only the catalog has several.
#[test]
fn a_table_at_one_server_is_not_moved_by_others() {
    let load = ["arrivals.scale=100ms", "tables.count=6", "catalog.protocol=tickets", "transaction.fast_append=0.9"];
    let late = |balance| {
        let balance = format!("catalog.balance={balance}");
        let records = run(&[&load, &OURS[1..], &["catalog.servers=3", &balance]]).unwrap();
        records.iter().map(|record| record.spent.install.as_secs_f64()).sum::<f64>()
    };
    let (in_turn, by_table) = (late("in-turn"), late("by-table"));
    assert!(by_table < 0.9 * in_turn, "{by_table} {in_turn}");
}

#[test]
fn appends_over_two_tables_do_not_conflict() {
    let load = ["arrivals.scale=500ms", "tables.count=5", "transaction.tables=2"];
    for servers in [&["catalog.servers=1"], &["catalog.servers=3"]] {
        let records = run(&[&load, &OURS, servers]).unwrap();
        let share = committed(&records, Kind::FastAppend);
        let conflicts = records.iter().any(|record| record.table_conflicts > 0);
        assert!(share > 0.9 && (servers[0] != "catalog.servers=1" || !conflicts), "{servers:?}: {share}");
    }
}

/// After one conflicted, others wait for its next try at both.
#[test]
fn overwrites_of_two_tables_land_beside_appends() {
    let load = ["arrivals.scale=40ms", "tables.count=50", "transaction.tables=2", "transaction.fast_append=0.9"];
    let share = committed(&run(&[&load, &OURS]).unwrap(), Kind::ValidatedOverwrite);
    // 0.994; without holds 0.9.
    assert!(share > 0.95, "{share}");
}

#[test]
fn it_needs_a_server() {
    for (settings, words) in [
        (&["tables.appends=rebased"][..], "a catalog.server"),
        (&["tables.appends=rebased", "catalog.server=1ms", "tables.metadata=inlined"], "\"separate\""),
        (&["catalog.servers=3"], "only with catalog.server"),
        (&["catalog.server=1ms", "catalog.servers=65"], "1 to 64"),
        (&["catalog.server=1ms", "catalog.balance=by-table"], "with catalog.servers"),
    ] {
        let error = run(&[settings]).unwrap_err();
        assert!(error.contains(words), "{settings:?}: {error}");
    }
}
