//! What does an experiment file vary? Reads the file's own keys and its axes; the rest is configuration.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use crate::experiment::complaint::{complaint, meant};
use crate::experiment::layers::Entry;
use crate::experiment::{ALTERNATIVE, Axis, ExperimentError, PlannedPoint};

/// The most points: more are probably a typing error.
const MOST_POINTS: usize = 100_000;
const MOST_SEEDS: u64 = 10_000;

const HEADER: [&str; 6] = ["title", "description", "preset", "seeds", "sweep", "alternatives"];
const SECTIONS: [&str; 9] =
    ["duration", "run_on", "provider", "catalog", "arrivals", "transaction", "tables", "commit", "retry"];

/// The parts of an experiment file.
pub(super) struct File {
    pub(super) header: Header,
    /// The configuration.
    pub(super) sections: Table,
    pub(super) axes: Vec<AxisPlan>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) description: String,
    pub(super) preset: Option<String>,
    #[serde(default = "five")]
    pub(super) seeds: u64,
    #[serde(default)]
    sweep: Table,
    #[serde(default)]
    alternatives: Vec<Alternative>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    name: String,
    set: Table,
}

fn five() -> u64 {
    5
}

/// An axis, with the settings of each value.
#[derive(Clone, Debug)]
pub(super) struct AxisPlan {
    pub(super) key: String,
    pub(super) choices: Vec<Choice>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) display: String,
    pub(super) entries: Vec<Entry>,
}

impl AxisPlan {
    pub(super) fn axis(&self) -> Axis {
        let values = self.choices.iter().map(|choice| choice.display.clone()).collect();
        Axis { key: self.key.clone(), values }
    }
}

impl File {
    pub(super) fn parse(origin: &str, text: &str) -> Result<Self, ExperimentError> {
        let table: Table =
            toml::from_str(text).map_err(|cause| ExperimentError::Syntax { origin: origin.to_owned(), cause })?;
        let (header, sections): (Table, Table) = table.into_iter().partition(|(key, _)| HEADER.contains(&key.as_str()));
        if let Some(unknown) = sections.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            let known = || HEADER.into_iter().chain(SECTIONS);
            let hint = meant(unknown, known());
            let allowed = known().collect::<Vec<_>>().join(", ");
            let kind = kind_of(&sections);
            return Err(field(origin, unknown, format!("found this unknown field{hint}; allowed: {allowed}{kind}")));
        }
        let mut header: Header = serde_path_to_error::deserialize(Value::Table(header)).map_err(|error| {
            let path = error.path().to_string();
            field(origin, &path, complaint(error.inner().message(), &path))
        })?;
        let mut axes = Vec::new();
        collect_axes("", std::mem::take(&mut header.sweep), origin, &mut axes)?;
        if !header.alternatives.is_empty() {
            axes.push(alternatives(std::mem::take(&mut header.alternatives), origin));
        }
        Ok(Self { header, sections, axes })
    }
}

/// What to do with a file that is another kind of file, or nothing.
fn kind_of(sections: &Table) -> &'static str {
    let has = |keys: &[&str]| keys.iter().all(|key| sections.contains_key(*key));
    if has(&["source", "get"]) {
        ". This file looks like the profile of a store: give it with --profile"
    } else if has(&["of", "sampling"]) {
        ". This file has the alternatives to a profile: give the profile beside it with --profile"
    } else {
        ""
    }
}

fn field(origin: &str, field: &str, message: String) -> ExperimentError {
    ExperimentError::Field { origin: origin.to_owned(), field: field.to_owned(), message }
}

/// `"arrivals.scale" = [...]` is an axis; so is `arrivals.scale = [...]`, which is a table in a table for TOML.
fn collect_axes(within: &str, sweep: Table, origin: &str, axes: &mut Vec<AxisPlan>) -> Result<(), ExperimentError> {
    for (key, value) in sweep {
        let key = if within.is_empty() { key } else { format!("{within}.{key}") };
        match value {
            Value::Table(inner) => collect_axes(&key, inner, origin, axes)?,
            Value::Array(values) => {
                let origin = format!("{origin}, [sweep]");
                let entry = |value: &Value| Entry { key: key.clone(), value: value.clone(), origin: origin.clone() };
                let choice = |value: &Value| Choice { display: display(value), entries: vec![entry(value)] };
                let choices = values.iter().map(choice).collect();
                axes.push(AxisPlan { key, choices });
            }
            single => {
                let message = format!("found {single}; allowed: a list of values, such as [{single}]");
                return Err(field(origin, &format!("sweep.{key}"), message));
            }
        }
    }
    Ok(())
}

fn alternatives(alternatives: Vec<Alternative>, origin: &str) -> AxisPlan {
    let choice = |Alternative { name, set }: Alternative| {
        let origin = format!("{origin}, alternative \"{name}\"");
        let mut entries = Vec::new();
        leaves("", Value::Table(set), &origin, &mut entries);
        Choice { display: name, entries }
    };
    AxisPlan { key: ALTERNATIVE.to_owned(), choices: alternatives.into_iter().map(choice).collect() }
}

pub(super) fn leaves(path: &str, value: Value, origin: &str, entries: &mut Vec<Entry>) {
    match value {
        Value::Table(table) if !table.is_empty() || path.is_empty() => {
            for (key, value) in table {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                leaves(&path, value, origin, entries);
            }
        }
        value => entries.push(Entry { key: path.to_owned(), value, origin: origin.to_owned() }),
    }
}

/// A value for people: texts without quotes.
pub(super) fn display(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks the axes as a whole.
pub(super) fn check(
    axes: &[AxisPlan],
    (seeds, seeds_origin, seeds_name): (u64, &str, &str),
    origin: &str,
) -> Result<(), ExperimentError> {
    if !(1..=MOST_SEEDS).contains(&seeds) {
        return Err(field(seeds_origin, seeds_name, format!("found {seeds}; allowed: 1 to {MOST_SEEDS}")));
    }
    for (index, axis) in axes.iter().enumerate() {
        if axis.choices.is_empty() {
            return Err(field(
                origin,
                &format!("sweep.{}", axis.key),
                "found no value; allowed: one or more".to_owned(),
            ));
        }
        if let Some(twice) = twice(axis.choices.iter().map(|choice| &choice.display)) {
            return Err(field(origin, &axis.key, format!("found \"{twice}\" twice; allowed: each value once")));
        }
        let keys = |axis: &AxisPlan| -> Vec<String> {
            axis.choices.iter().flat_map(|choice| &choice.entries).map(|entry| entry.key.clone()).collect()
        };
        let earlier: Vec<String> = axes[..index].iter().flat_map(keys).collect();
        if let Some(both) = keys(axis).into_iter().find(|key| earlier.contains(key)) {
            let message = "found in two axes; allowed: only one of [sweep], [[alternatives]] and an option".to_owned();
            return Err(field(origin, &both, message));
        }
    }
    let points = axes.iter().map(|axis| axis.choices.len()).try_fold(1_usize, usize::checked_mul);
    if points.is_none_or(|points| points > MOST_POINTS) {
        let found = points.map_or_else(|| "more than can be counted".to_owned(), |points| points.to_string());
        return Err(field(origin, "sweep", format!("found {found} points; allowed: up to {MOST_POINTS}")));
    }
    Ok(())
}

fn twice<'a>(values: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::BTreeSet::new();
    values.into_iter().find(|value| !seen.insert(*value))
}

/// Refuses two values of an axis that are written differently and mean the same, with the first values of the other
/// axes and with the last: their points would be simulated twice.
pub(super) fn check_points(axes: &[AxisPlan], points: &[PlannedPoint], origin: &str) -> Result<(), ExperimentError> {
    // From a value of this axis to its next one.
    let mut step = 1;
    for axis in axes.iter().rev() {
        let last = points.len().saturating_sub(1 + (axis.choices.len() - 1) * step);
        let ends = points.iter().step_by(step).zip(points.iter().skip(last).step_by(step));
        let mut seen = BTreeMap::new();
        for ((first, last), choice) in ends.zip(&axis.choices).filter(|_| axis.key != ALTERNATIVE) {
            if let Some(before) = seen.insert((first.point.key(0), last.point.key(0)), &choice.display) {
                let origin = choice.entries.first().map_or(origin, |entry| entry.origin.as_str());
                let both = format!("found \"{before}\" and \"{}\", which are equal", choice.display);
                return Err(field(origin, &axis.key, format!("{both}; allowed: each value once")));
            }
        }
        step *= axis.choices.len();
    }
    Ok(())
}

/// All combinations of a value of each axis, the last axis varying fastest.
pub(super) fn combinations(axes: &[AxisPlan]) -> impl Iterator<Item = Vec<(&AxisPlan, &Choice)>> {
    let count = axes.iter().map(|axis| axis.choices.len()).product::<usize>();
    (0..count).map(move |mut number| {
        let mut picked: Vec<_> = axes
            .iter()
            .rev()
            .map(|axis| {
                let choice = &axis.choices[number % axis.choices.len()];
                number /= axis.choices.len();
                (axis, choice)
            })
            .collect();
        picked.reverse();
        picked
    })
}
