//! All versions that a catalog has had. For inspection, not for commits: the cost grows with the log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use glidepath_env::{Cause, Env, Key, ObjectStore, Payload, ReadError};

use super::record::{HEADER, Header, Record};
use super::state::State;
use super::{AppendLog, SharedState, Snapshot};
use crate::afterwards::{Frozen, Write, at_once};
use crate::catalog::LoadError;

/// A version, and where its record is.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The catalog after the record.
    pub version: Snapshot,
    /// The segment that contains the record.
    pub segment: u64,
    /// The offset in it at which the record ends, in bytes.
    pub end: u64,
    /// Whether the record closes the segment.
    pub closes: bool,
    /// Whether the record had no effect. Then it made no version, and the one here is that before it.
    pub void: bool,
}

/// Why a walk through the log ended.
pub(super) enum End {
    /// This segment has no further records.
    Newest(u64),
    /// Nothing further was wanted.
    Stopped,
    /// This segment was emptied.
    Emptied(u64),
    /// This segment breaks the format; the text says how.
    Damaged(u64, String),
    /// This checkpoint differs from what the log says.
    Mismatch(u64),
    /// The store did not return this segment, or the checkpoint after it.
    Unread(u64, LoadError),
}

impl<E: Env> AppendLog<E> {
    /// Every version, oldest first. Only possible if no segment has been emptied. Also compares each existing
    /// checkpoint with the log.
    ///
    /// # Errors
    /// If something is missing, damaged or different from the log.
    pub async fn every_version(&self) -> Result<Vec<Snapshot>, LoadError> {
        Ok(self.every_place().await?.into_iter().map(|placed| placed.version).collect())
    }

    /// The same, each with the position of its record. (The first has no record: its position is the start of segment
    /// 0.)
    ///
    /// # Errors
    /// As [`every_version`](Self::every_version).
    pub async fn every_place(&self) -> Result<Vec<Placed>, LoadError> {
        let first = self.read_checkpoint(0).await?.ok_or(LoadError::NotFound)?;
        let mut versions = Vec::new();
        let end = self.walk(first, true, |placed| {
            versions.extend(Some(placed).filter(|placed| !placed.void));
            ControlFlow::Continue(())
        });
        match end.await {
            End::Newest(_) | End::Stopped => Ok(versions),
            End::Emptied(number) => Err(broken(format!("segment {number} was emptied"))),
            End::Damaged(number, words) => Err(broken(format!("segment {number}: {words}"))),
            End::Mismatch(number) => Err(broken(format!("checkpoint {number} is not what the log says"))),
            End::Unread(_, error) => Err(error),
        }
    }

    /// Reports each version and each void record from a checkpoint on, as far as the log can be read and until `tell`
    /// breaks off. Also compares the later checkpoints with the log. A checkpoint that cannot be decoded is an error
    /// only if `strict`, because the log does not need it.
    pub(super) async fn walk(
        &self,
        first: Snapshot,
        strict: bool,
        mut tell: impl FnMut(Placed) -> ControlFlow<()>,
    ) -> End {
        let mut state = State::clone(&first.0);
        let mut number = state.segment.number;
        if tell(Placed { version: first, segment: number, end: 0, closes: false, void: false }).is_break() {
            return End::Stopped;
        }
        loop {
            let segment = match self.store.get(&self.shared_state.keys.segment(number)).await {
                Ok(object) => object.payload.bytes,
                Err(ReadError::NotFound) => return End::Newest(number),
                Err(ReadError::Failed(cause)) => return End::Unread(number, LoadError::Failed(cause)),
            };
            if matches!(Header::decode(&segment, number), Ok((Header::Emptied, _))) {
                return End::Emptied(number);
            }
            state = match fold_segment(state, &segment, &mut tell) {
                Ok(ControlFlow::Continue(state)) => state,
                Ok(ControlFlow::Break(())) => return End::Stopped,
                Err(words) => return End::Damaged(number, words),
            };
            if state.segment.number == number {
                return End::Newest(number);
            }
            number = state.segment.number;
            match self.read_checkpoint(number).await {
                Ok(Some(checkpoint)) if checkpoint.0.segment.start != state.segment.start => {
                    return End::Mismatch(number);
                }
                Ok(_) => {}
                Err(LoadError::Undecodable(_)) if !strict => {}
                Err(error) => return End::Unread(number, error),
            }
        }
    }
}

/// Folds a segment onto `state`, its beginning, and returns the state after it, unless `tell` breaks off.
fn fold_segment(
    mut state: State,
    segment: &[u8],
    tell: &mut impl FnMut(Placed) -> ControlFlow<()>,
) -> Result<ControlFlow<(), State>, String> {
    let (number, mut at) = (state.segment.number, 0);
    while at < segment.len() && state.segment.number == number {
        let record = if at == 0 { HEADER.min(segment.len()) } else { at };
        let (read, behind) = Record::decode(&segment[record..]).map_err(|error| error.to_string())?;
        let end = segment.len() - behind.len();
        let next = state.fold(&segment[at..end], None).map_err(|error| error.to_string())?.state;
        let void = next.version == state.version;
        // A record of a kind that this version may skip is not void.
        if !void || read.intent.is_some() {
            let closes = next.segment.number > number;
            let version = Snapshot(Arc::new(next.clone()));
            if tell(Placed { version, segment: number, end: end as u64, closes, void }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        (state, at) = (next, end);
    }
    if at < segment.len() { Err("there are bytes after its end".to_owned()) } else { Ok(ControlFlow::Continue(state)) }
}

/// Every version that a log has had, derived from everything ever written to its store. Each comes with the write that
/// made it: the first append that made its segment long enough.
///
/// # Errors
/// What cannot be read, or should not have been written, as text.
pub fn every_place_written(shared_state: SharedState, writes: &[Write]) -> Result<Vec<(Placed, usize)>, String> {
    let mut lengths = BTreeMap::<u64, Vec<(u64, usize)>>::new();
    for (number, write) in writes.iter().enumerate() {
        if let (Some(segment), Some(object)) = (shared_state.keys.segment_number(&write.key), &write.object) {
            lengths.entry(segment).or_default().push((object.bytes.len() as u64, number));
        }
    }
    let created = writes.iter().position(|write| write.key == shared_state.keys.checkpoint(0)).unwrap_or(0);
    let world = Frozen::of(whole_log(&shared_state, writes)?);
    let catalog = AppendLog::new(world.clone(), world, Arc::new(shared_state));
    let made_by = |placed: &Placed| {
        let all = lengths.get(&placed.segment).map(Vec::as_slice).unwrap_or_default();
        let append = all.iter().find(|(length, _)| placed.end > 0 && *length >= placed.end);
        append.map_or(created, |(_, write)| *write)
    };
    let places = at_once(catalog.every_place()).map_err(|error| error.to_string())?;
    let with_write = |placed: Placed| {
        let write = made_by(&placed);
        (placed, write)
    };
    Ok(places.into_iter().map(with_write).collect())
}

/// Each segment as it was before it was emptied, and the first write under every other key.
fn whole_log(shared_state: &SharedState, writes: &[Write]) -> Result<BTreeMap<Key, Payload>, String> {
    let (mut longest, mut emptied) = (BTreeMap::<Key, Payload>::new(), BTreeMap::<Key, Payload>::new());
    for write in writes {
        let (key, Some(object)) = (write.key.clone(), &write.object) else { continue };
        match longest.get_mut(&key) {
            None => drop(longest.insert(key, object.clone())),
            Some(_) if shared_state.keys.segment_number(&key).is_none() => {}
            Some(known) if !emptied.contains_key(&key) && object.bytes.starts_with(&known.bytes) => {
                *known = object.clone();
            }
            Some(known) if object.bytes.len() < known.bytes.len() => {
                if emptied.insert(key.clone(), object.clone()).is_some_and(|before| before != *object) {
                    return Err(format!("{key} was written again after it had been emptied"));
                }
            }
            Some(_) => return Err(format!("{key} was overwritten")),
        }
    }
    Ok(longest)
}

fn broken(words: String) -> LoadError {
    LoadError::Undecodable(Cause::words(words))
}
