//! How are the files of appends read, so that many appends to many tables do not fill the memory?
//!
//! What takes little memory is read at once. What takes more is read by one rebase at a time, over all tables
//! ([`Large`]), and that rebase is the only one until it has ended: a list of a few kilobytes can take a hundred
//! megabytes when it is decompressed and decoded.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::lock::MutexGuard;
use iceberg::spec::{ManifestFile, Snapshot, TableMetadata};

use super::list::{self, Manifests};
use super::{Lists, NotRebased, ReadAhead, Why, avro, is_of_table};
use crate::{FileError, Files};

/// Added manifests that are read at once, and the most bytes of each of them.
pub(super) const AT_ONCE: usize = 16;
const SMALL: u64 = 1 << 20;

/// The most bytes of a file that is read while other rebases read.
const MIDDLE: u64 = 8 << 20;

/// The most bytes of memory of a decoded list that is read while other rebases read.
const DECODED: usize = 8 << 20;

/// The right to read large files; a rebase has it from its first large file until this is dropped.
pub(super) struct Large<'a> {
    lists: &'a Lists,
    held: Option<MutexGuard<'a, ()>>,
}

impl<'a> Large<'a> {
    /// Not yet.
    pub(super) fn of(lists: &'a Lists) -> Self {
        Self { lists, held: None }
    }

    /// Waits until no other rebase has it. It waits for nothing but reads of files then, so it ends.
    async fn enter(&mut self) {
        if self.held.is_none() {
            self.held = Some(self.lists.large.lock().await);
        }
    }
}

fn unread(error: FileError) -> NotRebased {
    match error {
        FileError::NotFound(location) => Why::NoFile(location).into(),
        FileError::Outside { .. } | FileError::TooLarge { .. } => Why::Outside(error.to_string()).into(),
        FileError::Failed { location, cause } => NotRebased::Store { location, cause },
    }
}

async fn whole(files: &impl Files, location: &str) -> Result<Bytes, NotRebased> {
    files.read(location).await.map_err(unread)
}

/// A file of at most this many bytes; `None` if it is longer.
pub(super) async fn up_to(files: &impl Files, location: &str, most: u64) -> Result<Option<Bytes>, NotRebased> {
    match files.read_up_to(location, most).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(FileError::TooLarge { .. }) => Ok(None),
        Err(error) => Err(unread(error)),
    }
}

/// The bytes of the list of an append; `None` if it is large.
pub(super) async fn own_bytes(files: &impl Files, location: &str) -> Result<Option<Bytes>, NotRebased> {
    up_to(files, location, MIDDLE).await
}

/// What the list of an append says, from its bytes if they have been read.
pub(super) async fn own(
    (files, large): (&impl Files, &mut Large<'_>),
    (location, snapshot): (&str, i64),
    bytes: Option<Bytes>,
    parent: (&str, &Manifests),
) -> Result<list::Own, NotRebased> {
    if let Some(own) = bytes.as_ref().and_then(|bytes| list::decode_own(bytes, snapshot, Some(parent), DECODED).ok()) {
        return Ok(own);
    }
    // It is large, or it has a fault, which is told now.
    large.enter().await;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => whole(files, location).await?,
    };
    decoded(location, list::decode_own(&bytes, snapshot, Some(parent), usize::MAX))
}

fn decoded<T>(location: &str, result: Result<T, avro::Fault>) -> Result<T, NotRebased> {
    result.map_err(|what| NotRebased::Undecodable { location: location.to_owned(), what })
}

/// What a look at the list of a snapshot found.
pub(super) enum Listed {
    Manifests(Arc<Manifests>),
    /// It is large, or has a fault; and its bytes if they have been read.
    Large(Option<Bytes>),
}

impl Listed {
    pub(super) fn manifests(self) -> Option<Arc<Manifests>> {
        match self {
            Self::Manifests(manifests) => Some(manifests),
            Self::Large(_) => None,
        }
    }

    /// The manifests, also if the list is large.
    pub(super) async fn whole(
        self,
        files: &impl Files,
        large: &mut Large<'_>,
        snapshot: &Snapshot,
    ) -> Result<Arc<Manifests>, NotRebased> {
        let bytes = match self {
            Self::Manifests(manifests) => return Ok(manifests),
            Self::Large(bytes) => bytes,
        };
        let location = snapshot.manifest_list();
        large.enter().await;
        // Another rebase may have read it meanwhile.
        if let Some(manifests) = large.lists.get(location) {
            return Ok(manifests);
        }
        let bytes = match bytes {
            Some(bytes) => bytes,
            None => whole(files, location).await?,
        };
        let manifests = Arc::new(decoded(location, list::decode(&bytes, usize::MAX))?);
        large.lists.insert(location, Arc::clone(&manifests), None);
        Ok(manifests)
    }
}

/// Looks at the list of a snapshot of the table.
pub(super) async fn listed(
    files: &impl Files,
    lists: &Lists,
    metadata: &TableMetadata,
    snapshot: &Snapshot,
) -> Result<Listed, NotRebased> {
    let location = snapshot.manifest_list();
    is_of_table(metadata, location)?;
    if let Some(manifests) = lists.get(location) {
        return Ok(Listed::Manifests(manifests));
    }
    let bytes = up_to(files, location, MIDDLE).await?;
    let Some(manifests) = bytes.as_ref().and_then(|bytes| list::decode(bytes, DECODED).ok()) else {
        return Ok(Listed::Large(bytes));
    };
    let manifests = Arc::new(manifests);
    lists.insert(location, Arc::clone(&manifests), None);
    Ok(Listed::Manifests(manifests))
}

/// The contents of some added manifests in their order; `None` for those that are to be read one by one.
pub(super) async fn contents(
    files: &impl Files,
    ahead: Option<&ReadAhead>,
    some: &[Arc<ManifestFile>],
) -> Result<Vec<Option<Bytes>>, NotRebased> {
    let content = async |manifest: &ManifestFile| {
        let path = &manifest.manifest_path;
        match ahead.and_then(|ahead| ahead.contents.get(path)) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None if stated(manifest) > SMALL => Ok(None),
            None => up_to(files, path, SMALL).await,
        }
    };
    try_join_all(some.iter().map(|manifest| content(manifest))).await
}

/// The content of an added manifest that is read by itself.
pub(super) async fn content(
    files: &impl Files,
    large: &mut Large<'_>,
    manifest: &ManifestFile,
) -> Result<Bytes, NotRebased> {
    let path = &manifest.manifest_path;
    if stated(manifest) <= MIDDLE
        && let Some(bytes) = up_to(files, path, MIDDLE).await?
    {
        return Ok(bytes);
    }
    large.enter().await;
    whole(files, path).await
}

/// The length of a manifest, as its list says.
fn stated(manifest: &ManifestFile) -> u64 {
    u64::try_from(manifest.manifest_length).unwrap_or(0)
}
