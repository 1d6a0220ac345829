//! A catalog of numbers with given outcomes, and writers and a leader that advance one poll at a time: no clock, no
//! store.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glidepath_env::Denial;
use glidepath_model::{Assertion, Changes, Entry, Instant, Kind, Name, TableId, Version};
use glidepath_sim::SimStore;

use super::super::*;
use crate::catalog::TableStates;

/// An environment without time.
pub(super) struct Timeless;

impl Env for Timeless {
    type Objects = SimStore;

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    async fn sleep_until(&self, _: Instant) {}

    fn draw(&self, _: glidepath_env::Purpose) -> u64 {
        7
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Create(u32),
    Drop(u32),
    /// Only asserts that it exists.
    Look(u32),
    /// More than any version can hold.
    TooMuch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Exists(u32),
    Missing(u32),
}

impl Ask {
    fn of(request: &[Action]) -> Self {
        let number = |name: &Name| name.number().unwrap().0;
        match request {
            [Action::Create { name, .. }] => Self::Create(number(name)),
            [Action::Drop { name, .. }] => Self::Drop(number(name)),
            [Action::Assert { name, .. }] => Self::Look(number(name)),
            _ => Self::TooMuch,
        }
    }

    fn request(self) -> Request {
        let name = |number| Name::numbered(TableId(number));
        match self {
            Self::Create(number) => vec![Action::Create { name: name(number), entry: Entry::namespace() }],
            Self::Drop(number) => {
                vec![Action::Drop { name: name(number), kind: Kind::Namespace, expected: None }]
            }
            Self::Look(number) => {
                vec![Action::Assert { name: name(number), holds: Assertion::Exists(Kind::Namespace) }]
            }
            Self::TooMuch => {
                vec![Action::Rename { from: name(0), to: name(1) }]
            }
        }
    }
}

impl Refused {
    pub(super) fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Exists(name) => Self::Exists(name.number().unwrap().0),
            Refusal::NotFound(name) => Self::Missing(name.number().unwrap().0),
            other => panic!("{other}"),
        }
    }

    fn told(self) -> Refusal {
        let name = |number| Name::numbered(TableId(number));
        match self {
            Self::Exists(number) => Refusal::Exists(name(number)),
            Self::Missing(number) => Refusal::NotFound(name(number)),
        }
    }
}

/// The outcome of one version that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Told,
    /// Another writer commits this first.
    Beaten(Ask),
    /// Says whether it took effect.
    Unknown(bool),
    /// The store is busy.
    Busy,
    /// The store has no room.
    NoRoom,
    Panics,
}

pub(super) type At = (Version, BTreeSet<u32>);

/// The content of the store, and the order in which it was written.
#[derive(Default)]
pub(super) struct World {
    pub(super) head: At,
    pub(super) known: Option<At>,
    /// `Told` if there is none left.
    pub(super) endings: VecDeque<Ending>,
    /// The maximum number of requests in one version; 0: no limit.
    pub(super) room: usize,
    /// The requests of each attempt.
    pub(super) tries: Vec<Vec<Ask>>,
    /// Everything that took effect, in order.
    pub(super) log: Vec<Ask>,
}

pub(super) fn apply(names: &mut BTreeSet<u32>, ask: Ask) -> Result<(), Refused> {
    match ask {
        Ask::Create(name) if !names.insert(name) => Err(Refused::Exists(name)),
        Ask::Drop(name) if !names.remove(&name) => Err(Refused::Missing(name)),
        Ask::Look(name) if !names.contains(&name) => Err(Refused::Missing(name)),
        _ => Ok(()),
    }
}

impl World {
    pub(super) fn install(&mut self, asked: &[Ask]) -> At {
        asked.iter().for_each(|ask| apply(&mut self.head.1, *ask).unwrap());
        self.log.extend(asked);
        self.head.0 = self.head.0.next();
        self.head.clone()
    }

    fn ended(&mut self, base: &At, asked: &[Ask]) -> Outcome<At> {
        let ending = self.endings.pop_front().unwrap_or(Ending::Told);
        if let Ending::Beaten(other) = ending
            && apply(&mut self.head.1.clone(), other).is_ok()
        {
            self.install(&[other]);
        }
        let newest = base.0 == self.head.0;
        match ending {
            Ending::Told if newest => {
                let now = self.install(asked);
                self.known = Some(now.clone());
                Outcome::Committed(now)
            }
            Ending::Unknown(landed) => {
                if landed && newest {
                    self.install(asked);
                }
                Outcome::Unknown(Cause::words("no answer"))
            }
            Ending::Busy => Outcome::Refused(Denial::words("busy").passing()),
            Ending::NoRoom => Outcome::Refused(Denial::words("no room")),
            Ending::Panics => panic!("the catalog panics"),
            Ending::Told | Ending::Beaten(_) => Outcome::Conflict(None),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Numbers(pub(super) Rc<RefCell<World>>);

impl Catalog for Numbers {
    type Snapshot = At;

    async fn load(&self) -> Result<At, LoadError> {
        Ok(self.0.borrow().head.clone())
    }

    fn version(&self, at: &At) -> Option<Version> {
        Some(at.0)
    }

    async fn tables<'a>(&self, _: &'a At, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        Ok(ids.iter().map(|_| None).collect())
    }

    async fn entry(&self, _: &At, _: &Name) -> Result<Option<Entry>, LoadError> {
        Ok(None)
    }

    async fn children(
        &self,
        _: &At,
        _: Option<&Name>,
        _: Option<&Name>,
        _: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        Ok(Vec::new())
    }

    async fn commit(&self, _: &At, _: &Changes) -> Outcome<At> {
        Outcome::Conflict(None)
    }
}

impl Grouped for Numbers {
    fn newest_known(&self) -> Option<At> {
        self.0.borrow().known.clone()
    }

    async fn attempt_group(&self, base: &At, requests: &[&[Action]]) -> GroupAttempt<At> {
        let requests: Vec<Ask> = requests.iter().map(|request| Ask::of(request)).collect();
        let (mut names, mut fitting, mut verdicts) = (base.1.clone(), Vec::new(), Vec::new());
        let room = match self.0.borrow().room {
            0 => usize::MAX,
            room => room,
        };
        for ask in &requests {
            if fitting.len() == room {
                break;
            }
            verdicts.push(match *ask {
                Ask::TooMuch => Verdict::Failed(Cause::words("too much")),
                ask => match apply(&mut names, ask) {
                    Ok(()) => {
                        fitting.extend((!matches!(ask, Ask::Look(_))).then_some(ask));
                        Verdict::Fits
                    }
                    Err(refusal) => Verdict::Refused(refusal.told()),
                },
            });
        }
        self.0.borrow_mut().tries.push(requests);
        if fitting.is_empty() {
            return GroupAttempt::Decided { verdicts, outcome: None };
        }
        // Pending once, as a request in flight is.
        let mut sent = false;
        std::future::poll_fn(|_| if std::mem::replace(&mut sent, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        let outcome = Some(self.0.borrow_mut().ended(base, &fitting));
        GroupAttempt::Decided { verdicts, outcome }
    }
}

pub(super) type Told = Answer<Numbers>;
pub(super) type Asking = Pin<Box<dyn Future<Output = Told>>>;

/// A group, its leader, and their catalog.
pub(super) struct Office {
    pub(super) numbers: Numbers,
    pub(super) group: Group<Numbers>,
    pub(super) leader: Option<Pin<Box<dyn Future<Output = ()>>>>,
    retry_policy: RetryPolicy,
}

impl Office {
    pub(super) fn of(most_waiting: usize, tries: u32) -> Self {
        let retry_policy = RetryPolicy { tries, ..RetryPolicy::default() };
        let mut office =
            Self { numbers: Numbers::default(), group: Group::new(most_waiting), leader: None, retry_policy };
        office.lead();
        office
    }

    pub(super) fn new(endings: &[Ending]) -> Self {
        let office = Self::of(100, 4);
        office.numbers.0.borrow_mut().endings.extend(endings);
        office
    }

    pub(super) fn leader(&self) -> Result<Leader<Timeless, Numbers>, AlreadyLed> {
        Leader::new(Timeless, self.numbers.clone(), &self.group, self.retry_policy)
    }

    /// Starts another leader, after the last one ended.
    pub(super) fn lead(&mut self) {
        self.leader = Some(Box::pin(self.leader().unwrap().lead()));
    }

    /// Asks and polls once.
    pub(super) fn ask(&self, ask: Ask) -> (Asking, Option<Told>) {
        let committer = Committer::grouped(Timeless, self.numbers.clone(), self.group.clone());
        let mut asking: Asking = Box::pin(async move { committer.commit(ask.request()).await });
        let told = poll(&mut asking);
        (asking, told)
    }

    /// Asks for all of these at the same time; returns the answers.
    pub(super) fn told(&mut self, asks: &[Ask]) -> Vec<Told> {
        let mut asking: Vec<_> = asks.iter().map(|ask| self.ask(*ask)).collect();
        self.work();
        let told = |(asking, told): &mut (Asking, Option<Told>)| told.take().or_else(|| poll(asking));
        asking.iter_mut().map(|asking| told(asking).expect("an answer")).collect()
    }

    pub(super) fn poll(&mut self) {
        if let Some(leader) = &mut self.leader
            && poll(leader).is_some()
        {
            self.leader = None;
        }
    }

    /// Polls the leader until it has nothing left to do.
    pub(super) fn work(&mut self) {
        (0..200).for_each(|_| self.poll());
    }

    pub(super) fn tries(&self) -> Vec<Vec<Ask>> {
        self.numbers.0.borrow().tries.clone()
    }
}

pub(super) fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
