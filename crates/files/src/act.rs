//! The file operations of each store operation, and the meaning of each failure.
//!
//! A failure before the step by which a write takes effect (a rename, the switch of a slot, the removal of a file) is a
//! refusal: no valid data were changed. A failure in or after that step leaves the outcome unknown.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use glidepath_env::{
    Access, Appended, Cause, DeleteError, Files, Guard, Key, Metadata, Object, Payload, PutError, Tag,
};
use glidepath_model::ByteSize;

use crate::file::{self, State};
use crate::folders::{Folders, TRIES, folder_above};
use crate::lock::{FOLDERS, Held, Mark, name_of_lock};
use crate::mutant::{self, Mutant};
use crate::{Failure, names, refused, unknown};

impl<F: Files> Folders<F> {
    pub(crate) async fn get(&self, key: &Key, range: Range<u64>) -> io::Result<Object> {
        let (file, state) = self.look(key).await?;
        // The content that a state counts is durable before the state is.
        let bytes = file::read(&self.files, &file, &state, range).await;
        let bytes = bytes.map_err(|error| named(error, &names::path(&self.objects, key.as_str())))?;
        Ok(Object { payload: bytes.into(), tag: state.tag() })
    }

    pub(crate) async fn head(&self, key: &Key) -> io::Result<Metadata> {
        let (file, state) = self.look(key).await?;
        let written_ms = Some(self.files.written_ms(&file).await?);
        Ok(Metadata { size: ByteSize::from_bytes(state.length), tag: state.tag(), written_ms })
    }

    /// The object's file and its durable state.
    async fn look(&self, key: &Key) -> io::Result<(F::File, State)> {
        let place = self.place(key)?;
        let found = self.open_state(&place).await;
        if !self.in_doubt(key.as_str()).await? {
            return found;
        }
        // Another process is writing now, or has failed to.
        let _held = self.lock(key.as_str()).await?;
        self.open_state(&place).await
    }

    async fn open_state(&self, place: &Path) -> io::Result<(F::File, State)> {
        let opened = self.files.open(place, Access::Read).await;
        let file = opened.map_err(|error| match is_no_file(&error) {
            // The caller sees no number of the system any more.
            true => io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", place.display())),
            false if concerns_one_file(&error) => named(error, place),
            false => error,
        })?;
        let state = file::state(&self.files, &file).await.map_err(|error| named(error, place))?;
        Ok((file, state))
    }

    /// Takes the lock of a key. Afterwards everything visible under that lock is durable.
    async fn lock(&self, key: &str) -> io::Result<Held<'_, F>> {
        let held = self.hold(&name_of_lock(key)).await?;
        if self.durable && !mutant::is(Mutant::MarksIgnored) {
            let renewed = match held.read_mark().await? {
                Mark::Clear => return Ok(held),
                Mark::Of(key) => self.renew(&held, &key).await,
                Mark::Unreadable => self.renew_all(&held, &name_of_lock(key)).await,
            };
            renewed.map_err(not_renewed)?;
            held.clear().await;
        }
        Ok(held)
    }

    /// Makes durable what is visible under a key whose writer crashed or whose sync failed. Needs the lock.
    async fn renew(&self, held: &Held<'_, F>, key: &str) -> io::Result<()> {
        // First, because the content of a folder that is being moved is not visible.
        self.renew_folders().await?;
        let place = names::path(&self.objects, key);
        let (file, state) = match self.open_state(&place).await {
            Ok(found) => found,
            // Nothing that a reader could have read.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return Ok(());
            }
            Err(error) if is_no_file(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if mutant::is(Mutant::SyncedAgain) {
            self.files.sync_file(&file).await?;
            let folder = self.files.open(folder_above(&place), Access::Read).await?;
            return self.files.sync_folder(&folder).await;
        }
        let bytes = match file::read(&self.files, &file, &state, 0..u64::MAX).await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(()),
            read => read?,
        };
        Ok(self.create(held, key, &state, &bytes.into()).await?)
    }

    /// The same for all keys of a lock.
    async fn renew_all(&self, held: &Held<'_, F>, lock: &str) -> io::Result<()> {
        self.renew_folders().await?;
        let mut after = None::<Key>;
        loop {
            let page = self.list(&Key::new(""), after.as_ref(), 1000).await?;
            for listed in page.objects.iter().filter(|listed| name_of_lock(listed.key.as_str()) == lock) {
                self.renew(held, listed.key.as_str()).await?;
            }
            after = page.objects.last().map(|last| last.key.clone());
            if !page.more || after.is_none() {
                return Ok(());
            }
        }
    }

    pub(crate) async fn put(&self, key: &Key, payload: &Payload, guard: &Guard) -> Result<Tag, PutError> {
        self.if_in_place(self.put_by_path(key, payload, guard).await).await
    }

    /// The answer to a write, unless it was made, or lost, in another folder. Between the last look at the folder and
    /// the write, it may have been moved.
    async fn if_in_place<T>(&self, answer: Result<T, PutError>) -> Result<T, PutError> {
        match (&answer, self.is_in_place().await) {
            (_, Ok(())) | (Err(PutError::Refused(_) | PutError::Unknown(_)), Err(_)) => answer,
            (Ok(_), Err(error)) => Err(unknown(error)),
            (Err(PutError::Lost), Err(error)) => Err(refused(error)),
        }
    }

    async fn put_by_path(&self, key: &Key, payload: &Payload, guard: &Guard) -> Result<Tag, PutError> {
        let place = self.place(key).map_err(refused)?;
        let held = self.lock(key.as_str()).await.map_err(refused)?;
        if !self.holds(&place, guard).await.map_err(refused)? {
            return Err(PutError::Lost);
        }
        let state = State::first(payload.size().as_bytes(), file::nonce(&self.files));
        self.create_new(&held, key, &state, payload).await?;
        Ok(state.tag())
    }

    /// Whether the guard holds. Needs the key's lock.
    async fn holds(&self, place: &Path, guard: &Guard) -> io::Result<bool> {
        let found = match guard {
            Guard::None => return Ok(true),
            Guard::Absent => self.files.length(place).await.map(|_| false),
            Guard::Matches(tag) => self.open_state(place).await.map(|(_, state)| state.tag() == *tag),
        };
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(*guard == Guard::Absent),
            found => found,
        }
    }

    /// Creates the object's file with a new state. Needs the key's lock, and that its mark is clear.
    async fn create_new(
        &self,
        held: &Held<'_, F>,
        key: &Key,
        state: &State,
        payload: &Payload,
    ) -> Result<(), PutError> {
        match self.create(held, key.as_str(), state, payload).await {
            Err(Failure::After(error)) => return Err(unknown(error)),
            Err(Failure::Before(error)) => {
                held.clear().await;
                return Err(refused(error));
            }
            Ok(()) => {}
        }
        held.clear().await;
        Ok(())
    }

    /// Creates or replaces the object's file, durably. Needs the key's lock; leaves the mark set.
    async fn create(&self, held: &Held<'_, F>, key: &str, state: &State, payload: &Payload) -> Result<(), Failure> {
        let place = names::path(&self.objects, key);
        let above = folder_above(&place);
        let mut unfinished = Some(self.unfinished(state, payload).await.map_err(Failure::Before)?);
        let mut renamed = false;
        let failed = |error, renamed| if renamed { Failure::After(error) } else { Failure::Before(error) };
        // Writers remove folders that become empty, so a folder may disappear at any time.
        for _ in 0..TRIES {
            let new = match unfinished.take() {
                Some(new) => new,
                // The last file was renamed into a folder that has since been moved or removed.
                None => self.unfinished(state, payload).await.map_err(Failure::After)?,
            };
            let folder = match self.before_rename(held, key, above).await {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    unfinished = Some(new);
                    continue;
                }
                Err(error) => {
                    self.discard(&new).await;
                    return Err(failed(error, renamed));
                }
            };
            match self.files.rename(&new, &place).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    unfinished = Some(new);
                    continue;
                }
                // A rename that reports a failure has not taken effect.
                Err(error) => {
                    self.discard(&new).await;
                    return Err(failed(error, renamed));
                }
            }
            renamed = true;
            if !self.durable || self.made_durable(&folder, above).await.map_err(Failure::After)? {
                return Ok(());
            }
        }
        Err(failed(io::Error::other("other processes removed the folder of this object again and again"), renamed))
    }

    /// Opens the folder before a name is added to it, and sets the mark.
    async fn before_rename(&self, held: &Held<'_, F>, key: &str, above: &Path) -> io::Result<F::File> {
        let folder = match self.files.open(above, Access::Read).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(above).await?;
                return Err(error);
            }
            opened => opened?,
        };
        held.mark(key).await?;
        Ok(folder)
    }

    /// Whether the names added to a folder are durable now. If not, the folder has been moved or removed.
    async fn made_durable(&self, folder: &F::File, path: &Path) -> io::Result<bool> {
        self.sync_names(folder).await?;
        if self.in_doubt(FOLDERS).await? {
            self.renew_folders().await?;
        }
        self.files.leads_to(path, folder).await
    }

    pub(crate) async fn append(&self, key: &Key, payload: &Payload, offset: u64) -> Result<Appended, PutError> {
        self.if_in_place(self.append_by_path(key, payload, offset).await).await
    }

    async fn append_by_path(&self, key: &Key, payload: &Payload, offset: u64) -> Result<Appended, PutError> {
        let place = self.place(key).map_err(refused)?;
        let held = self.lock(key.as_str()).await.map_err(refused)?;
        let size = payload.size().as_bytes();
        let file = match self.files.open(&place, Access::Write).await {
            Ok(file) => file,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
            Err(_) if offset > 0 => return Err(PutError::Lost),
            Err(_) => {
                let state = State::first(size, file::nonce(&self.files));
                self.create_new(&held, key, &state, payload).await?;
                return Ok(Appended { tag: state.tag(), end: size });
            }
        };
        let before = file::state(&self.files, &file).await.map_err(|error| refused(named(error, &place)))?;
        if before.length != offset {
            return Err(PutError::Lost);
        }
        let end = offset.checked_add(size).filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| refused(io::ErrorKind::FileTooLarge.into()))?;
        if let Err(error) = self.write_behind(&held, key, &file, &before, payload).await {
            file::cut_off(&self.files, &file, &before).await;
            held.clear().await;
            return Err(refused(error));
        }
        let after = before.next(end, file::nonce(&self.files));
        file::switch(&self.files, &file, &after).await.map_err(unknown)?;
        self.sync_content(&file).await.map_err(unknown)?;
        held.clear().await;
        Ok(Appended { tag: after.tag(), end })
    }

    /// Everything before the switch.
    async fn write_behind(
        &self,
        held: &Held<'_, F>,
        key: &Key,
        file: &F::File,
        before: &State,
        payload: &Payload,
    ) -> io::Result<()> {
        file::write_behind(&self.files, file, before, payload).await?;
        self.sync_content(file).await?;
        held.mark(key.as_str()).await
    }

    async fn sync_content(&self, file: &F::File) -> io::Result<()> {
        if self.durable && !mutant::is(Mutant::NoSyncOfFiles) { self.files.sync_file(file).await } else { Ok(()) }
    }

    pub(crate) async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let refused = |error| DeleteError::Refused(Cause::from_error(error));
        let unknown = |error| DeleteError::Unknown(Cause::from_error(error));
        let place = self.place(key).map_err(refused)?;
        let _held = self.lock(key.as_str()).await.map_err(refused)?;
        for tried in 0..TRIES {
            let failed = |error| if tried == 0 { refused(error) } else { unknown(error) };
            let (path, folder) = self.nearest_folder(&place).await.map_err(failed)?;
            match self.files.remove_file(&place).await {
                // Perhaps removed by another process, which may not be durable yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(failed)?,
            }
            self.sync_names(&folder).await.map_err(unknown)?;
            if self.files.leads_to(&path, &folder).await.map_err(unknown)? {
                self.is_in_place().await.map_err(unknown)?;
                self.prune(&place).await;
                return Ok(());
            }
        }
        Err(unknown(io::Error::other("other processes removed the folder of this object again and again")))
    }

    /// The folder that contains a path or, if it does not exist, the lowest existing folder above: a removal that is
    /// durable there covers everything that was below.
    async fn nearest_folder(&self, place: &Path) -> io::Result<(PathBuf, F::File)> {
        for folder in place.ancestors().skip(1) {
            match self.files.open(folder, Access::Read).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return Ok((folder.to_path_buf(), opened?)),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn place(&self, key: &Key) -> io::Result<PathBuf> {
        let length = key.as_str().len();
        if length > names::LONGEST_KEY {
            let why = format!("the key is {length} bytes long; at most {} are allowed", names::LONGEST_KEY);
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
        }
        Ok(names::path(&self.objects, key.as_str()))
    }
}

/// Adds the path to an error.
pub(crate) fn named(error: io::Error, path: &Path) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => error,
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    }
}

/// Whether the file is damaged, or is no file at all.
pub(crate) fn concerns_one_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData || error.raw_os_error() == Some(EIO) || is_no_file(error)
}

/// Whether something else is in the place of a file: a folder, a pipe, a socket, a device that is not there, or a link
/// that leads nowhere a path can.
pub(crate) fn is_no_file(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotSeekable};
    matches!(error.kind(), InvalidFilename | IsADirectory | NotSeekable)
        || matches!(error.raw_os_error(), Some(ELOOP | ENXIO | ENODEV))
}

/// The disk cannot read it. This number and the next two are the same on every Unix.
const EIO: i32 = 5;

/// A socket, or a device without a driver.
const ENXIO: i32 = 6;

/// A device that cannot be opened so.
const ENODEV: i32 = 19;

/// Links that lead to each other.
pub(crate) const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

fn not_renewed(error: io::Error) -> io::Error {
    let why = format!(
        "an earlier write under this lock may not be durable (its sync failed, or its writer crashed), and writing it \
         once \
         more failed: {error}. Check the disk"
    );
    io::Error::other(why)
}
