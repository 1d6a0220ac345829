//! What was published, and what a commit of the original consists of: data, each number with its source.

use std::collections::BTreeMap;

use glidepath_model::Span;
use serde::Deserialize;

const FILE: &str = "versioned-manifest.toml";
const TEXT: &str = include_str!("../../../../../experiments/published/versioned-manifest.toml");

/// The published sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What requests and processors cost, beside the store's profile.
    pub costs: Costs,
    /// Where each of the costs comes from.
    pub sources: BTreeMap<String, String>,
    /// What a commit writes, by the number of rows.
    pub sizes: Vec<Sizes>,
    /// The first table: one process.
    pub continuous: Vec<Continuous>,
    /// The other three: many processes.
    pub concurrent: Vec<Concurrent>,
}

/// How a client of the original goes about it, and what its work takes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Tries after the first.
    pub retries: u64,
    /// The wait after a lost try, times the number of the try.
    pub wait_per_try: Span,
    /// An object that is no larger is read by one request.
    pub whole_up_to_bytes: u64,
    /// Larger ones are read in ranges of this size.
    pub range_bytes: u64,
    /// An object of this size or more is sent in parts of this size.
    pub part_bytes: u64,
    /// What each MiB adds to the median of a read.
    pub read_per_mib: Span,
    /// The client's own work in each try.
    pub processor_per_commit: Span,
    /// The same, for each row.
    pub processor_per_row: Span,
    /// For each row of indices that are built anew.
    pub index_processor_per_row: Span,
}

/// What one commit writes.
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

/// Many processes; the lists go together.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrent {
    /// Rows in the catalog.
    pub rows: u64,
    /// With three indices.
    pub indexed: bool,
    /// How many processes.
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
    /// It is not as it should be.
    pub fn load() -> Result<Self, PublishedError> {
        Ok(toml::from_str(TEXT)?)
    }

    /// What a commit writes at so many rows; of the nearest size there is, scaled, where it is not one of the published.
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
