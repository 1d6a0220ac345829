//! Random numbers of a seed.

use std::cell::Cell;

/// SplitMix64.
pub(crate) struct Luck(Cell<u64>);

impl Luck {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub(crate) fn draw(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.0.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }

    pub(crate) fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
