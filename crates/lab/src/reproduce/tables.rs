//! The tables: every published figure beside ours.

use std::fmt::Write;

use glidepath_page::signed;

use super::page::{Judged, number};
use super::{EXPERIMENTS, Figure, Judgement, Verdict};

const HOW_TO_READ: &str = include_str!("how_to_read.md");

/// Writing into a string cannot fail.
macro_rules! line {
    ($page:expr, $($format:tt)*) => {{ let _ = writeln!($page, $($format)*); }};
}

/// The page of the tables as Markdown; `summary` is the name of the other page.
pub(super) fn write(judged: &[Judged<'_>], summary: &str) -> String {
    let mut page = String::from("# Tables of the reproduction of the published simulations\n\n");
    line!(
        page,
        "Every published figure beside ours. [{summary}]({summary}) has the summary, and how these were made.\n"
    );
    page.push_str(HOW_TO_READ);
    outside(&mut page, judged);
    for experiment in EXPERIMENTS {
        table(&mut page, experiment, judged);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// The anchor of the section of the figures that are not within their tolerance.
pub(super) const OUTSIDE_ANCHOR: &str = "figures-outside-their-tolerance";

/// Whether the column "doubt" says something against the published figure.
pub(super) fn is_doubtful(figure: &Figure, judgement: &Judgement) -> bool {
    figure.note.is_some() || (figure.perhaps.is_some() && judgement.perhaps.is_some())
}

fn outside(page: &mut String, judged: &[Judged<'_>]) {
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
            " {explained} of these are within tolerance if they are compared by the metric that they seem to show."
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

fn table(page: &mut String, experiment: &str, judged: &[Judged<'_>]) {
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
        (Some(ours), Some(published)) if points => format!("{} points", signed(ours - published, 1)),
        (Some(ours), Some(published)) if published != 0.0 => {
            format!("{} %", signed(100.0 * (ours / published - 1.0), 1))
        }
        _ => String::new(),
    };
    (published, ours, deviation)
}
