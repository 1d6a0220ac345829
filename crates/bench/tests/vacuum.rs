//! Processes commit to one catalog, each through a group, while another vacuums what is older than the grace period;
//! all are killed sometimes. Was every version right, and do the kept versions have all their objects?
//!
//! The grace period is at least ten minutes, but the test does not wait: the processes share a clock that it advances
//! by a minute whenever each of them has completed a whole operation since the last step. So no process sleeps through
//! a grace period, however busy the machine is.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use glidepath_env::{Env, ObjectStore};
use glidepath_model::Span;
use glidepath_protocols::manifest_chain::{Grace, Layout};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_stores::{Options, open};
use support::chain::{Paced, Reader, STEP, acknowledged, chain, judge, runtime, threads, write};
use support::{Luck, Process, Said, say, task};

const WRITERS: usize = 5;

/// Steps of the clock: two and a half grace periods, with [`support::chain::STEP`].
const STEPS: usize = 25;

/// Versions that are kept at any age.
const KEPT: u64 = 3;

/// The pause between commits of one thread, so that there are hundreds of versions and every process wins sometimes.
const PAUSE: Span = Span::from_millis(50);

const GRACE: Grace = Grace { versions: KEPT, age: Grace::SHORTEST };

/// Not a test: the task of the processes. Number 0 vacuums.
#[test]
fn process_beside_others() {
    let Some(task) = task() else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let [url, clock, tag, number] = words[..] else { panic!("{task}") };
    let (env, store) = (Paced::new(clock.into()), open(url, &Options::default()).unwrap());
    let number: usize = number.parse().unwrap();
    if number > 0 {
        write(&env, &store, tag, number.is_multiple_of(2), PAUSE);
    }
    let catalog = chain(env.clone(), store, false);
    runtime().block_on(async {
        loop {
            let told = match catalog.vacuum(GRACE).await {
                Ok(swept) => format!("swept {} {}", swept.versions, swept.packs),
                Err(error) => format!("stopped {}", error.to_string().replace(' ', "-")),
            };
            say(&format!("done {tag} {told}"));
            env.sleep_until(env.now() + Span::from_millis(20)).await;
        }
    });
}

/// Whether each of these has ended two operations: then the second one began after the first of these lines.
fn all_did_something(tags: &[String], lines: &[String]) -> bool {
    tags.iter().all(|tag| {
        let ends = [format!("end {tag} "), format!("done {tag} ")];
        lines.iter().filter(|line| ends.iter().any(|end| line.starts_with(end))).nth(1).is_some()
    })
}

/// Reported deletions: versions, packs. A killed process did not report its last ones.
fn swept(lines: &[String]) -> (u64, u64) {
    let numbers = lines.iter().filter_map(|line| line.split_once(" swept ")).map(|(_, numbers)| {
        let mut numbers = numbers.split(' ').map(|number| number.parse::<u64>().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    });
    numbers.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

/// The clock of the file system cannot be advanced, so the versions are made older by a step. Files may vanish.
fn grow_old(store_folder: &Path) {
    let Ok(versions) = std::fs::read_dir(store_folder.join("objects/shared/versions")) else { return };
    for entry in versions.flatten() {
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - Duration::from_nanos(STEP.as_nanos())).unwrap();
    }
}

fn vacuumed(store_folder: &Path, clock: &Path, layout: Layout) {
    let url = format!("file://{}?durability=none", store_folder.display());
    let (runtime, store) = (runtime(), open(&url, &Options::default()).unwrap());
    let mut steps = File::create(clock).unwrap();
    let env = Paced::new(clock.to_owned());
    let created = runtime.block_on(chain(env.clone(), store.clone(), false).create(layout, true));
    assert!(matches!(created, Outcome::Committed(_)), "{created:?}");
    let mut reader = runtime.block_on(Reader::new(chain(env.clone(), store.clone(), false)));

    let (said, mut luck): (Arc<Said>, _) = (Arc::default(), Luck::new());
    let tag = |number: usize, step: usize| format!("p{number}s{step}");
    let start = |number: usize, step: usize| {
        let task = format!("{url} {} {} {number}", clock.display(), tag(number, step));
        Process::start("process_beside_others", &task, &said)
    };
    let mut since = [0; WRITERS + 1];
    let mut processes: Vec<Process> = (0..=WRITERS).map(|number| start(number, 0)).collect();
    for step in 1..=STEPS {
        let names = |(number, since): (usize, &usize)| match number {
            0 => vec![tag(number, *since)],
            _ => threads(&tag(number, *since)),
        };
        let tags: Vec<String> = since.iter().enumerate().flat_map(names).collect();
        said.wait(said.count(), |lines| all_did_something(&tags, lines));
        // All that is read here is younger than the grace period, because the clock does not advance.
        runtime.block_on(reader.read_on());
        steps.write_all(b".").unwrap();
        grow_old(store_folder);
        luck.pause();
        let victim = luck.below(WRITERS as u64 + 1) as usize;
        processes[victim].kill();
        processes[victim] = start(victim, step);
        since[victim] = step;
    }
    drop(processes);

    let lines = said.lines();
    let (versions, packs) = swept(&lines);
    let found = runtime.block_on(async {
        reader.read_on().await;
        reader.look_at_the_end().await;
        let catalog = chain(env, store.clone(), false);
        let oldest = catalog.load().await.unwrap().oldest_kept();
        for version in catalog.every_version().await.unwrap().iter().filter(|version| version.version() >= oldest) {
            for key in catalog.objects(version).await.unwrap() {
                store.head(&key).await.unwrap_or_else(|error| panic!("{key}, needed by {version:?}: {error}"));
            }
        }
        reader.found
    });
    let stopped: Vec<&String> = lines.iter().filter(|line| line.contains(" stopped ")).collect();
    println!(
        "{layout:?}: {} commits acknowledged in {} versions; {versions} versions and {packs} packs removed; stopped: \
         {stopped:?}",
        acknowledged(&lines),
        found.versions().len()
    );
    judge(&lines, &found);
    assert!(versions > 0 && packs > 0, "nothing was removed");
    // A commit that is under way when the clock advances is stamped before that and written after it. While such a
    // version is old by one clock and young by the other, a vacuum removes nothing, as it should.
    let known = ["other-writers-committed-first", "clocks-disagree"];
    assert!(stopped.iter().all(|line| known.iter().any(|why| line.contains(why))), "{stopped:?}");
}

#[test]
fn many_writers_beside_a_vacuum_lose_nothing() {
    for layout in Layout::ALL {
        let folder = tempfile::tempdir().unwrap();
        vacuumed(&folder.path().join("store"), &folder.path().join("clock"), layout);
    }
}
