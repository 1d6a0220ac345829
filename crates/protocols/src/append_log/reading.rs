//! Finding the newest state: by reading on from the known state, or from a checkpoint if nothing is known or the known
//! segment was emptied.

use std::sync::Arc;

use glidepath_env::{Cause, Env, ObjectStore, ReadError};
use glidepath_model::CommitId;

use super::record::{DecodeError, Header};
use super::state::{Folded, OVERLAP, State};
use super::{AppendLog, HARD_BYTES, MOST_APPEND_BYTES, Snapshot, checkpoint};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// The maximum size of a segment: one append begins before [`HARD_BYTES`] and ends after it, and one more closes the
/// segment.
pub(super) const MOST_SEGMENT_BYTES: u64 = HARD_BYTES + 2 * MOST_APPEND_BYTES as u64;

/// One read gets the whole segment, with a margin of the same size.
const WHOLE: u64 = 2 * MOST_SEGMENT_BYTES;

/// The number of segments that a reader follows one by one before it looks for a newer checkpoint.
const NEAR: u32 = 2;

/// How often a reader starts again because what it had found was vacuumed meanwhile.
const OPENINGS: u32 = 8;

const PAGE: usize = 1000;

/// What a reader found after the state that it knows.
pub(super) enum Step {
    /// Nothing new.
    Still,
    /// The segment was emptied, so the known state is old.
    Emptied,
    /// New records. The second field says whether the commit searched for took effect, if it is there.
    Moved(Snapshot, Option<bool>),
}

impl<E: Env> AppendLog<E> {
    /// Reads the rest of the segment: one request.
    pub(super) async fn step(&self, at: &Snapshot, watched: Option<CommitId>) -> Result<Step, LoadError> {
        let State { end, last_bytes, ref segment, .. } = *at.0;
        // Also reads a few known bytes again: they show whether the segment still has the content read before, and a
        // store that refuses ranges beyond the end gives an answer.
        let from = if end == 0 { 0 } else { end - OVERLAP as u64 };
        let object =
            match self.store.get_range(&self.shared_state.keys.segment(segment.number), from..from + WHOLE).await {
                Ok(object) => object.payload,
                Err(ReadError::NotFound) if end == 0 => return Ok(Step::Still),
                Err(ReadError::NotFound) => return Ok(Step::Emptied),
                Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
            };
        if object.filler.as_bytes() > 0 {
            return Err(undecodable(DecodeError::Content("filler in a log")));
        }
        let tail = if end == 0 {
            // Some stores create an object before they append to it.
            if object.bytes.is_empty() {
                return Ok(Step::Still);
            }
            if let (Header::Emptied, _) = Header::decode(&object.bytes, segment.number).map_err(undecodable)? {
                return Ok(Step::Emptied);
            }
            &object.bytes[..]
        } else {
            match object.bytes.split_first_chunk::<OVERLAP>() {
                Some((known, tail)) if *known == last_bytes => tail,
                None if mutant::is(Mutant::OverlapIgnored) => &[],
                _ => return Ok(Step::Emptied),
            }
        };
        if tail.is_empty() {
            return Ok(Step::Still);
        }
        let Folded { state, watched } = at.0.fold(tail, watched).map_err(undecodable)?;
        Ok(Step::Moved(self.keep(Snapshot(Arc::new(state))), watched))
    }

    /// The newest state: at least as new as any that was acknowledged before the call.
    pub(super) async fn catch_up(&self) -> Result<Snapshot, LoadError> {
        let known = self.newest();
        let mut at = match &known {
            Some(known) => known.clone(),
            None => self.open(None).await?.ok_or(LoadError::NotFound)?,
        };
        let (mut crossed, mut openings) = (0, 0);
        loop {
            match self.step(&at, None).await? {
                Step::Still => return Ok(self.keep(at)),
                Step::Moved(now, _) if mutant::is(Mutant::CloseIgnored) => return Ok(now),
                Step::Moved(now, _) if now.0.segment.number == at.0.segment.number => return Ok(now),
                Step::Moved(now, _) => {
                    at = now;
                    crossed += 1;
                    if crossed == NEAR {
                        // Far behind. If there is no newer checkpoint yet, continue segment by segment.
                        at = self.open(Some(&at)).await?.unwrap_or(at);
                    }
                }
                Step::Emptied => {
                    openings += 1;
                    if openings > OPENINGS {
                        return Err(LoadError::Failed(Cause::words(
                            "the log was vacuumed faster than it could be read",
                        )));
                    }
                    at = self.reopen(&at).await?;
                }
            }
        }
    }

    /// Opens the catalog again after its segment was emptied. The result must not be older than the known state.
    async fn reopen(&self, at: &Snapshot) -> Result<Snapshot, LoadError> {
        match self.open(Some(at)).await? {
            Some(found) if found.0.version >= at.0.version => Ok(found),
            _ => {
                let number = at.0.segment.number;
                let words = format!("segment {number} of the log is gone, and no checkpoint follows it");
                Err(LoadError::Undecodable(Cause::words(words)))
            }
        }
    }

    /// The newest checkpoint: by the hint if it leads beyond what is known, otherwise by listing. `None` if there is
    /// none beyond what is known.
    async fn open(&self, known: Option<&Snapshot>) -> Result<Option<Snapshot>, LoadError> {
        let known = known.map(|known| known.0.segment.number);
        // A hint that cannot be read is ignored. One that is too old leads to an emptied segment, and from there to a
        // listing.
        let hint = self.store.get(&self.shared_state.keys.hint()).await.ok();
        let hint = hint.and_then(|object| checkpoint::decode_hint(&object.payload.bytes));
        if let Some(number) = hint.filter(|number| Some(*number) > known)
            && let Some(found) = self.read_checkpoint(number).await?
        {
            return Ok(Some(found));
        }
        for _ in 0..OPENINGS {
            let number = match (self.newest_listed(known).await?, known) {
                (Some(number), _) => number,
                (None, Some(_)) => return Ok(None),
                (None, None) => 0,
            };
            match self.read_checkpoint(number).await? {
                Some(found) => return Ok(Some(found)),
                // The first checkpoint is never removed.
                None if number == 0 => return Err(LoadError::NotFound),
                None => {}
            }
        }
        Err(LoadError::Failed(Cause::words("checkpoints were vacuumed faster than they could be read")))
    }

    pub(super) async fn read_checkpoint(&self, number: u64) -> Result<Option<Snapshot>, LoadError> {
        let object = match self.store.get(&self.shared_state.keys.checkpoint(number)).await {
            Ok(object) => object,
            Err(ReadError::NotFound) => return Ok(None),
            Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
        };
        let root = checkpoint::decode(number, &object.payload.bytes).map_err(LoadError::Undecodable)?;
        Ok(Some(Snapshot(Arc::new(State::first(number, Arc::new(root), true)))))
    }

    /// The number of the last checkpoint after the known one.
    async fn newest_listed(&self, known: Option<u64>) -> Result<Option<u64>, LoadError> {
        let keys = &self.shared_state.keys;
        let mut newest = None;
        let mut after = known.map(|number| keys.checkpoint(number));
        loop {
            let page = self.store.list(&keys.checkpoints(), after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            newest = newest.max(page.objects.iter().filter_map(|listed| keys.checkpoint_number(&listed.key)).max());
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(newest);
            }
        }
    }
}

pub(super) fn undecodable(error: DecodeError) -> LoadError {
    LoadError::Undecodable(Cause::from_error(error))
}
