use super::*;
use crate::experiment::{Overrides, Setting};

/// Two tables, two shares, and loads to be removed; small enough for a fast search.
fn experiment() -> Experiment {
    let settings = ["transaction.runtime={kind=\"fixed\",scale=\"2s\"}", "duration=20min", "provider=s3-standard"];
    let mut settings: Vec<Setting> = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
    settings.push(Setting::of_option("--tables", "tables.count", "1,3"));
    settings.push(Setting::of_text_option("--inter-arrival", "arrivals.scale", "1s,2s,5s"));
    without_load(Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() }).unwrap())
}

const OPTIONS: KneeOptions = KneeOptions {
    threshold: 0.95,
    tolerance: 0.1,
    within: 0.1,
    worst: None,
    commit_within: None,
    seeds: None,
    sensitivity: false,
    protocols: false,
    first_seed: 1,
    threads: NonZeroUsize::MIN,
    events: 400_000,
};

fn all(threads: usize, folder: Option<&Path>) -> Vec<Knee> {
    let (never, threads) = (AtomicBool::new(false), NonZeroUsize::new(threads).unwrap());
    let running = Running { threads, stop: &never, progress: &mut |_, _| () };
    let journal = folder.map(|folder| super::journal(folder).unwrap());
    match run(&experiment(), &OPTIONS, journal, running).unwrap() {
        Ended::Complete(knees) => knees,
        stopped @ Ended::Stopped { .. } => panic!("{stopped:?}"),
    }
}

#[test]
fn loads_are_left_out_and_nothing_else() {
    let experiment = experiment();
    assert_eq!(experiment.axes.iter().map(|axis| axis.key.as_str()).collect::<Vec<_>>(), ["tables.count"]);
    assert_eq!(experiment.points.iter().map(|point| point.coordinates.len()).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn the_knees_are_those_of_single_searches_however_many_at_a_time() {
    let one = all(1, None);
    assert_eq!(one, all(2, None));
    let single = |planned: &crate::PlannedPoint| find(&planned.point, &OPTIONS, &|_| ()).unwrap();
    assert_eq!(one, experiment().points.iter().map(single).collect::<Vec<_>>());
    assert!(one[0].knee_commits_per_s < one[1].knee_commits_per_s, "{one:?}");
}

#[test]
fn what_was_found_is_not_looked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let first = all(2, Some(folder.path()));
    let written = std::fs::read(folder.path().join(JOURNAL)).unwrap();
    let mut told = Vec::new();
    let stop = AtomicBool::new(true);
    let running =
        Running { threads: NonZeroUsize::MIN, stop: &stop, progress: &mut |done, all| told.push((done, all)) };
    let again = run(&experiment(), &OPTIONS, Some(journal(folder.path()).unwrap()), running).unwrap();
    assert_eq!(again, Ended::Complete(first), "although it was stopped at once");
    assert_eq!((told, std::fs::read(folder.path().join(JOURNAL)).unwrap()), (vec![(2, 2)], written));
    // Results of one question do not answer another.
    let running = Running { threads: NonZeroUsize::MIN, stop: &stop, progress: &mut |_, _| () };
    let other = KneeOptions { threshold: 0.9, ..OPTIONS };
    let ended = run(&experiment(), &other, Some(journal(folder.path()).unwrap()), running).unwrap();
    assert_eq!(ended, Ended::Stopped { done: 0, total: 2 });
}

#[test]
fn a_point_without_a_knee_is_named() {
    let mut experiment = experiment();
    experiment.points[1].point.config.transaction.runtime.scale = Span::from_secs(7200);
    let never = AtomicBool::new(false);
    let running = Running { threads: NonZeroUsize::MIN, stop: &never, progress: &mut |_, _| () };
    let options = KneeOptions { seeds: Some(vec![1]), ..OPTIONS };
    let error = run(&experiment, &options, None, running).unwrap_err().to_string();
    assert!(error.starts_with("tables.count = 3: no transaction ended within a run of"), "{error}");
}
