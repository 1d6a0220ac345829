//! The requests that a simulated store takes, each as what its sender holds ([`Act`]) and as what the world holds once
//! the sender may be gone ([`Action`]).

use std::ops::Range;

use glidepath_env::{
    Appended, Body, Cause, DeleteError, Guard, Key, Metadata, Object, Page, Payload, PutError, ReadError, Tag,
};
use glidepath_model::ByteSize;

use super::state::StoreState;

/// A request in the hands of its sender, who still holds the key.
pub(crate) trait Act: Unpin {
    type Answer;

    /// The bytes it carries to the store. (What a read carries back is not known before it takes effect.)
    fn size(&self) -> ByteSize {
        ByteSize::default()
    }

    fn perform(self, state: &mut StoreState) -> Self::Answer;

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
pub(crate) enum Action {
    Get(Key, Option<Range<u64>>),
    Head(Key),
    Put(Key, Payload, Guard),
    Append(Key, Payload, u64),
    List(Key, Option<Key>, usize),
    Delete(Key),
}

pub(crate) enum Answer {
    Get(Result<Object, ReadError>),
    Head(Result<Metadata, ReadError>),
    Put(Result<Tag, PutError>),
    Append(Result<Appended, PutError>),
    List(Result<Page, ReadError>),
    Delete(Result<(), DeleteError>),
}

/// The parts of `Act` that look the same for every request.
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

    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.get(self.key, self.range)
    }

    fn into_action(self) -> Action {
        Action::Get(self.key.clone(), self.range)
    }
}

impl Act for Head<'_> {
    act!(Head, Result<Metadata, ReadError>);

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

    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.put(self.key, self.body, &self.guard)
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

    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.append(self.key, &self.payload, self.offset)
    }

    fn into_action(self) -> Action {
        Action::Append(self.key.clone(), self.payload, self.offset)
    }
}

impl Act for List<'_> {
    act!(List, Result<Page, ReadError>);

    fn perform(self, state: &mut StoreState) -> Self::Answer {
        Ok(state.list(self.prefix, self.after, self.limit))
    }

    fn into_action(self) -> Action {
        Action::List(self.prefix.clone(), self.after.cloned(), self.limit)
    }
}

impl Act for Delete<'_> {
    act!(Delete, Result<(), DeleteError>);

    fn perform(self, state: &mut StoreState) -> Self::Answer {
        state.delete(self.key);
        Ok(())
    }

    fn into_action(self) -> Action {
        Action::Delete(self.key.clone())
    }
}

impl Action {
    pub(crate) fn perform(self, state: &mut StoreState) -> Answer {
        match self {
            Self::Get(key, range) => Answer::Get(Get { key: &key, range }.perform(state)),
            Self::Head(key) => Answer::Head(Head { key: &key }.perform(state)),
            Self::Put(key, body, guard) => Answer::Put(Put { key: &key, body, guard }.perform(state)),
            Self::Append(key, payload, offset) => Answer::Append(Append { key: &key, payload, offset }.perform(state)),
            Self::List(prefix, after, limit) => {
                Answer::List(List { prefix: &prefix, after: after.as_ref(), limit }.perform(state))
            }
            Self::Delete(key) => Answer::Delete(Delete { key: &key }.perform(state)),
        }
    }

    /// What its sender learns when the answer does not come.
    pub(crate) fn unknown(&self, why: &str) -> Answer {
        let cause = Cause::words(why);
        self.fail(ReadError::Failed(cause.clone()), PutError::Unknown(cause.clone()), DeleteError::Unknown(cause))
    }

    /// What its sender learns when the store turns it away.
    pub(crate) fn refused(&self, why: &str) -> Answer {
        let cause = Cause::words(why);
        self.fail(ReadError::Failed(cause.clone()), PutError::Refused(cause.clone()), DeleteError::Refused(cause))
    }

    fn fail(&self, read: ReadError, put: PutError, delete: DeleteError) -> Answer {
        match self {
            Self::Get(..) => Answer::Get(Err(read)),
            Self::Head(_) => Answer::Head(Err(read)),
            Self::List(..) => Answer::List(Err(read)),
            Self::Put(..) => Answer::Put(Err(put)),
            Self::Append(..) => Answer::Append(Err(put)),
            Self::Delete(_) => Answer::Delete(Err(delete)),
        }
    }
}
