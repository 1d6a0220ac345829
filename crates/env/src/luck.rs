//! Random draws in the form that the distributions of the `rand` family take.

use std::convert::Infallible;

use rand_core::TryRng;

/// A source of draws as the distributions of `rand_distr` take it.
pub struct DrawRng<F>(pub F);

impl<F: FnMut() -> u64> TryRng for DrawRng<F> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(((self.0)() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok((self.0)())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&(self.0)().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// A uniform number in [0, 1) from 64 random bits; uses the 53 bits that a double holds.
#[must_use]
pub fn unit_interval(draw: u64) -> f64 {
    (draw >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}
