//! `glidepath knee`: which commit rate is sustained, what limits it, and what would raise it?

mod limit;
mod measured;
mod page;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use glidepath_lab::experiment::{DEFAULT_PRESET, Experiment, Overrides};
use glidepath_lab::knee::{self, Answer, Bound, KneeError, KneeOptions, MeasuredKnee, Provider};
use glidepath_lab::library::{Shelf, alternatives, profile};
use glidepath_model::Span;
use glidepath_point::Point;
use glidepath_sim::Alternatives;
use serde::Serialize;

use crate::failure::Failure;
use crate::folder;
use crate::load_options::LoadOptions;
use crate::output::{print, print_json};
use crate::progress::Display;
use crate::threads::Threads;

/// Find the highest commit rate that is sustained, what limits it, and what would raise it
///
/// Raises the load until fewer transactions than the threshold succeed (of validated overwrites, if there are any),
/// then bisects. Also simulates which resource limits the rate, and how far each change would raise it. The same
/// question always has the same answer.
#[derive(Args)]
#[command(mut_arg("inter_arrival", |option| option.hide(true).value_parser(no_inter_arrival)))]
#[command(mut_arg("rate", |option| option.hide(true).value_parser(no_inter_arrival)))]
pub(crate) struct Arguments {
    /// Belongs to `glidepath knees`
    #[arg(value_name = "EXPERIMENT", hide = true)]
    experiment: Option<String>,
    #[command(flatten)]
    load: LoadOptions,
    /// The share that must succeed, such as 95% or 0.95
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = share)]
    threshold: f64,
    /// Judge by the worst stretch of this length between two bursts, such as 1min
    #[arg(long, value_name = "TIME")]
    worst: Option<Span>,
    /// Count a commit as failed unless it lands within this time, such as 10s, after its transaction's own work. Where
    /// nothing fails and commits wait their turn, only this gives a knee
    #[arg(long, value_name = "TIME")]
    commit_within: Option<Span>,
    /// Continue until half of the 95 % interval of the knee is at most this share, such as 3% or 0.03
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = some_share)]
    within: f64,
    /// The width of the bracket around the load, as a share of the load; never more than --within
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    tolerance: f64,
    /// The total work, as the approximate time that two processors take [default: 15s; 25s with a measured profile; 30s
    /// with --sensitivity; 3min with --protocols]
    #[arg(long, value_name = "TIME", value_parser = budget)]
    budget: Option<Duration>,
    /// Also vary each assumption (runtimes, bursts, sizes, latencies), and rank them by how much they move the knee
    #[arg(long)]
    sensitivity: bool,
    /// Also try each protocol that the store can carry, and each protocol with each provider
    #[arg(long, conflicts_with = "no_what_if")]
    protocols: bool,
    #[command(flatten)]
    threads: Threads,
    /// Find the knee and what limits it, but simulate no other changes
    #[arg(long)]
    no_what_if: bool,
    /// The folder for the report and its charts [default: results/knee with --sensitivity, otherwise none]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    preset: &'a str,
    provider: &'a str,
    protocol: &'static str,
    #[serde(flatten)]
    answer: &'a Answer,
    /// The uncertainty of the knee including that of the measured profile; absent if the profile has no alternatives,
    /// or not all operations were measured.
    measurement: Option<&'a MeasuredKnee>,
    /// Operations that were not measured: the latency of a conditional put is assumed for them.
    assumed_operations: Vec<&'static str>,
    /// If the budget left a question open: one that probably suffices.
    sufficient_budget_s: Option<u64>,
}

/// The result of all searches.
struct Found {
    answer: Answer,
    measurement: Option<MeasuredKnee>,
    /// In seconds, if the budget left a question open: one that probably suffices.
    enough: Option<u64>,
    /// Settings of the point that the preset has not, and that no heading names in words.
    set: Vec<String>,
    budget: Duration,
}

impl Found {
    /// What to do about a question that the budget left open.
    fn more(&self) -> String {
        self.enough
            .map_or_else(|| "give a larger one".to_owned(), |seconds| format!("--budget {seconds}s probably suffices"))
    }
}

/// The share of the budget for the alternatives to the profile, if it has any.
const MEASUREMENT_SHARE: f64 = 0.4;

/// Events per second of the budget: two processors of 2024 simulate them in 0.67 to 0.9 s. It is a constant, so that
/// the same budget gives the same answer on every machine.
pub(crate) const EVENTS_PER_SECOND: f64 = 3_000_000.0;

/// The default folder for results.
const RESULTS: &str = "results/knee";

/// The default budgets in seconds: in general; with alternatives to a measured profile, whose searches need a part of
/// it; with assumptions to vary; with all protocols to try.
const BUDGET: [u64; 4] = [15, 25, 30, 180];

/// The largest budget.
const MOST_BUDGET: Duration = Duration::from_secs(86_400);

/// Finds and explains it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(experiment) = &arguments.experiment {
        return Err(one_load(experiment));
    }
    let mut overrides = arguments.load.overrides()?;
    no_load(&overrides)?;
    let preset = overrides.preset.get_or_insert_with(|| DEFAULT_PRESET.to_owned()).clone();
    let experiment = Experiment::of_preset(&preset, &overrides)?;
    let [planned] = &experiment.points[..] else {
        let keys: Vec<&str> = experiment.axes.iter().map(|axis| axis.key.as_str()).collect();
        let message =
            format!("{}: found several values; allowed: one. `glidepath knees` takes several", keys.join(", "));
        return Err(Failure::Mistake(message));
    };
    let threads = arguments.threads.count();
    let provider = &planned.point.config.provider;
    // Operations that were not measured have no alternatives.
    let alternatives = alternatives(provider)?.filter(|_| measured::stand_ins(&planned.point).is_empty());
    let [usual, measured, sensitive, protocols] = BUDGET;
    let usual = if alternatives.is_some() { measured } else { usual };
    let usual = if arguments.sensitivity { sensitive } else { usual };
    let usual = if arguments.protocols { protocols } else { usual };
    let budget = arguments.budget.unwrap_or(Duration::from_secs(usual));
    let options = KneeOptions {
        threshold: arguments.threshold,
        tolerance: arguments.tolerance,
        within: arguments.within,
        worst: arguments.worst,
        commit_within: arguments.commit_within,
        sensitivity: arguments.sensitivity,
        protocols: arguments.protocols,
        seeds: overrides.seeds.map(|count| (1..=count).collect()),
        first_seed: 1,
        threads,
        events: (budget.as_secs_f64() * EVENTS_PER_SECOND) as u64,
    };
    let out = arguments.out.clone().or_else(|| arguments.sensitivity.then(|| PathBuf::from(RESULTS)));
    if let Some(out) = &out {
        folder::check(out, "knee")?;
    }
    let found = search(&planned.point, &options, arguments.no_what_if, alternatives.as_ref())?;
    let found = Found { set: experiment.set.clone(), budget, ..found };
    if let Some(out) = &out {
        page::write_all(out, (&experiment, &planned.point), &found)?;
    }
    if arguments.json {
        let assumed_operations = measured::stand_ins(&planned.point);
        let protocol = planned.point.config.catalog.protocol.name();
        return print_json(&Report {
            preset: &preset,
            provider,
            protocol,
            answer: &found.answer,
            measurement: found.measurement.as_ref(),
            assumed_operations,
            sufficient_budget_s: found.enough,
        });
    }
    print(&report::text(&preset, &planned.point, &found))?;
    match out {
        Some(out) => print(&format!("\nReport: {}", out.join("report.html").display())),
        None => Ok(()),
    }
}

/// The answer to an experiment, a file or a store in place of the options.
fn one_load(experiment: &str) -> Failure {
    let found = format!("found \"{experiment}\"; `glidepath knee` takes one load, as options");
    let words = match experiment.contains("://") {
        true => format!(
            "{found}. A store is measured first: `glidepath measure {experiment}` writes its profile, and --profile takes \
             that file"
        ),
        false => {
            format!("{found}. `glidepath knees {experiment}` finds the knee at each point of an experiment or a file")
        }
    };
    Failure::Mistake(words)
}

fn search(
    point: &Point,
    options: &KneeOptions,
    no_what_if: bool,
    alternatives: Option<&Alternatives>,
) -> Result<Found, Failure> {
    let provider = |name: &str| Ok(Provider { name: name.to_owned(), profile: profile(name)? });
    let providers = Shelf::Providers.names().map(provider).collect::<Result<Vec<_>, Failure>>()?;
    let providers = (!no_what_if).then_some(&providers[..]);
    let display = Display::new();
    let watch = |progress| display.searches(progress, alternatives.map(|_| "part 1 of 2, the knee"));
    let watch_measured = |progress| display.searches(progress, Some("part 2 of 2, what the measurement leaves open"));
    let part = |share: f64| KneeOptions { events: (options.events as f64 * share) as u64, ..options.clone() };
    let rest = if alternatives.is_some() { 1.0 - MEASUREMENT_SHARE } else { 1.0 };
    let found = knee::answer(point, &part(rest), providers, &watch).and_then(|answer| {
        let measured = alternatives.map(|alternatives| {
            knee::with_measurement(point, &part(MEASUREMENT_SHARE), &answer.knee, alternatives, &watch_measured)
        });
        let measurement = measured.transpose()?.flatten();
        let unmeasured = alternatives.filter(|_| measurement.is_none() && answer.knee.bound == Bound::Found);
        let for_measurement =
            unmeasured.map(|alternatives| knee::enough_for_measurement(point, &answer.knee, alternatives));
        let events = [(answer.enough_events, rest), (for_measurement, MEASUREMENT_SHARE)];
        let seconds = events.into_iter().filter_map(|(events, share)| Some(events? as f64 / share / EVENTS_PER_SECOND));
        let enough = seconds.reduce(f64::max).map(|seconds| enough(seconds, options.events));
        Ok(Found { answer, measurement, enough, set: Vec::new(), budget: Duration::ZERO })
    });
    drop(display);
    found.map_err(|error| match error {
        KneeError::Spec(_) | KneeError::NothingEnds { .. } | KneeError::TooShort { .. } => {
            Failure::Mistake(error.to_string())
        }
        KneeError::BudgetSpent { .. } => Failure::Failed(error.to_string()),
    })
}

/// A round number of seconds, more than the budget that did not suffice.
fn enough(seconds: f64, events: u64) -> u64 {
    let given = events as f64 / EVENTS_PER_SECOND;
    let seconds = seconds.max(1.5 * given);
    let round = match seconds {
        short if short <= 10.0 => 1.0,
        short if short <= 60.0 => 5.0,
        _ => 30.0,
    };
    (((seconds / round).ceil() * round) as u64).min(MOST_BUDGET.as_secs())
}

pub(crate) fn no_inter_arrival(_: &str) -> Result<String, String> {
    Err("the search varies this value itself: leave the option out, or use `glidepath simulate`".to_owned())
}

pub(crate) fn budget(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error: glidepath_model::ParseQuantityError| error.to_string())?;
    let budget = Duration::from_nanos(span.as_nanos());
    let allowed = Duration::from_secs(1)..=MOST_BUDGET;
    if allowed.contains(&budget) { Ok(budget) } else { Err(format!("found {text}; allowed: 1s to 24h")) }
}

/// An error if an option sets the load, which the search varies.
pub(crate) fn no_load(overrides: &Overrides) -> Result<(), Failure> {
    match overrides.settings.iter().find(|setting| setting.key() == "arrivals.scale") {
        None => Ok(()),
        Some(set) => Err(Failure::Mistake(format!(
            "{}: the search varies this value itself: leave it out, or use `glidepath simulate`",
            set.origin()
        ))),
    }
}

/// A share, also as a percentage; what is allowed depends on the question.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().map(|number| number / unit);
    share.map_err(|_| "allowed: a share, such as 95% or 0.95".to_owned())
}

/// A share that is not zero, nor nearly.
fn some_share(text: &str) -> Result<f64, String> {
    let allowed = 0.001..=1.0;
    let share = share(text).ok().filter(|share| allowed.contains(share));
    share.ok_or_else(|| format!("found {text}; allowed: 0.1% to 100% (or 0.001 to 1)"))
}
