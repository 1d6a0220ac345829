//! How is a log kept from growing for ever? By removing old checkpoints and emptying old segments.
//!
//! A segment's object stays for good, as a header without records. So an append at 0 by somebody who slept through the
//! segment's whole life is lost, as it must be; and as no record begins that near to the beginning, so is any other.

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

/// Why not all was removed. It does no harm to begin again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VacuumError {
    /// Nothing was removed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The rest stays until the next time.
    #[error("vacuum stopped: {0}")]
    Stopped(Cause),
}

impl<E: Env> AppendLog<E> {
    /// Empties the segments that lie more than `keep` segments (at least 2) before the newest, and removes their
    /// checkpoints. Safe with everybody else going on, other vacuums included; may be dropped at any point.
    ///
    /// A reader further behind than that opens the catalog anew. Snapshots that it holds stay good: they are in memory.
    ///
    /// # Errors
    /// [`VacuumError`] where a request fails; what was removed so far is removed.
    pub async fn vacuum(&self, keep: u64) -> Result<Vacuumed, VacuumError> {
        let newest = self.catch_up().await?.0.segment.number;
        let too_far = u64::from(mutant::is(Mutant::SegmentTooFar));
        self.empty_before((newest + too_far).saturating_sub(keep.max(LEAST))).await
    }

    /// The first segment to keep, so that so many versions before the newest can be read.
    ///
    /// # Errors
    /// Where the log cannot be read.
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
        let keys = &self.place.keys;
        let (mut vacuumed, mut after) = (Vacuumed::default(), None);
        loop {
            let page = self.store.list(&keys.checkpoints(), after.as_ref(), PAGE).await.map_err(stopped)?;
            // A closed segment has its checkpoint, which is removed last: so the next vacuum finds what this one leaves. Only if something
            // else removed a checkpoint, its segment is not found, and stays (fsck tells of it).
            for number in page.objects.iter().filter_map(|listed| keys.checkpoint_number(&listed.key)) {
                if number >= end {
                    return Ok(vacuumed);
                }
                vacuumed.segments += u64::from(self.empty(number).await?);
                // The first one stays: it is what makes a second creation fail.
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

    /// Puts a header without records in the place of a segment, if there is more.
    async fn empty(&self, number: u64) -> Result<bool, VacuumError> {
        let key = self.place.keys.segment(number);
        match self.store.head(&key).await {
            Ok(metadata) if metadata.size.as_bytes() <= HEADER as u64 => return Ok(false),
            Err(ReadError::NotFound) if mutant::is(Mutant::SegmentsRemoved) => return Ok(false),
            // Somebody removed it. The header must be there, so that no late append creates the segment anew.
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
