//! Processes that commit to a chain of versions through a group: their task, their answers, and the chain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glidepath_env::{Env, Purpose};
use glidepath_history::{Chain, Change, Edit, Effect, Ending, Expected, History, Item, ProcessId, Reported};
use glidepath_model::{Action, CommitId, Entry, Instant, Name, Span, Version};
use glidepath_protocols::Catalog;
use glidepath_protocols::group::{CommitError, Committer, Group, Leader, RetryPolicy};
use glidepath_protocols::manifest_chain::{ManifestChain, SharedState, Snapshot};
use glidepath_stores::{LiveEnv, Store};
use tokio::runtime::Runtime;

use super::say;

pub(crate) const PREFIX: &str = "shared/";

/// Threads of each process that commits.
const THREADS: usize = 2;

/// A clock that all processes of a test share and that the test advances in steps, so that protocols need not wait for
/// minutes. Between steps it runs as usual.
#[derive(Clone)]
pub(crate) struct Paced {
    live: LiveEnv,
    /// A file with one byte per step.
    steps: Arc<Path>,
}

/// The length of one step.
pub(crate) const STEP: Span = Span::from_secs(60);

impl Paced {
    pub(crate) fn new(steps: PathBuf) -> Self {
        Self { live: LiveEnv::new(), steps: steps.into() }
    }

    fn moved(&self) -> Span {
        let steps = std::fs::metadata(&self.steps).map_or(0, |file| file.len());
        Span::from_nanos(steps * STEP.as_nanos())
    }
}

impl Env for Paced {
    type Objects = Store;

    fn now(&self) -> Instant {
        self.live.now() + self.moved()
    }

    fn unix_ms(&self) -> u64 {
        self.live.unix_ms() + self.moved().as_nanos() / 1_000_000
    }

    async fn sleep_until(&self, at: Instant) {
        let now = self.now();
        if at > now {
            self.live.sleep_until(self.live.now() + at.since(now)).await;
        }
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        self.live.draw(purpose)
    }
}

/// The place of a process. Every second process puts its pages into packs.
pub(crate) fn chain<E: Env>(env: E, store: E::Objects, packs: bool) -> ManifestChain<E> {
    ManifestChain::new(env, store, Arc::new(shared_state(packs)))
}

fn shared_state(packs: bool) -> SharedState {
    let shared_state = SharedState::new(PREFIX, 16 << 20);
    if packs { shared_state.inline_up_to(0) } else { shared_state }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The names of a process's threads in its output.
pub(crate) fn threads(tag: &str) -> Vec<String> {
    (0..THREADS).map(|thread| format!("{tag}-{thread}")).collect()
}

/// Commits for ever, from several threads that share commits. Prints a line before each commit and one after its
/// answer. A thread waits for `pause` between commits.
pub(crate) fn write<E>(env: &E, store: &Store, tag: &str, packs: bool, pause: Span)
where
    E: Env<Objects = Store> + Clone + Send + Sync,
    Leader<E, ManifestChain<E>>: Send,
{
    let runtime = runtime();
    let shared_state = Arc::new(shared_state(packs));
    let chain = || ManifestChain::new(env.clone(), store.clone(), Arc::clone(&shared_state));
    let group: Group<ManifestChain<E>> = Group::default();
    let leader = Leader::new(env.clone(), chain(), &group, RetryPolicy::default()).unwrap();
    std::thread::scope(|scope| {
        let handle = runtime.handle();
        scope.spawn(move || handle.block_on(leader.lead()));
        for thread in threads(tag) {
            let committer = Committer::grouped(env.clone(), chain(), group.clone());
            scope.spawn(move || handle.block_on(create(env, &committer, &thread, pause)));
        }
    });
}

async fn create<E: Env>(env: &E, committer: &Committer<E, ManifestChain<E>>, tag: &str, pause: Span) {
    for number in 0_u64.. {
        let id = LiveEnv::new().draw(Purpose::Names) | 1;
        let name = format!("{tag}-{number}");
        let mut entry = Entry::namespace();
        entry.properties.insert("id".to_owned(), id.to_string());
        say(&format!("begin {tag} {name} {id}"));
        let action = Action::Create { name: Name::of_parts([name.as_str()]).unwrap(), entry };
        let told = match committer.commit(vec![action]).await {
            Ok(snapshot) => format!("committed {}", snapshot.version().0),
            Err(CommitError::Unknown(_)) => "unknown".to_owned(),
            Err(_) => "refused".to_owned(),
        };
        say(&format!("end {tag} {id} {told}"));
        if pause > Span::ZERO {
            env.sleep_until(env.now() + pause).await;
        }
    }
}

/// The operations of the processes, with their answers.
pub(crate) fn recorded(lines: &[String]) -> History {
    let (mut history, mut processes, mut open) = (History::new(), BTreeMap::new(), BTreeMap::new());
    let at = |word: Option<&&str>| word.and_then(|word| word.parse().ok()).map(Instant::from_nanos);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        // The test harness also writes lines.
        let Some(when) = at(words.last()) else { continue };
        match words.as_slice() {
            ["begin", tag, name, id, _] => {
                let next = ProcessId(processes.len() as u32);
                let process = *processes.entry((*tag).to_owned()).or_insert(next);
                let id: u64 = id.parse().unwrap();
                let edit = Edit { item: item(name), expected: Expected::Absent, effect: Effect::Put(CommitId(id)) };
                open.insert(id, history.begin_commit(process, when, CommitId(id), [edit]));
            }
            ["end", _, id, told @ .., _] => {
                let ending = match told {
                    ["committed", version] => Ending::Committed(Reported::By(Version(version.parse().unwrap()))),
                    ["unknown"] => Ending::Unknown,
                    _ => Ending::Conflict,
                };
                history.end_commit(open[&id.parse::<u64>().unwrap()], when, ending);
            }
            _ => {}
        }
    }
    history
}

/// How many commits were acknowledged in these lines.
pub(crate) fn acknowledged(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains(" committed ")).count()
}

/// The number of a name: a hash. Two names of a run share it with a probability of one in 10^12.
fn item(name: &str) -> Item {
    Item(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// Reads the chain as it grows, so that vacuumed versions are known too.
pub(crate) struct Reader<E: Env> {
    chain: ManifestChain<E>,
    last: Snapshot,
    pub(crate) found: Chain,
}

impl<E: Env> Reader<E> {
    /// Begins with the first version, which is empty.
    pub(crate) async fn new(chain: ManifestChain<E>) -> Self {
        let last = chain.version_at(Version(0)).await.unwrap().unwrap();
        Self { chain, last, found: Chain::starting_at(Version(0), []) }
    }

    /// Reads up to the newest version.
    pub(crate) async fn read_on(&mut self) {
        let head = self.chain.load().await.unwrap();
        while self.last.version() < head.version() {
            let next = self.chain.version_at(self.last.version().next()).await.unwrap();
            let next = next.unwrap_or_else(|| panic!("{:?} has no successor", self.last.version()));
            assert_eq!(next.before(), self.last.commit(), "{:?} does not name its predecessor", next.version());
            self.found.begin_version(next.version());
            for changed in self.chain.changed(Some(&self.last), &next, usize::MAX).await.unwrap() {
                let entry = changed.now.expect("no process drops entries");
                assert_eq!(changed.before, None, "no process changes entries");
                let id = CommitId(entry.properties["id"].parse().unwrap());
                self.found.push(id, [Change { item: item(changed.name.as_str()), now: Some(id) }]);
            }
            self.last = next;
        }
        assert_eq!(head.commit(), self.last.commit(), "the newest version is not the end of the chain");
    }

    /// Checks the newest version as a whole: it has all entries of the chain, and fsck finds no damage.
    pub(crate) async fn look_at_the_end(&self) {
        let entries = self.chain.all(&self.last, None, usize::MAX).await.unwrap();
        assert_eq!((entries.len(), self.last.entries()), (self.found.len(), self.found.len() as u64));
        let checked = self.chain.fsck().await.unwrap();
        assert!(!checked.is_damaged(), "{checked:?}");
    }
}

/// Compares the answers with the chain.
pub(crate) fn judge(lines: &[String], found: &Chain) {
    if let Err(violation) = glidepath_history::check(&recorded(lines), found) {
        panic!("{violation}");
    }
}
