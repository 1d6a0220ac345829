//! What was simulated, in words: the heading above results.

use glidepath_point::{Balance, Point};
use glidepath_workload::Shape;

use crate::experiment::Experiment;

/// One thing about a point, in words.
type Part = fn(&Point) -> String;

/// The fields that the words of this module name, and those that are told elsewhere.
const NAMED: [&str; 12] = [
    "arrivals.kind",
    "arrivals.scale",
    "catalog.balance",
    "catalog.latency",
    "catalog.protocol",
    "catalog.server",
    "catalog.servers",
    "catalog.store",
    "duration",
    "provider",
    "tables.count",
    "transaction.fast_append",
];

/// Whether a heading names this field in words.
pub(crate) fn names(key: &str) -> bool {
    NAMED.contains(&key)
}

/// The settings that are not named in words, after the words that are.
#[must_use]
pub fn with(set: &[String]) -> String {
    if set.is_empty() { String::new() } else { format!(", with {}", set.join(", ")) }
}

/// What all points of an experiment have in common: preset, tables and store, catalog, kinds of transactions, load,
/// protocol. A part that differs between them is left out; it is in the results.
#[must_use]
pub fn of(experiment: &Experiment) -> String {
    common(experiment, &[kinds, arrivals, protocol])
}

/// The same without the load, which a search for knees varies.
#[must_use]
pub fn without_load(experiment: &Experiment) -> String {
    common(experiment, &[kinds, protocol])
}

fn common(experiment: &Experiment, others: &[Part]) -> String {
    let same = |part: Part| {
        let mut words = experiment.points.iter().map(|planned| part(&planned.point));
        let first = words.next()?;
        words.all(|other| other == first).then_some(first)
    };
    let store = same(store);
    let place = match (same(tables), &store) {
        (Some(tables), Some(store)) => Some(format!("{tables} on {store}")),
        (None, Some(store)) => Some(format!("tables on {store}")),
        (tables, None) => tables,
    };
    let catalog = same(if store.is_some() { catalog } else { catalog_of_any_store });
    let others = others.iter().filter_map(|part| same(*part));
    let parts = [Some(format!("Preset {}", experiment.preset)), place, catalog];
    parts.into_iter().flatten().chain(others).collect::<Vec<_>>().join(", ") + &with(&experiment.set)
}

fn tables(point: &Point) -> String {
    match point.config.tables.count {
        1 => "one table".to_owned(),
        count => format!("{count} tables"),
    }
}

fn store(point: &Point) -> String {
    point.config.provider.clone()
}

/// Tables and store.
#[must_use]
pub fn place(point: &Point) -> String {
    format!("{} on {}", tables(point), store(point))
}

/// Where the catalog is, after words that name the store.
#[must_use]
pub fn catalog(point: &Point) -> String {
    catalog_in(point, "there")
}

/// The same where no store has been named.
fn catalog_of_any_store(point: &Point) -> String {
    catalog_in(point, "in the provider's store")
}

fn catalog_in(point: &Point, store_of_tables: &str) -> String {
    let catalog = &point.config.catalog;
    let place = match (catalog.latency, &catalog.store) {
        (None, None) => format!("the catalog an object {store_of_tables}"),
        (None, Some(store)) => format!("the catalog on {store}"),
        (Some(latency), _) => format!("a catalog that answers in {latency}"),
    };
    match catalog.server {
        None => place,
        Some(way) => match catalog.servers {
            None | Some(1) => format!("{place}, behind one server {way} away"),
            Some(count) => {
                let each = if catalog.balance == Balance::ByTable { ", each with its own tables" } else { "" };
                format!("{place}, behind {count} servers {way} away{each}")
            }
        },
    }
}

/// The share of fast appends.
#[must_use]
pub fn kinds(point: &Point) -> String {
    format!("{:.0} % fast appends", 100.0 * point.config.transaction.fast_append)
}

/// The commit protocol.
#[must_use]
pub fn protocol(point: &Point) -> String {
    format!("protocol {}", point.config.catalog.protocol.name())
}

/// The load.
fn arrivals(point: &Point) -> String {
    let arrivals = &point.config.arrivals;
    let which = match arrivals.kind {
        Shape::Fixed => "",
        Shape::Exponential | Shape::LognormalMean => " on average",
        Shape::Lognormal => " in the median",
    };
    let bursts = if arrivals.burst.is_some() { " outside of bursts" } else { "" };
    format!("an arrival every {}{which}{bursts}", arrivals.scale)
}
