//! `glidepath reproduce`: do the published figures come out?

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use glidepath_lab::experiment::{Experiment, Overrides};
use glidepath_lab::journal::Journal;
use glidepath_lab::reproduce::page::{self, Made};
use glidepath_lab::reproduce::{EXPERIMENTS, Runs, figures, judge};
use glidepath_lab::runner::{self, Ended, Keeping, Running};
use glidepath_lab::schema::Provenance;
use glidepath_lab::summary::RunSummary;

use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::output::print;
use crate::progress::Display;

/// Run all published experiments, and write every published figure beside ours
///
/// What is done is kept: after Ctrl-C, run it again and it continues.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Where the page goes [default: docs/reproduction.md; with --quick, results/reproduce-quick/reproduction.md]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A coarse answer soon: one seed, and only the points that figures name
    #[arg(long)]
    quick: bool,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Where results are kept
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    results: PathBuf,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out.clone().unwrap_or_else(|| match arguments.quick {
        true => Path::new("results/reproduce-quick/reproduction.md").to_owned(),
        false => Path::new("docs/reproduction.md").to_owned(),
    });
    // Found out now, not after a quarter of an hour.
    let unwritable =
        |cause: std::io::Error| Failure::Failed(format!("{}: cannot write this file: {cause}", out.display()));
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder).map_err(unwritable)?;
    }
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&out).map_err(unwritable)?;
    drop(file);
    let figures = figures().map_err(|error| Failure::Failed(error.to_string()))?;
    let began = Instant::now();
    let (runs, found) = simulate(arguments)?;
    let made = Made {
        command: format!("glidepath reproduce{}", if arguments.quick { " --quick" } else { "" }),
        git_revision: crate::GIT_REVISION.to_owned(),
        quick: arguments.quick,
        seconds: (found == 0).then(|| began.elapsed().as_secs_f64()),
    };
    std::fs::write(&out, page::write(&figures, &runs, &made)).map_err(unwritable)?;
    let within = figures.iter().filter(|figure| judge(figure, &runs).within == Some(true)).count();
    print(&format!("{within} of {} published figures within tolerance; see {}", figures.len(), out.display()))?;
    Ok(())
}

/// Runs the experiments, and counts what was found done.
fn simulate(arguments: &Arguments) -> Result<(Runs, usize), Failure> {
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let (stop, provenance) = (on_interrupt()?, Provenance { git_revision: crate::GIT_REVISION.to_owned() });
    let (mut runs, mut found) = (Runs::new(), 0);
    for name in EXPERIMENTS {
        let mut experiment = Experiment::load(name, &Overrides::default())?;
        let folder = if arguments.quick {
            narrow(&mut experiment)?;
            arguments.results.join("reproduce-quick").join(name)
        } else {
            arguments.results.join(name)
        };
        eprintln!("Experiment {name}: {} runs", experiment.runs());
        let keeping = Keeping { journal: Journal::open(&folder)?, transactions: None, provenance: &provenance };
        let mut display = Display::new();
        let mut before = 0;
        let mut progress = |progress: runner::Progress| {
            before = progress.found;
            display.show(progress);
        };
        let running = Running { threads, stop, progress: &mut progress };
        match runner::run(&experiment, Some(keeping), running)? {
            Ended::Complete(results) => {
                let summary = RunSummary::of(&experiment, &results);
                runs.insert(name.to_owned(), (experiment, summary));
            }
            Ended::Stopped(_) => {
                let message = "Stopped; what is done is kept. Give the same command again to continue.".to_owned();
                return Err(Failure::Interrupted(message));
            }
        }
        found += before;
    }
    Ok((runs, found))
}

/// One seed, and only points that a figure is about.
fn narrow(experiment: &mut Experiment) -> Result<(), Failure> {
    let figures = figures().map_err(|error| Failure::Failed(error.to_string()))?;
    let named = |point: &glidepath_lab::PlannedPoint| {
        figures.iter().any(|figure| figure.experiment == experiment.name && figure.is_about(&point.coordinates))
    };
    experiment.points = experiment.points.iter().filter(|point| named(point)).cloned().collect();
    experiment.seeds.truncate(1);
    Ok(())
}
