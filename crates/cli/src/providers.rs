//! `glidepath providers`: what do the stores cost and can do, and who says so?

use std::collections::BTreeMap;

use clap::Args;
use glidepath_lab::library::{Shelf, profile};
use glidepath_sim::{OperationProfile, Profile};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, print_json, table};

/// List the provider profiles, with the source of each number
#[derive(Args)]
pub(crate) struct Arguments {
    /// A profile of your own, to see how it is read; without one, those that ship with the program
    #[arg(value_name = "NAME or FILE")]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Store {
    provider: String,
    title: String,
    source: String,
    operations: BTreeMap<&'static str, Operation>,
}

#[derive(Serialize)]
struct Operation {
    median_ms: f64,
    per_mib_ms: f64,
    sigma: f64,
    floor_ms: f64,
    source: String,
}

/// Lists them.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut names = arguments.names.clone();
    if names.is_empty() {
        names.extend(Shelf::Providers.names().map(str::to_owned));
    }
    let profiles = names.into_iter().map(|name| Ok((profile(&name)?, name))).collect::<Result<Vec<_>, Failure>>()?;
    if arguments.json {
        let store = |(profile, provider): (Profile, String)| {
            let operations = profile.operations().map(|(name, operation)| (name, operation.into())).collect();
            Store { provider, operations, title: profile.title, source: profile.source }
        };
        return print_json(&profiles.into_iter().map(store).collect::<Vec<_>>());
    }
    let header = ["provider", "operation", "median", "per MiB", "sigma", "floor", "source"].map(str::to_owned);
    let row = |name: &str, (operation, costs): (&str, &OperationProfile)| {
        let OperationProfile { median, per_mib, sigma, floor, source, .. } = costs;
        let texts = [name, operation].map(str::to_owned).into_iter();
        let numbers = [median.to_string(), per_mib.to_string(), sigma.to_string(), floor.to_string()];
        texts.chain(numbers).chain([source.clone()]).collect::<Vec<_>>()
    };
    let rows = profiles.iter().flat_map(|(profile, name)| profile.operations().map(move |pair| row(name, pair)));
    print(&table(&header, header.len(), rows.collect()))?;
    print("A request takes max(floor, (median + per MiB x size) x exp(sigma x Z)) with Z standard normal.")
}

impl From<&OperationProfile> for Operation {
    fn from(profile: &OperationProfile) -> Self {
        Self {
            median_ms: profile.median.as_millis_f64(),
            per_mib_ms: profile.per_mib.as_millis_f64(),
            sigma: profile.sigma,
            floor_ms: profile.floor.as_millis_f64(),
            source: profile.source.clone(),
        }
    }
}
