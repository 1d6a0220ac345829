use std::fs;

use super::*;
use crate::experiment::{Overrides, Setting};
use crate::schema::{RESULTS, TRANSACTIONS, write_results};

fn experiment() -> Experiment {
    of_seeds(2)
}

fn of_seeds(count: u64) -> Experiment {
    let settings = [
        Setting::of_text_option("--duration", "duration", "120s"),
        Setting::of_text_option("--inter-arrival", "arrivals.scale", "500ms,200ms"),
        Setting::of_option("--fast-append", "transaction.fast_append", "1.0,0.5"),
        Setting::of_text_option("--set", "transaction.runtime.scale", "5s"),
    ];
    let overrides = Overrides { settings: settings.into(), seeds: Some(count), ..Overrides::default() };
    Experiment::of_preset("iceberg", &overrides).unwrap()
}

fn provenance() -> Provenance {
    Provenance { git_revision: "test".to_owned() }
}

/// Runs it in a folder; optionally stopped before it begins.
fn run_in(folder: &Path, threads: usize, experiment: &Experiment, stop: bool, transactions: bool) -> Ended {
    let (stop, provenance) = (AtomicBool::new(stop), provenance());
    let journal = journal(folder).unwrap();
    let keeping = Keeping { journal, transactions: transactions.then_some(folder), provenance: &provenance };
    let threads = NonZeroUsize::new(threads).unwrap();
    run(experiment, Some(keeping), Running { threads, stop: &stop, progress: &mut |_| {} }).unwrap()
}

fn complete(folder: &Path, threads: usize) -> Results {
    match run_in(folder, threads, &experiment(), false, true) {
        Ended::Complete(results) => results,
        Ended::Stopped(progress) => panic!("{progress:?}"),
    }
}

#[test]
fn one_thread_and_two_give_the_same_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = [(one.path(), 1), (two.path(), 2)];
    for (folder, threads) in folders {
        let results = complete(folder, threads);
        write_results(folder, &experiment(), &results, &provenance()).unwrap();
    }
    let bytes = |folder: &Path, file: &Path| fs::read(folder.join(file)).unwrap();
    let mut files: Vec<_> =
        fs::read_dir(one.path().join(TRANSACTIONS)).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!((files.len(), &*files[0]), (8, std::ffi::OsStr::new("0000-1.parquet")));
    for file in files.iter().map(|file| Path::new(TRANSACTIONS).join(file)).chain([RESULTS.into()]) {
        assert!(bytes(one.path(), &file) == bytes(two.path(), &file), "{} differs", file.display());
    }
}

#[test]
fn what_is_done_is_not_done_again() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = complete(whole.path(), 2);
    run_in(parts.path(), 1, &of_seeds(1), false, false);
    let lines = || fs::read_to_string(parts.path().join(JOURNAL)).unwrap().lines().count();
    assert_eq!(lines(), 4);
    let Ended::Stopped(progress) = run_in(parts.path(), 1, &experiment(), true, false) else { panic!("not stopped") };
    assert_eq!((progress.done, progress.total, progress.found), (4, 8, 4));
    // A crash while a line is written loses only that line.
    let journal = fs::read(parts.path().join(JOURNAL)).unwrap();
    fs::write(parts.path().join(JOURNAL), &journal[..journal.len() - 20]).unwrap();
    assert_eq!(run_in(parts.path(), 2, &experiment(), false, false), Ended::Complete(expected));
    assert_eq!(lines(), 8);
}

#[test]
fn transactions_that_are_missing_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let expected = run_in(folder.path(), 2, &experiment(), false, false);
    assert_eq!(run_in(folder.path(), 2, &experiment(), false, true), expected);
    assert_eq!(fs::read_dir(folder.path().join(TRANSACTIONS)).unwrap().count(), 8);
    assert_eq!(run_in(folder.path(), 2, &experiment(), true, true), expected, "nothing was left to do");
}

#[test]
fn the_heaviest_runs_come_first() {
    let experiment = experiment();
    let heavy: Vec<f64> = experiment.points.iter().map(|planned| expected_arrivals(&planned.point)).collect();
    assert_eq!(heavy, [240.0, 240.0, 600.0, 600.0]);
}

#[test]
fn equal_points_run_once() {
    let mut experiment = experiment();
    experiment.points.push(experiment.points[0].clone());
    let (stop, mut most) = (AtomicBool::new(false), 0);
    let mut progress = |progress: Progress| most = progress.total;
    let running = Running { threads: NonZeroUsize::MIN, stop: &stop, progress: &mut progress };
    let Ok(Ended::Complete(results)) = run(&experiment, None, running) else { panic!("not complete") };
    assert_eq!(most, 8);
    let points: Vec<_> = results.points().collect();
    assert_eq!((points.len(), points[0]), (5, points[4]));
}

#[test]
fn a_run_ends_when_too_many_transactions_are_under_way() {
    let experiment = experiment();
    let point = &experiment.points[2].point;
    let run = Run { point, index: 2, seed: 1, key: point.key(1), arrivals: expected_arrivals(point) };
    let whole = run.execute(None, MOST_AT_ONCE, &mut |_| ()).unwrap();
    assert!(whole.all.run_ended > 0);
    assert!(matches!(run.execute(None, 2, &mut |_| ()), Err(Missing::Crowded)));
}

/// One load may take minutes, and is a single run.
#[test]
fn progress_is_told_within_a_run() {
    let (experiment, stop, mut told) = (of_seeds(1), AtomicBool::new(false), Vec::new());
    let mut progress = |progress: Progress| told.push(progress);
    let running = Running { threads: NonZeroUsize::MIN, stop: &stop, progress: &mut progress };
    assert!(matches!(run(&experiment, None, running), Ok(Ended::Complete(_))));
    assert!(told.iter().any(|progress| progress.done == 0 && progress.arrivals_done > 0.0), "{told:?}");
    assert!(told.is_sorted_by(|a, b| a.arrivals_done <= b.arrivals_done && a.simulated_s <= b.simulated_s), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((last.done, last.arrivals_done, last.simulated_s), (4, last.arrivals_total, 480.0));
}
