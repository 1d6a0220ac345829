//! The short way of a request, where its answer cannot fail to arrive: the sender itself lets it take effect.

use std::pin::Pin;
use std::task::{Context, Poll};

use glidepath_model::Instant;

use super::act::Act;
use super::{Request, SimStore, When};
use crate::agenda::{Entry, Event, Order};
use crate::clock::SimEnv;

/// A request that takes effect when its turn comes in the order of events. Should the future be dropped before, the world
/// takes the request over: it was sent.
pub(super) struct Turn<'a, A: Act> {
    store: &'a SimStore,
    /// Taken when it takes effect.
    act: Option<A>,
    when: When,
    order: Order,
}

impl<'a, A: Act> Turn<'a, A> {
    pub(super) fn new(store: &'a SimStore, act: A, effect_at: Instant, when: When) -> Self {
        let SimEnv { world, process } = &store.env;
        let order = world.take_turn(effect_at, process);
        Self { store, act: Some(act), when, order }
    }
}

impl<A: Act> Future for Turn<'_, A> {
    type Output = A::Answer;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<A::Answer> {
        let SimEnv { world, process } = &self.store.env;
        if world.turn.get() != self.order {
            return Poll::Pending;
        }
        let Some(act) = self.act.take() else { return Poll::Pending };
        let mut stores = world.stores.borrow_mut();
        let state = stores[self.store.id.0].at(self.order.at());
        let (answer, answer_at) = act.perform_at(state, self.order.at(), &self.when);
        // Nothing can reach the sender before its answer does: its clock may run ahead to that moment.
        process.reach(answer_at);
        Poll::Ready(answer)
    }
}

impl<A: Act> Drop for Turn<'_, A> {
    fn drop(&mut self) {
        if let Some(act) = self.act.take() {
            let request = self.store.enter(Request::new(self.store.id, Some(act.into_action()), self.when, None));
            let event = Event::Arrive { request };
            self.store.env.world.agenda.borrow_mut().push(Entry { order: self.order, event });
        }
    }
}
