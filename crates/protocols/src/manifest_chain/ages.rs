//! How old is a version, if any clock may be wrong?
//!
//! Too old an age loses commits: a process that saw version N as the newest a moment ago takes N + 1, if it is gone,
//! for not yet written, and writes it again. So an age needs two proofs that share no clock:
//!
//! - by the store's clock: the time at which the store says that the version was written, and the time at which it says
//!   that the hint was written, which the vacuum writes for this purpose;
//! - by the processes' clocks: the time in the version, by its writer's clock, and the vacuum's own time of day.
//!
//! One wrong clock, of a writer, of the vacuum's machine or of the store, falsifies one of the two. Where they
//! disagree, the version counts as young, and the next ones are examined.

use std::fmt;

use glidepath_env::{Env, Key, Metadata, ObjectStore, ReadError};
use glidepath_model::{Span, Version};

use super::{ManifestChain, Snapshot, VacuumError};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// The number of versions that are skipped because they cannot be read, or because the two proofs disagree.
const SKIPPED: usize = 8;

/// Two clocks that differ by less agree; those of machines whose time is set by a service do.
const AGREE_MS: u64 = 120_000;

/// The times at which ages are judged, and what was found.
pub(super) struct Ages<'a, E: Env> {
    chain: &'a ManifestChain<E>,
    wanted_ms: u64,
    own_ms: u64,
    store_ms: u64,
    dispute: Option<Dispute>,
}

/// A version that is old by one proof and young by the other. Displayed with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    /// The version.
    pub version: Version,
    /// Its object.
    pub object: Key,
    /// The time since it was written, by the clocks of its writer and of the vacuum's machine. Negative: in the future.
    pub by_processes_ms: i64,
    /// The same, by the store's clock.
    pub by_store_ms: i64,
    /// How far the clock of the vacuum's machine is ahead of the store's.
    pub ahead_ms: i64,
}

impl<E: Env> ManifestChain<E> {
    /// The times now. Writes the hint, to learn the store's.
    pub(super) async fn ages(&self, head: &Snapshot, wanted: Span) -> Result<Ages<'_, E>, VacuumError> {
        let what = "write and read the hint, to learn the time of the store's clock,";
        self.put_hint(head.version()).await.map_err(|cause| VacuumError::Store { what, cause })?;
        let key = self.shared_state.keys.hint();
        let store_ms = match self.store.head(&key).await {
            Ok(Metadata { written_ms: Some(written_ms), .. }) => written_ms,
            Ok(Metadata { written_ms: None, .. }) => return Err(VacuumError::Undated(key)),
            Err(ReadError::Failed(cause)) => return Err(VacuumError::Store { what, cause }),
            Err(ReadError::NotFound) => {
                let cause = glidepath_env::Cause::words(format!("{key} is missing right after it was written"));
                return Err(VacuumError::Store { what, cause });
            }
        };
        let wanted_ms = wanted.as_nanos() / 1_000_000;
        Ok(Ages { chain: self, wanted_ms, own_ms: self.env.unix_ms(), store_ms, dispute: None })
    }
}

impl<E: Env> Ages<'_, E> {
    /// The first version from `from` to `latest` for which both proofs agree, if they say that it is old. Skips
    /// versions that are missing or damaged, so that older ones can still be removed, and those in dispute.
    pub(super) async fn old_from(&mut self, from: u64, latest: u64) -> Result<Option<Version>, VacuumError> {
        for version in (from..=latest).take(SKIPPED).map(Version) {
            let found = match self.chain.version_at(version).await {
                Ok(Some(found)) => found,
                Ok(None) | Err(LoadError::Undecodable(_) | LoadError::Failed(_)) => continue,
                Err(error @ LoadError::NotFound) => return Err(error.into()),
            };
            let object = self.chain.shared_state.keys.version(version);
            let written_ms = match self.chain.store.head(&object).await {
                Ok(Metadata { written_ms: Some(written_ms), .. }) => written_ms,
                Ok(Metadata { written_ms: None, .. }) => return Err(VacuumError::Undated(object)),
                Err(ReadError::NotFound | ReadError::Failed(_)) => continue,
            };
            if mutant::is(Mutant::AgeIgnored) {
                return Ok(Some(version));
            }
            let by_processes_ms = since(found.written_ms(), self.own_ms);
            let by_store_ms = match mutant::is(Mutant::StoreClockIgnored) {
                true => by_processes_ms,
                false => since(written_ms, self.store_ms),
            };
            let is_old = |age_ms: i64| u64::try_from(age_ms).is_ok_and(|age_ms| age_ms >= self.wanted_ms);
            match (is_old(by_processes_ms), is_old(by_store_ms)) {
                (true, true) => return Ok(Some(version)),
                (false, false) => return Ok(None),
                _ if by_processes_ms.abs_diff(by_store_ms) < AGREE_MS => return Ok(None),
                _ if self.dispute.as_ref().is_some_and(|dispute| dispute.version > version) => {}
                _ => {
                    let ahead_ms = since(self.store_ms, self.own_ms);
                    self.dispute = Some(Dispute { version, object, by_processes_ms, by_store_ms, ahead_ms });
                }
            }
        }
        Ok(None)
    }

    /// The newest version on which the proofs disagreed, of those examined.
    pub(super) fn into_dispute(self) -> Option<Dispute> {
        self.dispute
    }
}

fn since(before_ms: u64, now_ms: u64) -> i64 {
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    signed(now_ms).saturating_sub(signed(before_ms))
}

/// A length of time for people: in whole hours, minutes or seconds.
fn long(ms: u64) -> Span {
    let unit_s = match ms / 1000 {
        7200.. => 3600,
        120.. => 60,
        _ => 1,
    };
    Span::from_secs(ms / 1000 / unit_s * unit_s)
}

impl fmt::Display for Dispute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, object, by_processes_ms, by_store_ms, ahead_ms } = self;
        let ago = |ms: i64| match ms {
            0.. => format!("{} ago", long(ms.unsigned_abs())),
            _ => format!("{} in the future", long(ms.unsigned_abs())),
        };
        write!(
            f,
            "nothing was removed, because clocks disagree on how old {version} is ({object}): it was written {} by the \
             clocks of its writer and of this machine, and {} by the store's clock. ",
            ago(*by_processes_ms),
            ago(*by_store_ms)
        )?;
        let (off, way) = (long(ahead_ms.unsigned_abs()), if *ahead_ms > 0 { "ahead of" } else { "behind" });
        if ahead_ms.unsigned_abs() >= AGREE_MS {
            return write!(f, "This machine's clock is {off} {way} the store's: set it, and run the vacuum again");
        }
        f.write_str(
            "This machine's clock agrees with the store's, so the clock of the version's writer was wrong (`glidepath \
             catalog history` shows the times), or the object was copied: set that clock, and run the vacuum again when \
             later versions have become old",
        )
    }
}
