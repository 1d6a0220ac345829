//! Which three costs bring the simulation nearest to the published latencies of one process?
//!
//! No text says where the published runs were made and how fast their processors were. So three costs are fitted: the
//! median of a read on that day from that machine, and the client's time for each row, without and with indices.
//! Everything else is unchanged.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_model::Span;
use glidepath_run::parallel;

use super::cell::World;
use super::published::Published;
use super::{Extent, continuous};

/// The fitted costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// The median of a read, in milliseconds.
    pub read_median_ms: f64,
    /// Per row of each try, in nanoseconds.
    pub per_row_ns: f64,
    /// Per row of building indices, in nanoseconds.
    pub index_per_row_ns: f64,
}

/// Rounds over the three costs. The third changes each by a few per cent at most.
const ROUNDS: usize = 3;

/// Steps of one search; each narrows the interval to 62 %.
const STEPS: usize = 9;

impl Fitted {
    fn of(world: &World) -> Self {
        Self {
            read_median_ms: world.profile.get.median.as_millis_f64(),
            per_row_ns: world.costs.processor_per_row.as_nanos() as f64,
            index_per_row_ns: world.costs.index_processor_per_row.as_nanos() as f64,
        }
    }

    /// The same setup with these costs.
    pub(super) fn world(&self, world: &World) -> World {
        let mut world = world.clone();
        world.profile.get.median = Span::from_nanos_f64(self.read_median_ms * 1e6);
        world.costs.processor_per_row = Span::from_nanos_f64(self.per_row_ns);
        world.costs.index_processor_per_row = Span::from_nanos_f64(self.index_per_row_ns);
        world
    }

    fn with(mut self, which: usize, value: f64) -> Self {
        *[&mut self.read_median_ms, &mut self.per_row_ns, &mut self.index_per_row_ns][which] = value;
        self
    }
}

/// Least squares of the logarithms of the medians, one cost after another by golden sections. `None` if it was stopped.
pub(super) fn fit(published: &Published, world: &World, threads: NonZeroUsize, stop: &AtomicBool) -> Option<Fitted> {
    let distance = |fitted: Fitted| {
        let world = fitted.world(world);
        let cells: Vec<_> = published.continuous(&Extent::full()).copied().collect();
        // Always the same seed, so that only the costs make a difference.
        let found = parallel::map(&cells, threads, stop, |cell| continuous(published, &world, cell, 1))?;
        let pairs = cells.iter().zip(&found);
        Some(pairs.map(|(published, found)| (found.p50_ms / published.p50_ms).ln().powi(2)).sum::<f64>())
    };
    let ranges = [(10.0, 40.0), (0.0, 3000.0), (0.0, 3000.0)];
    let mut best = Fitted::of(world);
    for _ in 0..ROUNDS {
        for (which, range) in ranges.into_iter().enumerate() {
            best = best.with(which, golden(range, |value| distance(best.with(which, value)))?);
        }
    }
    Some(best)
}

/// The minimum of a function with one minimum.
fn golden((mut low, mut high): (f64, f64), of: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let part = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (high - part * (high - low), low + part * (high - low));
    let (mut at_left, mut at_right) = (of(left)?, of(right)?);
    for _ in 0..STEPS {
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - part * (high - low);
            at_left = of(left)?;
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + part * (high - low);
            at_right = of(right)?;
        }
    }
    Some(f64::midpoint(low, high))
}
