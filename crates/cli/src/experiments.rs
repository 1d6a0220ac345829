//! `glidepath experiments`: which experiments ship with the program?

use clap::Args;
use glidepath_lab::experiment::{Experiment, Overrides};
use glidepath_lab::library::Shelf;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, print_json, table};

/// List the experiments that ship with the program
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    name: String,
    title: String,
    description: String,
    preset: String,
    points: usize,
    seeds: usize,
}

/// Lists them.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let lines = Shelf::Experiments
        .names()
        .map(|name| {
            let experiment = Experiment::load(name, &Overrides::default())?;
            let (points, seeds) = (experiment.points.len(), experiment.seeds.len());
            let Experiment { name, title, description, preset, .. } = experiment;
            Ok(Line { name, title, description, preset, points, seeds })
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    if arguments.json {
        return print_json(&lines);
    }
    let header = ["experiment", "title", "preset", "points", "seeds"].map(str::to_owned);
    let row = |line: Line| vec![line.name, line.title, line.preset, line.points.to_string(), line.seeds.to_string()];
    print(&table(&header, 3, lines.into_iter().map(row).collect()))?;
    print(
        "Run one with `glidepath simulate NAME`, or find its knees with `glidepath knees NAME`; add --quick for a \
         coarse answer. Name a file of your own by its path.",
    )
}
