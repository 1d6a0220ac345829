//! The costs of a commit in each layout, counted in memory. Prints the table whose figures are on the protocol's page:
//!
//!     GLIDEPATH_COSTS_ROWS=1000,100000,1000000 cargo test --release -p glidepath-protocols costs_of_commits -- --nocapture

use std::time::{Duration, UNIX_EPOCH};

use glidepath_model::{Action, Entry, Name, TableState};

use super::layouts::commit;
use crate::catalog::{Catalog, Outcome};
use crate::manifest_chain::{Layout, SharedState};
use crate::tests::counted::{Counts, World, at_once};

/// Entries created per commit while the catalog is filled.
const BATCH: u64 = 25_000;

/// Commits that are counted.
const COMMITS: u64 = 20;

/// A third namespaces, the rest tables, as in the published sweep.
fn create(number: u64) -> Action {
    if number.is_multiple_of(3) {
        return Action::Create { name: Name::parse(&format!("ns_{number}")).unwrap(), entry: Entry::namespace() };
    }
    let mut entry = Entry::table(Some(format!("table_{number}")), TableState::new(1));
    entry.properties.insert("bench".to_owned(), "true".to_owned());
    Action::Create { name: Name::parse(&format!("table_{number}")).unwrap(), entry }
}

struct Measured {
    counts: Counts,
    file_bytes: u64,
    milliseconds: f64,
}

fn measured(layout: Layout, indexed: bool, rows: u64) -> Measured {
    let world = World::default();
    let chain = world.chain(SharedState::new("", 64 << 20));
    assert!(matches!(at_once(chain.create(layout, indexed)), Outcome::Committed(_)));
    for first in (0..rows).step_by(BATCH as usize) {
        commit(&chain, &[(first..rows.min(first + BATCH)).map(create).collect()]);
        if layout == Layout::Whole {
            world.forget_older(&chain);
        }
    }
    let head = at_once(chain.load()).unwrap();
    let objects = at_once(chain.objects(&head)).unwrap();
    let file_bytes = objects.iter().map(|key| world.bytes(key.as_str())).sum();
    let mut head = head;
    world.counted();
    let began = busy();
    for number in 0..COMMITS {
        let name = Name::parse(&format!("table_{}_again", number * 7919 % rows)).unwrap();
        let entry = Entry::table(Some(name.to_string()), TableState::new(1));
        let action = [Action::Create { name, entry }];
        match at_once(chain.attempt(&head, &[&action])).1 {
            crate::manifest_chain::Attempt::Ended(Outcome::Committed(next)) => head = next,
            other => panic!("{other:?}"),
        }
    }
    let milliseconds = (busy() - began).as_secs_f64() * 1e3 / COMMITS as f64;
    Measured { counts: world.counted(), file_bytes, milliseconds }
}

/// The processor time of this thread; the time of day if that is not available.
fn busy() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|told| told.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| UNIX_EPOCH.elapsed().unwrap(), Duration::from_nanos)
}

/// The sizes measured by default.
const ROWS: [u64; 2] = [500, 10_000];

fn rows() -> Vec<u64> {
    let asked = std::env::var("GLIDEPATH_COSTS_ROWS").ok();
    asked.map_or(ROWS.to_vec(), |asked| asked.split(',').map(|rows| rows.parse().unwrap()).collect())
}

#[test]
fn costs_of_commits() {
    println!("| layout | indices | rows | requests | read KB | written KB | CPU ms | bytes in store per row |");
    println!("|---|---|---|---|---|---|---|---|");
    let rows = rows();
    let each = |count: u64| count as f64 / COMMITS as f64;
    for (layout, indexed) in Layout::ALL.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let mut written = Vec::new();
        for rows in &rows {
            let Measured { counts, file_bytes, milliseconds } = measured(layout, indexed, *rows);
            println!(
                "| {} | {} | {rows} | {:.2} | {:.1} | {:.1} | {milliseconds:.2} | {:.1} |",
                layout.name(),
                if indexed { "yes" } else { "no" },
                each(counts.gets + counts.puts + counts.lists + counts.deletes),
                each(counts.read_bytes) / 1e3,
                each(counts.written_bytes) / 1e3,
                file_bytes as f64 / *rows as f64,
            );
            written.push(each(counts.written_bytes));
        }
        let (more_rows, more_written) =
            (rows[rows.len() - 1] as f64 / rows[0] as f64, written[written.len() - 1] / written[0]);
        match layout {
            // One or two levels of pages more.
            Layout::Paged => assert!(more_written < 4.0, "{more_rows} times the rows, {more_written} times the bytes"),
            Layout::Whole => {
                assert!(more_written > more_rows / 2.0, "{more_rows} times the rows, {more_written} times the bytes");
            }
        }
    }
}

/// The figures for `whole` in the table, for a few rows, so that a test fails if they change.
#[test]
fn a_whole_commit_is_three_requests_and_the_file() {
    let Measured { counts, file_bytes, .. } = measured(Layout::Whole, true, 20_000);
    // One read, one put of the part, and one of the version; in twenty commits one or two hints.
    assert!((3 * COMMITS..=3 * COMMITS + 2 + 8).contains(&(counts.gets + counts.puts)), "{counts:?}");
    assert_eq!((counts.lists, counts.deletes), (0, 0));
    let each = counts.written_bytes / COMMITS;
    assert!((file_bytes..file_bytes * 3 / 2).contains(&each), "{each} of {file_bytes}");
}
