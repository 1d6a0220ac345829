//! The published cells, and the requests of a commit of the original: data, each number with its source.

use std::collections::BTreeMap;

use glidepath_model::Span;
use serde::Deserialize;

const FILE: &str = "versioned-manifest.toml";
const TEXT: &str = include_str!("../../../../../experiments/published/versioned-manifest.toml");

/// The published sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Costs of requests and processors that are not in the store's profile.
    pub costs: Costs,
    /// The source of each cost.
    pub sources: BTreeMap<String, String>,
    /// The bytes that a commit writes, by the number of rows.
    pub sizes: Vec<Sizes>,
    /// The first table: one process.
    pub continuous: Vec<Continuous>,
    /// The other three: many processes.
    pub concurrent: Vec<Concurrent>,
}

/// The steps of a client of the original, and their costs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Tries after the first.
    pub retries: u64,
    /// The wait after a lost try, times the number of the try.
    pub wait_per_try: Span,
    /// An object of at most this size is read by one request.
    pub whole_up_to_bytes: u64,
    /// Larger ones are read in ranges of this size.
    pub range_bytes: u64,
    /// An object of this size or more is sent in parts of this size.
    pub part_bytes: u64,
    /// The time that each MiB adds to the median of a read.
    pub read_per_mib: Span,
    /// The client's own work in each try.
    pub processor_per_commit: Span,
    /// The same, for each row.
    pub processor_per_row: Span,
    /// For each row of new indices.
    pub index_processor_per_row: Span,
}

/// The bytes that one commit writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Rows in the catalog.
    pub rows: u64,
    /// The data file.
    pub data_bytes: u64,
    /// The pages of the index by object id.
    pub index_bytes: u64,
    /// Its table of pages.
    pub lookup_bytes: u64,
    /// The two other indices together.
    pub bitmap_bytes: u64,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continuous {
    /// Rows in the catalog.
    pub rows: u64,
    /// With three indices.
    pub indexed: bool,
    /// Commits per second.
    pub commits_per_s: f64,
    /// Latency.
    pub p50_ms: f64,
    /// Latency.
    pub p99_ms: f64,
}

/// Many processes; the lists have the same order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrent {
    /// Rows in the catalog.
    pub rows: u64,
    /// With three indices.
    pub indexed: bool,
    /// The numbers of processes.
    pub writers: Vec<u32>,
    /// Commits per second, all together.
    pub commits_per_s: Vec<f64>,
    /// Commits that failed.
    pub errors: Vec<u64>,
}

/// The published sweep cannot be read: a mistake in a file that comes with Glidepath.
#[derive(Debug, thiserror::Error)]
#[error("{FILE}: {0}")]
pub struct PublishedError(#[from] toml::de::Error);

impl Published {
    /// Reads what comes with Glidepath.
    ///
    /// # Errors
    /// The file is invalid.
    pub fn load() -> Result<Self, PublishedError> {
        Ok(toml::from_str(TEXT)?)
    }

    /// The bytes that a commit writes at this number of rows; scaled from the nearest published size if it is not one
    /// of them.
    #[must_use]
    pub fn sizes(&self, rows: u64) -> Sizes {
        let nearest = self.sizes.iter().min_by_key(|sizes| sizes.rows.abs_diff(rows)).copied();
        let Some(near) = nearest.filter(|near| near.rows > 0) else { return Sizes::empty() };
        let scaled = |bytes: u64| bytes * rows / near.rows;
        let Sizes { data_bytes, index_bytes, lookup_bytes, bitmap_bytes, .. } = near;
        Sizes {
            rows,
            data_bytes: scaled(data_bytes),
            index_bytes: scaled(index_bytes),
            lookup_bytes: scaled(lookup_bytes),
            bitmap_bytes: scaled(bitmap_bytes),
        }
    }
}

impl Sizes {
    const fn empty() -> Self {
        Self { rows: 0, data_bytes: 0, index_bytes: 0, lookup_bytes: 0, bitmap_bytes: 0 }
    }
}
