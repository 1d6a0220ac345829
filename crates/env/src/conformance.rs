//! Tests whether a store keeps the contract of [`ObjectStore`]. The contract is a list of named points; each can be
//! tested against any store, simulated or live.
//!
//! The suite has no runtime and spawns nothing: its futures run wherever those of the store run. A broken point is
//! returned as a value, so that a server's known deviations can be listed by name. Start with [`POINTS`] and
//! [`run_all`].
//!
//! Effects of faults (lost answers, crashes) are not tested here: a healthy store leaves nothing unknown, and an
//! unknown outcome is reported as a violation.

/// The list of points, each with its name and its test.
macro_rules! points {
    ($store:path, $trial:ident; $($name:literal: $rule:literal => $try:path;)*) => {
        /// The contract, point by point.
        pub const POINTS: &[Point] = &[$(Point { name: $name, rule: $rule },)*];

        async fn run<S: $store>(name: &str, trial: &$trial<'_, S>) -> Result<(), Broken> {
            match name {
                $($name => $try(trial).await,)*
                _ => panic!("the conformance suite has no point {name:?}"),
            }
        }
    };
}

mod appends;
mod contents;
mod guards;
pub mod kv;
mod listing;
mod races;
mod trial;

use std::fmt;

use crate::{Key, ObjectStore};
use trial::{Broken, Trial};

/// One point of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its permanent name, such as `stale-tag-loses`.
    pub name: &'static str,
    /// What a store must do.
    pub rule: &'static str,
}

/// A point that a store breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The point.
    pub point: Point,
    /// What the store did instead.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point: Point { name, rule }, found } = self;
        write!(f, "{name}: {found} (the rule: {rule})")
    }
}

/// Tests every point and returns the broken ones. [`check`] explains the parameters.
pub async fn run_all<S: ObjectStore>(handles: &[S], scratch: &Key) -> Vec<Violation> {
    let mut violations = Vec::new();
    for point in POINTS {
        violations.extend(check(handles, scratch, point).await.err());
    }
    violations
}

/// Tests one point of [`POINTS`] under keys that begin with `scratch`. No other program may use these keys meanwhile,
/// and none may exist before. The test deletes what it wrote where the store can.
///
/// All `handles` are on one store. Points about one writer use the first; points about many use all in turn, with their
/// requests in flight at the same time. (In a simulation one process must then run in the mode in which every operation
/// is an event.) Points about an operation that the store reports as unsupported pass.
///
/// # Errors
/// A [`Violation`] if the store breaks the point.
///
/// # Panics
/// If there is no handle, or `point` is none of [`POINTS`].
pub async fn check<S: ObjectStore>(handles: &[S], scratch: &Key, point: &Point) -> Result<(), Violation> {
    assert!(!handles.is_empty(), "the conformance suite needs a handle on the store");
    let trial = Trial::new(handles, format!("{scratch}/{}/", point.name));
    let result = run(point.name, &trial).await;
    trial.clean_up().await;
    result.map_err(|Broken(found)| Violation { point: *point, found })
}

points! {
    ObjectStore, Trial;

    "absent-creates": "a put guarded by absence creates the object" => guards::absent_creates;
    "absent-loses": "a put guarded by absence is lost where there is an object" => guards::absent_loses;
    "matches-replaces": "a put guarded by the current tag replaces the object" => guards::matches_replaces;
    "stale-tag-loses": "a put guarded by an earlier tag is lost" => guards::stale_tag_loses;
    "matches-missing-loses": "a put guarded by a tag is lost where there is no object" => guards::matches_missing_loses;
    "unguarded-replaces": "a put without a guard replaces whatever there is" => guards::unguarded_replaces;
    "lost-changes-nothing": "a lost put leaves content and tag as they were" => guards::lost_changes_nothing;
    "tags-change": "each write of other content gives a tag that the object did not have before" => guards::tags_change;
    "tags-agree": "put, get, ranged get and head name the same state by the same tag" => guards::tags_agree;
    "tags-outlive-deletes": "a tag from before a delete matches no later object of other content"
        => guards::tags_outlive_deletes;

    "read-after-write": "a read that begins after a write was acknowledged sees it" => contents::read_after_write;
    "empty-body": "an object may be empty" => contents::empty_body;
    "large-body": "an object of 5 MiB comes back as it was written" => contents::large_body;
    "any-bytes": "every value of a byte comes back as it was written" => contents::any_bytes;
    "filler-is-zeros": "filler counts as zeros after the content" => contents::filler_is_zeros;
    "odd-keys": "keys may hold spaces, signs and any letters" => contents::odd_keys;
    "long-keys": "parts of a key may be 200 bytes long" => contents::long_keys;
    "dots-and-slashes": "parts of a key may be `.`, `..` or empty" => contents::dots_and_slashes;
    "key-within-key": "a key may continue another key after a slash" => contents::key_within_key;
    "range-middle": "a ranged read gives exactly the bytes of the range" => contents::range_middle;
    "range-cut": "a ranged read is cut short where the object ends" => contents::range_cut;
    "range-beyond": "a ranged read that begins at or beyond the end gives no bytes" => contents::range_beyond;
    "written-at": "head gives the time at which the object was last written, by a clock that does not go back"
        => contents::written_at;
    "missing": "get, ranged get and head of a missing key say that it is not found" => contents::missing;
    "delete-removes": "a deleted object is not found" => contents::delete_removes;
    "delete-missing": "deleting a missing key is a success" => contents::delete_missing;
    "absent-after-delete": "after a delete a guard by absence holds" => contents::absent_after_delete;

    "list-order": "a listing is in the byte order of the keys" => listing::order;
    "list-prefix": "a prefix is a plain string: it need not end at a slash" => listing::prefix;
    "list-after": "a listing begins after `after`, which need not exist" => listing::after;
    "list-limit": "a page holds at most `limit` objects, and says when there are more" => listing::limit;
    "list-sizes": "a listing gives the sizes that head gives" => listing::sizes;
    "list-after-write": "a listing shows acknowledged writes and deletes" => listing::after_write;
    "list-folder": "a listing of a folder is that of its prefix" => listing::folder;

    "append-refused": "a store that cannot append refuses to, and writes nothing" => appends::refused;
    "append-creates": "an append at 0 creates a missing object" => appends::creates;
    "append-extends": "an append at the end adds to the object and returns its new end" => appends::extends;
    "append-elsewhere-loses": "an append before or beyond the end is lost and changes nothing"
        => appends::elsewhere_loses;
    "append-missing-loses": "an append beyond 0 to a missing object is lost" => appends::missing_loses;
    "append-after-put": "an object that was put can be appended to" => appends::after_put;
    "append-changes-tag": "an append changes the tag, and guards go by the new one" => appends::changes_tag;
    "append-filler": "appended filler counts as zeros" => appends::filler;

    "race-creators": "of 16 creators of one object exactly one wins" => races::creators;
    "race-increments": "of 16 writers that each replace one object 10 times by put-if-match, every replacement counts"
        => races::increments;
    "race-appenders": "of 16 appenders to one object exactly one wins each offset" => races::appenders;
}
