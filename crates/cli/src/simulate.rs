//! `glidepath simulate`: runs an experiment, or one load.

mod report;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use glidepath_lab::experiment::{DEFAULT_PRESET, Experiment};
use glidepath_lab::pictures;
use glidepath_lab::report as page;
use glidepath_lab::runner::{self, Ended, JOURNAL, Keeping, Progress, Results, Running};
use glidepath_lab::schema::{Provenance, write_results};
use glidepath_lab::summary::RunSummary;

use crate::failure::Failure;
use crate::folder;
use crate::interrupt::{ended_by_interrupt, on_interrupt};
use crate::load_options::LoadOptions;
use crate::origin::command_line;
use crate::output::{counted, print};
use crate::progress::Display;
use crate::threads::Threads;

/// Simulate an experiment, or one load
///
/// With an experiment, results go into a folder, and finished runs are kept: give the same command again to continue.
/// Without an experiment, simulates the load that the options describe, with the preset "iceberg" unless you choose
/// another.
#[derive(Args)]
pub(crate) struct Arguments {
    /// An experiment (see `glidepath experiments`), or the path of a file
    #[arg(value_name = "EXPERIMENT or FILE.toml")]
    experiment: Option<String>,
    #[command(flatten)]
    load: LoadOptions,
    /// The folder for results [default: results/NAME; for one load, none]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// A quick, coarse answer: one seed, fewer points
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    threads: Threads,
    /// Also write a row for each transaction
    #[arg(long)]
    transactions: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut overrides = arguments.load.overrides()?;
    overrides.quick = arguments.quick;
    let experiment = match &arguments.experiment {
        Some(name) => Experiment::load(name, &overrides)?,
        None => {
            let preset = overrides.preset.get_or_insert_with(|| DEFAULT_PRESET.to_owned()).clone();
            Experiment::of_preset(&preset, &overrides)?
        }
    };
    arguments.load.rate_holds(&experiment)?;
    let folder = place(&arguments, &experiment);
    if arguments.transactions && folder.is_none() {
        return Err(Failure::Mistake("--transactions needs a folder to write to: add --out FOLDER".to_owned()));
    }
    if let Some(folder) = &folder {
        folder::claim(
            folder,
            &folder::label_of(
                "simulate",
                (arguments.experiment.as_deref(), &experiment.name),
                arguments.quick,
                &arguments.load,
            ),
        )?;
    }
    let began = Instant::now();
    let (results, found) = simulate(&arguments, &experiment, folder.as_deref())?;
    let summary = RunSummary::of(&experiment, &results);
    let single = arguments.experiment.is_none() && experiment.axes.is_empty();
    match (arguments.json, single) {
        (true, true) => report::print_load(&experiment, &summary)?,
        (true, false) => report::print_experiment(&experiment, &summary)?,
        (false, true) => print(&tables::load(&experiment, &summary))?,
        (false, false) => print(&tables::on_screen(&experiment, &summary))?,
    }
    if let Some(folder) = &folder {
        write_all(&experiment, &results, &summary, folder)?;
        if !arguments.json {
            let seconds = began.elapsed().as_secs_f64();
            let kept = if found > 0 { format!(" ({found} of them kept from before)") } else { String::new() };
            print(&format!(
                "{}{kept} in {seconds:.1} s; all results are in {}: open report.html there",
                counted(experiment.runs() as u64, "run"),
                folder.display()
            ))?;
        }
    }
    Ok(())
}

/// The folder for results. Coarse results go to another one, so that they are not mistaken for full ones.
fn place(arguments: &Arguments, experiment: &Experiment) -> Option<PathBuf> {
    let named = arguments.experiment.is_some();
    let coarse = if arguments.quick { "-quick" } else { "" };
    let default = || named.then(|| Path::new("results").join(format!("{}{coarse}", experiment.name)));
    arguments.out.clone().or_else(default)
}

/// The results, and how many runs were kept from before.
fn simulate(
    arguments: &Arguments,
    experiment: &Experiment,
    folder: Option<&Path>,
) -> Result<(Results, usize), Failure> {
    let provenance = provenance();
    let keeping = match folder {
        None => None,
        Some(folder) => Some(Keeping {
            journal: runner::journal(folder)?,
            transactions: arguments.transactions.then_some(folder),
            provenance: &provenance,
        }),
    };
    let threads = arguments.threads.count();
    let stop = if folder.is_some() { on_interrupt()? } else { ended_by_interrupt()? };
    let display = Display::new();
    let mut found = 0;
    let mut progress = |progress: Progress| {
        found = progress.found;
        display.runs(progress);
    };
    let running = Running { threads, stop, progress: &mut progress };
    let ended = runner::run(experiment, keeping, running)?;
    drop(display);
    match ended {
        Ended::Complete(results) => Ok((results, found)),
        Ended::Stopped(progress) => Err(Failure::Interrupted(match folder {
            None => "Stopped.".to_owned(),
            Some(folder) => format!(
                "Stopped after {} of {} runs, which are kept in {}. To continue, give the same command again:\n  {}",
                progress.done,
                progress.total,
                folder.join(JOURNAL).display(),
                command_line(),
            ),
        })),
    }
}

fn provenance() -> Provenance {
    Provenance { git_revision: crate::GIT_REVISION.to_owned() }
}

/// Writes all results of an experiment into its folder.
fn write_all(experiment: &Experiment, results: &Results, summary: &RunSummary, folder: &Path) -> Result<(), Failure> {
    write_results(folder, experiment, results, &provenance())?;
    let path = folder.join("table.txt");
    std::fs::write(&path, format!("{}\n", tables::all_points(experiment, summary)))
        .map_err(|cause| Failure::Failed(format!("{}: cannot write this file: {cause}", path.display())))?;
    write_pictures(experiment, summary, folder)
}

/// Draws the charts that the experiment's axes allow, and writes the page.
fn write_pictures(experiment: &Experiment, summary: &RunSummary, folder: &Path) -> Result<(), Failure> {
    let drawn = pictures::draw(pictures::plan(experiment, summary))?;
    pictures::write(&folder.join("pictures"), &drawn)?;
    Ok(page::write(folder, experiment, (summary, &drawn), &provenance())?)
}
