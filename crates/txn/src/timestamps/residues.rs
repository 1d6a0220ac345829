//! Which start timestamps does a client get, so that its outcomes share a row and those of other clients do not?
//!
//! Tickets put a start timestamp into the row of its remainder by the number of rows. A client whose start timestamps
//! all have one remainder writes all its outcomes to one row: its writes can be one batch, and do not meet those of
//! clients with other remainders.

use std::sync::{Arc, Mutex, PoisonError};

/// Timestamps with this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residue {
    /// At least 1: the rows of a quantum.
    pub modulus: u64,
    /// Below `modulus`.
    pub remainder: u64,
}

/// The remainders by one modulus, and how many clients have each.
#[derive(Clone, Debug)]
pub struct Residues(Arc<Mutex<Vec<u64>>>);

/// The remainder of one client, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    residue: Residue,
    residues: Residues,
}

impl Residues {
    /// For tickets with so many rows a quantum.
    ///
    /// # Panics
    /// Where `rows` is 0, or more than memory holds.
    #[must_use]
    pub fn new(rows: u64) -> Self {
        assert!(rows > 0, "a quantum has a row at least");
        Self(Arc::new(Mutex::new(vec![0; usize::try_from(rows).unwrap_or(usize::MAX)])))
    }

    /// A remainder that fewest clients have; `random` chooses among these.
    #[must_use]
    pub fn lease(&self, random: u64) -> Lease {
        let mut clients = self.clients();
        let fewest = clients.iter().min().copied().unwrap_or(0);
        let free = clients.iter().filter(|count| **count == fewest).count() as u64;
        let chosen = (random % free.max(1)) as usize;
        let place = clients.iter().enumerate().filter(|(_, count)| **count == fewest).nth(chosen);
        let place = place.map_or(0, |(place, _)| place);
        clients[place] += 1;
        Lease { residue: Residue { modulus: clients.len() as u64, remainder: place as u64 }, residues: self.clone() }
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The remainder.
    #[must_use]
    pub fn residue(&self) -> Residue {
        self.residue
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.residues.clients()[self.residue.remainder as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_spread_over_rows_and_fill_gaps() {
        let residues = Residues::new(4);
        let mut leases: Vec<_> = (0..8).map(|random| residues.lease(random * 7)).collect();
        let mut counts = [0; 4];
        leases.iter().for_each(|lease| counts[lease.residue().remainder as usize] += 1);
        assert_eq!(counts, [2; 4]);
        let gone = leases.remove(3).residue();
        assert_eq!(residues.lease(99).residue(), gone);
    }
}
