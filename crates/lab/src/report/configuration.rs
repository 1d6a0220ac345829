//! The exact configuration, so that the results can be reproduced.

use std::collections::BTreeMap;

use glidepath_point::MODEL_VERSION;
use maud::{Markup, html};
use toml::{Table, Value};

use crate::experiment::{ALTERNATIVE, Axis, Experiment, PlannedPoint, covers, fields};
use crate::schema::Provenance;

/// The section with the configuration, the seeds, the versions and the providers' profiles.
pub(super) fn section(experiment: &Experiment, provenance: &Provenance) -> Markup {
    let seeds = experiment.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    html! {
        section #configuration {
            h2 { "Configuration" }
            dl {
                dt { "Configuration hash" }
                dd { code { (experiment.hash()) } " (of all points, seeds and the model's version)" }
                dt { "Model version" } dd { (MODEL_VERSION) }
                dt { "Revision of the program" } dd { code { (provenance.git_revision) } }
                dt { "Seeds" } dd { (seeds) }
            }
            p { "As an experiment file that states every field, also those of the preset:" }
            pre { code { (experiment_file(experiment)) } }
            @for (name, profile) in profiles(experiment) {
                details {
                    summary { "Profile of the provider " (name) ": " (profile.0) }
                    pre { code { (profile.1) } }
                }
            }
        }
    }
}

/// Every profile once, with its title.
fn profiles(experiment: &Experiment) -> BTreeMap<&str, (&str, String)> {
    let of = |planned: &'_ PlannedPoint| toml::to_string(&planned.point.profile).unwrap_or_default();
    let mut profiles = BTreeMap::new();
    for planned in &experiment.points {
        let name = planned.point.config.provider.as_str();
        profiles.entry(name).or_insert_with(|| (planned.point.profile.title.as_str(), of(planned)));
    }
    profiles
}

/// An experiment file that plans the same points: it states every field, also those of the preset.
#[must_use]
pub fn experiment_file(experiment: &Experiment) -> String {
    let configs: Vec<BTreeMap<String, Value>> =
        experiment.points.iter().map(|planned| fields(&planned.point.config)).collect();
    let Some(first) = configs.first() else { return String::new() };
    let swept = |path: &str| experiment.axes.iter().any(|axis| covers(&axis.key, path));
    let everywhere =
        |path: &String, value: &Value| configs.iter().all(|config| config.get(path) == Some(value)) && !swept(path);
    let common = first.iter().filter(|(path, value)| everywhere(path, value));
    let mut text = String::new();
    let header =
        [("title", &experiment.title), ("description", &experiment.description), ("preset", &experiment.preset)];
    for (key, value) in header {
        text += &format!("{key} = {}\n", Value::String(value.clone()));
    }
    text += &format!("seeds = {}\n\n", experiment.seeds.len());
    let mut base = Table::new();
    for (path, value) in common {
        put(&mut base, path, value.clone());
    }
    text += &toml::to_string(&base).unwrap_or_default();
    let (alternatives, sweep): (Vec<&Axis>, Vec<&Axis>) =
        experiment.axes.iter().partition(|axis| axis.key == ALTERNATIVE);
    if !sweep.is_empty() {
        text += "\n[sweep]\n";
    }
    for axis in sweep {
        let values = axis.values.iter().map(|value| written(experiment, &configs, &axis.key, value));
        text += &format!("{} = {}\n", Value::String(axis.key.clone()), Value::Array(values.collect()));
    }
    for name in alternatives.iter().flat_map(|axis| &axis.values) {
        let mut set = Table::new();
        let chosen = experiment.points.iter().position(|planned| planned.coordinate(ALTERNATIVE) == Some(name));
        let own = chosen.map(|index| configs[index].iter()).into_iter().flatten();
        for (path, value) in own.filter(|(path, value)| !everywhere(path, value) && !swept(path)) {
            set.insert(path.clone(), value.clone());
        }
        let (name, set) = (Value::String(name.clone()), Value::Table(set));
        text += &format!("\n[[alternatives]]\nname = {name}\nset = {set}\n");
    }
    text
}

fn put(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// The value of an axis: as displayed if it is a text, otherwise as in the configuration.
fn written(experiment: &Experiment, configs: &[BTreeMap<String, Value>], key: &str, value: &str) -> Value {
    let chosen = experiment.points.iter().position(|planned| planned.coordinate(key) == Some(value));
    let mut own = Table::new();
    for (path, field) in chosen.into_iter().flat_map(|index| &configs[index]) {
        match path.strip_prefix(key) {
            Some("") if !field.is_str() => return field.clone(),
            Some(rest) if rest.starts_with('.') => put(&mut own, &rest[1..], field.clone()),
            _ => {}
        }
    }
    if own.is_empty() { Value::String(value.to_owned()) } else { Value::Table(own) }
}
