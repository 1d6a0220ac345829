//! `glidepath reproduce`: are the published figures reproduced?

mod versioned_manifest;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Args;
use glidepath_lab::experiment::{Experiment, Overrides};
use glidepath_lab::reproduce::page::{self, Judged, Made, Pages};
use glidepath_lab::reproduce::{EXPERIMENTS, Runs, Verdict, figures, judge};
use glidepath_lab::runner::{self, Ended, Keeping, Running};
use glidepath_lab::schema::Provenance;
use glidepath_lab::summary::RunSummary;

use crate::failure::Failure;
use crate::interrupt::on_interrupt;
use crate::output::{complain, print};
use crate::progress::Display;
use crate::threads::Threads;

/// Run all published experiments, and compare every published figure with ours
///
/// Finished runs are kept: after Ctrl-C, give the same command again to continue. (The sweep of the versioned manifest,
/// which takes a minute or two, starts from the beginning.)
#[derive(Args)]
pub(crate) struct Arguments {
    /// Reproduce only this part
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// The file for the page; its tables and pictures go next to it, and without --only the page of the versioned
    /// manifest, too [default: docs/reproduction.md; with --quick, results/reproduce-quick/reproduction.md]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A quick, coarse answer: one seed, and only the points that figures name; only a few cells of the versioned
    /// manifest
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    threads: Threads,
    /// The folder for results
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    results: PathBuf,
}

/// A part of the reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The published contention simulations
    Simulations,
    /// The published sweep of commits to a versioned manifest on S3
    VersionedManifest,
}

/// The suffix of the page of the versioned manifest.
const BEHIND: &str = "-versioned-manifest";

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Where a part's page goes.
    fn page(&self, part: Part) -> PathBuf {
        let usual = match self.quick {
            true => "results/reproduce-quick/reproduction.md",
            false => "docs/reproduction.md",
        };
        match (part, &self.out) {
            (Part::Simulations, out) => out.clone().unwrap_or_else(|| usual.into()),
            (Part::VersionedManifest, Some(out)) if self.only.is_some() => out.clone(),
            (Part::VersionedManifest, out) => {
                let beside = out.as_deref().unwrap_or(Path::new(usual));
                let stem = beside.file_stem().unwrap_or_default().to_string_lossy();
                beside.with_file_name(format!("{stem}{BEHIND}.md"))
            }
        }
    }

    /// The command that makes the page.
    fn command(&self) -> String {
        let only = match self.only {
            None => "",
            Some(Part::Simulations) => " --only simulations",
            Some(Part::VersionedManifest) => " --only versioned-manifest",
        };
        format!("glidepath reproduce{only}{}", if self.quick { " --quick" } else { "" })
    }
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parts = [Part::Simulations, Part::VersionedManifest].into_iter().filter(|part| arguments.wants(*part));
    // An error is reported now, not after a quarter of an hour.
    for part in parts.clone() {
        writable(&arguments.page(part))?;
    }
    let stop = on_interrupt()?;
    for part in parts {
        match part {
            Part::Simulations => simulations(arguments, stop)?,
            Part::VersionedManifest => versioned_manifest::run(arguments, stop)?,
        }
    }
    Ok(())
}

fn unwritable(file: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |cause| Failure::Failed(format!("{}: cannot write this file: {cause}", file.display()))
}

fn writable(file: &Path) -> Result<(), Failure> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(unwritable(file))?;
    }
    let open = |is_new: bool| std::fs::OpenOptions::new().append(true).create_new(is_new).open(file);
    match open(true) {
        // An empty one would be left if this is stopped.
        Ok(_) => std::fs::remove_file(file).map_err(unwritable(file)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            open(false).map(drop).map_err(unwritable(file))
        }
        Err(error) => Err(unwritable(file)(error)),
    }
}

fn simulations(arguments: &Arguments, stop: &'static AtomicBool) -> Result<(), Failure> {
    let out = arguments.page(Part::Simulations);
    let figures = figures().map_err(|error| Failure::Failed(error.to_string()))?;
    let began = Instant::now();
    let (runs, found) = simulate(arguments, stop)?;
    let made = Made {
        command: arguments.command(),
        git_revision: crate::GIT_REVISION.to_owned(),
        quick: arguments.quick,
        seconds: (found == 0).then(|| began.elapsed().as_secs_f64()),
    };
    let judged: Vec<Judged<'_>> = figures.iter().map(|figure| (figure, judge(figure, &figures, &runs))).collect();
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    write_all(&out, &page::write(&judged, &runs, &made, &stem))?;
    let count = |is: fn(&Verdict) -> bool| judged.iter().filter(|(_, judgement)| is(&judgement.verdict)).count();
    let within = count(|verdict| *verdict == Verdict::Within);
    let as_printed = count(|verdict| *verdict == Verdict::WithinAsPrinted);
    let edge = count(|verdict| matches!(verdict, Verdict::OnTheEdge { .. }));
    print(&format!(
        "{within} of {} published figures within tolerance, {as_printed} as printed, {edge} on the edge; see {}",
        figures.len(),
        out.display()
    ))
}

/// Writes the page, and next to it the tables and the pictures.
fn write_all(out: &Path, pages: &Pages) -> Result<(), Failure> {
    for (name, chart) in &pages.pictures {
        let path = out.with_file_name(name);
        std::fs::write(&path, chart.svg()?).map_err(unwritable(&path))?;
    }
    let tables = out.with_file_name(&pages.tables_name);
    std::fs::write(&tables, &pages.tables).map_err(unwritable(&tables))?;
    std::fs::write(out, &pages.summary).map_err(unwritable(out))
}

/// Runs the experiments, and counts finished runs from the journal.
fn simulate(arguments: &Arguments, stop: &'static AtomicBool) -> Result<(Runs, usize), Failure> {
    let threads = arguments.threads.count();
    let provenance = Provenance { git_revision: crate::GIT_REVISION.to_owned() };
    let (mut runs, mut found) = (Runs::new(), 0);
    for name in EXPERIMENTS {
        let mut experiment = Experiment::load(name, &Overrides::default())?;
        let folder = if arguments.quick {
            narrow(&mut experiment)?;
            arguments.results.join("reproduce-quick").join(name)
        } else {
            arguments.results.join(name)
        };
        complain(&format!("Experiment {name}: {} runs", experiment.runs()));
        let keeping = Keeping { journal: runner::journal(&folder)?, transactions: None, provenance: &provenance };
        let display = Display::new();
        let mut before = 0;
        let mut progress = |progress: runner::Progress| {
            before = progress.found;
            display.runs(progress);
        };
        let running = Running { threads, stop, progress: &mut progress };
        match runner::run(&experiment, Some(keeping), running)? {
            Ended::Complete(results) => {
                let summary = RunSummary::of(&experiment, &results);
                runs.insert(name.to_owned(), (experiment, summary));
            }
            Ended::Stopped(_) => {
                let message = "Stopped; finished runs are kept. Give the same command again to continue.".to_owned();
                return Err(Failure::Interrupted(message));
            }
        }
        found += before;
    }
    Ok((runs, found))
}

/// One seed, and only points that figures name.
fn narrow(experiment: &mut Experiment) -> Result<(), Failure> {
    let figures = figures().map_err(|error| Failure::Failed(error.to_string()))?;
    let named = |point: &glidepath_lab::PlannedPoint| {
        figures.iter().any(|figure| figure.experiment == experiment.name && figure.is_about(&point.coordinates))
    };
    experiment.points = experiment.points.iter().filter(|point| named(point)).cloned().collect();
    experiment.seeds.truncate(1);
    Ok(())
}
