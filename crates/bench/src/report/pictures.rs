//! Which pictures show the rates of cells? One over the number of clients and one over the size of the catalog, each
//! divided if it had too many lines.

use std::collections::BTreeSet;

use glidepath_page::{Picture, counted};
use glidepath_picture::{Axis, Chart, LineChart, LineStyle, PictureError, Point, Series};

use super::Line;
use crate::cell::Cell;

/// The most lines in a picture: as many as there are colours.
const LEGIBLE: usize = 8;

/// What the horizontal axis shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Clients,
    Entries,
}

impl Over {
    fn x(self, cell: &Cell) -> f64 {
        match self {
            Self::Clients => f64::from(cell.writers),
            // An empty catalog needs a place on the logarithmic axis, too.
            Self::Entries => cell.rows.max(1) as f64,
        }
    }

    /// The number that distinguishes lines of the same kind, in words.
    fn rest(self, cell: &Cell) -> String {
        match self {
            Self::Clients => format!("{} {}", cell.rows, if cell.rows == 1 { "entry" } else { "entries" }),
            Self::Entries => counted(cell.writers, "client"),
        }
    }
}

/// How lines are divided among pictures: by the first way that is needed, then by the next.
#[derive(Clone, Copy)]
enum Way {
    Operation,
    Rest,
    Number,
}

/// Some cells, and in words which ones.
struct Part<'a> {
    words: String,
    lines: Vec<&'a Line>,
}

/// The pictures of these cells, which are `what`: commits or reads.
pub(super) fn of(what: &str, lines: &[&Line]) -> Result<Vec<Picture>, PictureError> {
    let mut pictures = Vec::new();
    for over in [Over::Clients, Over::Entries] {
        if distinct(lines, |cell| over.x(cell).to_bits()) < 2 {
            continue;
        }
        let whole = Part { words: String::new(), lines: lines.to_vec() };
        for part in divided(whole, over, &[Way::Operation, Way::Rest, Way::Number]) {
            pictures.push(picture(what, over, &part)?);
        }
    }
    Ok(pictures)
}

fn distinct<T: Ord>(lines: &[&Line], of: impl Fn(&Cell) -> T) -> usize {
    lines.iter().map(|line| of(&line.cell)).collect::<BTreeSet<T>>().len()
}

/// What distinguishes one line of a picture from another.
fn curve(over: Over, cell: &Cell) -> (String, String) {
    (cell.kind(), over.rest(cell))
}

/// The curves, in the order of their cells.
fn curves(over: Over, lines: &[&Line]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in lines {
        let curve = curve(over, &line.cell);
        if !found.contains(&curve) {
            found.push(curve);
        }
    }
    found
}

fn divided<'a>(part: Part<'a>, over: Over, ways: &[Way]) -> Vec<Part<'a>> {
    let all = curves(over, &part.lines);
    let Some((way, others)) = ways.split_first().filter(|_| all.len() > LEGIBLE) else { return vec![part] };
    let pictures = all.len().div_ceil(LEGIBLE);
    let words = |cell: &Cell| match way {
        Way::Operation if cell.operation.reads() => format!("{} {}", cell.operation.name(), cell.start.name()),
        Way::Operation => String::new(),
        Way::Rest => over.rest(cell),
        Way::Number => {
            let place = all.iter().position(|known| *known == curve(over, cell)).unwrap_or_default();
            format!("{} of {pictures}", place / LEGIBLE + 1)
        }
    };
    let mut parts: Vec<Part<'a>> = Vec::new();
    for line in part.lines {
        let words = [part.words.clone(), words(&line.cell)].into_iter().filter(|words| !words.is_empty());
        let words = words.collect::<Vec<_>>().join(", ");
        match parts.iter_mut().find(|part| part.words == words) {
            Some(part) => part.lines.push(line),
            None => parts.push(Part { words, lines: vec![line] }),
        }
    }
    parts.into_iter().flat_map(|part| divided(part, over, others)).collect()
}

/// One line per kind of cell, and a dashed one for its prediction.
fn series(over: Over, lines: &[&Line]) -> Vec<Series> {
    let several = distinct(lines, |cell| over.rest(cell)) > 1;
    let mut all = Vec::new();
    for (slot, (kind, rest)) in curves(over, lines).into_iter().enumerate() {
        let name = if several { format!("{kind}, {rest}") } else { kind.clone() };
        let of = || lines.iter().filter(|line| line.cell.kind() == kind && over.rest(&line.cell) == rest);
        let measured = |line: &&Line| Point {
            spread: line.spread(),
            ..Point::at(over.x(&line.cell), line.measured.operations_per_s)
        };
        let points = of().map(measured).collect();
        all.push(Series { name: name.clone(), points, marks: true, slot: Some(slot), ..Series::default() });
        let predicted = |line: &&Line| Some(Point::at(over.x(&line.cell), line.predicted.as_ref()?.operations_per_s));
        let points: Vec<Point> = of().filter_map(predicted).collect();
        if !points.is_empty() {
            let name = format!("{name}, predicted");
            all.push(Series { name, points, line: LineStyle::Dashed, slot: Some(slot), ..Series::default() });
        }
    }
    all
}

fn picture(what: &str, over: Over, Part { words, lines }: &Part<'_>) -> Result<Picture, PictureError> {
    let (mut caption, short, long) = match over {
        Over::Clients => ("Rate by number of clients.".to_owned(), "clients", "Concurrent clients"),
        Over::Entries => ("Rate by size of the catalog.".to_owned(), "entries", "Entries in the catalog"),
    };
    if over == Over::Entries && lines.iter().any(|line| line.cell.rows == 0) {
        caption.push_str(" An empty catalog is shown at 1 entry.");
    }
    let series = series(over, lines);
    if series.iter().any(|series| series.points.iter().any(|point| point.spread.is_some())) {
        caption.push_str(" Bars: the lowest and the highest trial.");
    }
    if series.iter().any(|line| line.line == LineStyle::Dashed) {
        caption.push_str(" Dashed: predicted.");
    }
    let which = if words.is_empty() { String::new() } else { format!(", {words}") };
    let chart = LineChart {
        title: format!("{what} against {short}{which}"),
        x: Axis::of(long, true),
        y: Axis::of(&format!("{what} per second"), true),
        series,
        ..LineChart::default()
    };
    Picture::of(&caption, &Chart::LineChart(chart.at_values()))
}

#[cfg(test)]
mod tests {
    use glidepath_protocols::registry::Protocol;

    use super::super::apart;
    use super::*;
    use crate::cell::CellSamples;
    use crate::design::{Design, Operation, Start};

    fn line(protocol: Protocol, operation: Operation, start: Start, writers: u32, rows: u64) -> Line {
        let cell = Cell {
            design: Design::of(protocol),
            operation,
            start,
            rows,
            writers,
            grouped: true,
            processes: false,
            duration: glidepath_model::Span::from_secs(1),
            least: 1,
            added_latency: glidepath_model::Span::ZERO,
        };
        Line::new(cell, &[trial(1, 1_000_000), trial(1, 2_000_000)], None)
    }

    fn trial(done: usize, ended_ns: u64) -> CellSamples {
        CellSamples { latencies_ns: vec![1; done], ended_ns, ..CellSamples::default() }
    }

    #[test]
    fn trials_that_differ_much_are_told() {
        let found = line(Protocol::Tickets, Operation::Commit, Start::Warm, 1, 10);
        let of = |trials: &[CellSamples]| apart(&[Line::new(found.cell, trials, None)]);
        assert!(apart(std::slice::from_ref(&found)).unwrap().starts_with("Trials of one cell made 500 to 1000"));
        assert!(of(&[trial(0, 1000), trial(1, 1000)]).unwrap().contains("made 0 to 1000000"));
        for alike in [&[trial(10, 1000), trial(11, 1000)][..], &[trial(0, 1000), trial(0, 1000)], &[trial(1, 1000)]] {
            assert_eq!(of(alike), None);
        }
    }

    #[test]
    fn no_picture_has_more_lines_than_there_are_colours() {
        let mut lines = Vec::new();
        for protocol in [Protocol::CatalogFile, Protocol::AppendLog, Protocol::Tickets] {
            for operation in [Operation::List, Operation::Describe] {
                for start in Start::ALL {
                    let sizes = [(1, 10), (16, 10), (1, 20), (16, 20)];
                    lines.extend(sizes.map(|(writers, rows)| line(protocol, operation, start, writers, rows)));
                }
            }
        }
        let lines: Vec<&Line> = lines.iter().collect();
        for over in [Over::Clients, Over::Entries] {
            let whole = Part { words: String::new(), lines: lines.clone() };
            let parts = divided(whole, over, &[Way::Operation, Way::Rest, Way::Number]);
            let words: Vec<&str> = parts.iter().map(|part| part.words.as_str()).collect();
            assert_eq!(words, ["list warm", "list cold", "describe warm", "describe cold"]);
            assert!(parts.iter().all(|part| series(over, &part.lines).len() == 6));
            assert_eq!(
                parts.iter().map(|part| part.lines.len()).sum::<usize>(),
                lines.len(),
                "each cell is shown once"
            );
            let numbered = divided(Part { words: "all".to_owned(), lines: lines.clone() }, over, &[Way::Number]);
            let words: Vec<&str> = numbered.iter().map(|part| part.words.as_str()).collect();
            assert_eq!(words, ["all, 1 of 3", "all, 2 of 3", "all, 3 of 3"]);
        }
    }

    #[test]
    fn few_lines_are_one_picture_with_the_range_of_their_trials() {
        let lines = [1, 16].map(|writers| line(Protocol::Tickets, Operation::Commit, Start::Warm, writers, 10));
        let lines: Vec<&Line> = lines.iter().collect();
        let pictures = of("Commits", &lines).unwrap();
        assert_eq!(pictures.len(), 1);
        let series = series(Over::Clients, &lines);
        assert_eq!(series[0].points[0].spread, Some((500.0, 1000.0)));
        assert_eq!(series[0].points[1].x, 16.0);
    }
}
