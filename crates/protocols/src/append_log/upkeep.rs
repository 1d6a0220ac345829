//! What people who look after any catalog ask of a log: which versions can be read, is all there, and what may go.

use glidepath_env::{Cause, Env, Key, ObjectStore, ReadError};
use glidepath_model::Version;

use super::audit::End;
use super::record::{HEADER, Header};
use super::{AppendLog, Snapshot, checkpoint};
use crate::catalog::LoadError;
use crate::upkeep::{Count, Finding, Keep, Removed, Report, Severity, VacuumError};

/// Keys listed at a time.
const PAGE: usize = 1000;

/// A hint so many segments behind has been failing to be left for some time.
const HINT_LATE: u64 = 4;

const RESTORE: &str = "restore the object from a backup or an older version that the store kept; until then versions behind it are read \
                       from the next checkpoint";

impl<E: Env> AppendLog<E> {
    /// The numbers of all checkpoints, rising.
    async fn checkpoints(&self) -> Result<Vec<u64>, LoadError> {
        let (keys, mut numbers, mut after) = (&self.place.keys, Vec::new(), None::<Key>);
        loop {
            let page = self.store.list(&keys.checkpoints(), after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            numbers.extend(page.objects.iter().filter_map(|listed| keys.checkpoint_number(&listed.key)));
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(numbers);
            }
        }
    }

    /// Whether a vacuum has emptied a segment.
    async fn is_emptied(&self, number: u64) -> Result<bool, LoadError> {
        match self.store.get_range(&self.place.keys.segment(number), 0..HEADER as u64).await {
            Ok(object) => Ok(matches!(Header::decode(&object.payload.bytes, number), Ok((Header::Emptied, _)))),
            Err(ReadError::NotFound) => Ok(false),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }

    /// The first of these segments that was not emptied. A vacuum that was stopped leaves checkpoints of emptied ones, and the first
    /// checkpoint stays for good.
    async fn first_kept(&self, numbers: &[u64]) -> Result<Option<u64>, LoadError> {
        for number in numbers {
            if !self.is_emptied(*number).await? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }

    /// The oldest version from which on all can be read.
    pub(super) async fn oldest_kept(&self) -> Result<Version, LoadError> {
        let newest = self.catch_up().await?;
        let Some(first) = self.first_kept(&self.checkpoints().await?).await? else { return Ok(newest.version()) };
        // Gone meanwhile: a vacuum is at work, and the newest is kept in any case.
        Ok(self.read_checkpoint(first).await?.map_or(newest.version(), |checkpoint| checkpoint.version()))
    }

    /// A version that can still be read.
    pub(super) async fn version_at(&self, version: Version) -> Result<Option<Snapshot>, LoadError> {
        let newest = self.catch_up().await?;
        if version >= newest.version() {
            return Ok(Some(newest).filter(|newest| newest.version() == version));
        }
        let mut number = newest.0.segment.number;
        let checkpoint = loop {
            match self.read_checkpoint(number).await? {
                Some(checkpoint) if checkpoint.version() <= version => break checkpoint,
                // The checkpoint of the newest segment may not be there yet.
                None if number < newest.0.segment.number => return Ok(None),
                _ if number == 0 => return Ok(None),
                _ => number -= 1,
            }
        };
        let mut found = None;
        let end = self.walk(checkpoint, |placed| {
            if placed.version.version() == version {
                found = Some(placed.version);
            }
        });
        match end.await {
            End::Unread(_, error) if found.is_none() => Err(error),
            _ => Ok(found),
        }
    }

    /// Empties segments that no kept version needs.
    pub(super) async fn vacuum_versions(&self, keep: Keep) -> Result<Removed, VacuumError> {
        let before = self.oldest_kept().await?;
        let vacuumed =
            self.empty_before(self.first_needed(keep.versions).await?).await.map_err(|error| match error {
                super::VacuumError::Load(load) => VacuumError::Load(load),
                super::VacuumError::Stopped(cause) => VacuumError::Stopped(cause),
            })?;
        let removed = vec![
            Count::of("segments", "segments of the log", vacuumed.segments),
            Count::of("checkpoints", "checkpoints", vacuumed.checkpoints),
        ];
        let newest = self.catch_up().await?.version();
        Ok(Removed { before, oldest: self.oldest_kept().await?, newest, removed, kept: 0 })
    }

    /// Looks at every checkpoint and every kept segment.
    pub(super) async fn fsck(&self, mend: bool) -> Result<Report, LoadError> {
        let numbers = self.checkpoints().await?;
        let (Some(last), Some(first)) = (numbers.last(), self.first_kept(&numbers).await?) else {
            return Err(LoadError::NotFound);
        };
        let mut look = Look { log: self, report: Report::default(), versions: 0, segments: 0, newest: None };
        look.checkpoints(&numbers, first).await;
        look.segments(&numbers, first).await;
        look.hint(*last, mend).await;
        let Look { mut report, versions, segments, newest, .. } = look;
        let entries = newest.map_or(0, |newest| newest.root().all().count() as u64);
        let checkpoints = numbers.len() as u64;
        report.looked_at = vec![
            Count::of("versions", "versions", versions),
            Count::of("segments", "segments of the log", segments),
            Count::of("checkpoints", "checkpoints", checkpoints),
            Count::of("entries", "entries", entries),
        ];
        report.findings.sort_by_key(|finding| finding.severity);
        Ok(report)
    }
}

/// A look in progress.
struct Look<'a, E: Env> {
    log: &'a AppendLog<E>,
    report: Report,
    versions: u64,
    segments: u64,
    newest: Option<Snapshot>,
}

impl<E: Env> Look<'_, E> {
    fn finds(&mut self, severity: Severity, trouble: &'static str, object: Key, found: String, advice: &str) {
        let version = self.newest.as_ref().map(Snapshot::version).filter(|_| severity <= Severity::Unread);
        self.report.findings.push(Finding { severity, trouble, object, version, found, advice: advice.to_owned() });
    }

    async fn checkpoints(&mut self, numbers: &[u64], first: u64) {
        for number in numbers {
            let object = self.log.place.keys.checkpoint(*number);
            match self.log.read_checkpoint(*number).await {
                Ok(_) if *number > 0 && *number < first => {
                    let found = "the checkpoint of a segment that was emptied".to_owned();
                    self.finds(Severity::Garbage, "unused", object, found, "`glidepath catalog vacuum` removes it");
                }
                // One that is gone meanwhile was vacuumed.
                Ok(_) => {}
                Err(LoadError::Undecodable(cause)) => {
                    self.finds(Severity::Damage, "undecodable-checkpoint", object, cause.to_string(), RESTORE);
                }
                Err(error) => self.finds(Severity::Unread, "unread", object, error.to_string(), "try again"),
            }
        }
    }

    /// From checkpoint to checkpoint, as far as the log leads from each.
    async fn segments(&mut self, numbers: &[u64], first: u64) {
        let mut from = Some(first);
        while let Some(number) = from {
            let next = |behind: u64| numbers.iter().copied().find(|other| *other > behind);
            let Ok(Some(checkpoint)) = self.log.read_checkpoint(number).await else {
                // Told already.
                from = next(number);
                continue;
            };
            if self.newest.is_none() {
                self.report.oldest = checkpoint.version();
            }
            from = self.stretch(checkpoint, next).await;
        }
        self.report.newest = self.newest.as_ref().map(Snapshot::version).unwrap_or_default();
    }

    /// What the log says from one checkpoint on. Returns where to begin anew behind what cannot be read.
    async fn stretch(&mut self, checkpoint: Snapshot, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let begun = checkpoint.0.segment.number;
        let (mut versions, mut newest) = (0, None);
        let end = self.log.walk(checkpoint, |placed| {
            versions += 1;
            newest = Some(placed.version);
        });
        let end = end.await;
        self.versions += versions;
        self.newest = newest.or(self.newest.take());
        let keys = &self.log.place.keys;
        let (number, severity, trouble, object, found) = match end {
            End::Newest(number) => match next(number) {
                None => {
                    self.segments += number - begun + 1;
                    self.report.whole = self.newest.as_ref().map(Snapshot::version);
                    return None;
                }
                Some(_) => {
                    let found = "it is missing, or ends too early: there are later checkpoints".to_owned();
                    (number, Severity::Damage, "missing-segment", keys.segment(number), found)
                }
            },
            // A vacuum has been here meanwhile, or somebody has emptied what others need.
            End::Emptied(number) => {
                let found = "it was emptied, and a segment before it was not".to_owned();
                (number, Severity::Damage, "emptied-segment", keys.segment(number), found)
            }
            End::Damaged(number, words) => {
                (number, Severity::Damage, "undecodable-segment", keys.segment(number), words)
            }
            End::Mismatch(number) => {
                let found = "it is not what the log before it says".to_owned();
                (number - 1, Severity::Damage, "other-checkpoint", keys.checkpoint(number), found)
            }
            End::Unread(number, error) => (number, Severity::Unread, "unread", keys.segment(number), error.to_string()),
        };
        self.segments += number - begun + 1;
        self.finds(severity, trouble, object, found, RESTORE);
        next(number)
    }

    async fn hint(&mut self, last: u64, mend: bool) {
        let object = self.log.place.keys.hint();
        let found = match self.log.store.get(&object).await {
            Ok(hint) => match checkpoint::decode_hint(&hint.payload.bytes) {
                Some(number) if number + HINT_LATE >= last => return,
                Some(number) => format!("it names checkpoint {number}; the newest is {last}"),
                None => "it cannot be read".to_owned(),
            },
            Err(ReadError::NotFound) if last == 0 => return,
            Err(ReadError::NotFound) => "it is missing".to_owned(),
            Err(ReadError::Failed(cause)) => {
                return self.finds(Severity::Unread, "unread", object, cause.to_string(), "try again");
            }
        };
        if mend && !self.report.is_damaged() {
            self.log.put_hint(last).await;
            self.report.mended.push(format!("the hint names checkpoint {last} now"));
        }
        self.finds(Severity::Note, "hint", object, found, "harmless: readers list instead; --mend writes it anew");
    }
}
