//! What does a store cost, and what can it do? A TOML file in which every number names its source.

use glidepath_env::Capabilities;
use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::latency::Latency;

/// A store's latencies and capabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it describes, for people.
    pub title: String,
    /// Where the numbers come from, as a whole.
    pub source: String,
    /// Unguarded reads.
    pub get: OperationProfile,
    /// Unguarded writes.
    pub put: OperationProfile,
    /// Guarded writes, whether they succeed or not.
    pub conditional_put: OperationProfile,
    /// Appends at an offset; absent where the store cannot append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append: Option<OperationProfile>,
    /// Whether the latencies of guarded writes include reading the current state. Those of the published measurements
    /// seem to: otherwise their latencies and failure rates are inconsistent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latency_includes_read: bool,
    /// Whether only a catalog is kept there, and no files of tables: true of databases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub catalogs_only: bool,
    /// The limit on writes to one object; absent if none was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_cap: Option<RateCap>,
    /// When it was measured and what else the measurement allows; absent where it was not measured by this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// Date and uncertainty of a measured profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The day in UTC, as in 2026-11-21.
    pub date: String,
    /// The file of [`crate::Alternatives`], beside that of the profile; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<String>,
}

/// A limit on the guarded writes to one object. A write beyond it is refused before any effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Copy)]
#[serde(deny_unknown_fields)]
pub struct RateCap {
    /// The rate in the long run.
    pub writes_per_s: f64,
    /// Writes accepted at once after a pause.
    pub burst: f64,
}

/// The latency of one operation: lognormal, `max(floor, (median + per_mib x MiB) x exp(sigma x Z))`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationProfile {
    /// For an empty object.
    pub median: Span,
    /// What each MiB that is written adds to the median.
    #[serde(default)]
    pub per_mib: Span,
    /// Standard deviation of the logarithm. 0: always the median.
    #[serde(default)]
    pub sigma: f64,
    /// The least latency.
    #[serde(default)]
    pub floor: Span,
    /// Where these numbers come from: measurement, date, region; or "assumed", and why. (Empty in
    /// [`crate::Alternatives`] only: the profile's sources apply.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Of guarded writes: what was measured with several writers on one object, by rising number of writers. If
    /// present, it replaces median, sigma and floor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contended: Vec<ContendedProfile>,
    /// With `contended`: how long after it was sent a write takes effect. Default and maximum: half of the shortest
    /// round trip in `contended`. Fitted if with the default more writes would fail than were measured to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_after: Option<Span>,
    /// Of guarded writes: the share of its own round trip after which a write takes effect (with `contended`: of the
    /// shortest that it could have, at any number of writers, whether it wins or loses). Replaces `effect_after` and
    /// the store's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_share: Option<f64>,
}

/// Guarded writes to one object by this number of writers in a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContendedProfile {
    /// How many.
    pub writers: u32,
    /// A write that arrives within this time after the last winner is refused, whatever its guard. Fitted to the
    /// measured failure rate.
    #[serde(default)]
    pub hold: Span,
    /// Round trips of writes that won.
    pub success: Distribution,
    /// Round trips of writes that did not; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Distribution>,
}

/// Why a text is not a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or not of this shape.
    #[error(transparent)]
    Shape(#[from] toml::de::Error),
    /// A number out of its range.
    #[error("{field}: found {found}; allowed: {allowed}")]
    Range {
        /// The field, as written in the file.
        field: String,
        /// The value found.
        found: String,
        /// The values allowed.
        allowed: &'static str,
    },
}

impl Profile {
    /// Reads a profile and checks it.
    ///
    /// # Errors
    /// [`ProfileError`] names the field, what was found and what is allowed.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text)?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        for (name, operation) in self.operations() {
            if operation.source.is_empty() {
                return Err(range(format!("{name}.source"), "nothing", "where the numbers come from, or \"assumed\""));
            }
        }
        if let Some(measured) = &self.measured {
            measured.check()?;
        }
        self.check_numbers()
    }

    /// All checks except those of the sources.
    pub(crate) fn check_numbers(&self) -> Result<(), ProfileError> {
        self.operations().try_for_each(|(name, operation)| operation.check(name))?;
        for (name, operation) in [("get", &self.get), ("put", &self.put)] {
            if !operation.contended.is_empty() {
                return Err(range(format!("{name}.contended"), "it", "only in conditional_put and append"));
            }
        }
        let Some(RateCap { writes_per_s, burst }) = self.rate_cap else { return Ok(()) };
        if !(writes_per_s > 0.0 && writes_per_s.is_finite()) {
            return Err(range("rate_cap.writes_per_s".to_owned(), &writes_per_s.to_string(), "above 0"));
        }
        if !(1.0..1e6).contains(&burst) {
            return Err(range("rate_cap.burst".to_owned(), &burst.to_string(), "1 to 1000000"));
        }
        if self.conditional_put.contended.is_empty() {
            return Err(range("rate_cap".to_owned(), "it", "only beside conditional_put.contended"));
        }
        Ok(())
    }

    /// A store in which every operation takes the same time: the "instant" catalog of the published experiments.
    #[must_use]
    pub fn constant(latency: Span) -> Self {
        let source = "a parameter of the experiment".to_owned();
        let operation = OperationProfile {
            median: latency,
            per_mib: Span::ZERO,
            sigma: 0.0,
            floor: Span::ZERO,
            source,
            contended: Vec::new(),
            effect_after: None,
            effect_share: None,
        };
        Self {
            title: format!("a store that answers in {latency}"),
            source: operation.source.clone(),
            get: operation.clone(),
            put: operation.clone(),
            conditional_put: operation.clone(),
            append: Some(operation),
            latency_includes_read: false,
            catalogs_only: false,
            rate_cap: None,
            measured: None,
        }
    }

    /// What the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: self.append.is_some(), delivers_once: true }
    }

    /// The operations by name.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationProfile)> {
        [("get", &self.get), ("put", &self.put), ("conditional_put", &self.conditional_put)]
            .into_iter()
            .chain(self.append.as_ref().map(|operation| ("append", operation)))
    }
}

impl Measured {
    fn check(&self) -> Result<(), ProfileError> {
        let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<&str> = self.date.split('-').collect();
        let is_date = matches!(parts[..], [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2));
        if !is_date {
            return Err(range("measured.date".to_owned(), &self.date, "a day such as 2026-11-21"));
        }
        match &self.alternatives {
            Some(file) if file.is_empty() || file.contains(['/', '\\']) => {
                Err(range("measured.alternatives".to_owned(), file, "the name of a file in the folder of the profile"))
            }
            _ => Ok(()),
        }
    }
}

impl OperationProfile {
    /// The distribution that this describes.
    #[must_use]
    pub fn latency(&self) -> Latency {
        let Self { median, per_mib, sigma, floor, .. } = *self;
        Latency { base: median, per_mib, sigma, floor }
    }

    fn check(&self, name: &str) -> Result<(), ProfileError> {
        // At 5 the 99th percentile is 100,000 times the median: a larger sigma is a typing error.
        if !(0.0..=5.0).contains(&self.sigma) {
            let allowed = "0 to 5 (the standard deviation of the logarithm of the latency)";
            return Err(range(format!("{name}.sigma"), &self.sigma.to_string(), allowed));
        }
        if self.effect_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            let found = self.effect_share.unwrap_or_default().to_string();
            return Err(range(format!("{name}.effect_share"), &found, "0 to 1 (a share of the round trip)"));
        }
        let rising = self.contended.windows(2).all(|pair| pair[0].writers < pair[1].writers);
        if !rising || self.contended.first().is_some_and(|knot| knot.writers == 0) {
            let found: Vec<_> = self.contended.iter().map(|knot| knot.writers.to_string()).collect();
            return Err(range(format!("{name}.contended.writers"), &found.join(", "), "rising, from 1"));
        }
        self.contended.iter().try_for_each(|knot| knot.check(name))
    }
}

impl ContendedProfile {
    fn check(&self, name: &str) -> Result<(), ProfileError> {
        for (outcome, distribution) in [("success", Some(&self.success)), ("failure", self.failure.as_ref())] {
            let Some(distribution) = distribution else { continue };
            distribution.check().map_err(|(field, found, allowed)| {
                range(format!("{name}.contended (writers = {}).{outcome}{field}", self.writers), &found, allowed)
            })?;
        }
        Ok(())
    }
}

pub(crate) fn range(field: String, found: &str, allowed: &'static str) -> ProfileError {
    ProfileError::Range { field, found: found.to_owned(), allowed }
}
