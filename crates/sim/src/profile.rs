//! What a store costs and can do, as data: a TOML file in which every number names its source.

use glidepath_env::Capabilities;
use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::latency::Latency;

/// A store's latencies and capabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is a profile of, for people.
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
    /// No request takes less.
    #[serde(default)]
    pub floor: Span,
    /// Where these numbers come from: measurement, date, region; or "assumed", and why.
    pub source: String,
}

/// Why a text is not a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or not of this shape.
    #[error(transparent)]
    Shape(#[from] toml::de::Error),
    /// A number out of its range.
    #[error("{field}: found {found}, allowed is {allowed}")]
    Range {
        /// As written in the file.
        field: String,
        /// What the file says.
        found: String,
        /// What it may say.
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
        profile.operations().try_for_each(|(name, operation)| operation.check(name))?;
        Ok(profile)
    }

    /// A store whose every operation takes the same time: the "instant" catalog of the published experiments.
    #[must_use]
    pub fn constant(latency: Span) -> Self {
        let source = "a parameter of the experiment".to_owned();
        let operation =
            OperationProfile { median: latency, per_mib: Span::ZERO, sigma: 0.0, floor: Span::ZERO, source };
        Self {
            title: format!("a store that answers in {latency}"),
            source: operation.source.clone(),
            get: operation.clone(),
            put: operation.clone(),
            conditional_put: operation.clone(),
            append: Some(operation),
        }
    }

    /// What the store can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: self.append.is_some() }
    }

    /// The operations by name.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, &OperationProfile)> {
        [("get", &self.get), ("put", &self.put), ("conditional_put", &self.conditional_put)]
            .into_iter()
            .chain(self.append.as_ref().map(|operation| ("append", operation)))
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
        // At 5 the 99th percentile is 100,000 times the median: beyond that a sigma is a slip of the pen.
        if (0.0..=5.0).contains(&self.sigma) {
            return Ok(());
        }
        Err(ProfileError::Range {
            field: format!("{name}.sigma"),
            found: self.sigma.to_string(),
            allowed: "0 to 5 (the standard deviation of the logarithm of the latency)",
        })
    }
}
