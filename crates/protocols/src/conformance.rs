//! Tests whether a catalog keeps the rules for names that hold for every catalog. The rules are a list of named points;
//! each can be tested on any protocol, on a simulated or a live store.
//!
//! The suite has no runtime and spawns nothing. It tests what a catalog stores and refuses without faults and with no
//! other writers; simulations test faults and other writers. Start with [`POINTS`] and [`run_all`].

mod names;
mod pages;
mod tables;
mod trial;
mod views;

use std::fmt;

use crate::group::Grouped;
use trial::{Broken, Trial};

/// One rule that every catalog keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its permanent name; also the namespace in which it is tested.
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

/// Tests every point and returns the broken ones. [`check`] explains the parameters.
pub async fn run_all<C: Grouped>(writer: &C, reader: &C) -> Vec<Violation> {
    let mut violations = Vec::new();
    for point in POINTS {
        violations.extend(check(writer, reader, point).await.err());
    }
    violations
}

/// Tests one point of [`POINTS`] on a catalog in which nothing has the point's name, and without numbered tables from
/// 0xc0de0000 on. Everything is written by one handle and read by the other, which should be in another process or
/// share no state with the first. The entries written stay.
///
/// # Errors
/// A [`Violation`] if the catalog breaks the point.
///
/// # Panics
/// If `point` is none of [`POINTS`].
pub async fn check<C: Grouped>(writer: &C, reader: &C, point: &Point) -> Result<(), Violation> {
    let trial = Trial::new(writer, reader, point.name);
    run(point.name, &trial).await.map_err(|Broken(found)| Violation { point: *point, found })
}

/// The list of points, each with its test.
macro_rules! points {
    ($($name:literal: $rule:literal => $try:path;)*) => {
        /// The rules, point by point.
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
    "created-is-there": "what was created is found with everything it was created with" => names::created_is_there;
    "created-once": "a name that stands for something cannot be created again" => names::created_once;
    "parents": "what is created must be in an existing namespace" => names::parents;
    "odd-names": "a name may have any text in its parts, and 1024 bytes" => names::odd_names;
    "drop": "what is dropped must exist, be of the stated kind, and be empty" => names::drop_one;
    "drop-all": "a namespace can be dropped with everything in it, and nothing else is dropped" => names::drop_all;
    "rename": "a table or view that is renamed, also into another namespace, keeps everything else" => names::rename;
    "rename-refused": "a table or view is renamed to a free name in an existing namespace" => names::rename_refused;
    "properties": "properties are set and removed one by one; all others stay" => names::properties;
    "all-or-nothing": "a request takes effect as a whole or not at all" => names::all_or_nothing;
    "one-after-another": "each request of a batch is decided as if those before it were committed"
        => names::one_after_another;
    "nothing-to-do": "a request that changes nothing is not an error" => names::nothing_to_do;

    "expected-version": "a table is dropped only at the stated version" => tables::expected_version;
    "advance": "a table advances if every partition written is at the version that was read" => tables::advance_tables;
    "partitions": "a table has partitions, and an advance writes some" => tables::partitions;
    "numbered-is-named": "a numbered table is the entry of its name, however it was created and is kept"
        => tables::numbered_is_named;
    "numbers-as-names": "changes are refused if a numbered table's name stands for something else"
        => tables::numbers_as_names;

    "views": "a view is created, described, listed, changed and dropped like a table, and holds nothing" => views::live;
    "views-and-tables": "a name stands for a view or a table, and actions on tables are refused for views"
        => views::are_no_tables;
    "flawed": "an entry that its kind does not allow, or that could not be decoded, is not created" => views::flawed;
    "pointer": "a metadata pointer moves if it is where it was last seen, and stays otherwise" => views::pointer;
    "numbered-pointer": "a numbered table can have a metadata pointer, and is still a numbered table"
        => views::numbered_pointer;
    "assertions": "a request of assertions alone makes no version, and is refused if one does not hold"
        => views::assertions;
    "asserted-changes": "assertions beside changes are decided with them, as a whole or not at all"
        => views::asserted_changes;

    "listing-order": "a listing has the entries directly in a namespace, by name" => pages::order;
    "listing-pages": "pages of a listing follow one another, even if the last name of a page was dropped"
        => pages::follow;
    "listing-root": "the root lists namespaces, tables and views, numbered ones in their places" => pages::root;
    "large": "an entry of a mebibyte is kept" => pages::large;
    "too-large": "an entry that is too large is refused, and nothing else is affected" => pages::too_large;
}

#[cfg(test)]
mod tests;
