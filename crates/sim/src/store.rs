//! When does a request take effect, and what does its sender learn?
//!
//! The store owns a request once it is sent: it takes effect at the service at its own instant, also if its sender has
//! given up or died by then. The sender learns of it after the rest of the round trip.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use glidepath_env::{
    Appended, BulkStore, Capabilities, Cause, DeleteError, Guard, Key, Metadata, Object, ObjectStore, Page, Payload,
    PutError, ReadError, Reads, Tag,
};
use glidepath_model::{ByteSize, Instant, Span};
use slab::Slab;

use crate::agenda::Event;
use crate::clock::{Process, SimEnv};
use crate::fault::{Fault, Faults};
use crate::latency::Latency;
use crate::profile::Profile;
use crate::simulation::{Mode, World};

mod state;

pub(crate) use state::StoreState;
use state::{Action, Answer};

/// Names a store of a simulation: its place in `Setup::stores`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub usize);

/// When, within its round trip, a request to shared state takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectPoint {
    /// Half-way: the other half is the answer's way back.
    Half,
    /// At its end, as the published runs of 2026-03 had it.
    End,
}

/// How a store behaves.
#[derive(Clone, Debug)]
pub struct StoreModel {
    /// Latencies and capabilities.
    pub profile: Profile,
    /// When requests take effect.
    pub effect: EffectPoint,
    /// What goes wrong.
    pub faults: Faults,
}

impl StoreModel {
    /// A store of this profile that works as it should.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        Self { profile, effect: EffectPoint::Half, faults: Faults::default() }
    }
}

/// A process's connection to a simulated store.
#[derive(Clone)]
pub struct SimStore {
    env: SimEnv,
    id: StoreId,
    model: Rc<StoreModel>,
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
    answer_at: Instant,
    /// Whether the answer has reached the sender.
    answered: bool,
    /// `None` where nobody waits for the answer any more.
    sender: Option<Rc<Process>>,
}

impl SimStore {
    pub(crate) fn connect(env: SimEnv, id: StoreId) -> Self {
        let model = Rc::clone(&env.world.stores.borrow()[id.0].model);
        Self { env, id, model }
    }

    /// Sends a request to shared state and waits for what comes back.
    async fn request(&self, action: Action, latency: &Latency) -> Answer {
        let process = &self.env.process;
        process.count_operation();
        let sent = process.clock.get();
        let size = action.size();
        let round_trip = process.with_luck(glidepath_env::Purpose::Store, |luck| latency.draw(size, luck));
        let way = match self.model.effect {
            EffectPoint::Half => round_trip.half(),
            EffectPoint::End => round_trip,
        };
        let fault = process.with_luck(glidepath_env::Purpose::Fault, |luck| self.model.faults.draw(luck));
        match fault {
            None => self.send(action, sent + way, sent + round_trip).await,
            Some(fault) => self.send_badly(fault, action, sent, way, round_trip).await,
        }
    }

    async fn send(&self, action: Action, effect_at: Instant, answer_at: Instant) -> Answer {
        let sender = Some(Rc::clone(&self.env.process));
        let id = self.enter(Request { answer_at, ..Request::new(self.id, Some(action), sender) });
        self.env.world.schedule(effect_at, &self.env.process, Event::Arrive { request: id });
        self.wait(id).await
    }

    async fn send_badly(&self, fault: Fault, action: Action, sent: Instant, way: Span, round_trip: Span) -> Answer {
        let Faults { timeout, lateness, .. } = self.model.faults;
        let (effect_at, answer) = match fault {
            Fault::RequestLost => (None, Some((sent + timeout, action.unknown("the request was lost")))),
            Fault::AnswerLost => (Some(sent + way), Some((sent + timeout, action.unknown("the answer was lost")))),
            Fault::Late => (Some(sent + lateness), Some((sent + timeout, action.unknown("no answer in time")))),
            Fault::Refused => (None, Some((sent + round_trip, action.refused("503 Slow Down")))),
            Fault::Crash => (Some(sent + way), None),
        };
        if let Some(at) = effect_at {
            let orphan = self.enter(Request::new(self.id, Some(action), None));
            self.env.world.schedule(at, &self.env.process, Event::Arrive { request: orphan });
        }
        let Some((at, answer)) = answer else { return std::future::pending().await };
        let sender = Some(Rc::clone(&self.env.process));
        let id = self.enter(Request { answer: Some(answer), answer_at: at, ..Request::new(self.id, None, sender) });
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

    /// Lets a request take effect. Returns the task to poll, if its sender is to learn of it at once.
    pub(crate) fn arrive(world: &World, id: u32) -> Option<u32> {
        let (store, action) = {
            let mut requests = world.requests.borrow_mut();
            let request = &mut requests.slab[id as usize];
            (request.store, request.action.take()?)
        };
        let answer = world.stores.borrow_mut()[store.0].perform(action);
        let mut requests = world.requests.borrow_mut();
        let request = &mut requests.slab[id as usize];
        let Some(sender) = &request.sender else {
            requests.slab.remove(id as usize);
            return None;
        };
        request.answer = Some(answer);
        match world.mode {
            Mode::LocalClocks => {
                // Nothing can reach the sender before its answer does: its clock may run ahead to that moment.
                sender.clock.set(request.answer_at);
                request.answered = true;
                Some(sender.task)
            }
            Mode::EveryOperation => {
                world.schedule(request.answer_at, sender, Event::Answer { request: id });
                None
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
        sender.clock.set(request.answer_at);
        request.answered = true;
        Some(sender.task)
    }
}

impl Request {
    fn new(store: StoreId, action: Option<Action>, sender: Option<Rc<Process>>) -> Self {
        Self { store, action, answer: None, answer_at: Instant::ZERO, answered: false, sender }
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
            // An event for it is still to come, and removes it.
            request.sender = None;
        }
    }
}

impl ObjectStore for SimStore {
    fn capabilities(&self) -> Capabilities {
        self.model.profile.capabilities()
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        let answer = self.request(Action::Get(key.clone(), None), &self.model.profile.get.latency()).await;
        answer.read()
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let answer = self.request(Action::Get(key.clone(), Some(range)), &self.model.profile.get.latency()).await;
        answer.read()
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        match self.request(Action::Head(key.clone()), &self.model.profile.get.latency()).await {
            Answer::Head(result) => result,
            other => other.mismatch(),
        }
    }

    async fn put(&self, key: &Key, payload: Payload, guard: Guard) -> Result<Tag, PutError> {
        let latency = match guard {
            Guard::None => self.model.profile.put.latency(),
            Guard::Absent | Guard::Matches(_) => self.model.profile.conditional_put.latency(),
        };
        match self.request(Action::Put(key.clone(), payload, guard), &latency).await {
            Answer::Put(result) => result,
            other => other.mismatch(),
        }
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let Some(profile) = &self.model.profile.append else {
            return Err(PutError::Refused(Cause::words("this store cannot append")));
        };
        match self.request(Action::Append(key.clone(), payload, offset), &profile.latency()).await {
            Answer::Append(result) => result,
            other => other.mismatch(),
        }
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<Page, ReadError> {
        let action = Action::List(prefix.clone(), after.cloned(), limit);
        match self.request(action, &self.model.profile.get.latency()).await {
            Answer::List(result) => result,
            other => other.mismatch(),
        }
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        match self.request(Action::Delete(key.clone()), &self.model.profile.put.latency()).await {
            Answer::Delete(result) => result,
            other => other.mismatch(),
        }
    }
}

/// Bulk traffic is private by contract, so it only moves the process's clock. Faults do not strike it.
impl BulkStore for SimStore {
    async fn bulk_read(&self, reads: Reads) -> Result<(), ReadError> {
        let (process, latency) = (&self.env.process, self.model.profile.get.latency());
        let now = process.clock.get();
        let alone = reads.parallel <= 1 || reads.count <= 1;
        if alone && self.env.world.mode == Mode::LocalClocks {
            let total = process.with_luck(glidepath_env::Purpose::Store, |luck| {
                (0..reads.count).fold(Span::ZERO, |sum, _| sum + latency.draw(reads.size, luck))
            });
            process.clock.set(now + total);
            process.operations.set(process.operations.get() + reads.count as u32);
            return Ok(());
        }
        let mut ends = process.with_luck(glidepath_env::Purpose::Store, |luck| {
            let mut lanes = vec![now; reads.parallel.max(1) as usize];
            let mut read = || {
                // The next read starts where a lane is free first.
                let lane = lanes.iter_mut().min()?;
                *lane += latency.draw(reads.size, luck);
                Some(*lane)
            };
            (0..reads.count).filter_map(|_| read()).collect::<Vec<_>>()
        });
        ends.sort_unstable();
        for end in ends {
            self.env.pass_until(end).await;
        }
        Ok(())
    }

    async fn bulk_write(&self, size: ByteSize) -> Result<(), PutError> {
        let process = &self.env.process;
        let latency = self.model.profile.put.latency();
        let span = process.with_luck(glidepath_env::Purpose::Store, |luck| latency.draw(size, luck));
        self.env.pass_until(process.clock.get() + span).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
