//! `glidepath measure compare`: two measurements side by side.

use std::path::{Path, PathBuf};

use clap::Args;
use glidepath_lab::library::read_text;
use glidepath_measure::{Measurement, comparison};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::print;

/// The file of a measurement's folder that this reads.
pub(super) const FILE: &str = "latencies.json";

/// Both folders are results of `glidepath measure --out FOLDER`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The folder of the first measurement
    #[arg(value_name = "FOLDER")]
    first: PathBuf,
    /// The folder of the second measurement
    #[arg(value_name = "FOLDER")]
    second: PathBuf,
}

/// The stored part of a measurement.
#[derive(Serialize, Deserialize)]
struct Summary {
    store: String,
    measurements: Vec<Measurement>,
}

/// The stored part of a measurement, as text.
pub(super) fn summary(store: &str, measurements: &[Measurement]) -> Result<String, Failure> {
    Ok(serde_json::to_string(&Summary { store: store.to_owned(), measurements: measurements.to_vec() })?)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    print(&comparison([&first.store, &second.store], &first.measurements, &second.measurements))
}

fn read(folder: &Path) -> Result<Summary, Failure> {
    let path = folder.join(FILE);
    let wrong = |why: String| {
        Failure::Mistake(format!("{}: {why}; give folders that `glidepath measure --out FOLDER` wrote", path.display()))
    };
    let text = read_text(&path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}
