//! Which cells make up a sweep?

use glidepath_model::Span;
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::Protocol;

use crate::cell::Cell;
use crate::design::{Design, Operation, Start};
use crate::rows::MOST_CLIENTS;

/// The most entries: more would take days to fill.
const MOST_ROWS: u64 = 100_000_000;

/// The varied values, and those that all cells share.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Varied.
    pub protocols: Vec<Protocol>,
    /// Varied, for protocols that have several.
    pub layouts: Vec<Layout>,
    /// Varied, for manifest chains.
    pub indexed: Vec<bool>,
    /// Varied.
    pub operations: Vec<Operation>,
    /// Varied, for operations that read.
    pub starts: Vec<Start>,
    /// Varied.
    pub rows: Vec<u64>,
    /// Varied.
    pub writers: Vec<u32>,
    /// Varied, for operations that commit.
    pub grouped: Vec<bool>,
    /// Whether each client is a process.
    pub processes: bool,
    /// Of each trial of a cell.
    pub duration: Span,
    /// The fewest operations of each client.
    pub least: u64,
    /// Added to each request.
    pub added_latency: Span,
}

/// Why a sweep is refused. Each message begins with the field, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// No clients, or too many.
    #[error("writers: found {0}; allowed: 1 to {MOST_CLIENTS} clients at once")]
    Clients(u32),
    /// The duration is 0.
    #[error("duration: found 0; allowed: more than 0")]
    Duration,
    /// Too many entries.
    #[error("rows: found {0}; allowed: at most {MOST_ROWS} entries")]
    Rows(u64),
    /// No entries to read.
    #[error("rows: found 0; reads need at least one entry. Leave 0 out, or give --operation commit")]
    NothingToRead,
}

impl Sweep {
    /// All designs.
    fn designs(&self) -> Vec<Design> {
        let of = |protocol: &Protocol| {
            let possible = protocol.features().layouts;
            if possible.is_empty() {
                return vec![Design::of(*protocol)];
            }
            let layouts = self.layouts.iter().filter(|layout| possible.contains(layout));
            let both = layouts.flat_map(|layout| self.indexed.iter().map(move |indexed| (*layout, *indexed)));
            let design =
                |(layout, indexed)| Design { layout: Some(layout), indexed: Some(indexed), ..Design::of(*protocol) };
            both.map(design).collect()
        };
        self.protocols.iter().flat_map(of).collect()
    }

    fn check(&self) -> Result<(), SweepError> {
        if let Some(writers) = self.writers.iter().find(|writers| **writers == 0 || **writers > MOST_CLIENTS) {
            return Err(SweepError::Clients(*writers));
        }
        if self.duration == Span::ZERO {
            return Err(SweepError::Duration);
        }
        if let Some(rows) = self.rows.iter().find(|rows| **rows > MOST_ROWS) {
            return Err(SweepError::Rows(*rows));
        }
        if self.rows.contains(&0) && self.operations.iter().any(|operation| operation.reads()) {
            return Err(SweepError::NothingToRead);
        }
        Ok(())
    }

    /// All cells. Equivalent combinations occur once.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub fn cells(&self) -> Result<Vec<Cell>, SweepError> {
        self.check()?;
        let mut cells = Vec::new();
        for rows in &self.rows {
            for design in self.designs() {
                for operation in &self.operations {
                    self.of(*rows, design, *operation, &mut cells);
                }
            }
        }
        let mut once: Vec<Cell> = Vec::with_capacity(cells.len());
        for cell in cells {
            if !once.contains(&cell) {
                once.push(cell);
            }
        }
        Ok(once)
    }

    fn of(&self, rows: u64, design: Design, operation: Operation, cells: &mut Vec<Cell>) {
        // Only commits of one process can be shared, and only reads can be cold.
        let (starts, grouped) = match operation {
            Operation::Commit if self.processes => (&[Start::Warm][..], &[false][..]),
            Operation::Commit => (&[Start::Warm][..], &self.grouped[..]),
            _ => (&self.starts[..], &[false][..]),
        };
        for start in starts {
            for grouped in grouped {
                cells.extend(self.writers.iter().map(|writers| Cell {
                    design,
                    operation,
                    start: *start,
                    rows,
                    writers: *writers,
                    grouped: *grouped,
                    processes: self.processes,
                    duration: self.duration,
                    least: self.least,
                    added_latency: self.added_latency,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_apply_is_not_varied() {
        let sweep = Sweep {
            protocols: vec![Protocol::CatalogFile, Protocol::ManifestChain, Protocol::AppendLog],
            layouts: Layout::ALL.to_vec(),
            indexed: vec![true, false],
            operations: vec![Operation::Commit, Operation::List],
            starts: Start::ALL.to_vec(),
            rows: vec![10, 20, 10],
            writers: vec![1, 2, 3],
            grouped: vec![true, false],
            processes: false,
            duration: Span::from_secs(1),
            least: 1,
            added_latency: Span::ZERO,
        };
        let cells = sweep.cells().unwrap();
        let of = |design: Design| cells.iter().filter(|cell| cell.design == design).count();
        // Rows, writers, and each of: commits grouped or not, lists cold or warm.
        assert_eq!(of(Design::of(Protocol::CatalogFile)), 2 * 3 * 4);
        assert_eq!(of(Design::chain(Layout::Whole, false)), 2 * 3 * 4);
        assert_eq!(cells.len(), 2 * 3 * 4 * 6);
        let processes = Sweep { processes: true, ..sweep }.cells().unwrap();
        assert_eq!(processes.len(), 2 * 3 * 3 * 6);
        for (place, cell) in cells.iter().enumerate() {
            assert!(!cells[..place].contains(cell), "{cell:?} is there twice");
        }
    }
}
