//! Who commits, and which faults happen?

use glidepath_model::Span;
use glidepath_sim::{DiskFaults, Faults};
use serde::{Deserialize, Serialize};

/// A scenario, as in `experiments/faults/*.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For people.
    pub title: String,
    /// Who commits.
    pub writers: Writers,
    /// Faults of requests and clocks.
    #[serde(default)]
    pub faults: Faults,
    /// If given, the catalog is in files on a disk with these faults.
    #[serde(default)]
    pub disk: Option<OnDisk>,
    /// If true, the catalog is in the cells of a key-value store.
    #[serde(default)]
    pub rows: bool,
}

/// The faults of a disk. Every run ends with a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnDisk {
    /// The number of power cuts before that. After each, new processes begin.
    pub cuts: u32,
    /// The most calls before each cut, if anything is left to do.
    pub calls: u64,
    /// The faults of calls, and of the processes that make them.
    pub faults: DiskFaults,
}

impl OnDisk {
    fn checked(&self) -> Result<(), ScenarioError> {
        for (field, share) in self.faults.shares() {
            checked_share(&format!("disk.faults.{field}"), share)?;
        }
        if self.cuts > 100 || (self.cuts > 0 && self.calls == 0) {
            let (found, allowed) =
                (self.cuts.to_string(), "at most 100, each after some of at least one of `disk.calls`");
            return Err(ScenarioError::of("disk.cuts", found, allowed));
        }
        Ok(())
    }
}

fn checked_share(field: &str, share: f64) -> Result<(), ScenarioError> {
    match share {
        share if (0.0..=1.0).contains(&share) => Ok(()),
        share => Err(ScenarioError::of(field, share, "a share from 0 to 1")),
    }
}

/// Who commits what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writers {
    /// The number of writers; each is a process, or shares its knowledge with others: see `shared`.
    pub count: u32,
    /// Commits that each writer tries.
    pub commits: u32,
    /// Tables in the catalog.
    pub tables: u32,
    /// Share of the commits that change two tables.
    #[serde(default)]
    pub pairs: f64,
    /// This number of successive writers are threads of one process, which share their knowledge of the catalog.
    #[serde(default = "one")]
    pub shared: u32,
    /// The longest wait before a commit.
    pub pause: Span,
    /// This number of successive writers run on one machine, and share its clocks and its sleep.
    #[serde(default = "one")]
    pub machine: u32,
    /// The median round trip of a request without a fault.
    pub round_trip: Span,
    /// The time between two vacuums; protocols without vacuum ignore it.
    #[serde(default)]
    pub vacuum_every: Option<Span>,
    /// Copies that somebody else makes of objects of the catalog, under keys that resemble theirs.
    #[serde(default)]
    pub strange: u32,
}

fn one() -> u32 {
    1
}

/// Why a text is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, or a field that is missing, unknown or of the wrong kind.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A value that is not allowed.
    #[error("{field} is {found}: {allowed}")]
    Value {
        /// Which field.
        field: String,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: &'static str,
    },
}

impl ScenarioError {
    fn of(field: &str, found: impl ToString, allowed: &'static str) -> Self {
        Self::Value { field: field.to_owned(), found: found.to_string(), allowed }
    }
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// A field that is missing, unknown, or has a value that is not allowed; the error names it.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)?;
        scenario.checked()
    }

    /// The same, if its values are allowed.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn checked(self) -> Result<Self, ScenarioError> {
        let writers = &self.writers;
        let counts = [
            ("writers.count", writers.count, 1000),
            ("writers.commits", writers.commits, 100_000),
            ("writers.tables", writers.tables, 10_000),
            ("writers.shared", writers.shared, 1000),
            ("writers.machine", writers.machine, 1000),
        ];
        if writers.strange > 100_000 {
            return Err(ScenarioError::of("writers.strange", writers.strange, "at most 100000"));
        }
        for (field, found, most) in counts {
            if found == 0 || found > most {
                let allowed = "a whole number from 1 on, at most 1000 writers, 100000 commits, 10000 tables";
                return Err(ScenarioError::of(field, found, allowed));
            }
        }
        if let Some(disk) = &self.disk {
            disk.checked()?;
            if self.faults != Faults::default() {
                let allowed = "absent if there is `disk`: without a network there are no requests";
                return Err(ScenarioError::of("faults", "given", allowed));
            }
        }
        if writers.strange > 0 && (self.rows || self.disk.is_some()) {
            let allowed = "0 if there is `disk` or `rows`: copies are made in an object store";
            return Err(ScenarioError::of("writers.strange", writers.strange, allowed));
        }
        if self.rows && self.disk.is_some() {
            let allowed = "false if there is `disk`: a catalog is in one place";
            return Err(ScenarioError::of("rows", "true", allowed));
        }
        let faults = &self.faults;
        if !(0.0..=0.5).contains(&faults.clock_drift) {
            return Err(ScenarioError::of("faults.clock_drift", faults.clock_drift, "a share from 0 to 0.5"));
        }
        checked_share("writers.pairs", writers.pairs)?;
        for (field, share) in faults.shares() {
            checked_share(&format!("faults.{field}"), share)?;
        }
        let sum: f64 = faults.shares().map(|(_, share)| share).sum();
        if sum > 1.0 {
            let allowed = "a request has at most one fault, so together at most 1";
            return Err(ScenarioError::of("the sum of faults", sum, allowed));
        }
        if writers.round_trip == Span::ZERO {
            let allowed = "more than 0";
            return Err(ScenarioError::of("writers.round_trip", "0s", allowed));
        }
        Ok(self)
    }
}
