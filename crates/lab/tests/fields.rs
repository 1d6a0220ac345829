//! Does the page of fields name those that there are, with the values of the preset?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use toml::{Table, Value};

const PAGE: &str = include_str!("../../../docs/fields.md");

/// The fields of the page: path and value in the preset.
fn on_the_page() -> Vec<(&'static str, &'static str)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|cells| (cells[0].trim_matches('`'), cells[cells.len() - 1])).collect()
}

fn leaves(path: &str, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                leaves(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value, into);
            }
        }
        Value::String(text) => into.push((path.to_owned(), text.clone())),
        other => into.push((path.to_owned(), other.to_string())),
    }
}

/// All leaves of the configuration of the preset with these settings.
fn leaves_with(settings: &[&str]) -> Vec<(String, String)> {
    let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
    let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap();
    let mut all = Vec::new();
    leaves("", &Value::Table(Table::try_from(&experiment.points[0].point.config).unwrap()), &mut all);
    all
}

fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[test]
fn the_page_has_every_field_and_no_other() {
    let all = leaves_with(&[
        "catalog.protocol=manifest-chain",
        "catalog.server=1ms",
        "catalog.servers=2",
        "catalog.balance=by-table",
        "catalog.store=s3-express",
        "tables.appends=rebased",
        "transaction.overwrite_runtime.scale=1h",
        "arrivals.burst={every=\"10min\",lasts=\"60s\",factor=4.0}",
    ]);
    let optional = leaves_with(&["catalog.latency=1ms"]);
    let paths: BTreeSet<&String> = all.iter().chain(&optional).map(|(path, _)| path).collect();
    for path in &paths {
        assert!(on_the_page().iter().any(|(field, _)| is_within(path, field)), "{path} is not on the page");
    }
    for (field, _) in on_the_page() {
        assert!(paths.iter().any(|path| is_within(path, field)), "there is no {field}");
    }
}

#[test]
fn the_page_states_the_values_of_the_preset() {
    let all = leaves_with(&[]);
    for (field, value) in on_the_page() {
        let Some((_, found)) = all.iter().find(|(path, _)| path == field) else { continue };
        // Lists are in the words of the page, and a sigma that does not count is left out.
        let found = found.trim_matches(['[', ']']).replace('"', "");
        let stated = value.replace('`', "");
        let same = stated == found
            || stated.trim_end_matches('s').parse::<f64>().is_ok_and(|stated| {
                found.trim_end_matches("ns").parse::<f64>().is_ok_and(|found| (found - stated).abs() < 1e-9)
            });
        assert!(same || stated == "-", "{field}: the page says {stated}, the preset {found}");
    }
}
