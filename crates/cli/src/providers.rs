//! `glidepath providers`: the latencies and capabilities of stores, with sources.

use std::collections::BTreeMap;

use clap::Args;
use glidepath_lab::library::{Shelf, profile};
use glidepath_model::Span;
use glidepath_page::digits;
use glidepath_sim::{OperationProfile, Profile};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, print_json, table};

/// List the provider profiles, with the source of each number
#[derive(Args)]
pub(crate) struct Arguments {
    /// Names or files of profiles [default: those that ship with the program]
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
    /// Whether it keeps no files of tables.
    catalogs_only: bool,
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
            let Profile { title, source, catalogs_only, .. } = profile;
            Store { provider, title, source, catalogs_only, operations }
        };
        return print_json(&profiles.into_iter().map(store).collect::<Vec<_>>());
    }
    let mut sources = Vec::new();
    let mut rows = Vec::new();
    for (profile, name) in &profiles {
        for (operation, costs) in profile.operations() {
            rows.push(row(name, operation, costs, &mut sources));
        }
    }
    let header = ["provider", "operation", "source", "median ms", "per MiB ms", "sigma", "floor ms"].map(str::to_owned);
    print(&table(&header, 3, rows))?;
    let databases: Vec<&str> =
        profiles.iter().filter(|(profile, _)| profile.catalogs_only).map(|(_, name)| name.as_str()).collect();
    if !databases.is_empty() {
        let words = format!("{}: for catalogs only, as in --set catalog.store={}.", databases.join(", "), databases[0]);
        print(&format!("\n{}", wrapped(&words, WIDTH)))?;
    }
    print(
        "\nA request takes max(floor, (median + per MiB x size) x exp(sigma x Z)) with Z standard normal.\n\nSources:",
    )?;
    for (index, source) in sources.iter().enumerate() {
        print(&wrapped(&format!("[{}] {source}", index + 1), WIDTH))?;
    }
    Ok(())
}

/// The longest line of a text.
const WIDTH: usize = 100;

/// A line of the table. Sources are named by their number, from 1.
fn row(name: &str, operation: &str, costs: &OperationProfile, sources: &mut Vec<String>) -> Vec<String> {
    let OperationProfile { median, per_mib, sigma, floor, source, .. } = costs;
    let known = sources.iter().position(|known| known == source);
    let number = known.unwrap_or_else(|| {
        sources.push(source.clone());
        sources.len() - 1
    });
    let millis = |span: &Span| match span.as_millis_f64() {
        // Of a local disk.
        little if little > 0.0 && little < 1.0 => digits(little),
        millis => format!("{millis:.1}"),
    };
    let source = format!("[{}]", number + 1);
    vec![
        name.to_owned(),
        operation.to_owned(),
        source,
        millis(median),
        millis(per_mib),
        sigma.to_string(),
        millis(floor),
    ]
}

/// Breaks a text between words; lines after the first are indented.
fn wrapped(text: &str, width: usize) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, format!("   {word}")));
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.push(line);
    lines.join("\n")
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
