//! Commits of Lance tables that the server orders: one winner for each version.
//!
//! Steps of a commit (comments cite these numbers; faults are in `docs/protocols/lance.md`):
//!
//! 1. The client stages the manifest of version n under a name of its own, and asks for version n.
//! 2. Read the table's head. If version n exists, the answer is success if it was made of this staged manifest, and
//!    otherwise a conflict. If version n - 1 does not exist, the request is wrong.
//! 3. Publish version n - 1, in case the server that created it died at step 6.
//! 4. Copy the staged manifest to a fresh name: clients delete what they staged after any error.
//! 5. **The commit point**: move the table's pointer from version n - 1 to n, which names the copy.
//! 6. Publish: write the copy to the place where Lance's clients expect version n, and delete it. Whoever reads the
//!    newest version does the same before it answers.
//!
//! So every version but the newest is at its place, and clients that do not ask the server read the same table.

use glidepath_env::Env;
use glidepath_model::{Action, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::{FileError, Files};

use super::head::Head;
use super::paths;
use crate::error::{Kind, Proof, ServiceError};
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::reading::no_table;
use crate::{ConflictOn, Counts, Inner, Service};

/// The most versions of a page.
const MOST_OF_A_PAGE: usize = 1000;

/// The most ranges of versions to delete: each is a request to the store at least.
const MOST_RANGES: usize = 1000;

/// A version of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanceVersion {
    /// Its number.
    pub version: u64,
    /// The path of its manifest, within the store.
    pub path: String,
    /// The size of its manifest, if it is known.
    pub bytes: Option<u64>,
    /// When it was created, in milliseconds since 1970, if it is known.
    pub at_ms: Option<u64>,
}

/// A version to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLanceVersion {
    /// Its number.
    pub version: u64,
    /// The path of the staged manifest, within the store.
    pub staged: String,
    /// The size of the manifest, if the client says.
    pub bytes: Option<u64>,
}

/// Which part of a listing of versions, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// The last version of the page before; `None` for the first page.
    pub after: Option<u64>,
    /// The most versions; `None`: as many as a page holds.
    pub size: Option<usize>,
}

fn at_its_place(location: &str, version: u64) -> LanceVersion {
    let path = paths::in_store(&paths::manifest(location, version)).to_owned();
    LanceVersion { version, path, bytes: None, at_ms: None }
}

fn newest(head: &Head) -> LanceVersion {
    LanceVersion { bytes: Some(head.bytes), at_ms: Some(head.at_ms), ..at_its_place(&head.location, head.version) }
}

fn not_created(head: &Head, version: u64) -> String {
    format!(
        "version {version} was not created: the newest version of the table is {}, so the next is {}; read it and \
         commit again",
        head.version,
        head.version + 1
    )
}

fn no_version(table: &Identifier, version: u64) -> ServiceError {
    ServiceError::new(Kind::NoVersion, format!("Table {} has no version {version}", table.dotted()))
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Creates the next version of a table whose commits the server orders. The same request may be sent again: it
    /// succeeds if it did before.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if another commit has this number; [`Kind::Invalid`] if there is no version before it;
    /// [`Kind::Unknown`] if the request may have taken effect.
    pub async fn create_lance_version(
        &self,
        table: &Identifier,
        new: &NewLanceVersion,
    ) -> Result<LanceVersion, ServiceError> {
        let mut is_gone = false;
        for _ in 0..self.inner.settings.attempts {
            let (pointer, head) = self.inner.head_of(table).await?;
            // A table without versions has the number 0.
            if new.version == 0 {
                return Err(ServiceError::invalid("version 0 was not created: the first version of a table is 1"));
            }
            let staged = paths::staged(&new.staged, &head.location, new.version)?;
            // Step 2.
            if new.version <= head.version {
                return self.inner.created_before(&head, new.version, &staged).await;
            }
            // No conflict, because that would be final: another delivery may come when version n - 1 is there.
            if new.version != head.version + 1 {
                return Err(ServiceError::invalid(not_created(&head, new.version)));
            }
            // Step 3.
            if !mutant::is(Mutant::LeftUnpublished) {
                self.inner.publish(&head).await?;
            }
            // Step 4.
            let Some(next) = self.inner.copied(&head, &staged, new.bytes).await? else {
                // Another delivery of this request may have been done since step 2: it deletes what it has copied.
                if std::mem::replace(&mut is_gone, true) || mutant::is(Mutant::StagedIsTrusted) {
                    let place = format!("{}/{staged}", paths::versions(&head.location));
                    return Err(ServiceError::invalid(format!("there is no staged manifest {place}")));
                }
                continue;
            };
            let created = self.inner.advance(table, &pointer, &next).await;
            let is_not_done = |error: &ServiceError| error.kind.proof() == Proof::NotDone;
            if created.as_ref().is_err_and(|error| is_not_done(error) || mutant::is(Mutant::DoubtedCopyDeleted))
                && let Some(copy) = &next.copy
            {
                let _ = self.inner.files.delete(copy).await;
            }
            match created {
                Ok(()) => return self.inner.answer_created(&next, &staged).await,
                // Another commit, or a rename, came first.
                Err(error) if error.kind == Kind::Conflict => Counts::add(&self.inner.counts.overtaken, 1),
                Err(error) => return Err(error),
            }
        }
        let words = "other commits to the table came first every time; not done: try again later";
        Err(ServiceError::new(Kind::Unavailable, words))
    }

    /// The versions of a table, newest first.
    ///
    /// # Errors
    /// [`Kind::NoTable`]; [`Kind::Unsupported`] if the server does not order the table's commits.
    pub async fn list_lance_versions(
        &self,
        table: &Identifier,
        page: &VersionPage,
    ) -> Result<(Vec<LanceVersion>, Option<u64>), ServiceError> {
        let (_, head) = self.inner.head_of(table).await?;
        let most = page.size.unwrap_or(MOST_OF_A_PAGE).clamp(1, MOST_OF_A_PAGE);
        let mut found = Vec::new();
        let mut last = match page.after {
            Some(after) => after.min(head.version),
            None if head.version == 0 => return Ok((found, None)),
            None => {
                self.inner.publish(&head).await?;
                found.push(newest(&head));
                head.version
            }
        };
        // The first version is 1.
        while found.len() < most && last > 1 {
            let older = self.inner.older_than(&head.location, last, most - found.len()).await?;
            last = older.1;
            found.extend(older.0.into_iter().map(|version| at_its_place(&head.location, version)));
        }
        let more = found.len() == most && last > 1;
        Ok((found, more.then_some(last)))
    }

    /// A version of a table; `None`: the newest.
    ///
    /// # Errors
    /// [`Kind::NoVersion`], and as [`list_lance_versions`](Self::list_lance_versions).
    pub async fn describe_lance_version(
        &self,
        table: &Identifier,
        version: Option<u64>,
    ) -> Result<LanceVersion, ServiceError> {
        let (_, head) = self.inner.head_of(table).await?;
        let version = version.unwrap_or(head.version);
        if version == 0 || version > head.version {
            return Err(no_version(table, version));
        }
        if version == head.version {
            self.inner.publish(&head).await?;
            return Ok(newest(&head));
        }
        let place = paths::manifest(&head.location, version);
        let (folder, before) = (paths::versions(&head.location), paths::before(&head.location, version));
        let next = self.inner.files.list(&folder, Some(&before), 1).await?;
        let is_there =
            next.first().is_some_and(|first| crate::locations::unslashed(first) == crate::locations::unslashed(&place));
        if is_there { Ok(at_its_place(&head.location, version)) } else { Err(no_version(table, version)) }
    }

    /// Deletes the manifests of old versions, in ranges whose ends are not part of them. Returns how many there were.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the newest version is among them, or if there are more than 1,000 that do not meet; and as
    /// [`list_lance_versions`](Self::list_lance_versions).
    pub async fn delete_lance_versions(&self, table: &Identifier, ranges: &[(u64, u64)]) -> Result<u64, ServiceError> {
        let (_, head) = self.inner.head_of(table).await?;
        let ranges = merged(ranges);
        if ranges.len() > MOST_RANGES {
            let words = format!(
                "{} ranges that do not meet; at most {MOST_RANGES} are allowed in one request: send several",
                ranges.len()
            );
            return Err(ServiceError::invalid(words));
        }
        if ranges.iter().any(|(start, end)| *start <= head.version && head.version < *end && head.version > 0) {
            let words = format!("the newest version, {}, cannot be deleted; end the range before it", head.version);
            return Err(ServiceError::invalid(words));
        }
        let mut deleted = 0;
        for (start, end) in ranges {
            let mut last = end.min(head.version);
            while last > start.max(1) {
                let page = self.inner.older_than(&head.location, last, MOST_OF_A_PAGE).await;
                let (versions, reached) = page.map_err(|error| partly(deleted, error))?;
                last = reached;
                let places: Vec<_> = versions.into_iter().filter(|version| *version >= start).collect();
                let places: Vec<_> = places.iter().map(|version| paths::manifest(&head.location, *version)).collect();
                let deletes = places.iter().map(|place| self.inner.files.delete(place));
                for done in glidepath_env::together(crate::AT_ONCE, deletes).await {
                    deleted += 1;
                    done.map_err(|error| partly(deleted, error.into()))?;
                }
            }
        }
        Ok(deleted)
    }
}

/// The error of a request for which this many deletions were sent before: with any, it is not known what was done.
fn partly(sent: u64, error: ServiceError) -> ServiceError {
    if sent == 0 {
        return error;
    }
    let words =
        format!("some of the versions may be deleted, and others not: send the request again ({})", error.message);
    ServiceError::new(Kind::Unknown, words)
}

/// The same numbers in ranges that do not meet.
fn merged(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<_> = ranges.iter().copied().filter(|(start, end)| start < end).collect();
    sorted.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in sorted {
        match merged.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => merged.push((start, end)),
        }
    }
    merged
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The pointer of a table, and what it says.
    pub(super) async fn head_of(&self, table: &Identifier) -> Result<(String, Head), ServiceError> {
        let entry = self.lance_entry(table).await?;
        match (Head::of(&entry)?, entry.pointer) {
            (Some(head), Some(pointer)) => Ok((pointer, head)),
            _ => {
                let words = format!(
                    "the store orders the commits of {}; the server does so for tables declared with {}",
                    table.dotted(),
                    super::MANAGED_VERSIONING
                );
                Err(ServiceError::new(Kind::Unsupported, words))
            }
        }
    }

    /// Step 4: the head after this one, whose copy is written. `None` if there is no staged manifest.
    pub(super) async fn copied(
        &self,
        head: &Head,
        staged: &str,
        bytes: Option<u64>,
    ) -> Result<Option<Head>, ServiceError> {
        let place = format!("{}/{staged}", paths::versions(&head.location));
        let manifest = match self.files.read(&place).await {
            Err(FileError::NotFound(_)) => return Ok(None),
            manifest => manifest?,
        };
        let found = manifest.len() as u64;
        if bytes.is_some_and(|said| said != found) {
            let words = format!("manifest_size is {}, but {place} has {found} bytes", bytes.unwrap_or_default());
            return Err(ServiceError::invalid(words));
        }
        if mutant::is(Mutant::StagedNotCopied) {
            return Ok(Some(head.next(place, found, self.env.unix_ms(), staged)));
        }
        let copy = paths::copy(&head.location, head.version + 1, self.fresh_uuid());
        self.files.write(&copy, manifest).await?;
        Ok(Some(head.next(copy, found, self.env.unix_ms(), staged)))
    }

    /// Step 5. `Conflict` if the pointer has moved.
    pub(super) async fn advance(&self, table: &Identifier, pointer: &str, next: &Head) -> Result<(), ServiceError> {
        let (name, text) = (table.catalog_name()?, next.text()?);
        let step = Action::SetPointer { name, expected: Some(pointer.to_owned()), pointer: text.clone() };
        let failure = match self.commit_once(None, vec![step], "").await {
            Ok(_) => return Ok(()),
            Err(failure) => failure,
        };
        let error = failure.told(|refusal| match refusal {
            Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_table(table)),
            _ => None,
        });
        if error.kind != Kind::Unknown {
            return Err(error);
        }
        // The table may say that it was done; that it was not done yet proves nothing.
        let staged = next.staged.first().map(String::as_str).unwrap_or_default();
        match self.head_of(table).await {
            Ok((now, _)) if now == text => Ok(()),
            Ok((_, now)) if now.location == next.location && now.is_of(next.version, staged) == Some(true) => Ok(()),
            _ => Err(error),
        }
    }

    async fn answer_created(&self, next: &Head, staged: &str) -> Result<LanceVersion, ServiceError> {
        Counts::add(&self.counts.committed, 1);
        Counts::add(&self.counts.versions, 1);
        // Step 6. The next reader does it otherwise.
        self.publish(next).await.map_err(|error| {
            let words = format!("version {} was created, and is not at its place yet: {error}", next.version);
            ServiceError::new(Kind::Unknown, words)
        })?;
        let _ = self.files.delete(&format!("{}/{staged}", paths::versions(&next.location))).await;
        Ok(newest(next))
    }

    /// Step 2, for a version that exists.
    async fn created_before(&self, head: &Head, version: u64, staged: &str) -> Result<LanceVersion, ServiceError> {
        let is_same = match head.is_of(version, staged) {
            Some(is_same) => is_same,
            None => self.has_content_of(head, version, staged).await?,
        };
        if !is_same || mutant::is(Mutant::RepeatIsConflict) {
            self.counts.conflict(ConflictOn::Version);
            return Err(ServiceError::new(Kind::Conflict, not_created(head, version)));
        }
        Counts::add(&self.counts.replayed, 1);
        self.publish(head).await?;
        Ok(if version == head.version { newest(head) } else { at_its_place(&head.location, version) })
    }

    /// Whether an old version has the content of a staged manifest. If one of the two is gone, nobody can tell.
    async fn has_content_of(&self, head: &Head, version: u64, staged: &str) -> Result<bool, ServiceError> {
        let staged = format!("{}/{staged}", paths::versions(&head.location));
        let place = paths::manifest(&head.location, version);
        match (self.files.read(&staged).await, self.files.read(&place).await) {
            (Ok(staged), Ok(there)) => Ok(staged == there),
            (Err(FileError::NotFound(_)), _) | (_, Err(FileError::NotFound(_))) => {
                let words = format!("version {version} exists, and whether this request made it is no longer known");
                Err(ServiceError::new(Kind::Unknown, words))
            }
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    /// Step 6: the newest version is at its place afterwards. Any number of servers may do so at once.
    pub(super) async fn publish(&self, head: &Head) -> Result<(), ServiceError> {
        let Some(copy) = &head.copy else { return Ok(()) };
        match self.files.read(copy).await {
            Ok(manifest) => {
                // It fails if another file is there: somebody wrote to the table without the server.
                self.files.write(&paths::manifest(&head.location, head.version), manifest).await?;
                let _ = self.files.delete(copy).await;
                Ok(())
            }
            // The copy is deleted only when the manifest is at its place.
            Err(FileError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Some versions before one, the newest first, and how far that looked.
    async fn older_than(&self, location: &str, version: u64, most: usize) -> Result<(Vec<u64>, u64), ServiceError> {
        let (mut after, mut found) = (paths::manifest(location, version), Vec::new());
        loop {
            let page = self.files.list(&paths::versions(location), Some(&after), MOST_OF_A_PAGE).await?;
            let Some(last) = page.last() else { return Ok((found, 0)) };
            after.clone_from(last);
            // Other files are staged manifests.
            for older in page.iter().filter_map(|file| paths::version_of(file)) {
                found.push(older);
                if found.len() == most {
                    return Ok((found, older));
                }
            }
        }
    }
}
