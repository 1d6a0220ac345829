//! Does a store keep the contract of [`KvStore`]? The same suite as for object stores, with points of its own. Start
//! with [`POINTS`] and [`run_all`].

mod races;
mod reads;
mod trial;
mod writes;

use super::trial::Broken;
use super::{Point, Violation};
use crate::{KvStore, Table};
use trial::KvTrial;

/// Makes the table, tries every point, and returns those that are broken. [`check`] says what the parameters are.
pub async fn run_all<S: KvStore>(handles: &[S], scratch: &Table) -> Vec<Violation> {
    let mut violations = Vec::new();
    for point in POINTS {
        violations.extend(check(handles, scratch, point).await.err());
    }
    violations
}

/// Tries one point of [`POINTS`] in the table `scratch`, which no other program may use and in which no point was tried
/// before. What it wrote stays there.
///
/// Of the `handles` on one store the first is used for points about one writer, and all of them in turn for those about
/// many, whose requests are in flight at the same time. Points about an operation that the store reports as unsupported
/// pass.
///
/// # Errors
/// A [`Violation`] where the store breaks the point.
///
/// # Panics
/// Where there is no handle, or `point` is none of [`POINTS`].
pub async fn check<S: KvStore>(handles: &[S], scratch: &Table, point: &Point) -> Result<(), Violation> {
    assert!(!handles.is_empty(), "the conformance suite needs a handle on the store");
    let broken = |Broken(found)| Violation { point: *point, found };
    let trial = KvTrial::new(handles, scratch.clone(), point.name);
    trial.create_table().await.map_err(broken)?;
    run(point.name, &trial).await.map_err(broken)
}

points! {
    KvStore, KvTrial;

    "table-again": "making a table that exists is a success and leaves its cells" => writes::table_again;
    "put-creates": "a put of columns that do not exist writes them" => writes::put_creates;
    "put-loses": "a put is lost where its column exists, also with the same value, and is told the value" => writes::put_loses;
    "all-or-nothing": "where one of several columns exists, none is written" => writes::all_or_nothing;
    "found-is-exact": "a lost put is told of every one of its columns that exists, and of no other" => writes::found_is_exact;
    "other-columns": "columns that are not in a put do not hinder it" => writes::other_columns;
    "empty-value": "an empty value is a value: its cell exists" => writes::empty_value;
    "any-bytes": "rows, columns and values may hold every byte" => writes::any_bytes;
    "large-value": "a value of 1 MiB comes back as it was written" => writes::large_value;
    "long-names": "rows and columns may be 1,000 bytes long" => writes::long_names;
    "many-columns": "a put may write as many columns as the store says, up to a thousand" => writes::many_columns;
    "strange-puts": "a put of no column, or of one column twice, is refused and writes nothing" => writes::strange_puts;

    "set-replaces": "compare-and-set replaces the expected value" => writes::set_replaces;
    "set-creates": "compare-and-set of an absent cell creates it" => writes::set_creates;
    "set-loses": "compare-and-set is lost where the value is another, and is told it" => writes::set_loses;
    "set-missing-loses": "compare-and-set of a value is lost where there is no cell" => writes::set_missing_loses;
    "set-leaves-others": "compare-and-set changes no other cell" => writes::set_leaves_others;

    "final-stays": "a final value is not changed by conditional writes; that of the highest rank stays" => writes::final_stays;

    "get-order": "get answers in the order of the question, for many rows, also for a cell that is asked for twice"
        => reads::get_order;
    "get-nothing": "get of no cell answers nothing" => reads::get_nothing;
    "no-table": "reads and writes of a table that does not exist fail, and say so" => reads::no_table;
    "scan-order": "a scan is in the byte order of the columns" => reads::scan_order;
    "scan-range": "a scan begins at `from` and ends before `before`" => reads::scan_range;
    "scan-limit": "a scan holds at most `limit` cells, and says when there are more" => reads::scan_limit;
    "scan-one-row": "a scan shows no cell of another row" => reads::scan_one_row;
    "rows-once": "rows come each once, whatever the size of pages" => reads::rows_once;

    "race-creators": "of 16 writers of one cell exactly one wins, and the others are told its value" => races::creators;
    "race-neighbours": "16 writers of different columns of one row all succeed" => races::neighbours;
    "race-overlaps": "writers of overlapping columns write all or nothing" => races::overlaps;
    "race-increments": "of 16 writers that each replace one cell 10 times, every replacement counts" => races::increments;
}
