//! How does a request to shared state travel, from sender to answer?
//!
//! If its answer cannot be lost, the path is short: the sender itself applies it when its turn comes. It is a
//! hand-written future, because almost every event polls it, and every waiting process contains it.

use std::pin::Pin;
use std::task::{Context, Poll};

use glidepath_env::Purpose;
use glidepath_model::{ByteSize, Instant, Span};

use super::act::{Act, Answer};
use super::{Request, SimStore, When};
use crate::agenda::{Entry, Event, Order};
use crate::clock::SimEnv;
use crate::contention::Ticket;
use crate::latency::Sampler;
use crate::luck::Stream;
use crate::simulation::Mode;

/// A request that is sent when this is first polled. If this is dropped before the request takes effect, the world
/// keeps the request, because it was sent.
pub(super) struct Sending<'a, A: Act> {
    store: &'a SimStore,
    latency: &'a Sampler,
    /// Taken when the request takes effect, or when the world takes it over.
    act: Option<A>,
    /// Its place in the order of events, once it is sent.
    turn: Option<(Order, When)>,
    /// The general path, if the short one does not apply.
    by_world: Option<Pin<Box<dyn Future<Output = Answer> + 'a>>>,
}

/// How a request that is sent now travels.
pub(super) struct Way {
    pub(super) sent: Instant,
    /// Until it takes effect.
    pub(super) takes: Span,
    pub(super) when: When,
}

impl<'a, A: Act> Sending<'a, A> {
    pub(super) fn new(store: &'a SimStore, act: A, latency: &'a Sampler) -> Self {
        Self { store, latency, act: Some(act), turn: None, by_world: None }
    }

    fn send(&mut self) {
        let store = self.store;
        let SimEnv { world, process } = &store.env;
        let Some(act) = &self.act else { return };
        process.count_operation();
        let way = store.way(act, self.latency);
        if world.mode == Mode::LocalClocks {
            self.turn = Some((world.take_turn(way.sent + way.takes, process), way.when));
        } else if let Some(act) = self.act.take() {
            self.by_world = Some(Box::pin(store.send_by_world(act.into_action(), way)));
        }
    }
}

impl SimStore {
    fn way<A: Act>(&self, act: &A, latency: &Sampler) -> Way {
        let (process, model) = (&self.env.process, &self.service.model);
        let sent = process.clock.get();
        if let Some(contention) = act.contention(&self.service) {
            let luck = process.with_luck(Purpose::Store, Stream::draw);
            let takes = contention.way(luck);
            return Way { sent, takes, when: When::Contended(Ticket { sent, size: act.size(), luck }) };
        }
        let plain = act.plain_put(&self.service);
        // The size of a body that is not built yet takes some work to compute.
        let sized = latency.depends_on_size() || plain.is_some_and(Sampler::depends_on_size);
        let size = if sized { act.size() } else { ByteSize::default() };
        let draw = |latency: &Sampler| process.with_luck(Purpose::Store, |luck| latency.draw(size, luck));
        let (round_trip, plain) = (draw(latency), plain.map(draw));
        let (takes, round_trip) = match act.effect_share(&self.service) {
            Some(share) => (Span::from_nanos_f64(round_trip.as_nanos() as f64 * share), round_trip),
            None => model.effect.split(round_trip, plain),
        };
        Way { sent, takes, when: When::At(sent + round_trip) }
    }
}

impl<A: Act> Future for Sending<'_, A> {
    type Output = A::Answer;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<A::Answer> {
        let this = &mut *self;
        if this.turn.is_none() {
            if this.by_world.is_none() {
                this.send();
            }
            if let Some(answer) = &mut this.by_world {
                return answer.as_mut().poll(context).map(A::answer);
            }
        }
        let Some((order, when)) = this.turn else { return Poll::Pending };
        let SimEnv { world, process } = &this.store.env;
        if world.turn.get() != order {
            return Poll::Pending;
        }
        let Some(act) = this.act.take() else { return Poll::Pending };
        let mut stores = world.stores.borrow_mut();
        let state = stores[this.store.id.0].at(order);
        let (answer, answer_at) = act.perform_at(state, order.at(), &when);
        // No event can reach the sender before its answer, so its clock may advance to that time.
        process.reach(answer_at);
        Poll::Ready(answer)
    }
}

impl<A: Act> Drop for Sending<'_, A> {
    fn drop(&mut self) {
        let Some((order, when)) = self.turn else { return };
        if let Some(act) = self.act.take() {
            let request = self.store.enter(Request::new(self.store.id, Some(act.into_action()), when, None));
            let event = Event::Arrive { request };
            self.store.env.world.agenda.borrow_mut().push(Entry { order, event });
        }
    }
}
