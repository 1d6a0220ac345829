//! The options for load and store, which also override fields of an experiment.

use clap::Args;
use glidepath_lab::experiment::{Overrides, Setting};

use crate::failure::Failure;

/// What is simulated. An option that takes several values, separated by commas, tries all of them.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "What is simulated")]
pub(crate) struct LoadOptions {
    /// The base configuration: iceberg, published-2026-03, published-2026-06, or a file
    #[arg(long, value_name = "NAME or FILE")]
    preset: Option<String>,
    /// The store: a name (see `glidepath providers`) or a profile file
    #[arg(long, visible_alias = "profile", value_name = "NAME or FILE,...")]
    provider: Option<String>,
    /// The number of tables in the catalog
    #[arg(long, value_name = "COUNT,...")]
    tables: Option<String>,
    /// The share of fast appends, 0 to 1; the others are validated overwrites
    #[arg(long, value_name = "SHARE,...")]
    fast_append: Option<String>,
    /// The time between arrivals, such as 20ms (the preset says whether it is the mean or the median)
    #[arg(long, value_name = "TIME,...")]
    inter_arrival: Option<String>,
    /// The time of every request to the catalog; "none": the catalog is an object in the provider's store
    #[arg(long, value_name = "TIME,...")]
    catalog_latency: Option<String>,
    /// The simulated time; results count the arrivals in its middle half
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Any other field: --set retry.retries=4 --set tables.choice='{ zipf = 1.5 }'; "none" removes an optional one
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// The number of seeds for each point
    #[arg(long, value_name = "COUNT")]
    seeds: Option<u64>,
}

impl LoadOptions {
    /// The options as overrides.
    pub(crate) fn overrides(&self) -> Result<Overrides, Failure> {
        let number = |option: &str, key: &str, value: &Option<String>| {
            value.as_deref().map(|value| Setting::of_option(option, key, value))
        };
        let text = |option: &str, key: &str, value: &Option<String>| {
            value.as_deref().map(|value| Setting::of_text_option(option, key, value))
        };
        let options = [
            text("--provider", "provider", &self.provider),
            number("--tables", "tables.count", &self.tables),
            number("--fast-append", "transaction.fast_append", &self.fast_append),
            text("--catalog-latency", "catalog.latency", &self.catalog_latency),
            text("--duration", "duration", &self.duration),
            text("--inter-arrival", "arrivals.scale", &self.inter_arrival),
        ];
        let mut settings: Vec<Setting> = options.into_iter().flatten().collect();
        for assignment in &self.set {
            settings.push(Setting::parse(assignment)?);
        }
        Ok(Overrides { preset: self.preset.clone(), seeds: self.seeds, quick: false, settings })
    }
}
