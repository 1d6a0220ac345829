//! When does a request take effect, and what does its sender learn?
//!
//! The store owns a request once it is sent: the request takes effect at the service at its own instant, even if its
//! sender has given up or died by then. The sender gets the answer after the rest of the round trip.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Denial, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload,
    Purpose, PutError, ReadError, Tag,
};
use glidepath_model::{Instant, Span};
use slab::Slab;

use crate::agenda::Event;
use crate::clock::{Process, SimEnv};
use crate::contention::{Contention, Ticket};
use crate::fault::{Fault, Faults, Mishap};
use crate::latency::Sampler;
use crate::luck::Stream;
use crate::profile::{OperationProfile, Profile};
use crate::simulation::World;

mod act;
mod bulk;
mod failure;
mod kv;
mod rows;
mod sending;
mod state;

use act::{Act, Action, Answer, Append, Delete, Get, Head, List, Put};
use bulk::Steps;
pub use rows::CellWritten;
use sending::{Sending, Way};
pub(crate) use state::StoreState;
pub use state::Written;

/// Names a store of a simulation: its place in `Setup::stores`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub usize);

/// When, within its round trip, a request to shared state takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectPoint {
    /// Half-way: the other half is the answer's way back.
    Half,
    /// Half-way; but a conditional put is on its way to the store for at least half the time of a plain put, because it
    /// carries an object too. The published runs of 2026-06 seem to do so
    /// (docs/decisions/0007-way-of-a-conditional-put.md).
    HalfOfPut,
    /// At its end, as in the published runs of 2026-03.
    End,
}

impl EffectPoint {
    /// The time until a request reaches the store, and until its answer arrives. `plain` is the round trip of the plain
    /// put that was drawn beside a conditional one.
    #[inline]
    fn split(self, round_trip: Span, plain: Option<Span>) -> (Span, Span) {
        let half = round_trip.half();
        match self {
            Self::Half => (half, round_trip),
            Self::HalfOfPut => {
                let way = plain.map_or(half, |plain| half.max(plain.half()));
                (way, way + (round_trip - half))
            }
            Self::End => (round_trip, round_trip),
        }
    }
}

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreModel {
    /// Latencies and capabilities.
    pub profile: Profile,
    /// When requests take effect.
    pub effect: EffectPoint,
    /// Its faults.
    pub faults: Faults,
}

impl StoreModel {
    /// A store of this profile without faults.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        Self { profile, effect: EffectPoint::Half, faults: Faults::default() }
    }
}

/// A store as the simulation keeps it: the model, and its latencies ready for drawing.
pub(crate) struct Service {
    model: StoreModel,
    get: Sampler,
    put: Sampler,
    conditional_put: Guarded,
    append: Option<Guarded>,
    /// Whether a plain put is drawn beside each conditional one ([`EffectPoint::HalfOfPut`]). It is not drawn if both
    /// are the same constant, because then it changes nothing.
    puts_beside: bool,
    steps: Steps,
}

/// A guarded operation: one latency for all, or what was measured under contention.
struct Guarded {
    sampler: Sampler,
    contention: Option<Contention>,
}

impl Service {
    pub(crate) fn new(model: StoreModel) -> Self {
        let sampler = |operation: &OperationProfile| Sampler::new(operation.latency());
        let Profile { get, put, conditional_put, append, rate_cap, .. } = &model.profile;
        let guarded = |operation: &OperationProfile| Guarded {
            sampler: sampler(operation),
            contention: Contention::new(operation, *rate_cap),
        };
        let same_constant = put.sigma <= 0.0 && put.latency() == conditional_put.latency();
        let puts_beside = model.effect == EffectPoint::HalfOfPut && !same_constant;
        let (get, put, conditional_put) = (sampler(get), sampler(put), guarded(conditional_put));
        let append = append.as_ref().map(guarded);
        Self { model, get, put, conditional_put, append, puts_beside, steps: Steps::default() }
    }
}

/// A process's connection to a simulated store.
#[derive(Clone)]
pub struct SimStore {
    env: SimEnv,
    id: StoreId,
    service: Rc<Service>,
}

/// When a request is answered: known when it is sent, or only when it arrives among other writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    At(Instant),
    Contended(Ticket),
}

/// Requests on their way.
#[derive(Default)]
pub(crate) struct Requests {
    slab: Slab<Request>,
}

struct Request {
    store: StoreId,
    /// Taken when the request takes effect.
    action: Option<Action>,
    answer: Option<Answer>,
    when: When,
    /// Whether the answer has reached the sender.
    answered: bool,
    /// `None` if no process waits for the answer any more.
    sender: Option<Rc<Process>>,
}

impl SimStore {
    pub(crate) fn connect(env: SimEnv, id: StoreId) -> Self {
        let service = Rc::clone(&env.world.stores.borrow()[id.0].service);
        Self { env, id, service }
    }

    /// Sends a request to shared state and waits for the answer.
    fn request<'a, A: Act>(&'a self, act: A, latency: &'a Sampler) -> Sending<'a, A> {
        Sending::new(self, act, latency)
    }

    /// The general path of a request, on which every fault is possible.
    async fn send_by_world(&self, action: Action, way: Way) -> Answer {
        let faults = &self.service.model.faults;
        match self.env.process.with_luck(Purpose::Fault, |luck| faults.draw(luck)) {
            None => self.send(action, way.sent + way.takes, way.when).await,
            Some(fault) => self.send_with_fault(fault, action, way).await,
        }
    }

    async fn send(&self, action: Action, effect_at: Instant, when: When) -> Answer {
        let sender = Some(Rc::clone(&self.env.process));
        let id = self.enter(Request::new(self.id, Some(action), when, sender));
        self.env.world.schedule(effect_at, &self.env.process, Event::Arrive { request: id });
        self.wait(id).await
    }

    async fn send_with_fault(&self, fault: Fault, action: Action, Way { sent, takes, when }: Way) -> Answer {
        let Faults { timeout, lateness, .. } = self.service.model.faults;
        self.note(fault, &action, sent);
        let effect = sent + takes;
        match fault {
            Fault::RequestLost => {
                let answer = action.unknown("the request was lost");
                self.hear(sent + timeout, answer).await
            }
            Fault::AnswerLost => self.send_unheard(effect, "the answer was lost", action, when, sent + timeout).await,
            Fault::Late => self.send_unheard(sent + lateness, "no answer in time", action, when, sent + timeout).await,
            Fault::Refused => {
                let at = match when {
                    When::At(at) => at,
                    When::Contended(_) => effect + takes,
                };
                let once = self.service.model.faults.delivers_once();
                self.hear(at, action.refused("503 Slow Down", once, true)).await
            }
            Fault::Crash => {
                self.orphan(effect, action, when);
                std::future::pending().await
            }
            Fault::Stalled => self.send(action, effect + lateness, later(when, lateness)).await,
            Fault::Slow => {
                let answer = self.send(action, effect, when).await;
                self.env.pass_until(sent + lateness).await;
                answer
            }
            Fault::Repeated => {
                self.orphan(effect, action.clone(), when);
                self.send(action, effect + takes, later(when, takes)).await
            }
            Fault::Proxied => self.send_by_proxy(action, Way { sent, takes, when }).await,
            Fault::Suspended => {
                if let Some(machine) = &self.env.process.machine {
                    machine.suspend(sent, lateness);
                }
                let before = self.env.process.with_luck(Purpose::Fault, Stream::draw) & 1 == 0;
                let late = if before { lateness } else { Span::ZERO };
                self.send(action, effect + late, later(when, late)).await
            }
        }
    }

    /// Counts a fault, and records it if somebody wants to see it.
    fn note(&self, fault: Fault, action: &Action, sent: Instant) {
        self.env.world.faults.set(self.env.world.faults.get() + 1);
        if let Some(mishaps) = self.env.world.mishaps.borrow_mut().as_mut() {
            let words = format!("{}: {}", action.words(), fault.words());
            mishaps.push(Mishap { at: sent, process: self.env.process.id, words });
        }
    }

    /// Sends a request that takes effect, and whose outcome its sender does not learn: it gives up at `heard`.
    async fn send_unheard(&self, effect: Instant, why: &str, action: Action, when: When, heard: Instant) -> Answer {
        let answer = action.unknown(why);
        self.orphan(effect, action, when);
        self.hear(heard, answer).await
    }

    /// A proxy delivers the request twice, the first time perhaps late; it may answer instead of the store, with or
    /// without the second delivery.
    async fn send_by_proxy(&self, action: Action, Way { sent, takes: way, when }: Way) -> Answer {
        let Faults { timeout, lateness, .. } = self.service.model.faults;
        let luck = self.env.process.with_luck(Purpose::Fault, Stream::draw);
        let first_at = if luck & 7 == 0 { sent + lateness } else { sent + way };
        self.orphan(first_at, action.clone(), when);
        let heard_at = sent + way + way;
        match (luck >> 3) % 5 {
            0 => self.send(action, heard_at, later(when, way)).await,
            1 => {
                let answer = action.refused("409 or 403 to the second delivery", false, false);
                self.hear(heard_at, answer).await
            }
            2 => {
                let answer = action.refused("503 to the second delivery", false, true);
                self.hear(heard_at, answer).await
            }
            3 => {
                let answer = action.unknown("500 to the second delivery");
                self.hear(heard_at, answer).await
            }
            // The second delivery takes effect long after its sender gave up.
            _ => {
                let answer = action.unknown("no answer in time");
                self.orphan(sent + lateness + way, action, when);
                self.hear(sent + timeout, answer).await
            }
        }
    }

    /// A request that takes effect, and whose answer no process receives.
    fn orphan(&self, at: Instant, mut action: Action, when: When) {
        self.may_leave_half_done(&mut action);
        let orphan = self.enter(Request::new(self.id, Some(action), when, None));
        self.env.world.schedule(at, &self.env.process, Event::Arrive { request: orphan });
    }

    /// An answer that does not come from the store.
    async fn hear(&self, at: Instant, answer: Answer) -> Answer {
        let sender = Some(Rc::clone(&self.env.process));
        let id = self.enter(Request { answer: Some(answer), ..Request::new(self.id, None, When::At(at), sender) });
        self.env.world.schedule(at, &self.env.process, Event::Answer { request: id });
        self.wait(id).await
    }

    fn enter(&self, request: Request) -> u32 {
        self.env.world.requests.borrow_mut().slab.insert(request) as u32
    }

    async fn wait(&self, id: u32) -> Answer {
        let waiting = Waiting { world: &self.env.world, id };
        poll_fn(|_| {
            let mut requests = waiting.world.requests.borrow_mut();
            let request = &mut requests.slab[id as usize];
            match request.answer.take_if(|_| request.answered) {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Lets a request take effect. No process learns of it before the answer.
    pub(crate) fn arrive(world: &World, id: u32) {
        let (store, when, action) = {
            let mut requests = world.requests.borrow_mut();
            let request = &mut requests.slab[id as usize];
            let Some(action) = request.action.take() else { return };
            (request.store, request.when, action)
        };
        let turn = world.turn.get();
        let (answer, answer_at) = action.perform_at(world.stores.borrow_mut()[store.0].at(turn), turn.at(), &when);
        let mut requests = world.requests.borrow_mut();
        let request = &mut requests.slab[id as usize];
        match &request.sender {
            Some(sender) => {
                request.answer = Some(answer);
                request.when = When::At(answer_at);
                world.schedule(answer_at, sender, Event::Answer { request: id });
            }
            None => {
                requests.slab.remove(id as usize);
            }
        }
    }

    /// Lets an answer reach its sender. Returns the task to poll.
    pub(crate) fn answer(world: &World, id: u32) -> Option<u32> {
        let mut requests = world.requests.borrow_mut();
        let request = &mut requests.slab[id as usize];
        let Some(sender) = &request.sender else {
            requests.slab.remove(id as usize);
            return None;
        };
        if let When::At(at) = request.when {
            if let Some(awake) = sender.asleep_until(at) {
                request.when = When::At(awake);
                world.schedule(awake, sender, Event::Answer { request: id });
                return None;
            }
            sender.reach(at);
        }
        request.answered = true;
        Some(sender.task)
    }
}

/// The same, later by this time.
fn later(when: When, by: Span) -> When {
    match when {
        When::At(at) => When::At(at + by),
        When::Contended(ticket) => When::Contended(Ticket { sent: ticket.sent + by, ..ticket }),
    }
}

impl Request {
    fn new(store: StoreId, action: Option<Action>, when: When, sender: Option<Rc<Process>>) -> Self {
        Self { store, action, answer: None, when, answered: false, sender }
    }
}

/// Withdraws the sender, not the request, when the future that waits is dropped.
struct Waiting<'a> {
    world: &'a World,
    id: u32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut requests = self.world.requests.borrow_mut();
        let Some(request) = requests.slab.get_mut(self.id as usize) else { return };
        if request.answered {
            requests.slab.remove(self.id as usize);
        } else {
            // A pending event for it removes it.
            request.sender = None;
        }
    }
}

impl ObjectStore for SimStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            delivers_once: self.service.model.faults.delivers_once(),
            ..self.service.model.profile.capabilities()
        }
    }

    fn get(&self, key: &Key) -> impl Future<Output = Result<Object, ReadError>> {
        self.request(Get { key, range: None }, &self.service.get)
    }

    fn get_range(&self, key: &Key, range: Range<u64>) -> impl Future<Output = Result<Object, ReadError>> {
        self.request(Get { key, range: Some(range) }, &self.service.get)
    }

    fn head(&self, key: &Key) -> impl Future<Output = Result<Metadata, ReadError>> {
        self.request(Head { key }, &self.service.get)
    }

    fn put(&self, key: &Key, body: impl Body, guard: Guard) -> impl Future<Output = Result<Tag, PutError>> {
        let latency = match guard {
            Guard::None => &self.service.put,
            Guard::Absent | Guard::Matches(_) => &self.service.conditional_put.sampler,
        };
        self.request(Put { key, body, guard }, latency)
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let Some(latency) = &self.service.append else {
            return Err(PutError::Refused(Denial::words("this store cannot append")));
        };
        self.request(Append { key, payload, offset }, &latency.sampler).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.request(List { prefix, after, limit }, &self.service.get).await
    }

    fn delete(&self, key: &Key) -> impl Future<Output = Result<(), DeleteError>> {
        self.request(Delete { key }, &self.service.put)
    }
}

#[cfg(test)]
mod tests;
