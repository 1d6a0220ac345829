//! How long do requests occupy a processor?

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

/// Processor times of a server and its clients, which share a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// How many tasks can compute at once.
    pub processors: u32,
    /// Of a client, for each request.
    pub client_request: Span,
    /// Of a client, for the manifest of an append, and for creating its files.
    pub client_append: Span,
    /// Of a client, for each KiB of a manifest list that it writes.
    pub client_list_kib: Span,
    /// Of the server, for each request, without what follows.
    pub server_request: Span,
    /// Of the server, for each file that it writes and each request of its catalog to the store.
    pub write: Span,
    /// Of the server, for each KiB of a manifest list that it reads and compares with the one before, and of manifests.
    pub list_read_kib: Span,
    /// Of the server, for each KiB of a manifest list that it writes: to put an append on top of the table. One thread
    /// does this for all that wait at a table.
    pub list_kib: Span,
    /// Of the server, for each KiB of a metadata file that it writes, and of the clients that read it: those of
    /// `bench-server` read each version once for all.
    pub metadata_kib: Span,
    /// Of both, for each KiB of an answer.
    pub answer_kib: Span,
}

/// A file of costs that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CostsError(String);

impl Costs {
    /// Processors without end.
    #[must_use]
    pub fn none() -> Self {
        let zero = Span::ZERO;
        Self {
            processors: u32::MAX,
            client_request: zero,
            client_append: zero,
            client_list_kib: zero,
            server_request: zero,
            write: zero,
            list_read_kib: zero,
            list_kib: zero,
            metadata_kib: zero,
            answer_kib: zero,
        }
    }

    /// As measured on the machine of `docs/bench.md`; the file says how.
    ///
    /// # Panics
    /// Never: the text is the same each time, and a test reads it.
    #[must_use]
    pub fn measured() -> Self {
        Self::parse(include_str!("costs.toml")).unwrap_or_else(|error| panic!("costs.toml: {error}"))
    }

    /// Costs as TOML.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, CostsError> {
        let costs: Self = toml::from_str(text).map_err(|error| CostsError(error.to_string()))?;
        if costs.processors == 0 {
            return Err(CostsError("processors = 0; allowed: 1 or more".to_owned()));
        }
        Ok(costs)
    }

    /// This time for each KiB.
    pub(super) fn of_bytes(per_kib: Span, bytes: usize) -> Span {
        Span::from_nanos_f64(per_kib.as_nanos() as f64 * bytes as f64 / 1024.0)
    }
}
