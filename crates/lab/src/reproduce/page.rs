//! The page: every published figure beside ours.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::reproduce::{EXPERIMENTS, Figure, Judgement, Runs, Tolerance, Verdict, judge};

/// What the page says about how it was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The command that makes it again.
    pub command: String,
    /// The code it was made with.
    pub git_revision: String,
    /// Whether it is a coarse run.
    pub quick: bool,
    /// Wall time of the runs in seconds, if none was found done.
    pub seconds: Option<f64>,
}

const INTRODUCTION: &str = include_str!("introduction.md");

/// The page as Markdown.
#[must_use]
pub fn write(figures: &[Figure], runs: &Runs, made: &Made) -> String {
    let judged: Vec<(&Figure, Judgement)> =
        figures.iter().map(|figure| (figure, judge(figure, figures, runs))).collect();
    let mut page = String::from("# Reproduction of the published simulations\n\n");
    verdict(&mut page, &judged);
    about(&mut page, runs, made);
    summary(&mut page, &judged);
    page.push_str(INTRODUCTION);
    outside(&mut page, &judged);
    for experiment in EXPERIMENTS {
        table(&mut page, experiment, &judged);
    }
    page
}

/// Writing into a string cannot fail.
macro_rules! line {
    ($page:expr, $($format:tt)*) => {{ let _ = writeln!($page, $($format)*); }};
}

fn verdict(page: &mut String, judged: &[(&Figure, Judgement)]) {
    let of = |wanted: &Verdict| judged.iter().filter(|(_, judgement)| judgement.verdict == *wanted).count();
    let (all, within, outside) = (judged.len(), of(&Verdict::Within), of(&Verdict::Outside));
    line!(page, "**{within} of {all} published figures are within their tolerance; {outside} are outside.**\n");
}

fn about(page: &mut String, runs: &Runs, made: &Made) {
    let count: usize = runs.values().map(|(experiment, _)| experiment.runs()).sum();
    let hours: f64 = runs
        .values()
        .flat_map(|(experiment, _)| experiment.points.iter().map(|point| (point, experiment.seeds.len())))
        .map(|(point, seeds)| point.point.config.duration.as_secs_f64() / 3600.0 * seeds as f64)
        .sum();
    if made.quick {
        line!(
            page,
            "**A coarse run**: one seed, and only the points that figures name. For the full run, give `{}` without --quick.\n",
            made.command
        );
    }
    line!(
        page,
        "Made by `{}` at revision {}: {count} runs, {hours:.0} simulated hours.",
        made.command,
        made.git_revision
    );
    if let Some(seconds) = made.seconds {
        line!(page, "It took {:.1} minutes on this machine ({} processors).", seconds / 60.0, processors());
    }
    page.push('\n');
}

pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn summary(page: &mut String, judged: &[(&Figure, Judgement)]) {
    // In the order of the columns.
    let mut classes: BTreeMap<Tolerance, [usize; 5]> = BTreeMap::new();
    for (figure, judgement) in judged {
        classes.entry(figure.tolerance).or_default()[column(&judgement.verdict)] += 1;
    }
    line!(
        page,
        "| kind of figure | tolerance | within | as printed | on the edge | outside | nothing to compare |\n\
         |---|---|--:|--:|--:|--:|--:|"
    );
    let mut total = [0; 5];
    for (tolerance, counts) in classes {
        let (kind, allowed) = words(tolerance);
        let [within, printed, edge, outside, nothing] = counts;
        line!(page, "| {kind} | {allowed} | {within} | {printed} | {edge} | {outside} | {nothing} |");
        total.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [within, printed, edge, outside, nothing] = total;
    line!(page, "| **all** | | **{within}** | **{printed}** | **{edge}** | **{outside}** | **{nothing}** |\n");
}

fn column(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Within => 0,
        Verdict::WithinAsPrinted => 1,
        Verdict::OnTheEdge { .. } => 2,
        Verdict::Outside => 3,
        Verdict::Nothing => 4,
    }
}

fn words(tolerance: Tolerance) -> (&'static str, &'static str) {
    match tolerance {
        Tolerance::Success => ("success", "1.5 points"),
        Tolerance::Latency => ("mean, P50 and P95 latency", "5 %"),
        Tolerance::Tail => ("P99 and overwrite latency", "10 %"),
        Tolerance::Count => ("retries", "5 %"),
        Tolerance::Knee => ("knees", "the same load of the grid"),
        Tolerance::Range => ("ranges and bounds", "inside"),
        Tolerance::Loose => ("words such as \"about\"", "5 points or 25 %"),
    }
}

fn outside(page: &mut String, judged: &[(&Figure, Judgement)]) {
    page.push_str("## Figures outside their tolerance\n\n");
    let missed: Vec<_> = judged.iter().filter(|(_, judgement)| judgement.verdict != Verdict::Within).collect();
    if missed.is_empty() {
        page.push_str("None.\n\n");
        return;
    }
    page.push_str("The column \"doubt\" gives the reasons, if any, to doubt the published figure itself.");
    let explained = missed.iter().filter(|(_, judgement)| judgement.perhaps.is_some_and(|(_, within)| within)).count();
    if explained > 0 {
        line!(
            page,
            " {explained} of these are within tolerance if they are taken for the metric that they seem to be."
        );
    }
    page.push_str("\n\n");
    page.push_str("| figure | metric | published | ours | deviation | doubt |\n|---|---|--:|--:|--:|---|\n");
    for (figure, judgement) in missed {
        let (published, ours, deviation) = numbers(figure, judgement);
        let mut note = figure.note.as_deref().unwrap_or("").replace('|', "/");
        let why = match &judgement.verdict {
            Verdict::OnTheEdge { load, success_percent } => {
                format!("On the edge: with {} % at {load} our knee lies there. ", number(*success_percent))
            }
            Verdict::WithinAsPrinted => {
                "Within the tolerance of another value that is printed with the same digits. ".to_owned()
            }
            Verdict::Within | Verdict::Outside | Verdict::Nothing => String::new(),
        };
        note.insert_str(0, &why);
        if let (Some(metric), Some((ours, within))) = (&figure.perhaps, judgement.perhaps) {
            let within = if within { "within" } else { "not within" };
            line!(note, " Perhaps {metric}: ours is {}, {within} the tolerance.", number(ours));
        }
        let note = note.trim();
        line!(page, "| {} | {} | {published} | {ours} | {deviation} | {note} |", figure.id, figure.metric);
    }
    page.push('\n');
}

fn table(page: &mut String, experiment: &str, judged: &[(&Figure, Judgement)]) {
    line!(page, "## Experiment {experiment}\n");
    page.push_str(
        "| figure | source | metric | published | ours | deviation | within |\n|---|---|---|--:|--:|--:|---|\n",
    );
    for (figure, judgement) in judged.iter().filter(|(figure, _)| figure.experiment == experiment) {
        let (published, ours, deviation) = numbers(figure, judgement);
        let within = match &judgement.verdict {
            Verdict::Within => "yes".to_owned(),
            Verdict::WithinAsPrinted => "as printed".to_owned(),
            Verdict::OnTheEdge { load, success_percent } => {
                format!("on the edge: {} % at {load}", number(*success_percent))
            }
            Verdict::Outside => "**no**".to_owned(),
            Verdict::Nothing => "-".to_owned(),
        };
        let source = figure.source.replace('|', "/");
        line!(page, "| {} | {source} | {} | {published} | {ours} | {deviation} | {within} |", figure.id, figure.metric);
    }
    page.push('\n');
}

fn numbers(figure: &Figure, judgement: &Judgement) -> (String, String, String) {
    let spread = figure.published_spread.map(|spread| format!(" ± {}", number(spread))).unwrap_or_default();
    let load = |load: Option<&str>| load.map(|load| format!(" at {load}")).unwrap_or_default();
    let published = match (figure.published, figure.published_low, figure.published_high) {
        (Some(published), ..) => format!("{}{spread}{}", number(published), load(figure.knee_load())),
        (None, Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
        (None, Some(low), None) => format!("{} or more", number(low)),
        (None, None, Some(high)) => format!("{} or less", number(high)),
        (None, None, None) => "-".to_owned(),
    };
    let ours =
        judgement.ours.map_or("-".to_owned(), |ours| format!("{}{}", number(ours), load(judgement.load.as_deref())));
    let points = figure.metric.ends_with("_percent") || figure.metric.ends_with("_points");
    let deviation = match (judgement.ours, figure.published) {
        (Some(ours), Some(published)) if points => format!("{:+.1} points", ours - published),
        (Some(ours), Some(published)) if published != 0.0 => format!("{:+.1} %", 100.0 * (ours / published - 1.0)),
        _ => String::new(),
    };
    (published, ours, deviation)
}

/// Three digits, and no more than the figures have.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
