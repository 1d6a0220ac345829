//! Does a catalog hold names as every catalog must? A list of named points, each of which can be tried on any protocol, on a
//! simulated store or a live one.
//!
//! The suite brings no runtime and spawns nothing. It is about what a catalog holds and refuses when nothing goes wrong and nobody
//! else writes; what faults and other writers do is tried by simulation. Start with [`POINTS`] and [`run_all`].

mod names;
mod pages;
mod tables;
mod trial;
mod views;

use std::fmt;

use crate::group::Grouped;
use trial::{Broken, Trial};

/// One point that every catalog keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Names it for good; also the namespace in which it is tried.
    pub name: &'static str,
    /// What a catalog must do.
    pub rule: &'static str,
}

/// A point that a catalog breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The point.
    pub point: Point,
    /// What the catalog did instead.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point: Point { name, rule }, found } = self;
        write!(f, "{name}: {found} (the rule: {rule})")
    }
}

/// Tries every point and returns those that are broken. [`check`] says what the parameters are.
pub async fn run_all<C: Grouped>(writer: &C, reader: &C) -> Vec<Violation> {
    let mut violations = Vec::new();
    for point in POINTS {
        violations.extend(check(writer, reader, point).await.err());
    }
    violations
}

/// Tries one point of [`POINTS`] on a catalog in which nothing has the point's name, and in which there is no numbered table from
/// 0xc0de0000 on. Everything is written by one handle and read by the other, which should be of another process, or of one that
/// knows as little. What was written stays.
///
/// # Errors
/// A [`Violation`] where the catalog breaks the point.
///
/// # Panics
/// Where `point` is none of [`POINTS`].
pub async fn check<C: Grouped>(writer: &C, reader: &C, point: &Point) -> Result<(), Violation> {
    let trial = Trial::new(writer, reader, point.name);
    run(point.name, &trial).await.map_err(|Broken(found)| Violation { point: *point, found })
}

/// The list of points, and the way from a point's name to what tries it.
macro_rules! points {
    ($($name:literal: $rule:literal => $try:path;)*) => {
        /// What every catalog keeps, point by point.
        pub const POINTS: &[Point] = &[$(Point { name: $name, rule: $rule },)*];

        async fn run<C: Grouped>(name: &str, trial: &Trial<'_, C>) -> Result<(), Broken> {
            match name {
                $($name => $try(trial).await,)*
                _ => panic!("the conformance suite has no point {name:?}"),
            }
        }
    };
}

points! {
    "created-is-there": "what was created is found with all that it was given" => names::created_is_there;
    "created-once": "a name that stands for something cannot be created again" => names::created_once;
    "parents": "what is to be created needs a namespace to be in" => names::parents;
    "odd-names": "a name may have any text in its parts, and 1024 bytes" => names::odd_names;
    "drop": "what is dropped must be there, of the kind that was said, and empty" => names::drop_one;
    "drop-all": "a namespace can be dropped with all that is in it, and with nothing else" => names::drop_all;
    "rename": "a table or view that is renamed, into another namespace too, keeps all else" => names::rename;
    "rename-refused": "a table or view is renamed to a free name in a namespace that is there" => names::rename_refused;
    "properties": "properties are set and removed one by one; all others stay" => names::properties;
    "all-or-nothing": "a request is done whole or not at all" => names::all_or_nothing;
    "one-after-another": "requests of one batch are decided each as if those before it were done" => names::one_after_another;
    "nothing-to-do": "a request that changes nothing is no error" => names::nothing_to_do;

    "expected-version": "a table is dropped only at the version that was said" => tables::expected_version;
    "advance": "a table advances if every partition that is written is where it was read" => tables::advance_tables;
    "partitions": "a table has partitions, and an advance writes some" => tables::partitions;
    "numbered-is-named": "a numbered table is the entry of its name, however it was made and is kept" => tables::numbered_is_named;
    "numbers-as-names": "changes are refused where the name of a number stands for something else" => tables::numbers_as_names;

    "views": "a view is created, described, listed, changed and dropped like a table, and holds nothing" => views::live;
    "views-and-tables": "a name stands for a view or for a table, and what is for tables is not for views" => views::are_no_tables;
    "flawed": "what nothing of its kind can have, or nobody could read back, is not created" => views::flawed;
    "pointer": "a metadata pointer moves if it is where it was seen, and stays otherwise" => views::pointer;
    "numbered-pointer": "a numbered table can have a metadata pointer, and is a numbered table still" => views::numbered_pointer;
    "assertions": "a request of assertions alone makes no version, and is refused where one does not hold" => views::assertions;
    "asserted-changes": "what is asserted beside changes is decided with them, whole or not at all" => views::asserted_changes;

    "listing-order": "a listing has what is directly in a namespace, by name" => pages::order;
    "listing-pages": "pages of a listing follow one another, whatever became of the name that one ended with" => pages::follow;
    "listing-root": "the root lists namespaces, tables and views, numbered ones in their places" => pages::root;
    "large": "an entry of a mebibyte is kept" => pages::large;
    "too-large": "an entry that is larger than may be is refused, and nothing else of the catalog suffers" => pages::too_large;
}

#[cfg(test)]
mod tests;
