//! How are numbers and tables printed?

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;

use glidepath_lab::pictures::percent as percent_down;
use glidepath_model::visible;
use glidepath_page::signed;
use glidepath_run::statistics::Spread;

use crate::failure::Failure;

/// The text in place of a missing number.
pub(crate) const NONE: &str = "-";

/// The style of tables: a line under the header, and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Writes to the standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush().map_err(Failure::from)
}

/// Writes to the standard error output. Errors are ignored; the exit code still counts. Names and contents in the text
/// cannot control the terminal.
pub(crate) fn complain(text: &str) {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    let _ = writeln!(std::io::stderr().lock(), "{}", lines.join("\n"));
}

/// Writes JSON to the standard output.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value)?)
}

/// A table: the first columns are left-aligned texts, the others right-aligned numbers.
pub(crate) fn table(header: &[String], texts: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    // A row is one line of any width, so that the output can be searched and cut.
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A success as a percentage, rounded down as in pages and pictures, with its spread if there is one.
pub(crate) fn success(share: Option<Spread>) -> String {
    share.map_or_else(
        || NONE.to_owned(),
        |Spread { mean, deviation }| {
            let deviation = deviation.map_or_else(String::new, |deviation| format!(" ±{:.1}", 100.0 * deviation));
            format!("{}{deviation}", percent_down(mean))
        },
    )
}

/// A share as a percentage, with its spread if there is one.
pub(crate) fn percent(share: Option<Spread>) -> String {
    share.map_or_else(
        || NONE.to_owned(),
        |Spread { mean, deviation }| with_spread(100.0 * mean, deviation.map(|deviation| 100.0 * deviation), 1),
    )
}

/// A share as a percentage, with enough digits that a share below 1 is not printed as 100.
pub(crate) fn share_percent(share: f64) -> String {
    let percent = 100.0 * share;
    let is_told = |places: &usize| 100.0 - percent >= 0.99 * 10.0_f64.powi(-(*places as i32));
    let places = if share < 1.0 { (1..6).find(is_told).unwrap_or(6) } else { 1 };
    format!("{percent:.places$}")
}

/// A deviation as a whole percentage.
pub(crate) fn deviation_percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 0))
}

/// A rate per second, with its spread if there is one.
pub(crate) fn rate(rate: Spread) -> String {
    with_spread(rate.mean, rate.deviation, places_of_a_rate(rate.mean))
}

/// The end of an interval of a rate per second.
pub(crate) fn rate_end(rate: f64) -> String {
    format!("{rate:.places$}", places = places_of_a_rate(rate))
}

/// Decimal places so that a low rate has two significant digits.
fn places_of_a_rate(rate: f64) -> usize {
    match rate {
        rate if rate >= 1.0 || rate == 0.0 => 2,
        rate if rate >= 0.1 => 3,
        _ => 4,
    }
}

fn with_spread(mean: f64, deviation: Option<f64>, places: usize) -> String {
    let deviation = deviation.map_or_else(String::new, |deviation| format!(" ±{deviation:.places$}"));
    format!("{mean:.places$}{deviation}")
}

/// Seconds, to three digits.
pub(crate) fn seconds(value: Option<Spread>) -> String {
    value.map_or_else(|| NONE.to_owned(), |Spread { mean, .. }| three_digits(mean))
}

/// A number with about three digits.
pub(crate) fn three_digits(value: f64) -> String {
    let places = match value {
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

/// For example "1 entry" and "2 entries".
pub(crate) fn counted_entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// For example "1 run" and "2 runs".
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// An interval, with this format for each end.
pub(crate) fn interval(ends: Option<[f64; 2]>, written: impl Fn(f64) -> String) -> String {
    ends.map_or_else(|| NONE.to_owned(), |[low, high]| format!("{} to {}", written(low), written(high)))
}

/// A mean of counts.
pub(crate) fn mean(value: Option<Spread>) -> String {
    value.map_or_else(|| NONE.to_owned(), |Spread { mean, .. }| format!("{mean:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_all_does_not_look_like_all() {
        let shares = [0.9512, 0.999, 0.9996, 0.99993, 1.0];
        assert_eq!(shares.map(share_percent), ["95.1", "99.9", "99.96", "99.993", "100.0"]);
    }
}
