//! The summary: the verdict, the pictures, and what the published runs did. The tables are on another page.

use std::collections::BTreeMap;
use std::fmt::Write;

use glidepath_picture::Chart;
use glidepath_point::MODEL_VERSION;

use super::pictures::GROUPS;
use super::tables;
use crate::reproduce::{Figure, Judgement, Runs, Tolerance, Verdict};

/// How the page was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The command.
    pub command: String,
    /// The revision of the code.
    pub git_revision: String,
    /// Whether it is a coarse run.
    pub quick: bool,
    /// Wall time of the runs in seconds, if none was taken from the journal.
    pub seconds: Option<f64>,
}

/// Writing into a string cannot fail.
macro_rules! line {
    ($page:expr, $($format:tt)*) => {{ let _ = writeln!($page, $($format)*); }};
}

const INTRODUCTION: &str = include_str!("introduction.md");

/// A published figure, and its judgement.
pub type Judged<'a> = (&'a Figure, Judgement);

/// The pages, and the pictures beside them.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The summary, as Markdown.
    pub summary: String,
    /// The name of the page of the tables.
    pub tables_name: String,
    /// The tables, as Markdown.
    pub tables: String,
    /// The pictures of the summary, each with its name.
    pub pictures: Vec<(String, Chart)>,
}

/// The pages. All names begin with `stem`, that of the summary's file without its ending.
#[must_use]
pub fn write(judged: &[Judged<'_>], runs: &Runs, made: &Made, stem: &str) -> Pages {
    let tables_name = format!("{stem}-tables.md");
    let mut page = String::from("# Reproduction of the published simulations\n\n");
    verdict(&mut page, judged);
    doubts(&mut page, judged, &tables_name);
    about(&mut page, runs, made);
    line!(
        page,
        "[{tables_name}]({tables_name}) has every figure, with its source, beside ours. The published sweep of commits \
         to a versioned manifest on S3 has a page of its own: \
         [{stem}-versioned-manifest.md]({stem}-versioned-manifest.md).\n"
    );
    kinds(&mut page, judged);
    line!(page, "## Ours against the published figures\n");
    line!(page, "Each dot is a figure; on the dotted line, both are equal.\n");
    let mut pictures = Vec::new();
    for group in &GROUPS {
        let (chart, words) = group.picture(judged);
        let name = format!("{stem}-{}.svg", group.name);
        line!(page, "![{}]({name})\n\n{words}\n", chart.title());
        pictures.push((name, chart));
    }
    page.push_str(INTRODUCTION);
    Pages { summary: page, tables: tables::write(judged, &format!("{stem}.md")), tables_name, pictures }
}

fn verdict(page: &mut String, judged: &[Judged<'_>]) {
    let of = |wanted: &Verdict| judged.iter().filter(|(_, judgement)| judgement.verdict == *wanted).count();
    let (all, within, outside) = (judged.len(), of(&Verdict::Within), of(&Verdict::Outside));
    let between = match all - within - outside {
        0 => String::new(),
        some => format!(", and {some} are neither (\"as printed\" or \"on the edge\" in the table)"),
    };
    line!(
        page,
        "**{within} of {all} published figures are within their tolerance; {outside} are outside{between}.**\n"
    );
}

/// The sentences about the figures outside, which count rows of the table of those not within their tolerance.
fn doubts(page: &mut String, judged: &[Judged<'_>], tables_name: &str) {
    let outside = || judged.iter().filter(|(_, judgement)| judgement.verdict == Verdict::Outside);
    let count = outside().count();
    if count == 0 {
        return;
    }
    let doubtful = outside().filter(|(figure, judgement)| tables::is_doubtful(figure, judgement)).count();
    let explained = outside().filter(|(_, judgement)| judgement.perhaps.is_some_and(|(_, within)| within)).count();
    line!(
        page,
        "For {doubtful} of the {count} outside, [their table]({tables_name}#{}) gives a reason to doubt the published \
         figure. {explained} of the {count} are within their tolerance if they are compared by the metric that they \
         seem to show.\n",
        tables::OUTSIDE_ANCHOR
    );
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
            "**A coarse run**: one seed, and only the points that figures name. For the full run, give `{}` without \
             --quick.\n",
            made.command
        );
    }
    line!(
        page,
        "Made by `{}` at revision {}, model version {MODEL_VERSION}: {count} runs, {hours:.0} simulated hours.",
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

fn kinds(page: &mut String, judged: &[Judged<'_>]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::figures;

    /// What the summary counts can be counted in the table.
    #[test]
    fn the_counts_of_the_summary_are_those_of_the_table() {
        let figures = figures().unwrap();
        let judgement = |place: usize, figure: &Figure| Judgement {
            ours: Some(1.0),
            load: None,
            verdict: [Verdict::Outside, Verdict::Within, Verdict::WithinAsPrinted][place % 3].clone(),
            perhaps: figure.perhaps.as_ref().map(|_| (2.0, place.is_multiple_of(2))),
        };
        let judged = figures.iter().enumerate().map(|(place, figure)| (figure, judgement(place, figure)));
        let judged: Vec<Judged<'_>> = judged.collect();
        let made =
            Made { command: "a command".to_owned(), git_revision: "abc".to_owned(), quick: false, seconds: None };
        let pages = write(&judged, &Runs::new(), &made, "page");
        let all: Vec<&str> = pages.tables.split("\n## ").collect();
        let table = all.iter().find(|part| part.starts_with("Figures outside their tolerance\n")).unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| figure "));
        let outside: Vec<&str> = rows.filter(|row| !row.contains("that is printed with the same digits")).collect();
        let doubtful = outside.iter().filter(|row| !row.ends_with("|  |")).count();
        let explained = outside.iter().filter(|row| row.contains("is 2.00, within the tolerance")).count();
        assert!(0 < explained && explained < doubtful && doubtful < outside.len());
        let count = outside.len();
        for expected in [
            format!("For {doubtful} of the {count} outside, [their table](page-tables.md#figures-outside"),
            format!("{explained} of the {count} are within their tolerance"),
            format!("at revision abc, model version {MODEL_VERSION}: "),
        ] {
            assert!(pages.summary.contains(&expected), "{expected}: {}", pages.summary);
        }
    }
}
