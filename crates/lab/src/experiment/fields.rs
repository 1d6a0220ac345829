//! What does a configuration say of each field, also of those that no file sets?

use std::collections::BTreeMap;

use glidepath_point::Config;
use toml::{Table, Value};

use super::layers::{DISTRIBUTIONS, OPTIONAL, is_lognormal};

/// The fields by path, as in a file. Optional ones that it has not are "none".
pub(crate) fn fields(config: &Config) -> BTreeMap<String, Value> {
    let mut fields = flatten(Value::Table(Table::try_from(config).unwrap_or_default()));
    // What a burst leaves out of itself is not told: without bursts it would say that there are some.
    for optional in OPTIONAL.into_iter().filter(|path| *path != "arrivals.burst.table") {
        if !fields.keys().any(|path| covers(optional, path)) {
            fields.insert(optional.to_owned(), Value::String("none".to_owned()));
        }
    }
    // Only lognormal distributions have a sigma.
    for distribution in DISTRIBUTIONS {
        let kind = fields.get(&format!("{distribution}.kind")).and_then(Value::as_str);
        if !kind.is_some_and(is_lognormal) {
            fields.remove(&format!("{distribution}.sigma"));
        }
    }
    fields
}

/// Whether this key sets the field of this path, or a table around it.
pub(crate) fn covers(key: &str, path: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The values in a table by path. An empty table is a value.
pub(super) fn flatten(value: Value) -> BTreeMap<String, Value> {
    fn add(path: &str, value: Value, fields: &mut BTreeMap<String, Value>) {
        match value {
            Value::Table(table) if !table.is_empty() => {
                for (name, value) in table {
                    let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                    add(&path, value, fields);
                }
            }
            value => drop(fields.insert(path.to_owned(), value)),
        }
    }
    let mut fields = BTreeMap::new();
    add("", value, &mut fields);
    fields
}
