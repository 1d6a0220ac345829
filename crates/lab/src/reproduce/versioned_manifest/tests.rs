//! The model of the original sends the same requests as the original, and reproduces some published cells.

use super::cell::CellResult;
use super::*;

fn world() -> (Published, World) {
    let published = Published::load().unwrap();
    let profile = Profile::parse(include_str!("../../../../../profiles/s3-standard.toml")).unwrap();
    let world = World::new(profile, published.costs);
    (published, world)
}

/// Requests of each commit beyond those of opening, which are two.
fn requests(rows: u64, indexed: bool) -> u64 {
    let (published, world) = world();
    let cell = Cell { sizes: published.sizes(rows), indexed, load: Load::Continuous(10) };
    let outcome = world.run(cell, 1);
    assert_eq!(outcome.latencies_ms.len(), 10);
    (outcome.requests - 2) / 10
}

#[test]
fn a_commit_alone_sends_as_many_requests_as_were_counted() {
    assert_eq!((requests(0, false), requests(0, true)), (10, 14));
    // With more than one page of the index, one more.
    assert_eq!((requests(1_000, false), requests(1_000, true)), (10, 15));
    // Beyond 64 KiB the data is read by three or four requests; twice without an index.
    assert_eq!((requests(10_000, false), requests(10_000, true)), (15, 21));
    // In ranges, and in parts: 2 + 4 reads of ranges, 6 requests for four parts.
    assert_eq!(requests(1_000_000, false), 24);
}

#[test]
fn every_published_cell_is_there() {
    let published = Published::load().unwrap();
    let full = Extent::full();
    assert_eq!((published.continuous(&full).count(), published.concurrent(&full).count()), (20, 140));
    for cells in &published.concurrent {
        assert_eq!((cells.commits_per_s.len(), cells.errors.len()), (cells.writers.len(), cells.writers.len()));
    }
    let rows: Vec<u64> = published.sizes.iter().map(|sizes| sizes.rows).collect();
    assert!(published.continuous.iter().all(|cell| rows.contains(&cell.rows)));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let (published, world) = world();
    let run = |seed| -> CellResult {
        world.run(Cell { sizes: published.sizes(1_000), indexed: true, load: Load::Concurrent(20) }, seed)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

fn assert_near(published: f64, found: f64, share: f64) {
    assert!((found / published - 1.0).abs() <= share, "{found}, published {published}");
}

/// Nothing is fitted here. At a million rows the client's work and the transfers decide, at a thousand the reads, which
/// were faster in the published runs than in the profile.
#[test]
fn one_process_from_first_principles() {
    let (published, world) = world();
    for cell in published.continuous.iter().filter(|cell| [1_000, 100_000, 1_000_000].contains(&cell.rows)) {
        let found = continuous(&published, &world, cell, 3);
        let share = if cell.rows == 1_000_000 { 0.15 } else { 0.45 };
        assert_near(cell.p50_ms, found.p50_ms, share);
    }
}

/// No cost was fitted to the concurrent cells.
#[test]
fn many_processes_from_first_principles() {
    let (published, world) = world();
    let extent = Extent { rows: vec![10_000, 200_000], writers: vec![10, 100], seeds: (1, 1) };
    for cell in published.concurrent(&extent) {
        let found = crowd(&published, &world, &cell, 2);
        assert_near(cell.commits_per_s, found.commits_per_s, 0.30);
        assert!((found.errors - cell.errors).abs() <= 10.0_f64.max(0.4 * cell.errors), "{found:?}, not {cell:?}");
    }
}

/// 21 tries at a million rows take longer than the 30 s, but the published table has 176 errors.
#[test]
fn errors_are_counted_beyond_the_time() {
    let (published, world) = world();
    let extent = Extent { rows: vec![1_000_000], writers: vec![200], seeds: (1, 1) };
    let cell = published.concurrent(&extent).find(|cell| !cell.indexed).unwrap();
    let found = crowd(&published, &world, &cell, 1);
    assert_eq!(found.errors_in_time, 0.0);
    assert_near(cell.errors, found.errors, 0.10);
}

#[test]
fn the_fit_comes_nearer() {
    let (published, world) = world();
    let (threads, stop) = (NonZeroUsize::new(2).unwrap(), AtomicBool::new(false));
    let fit = fit::fit(&published, &world, threads, &stop).unwrap();
    let off = |world: &World| {
        let cells = published.continuous.iter();
        let off = cells.map(|cell| (continuous(&published, world, cell, 1).p50_ms / cell.p50_ms).ln().abs());
        off.sum::<f64>() / published.continuous.len() as f64
    };
    let (before, after) = (off(&world), off(&fit.world(&world)));
    assert!(after < 0.12 && after < 0.6 * before, "{before}, then {after}: {fit:?}");
}
