//! The folders of a store (for objects, locks, and unfinished files), and creating a folder so that no process takes it
//! for durable before it is.
//!
//! | folder | content |
//! |---|---|
//! | `objects` | the objects, as `names` says |
//! | `locks` | a file for each lock: 256 for keys, one for creating folders; its content is a mark, as `lock` says |
//! | `writers` | a folder per writing process, locked while the process lives, with its unfinished files |

use std::io;
use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glidepath_env::{Access, Files, Payload};

use crate::file::{self, State};
use crate::lock::{FOLDERS, Held, Mark};
use crate::mutant::{self, Mutant};
use crate::names;

/// How often an operation is repeated if other processes undo it.
pub(crate) const TRIES: u32 = 100;

/// The folders of a store, opened by one process.
pub(crate) struct Folders<F: Files> {
    pub(crate) files: F,
    pub(crate) objects: PathBuf,
    pub(crate) locks: PathBuf,
    writers: PathBuf,
    /// The folder of the store, and itself as it was when the store was opened.
    root: Option<(PathBuf, Arc<F::File>)>,
    /// The folder of this process, and its lock, which shows that the process is alive. `None` in a handle for reading,
    /// or if the disk was too full for it when the store was opened: reading does not need it.
    own: Mutex<Option<(PathBuf, F::File)>>,
    next_name: AtomicU64,
    pub(crate) durable: bool,
}

impl<F: Files> Folders<F> {
    pub(crate) async fn open(files: F, root: &Path, durable: bool) -> io::Result<Self> {
        let (objects, locks, writers) = (root.join("objects"), root.join("locks"), root.join("writers"));
        let (own, next_name) = (Mutex::default(), AtomicU64::new(0));
        let mut store = Self { files, objects, locks, writers, root: None, own, next_name, durable };
        let mut vanished = None;
        for _ in 0..TRIES {
            match store.enter_root(root).await {
                // Another process had created them and removed them when it closed the store.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    vanished = Some(error);
                }
                entered => return entered.map(|()| store),
            }
        }
        let cause = vanished.map(|error| error.to_string()).unwrap_or_default();
        Err(io::Error::other(format!(
            "its folders cannot be created in {}, or another program removes them: after {TRIES} tries, {cause}; name a \
             folder on a file system in which this user may create folders",
            root.display()
        )))
    }

    async fn enter_root(&mut self, root: &Path) -> io::Result<()> {
        let folders = [&*self.objects, &self.locks, &self.writers];
        let (opened, own) = Self::make_and_enter(&self.files, root, folders, self.durable).await?;
        self.own = Mutex::new(own);
        self.root = Some((root.to_owned(), Arc::new(opened)));
        Ok(())
    }

    /// A handle for reading, which makes no request.
    pub(crate) fn reading_with<G: Files<File = F::File>>(&self, files: G) -> Folders<G> {
        let (objects, locks, writers) = (self.objects.clone(), self.locks.clone(), self.writers.clone());
        let (root, own, next_name) = (self.root.clone(), Mutex::default(), AtomicU64::new(0));
        Folders { files, objects, locks, writers, root, own, next_name, durable: self.durable }
    }

    /// Returns the folder of the store, open, and that of this process.
    async fn make_and_enter(
        files: &F,
        root: &Path,
        folders: [&Path; 3],
        durable: bool,
    ) -> io::Result<(F::File, Option<(PathBuf, F::File)>)> {
        for folder in folders {
            if files.is_link(folder).await? {
                let words = format!(
                    "{} is a symbolic link, and another store may lead there, too; name the folder that it leads to in the URL, or \
                     put a folder in its place",
                    folder.display()
                );
                return Err(io::Error::new(InvalidInput, words));
            }
            make_with_those_above(files, folder, durable).await?;
        }
        let opened = files.open(root, Access::Read).await?;
        if durable && let Err(error) = sync_store(files, (root, &opened)).await {
            // No later sync makes their names durable, so they must be created again. One that is not empty was durable
            // before: no process writes into it until this has succeeded.
            for folder in folders.into_iter().chain([root]) {
                let _ = files.remove_folder(folder).await;
            }
            return Err(error);
        }
        let [_, _, writers] = folders;
        remove_the_dead(files, writers).await?;
        match enter(files, writers).await {
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                Ok((opened, None))
            }
            entered => entered.map(|own| (opened, Some(own))),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<(PathBuf, F::File)>> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it half-done.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the folder of unfinished files. If that fails, the next process that opens the store removes it.
    pub(crate) async fn leave(&self) {
        let own = self.locked().take();
        if let Some((folder, _alive)) = own {
            let _ = remove_all(&self.files, &folder).await;
        }
    }

    /// A path in the folder of this process, which is created now if there was no room for it before.
    async fn fresh_path(&self) -> io::Result<PathBuf> {
        let name = self.next_name.fetch_add(1, Ordering::Relaxed).to_string();
        let known = self.locked().as_ref().map(|(folder, _)| folder.join(&name));
        if let Some(path) = known {
            return Ok(path);
        }
        self.is_in_place().await?;
        make_with_those_above(&self.files, &self.writers, self.durable).await?;
        let (folder, alive) = enter(&self.files, &self.writers).await?;
        let mut own = self.locked();
        // If another thread was faster, its folder is used, and the next process that opens the store removes this one.
        Ok(own.get_or_insert((folder, alive)).0.join(name))
    }

    /// A new file in the folder of this process. If somebody has removed that folder, a new one is made.
    async fn new_file(&self) -> io::Result<(PathBuf, F::File)> {
        let path = self.fresh_path().await?;
        match self.files.open(&path, Access::New).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(|file| (path, file)),
        }
        {
            let mut own = self.locked();
            if own.as_ref().is_some_and(|(folder, _)| Some(&**folder) == path.parent()) {
                *own = None;
            }
        }
        let path = self.fresh_path().await?;
        let file = self.files.open(&path, Access::New).await?;
        Ok((path, file))
    }

    /// A new durable file that no other process can see yet.
    pub(crate) async fn unfinished(&self, state: &State, payload: &Payload) -> io::Result<PathBuf> {
        let (path, file) = self.new_file().await?;
        let mut written = file::fill(&self.files, &file, state, payload).await;
        if written.is_ok() && self.durable && !mutant::is(Mutant::NoSyncOfFiles) {
            written = self.files.sync_file(&file).await;
        }
        if written.is_err() {
            self.discard(&path).await;
        }
        written.map(|()| path)
    }

    /// Removes an unfinished file. If that fails, it is removed with the process's folder.
    pub(crate) async fn discard(&self, path: &Path) {
        let _ = self.files.remove_file(path).await;
    }

    /// Makes the added and removed names in a folder durable. The folder must have been opened before these changes, so
    /// that a failed sync of another process in between is reported here.
    pub(crate) async fn sync_names(&self, folder: &F::File) -> io::Result<()> {
        if !self.durable || mutant::is(Mutant::NoSyncOfFolders) {
            return Ok(());
        }
        self.files.sync_folder(folder).await
    }

    /// Whether the folder of the store is the one in which the store was opened. If that was moved away or removed, or
    /// another file system is mounted there now, what would be written in its place would be acknowledged, and not be
    /// in the store, and what is read there says nothing of it. Asked before and after each write, and after each
    /// read.
    pub(crate) async fn is_in_place(&self) -> io::Result<()> {
        let Some((root, opened)) = &self.root else { return Ok(()) };
        match self.files.leads_to(root, opened).await? {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the folder {} is not the one in which the store was opened: it was moved or removed, or a file system was \
                 mounted or unmounted there; put it back, or end this process and start it again",
                root.display()
            ))),
        }
    }

    /// Creates a folder of objects and those above it, each durable in the one above before anything is put inside.
    pub(crate) async fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.is_in_place().await?;
        // Also the top folder, in case the process that had created it removed it when it closed the store.
        make_with_those_above(&self.files, &self.objects, self.durable).await?;
        let held = self.hold(FOLDERS).await?;
        self.renew_folder(&held).await?;
        let levels: Vec<&Path> = folder.ancestors().take_while(|level| *level != self.objects).collect();
        for level in levels.into_iter().rev() {
            match self.files.length(level).await {
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            match self.make_one_folder(&held, level).await {
                // The one above was empty and has been removed: the caller tries again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                made => made?,
            }
        }
        Ok(())
    }

    async fn make_one_folder(&self, held: &Held<'_, F>, level: &Path) -> io::Result<()> {
        let above = self.files.open(folder_above(level), Access::Read).await?;
        let name = level.strip_prefix(&self.objects).unwrap_or(level).to_string_lossy();
        held.mark(&name).await?;
        let made = self.files.create_folder(level).await;
        if made.is_err() {
            held.clear().await;
            return made;
        }
        let synced = self.sync_names(&above).await;
        if synced.is_ok() {
            // If this fails, no other folder is created under a mark without a name: the next process clears the mark
            // first.
            return held.clear_for_good().await;
        }
        if self.files.remove_folder(level).await.is_ok() {
            held.clear().await;
        }
        // Otherwise it may not be durable, and another process has already put an object into it: the mark stays.
        synced
    }

    /// Makes a visible folder durable that may not be.
    pub(crate) async fn renew_folders(&self) -> io::Result<()> {
        if mutant::is(Mutant::FoldersTrusted) || !self.in_doubt(FOLDERS).await? {
            return Ok(());
        }
        let held = self.hold(FOLDERS).await?;
        self.renew_folder(&held).await
    }

    /// Removes a folder in doubt if it is empty; otherwise moves it away and back, which writes its name again. All
    /// objects in it are in doubt themselves, so no reader misses an acknowledged one meanwhile.
    async fn renew_folder(&self, held: &Held<'_, F>) -> io::Result<()> {
        if !self.durable || mutant::is(Mutant::FoldersTrusted) {
            return Ok(());
        }
        match held.read_mark().await? {
            Mark::Clear => return Ok(()),
            Mark::Of(name) => {
                let place = self.objects.join(name);
                match self.files.remove_folder(&place).await {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(_) => self.move_away_and_back(&place).await?,
                }
            }
            // The mark was not complete before a folder was created, or was about to be cleared, or is older than a
            // power cut.
            Mark::Unreadable => {}
        }
        held.clear_for_good().await
    }

    async fn move_away_and_back(&self, place: &Path) -> io::Result<()> {
        let above = self.files.open(folder_above(place), Access::Read).await?;
        // Next to its place, so that one sync covers all four names. Anywhere else, a power cut could leave the folder
        // under both names, and cleaning up one would empty the durable other one.
        let away = match mutant::is(Mutant::MovedAmongUnfinished) {
            true => self.fresh_path().await?,
            false => place.with_file_name(names::moved_away(self.files.draw())),
        };
        self.files.rename(place, &away).await?;
        let mut back = self.files.rename(&away, place).await;
        for _ in 1..TRIES {
            if back.is_ok() {
                break;
            }
            back = self.files.rename(&away, place).await;
        }
        back?;
        self.sync_names(&above).await
    }

    /// Removes the folders on the way to a path that have become empty.
    pub(crate) async fn prune(&self, path: &Path) {
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.objects) {
            // Not empty, or removed already: nothing is left to do.
            if self.files.remove_folder(folder).await.is_err() {
                return;
            }
        }
    }
}

/// The folder that contains a path.
pub(crate) fn folder_above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    }
}

/// Creates a folder of the store and those above it.
pub(crate) async fn make_with_those_above<F: Files>(files: &F, folder: &Path, durable: bool) -> io::Result<()> {
    let mut missing = Vec::new();
    for level in folder.ancestors().take_while(|level| !level.as_os_str().is_empty()) {
        match files.length(level).await {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(level),
            Err(error) => return Err(error),
        }
    }
    for level in missing.into_iter().rev() {
        let above = files.open(folder_above(level), Access::Read).await?;
        match files.create_folder(level).await {
            Ok(()) if durable => {
                if let Err(error) = files.sync_folder(&above).await {
                    // No later sync makes its name durable, so it must be created again.
                    let _ = files.remove_folder(level).await;
                    return Err(error);
                }
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Syncs the folders of the store and those above it: a process may have created them and crashed before they were
/// durable.
async fn sync_store<F: Files>(files: &F, (root, opened): (&Path, &F::File)) -> io::Result<()> {
    files.sync_folder(opened).await?;
    for above in root.ancestors().skip(1) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let synced = match files.open(above, Access::Read).await {
            Ok(opened) => files.sync_folder(&opened).await,
            Err(error) => Err(error),
        };
        match synced {
            // A process that may not read a folder has created nothing in it, and some file systems have nothing to
            // sync.
            Err(error)
                if matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported | ReadOnlyFilesystem) => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Creates a folder for this process, and locks it.
async fn enter<F: Files>(files: &F, writers: &Path) -> io::Result<(PathBuf, F::File)> {
    for _ in 0..TRIES {
        let folder = writers.join(name_of_writer(files.draw()));
        files.create_folder(&folder).await?;
        // Between these steps another process may take the folder for that of a process that ended, and remove it.
        let Ok(file) = files.open(&folder, Access::Read).await else { continue };
        if files.try_lock(&file).await.unwrap_or(false) && files.leads_to(&folder, &file).await.unwrap_or(false) {
            return Ok((folder, file));
        }
    }
    Err(io::Error::other("another program removes the folder for unfinished files again and again"))
}

/// The name of a process's folder.
fn name_of_writer(number: u64) -> String {
    format!("{number:016x}")
}

/// Whether a folder may be that of a process.
fn is_of_writer(name: &str) -> bool {
    u64::from_str_radix(name, 16).is_ok_and(|number| name_of_writer(number) == name)
}

/// Removes the unfinished files of processes that ended without removing them. What has another name, or is a link, is
/// not of a process.
async fn remove_the_dead<F: Files>(files: &F, writers: &Path) -> io::Result<()> {
    for name in files.names(writers).await?.iter().filter(|name| is_of_writer(name)) {
        let folder = writers.join(name);
        if files.is_link(&folder).await? {
            continue;
        }
        let Ok(file) = files.open(&folder, Access::Read).await else { continue };
        if files.try_lock(&file).await? {
            // A failure only leaves unused space, and another process may be removing the same.
            let _ = remove_all(files, &folder).await;
        }
    }
    Ok(())
}

/// Removes a folder and everything in it.
async fn remove_all<F: Files>(files: &F, folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.last().cloned() {
        let before = folders.len();
        for name in files.names(&folder).await? {
            let path = folder.join(name);
            if files.remove_file(&path).await.is_err() {
                folders.push(path);
            }
        }
        if folders.len() == before {
            files.remove_folder(&folder).await?;
            folders.pop();
        }
    }
    Ok(())
}
