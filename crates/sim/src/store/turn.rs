//! The short way of a request, where its answer cannot fail to arrive: the sender itself lets it take effect.

use std::pin::Pin;
use std::task::{Context, Poll};

use glidepath_model::Instant;

use super::act::Act;
use super::{Request, SimStore};
use crate::agenda::{Entry, Event, Order};
use crate::clock::SimEnv;

/// A request that takes effect when its turn comes in the order of events. Should the future be dropped before, the world
/// takes the request over: it was sent.
pub(super) struct Turn<'a, A: Act> {
    store: &'a SimStore,
    /// Taken when it takes effect.
    act: Option<A>,
    answer_at: Instant,
    order: Order,
}

impl<'a, A: Act> Turn<'a, A> {
    pub(super) fn new(store: &'a SimStore, act: A, effect_at: Instant, answer_at: Instant) -> Self {
        let SimEnv { world, process } = &store.env;
        let order = world.schedule(effect_at, process, Event::Turn { task: process.task });
        Self { store, act: Some(act), answer_at, order }
    }
}

impl<A: Act> Future for Turn<'_, A> {
    type Output = A::Answer;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<A::Answer> {
        let SimEnv { world, process } = &self.store.env;
        if world.turn.get() != self.order {
            return Poll::Pending;
        }
        // Nothing can reach the sender before its answer does: its clock may run ahead to that moment.
        process.reach(self.answer_at);
        let store = self.store;
        let Some(act) = self.act.take() else { return Poll::Pending };
        Poll::Ready(act.perform(&mut store.env.world.stores.borrow_mut()[store.id.0]))
    }
}

impl<A: Act> Drop for Turn<'_, A> {
    fn drop(&mut self) {
        if let Some(act) = self.act.take() {
            let request = self.store.enter(Request::new(self.store.id, Some(act.into_action()), None));
            let event = Event::Arrive { request };
            self.store.env.world.agenda.borrow_mut().push(Entry { order: self.order, event });
        }
    }
}
