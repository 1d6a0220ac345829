use std::io::Write;

use super::*;
use crate::experiment::{Experiment, Overrides, Setting};
use crate::simulate::simulate;

fn metrics() -> Metrics {
    let settings =
        vec![Setting::parse("duration=120s").unwrap(), Setting::parse("transaction.runtime.scale=5s").unwrap()];
    let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap();
    let point = &experiment.points[0].point;
    Metrics::of(point, &simulate(point, 1, glidepath_sim::Mode::LocalClocks))
}

fn add(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path.join(JOURNAL)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn numbers_come_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = metrics();
    assert!(metrics.all.latency.is_some());
    Journal::open(folder.path()).unwrap().append("a", &metrics).unwrap();
    assert_eq!(Journal::open(folder.path()).unwrap().get("a"), Some(&metrics));
}

#[test]
fn a_torn_last_line_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = metrics();
    Journal::open(folder.path()).unwrap().append("a", &metrics).unwrap();
    add(folder.path(), "{\"key\":\"b\",\"metr");
    let mut journal = Journal::open(folder.path()).unwrap();
    assert!(journal.get("a").is_some() && journal.get("b").is_none());
    journal.append("c", &metrics).unwrap();
    drop(journal);
    let journal = Journal::open(folder.path()).unwrap();
    assert!(journal.get("a").is_some() && journal.get("c").is_some());
}

#[test]
fn a_whole_line_of_another_shape_is_an_error_that_names_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    Journal::open(folder.path()).unwrap().append("a", &metrics()).unwrap();
    add(folder.path(), "{\"key\":\"b\"}\n");
    let error = Journal::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("points.jsonl, line 2: found no finished run"), "{error}");
}

#[test]
fn two_runs_cannot_write_to_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Journal::open(folder.path()).unwrap();
    let error = Journal::open(folder.path()).unwrap_err();
    assert!(matches!(error, JournalError::Busy { .. }), "{error}");
}
