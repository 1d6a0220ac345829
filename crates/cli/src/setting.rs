//! What was simulated, in words: the heading above results.

use glidepath_point::{Balance, Point};
use glidepath_workload::Shape;

/// What these points have in common, part by part: tables and store, catalog, kinds of transactions, protocol. A part
/// that differs between them is left out; it is in the results.
pub(crate) fn common(points: &[&Point]) -> Vec<String> {
    let parts: [fn(&Point) -> String; 5] = [place, catalog, kinds, arrivals, protocol];
    let same = |part: &fn(&Point) -> String| {
        let mut words = points.iter().map(|point| part(point));
        let first = words.next()?;
        words.all(|other| other == first).then_some(first)
    };
    parts.iter().filter_map(same).collect()
}

/// Tables and store.
pub(crate) fn place(point: &Point) -> String {
    let tables = match point.config.tables.count {
        1 => "one table".to_owned(),
        count => format!("{count} tables"),
    };
    format!("{tables} on {}", point.config.provider)
}

/// Where the catalog is.
pub(crate) fn catalog(point: &Point) -> String {
    let catalog = &point.config.catalog;
    let place = match (catalog.latency, &catalog.store) {
        (None, None) => "the catalog an object there".to_owned(),
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
pub(crate) fn kinds(point: &Point) -> String {
    format!("{:.0} % fast appends", 100.0 * point.config.transaction.fast_append)
}

/// The commit protocol.
pub(crate) fn protocol(point: &Point) -> String {
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
