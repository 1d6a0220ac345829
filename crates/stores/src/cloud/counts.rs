//! The traffic that a store causes: requests, bytes and repeats of each operation, counted on the wire.

use std::sync::atomic::{AtomicU64, Ordering};

use glidepath_model::ByteSize;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Operation {
    /// Reading an object or a range of it.
    Get,
    /// Reading its size and tag.
    Head,
    /// Writing it.
    Put,
    /// Adding to its end.
    Append,
    /// Listing keys.
    List,
    /// Removing it.
    Delete,
    /// Fetching credentials.
    Credentials,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::Put, Self::Append, Self::List, Self::Delete, Self::Credentials];
}

/// The traffic of one operation since the store was opened, over all its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Requests sent to the network, including repeats.
    pub requests: u64,
    /// How many of them repeated an earlier one.
    pub repeats: u64,
    /// Requests that were answered with an error, or not at all. This includes lost guarded writes.
    pub failures: u64,
    /// Bodies sent; headers are not counted.
    pub sent: ByteSize,
    /// Bodies received; headers are not counted.
    pub received: ByteSize,
}

/// The traffic of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([OperationCounts; Operation::ALL.len()]);

impl Counts {
    /// The traffic of one operation.
    #[must_use]
    pub fn of(&self, operation: Operation) -> OperationCounts {
        self.0[operation as usize]
    }

    /// The traffic of all operations together.
    #[must_use]
    pub fn total(&self) -> OperationCounts {
        self.0.iter().fold(OperationCounts::default(), |sum, one| OperationCounts {
            requests: sum.requests + one.requests,
            repeats: sum.repeats + one.repeats,
            failures: sum.failures + one.failures,
            sent: sum.sent + one.sent,
            received: sum.received + one.received,
        })
    }
}

/// The counters behind [`Counts`].
#[derive(Debug, Default)]
pub(crate) struct Tally([OperationTally; Operation::ALL.len()]);

#[derive(Debug, Default)]
struct OperationTally {
    requests: AtomicU64,
    repeats: AtomicU64,
    failures: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Tally {
    pub(crate) fn request(&self, operation: Operation, sent: usize) {
        let tally = &self.0[operation as usize];
        tally.requests.fetch_add(1, Ordering::Relaxed);
        tally.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }

    pub(crate) fn repeat(&self, operation: Operation) {
        self.0[operation as usize].repeats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self, operation: Operation) {
        self.0[operation as usize].failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, operation: Operation, bytes: usize) {
        self.0[operation as usize].received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts(Operation::ALL.map(|operation| {
            let tally = &self.0[operation as usize];
            OperationCounts {
                requests: read(&tally.requests),
                repeats: read(&tally.repeats),
                failures: read(&tally.failures),
                sent: ByteSize::from_bytes(read(&tally.sent)),
                received: ByteSize::from_bytes(read(&tally.received)),
            }
        }))
    }
}
