//! The choice of the tables and partitions that a transaction writes.

use glidepath_env::{DrawRng, unit_interval};
use glidepath_model::{PartitionId, TableId};
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use smallvec::SmallVec;

use crate::spec::{Choice, Tables};

/// Chooses tables and partitions as a workload says, in a few nanoseconds each.
pub struct TablePicker {
    tables: Picker,
    partitions: Picker,
}

enum Picker {
    Uniform(u32),
    Weighted(WeightedAliasIndex<f64>),
}

impl TablePicker {
    /// A picker for these tables.
    #[must_use]
    pub fn new(tables: &Tables) -> Self {
        Self {
            tables: Picker::new(tables.choice, tables.count),
            partitions: Picker::new(tables.partition_choice, tables.partitions),
        }
    }

    /// `count` different tables, in rising order. `count` must not exceed the number of tables.
    pub fn tables(&self, count: u32, draw: impl FnMut() -> u64) -> SmallVec<[TableId; 1]> {
        self.tables.distinct(count, draw).into_iter().map(TableId).collect()
    }

    /// `count` different partitions of a table, in rising order. `count` must not exceed the number of partitions.
    pub fn partitions(&self, count: u32, draw: impl FnMut() -> u64) -> SmallVec<[PartitionId; 1]> {
        self.partitions.distinct(count, draw).into_iter().map(PartitionId).collect()
    }
}

impl Picker {
    fn new(choice: Choice, count: u32) -> Self {
        match choice {
            Choice::Uniform => Self::Uniform(count),
            Choice::Zipf(exponent) => {
                let weights = (1..=count).map(|rank| libm::pow(f64::from(rank), -exponent)).collect();
                // Weights are positive and finite for every exponent that a spec may have.
                WeightedAliasIndex::new(weights).map_or(Self::Uniform(count), Self::Weighted)
            }
        }
    }

    fn pick(&self, draw: &mut impl FnMut() -> u64) -> u32 {
        match self {
            Self::Uniform(1) => 0,
            Self::Uniform(count) => (unit_interval(draw()) * f64::from(*count)) as u32,
            Self::Weighted(index) => index.sample(&mut DrawRng(draw)) as u32,
        }
    }

    /// Picks until there are enough different ones: like drawing without replacement. If the remaining ones are so
    /// improbable that this would not end, takes the most probable of them.
    fn distinct(&self, count: u32, mut draw: impl FnMut() -> u64) -> SmallVec<[u32; 1]> {
        let mut picked = SmallVec::<[u32; 1]>::new();
        let mut misses = 0;
        while picked.len() < count as usize {
            let rest = (0..).find(|n| !picked.contains(n)).filter(|_| misses > MOST_MISSES);
            let pick = rest.unwrap_or_else(|| self.pick(&mut draw));
            match picked.binary_search(&pick) {
                Ok(_) => misses += 1,
                Err(place) => picked.insert(place, pick),
            }
        }
        picked
    }
}

const MOST_MISSES: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn counter() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
        }
    }

    #[test]
    fn zipf_shares_are_those_of_the_formula() {
        let picker = Picker::new(Choice::Zipf(1.5), 50);
        let mut draw = counter();
        let mut counts = [0_u32; 50];
        (0..200_000).for_each(|_| counts[picker.pick(&mut draw) as usize] += 1);
        let norm: f64 = (1..=50).map(|k| f64::from(k).powf(-1.5)).sum();
        for rank in [1, 2, 3, 10, 50] {
            let expected = f64::from(rank as u32).powf(-1.5) / norm;
            let found = f64::from(counts[rank - 1]) / 200_000.0;
            assert!((found - expected).abs() < 0.01, "rank {rank}: {found}, not {expected}");
        }
    }

    #[test]
    fn picks_are_different_and_in_order_even_where_some_are_hopeless() {
        let picker = Picker::new(Choice::Zipf(10.0), 30);
        let picked = picker.distinct(30, counter());
        assert_eq!(picked.to_vec(), (0..30).collect::<Vec<_>>());
    }
}
