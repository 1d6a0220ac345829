//! Which versions has the catalog had? For those who look after a log, not for commits: the cost grows with the log.

use std::sync::Arc;

use glidepath_env::{Cause, Env, ObjectStore, ReadError};

use super::reading::undecodable;
use super::record::{HEADER, Record};
use super::state::State;
use super::{AppendLog, Snapshot};
use crate::catalog::LoadError;

/// A version, and where the record that made it is.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The catalog behind the record.
    pub version: Snapshot,
    /// The segment that the record is in.
    pub segment: u64,
    /// Where in it the record ends, in bytes.
    pub end: u64,
    /// Whether the record closes the segment.
    pub closes: bool,
}

impl<E: Env> AppendLog<E> {
    /// Every version from the first one on, oldest first; so no segment may have been emptied. Also compares each
    /// checkpoint that is there with what the log says.
    ///
    /// # Errors
    /// Where something is missing, damaged, or not what it should be.
    pub async fn every_version(&self) -> Result<Vec<Snapshot>, LoadError> {
        Ok(self.every_place().await?.into_iter().map(|placed| placed.version).collect())
    }

    /// The same, each with where its record is. (The first has none: it ends where segment 0 begins.)
    ///
    /// # Errors
    /// As [`every_version`](Self::every_version).
    pub async fn every_place(&self) -> Result<Vec<Placed>, LoadError> {
        let first = self.read_checkpoint(0).await?.ok_or(LoadError::NotFound)?;
        let mut state = State::clone(&first.0);
        let mut versions = vec![Placed { version: first, segment: 0, end: 0, closes: false }];
        loop {
            let number = state.segment.number;
            let segment = match self.store.get(&self.place.keys.segment(number)).await {
                Ok(object) => object.payload.bytes,
                Err(ReadError::NotFound) => return Ok(versions),
                Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
            };
            let mut at = 0;
            while at < segment.len() && state.segment.number == number {
                let record = if at == 0 { HEADER.min(segment.len()) } else { at };
                let (_, behind) = Record::decode(&segment[record..]).map_err(undecodable)?;
                let end = segment.len() - behind.len();
                let next = state.fold(&segment[at..end], None).map_err(undecodable)?.state;
                if next.version > state.version {
                    let closes = next.segment.number > number;
                    let version = Snapshot(Arc::new(next.clone()));
                    versions.push(Placed { version, segment: number, end: end as u64, closes });
                }
                (state, at) = (next, end);
            }
            if at < segment.len() {
                return Err(broken(format!("there are bytes behind the end of segment {number}")));
            }
            if state.segment.number == number {
                return Ok(versions);
            }
            if let Some(checkpoint) = self.read_checkpoint(number + 1).await?
                && checkpoint.0.segment.start != state.segment.start
            {
                return Err(broken(format!("checkpoint {} does not match the log", number + 1)));
            }
        }
    }
}

fn broken(words: String) -> LoadError {
    LoadError::Undecodable(Cause::words(words))
}
