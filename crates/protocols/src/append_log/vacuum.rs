//! Limiting the size of a log: removing old checkpoints and emptying old segments.
//!
//! A segment's object is never removed; it becomes a header without records. So an append at 0 by a writer that has
//! slept since before the segment existed is lost, as it must be. Appends at later offsets are lost too, because no
//! record begins within the header.

use glidepath_env::{Cause, DeleteError, Denial, Env, Guard, ObjectStore, Payload, PutError, ReadError};

use super::AppendLog;
use super::record::{HEADER, Header};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// A reader begins at the newest checkpoint, which may be that of the segment before the newest.
const LEAST: u64 = 2;

const PAGE: usize = 100;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Segments that were emptied.
    pub segments: u64,
    /// Checkpoints that were removed.
    pub checkpoints: u64,
}

/// Why vacuum stopped early. It can safely be run again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VacuumError {
    /// Nothing was removed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Some segments were not emptied; a later run does it.
    #[error("vacuum stopped: {0}")]
    Stopped(Cause),
}

impl<E: Env> AppendLog<E> {
    /// Empties the segments more than `keep` segments (at least 2) before the newest, and removes their checkpoints.
    /// Safe while others read, write and vacuum; may be dropped at any point.
    ///
    /// A reader that is further behind opens the catalog again. Snapshots that it holds stay valid: they are in memory.
    ///
    /// # Errors
    /// [`VacuumError`] if a request fails; what was removed before stays removed.
    pub async fn vacuum(&self, keep: u64) -> Result<Vacuumed, VacuumError> {
        let newest = self.catch_up().await?.0.segment.number;
        let too_far = u64::from(mutant::is(Mutant::SegmentTooFar));
        self.empty_before((newest + too_far).saturating_sub(keep.max(LEAST))).await
    }

    /// The first segment to keep so that this many versions before the newest can be read.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn first_needed(&self, versions: u64) -> Result<u64, LoadError> {
        let newest = self.catch_up().await?;
        let wanted = newest.0.version.0.saturating_sub(versions);
        let too_far = u64::from(mutant::is(Mutant::SegmentTooFar));
        let last = (newest.0.segment.number + too_far).saturating_sub(LEAST);
        // A checkpoint may be missing or damaged: then versions are read from the one before.
        for number in self.checkpoint_numbers().await?.into_iter().rev().filter(|number| *number <= last) {
            match self.read_checkpoint(number).await {
                Ok(Some(checkpoint)) if checkpoint.0.version.0 <= wanted => return Ok(number),
                Ok(_) | Err(LoadError::Undecodable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Empties the segments before this one, and removes their checkpoints.
    pub(super) async fn empty_before(&self, end: u64) -> Result<Vacuumed, VacuumError> {
        let keys = &self.shared_state.keys;
        let (mut vacuumed, mut after) = (Vacuumed::default(), None);
        loop {
            let page = self.store.list(&keys.checkpoints(), after.as_ref(), PAGE).await.map_err(stopped)?;
            // A closed segment's checkpoint is removed last, so the next vacuum finds what this one leaves. A segment
            // whose checkpoint was removed by something else is not found and stays (fsck reports it).
            for number in page.objects.iter().filter_map(|listed| keys.checkpoint_number(&listed.key)) {
                if number >= end {
                    return Ok(vacuumed);
                }
                vacuumed.segments += u64::from(self.empty(number).await?);
                // The first checkpoint stays: it makes a second creation fail.
                if number > 0 {
                    match self.store.delete(&keys.checkpoint(number)).await {
                        Ok(()) => vacuumed.checkpoints += 1,
                        Err(DeleteError::Unknown(cause) | DeleteError::Refused(cause)) => {
                            return Err(VacuumError::Stopped(cause));
                        }
                    }
                }
            }
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(vacuumed);
            }
        }
    }

    /// Replaces a segment by a header without records, unless it already is one.
    async fn empty(&self, number: u64) -> Result<bool, VacuumError> {
        let key = self.shared_state.keys.segment(number);
        match self.store.head(&key).await {
            Ok(metadata) if metadata.size.as_bytes() <= HEADER as u64 => return Ok(false),
            Err(ReadError::NotFound) if mutant::is(Mutant::SegmentsRemoved) => return Ok(false),
            // If the segment was removed, write the header all the same, so that no late append creates it again.
            Ok(_) | Err(ReadError::NotFound) => {}
            Err(error) => return Err(stopped(error)),
        }
        let header = Payload::from(bytes::Bytes::copy_from_slice(&Header::Emptied.encode(number)));
        if mutant::is(Mutant::SegmentsRemoved) {
            return Ok(self.store.delete(&key).await.is_ok());
        }
        match self.store.put(&key, header, Guard::None).await {
            Ok(_) => Ok(true),
            Err(PutError::Unknown(cause) | PutError::Refused(Denial { cause, .. })) => Err(VacuumError::Stopped(cause)),
            Err(PutError::Lost) => Err(VacuumError::Stopped(Cause::words("a put without a guard was lost"))),
        }
    }
}

fn stopped(error: ReadError) -> VacuumError {
    VacuumError::Stopped(match error {
        ReadError::Failed(cause) => cause,
        ReadError::NotFound => Cause::words("the store does not list its objects"),
    })
}
