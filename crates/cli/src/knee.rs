//! `glidepath knee`: which commit rate is sustained, what binds there, and what would raise it?

mod report;

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use clap::Args;
use glidepath_lab::Point;
use glidepath_lab::experiment::{DEFAULT_PRESET, Experiment};
use glidepath_lab::knee::{self, Answer, KneeError, KneeOptions, Progress, Provider};
use glidepath_lab::library::{Shelf, profile};
use glidepath_model::Span;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;
use crate::load_options::LoadOptions;
use crate::output::{print, print_json};

/// Find the highest commit rate that is sustained, what binds there, and what would raise it
///
/// The load is raised until fewer than the threshold succeed (of validated overwrites, where there are any), then bisected.
/// What binds, and what each change would buy, is simulated too. The same question always has the same answer.
#[derive(Args)]
#[command(mut_arg("inter_arrival", |option| option.hide(true).value_parser(no_inter_arrival)))]
pub(crate) struct Arguments {
    #[command(flatten)]
    load: LoadOptions,
    /// The share that must succeed
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    threshold: f64,
    /// Judge by the worst stretch of this length between two bursts, such as 1min
    #[arg(long, value_name = "TIME")]
    worst: Option<Span>,
    /// How near the load is found, as a share of it
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    tolerance: f64,
    /// About how long two processors may take: it decides how many transactions judge a load
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = budget)]
    budget: Duration,
    /// Runs at a time [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// The knee and what binds it, but no other changes
    #[arg(long)]
    no_what_if: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    preset: &'a str,
    provider: &'a str,
    #[serde(flatten)]
    answer: &'a Answer,
}

/// A second of the budget stands for so many events: what two processors of 2024 simulate in it, with some to spare. It is
/// a constant, and no measurement, so that the same budget gives the same answer everywhere.
pub(crate) const EVENTS_PER_SECOND: f64 = 2_000_000.0;

/// A wait shorter than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Finds and explains it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut overrides = arguments.load.overrides()?;
    let preset = overrides.preset.get_or_insert_with(|| DEFAULT_PRESET.to_owned()).clone();
    let experiment = Experiment::of_preset(&preset, &overrides)?;
    let [planned] = &experiment.points[..] else {
        let keys: Vec<&str> = experiment.axes.iter().map(|axis| axis.key.as_str()).collect();
        let message =
            format!("{}: found several values, allowed is one; `glidepath knees` takes several", keys.join(", "));
        return Err(Failure::Mistake(message));
    };
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let options = KneeOptions {
        threshold: arguments.threshold,
        tolerance: arguments.tolerance,
        worst: arguments.worst,
        seeds: overrides.seeds.map(|count| (1..=count).collect()),
        first_seed: 1,
        threads,
        events: (arguments.budget.as_secs_f64() * EVENTS_PER_SECOND) as u64,
    };
    let answer = search(&planned.point, &options, arguments.no_what_if)?;
    if arguments.json {
        let provider = &planned.point.config.provider;
        return print_json(&Report { preset: &preset, provider, answer: &answer });
    }
    print(&report::text(&preset, &planned.point, &answer))
}

fn search(point: &Point, options: &KneeOptions, no_what_if: bool) -> Result<Answer, Failure> {
    let provider = |name: &str| Ok(Provider { name: name.to_owned(), profile: profile(name)? });
    let providers = Shelf::Providers.names().map(provider).collect::<Result<Vec<_>, Failure>>()?;
    let providers = (!no_what_if).then_some(&providers[..]);
    let bar = std::io::stderr().is_terminal().then(bar);
    let began = Instant::now();
    let watch = |progress: Progress| {
        if let Some(bar) = bar.as_ref().filter(|_| began.elapsed() > PATIENCE) {
            bar.set_length(progress.searches as u64);
            bar.set_position(progress.searches_done as u64);
            bar.set_message(format!("{:.0} hours simulated", progress.simulated_s / 3600.0));
        }
    };
    let answer = knee::answer(point, options, providers, &watch);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    answer.map_err(|error| match error {
        KneeError::Spec(_) | KneeError::NothingEnds { .. } => Failure::Mistake(error.to_string()),
        KneeError::NothingTried => Failure::Failed(error.to_string()),
    })
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} searches, {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

pub(crate) fn no_inter_arrival(_: &str) -> Result<String, String> {
    Err("this is what is looked for: leave it out, or use `glidepath simulate`".to_owned())
}

pub(crate) fn budget(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error: glidepath_model::ParseQuantityError| error.to_string())?;
    let budget = Duration::from_nanos(span.as_nanos());
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    if allowed.contains(&budget) { Ok(budget) } else { Err(format!("found {span}, allowed is 1s to 24h")) }
}
