//! How are the layers of a configuration merged, and which layer set each field?
//!
//! Preset, experiment file, sweep and command line are tables of TOML. A later layer overrides an earlier one field by
//! field. Three rules are special:
//!
//! - A distribution of another `kind` does not inherit the `floor` of the old one, nor its `sigma` unless both are
//!   lognormal. It does inherit the `scale`.
//! - What the runtime of overwrites does not say is as in the runtime of all.
//! - `"none"` removes an optional field, because TOML has no null.

use std::collections::BTreeMap;

use glidepath_point::Config;
use serde::Deserialize;
use toml::{Table, Value};

use crate::experiment::ExperimentError;
use crate::experiment::complaint::complaint;
use crate::experiment::fields::{fields, flatten};

/// Fields that `"none"` removes.
pub(super) const OPTIONAL: [&str; 9] = [
    "catalog.latency",
    "catalog.store",
    "catalog.server",
    "catalog.servers",
    "catalog.balance",
    "arrivals.burst.table",
    "arrivals.burst",
    OVERWRITE_RUNTIME,
    "retry.time_limit",
];

/// The paths of distributions.
pub(super) const DISTRIBUTIONS: [&str; 3] = ["arrivals", "transaction.runtime", OVERWRITE_RUNTIME];

pub(super) const OVERWRITE_RUNTIME: &str = "transaction.overwrite_runtime";

/// One field, or a whole section, as a layer set it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Its path, with dots.
    pub(crate) key: String,
    pub(crate) value: Value,
    /// Its origin: the file, or the option on the command line.
    pub(crate) origin: String,
}

/// The merged layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    table: Table,
    /// By path of a field: the origin that set it last.
    origins: BTreeMap<String, String>,
}

impl Layers {
    /// Adds a layer on top. The order of its entries matters only if they contradict each other.
    pub(crate) fn lay(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let mut layer = Table::new();
        for Entry { key, value, origin } in entries {
            self.note(&key, &value, &origin);
            // The innermost part of the path is the value's own name.
            let nested =
                key.rsplit('.').fold(value, |inner, part| Value::Table(Table::from_iter([(part.into(), inner)])));
            if let Value::Table(nested) = nested {
                merge(&mut layer, nested);
            }
        }
        merge(&mut self.table, layer);
    }

    /// Records the origin of the leaves of this value.
    fn note(&mut self, path: &str, value: &Value, origin: &str) {
        match value {
            Value::Table(table) if !table.is_empty() => {
                table.iter().for_each(|(key, value)| self.note(&format!("{path}.{key}"), value, origin));
            }
            _ => {
                // Removes origins of paths above (a former single value) and below (a former table).
                self.origins.retain(|known, _| !is_within(known, path) && !is_within(path, known));
                self.origins.insert(path.to_owned(), origin.to_owned());
            }
        }
    }

    /// The origin to name in an error about this field: of the field, of an enclosing table, or else the last of a
    /// field inside it.
    pub(crate) fn origin(&self, field: &str) -> Option<&str> {
        let field = field.split('[').next().unwrap_or(field);
        let ends = field.match_indices('.').map(|(end, _)| end);
        let mut above = ends.chain([field.len()]).rev().filter_map(|end| self.origins.get(&field[..end]));
        let inside = format!("{field}.");
        let below = || self.origins.iter().rev().find(|(path, _)| path.starts_with(&inside)).map(|(_, origin)| origin);
        above.next().or_else(below).map(String::as_str)
    }

    /// The values by path, texts without quotes: those set, and all of the configuration, each in its usual form.
    pub(crate) fn usual(&self, fallback: &str) -> [BTreeMap<String, String>; 2] {
        let config = self.clone().config(fallback).ok();
        [self.leaves(), texts(config.map(|(config, _)| fields(&config)).unwrap_or_default())]
    }

    /// The values by path that are not as usual, texts without quotes.
    pub(crate) fn beyond(&self, usual: &[BTreeMap<String, String>; 2]) -> BTreeMap<String, String> {
        let all = self.leaves();
        let is_usual = |path: &String, value: &String| usual.iter().any(|usual| usual.get(path) == Some(value));
        // What is as in the runtime of all need not be said of that of overwrites.
        let of_all = |path: &str| all.get(&format!("transaction.runtime{}", path.strip_prefix(OVERWRITE_RUNTIME)?));
        let beyond = all.iter().filter(|(path, value)| !is_usual(path, value) && of_all(path) != Some(value));
        beyond.map(|(path, value)| (path.clone(), value.clone())).collect()
    }

    fn leaves(&self) -> BTreeMap<String, String> {
        texts(flatten(Value::Table(self.table.clone())))
    }

    /// The text value at this path, if there is one.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    fn get(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let mut value = self.table.get(first)?;
        for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
            value = value.get(part)?;
        }
        Some(value)
    }

    /// The merged configuration. `fallback` is the origin of fields that no layer set.
    pub(crate) fn config(mut self, fallback: &str) -> Result<(Config, Self), ExperimentError> {
        for path in OPTIONAL {
            if self.text(path) == Some("none") {
                remove(&mut self.table, path);
            }
        }
        self.complete_overwrite_runtime();
        let wrong = |field: &str, message: String| ExperimentError::Field {
            origin: self.origin(field).unwrap_or(fallback).to_owned(),
            field: field.to_owned(),
            message,
        };
        for path in DISTRIBUTIONS {
            self.check_distribution(path).map_err(|message| wrong(&format!("{path}.sigma"), message))?;
        }
        let config: Result<Config, _> = serde_path_to_error::deserialize(Value::Table(self.table.clone()));
        match config {
            Ok(config) => Ok((config, self)),
            Err(error) => {
                let path = error.path().to_string();
                Err(wrong(&path, complaint(error.inner().message(), &path)))
            }
        }
    }

    /// What the runtime of overwrites does not say is as in the runtime of all.
    fn complete_overwrite_runtime(&mut self) {
        let Some(Value::Table(transaction)) = self.table.get_mut("transaction") else { return };
        let Some(Value::Table(mut whole)) = transaction.get("runtime").cloned() else { return };
        if let Some(Value::Table(own)) = transaction.get_mut("overwrite_runtime") {
            merge(&mut whole, std::mem::take(own));
            *own = whole;
        }
    }

    fn check_distribution(&self, path: &str) -> Result<(), String> {
        let Some(kind) = self.text(&format!("{path}.kind")) else { return Ok(()) };
        match self.get(&format!("{path}.sigma")) {
            None if is_lognormal(kind) => Err(format!(
                "found none, but kind = \"{kind}\" needs one: the standard deviation of the logarithm, 0 to 5"
            )),
            Some(sigma) if !is_lognormal(kind) => {
                Err(format!("found {sigma}, but kind = \"{kind}\" has no sigma: only lognormal kinds have"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether one path leads to something inside what the other leads to.
fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

/// Without quotes.
fn texts(fields: BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.into_iter().map(|(path, value)| (path, text(value))).collect()
}

pub(super) fn is_lognormal(kind: &str) -> bool {
    kind.starts_with("lognormal")
}

fn merge(base: &mut Table, over: Table) {
    let kind = |table: &Table| table.get("kind").and_then(Value::as_str).map(str::to_owned);
    if let (Some(old), Some(new)) = (kind(base), kind(&over))
        && old != new
    {
        base.remove("floor");
        if !(is_lognormal(&old) && is_lognormal(&new)) {
            base.remove("sigma");
        }
    }
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => {
            table.remove(path);
        }
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// A whole file or section as entries.
pub(crate) fn entries(table: Table, origin: &str) -> impl Iterator<Item = Entry> {
    table.into_iter().map(|(key, value)| Entry { key, value, origin: origin.to_owned() })
}

/// Reads the value after `=` as TOML; if it is not TOML it is a text, so that `scale=35ms` needs no quotes.
pub(crate) fn parse_value(text: &str) -> Result<Value, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        value: Value,
    }
    match toml::from_str::<Line>(&format!("value = {text}")) {
        Ok(line) => Ok(line.value),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => Err(error.message().to_owned()),
        Err(_) => Ok(Value::String(text.to_owned())),
    }
}
