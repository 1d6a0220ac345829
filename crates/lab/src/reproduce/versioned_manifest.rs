//! Does a simulation reproduce the published sweep of commits to a versioned manifest?
//!
//! The original is a catalog in which each commit rewrites one data file. Its client is simulated request by request
//! (`peer`) on the profile `s3-standard`, once from first principles and once with three costs fitted to the published
//! one-process latencies (`fit`); the concurrent cells are never fitted. The caller provides the results of our own
//! chain for the same cells ([`Ours`]), because another crate runs it.
//!
//! Start with [`simulate`], then `peer.rs`, then [`page::write`].

mod cell;
mod drawing;
mod fit;
pub mod page;
mod peer;
mod published;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_model::Span;
use glidepath_run::parallel;
use glidepath_sim::Profile;

use cell::{CONTINUOUS, Cell, Load, World};
pub use drawing::chart;
pub use fit::Fitted;
pub use published::{Concurrent, Continuous, Costs, Published, PublishedError, Sizes};

/// The part of the sweep to run, and the number of runs.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Only these sizes; all if empty.
    pub rows: Vec<u64>,
    /// Only these numbers of writers; all if empty.
    pub writers: Vec<u32>,
    /// Runs of a cell of one process, and of one of many.
    pub seeds: (u64, u64),
}

impl Extent {
    /// All cells.
    #[must_use]
    pub fn full() -> Self {
        Self { rows: Vec::new(), writers: Vec::new(), seeds: (10, 3) }
    }

    /// A coarse run.
    #[must_use]
    pub fn quick() -> Self {
        Self { rows: vec![1_000, 100_000, 1_000_000], writers: vec![10, 200], seeds: (3, 1) }
    }
}

/// The published sweep, and its simulation.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// All published cells.
    pub published: Published,
    /// The part that was run.
    pub extent: Extent,
    /// From first principles.
    pub principles: Simulated,
    /// With costs fitted to the published latencies of one process.
    pub fitted: Simulated,
    /// Those costs.
    pub fit: Fitted,
    /// The median of a read, from the profile.
    pub read_median: Span,
}

/// The simulated cells, in the order of the published ones that were run.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// One process.
    pub continuous: Vec<Continuous>,
    /// Many processes.
    pub concurrent: Vec<Crowd>,
}

/// One cell of many processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// Rows in the catalog.
    pub rows: u64,
    /// With three indices.
    pub indexed: bool,
    /// The number of processes.
    pub writers: u32,
    /// Commits per second that landed within 30 s.
    pub commits_per_s: f64,
    /// Failed commits among those begun within 30 s, whenever they failed.
    pub errors: f64,
    /// Those of them that failed within the 30 s.
    pub errors_in_time: f64,
}

/// A cell with our manifest chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ours {
    /// Entries in the catalog.
    pub rows: u64,
    /// The number of writers.
    pub writers: u32,
    /// Whether they are threads of one process, which share commits; otherwise processes.
    pub shared: bool,
    /// Commits per second.
    pub commits_per_s: f64,
    /// Latency.
    pub p50_ms: f64,
    /// Latency.
    pub p99_ms: f64,
    /// Commits that failed.
    pub errors: u64,
}

impl Published {
    /// The selected cells of one process.
    pub fn continuous(&self, extent: &Extent) -> impl Iterator<Item = &Continuous> {
        self.continuous.iter().filter(|cell| wanted(&extent.rows, cell.rows))
    }

    /// The selected cells of many processes.
    pub fn concurrent(&self, extent: &Extent) -> impl Iterator<Item = Crowd> {
        self.concurrent.iter().filter(|cells| wanted(&extent.rows, cells.rows)).flat_map(|cells| {
            let figures = cells.writers.iter().zip(&cells.commits_per_s).zip(&cells.errors);
            let cells = figures.filter(|((writers, _), _)| wanted(&extent.writers, **writers)).map(
                |((writers, commits_per_s), errors)| {
                    let errors = *errors as f64;
                    let Concurrent { rows, indexed, .. } = *cells;
                    Crowd {
                        rows,
                        indexed,
                        writers: *writers,
                        commits_per_s: *commits_per_s,
                        errors,
                        errors_in_time: errors,
                    }
                },
            );
            cells.collect::<Vec<_>>()
        })
    }
}

fn wanted<T: PartialEq>(of: &[T], one: T) -> bool {
    of.is_empty() || of.contains(&one)
}

/// Simulates the sweep on a store of this profile, with this number of cells at a time. `None` if it was stopped.
#[must_use]
pub fn simulate(
    published: Published,
    profile: &Profile,
    extent: Extent,
    threads: NonZeroUsize,
    stop: &AtomicBool,
) -> Option<Sweep> {
    let world = World::new(profile.clone(), published.costs);
    let principles = cells(&published, &world, &extent, threads, stop)?;
    let fit = fit::fit(&published, &world, threads, stop)?;
    let fitted = cells(&published, &fit.world(&world), &extent, threads, stop)?;
    Some(Sweep { published, extent, principles, fitted, fit, read_median: profile.get.median })
}

fn cells(
    published: &Published,
    world: &World,
    extent: &Extent,
    threads: NonZeroUsize,
    stop: &AtomicBool,
) -> Option<Simulated> {
    let one: Vec<_> = published.continuous(extent).copied().collect();
    let many: Vec<_> = published.concurrent(extent).collect();
    let continuous = parallel::map(&one, threads, stop, |cell| continuous(published, world, cell, extent.seeds.0))?;
    let concurrent = parallel::map(&many, threads, stop, |cell| crowd(published, world, cell, extent.seeds.1))?;
    Some(Simulated { continuous, concurrent })
}

/// Means over this number of seeds.
fn continuous(published: &Published, world: &World, like: &Continuous, seeds: u64) -> Continuous {
    let Continuous { rows, indexed, .. } = *like;
    let cell = Cell { sizes: published.sizes(rows), indexed, load: Load::Continuous(CONTINUOUS) };
    let outcomes: Vec<_> = (1..=seeds).map(|seed| world.run(cell, seed)).collect();
    let mean = |of: &dyn Fn(&cell::CellResult) -> f64| outcomes.iter().map(of).sum::<f64>() / seeds as f64;
    Continuous {
        rows,
        indexed,
        commits_per_s: mean(&|outcome| outcome.latencies_ms.len() as f64 / outcome.took_s),
        p50_ms: mean(&|outcome| outcome.quantile_ms(0.5)),
        p99_ms: mean(&|outcome| outcome.quantile_ms(0.99)),
    }
}

fn crowd(published: &Published, world: &World, like: &Crowd, seeds: u64) -> Crowd {
    let Crowd { rows, indexed, writers, .. } = *like;
    let cell = Cell { sizes: published.sizes(rows), indexed, load: Load::Concurrent(writers) };
    let outcomes: Vec<_> = (1..=seeds).map(|seed| world.run(cell, seed)).collect();
    let mean = |of: &dyn Fn(&cell::CellResult) -> u64| outcomes.iter().map(of).sum::<u64>() as f64 / seeds as f64;
    Crowd {
        rows,
        indexed,
        writers,
        commits_per_s: mean(&|outcome| outcome.in_time) / cell::CONCURRENT.as_secs_f64(),
        errors: mean(&|outcome| outcome.errors),
        errors_in_time: mean(&|outcome| outcome.errors_in_time),
    }
}
