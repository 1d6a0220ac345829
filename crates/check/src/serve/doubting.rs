//! What if the outcome of a commit of the catalog is unknown, though the protocol settles nearly every one itself?
//!
//! Between the service and the protocol, a share of the attempts are not answered: some have taken effect, some never
//! do, and some do so minutes later, when what asked for them has long gone on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;

use glidepath_env::{Cause, Env, Purpose, unit_interval};
use glidepath_model::{Action, Changes, Entry, Name, Span, TableId, Version};
use glidepath_protocols::group::{GroupAttempt, Grouped, Verdict};
use glidepath_protocols::registry::AnyCatalog;
use glidepath_protocols::{Catalog, LoadError, Outcome, TableStates};

use crate::process::Process;

use super::judge::is_reserved;

/// How late an attempt takes effect at most: later than a purge is due and done.
const LATEST: Span = Span::from_secs(300);

/// How often a late attempt that others overtake is made again.
const ATTEMPTS: u32 = 5;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Attempts that take effect later, for the server to run.
#[derive(Clone, Default)]
pub(super) struct Zombies(Rc<RefCell<Vec<Task>>>);

impl Zombies {
    /// Those that came since the last call.
    pub(super) fn take(&self) -> Vec<Task> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

/// The metadata files that tables got and were dropped with in one attempt, if it may have taken effect: no version of
/// the catalog refers to such a file, so what is written cannot show what was committed with it.
#[derive(Clone, Default)]
pub(super) struct Hidden(Rc<RefCell<BTreeSet<String>>>);

impl Hidden {
    /// Takes what is known at the end.
    pub(super) fn take(&self) -> BTreeSet<String> {
        self.0.take()
    }

    /// An attempt with these requests begins: whoever made it may hear no answer. Returns the files that are new here.
    fn may_have(&self, requests: &[&[Action]]) -> BTreeSet<String> {
        let all = hidden_by(requests.iter().copied());
        let mut known = self.0.borrow_mut();
        all.into_iter().filter(|file| known.insert(file.clone())).collect()
    }

    /// It has ended: of the files that were new, only those stay that it may have hidden indeed.
    fn settle<S>(&self, fresh: &BTreeSet<String>, requests: &[&[Action]], attempt: &GroupAttempt<S>) {
        let settled = match attempt {
            GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Committed(_) | Outcome::Unknown(_)) } => {
                let fits = requests.iter().zip(verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Fits));
                hidden_by(fits.map(|(request, _)| *request))
            }
            _ => BTreeSet::new(),
        };
        self.0.borrow_mut().retain(|file| !fresh.contains(file) || settled.contains(file));
    }
}

/// The metadata files that tables get by these requests, one after another, and are dropped with.
fn hidden_by<'a>(requests: impl Iterator<Item = &'a [Action]>) -> BTreeSet<String> {
    let (mut at, mut hidden) = (BTreeMap::<&Name, &str>::new(), BTreeSet::new());
    for action in requests.flatten() {
        match action {
            Action::Create { name, entry } if !is_reserved(name) => {
                at.extend(entry.pointer.as_deref().map(|pointer| (name, pointer)));
            }
            Action::SetPointer { name, pointer, .. } if !is_reserved(name) => drop(at.insert(name, pointer)),
            Action::Rename { from, to } => {
                let moved = at.remove(from);
                at.extend(moved.map(|pointer| (to, pointer)));
            }
            Action::Drop { name, .. } => hidden.extend(at.remove(name).map(str::to_owned)),
            _ => {}
        }
    }
    hidden
}

/// A catalog of which some commits have an unknown outcome.
pub(super) struct Doubting {
    pub(super) env: Process,
    pub(super) inner: AnyCatalog<Process>,
    /// The share of attempts.
    pub(super) share: f64,
    pub(super) zombies: Zombies,
    pub(super) hidden: Hidden,
}

impl Doubting {
    fn chance(&self) -> f64 {
        unit_interval(self.env.draw(Purpose::Transaction))
    }

    async fn attempted(
        &self,
        base: &<Self as Catalog>::Snapshot,
        requests: &[&[Action]],
    ) -> GroupAttempt<<Self as Catalog>::Snapshot> {
        if self.share == 0.0 || self.chance() >= self.share {
            return self.inner.attempt_group(base, requests).await;
        }
        let fate = self.chance();
        if fate < 0.5 {
            return match self.inner.attempt_group(base, requests).await {
                GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Committed(_)) } => {
                    GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Unknown(Cause::words("not heard"))) }
                }
                other => other,
            };
        }
        if fate < 0.8 {
            let (env, inner) = (self.env.clone(), self.inner.clone());
            let requests: Vec<Vec<Action>> = requests.iter().map(|request| request.to_vec()).collect();
            let late = Span::from_nanos_f64(LATEST.as_nanos() as f64 * self.chance());
            self.zombies.0.borrow_mut().push(Box::pin(async move {
                env.sleep_until(env.now() + late).await;
                let requests: Vec<&[Action]> = requests.iter().map(Vec::as_slice).collect();
                // On what is there by then: what a commit requires is looked at where it takes effect.
                for _ in 0..ATTEMPTS {
                    let Ok(now) = inner.load().await else { continue };
                    match inner.attempt_group(&now, &requests).await {
                        GroupAttempt::Decided { outcome: Some(Outcome::Conflict(_)), .. } => {}
                        _ => return,
                    }
                }
            }));
        }
        // Whether it fits is unknown too.
        let verdicts = requests.iter().map(|_| Verdict::Fits).collect();
        GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Unknown(Cause::words("it got lost, or is late"))) }
    }
}

impl Catalog for Doubting {
    type Snapshot = <AnyCatalog<Process> as Catalog>::Snapshot;

    async fn load(&self) -> Result<Self::Snapshot, LoadError> {
        self.inner.load().await
    }

    fn version(&self, at: &Self::Snapshot) -> Option<Version> {
        self.inner.version(at)
    }

    async fn tables<'a>(&self, at: &'a Self::Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        self.inner.tables(at, ids).await
    }

    async fn entry(&self, at: &Self::Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        self.inner.entry(at, name).await
    }

    async fn children(
        &self,
        at: &Self::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        self.inner.children(at, namespace, after, limit).await
    }

    async fn list<T: PartialEq>(
        &self,
        at: &Self::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<Vec<(Name, T)>, LoadError> {
        self.inner.list(at, namespace, after, limit, what).await
    }

    async fn search(
        &self,
        at: &Self::Snapshot,
        enters: impl Fn(&Name) -> bool,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        self.inner.search(at, enters, wanted).await
    }

    async fn trim(&self, namespace: Option<&Name>) -> Result<u64, LoadError> {
        self.inner.trim(namespace).await
    }

    async fn commit(&self, base: &Self::Snapshot, changes: &Changes) -> Outcome<Self::Snapshot> {
        self.inner.commit(base, changes).await
    }
}

impl Grouped for Doubting {
    fn newest_known(&self) -> Option<Self::Snapshot> {
        self.inner.newest_known()
    }

    fn is_apart(&self, request: &[Action]) -> bool {
        self.inner.is_apart(request)
    }

    async fn attempt_group(&self, base: &Self::Snapshot, requests: &[&[Action]]) -> GroupAttempt<Self::Snapshot> {
        let fresh = self.hidden.may_have(requests);
        let attempt = self.attempted(base, requests).await;
        self.hidden.settle(&fresh, requests, &attempt);
        attempt
    }
}
