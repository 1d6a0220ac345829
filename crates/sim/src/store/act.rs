//! Which requests does a simulated store take? Each has two forms: the one its sender holds ([`Act`]), and the one the
//! world holds after the sender may be gone ([`Action`]).

use std::ops::Range;
use std::rc::Rc;

use glidepath_env::{
    Appended, Body, Cause, DeleteError, Denial, Guard, Key, ListPage, Metadata, Object, Payload, PutError, ReadError,
    Tag,
};
use glidepath_model::{ByteSize, Instant};

use super::failure::Failure;
use super::kv::{Ask, RowAction, RowAnswer};
use super::state::StoreState;
use super::{Service, When};
use crate::contention::Contention;
use crate::latency::Sampler;

/// A request in the hands of its sender, who still holds the key.
pub(crate) trait Act: Sized + Unpin {
    type Answer;

    /// The bytes it carries to the store. (What a read carries back is not known before it takes effect.)
    fn size(&self) -> ByteSize {
        ByteSize::default()
    }

    fn perform(self, state: &mut StoreState) -> Self::Answer;

    /// Its effect on other writes to the same object, if the store's profile has it.
    fn contention<'a>(&self, _: &'a Service) -> Option<&'a Contention> {
        None
    }

    /// The latency of the plain put that is drawn beside a conditional put
    /// ([`EffectPoint::HalfOfPut`](super::EffectPoint::HalfOfPut)).
    fn plain_put<'a>(&self, _: &'a Service) -> Option<&'a Sampler> {
        None
    }

    /// The share of its round trip after which it takes effect, if the store's profile has it.
    fn effect_share(&self, _: &Service) -> Option<f64> {
        None
    }

    /// Performs it at this instant; also returns when it is answered.
    fn perform_at(self, state: &mut StoreState, now: Instant, when: &When) -> (Self::Answer, Instant) {
        match when {
            When::At(at) => (self.perform(state), *at),
            When::Contended(ticket) => (self.perform(state), ticket.sent.max(now)),
        }
    }

    /// The same request in the hands of the world.
    fn into_action(self) -> Action;

    /// The answer to the request in the hands of the world.
    fn answer(answer: Answer) -> Self::Answer;
}

pub(crate) struct Get<'a> {
    pub(crate) key: &'a Key,
    pub(crate) range: Option<Range<u64>>,
}

pub(crate) struct Head<'a> {
    pub(crate) key: &'a Key,
}

pub(crate) struct Put<'a, B> {
    pub(crate) key: &'a Key,
    pub(crate) body: B,
    pub(crate) guard: Guard,
}

pub(crate) struct Append<'a> {
    pub(crate) key: &'a Key,
    pub(crate) payload: Payload,
    pub(crate) offset: u64,
}

pub(crate) struct List<'a> {
    pub(crate) prefix: &'a Key,
    pub(crate) after: Option<&'a Key>,
    pub(crate) limit: usize,
}

pub(crate) struct Delete<'a> {
    pub(crate) key: &'a Key,
}

/// A request in the hands of the world.
#[derive(Clone)]
pub(crate) enum Action {
    Get(Key, Option<Range<u64>>),
    Head(Key),
    Put(Key, Payload, Guard),
    Append(Key, Payload, u64),
    List(Key, Option<Key>, usize),
    Delete(Key),
    /// To tables of rows. Boxed: the others are made by the hundred million.
    Row(Box<RowAction>),
}

pub(crate) enum Answer {
    Get(Result<Object, ReadError>),
    Head(Result<Metadata, ReadError>),
    Put(Result<Tag, PutError>),
    Append(Result<Appended, PutError>),
    List(Result<ListPage, ReadError>),
    Delete(Result<(), DeleteError>),
    Row(Box<RowAnswer>),
}

/// The parts of `Act` that are the same for every request.
macro_rules! act {
    ($variant:ident, $answer:ty) => {
        type Answer = $answer;

        fn answer(answer: Answer) -> Self::Answer {
            match answer {
                Answer::$variant(answer) => answer,
                _ => panic!("a request was answered with the answer to another kind of request"),
            }
        }
    };
}

impl Act for Get<'_> {
    act!(Get, Result<Object, ReadError>);

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.get(self.key, self.range)
    }

    fn into_action(self) -> Action {
        Action::Get(self.key.clone(), self.range)
    }
}

impl Act for Head<'_> {
    act!(Head, Result<Metadata, ReadError>);

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.head(self.key)
    }

    fn into_action(self) -> Action {
        Action::Head(self.key.clone())
    }
}

impl<B: Body> Act for Put<'_, B> {
    act!(Put, Result<Tag, PutError>);

    fn size(&self) -> ByteSize {
        self.body.size()
    }

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.put(self.key, self.body, &self.guard)
    }

    fn contention<'a>(&self, service: &'a Service) -> Option<&'a Contention> {
        service.conditional_put.contention.as_ref().filter(|_| self.guard != Guard::None)
    }

    fn effect_share(&self, service: &Service) -> Option<f64> {
        service.model.profile.conditional_put.effect_share.filter(|_| self.guard != Guard::None)
    }

    fn plain_put<'a>(&self, service: &'a Service) -> Option<&'a Sampler> {
        (service.puts_beside && self.guard != Guard::None).then_some(&service.put)
    }

    fn perform_at(self, state: &mut StoreState, now: Instant, when: &When) -> (Self::Answer, Instant) {
        let ticket = match when {
            When::At(at) => return (self.perform(state), *at),
            When::Contended(ticket) => ticket,
        };
        let service = Rc::clone(&state.service);
        let key = self.key;
        let holds = state.holds(key, &self.guard);
        let contention = self.contention(&service);
        state.contend(key, contention, (now, ticket), holds, |state| self.perform(state))
    }

    fn into_action(self) -> Action {
        Action::Put(self.key.clone(), self.body.into_payload(), self.guard)
    }
}

impl Act for Append<'_> {
    act!(Append, Result<Appended, PutError>);

    fn size(&self) -> ByteSize {
        self.payload.size()
    }

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.append(self.key, &self.payload, self.offset)
    }

    fn contention<'a>(&self, service: &'a Service) -> Option<&'a Contention> {
        service.append.as_ref()?.contention.as_ref()
    }

    fn effect_share(&self, service: &Service) -> Option<f64> {
        service.model.profile.append.as_ref()?.effect_share
    }

    fn perform_at(self, state: &mut StoreState, now: Instant, when: &When) -> (Self::Answer, Instant) {
        let ticket = match when {
            When::At(at) => return (self.perform(state), *at),
            When::Contended(ticket) => ticket,
        };
        let service = Rc::clone(&state.service);
        let key = self.key;
        let holds = state.ends_at(key, self.offset);
        let contention = self.contention(&service);
        state.contend(key, contention, (now, ticket), holds, |state| self.perform(state))
    }

    fn into_action(self) -> Action {
        Action::Append(self.key.clone(), self.payload, self.offset)
    }
}

impl Act for List<'_> {
    act!(List, Result<ListPage, ReadError>);

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        Ok(state.list(self.prefix, self.after, self.limit))
    }

    fn into_action(self) -> Action {
        Action::List(self.prefix.clone(), self.after.cloned(), self.limit)
    }
}

impl Act for Delete<'_> {
    act!(Delete, Result<(), DeleteError>);

    #[inline]
    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.delete(self.key);
        Ok(())
    }

    fn into_action(self) -> Action {
        Action::Delete(self.key.clone())
    }
}

impl Action {
    /// Performs it at this instant; also returns when it is answered.
    pub(crate) fn perform_at(self, state: &mut StoreState, now: Instant, when: &When) -> (Answer, Instant) {
        fn with<A: Act>(
            act: A,
            wrap: fn(A::Answer) -> Answer,
            to: (&mut StoreState, Instant, &When),
        ) -> (Answer, Instant) {
            let (answer, at) = act.perform_at(to.0, to.1, to.2);
            (wrap(answer), at)
        }
        let to = (state, now, when);
        match self {
            Self::Get(key, range) => with(Get { key: &key, range }, Answer::Get, to),
            Self::Head(key) => with(Head { key: &key }, Answer::Head, to),
            Self::Put(key, body, guard) => with(Put { key: &key, body, guard }, Answer::Put, to),
            Self::Append(key, payload, offset) => with(Append { key: &key, payload, offset }, Answer::Append, to),
            Self::List(prefix, after, limit) => {
                with(List { prefix: &prefix, after: after.as_ref(), limit }, Answer::List, to)
            }
            Self::Delete(key) => with(Delete { key: &key }, Answer::Delete, to),
            Self::Row(action) => with(Ask(action), |answer| Answer::Row(Box::new(answer)), to),
        }
    }

    /// The request, in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Get(key, None) => format!("get {key}"),
            Self::Get(key, Some(range)) => format!("get {key} from {}", range.start),
            Self::Head(key) => format!("head {key}"),
            Self::Put(key, _, Guard::None) => format!("put {key}"),
            Self::Put(key, _, Guard::Absent) => format!("put {key} if absent"),
            Self::Put(key, _, Guard::Matches(tag)) => format!("put {key} if it is {tag}"),
            Self::Append(key, _, offset) => format!("append to {key} at {offset}"),
            Self::List(prefix, ..) => format!("list {prefix}"),
            Self::Delete(key) => format!("delete {key}"),
            Self::Row(action) => action.words(),
        }
    }

    /// The sender's result if no answer comes.
    pub(crate) fn unknown(&self, why: &str) -> Answer {
        self.fail(Failure::Unknown(Cause::words(why)))
    }

    /// The sender's result if the store refuses it.
    pub(crate) fn refused(&self, why: &str, certain: bool, passing: bool) -> Answer {
        self.fail(Failure::Refused(Denial { cause: Cause::words(why), certain, passing }))
    }

    fn fail(&self, failure: Failure) -> Answer {
        match self {
            Self::Get(..) => Answer::Get(Err(failure.into())),
            Self::Head(_) => Answer::Head(Err(failure.into())),
            Self::List(..) => Answer::List(Err(failure.into())),
            Self::Put(..) => Answer::Put(Err(failure.into())),
            Self::Append(..) => Answer::Append(Err(failure.into())),
            Self::Delete(_) => Answer::Delete(Err(failure.into())),
            Self::Row(action) => Answer::Row(Box::new(action.fail(failure))),
        }
    }
}
