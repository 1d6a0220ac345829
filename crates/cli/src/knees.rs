//! `glidepath knees`: which commit rate is sustained at each point of a sweep?

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use glidepath_lab::experiment::{DEFAULT_PRESET, Experiment};
use glidepath_lab::knee::{Bound, Knee, KneeError, KneeOptions};
use glidepath_lab::knees::{self, Ended, KneesError, Running, without_load};
use glidepath_lab::schema::{Provenance, write_knees};
use glidepath_lab::{pictures, report, setting};
use glidepath_model::Span;
use glidepath_run::statistics::Spread;
use serde::Serialize;

use crate::failure::Failure;
use crate::folder;
use crate::interrupt::{ended_by_interrupt, on_interrupt};
use crate::knee::{EVENTS_PER_SECOND, budget, no_inter_arrival, no_load, share};
use crate::load_options::LoadOptions;
use crate::origin::command_line;
use crate::output::{NONE, counted, print, print_json, success, table, three_digits};
use crate::progress::Display;
use crate::threads::Threads;

/// Find the knee at each point of a sweep
///
/// Does what `glidepath knee` does for each combination of the values in an experiment, a file, or options with several
/// values; it ignores the loads of the experiment. Results go into a folder, and finished knees are kept: give the same
/// command again to continue.
#[derive(Args)]
#[command(mut_arg("inter_arrival", |option| option.hide(true).value_parser(no_inter_arrival)))]
#[command(mut_arg("rate", |option| option.hide(true).value_parser(no_inter_arrival)))]
pub(crate) struct Arguments {
    /// An experiment (see `glidepath experiments`), or the path of a file
    #[arg(value_name = "EXPERIMENT or FILE.toml")]
    experiment: Option<String>,
    #[command(flatten)]
    load: LoadOptions,
    /// The share that must succeed, such as 95% or 0.95
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = share)]
    threshold: f64,
    /// Judge by the worst stretch of this length between two bursts, such as 1min
    #[arg(long, value_name = "TIME")]
    worst: Option<Span>,
    /// Count a commit as failed unless it lands within this time, such as 10s, after its transaction's own work
    #[arg(long, value_name = "TIME")]
    commit_within: Option<Span>,
    /// The width of the bracket around each load, as a share of the load [default: 2%; with --quick 5%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tolerance: Option<f64>,
    /// The budget of each knee, all of it for the knee itself (`glidepath knee` keeps a part for other searches)
    /// [default: 10s; with --quick 2s]
    #[arg(long, value_name = "TIME", value_parser = budget)]
    budget: Option<Duration>,
    /// The folder for results [default: results/NAME-knees; without an experiment, none]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// A quick, coarse answer: fewer points, less work for each
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a str,
    title: &'a str,
    preset: &'a str,
    notes: &'a [String],
    points: Vec<Point<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    coordinates: std::collections::BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    knee: &'a Knee,
}

/// Finds them.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let experiment = experiment(arguments)?;
    let options = options(arguments)?;
    knees::check(&experiment, &options).map_err(failure)?;
    let folder = place(arguments, &experiment);
    if let Some(folder) = &folder {
        folder::claim(
            folder,
            &format!(
                "{}{}",
                folder::label_of(
                    "knees",
                    (arguments.experiment.as_deref(), &experiment.name),
                    arguments.quick,
                    &arguments.load,
                ),
                judged_by(arguments)
            ),
        )?;
    }
    let began = Instant::now();
    let knees = search(arguments, &experiment, &options, folder.as_deref())?;
    let text = text(&experiment, &knees);
    if arguments.json {
        print_json(&json(&experiment, &knees))?;
    } else {
        print(&text)?;
    }
    let Some(folder) = folder else { return Ok(()) };
    let provenance = Provenance { git_revision: crate::GIT_REVISION.to_owned() };
    write_knees(&folder, &experiment, &knees, &provenance)?;
    folder::write(&folder.join("table.txt"), &format!("{text}\n"))?;
    let drawn = pictures::draw(pictures::plan_knees(&experiment, &knees))?;
    pictures::write(&folder.join("pictures"), &drawn)?;
    report::write_knees(&folder, &experiment, (&knees, &options), &drawn, &provenance)?;
    if arguments.json {
        return Ok(());
    }
    let seconds = began.elapsed().as_secs_f64();
    print(&format!(
        "{} in {seconds:.1} s; all results are in {}: open report.html there",
        counted(knees.len() as u64, "knee"),
        folder.display()
    ))
}

/// The options that say what a knee is, for the label of a folder: with others, the results answer another question.
fn judged_by(arguments: &Arguments) -> String {
    let threshold = (arguments.threshold != 0.95).then(|| format!(" --threshold {}", arguments.threshold));
    let worst = arguments.worst.map(|worst| format!(" --worst {worst}"));
    let within = arguments.commit_within.map(|within| format!(" --commit-within {within}"));
    [threshold, worst, within].into_iter().flatten().collect()
}

/// The points of the sweep, without loads.
fn experiment(arguments: &Arguments) -> Result<Experiment, Failure> {
    let mut overrides = arguments.load.overrides()?;
    no_load(&overrides)?;
    overrides.quick = arguments.quick;
    let load = |overrides: &_| match &arguments.experiment {
        Some(name) => Experiment::load(name, overrides),
        None => Experiment::of_preset(DEFAULT_PRESET, overrides),
    };
    if arguments.experiment.is_none() {
        overrides.preset.get_or_insert_with(|| DEFAULT_PRESET.to_owned());
    }
    let mut experiment = without_load(load(&overrides)?);
    experiment.notes.clear();
    if arguments.quick {
        overrides.quick = false;
        let all = without_load(load(&overrides)?).points.len();
        experiment.notes.push(format!(
            "Coarse (--quick): {} of {all} points, less work for each. Run it without --quick before you rely on the \
             results.",
            experiment.points.len()
        ));
    }
    Ok(experiment)
}

fn options(arguments: &Arguments) -> Result<KneeOptions, Failure> {
    let usual = if arguments.quick { (0.05, 2.0) } else { (0.02, 10.0) };
    let budget_s = arguments.budget.map_or(usual.1, |budget| budget.as_secs_f64());
    Ok(KneeOptions {
        threshold: arguments.threshold,
        tolerance: arguments.tolerance.unwrap_or(usual.0),
        worst: arguments.worst,
        commit_within: arguments.commit_within,
        seeds: arguments.load.overrides()?.seeds.map(|count| (1..=count).collect()),
        events: (budget_s * EVENTS_PER_SECOND) as u64,
        ..KneeOptions::default()
    })
}

/// The folder for results. Coarse results go to another one, so that they are not mistaken for full ones.
fn place(arguments: &Arguments, experiment: &Experiment) -> Option<PathBuf> {
    let coarse = if arguments.quick { "-quick" } else { "" };
    let named = arguments.experiment.is_some();
    let default = || named.then(|| Path::new("results").join(format!("{}-knees{coarse}", experiment.name)));
    arguments.out.clone().or_else(default)
}

fn search(
    arguments: &Arguments,
    experiment: &Experiment,
    options: &KneeOptions,
    folder: Option<&Path>,
) -> Result<Vec<Knee>, Failure> {
    let journal = folder.map(knees::journal).transpose()?;
    let threads = arguments.threads.count();
    let stop = if folder.is_some() { on_interrupt()? } else { ended_by_interrupt()? };
    let display = Display::new();
    let running = Running { threads, stop, progress: &mut |done, all| display.steps(done, all, "knees", "") };
    let ended = knees::run(experiment, options, journal, running).map_err(failure)?;
    drop(display);
    match (ended, folder) {
        (Ended::Complete(knees), _) => Ok(knees),
        (Ended::Stopped { .. }, None) => Err(Failure::Interrupted("Stopped.".to_owned())),
        (Ended::Stopped { done, total }, Some(folder)) => Err(Failure::Interrupted(format!(
            "Stopped after {done} of {total} knees, which are kept in {}. To continue, give the same command again:\n  \
             {}",
            folder.join(knees::JOURNAL).display(),
            command_line(),
        ))),
    }
}

fn failure(error: KneesError) -> Failure {
    match error {
        KneesError::Knee { cause: KneeError::Spec(_) | KneeError::NothingEnds { .. }, .. } => {
            Failure::Mistake(error.to_string())
        }
        error => Failure::Failed(error.to_string()),
    }
}

fn json<'a>(experiment: &'a Experiment, knees: &'a [Knee]) -> Report<'a> {
    let point = |(planned, knee): (&'a glidepath_lab::PlannedPoint, &'a Knee)| Point {
        coordinates: planned.coordinates.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        knee,
    };
    Report {
        experiment: &experiment.name,
        title: &experiment.title,
        preset: &experiment.preset,
        notes: &experiment.notes,
        points: experiment.points.iter().zip(knees).map(point).collect(),
    }
}

/// A heading, and a row for each point.
fn text(experiment: &Experiment, knees: &[Knee]) -> String {
    let Experiment { title, description, notes, .. } = experiment;
    let threshold = knees.first().map_or(0.95, |knee| knee.threshold);
    let succeed = knees.first().and_then(|knee| knee.commit_within_s);
    let succeed = succeed.map_or_else(|| "succeed".to_owned(), |most| format!("land within {most} s"));
    let setting = format!(
        "{}. Knee: commits per second at which {:.4} % {succeed} (of validated overwrites if there are any), with its \
         95 % interval. Success, latencies and retries are those of the same transactions.",
        setting::without_load(experiment),
        100.0 * threshold
    );
    let setting = setting.replacen(".0000 %", " %", 1);
    let lines = [title, description].into_iter().filter(|line| !line.is_empty()).chain([&setting]).chain(notes);
    let mut header: Vec<String> = experiment.axes.iter().map(|axis| axis.key.clone()).collect();
    let axes = header.len();
    let numbers =
        ["knee commits/s", "95 % from", "to", "success %", "P50 s", "P95 s", "P99 s", "retries", "not ended %"];
    header.extend(numbers.map(str::to_owned));
    let row = |(planned, knee): (&glidepath_lab::PlannedPoint, &Knee)| {
        let mut row: Vec<String> = planned.coordinates.iter().map(|(_, value)| value.clone()).collect();
        row.extend(figures(knee));
        row
    };
    let rows = experiment.points.iter().zip(knees).map(row).collect();
    let heading = lines.map(String::as_str).collect::<Vec<_>>().join("\n");
    let more = match knees.iter().any(|knee| knee.bound == Bound::Unfinished) {
        true => "\nat least: the search ended before it found the knee; a larger --budget may find it",
        false => "",
    };
    format!("{heading}\n{}{more}", table(&header, axes, rows))
}

fn figures(knee: &Knee) -> [String; 9] {
    let number = |value: Option<f64>, places: usize| value.map_or(NONE.to_owned(), |value| format!("{value:.places$}"));
    let percent = |share: Option<f64>| number(share.map(|share| 100.0 * share), 1);
    let end = |index: usize| number(knee.knee_interval_commits_per_s.map(|ends| ends[index]), 2);
    let least = if knee.bound.is_lower() { "at least " } else { "" };
    let rate = match knee.bound {
        Bound::NothingHolds => "none".to_owned(),
        _ => format!("{least}{:.2}", knee.knee_commits_per_s),
    };
    let judged = knee.validated_overwrite.as_ref().unwrap_or(&knee.all);
    let latency = |value: Option<f64>| value.map_or(NONE.to_owned(), three_digits);
    [
        rate,
        end(0),
        end(1),
        success(Spread::of([knee.success])),
        latency(judged.latency_p50_s),
        latency(judged.latency_p95_s),
        latency(judged.latency_p99_s),
        number(judged.retries_mean, 2),
        percent(judged.not_ended),
    ]
}
