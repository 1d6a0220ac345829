//! How does a benchmark of transactions look? A page with a chart of the puts and a table of each part.

use glidepath_page::{Picture, ReportPage, Section, Table, digits};
use glidepath_picture::{Axis, Chart, LineChart, PictureError, Point, Series};

use super::{Line, Part};

/// The report of these lines. `facts` says where and when they were run.
///
/// # Errors
/// The chart cannot be drawn.
pub fn page(facts: &str, lines: &[Line]) -> Result<ReportPage, PictureError> {
    let mut sections = Vec::new();
    if lines.iter().any(|line| line.part == Part::Puts) {
        sections.push(Section::Pictures(vec![puts(lines)?]));
    }
    for part in Part::ALL {
        let rows: Vec<_> = lines.iter().filter(|line| line.part == part).map(cells).collect();
        let (title, note) = words(part);
        let head = vec!["what", "clients", "per second", "p50 ms", "p95 ms", "p99 ms", "bytes an entry", "errors"];
        sections.push(Section::Table(Table { title, note, head, rows }));
    }
    Ok(ReportPage {
        title: "How fast this store keeps the ends of transactions".to_owned(),
        facts: facts.to_owned(),
        findings: findings(lines),
        sections,
    })
}

/// The title of a part's table, and how to read it.
fn words(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Puts => (
            "Puts",
            "Transactions that ended per second, each by a call of its own; calls of one row that wait share a request. \
             The original encoding has a row for each transaction.",
        ),
        Part::Batches => ("Batches", "Transactions that ended per second, 256 of one row in a call."),
        Part::Reads => {
            ("Reads", "Ends that were read per second from the store, one in a call, from 10,000 transactions.")
        }
        Part::Cache => ("Reads from memory", "Ends that were read per second from the memory of the process."),
        Part::Loads => {
            ("Loads", "All cells of the shape are loaded at once; the rate is of cells, the latency of whole loads.")
        }
        Part::Bytes => ("Bytes", "What the files of a table take on disk; the rate is that of writing it."),
    }
}

fn cells(line: &Line) -> Vec<String> {
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let [p50, p95, p99] = line.latency_ms.map(or_none);
    let bytes = or_none(line.bytes_per_entry);
    let rate = format!("{:.0}", line.per_second);
    vec![line.what.clone(), line.clients.to_string(), rate, p50, p95, p99, bytes, line.errors.to_string()]
}

/// The comparisons that the record makes, as far as they were run without an error: a run that lacked its store for a
/// while says nothing about it.
fn findings(lines: &[Line]) -> Vec<String> {
    let mut findings = Vec::new();
    let puts = || lines.iter().filter(|line| line.part == Part::Puts && line.errors == 0);
    if let Some(most) = puts().map(|line| line.clients).max() {
        let original = puts().find(|line| line.clients == most && line.rows.is_none());
        let best = puts().filter(|line| line.clients == most && line.rows.is_some());
        let best = best.max_by(|a, b| a.per_second.total_cmp(&b.per_second));
        if let (Some(original), Some(best)) = (original, best) {
            findings.push(format!(
                "With {most} clients, {} end {:.2} times as many transactions per second as the original encoding ({:.0} \
                 against {:.0}).",
                best.what,
                best.per_second / original.per_second,
                best.per_second,
                original.per_second
            ));
        }
    }
    findings.extend(of_loads(lines));
    let bytes: Vec<f64> = lines.iter().filter_map(|line| line.bytes_per_entry).collect();
    if let [original, tickets] = bytes[..] {
        let times = original / tickets;
        findings
            .push(format!("An entry of the original encoding takes {times:.1} times the bytes of a ticket on disk."));
    }
    let errors: u64 = lines.iter().map(|line| line.errors).sum();
    if errors > 0 {
        let first = lines.iter().find_map(|line| line.first_error.as_deref()).unwrap_or("unknown");
        findings.push(format!("{errors} calls ended in an error, as the last column says; the first: {first}"));
    }
    findings
}

/// Where selective loads are furthest behind the best division.
fn of_loads(lines: &[Line]) -> Option<String> {
    let loads = || lines.iter().filter(|line| line.part == Part::Loads && line.errors == 0);
    let behind = loads().filter_map(|selective| {
        let shape = selective.what.strip_suffix(", selective")?;
        let same = loads().filter(|line| line.clients == selective.clients && line.what.starts_with(shape));
        let best = same.filter_map(|line| line.latency_ms[0]).min_by(f64::total_cmp)?;
        Some((selective.latency_ms[0]? / best, shape, selective.clients))
    });
    let (times, shape, clients) = behind.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "In the median, selective loads take up to {times:.2} times as long as the best division ({shape}, clients: {clients})."
    ))
}

/// Puts by clients, a line for each encoding.
fn puts(lines: &[Line]) -> Result<Picture, PictureError> {
    let mut series: Vec<Series> = Vec::new();
    for line in lines.iter().filter(|line| line.part == Part::Puts) {
        let point = Point::at(f64::from(line.clients), line.per_second);
        match series.iter_mut().find(|series| series.name == line.what) {
            Some(series) => series.points.push(point),
            None => {
                series.push(Series { name: line.what.clone(), points: vec![point], marks: true, ..Series::default() })
            }
        }
    }
    let chart = LineChart {
        title: "Transactions that end, each by a call of its own".to_owned(),
        x: Axis::of("clients", true),
        y: Axis::of("per second", true),
        series,
        ..LineChart::default()
    };
    Picture::of("Each client sends its next call when the last one is answered.", &Chart::LineChart(chart.at_values()))
}
