use std::io::Write;

use super::*;

const JOURNAL: &str = "points.jsonl";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figures {
    mean: f64,
    count: Option<u64>,
}

fn figures() -> Figures {
    Figures { mean: 0.1 + 0.2, count: Some(u64::MAX) }
}

fn open(folder: &Path) -> Result<Journal<Figures>, JournalError> {
    Journal::open(folder, JOURNAL)
}

fn add(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path.join(JOURNAL)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn numbers_come_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = figures();
    open(folder.path()).unwrap().append("a", &metrics).unwrap();
    assert_eq!(open(folder.path()).unwrap().get("a"), Some(&metrics));
}

#[test]
fn a_torn_last_line_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = figures();
    open(folder.path()).unwrap().append("a", &metrics).unwrap();
    add(folder.path(), "{\"key\":\"b\",\"metr");
    let mut journal = open(folder.path()).unwrap();
    assert!(journal.get("a").is_some() && journal.get("b").is_none());
    journal.append("c", &metrics).unwrap();
    drop(journal);
    let journal = open(folder.path()).unwrap();
    assert!(journal.get("a").is_some() && journal.get("c").is_some());
}

#[test]
fn a_whole_line_of_another_shape_is_an_error_that_names_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap().append("a", &figures()).unwrap();
    add(folder.path(), "{\"key\":\"b\"}\n");
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("points.jsonl, line 2: found no finished run"), "{error}");
}

#[test]
fn two_runs_cannot_write_to_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, JournalError::Busy { .. }), "{error}");
}
