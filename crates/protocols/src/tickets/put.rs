//! Puts if absent, and what became of those whose answer does not tell (step 10).

use glidepath_env::{Cause, Denial, Env, Guard, Key, ObjectStore, Payload, PutError};
use glidepath_model::Name;

use super::object::{Record, Slot, TxnId};
use super::read::Got;
use super::{Fate, Tickets};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};
use crate::settling::{self, Doubt};

/// How an object that is put once ended.
#[derive(Clone, Debug)]
pub(super) enum Stood {
    /// It is there, and ours.
    Yes,
    /// Another one is in its place, for ever.
    Lost,
    /// It was certainly not put.
    Refused(Denial),
    /// It may be there, or may still appear.
    Unknown(Cause),
}

/// An object that is put once.
#[derive(Clone, Copy)]
pub(super) enum Sent<'a> {
    Slot(&'a Slot),
    Record(TxnId, &'a Record),
}

impl Sent<'_> {
    fn is_intent(self) -> bool {
        matches!(self, Self::Slot(Slot { intent: Some(_), .. }))
    }
}

/// Whose object a read-back found.
enum Whose {
    Nobodys,
    Ours,
    Anothers,
    /// It was emptied so long ago that nothing tells.
    Forgotten,
}

impl<E: Env> Tickets<E> {
    /// Puts it if absent, and settles.
    pub(super) async fn put_once(&self, sent: Sent<'_>) -> Stood {
        let error = match self.send(sent).await {
            Ok(()) => return self.stands(sent),
            Err(PutError::Lost) if self.store.capabilities().delivers_once || mutant::is(Mutant::LostIsProof) => {
                return Stood::Lost;
            }
            Err(PutError::Refused(denial)) if denial.certain => return Stood::Refused(denial),
            Err(PutError::Unknown(_)) if mutant::is(Mutant::UnknownIsLost) => return Stood::Lost,
            Err(PutError::Unknown(_)) if sent.is_intent() && mutant::is(Mutant::IntentAssumed) => {
                return self.stands(sent);
            }
            Err(error) => error,
        };
        Box::pin(self.settle(sent, error)).await
    }

    async fn send(&self, sent: Sent<'_>) -> Result<(), PutError> {
        let keys = &self.shared_state.keys;
        let (key, bytes) = match sent {
            Sent::Slot(slot) => (keys.slot(&slot.name, slot.number), slot.encode()),
            Sent::Record(txn, record) => (keys.txn(txn), record.encode(txn)),
        };
        let unguarded = matches!(sent, Sent::Record(..)) && mutant::is(Mutant::RecordOverwritten);
        let guard = if unguarded { Guard::None } else { Guard::Absent };
        self.store.put(&key, Payload::from(bytes), guard).await.map(drop)
    }

    fn stands(&self, sent: Sent<'_>) -> Stood {
        match sent {
            Sent::Slot(slot) => self.shared_state.learn(&std::sync::Arc::new(slot.clone())),
            Sent::Record(txn, record) => {
                self.shared_state.decided(txn, if record.committed { Fate::Committed } else { Fate::Aborted });
            }
        }
        Stood::Yes
    }

    async fn settle(&self, sent: Sent<'_>, error: PutError) -> Stood {
        let delivers_once = self.store.capabilities().delivers_once;
        // If there was an answer, the put has almost always either taken effect by now or never will.
        let mut at_once = !matches!(error, PutError::Unknown(_));
        let mut doubt = Doubt::default();
        if let Some(denial) = doubt.record(error, delivers_once) {
            return Stood::Refused(denial);
        }
        for round in 0..settling::ROUNDS {
            if !std::mem::take(&mut at_once) {
                settling::wait(&self.env, round).await;
            }
            match self.whose(sent).await {
                Ok(Whose::Ours) => return self.stands(sent),
                Ok(Whose::Anothers) => return Stood::Lost,
                Ok(Whose::Forgotten) => {
                    return Stood::Unknown(Cause::words(
                        "a vacuum has emptied the slot, and the lineage of the newest one is too short to tell whose \
                         it was",
                    ));
                }
                Ok(Whose::Nobodys) => {}
                Err(LoadError::Undecodable(cause)) => return Stood::Unknown(cause),
                Err(error) => {
                    doubt.note(Cause::from_error(error));
                    continue;
                }
            }
            if doubt.hopeless() {
                break;
            }
            // The guard lets at most one of the two puts take effect, and both are ours.
            match self.send(sent).await {
                Ok(()) => return self.stands(sent),
                Err(error) => drop(doubt.record(error, delivers_once)),
            }
        }
        Stood::Unknown(doubt.cause())
    }

    async fn whose(&self, sent: Sent<'_>) -> Result<Whose, LoadError> {
        let ours = |ours: bool| if ours { Whose::Ours } else { Whose::Anothers };
        match sent {
            Sent::Slot(slot) => match self.slot(&slot.name, slot.number).await? {
                Got::Absent => Ok(Whose::Nobodys),
                Got::Slot(found) => Ok(ours(found.id() == slot.id())),
                Got::Emptied(_) if mutant::is(Mutant::EmptiedIsLost) => Ok(Whose::Anothers),
                Got::Emptied(_) => {
                    let newest = self.newest(&slot.name).await?;
                    let id = newest.and_then(|newest| newest.id_at(slot.number));
                    Ok(id.map_or(Whose::Forgotten, |id| ours(id == slot.id())))
                }
            },
            Sent::Record(txn, record) => Ok(match self.fate(txn).await? {
                Fate::Undecided => Whose::Nobodys,
                fate => ours((fate == Fate::Committed) == record.committed),
            }),
        }
    }

    /// Aborts a transaction, unless it has ended; returns its end.
    pub(super) async fn abort(&self, txn: TxnId) -> Result<Fate, LoadError> {
        if mutant::is(Mutant::AbsenceIsAbort) {
            return Ok(Fate::Aborted);
        }
        let record = Record { committed: false, names: Vec::new() };
        match self.put_once(Sent::Record(txn, &record)).await {
            Stood::Yes => Ok(Fate::Aborted),
            Stood::Lost if mutant::is(Mutant::AbortUnread) => Ok(Fate::Aborted),
            Stood::Lost => self.fate(txn).await,
            Stood::Refused(denial) => Err(LoadError::Failed(denial.cause)),
            Stood::Unknown(cause) => Err(LoadError::Failed(cause)),
        }
    }

    /// Puts these names onto the roster of their namespace, unless they are there (step 3). Names may be on it twice.
    ///
    /// # Errors
    /// Some names may not be on it; nothing else of the commit was put.
    pub(super) async fn enroll(&self, namespace: Option<&Name>, names: &[Name]) -> Result<(), Denial> {
        let mut failed = None;
        for round in 0..settling::ROUNDS * 8 {
            let (end, there) = self.roster(namespace).await?;
            let new: Vec<Name> = names.iter().filter(|name| !there.contains(name)).cloned().collect();
            if new.is_empty() {
                return Ok(());
            }
            // Whoever reads the names while they grow has them copied.
            drop(there);
            let slot = self.shared_state.next_on_roster(namespace, end + 1, new);
            let key: Key = self.shared_state.keys.roster_slot(namespace, slot.number);
            let body = Payload::from(slot.encode());
            // Whatever the answer is, the roster tells what is on it.
            match self.store.put(&key, body, Guard::Absent).await {
                Ok(_) | Err(PutError::Lost) => {}
                Err(PutError::Refused(denial)) if denial.certain && !denial.passing => return Err(denial),
                Err(error) => {
                    failed = Some(Cause::from_error(error));
                    settling::wait(&self.env, round.min(4)).await;
                }
            }
        }
        let first = || Cause::words("other creations in this namespace came first every time");
        Err(Denial::certain(failed.unwrap_or_else(first)).passing())
    }
}
