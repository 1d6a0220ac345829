//! Processes commit to catalogs of every protocol on a file system whose power is cut meanwhile (see
//! [`support::disk`]). Is every acknowledged commit there afterwards?
//!
//! Needs the superuser, loop devices and ext4; elsewhere it reports that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::path::Path;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, ByteSize, Entry, Name, TableId, TableState};
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::group::{Committer, Group, Grouped, Leader, RetryPolicy};
use glidepath_protocols::manifest_chain::{self, Layout, ManifestChain};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_stores::{LiveEnv, Options, Store, open};
use support::chain::runtime;
use support::disk::Disk;
use support::{Luck, Process, Said, say, task};

/// Power cuts, each of a new disk.
const CUTS: u32 = 3;

/// Processes for each catalog.
const PROCESSES: u32 = 2;

/// Threads in each process, which share commits.
const THREADS: u32 = 3;

/// The fewest acknowledged commits of each catalog before the power is cut.
const LEAST: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Log,
    Chain(Layout),
}

impl Kind {
    const ALL: [Self; 4] = [Self::File, Self::Log, Self::Chain(Layout::Paged), Self::Chain(Layout::Whole)];

    fn number(self) -> usize {
        Self::ALL.iter().position(|kind| *kind == self).unwrap()
    }
}

fn file<E: Env>(env: E, store: E::Objects) -> CatalogFile<E> {
    let key = glidepath_env::Key::new("file/catalog");
    CatalogFile::new(env, store, Arc::new(catalog_file::SharedState::new(key, ByteSize::default())))
}

/// With segments so small that some are closed in this test.
fn log<E: Env>(env: E, store: E::Objects) -> AppendLog<E> {
    let limits = Limits { records: 6, ..Limits::default() };
    AppendLog::new(env, store, Arc::new(append_log::SharedState::new("log", limits)))
}

fn chain<E: Env>(env: E, store: E::Objects, layout: Layout) -> ManifestChain<E> {
    let shared_state = manifest_chain::SharedState::new(&format!("{}/", layout.name()), 16 << 20);
    // All pages in packs, so that a version depends on another file.
    ManifestChain::new(env, store, Arc::new(shared_state.inline_up_to(0)))
}

fn actions(id: TableId) -> Vec<Action> {
    vec![Action::Create { name: Name::numbered(id), entry: Entry::table(None, TableState::new(1)) }]
}

async fn create_all(store: &Store) {
    let (env, ended) = (LiveEnv::new(), |ended: bool| assert!(ended, "a catalog was not created"));
    ended(matches!(file(env, store.clone()).create(Vec::new()).await, Outcome::Committed(_)));
    ended(matches!(log(env, store.clone()).create(Vec::new()).await, Outcome::Committed(_)));
    for layout in Layout::ALL {
        ended(matches!(chain(env, store.clone(), layout).create(layout, true).await, Outcome::Committed(_)));
    }
}

/// Not a test: the task of the processes that lose the disk. They continue after that, and must not acknowledge a
/// commit that is lost.
#[test]
fn writer_that_loses_its_disk() {
    let Some(task) = task() else { return };
    let (url, numbers) = task.split_once(' ').unwrap();
    let (kind, process) = numbers.split_once(' ').unwrap();
    let (env, store) = (LiveEnv::new(), open(url, &Options::default()).unwrap());
    let (number, process): (usize, u32) = (kind.parse().unwrap(), process.parse().unwrap());
    match Kind::ALL[number] {
        Kind::File => write(|| file(env, store.clone()), number, process),
        Kind::Log => write(|| log(env, store.clone()), number, process),
        Kind::Chain(layout) => write(|| chain(env, store.clone(), layout), number, process),
    }
}

fn write<C>(catalog: impl Fn() -> C + Sync, kind: usize, process: u32)
where
    C: Grouped,
    Group<C>: Send + Sync,
    Leader<LiveEnv, C>: Send,
{
    let (runtime, group) = (runtime(), Group::<C>::default());
    let leader = Leader::new(LiveEnv::new(), catalog(), &group, RetryPolicy::default()).unwrap();
    std::thread::scope(|scope| {
        let handle = runtime.handle();
        scope.spawn(move || handle.block_on(leader.lead()));
        for thread in 0..THREADS {
            let (group, catalog) = (group.clone(), &catalog);
            scope.spawn(move || {
                let committer = Committer::grouped(LiveEnv::new(), catalog(), group);
                handle.block_on(async {
                    for number in 0.. {
                        let id = TableId(((process * THREADS + thread) << 24) | number);
                        if committer.commit(actions(id)).await.is_ok() {
                            say(&format!("committed {kind} {}", id.0));
                        }
                    }
                });
            });
        }
    });
}

/// The tables of one catalog with acknowledged creation.
fn acknowledged(kind: Kind, lines: &[String]) -> Vec<TableId> {
    let begin = format!("committed {} ", kind.number());
    let ids = lines.iter().filter_map(|line| line.strip_prefix(begin.as_str())?.split(' ').next());
    ids.map(|id| TableId(id.parse().unwrap())).collect()
}

/// The number of these tables that are lost.
async fn missing<C: Catalog>(catalog: C, ids: &[TableId]) -> Result<usize, LoadError> {
    let head = catalog.load().await?;
    let found = catalog.tables(&head, ids).await?;
    Ok(found.iter().filter(|table| table.is_none()).count())
}

/// Acknowledged commits, and the number of them that are lost.
#[derive(Debug, Default)]
struct Count {
    acknowledged: usize,
    lost: usize,
}

/// One power cut.
fn cut(disk: &Disk, durability: &str, luck: &mut Luck) -> Count {
    let (runtime, path) = (runtime(), disk.path().join("store"));
    let url = |durability: &str| format!("file://{}?durability={durability}", path.display());
    let safe = || open(&url("fsync"), &Options::default()).unwrap();
    runtime.block_on(create_all(&safe()));

    let said: Arc<Said> = Arc::default();
    let start = |kind: usize, process: u32| {
        let task = format!("{} {kind} {process}", url(durability));
        Process::start("writer_that_loses_its_disk", &task, &said)
    };
    let all = (0..Kind::ALL.len()).flat_map(|kind| (0..PROCESSES).map(move |process| (kind, process)));
    let mut processes: Vec<Process> = all.map(|(kind, process)| start(kind, process)).collect();
    let enough = LEAST as usize + luck.below(LEAST) as usize;
    said.wait(0, |lines| Kind::ALL.iter().all(|kind| acknowledged(*kind, lines).len() >= enough));
    luck.pause();
    disk.cut();
    processes.iter_mut().for_each(Process::kill);
    disk.power_on();

    let lines = said.lines();
    runtime.block_on(async {
        let (env, store, mut count) = (LiveEnv::new(), safe(), Count::default());
        for kind in Kind::ALL {
            let ids = acknowledged(kind, &lines);
            let lost = match kind {
                Kind::File => missing(file(env, store.clone()), &ids).await,
                Kind::Log => missing(log(env, store.clone()), &ids).await,
                Kind::Chain(layout) => {
                    let chain = chain(env, store.clone(), layout);
                    let checked = chain.fsck().await;
                    let whole = checked.as_ref().is_ok_and(|checked| !checked.is_damaged());
                    assert!(durability == "none" || whole, "{kind:?}: {checked:?}");
                    missing(chain, &ids).await
                }
            };
            // If the catalog cannot be read, all are lost.
            let lost = lost.unwrap_or_else(|error| {
                println!("{kind:?}: {error}");
                ids.len()
            });
            println!("{durability}, {kind:?}: {} acknowledged, {lost} of them lost", ids.len());
            count.acknowledged += ids.len();
            count.lost += lost;
        }
        count
    })
}

/// The disk of a test, in a folder that lives as long; or `None`, after printing why.
fn disk(folder: &Path) -> Option<Disk> {
    Disk::new(folder).map_err(|why| println!("skipped: no power can be cut here ({why})")).ok()
}

#[test]
fn acknowledged_commits_survive_the_loss_of_power() {
    let mut luck = Luck::new();
    for _ in 0..CUTS {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = disk(folder.path()) else { return };
        let count = cut(&disk, "fsync", &mut luck);
        assert_eq!(count.lost, 0, "{count:?}");
    }
}

/// Proves that the test above can fail: without syncs the commits are lost.
#[test]
fn without_syncing_they_do_not() {
    let mut luck = Luck::new();
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = disk(folder.path()) else { return };
    let count = cut(&disk, "none", &mut luck);
    assert!(count.lost > 0, "{count:?}");
}
