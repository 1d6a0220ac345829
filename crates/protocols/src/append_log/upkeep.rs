//! Maintenance of a log: which versions can be read, whether everything is there, and what may be removed.

use std::ops::ControlFlow;
use std::sync::PoisonError;

use glidepath_env::{Cause, Env, Key, Listed, ObjectStore, ReadError};
use glidepath_model::Version;

use super::audit::End;
use super::record::{HEADER, Header};
use super::{AppendLog, Snapshot, checkpoint};
use crate::catalog::LoadError;
use crate::upkeep::{Count, Finding, Keep, Removed, Report, Severity, VacuumError};

/// Keys listed at a time.
const PAGE: usize = 1000;

/// A hint this many segments behind has not been updated for some time.
const HINT_LATE: u64 = 4;

const SEGMENTS: [&str; 2] = ["segment of the log", "segments of the log"];
const CHECKPOINTS: [&str; 2] = ["checkpoint", "checkpoints"];

const RESTORE: &str = "restore what is missing from a backup or an older version that the store kept";

impl<E: Env> AppendLog<E> {
    /// The numbers of all checkpoints, in rising order.
    pub(super) async fn checkpoint_numbers(&self) -> Result<Vec<u64>, LoadError> {
        let keys = &self.shared_state.keys;
        self.numbers(&keys.checkpoints(), |listed| keys.checkpoint_number(&listed.key)).await
    }

    /// The numbers of all segments that have an object, in rising order, and whether each has only a header, as one
    /// that was emptied.
    async fn segments(&self) -> Result<Vec<(u64, bool)>, LoadError> {
        let keys = &self.shared_state.keys;
        let segment =
            |listed: &Listed| Some((keys.segment_number(&listed.key)?, listed.size.as_bytes() <= HEADER as u64));
        self.numbers(&keys.segments(), segment).await
    }

    async fn numbers<T>(&self, prefix: &Key, number: impl Fn(&Listed) -> Option<T>) -> Result<Vec<T>, LoadError> {
        let (mut numbers, mut after) = (Vec::new(), None::<Key>);
        loop {
            let page = self.store.list(prefix, after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            numbers.extend(page.objects.iter().filter_map(&number));
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(numbers);
            }
        }
    }

    /// Whether a vacuum has emptied a segment.
    async fn is_emptied(&self, number: u64) -> Result<bool, LoadError> {
        match self.store.get_range(&self.shared_state.keys.segment(number), 0..HEADER as u64).await {
            Ok(object) => Ok(matches!(Header::decode(&object.payload.bytes, number), Ok((Header::Emptied, _)))),
            Err(ReadError::NotFound) => Ok(false),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }

    /// The first of these segments that was not emptied. A vacuum that was stopped leaves checkpoints of emptied
    /// segments, and the first checkpoint is never removed.
    async fn first_kept(&self, numbers: &[u64]) -> Result<Option<u64>, LoadError> {
        for number in numbers {
            if !self.is_emptied(*number).await? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }

    /// The same for a check, which reports a segment that cannot be read when it comes to it: that one, and the error.
    async fn first_perhaps_kept(&self, numbers: &[u64]) -> (Option<u64>, Result<(), LoadError>) {
        for number in numbers {
            match self.is_emptied(*number).await {
                Ok(true) => {}
                Ok(false) => return (Some(*number), Ok(())),
                Err(error) => return (Some(*number), Err(error)),
            }
        }
        (None, Ok(()))
    }

    /// The oldest version from which all versions can be read.
    pub(super) async fn oldest_kept(&self) -> Result<Version, LoadError> {
        let newest = self.catch_up().await?;
        let Some(first) = self.first_kept(&self.checkpoint_numbers().await?).await? else {
            return Ok(newest.version());
        };
        // Removed meanwhile: a vacuum is running, and it keeps the newest version in any case.
        Ok(self.read_checkpoint(first).await?.map_or(newest.version(), |checkpoint| checkpoint.version()))
    }

    /// A version that can still be read. Later parts of the log may be damaged.
    pub(super) async fn version_at(&self, version: Version) -> Result<Option<Snapshot>, LoadError> {
        let on_the_way = self.on_the_way(version);
        if on_the_way.is_some() {
            return Ok(on_the_way);
        }
        let Some(checkpoint) = self.checkpoint_before(version).await? else { return Ok(None) };
        let mut way = Vec::new();
        let end = self.walk(checkpoint, false, |placed| {
            let reached = placed.version.version() == version;
            way.extend(Some(placed).filter(|placed| !placed.void).map(|placed| placed.version));
            if reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let end = end.await;
        let found = way.last().filter(|found| found.version() == version).cloned();
        *self.shared_state.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
        let damaged = |number: u64, words: &str| {
            LoadError::Undecodable(Cause::words(format!("segment {number} of the log: {words}")))
        };
        match end {
            End::Stopped => Ok(found),
            End::Newest(_) | End::Emptied(_) => Ok(None),
            End::Damaged(number, words) => Err(damaged(number, &words)),
            End::Mismatch(number) => Err(damaged(number - 1, "the checkpoint after it differs")),
            End::Unread(_, error) => Err(error),
        }
    }

    /// A version that was met on the way to the old version that was asked for last.
    fn on_the_way(&self, version: Version) -> Option<Snapshot> {
        let way = self.shared_state.way.lock().unwrap_or_else(PoisonError::into_inner);
        let place = way.binary_search_by_key(&version, Snapshot::version).ok()?;
        Some(way[place].clone())
    }

    /// The last checkpoint that is not later than a version, of those that can be read: the log leads on from there.
    /// Reads few of them, because each is as large as the catalog.
    async fn checkpoint_before(&self, version: Version) -> Result<Option<Snapshot>, LoadError> {
        let numbers = self.checkpoint_numbers().await?;
        // Before `low` are those that are not later, or cannot be read; from `high` on those that are later.
        let (mut low, mut high, mut best) = (0, numbers.len(), None);
        while low < high {
            let middle = low.midpoint(high);
            let mut place = middle;
            let read = loop {
                match self.read_checkpoint(numbers[place]).await {
                    Ok(Some(checkpoint)) => break Some(checkpoint),
                    Ok(None) | Err(LoadError::Undecodable(_)) if place > low => place -= 1,
                    Ok(None) | Err(LoadError::Undecodable(_)) => break None,
                    Err(error) => return Err(error),
                }
            };
            match read {
                Some(checkpoint) if checkpoint.version() > version => high = place,
                read => (low, best) = (middle + 1, read.or(best)),
            }
        }
        Ok(best)
    }

    /// Empties segments that no kept version needs.
    pub(super) async fn vacuum_versions(&self, keep: Keep) -> Result<Removed, VacuumError> {
        let before = self.oldest_kept().await?;
        let vacuumed =
            self.empty_before(self.first_needed(keep.versions).await?).await.map_err(|error| match error {
                super::VacuumError::Load(load) => VacuumError::Load(load),
                super::VacuumError::Stopped(cause) => VacuumError::Stopped(cause),
            })?;
        let emptied = vec![Count::of("segments", SEGMENTS, vacuumed.segments)];
        let deleted = vec![Count::of("checkpoints", CHECKPOINTS, vacuumed.checkpoints)];
        let newest = self.catch_up().await?.version();
        Ok(Removed {
            before,
            oldest: self.oldest_kept().await?,
            newest,
            deleted,
            emptied,
            retired: Vec::new(),
            kept: 0,
        })
    }

    /// Checks every checkpoint and every kept segment.
    pub(super) async fn fsck(&self, mend: bool) -> Result<Report, LoadError> {
        // Others may write or vacuum between these and later requests: what seems to be missing is asked for again.
        let (numbers, segments) = (self.checkpoint_numbers().await?, self.segments().await?);
        let newest = segments.last().map(|(number, _)| *number);
        let last = numbers.last().copied().max(newest);
        let unwritten = numbers.last().copied().filter(|number| newest < Some(*number));
        let mut look = Look { log: self, report: Report::default(), versions: 0, segments: 0, newest: None, last };
        look.checkpoints(&numbers, &segments).await;
        look.stretches(numbers.clone()).await?;
        look.hint(mend).await;
        if let Some(number) = unwritten.filter(|_| !look.report.is_damaged()) {
            let found = "the newest checkpoint has no segment: nothing was committed after it, or the segment was lost \
                         with up to as many commits as a segment holds";
            let advice = "compare the newest version with what was acknowledged; if commits are missing, restore the \
                          segment from a backup before anything else is committed";
            look.finds(Severity::Note, "no-segment", self.shared_state.keys.segment(number), found.to_owned(), advice);
        }
        if last.is_none() && look.report.findings.is_empty() {
            return Err(LoadError::NotFound);
        }
        let Look { mut report, versions, segments, newest, .. } = look;
        let entries = newest.map_or(0, |newest| newest.root().all().count() as u64);
        report.looked_at = vec![
            Count::of("versions", ["version", "versions"], versions),
            Count::of("segments", SEGMENTS, segments),
            Count::of("checkpoints", CHECKPOINTS, numbers.len() as u64),
            Count::of_entries(entries),
        ];
        report.findings.sort_by_key(|finding| finding.severity);
        Ok(report)
    }
}

/// So many missing checkpoints are told one by one: an object with a number that is far too high leaves billions of
/// them.
const MOST_MISSING: usize = 100;

/// So many more times the checkpoints are listed, if vacuums empty all segments meanwhile.
const LISTINGS: usize = 3;

/// A check in progress.
struct Look<'a, E: Env> {
    log: &'a AppendLog<E>,
    report: Report,
    versions: u64,
    segments: u64,
    newest: Option<Snapshot>,
    /// The greatest number of any checkpoint or segment.
    last: Option<u64>,
}

impl<E: Env> Look<'_, E> {
    fn finds(&mut self, severity: Severity, trouble: &'static str, object: Key, found: String, advice: &str) {
        let version = self.newest.as_ref().map(Snapshot::version).filter(|_| severity <= Severity::Unread);
        self.report.findings.push(Finding { severity, trouble, object, version, found, advice: advice.to_owned() });
    }

    /// Every existing checkpoint must be readable, and the required ones must exist: that of the first segment, and of
    /// each closed segment. A vacuum empties a segment before it removes the checkpoint, so one with records has it,
    /// also before the oldest checkpoint that is left.
    async fn checkpoints(&mut self, numbers: &[u64], segments: &[(u64, bool)]) {
        let keys = &self.log.shared_state.keys;
        let (first, _) = self.log.first_perhaps_kept(numbers).await;
        for number in numbers {
            let object = keys.checkpoint(*number);
            match self.log.read_checkpoint(*number).await {
                Ok(_) if *number > 0 && first.is_some_and(|first| *number < first) => {
                    let found = "the checkpoint of a segment that was emptied".to_owned();
                    self.finds(Severity::Garbage, "unused", object, found, "`glidepath catalog vacuum` removes it");
                }
                // One that disappeared meanwhile was vacuumed.
                Ok(_) => {}
                Err(LoadError::Undecodable(cause)) => {
                    self.finds(Severity::Damage, "undecodable-checkpoint", object, cause.to_string(), RESTORE);
                }
                Err(error) => self.finds(Severity::Unread, "unread", object, error.to_string(), "try again"),
            }
        }
        let Some(last) = self.last else { return };
        let first = first.unwrap_or(0);
        let before = segments.iter().filter(|(number, emptied)| (1..first.min(last)).contains(number) && !emptied);
        let must = std::iter::once(0).chain(before.map(|(number, _)| *number)).chain(first..last);
        let (mut missing, mut lost) = (must.filter(|number| numbers.binary_search(number).is_err()), 0);
        for number in missing.by_ref().take(MOST_MISSING) {
            // A vacuum may have removed it after it was listed as kept, and a writer may have put it after the listing.
            if !matches!(self.log.read_checkpoint(number).await, Ok(None)) {
                continue;
            }
            match self.log.is_emptied(number).await {
                Ok(true) if number > 0 => {}
                Err(error) => {
                    self.finds(Severity::Unread, "unread", keys.segment(number), error.to_string(), "try again")
                }
                Ok(_) => {
                    let found = "it is missing, though its segment is not the newest".to_owned();
                    self.finds(Severity::Damage, "missing-checkpoint", keys.checkpoint(number), found, RESTORE);
                    lost += 1;
                }
            }
        }
        if let Some(next) = missing.next().filter(|_| lost > 0) {
            let found = format!(
                "from checkpoint {next} on others are missing too, and were not looked for one by one: an object of number {last} \
                 is there, which may be of another log"
            );
            self.finds(Severity::Damage, "missing-checkpoint", keys.checkpoint(next), found, RESTORE);
        }
    }

    /// Walks the log from checkpoint to checkpoint, as far as it can be read from each.
    async fn stretches(&mut self, mut numbers: Vec<u64>) -> Result<(), LoadError> {
        let (mut from, _) = self.log.first_perhaps_kept(&numbers).await;
        for _ in 0..LISTINGS {
            if from.is_some() || numbers.is_empty() {
                break;
            }
            // Vacuums have passed all that was listed, so there are later ones.
            numbers = self.log.checkpoint_numbers().await?;
            (from, _) = self.log.first_perhaps_kept(&numbers).await;
        }
        if from.is_none() && !numbers.is_empty() {
            let words = "all segments that were listed are emptied: vacuums were faster each time; try again";
            return Err(LoadError::Failed(Cause::words(words)));
        }
        let mut ended_well = false;
        while let Some(number) = from {
            let next = |behind: u64| numbers.iter().copied().find(|other| *other > behind);
            let Ok(Some(checkpoint)) = self.log.read_checkpoint(number).await else {
                // Already reported.
                from = next(number);
                continue;
            };
            if self.newest.is_none() {
                self.report.oldest = checkpoint.version();
            }
            (from, ended_well) = self.stretch(checkpoint, next).await?;
        }
        let newest = self.newest.as_ref().map(Snapshot::version);
        self.report.whole = newest;
        // There was at least one more version after the damage.
        let newest = newest.unwrap_or_default();
        self.report.newest = if ended_well { newest } else { newest.next() };
        Ok(())
    }

    /// Checks the log from one checkpoint on. Returns where to continue after what cannot be read, and whether all was
    /// well.
    async fn stretch(
        &mut self,
        checkpoint: Snapshot,
        next: impl Fn(u64) -> Option<u64>,
    ) -> Result<(Option<u64>, bool), LoadError> {
        let begun = checkpoint.0.segment.number;
        let (mut versions, mut newest, mut void) = (0, None, Vec::new());
        let end = self.log.walk(checkpoint, false, |placed| {
            if placed.void {
                void.push((placed.segment, placed.end));
            } else {
                versions += 1;
                newest = Some(placed.version);
            }
            ControlFlow::Continue(())
        });
        let end = end.await;
        self.versions += versions;
        self.newest = newest.or(self.newest.take());
        let keys = &self.log.shared_state.keys;
        if let Some((number, end)) = void.first() {
            let found = format!(
                "it has {} records that fit nowhere and have no effect, the first up to byte {end}: their writers may \
                 have been told that they were committed. That happens if the store is deleted and created anew while a \
                 writer runs, or if another program writes here",
                void.len()
            );
            let advice = "find out which commits are missing, and make them again";
            self.finds(Severity::Damage, "void-record", keys.segment(*number), found, advice);
        }
        let (number, severity, trouble, object, found) = match end {
            End::Newest(number) if self.last.is_none_or(|last| last <= number) => {
                self.segments += number - begun + 1;
                return Ok((None, true));
            }
            End::Stopped => return Ok((None, true)),
            End::Newest(number) => {
                let found = "it is missing, or ends too early: there are later objects".to_owned();
                (number, Severity::Damage, "missing-segment", keys.segment(number), found)
            }
            End::Emptied(number) => {
                let (first, known) = self.log.first_perhaps_kept(&self.log.checkpoint_numbers().await?).await;
                if let Some(first) = first.filter(|first| *first > number) {
                    // A vacuum ran meanwhile.
                    return Ok((Some(first), true));
                }
                let found = "it was emptied, and a segment before it was not".to_owned();
                match (first, known) {
                    (Some(first), Err(error)) => {
                        (number, Severity::Unread, "unread", keys.segment(first), error.to_string())
                    }
                    _ => (number, Severity::Damage, "emptied-segment", keys.segment(number), found),
                }
            }
            End::Damaged(number, words) => {
                (number, Severity::Damage, "undecodable-segment", keys.segment(number), words)
            }
            End::Mismatch(number) => {
                let found =
                    "it differs from the log before it, or a segment before it belongs to another log".to_owned();
                (number - 1, Severity::Damage, "other-checkpoint", keys.checkpoint(number), found)
            }
            End::Unread(number, error) => (number, Severity::Unread, "unread", keys.segment(number), error.to_string()),
        };
        self.segments += number - begun + 1;
        self.finds(severity, trouble, object, found, RESTORE);
        Ok((next(number), false))
    }

    async fn hint(&mut self, mend: bool) {
        let (object, last) = (self.log.shared_state.keys.hint(), self.last.unwrap_or(0));
        let found = match self.log.store.get(&object).await {
            Ok(hint) => match checkpoint::decode_hint(&hint.payload.bytes) {
                Some(number) if number > last => return self.hint_ahead(object, number).await,
                Some(number) if number.saturating_add(HINT_LATE) >= last => return,
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
        self.finds(Severity::Note, "hint", object, found, "harmless: readers list instead; --mend writes it again");
    }

    /// The hint names a checkpoint that was not listed: one newer than the listing, or one that was lost.
    async fn hint_ahead(&mut self, object: Key, number: u64) {
        let emptied = match self.log.read_checkpoint(number).await {
            Ok(Some(_)) => return,
            Err(LoadError::Failed(cause)) => Err(LoadError::Failed(cause)),
            Ok(None) | Err(LoadError::Undecodable(_) | LoadError::NotFound) => self.log.is_emptied(number).await,
        };
        match emptied {
            // It was written after the listing, and vacuumed.
            Ok(true) => {}
            Ok(false) => {
                let found = format!("it names checkpoint {number}, which is missing: newer versions may be lost");
                self.finds(Severity::Damage, "hint-ahead", object, found, RESTORE);
            }
            Err(error) => self.finds(Severity::Unread, "unread", object, error.to_string(), "try again"),
        }
    }
}
