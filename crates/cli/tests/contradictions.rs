//! Are the table, the findings, the JSON and the Parquet file of a run consistent? Random small configurations.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "each test program uses its part")]
mod common;

use std::fs;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use common::{glidepath, output};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use serde_json::Value;

/// The arguments of `glidepath simulate` or `glidepath knee`.
fn options() -> impl Strategy<Value = String> {
    let stores = prop::sample::select(vec!["s3-express", "s3-standard", "azure-premium-2025-06", "gcs-2025-06"]);
    let shares = prop::sample::select(vec!["0", "0.5", "0.9", "1"]);
    let retries = 0_u32..4;
    (stores, shares, retries, prop::bool::ANY).prop_map(|(store, share, retries, bursts)| {
        let burst = if bursts { " --set arrivals.burst={every=\"30s\",lasts=\"5s\",factor=4.0}" } else { "" };
        format!(
            "--provider {store} --fast-append {share} --duration 3min --set retry.retries={retries} --set \
             transaction.real_conflicts=0.1 --set transaction.runtime={{kind=\"exponential\",scale=\"3s\"}}{burst}"
        )
    })
}

/// One load, or several with one or several numbers of tables.
fn simulated() -> impl Strategy<Value = String> {
    let loads = prop::sample::select(vec!["60ms", "300ms", "50ms,200ms,1s", "100ms,2s"]);
    let tables = prop::sample::select(vec!["1", "3", "1,4"]);
    (options(), loads, tables, 1_u32..3).prop_map(|(options, loads, tables, seeds)| {
        format!("{options} --inter-arrival {loads} --tables {tables} --seeds {seeds}")
    })
}

/// A number in a text: its value, half a unit of its last digit (a whole one if it may be rounded down), and where it
/// ends.
#[derive(Clone, Copy, Debug)]
struct Printed {
    value: f64,
    unit: f64,
    end: usize,
}

impl Printed {
    fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, unit: self.unit * factor, ..self }
    }

    fn is(&self, number: f64, units: f64) -> bool {
        (self.value - number).abs() <= units * self.unit + 1e-9
    }
}

fn numbers(text: &str) -> Vec<Printed> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = text[rest..].find(|c: char| c.is_ascii_digit()).map(|at| rest + at) {
        let end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |at| start + at);
        let digits = text[start..end].trim_end_matches('.');
        // Parts of a word are no numbers: "P50", "s3-express".
        let word = text[..start].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '-');
        if let (false, Ok(value)) = (word, digits.parse()) {
            let places = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            found.push(Printed { value, unit: 10_f64.powi(-(places as i32)), end });
        }
        rest = end;
    }
    found
}

/// All numbers of a JSON value, with their names.
fn fields(value: &Value, name: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => found.push((name.to_owned(), number.as_f64().unwrap())),
        Value::Array(values) => values.iter().for_each(|value| fields(value, name, found)),
        Value::Object(values) => values.iter().for_each(|(name, value)| fields(value, name, found)),
        _ => {}
    }
}

/// The text of a page, without tags, pictures, style and script.
fn shown(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        text += &rest[..start];
        let ends = [("<svg", "</svg>"), ("<style", "</style>"), ("<script", "</script>")];
        let end = ends.into_iter().find(|(open, _)| rest[start..].starts_with(open)).map_or(">", |(_, close)| close);
        let after = rest[start..].find(end).unwrap() + end.len();
        text.push(if end == ">" { '\n' } else { ' ' });
        rest = &rest[start + after..];
    }
    text + rest
}

/// No percentage is above 100.
fn percentages_are_shares(text: &str) -> Result<(), TestCaseError> {
    for printed in numbers(text) {
        if text[printed.end..].trim_start_matches([' ', '\u{a0}']).starts_with('%') {
            prop_assert!(printed.value <= 100.0, "{} %: {text}", printed.value);
        }
    }
    Ok(())
}

fn ratios_are_shares(json: &Value) -> Result<(), TestCaseError> {
    let mut all = Vec::new();
    fields(json, "", &mut all);
    for (name, value) in all {
        let is_share = name.ends_with("_ratio") || name.ends_with("_share") || name.ends_with("success");
        prop_assert!(!is_share || (0.0..=1.0).contains(&value), "{name} = {value}");
    }
    Ok(())
}

/// The columns of the tables, their names in the JSON, and the factor between the two.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("commits/s", "throughput_commits_per_s", 1.0),
    ("success %", "success_ratio", 100.0),
    ("mean s", "latency_mean_s", 1.0),
    ("P50 s", "latency_p50_s", 1.0),
    ("P95 s", "latency_p95_s", 1.0),
    ("P99 s", "latency_p99_s", 1.0),
    ("retries", "retries_mean", 1.0),
    ("not ended %", "not_ended_ratio", 100.0),
];

/// The cells of a line: two spaces or more are between them.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

fn cell_is(cell: &str, group: &Value, column: &str) -> Result<(), TestCaseError> {
    let (kind, name) = match column.split_once(' ') {
        Some(("FA", name)) => (&group["fast_append"], name),
        Some(("VO", name)) => (&group["validated_overwrite"], name),
        _ => (group, column),
    };
    let Some((_, field, factor)) = COLUMNS.into_iter().find(|(known, ..)| *known == name) else { return Ok(()) };
    match (kind[field].as_f64(), &numbers(cell)[..]) {
        (None, []) => {}
        (Some(number), [printed, ..]) => {
            // A success is rounded down.
            let off = if name.ends_with("success %") { 1.0 } else { 0.5 };
            prop_assert!(printed.is(factor * number, off), "{column}: {cell}, but {field} = {number}");
            prop_assert!(!name.ends_with('%') || (0.0..=100.0).contains(&printed.value), "{column}: {cell}");
        }
        (number, _) => prop_assert!(false, "{column}: {cell}, but {field} = {number:?}"),
    }
    Ok(())
}

/// The table agrees with the JSON: a row for each kind of one load, or for each point.
fn table_is(text: &str, json: &Value) -> Result<(), TestCaseError> {
    let lines: Vec<&str> = text.lines().collect();
    let header = lines.iter().position(|line| line.contains("commits/s") && line.contains("P99 s")).unwrap();
    let columns = cells(lines[header]);
    let mut rows = lines[header + 2..].iter().take_while(|line| cells(line).len() == columns.len());
    let mut row = |group: &Value| {
        let cells = cells(rows.next().unwrap());
        columns.iter().zip(cells).try_for_each(|(column, cell)| cell_is(cell, group, column))
    };
    match json["points"].as_array() {
        Some(points) => points.iter().try_for_each(row),
        None => {
            row(json)?;
            let kinds = ["fast_append", "validated_overwrite"];
            kinds.into_iter().filter(|kind| json[kind].is_object()).try_for_each(|kind| row(&json[kind]))
        }
    }
}

/// The text after a number; for a range ("39.7 to 90.0 %") that after its upper end.
fn unit_of(rest: &str) -> &str {
    let upper = rest.strip_prefix(" to ").and_then(|range| Some(&range[numbers(range).first()?.end..]));
    upper.unwrap_or(rest).trim_start()
}

/// Every number in the findings is in the JSON, or is a coordinate, the threshold or a count of points.
fn findings_are(page: &str, json: &Value) -> Result<(), TestCaseError> {
    let start = page.find("<ul class=\"findings\">").unwrap();
    let list = &page[start..start + page[start..].find("</ul>").unwrap()];
    let mut known = Vec::new();
    fields(json, "", &mut known);
    let points = json["points"].as_array().map_or(1, Vec::len);
    let coordinates = json["points"].as_array().into_iter().flatten();
    let coordinates: String = coordinates
        .flat_map(|point| point["coordinates"].as_object().unwrap().values())
        .fold(String::new(), |text, value| {
            format!("{text} {}", value.as_str().unwrap().trim_end_matches(char::is_alphabetic))
        });
    let coordinates: Vec<f64> = numbers(&coordinates).iter().map(|number| number.value).collect();
    for sentence in shown(list).lines().filter(|line| !line.is_empty() && !line.starts_with("The window, the middle")) {
        for printed in numbers(sentence) {
            let unit = unit_of(&sentence[printed.end..]);
            let factor = if unit.starts_with('%') {
                0.01
            } else if unit.starts_with("ms") {
                0.001
            } else {
                1.0
            };
            let scaled = printed.scaled(factor);
            // Percentages of success are rounded down, so that only full success is 100.
            let of_json = known.iter().any(|(_, number)| scaled.is(*number, 1.0));
            let other = printed.value == 95.0 || coordinates.contains(&printed.value);
            let count = printed.value.fract() == 0.0 && printed.value <= points as f64 && factor == 1.0;
            prop_assert!(of_json || other || count, "{} is in no other output: {sentence}", printed.value);
        }
    }
    Ok(())
}

fn column(rows: &RecordBatch, name: &str) -> Vec<Option<f64>> {
    let column = rows.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"));
    match column.as_primitive_opt::<Float64Type>() {
        Some(numbers) => numbers.iter().collect(),
        None => column.as_primitive::<UInt64Type>().iter().map(|count| count.map(|count| count as f64)).collect(),
    }
}

/// The JSON has the means of the Parquet file's rows: seeds vary fastest.
fn parquet_is(path: &Path, json: &Value) -> Result<(), TestCaseError> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
    let batches: Vec<RecordBatch> = reader.with_batch_size(1 << 16).build().unwrap().map(Result::unwrap).collect();
    let [rows] = &batches[..] else { panic!("{} batches", batches.len()) };
    let one = [json.clone()];
    let points = json["points"].as_array().map_or(&one[..], Vec::as_slice);
    let seeds = rows.num_rows() / points.len();
    prop_assert_eq!(json["seeds"].as_u64(), Some(seeds as u64));
    for (index, point) in points.iter().enumerate() {
        for (prefix, group) in [
            ("all", point),
            ("fast_append", &point["fast_append"]),
            ("validated_overwrite", &point["validated_overwrite"]),
        ] {
            let mean = |values: &dyn Fn(usize) -> Option<f64>| {
                let values: Vec<f64> = (index * seeds..(index + 1) * seeds).filter_map(values).collect();
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            };
            let same = |name: &str, mean: Option<f64>| match (group[name].as_f64(), mean) {
                (None, None) => true,
                (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(1.0),
                _ => false,
            };
            let fields = COLUMNS.into_iter().map(|(_, field, _)| field).chain(["run_success_ratio"]);
            let committed = column(rows, &format!("{prefix}_window_committed"));
            for field in fields {
                let values = column(rows, &format!("{prefix}_{}", field.replace("_commits_per_s", "_per_s")));
                // A percentile with few latencies above it is in the file only.
                let few = |share: f64| {
                    let of = |row: usize| committed[row].is_none_or(|count| count * (1.0 - share) < 3.0 - 1e-6);
                    group[field].is_null() && (index * seeds..(index + 1) * seeds).any(of)
                };
                let left_out = (field == "latency_p95_s" && few(0.95)) || (field == "latency_p99_s" && few(0.99));
                prop_assert!(left_out || same(field, mean(&|row| values[row])), "{prefix} {field}: {:?}", group[field]);
            }
            let ended = column(rows, &format!("{prefix}_run_ended"));
            for kind in ["catalog", "table", "unseen"] {
                let values = column(rows, &format!("{prefix}_{kind}_conflicts"));
                let each =
                    |row: usize| ended[row].filter(|ended| *ended > 0.0).and_then(|ended| Some(values[row]? / ended));
                let name = format!("{kind}_conflicts_per_transaction");
                prop_assert!(same(&name, mean(&each)), "{prefix} {name}: {:?}", group[&name]);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_run_says_it_says_everywhere(options in simulated()) {
        let folder = tempfile::tempdir().unwrap();
        let text = output(glidepath(folder.path(), &format!("simulate {options} --out here")));
        let json = output(glidepath(folder.path(), &format!("simulate {options} --out here --json")));
        let json: Value = serde_json::from_str(&json).unwrap();
        let page = fs::read_to_string(folder.path().join("here/report.html")).unwrap();
        table_is(&text, &json)?;
        findings_are(&page, &json)?;
        parquet_is(&folder.path().join("here/results.parquet"), &json)?;
        percentages_are_shares(&text)?;
        percentages_are_shares(&shown(&page))?;
        ratios_are_shares(&json)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_knee_says_it_says_everywhere(options in options(), tables in 1_u32..4) {
        // Three bursts and more make runs long, and this test is about the text.
        let options = options.split(" --set arrivals.burst").next().unwrap();
        knee_is_consistent(&format!("{options} --tables {tables} --budget 1s --tolerance 0.2"))?;
    }
}

/// The interval of this knee reaches from zero to more than twice the knee.
#[test]
fn an_interval_wider_than_its_knee_is_no_percentage() {
    let options = "--provider gcs-2025-06 --fast-append 0.9 --duration 3min --set retry.retries=0 --set \
                   transaction.real_conflicts=0.1 --set transaction.runtime={kind=\"exponential\",scale=\"3s\"}";
    let text = knee_is_consistent(&format!("{options} --tables 2 --budget 1s --tolerance 0.2")).unwrap();
    assert!(text.contains("wider than the knee itself"), "{text}");
}

/// The text, in which the numbers agree with the JSON and no share is above 1.
fn knee_is_consistent(question: &str) -> Result<String, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), &format!("knee {question} --no-what-if")));
    let json = output(glidepath(folder.path(), &format!("knee {question} --no-what-if --json")));
    let json: Value = serde_json::from_str(&json).unwrap();
    percentages_are_shares(&text)?;
    ratios_are_shares(&json)?;
    let knee = json["knee_commits_per_s"].as_f64().unwrap();
    if json["bound"] == "found" {
        let line = text.lines().find(|line| line.starts_with("Knee: ")).unwrap();
        let printed = numbers(line)[0];
        prop_assert!(printed.is(knee, 0.5), "{line}, but {knee}");
    }
    Ok(text)
}

#[test]
fn numbers_are_found_and_what_is_wrong_is_seen() {
    let found = numbers("Of 6.99 (95.3 %) on s3-express, P50 is 0.250 s.");
    assert_eq!(found.iter().map(|number| number.value).collect::<Vec<_>>(), [6.99, 95.3, 0.25]);
    assert!(found[2].is(0.2504, 0.5) && !found[2].is(0.2506, 0.5));
    assert!(percentages_are_shares("the catalog 108 % of the time").is_err());
    assert!(percentages_are_shares("the catalog 100 % of the time").is_ok());
    assert!(ratios_are_shares(&serde_json::json!({ "all": { "success_ratio": 1.01 } })).is_err());
    let json = serde_json::json!({ "throughput_commits_per_s": 6.99, "points": null });
    let page = |text: &str| format!("<ul class=\"findings\"><li>{text}</li></ul>");
    assert!(findings_are(&page("Of all, 6.99 commit."), &json).is_ok());
    assert!(findings_are(&page("Of all, 7.10 commit."), &json).is_err());
    assert!(cell_is("6.98", &json, "commits/s").is_err() && cell_is("6.99 ±0.10", &json, "commits/s").is_ok());
    assert!(cell_is("-", &json, "commits/s").is_err() && cell_is("-", &json, "P99 s").is_ok());
}
