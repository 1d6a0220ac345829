//! Locks of keys, and marks that say whether what is visible under a key is durable.
//!
//! A file in the folder of locks has two functions. The holder of its lock may write under the keys that share it. And
//! its content is a *mark*: it names the key (or folder) under which something may be visible that is not durable. A
//! write sets the mark before the step by which it takes effect, and clears it when the last sync has succeeded. So a
//! mark that stays means that the sync failed, or that the writer crashed before it. After a failed sync, another sync
//! does not make the data durable. A process that finds such a mark *renews* the object: it writes it again, in the
//! same state, and syncs that. Until then no process reads the object, so no answer depends on data that a power cut
//! can remove.
//!
//! A mark need not be durable, because after a power cut everything visible is durable. Clearing the mark of a key need
//! not be durable either: renewing a durable object does no harm. Clearing the mark of a folder must be durable: a
//! folder in doubt is moved with everything in it, which must not happen to acknowledged objects.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;

use glidepath_env::{Access, Busy, Files};
use glidepath_model::{Instant, Span};

use crate::file;
use crate::folders::{Folders, TRIES, make_with_those_above};
use crate::mutant::{self, Mutant};

/// The lock for creating folders.
pub(crate) const FOLDERS: &str = "folders";

/// The longest wait for a lock.
pub const LONGEST_WAIT: Span = Span::from_secs(10);

/// Between attempts to take a lock: the first wait, which doubles each time, and the longest.
const FIRST_PAUSE: Span = Span::from_nanos(20_000);
const LONGEST_PAUSE: Span = Span::from_millis(5);

/// A lock that is held until this is dropped.
pub(crate) struct Held<'a, F: Files> {
    files: &'a F,
    file: F::File,
    /// The mark, as read from the file.
    mark: RefCell<Mark>,
    /// Whether marks are used: without syncs, nothing is ever durable.
    durable: bool,
}

/// The content of a lock's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Everything visible is durable.
    Clear,
    /// What is visible under this key may not be durable.
    Of(String),
    /// The mark is incomplete, or a power cut has left part of it: what is visible under any key of this lock may not
    /// be durable.
    Unreadable,
}

impl Mark {
    fn encode(name: &str) -> String {
        format!("{:08x} {name}", crc32fast::hash(name.as_bytes()))
    }

    fn decode(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            return Self::Clear;
        }
        let text = String::from_utf8(bytes).ok();
        let name = text.as_deref().and_then(|text| text.split_once(' ')).map(|(_, name)| name);
        match name.filter(|name| text.as_deref() == Some(&Self::encode(name))) {
            Some(name) => Self::Of(name.to_owned()),
            None => Self::Unreadable,
        }
    }
}

/// The name of a key's lock. Keys share locks, so that there are few. No process holds two of them, so sharing cannot
/// cause a deadlock. (The holder of one may take the lock of folders, never the reverse.)
pub(crate) fn name_of_lock(key: &str) -> String {
    format!("{:02x}", number_of_lock(key))
}

/// The number of a key's lock.
pub(crate) fn number_of_lock(key: &str) -> u8 {
    crc32fast::hash(key.as_bytes()) as u8
}

impl<F: Files> Held<'_, F> {
    pub(crate) async fn read_mark(&self) -> io::Result<Mark> {
        let mark = read_mark(self.files, &self.file).await?;
        self.mark.replace(mark.clone());
        Ok(mark)
    }

    /// Sets the mark, unless one that says the same is set. A mark of another key may be left if it could not be
    /// cleared; that key is durable by now. This mark is written over it. If the old one was longer, or if this write
    /// fails, the result is an unreadable mark, which covers every key of the lock.
    pub(crate) async fn mark(&self, name: &str) -> io::Result<()> {
        let enough = match &*self.mark.borrow() {
            Mark::Clear => false,
            Mark::Of(other) => other == name || mutant::is(Mutant::MarkOfAnother),
            Mark::Unreadable => true,
        };
        if !self.durable || enough || mutant::is(Mutant::MarksNotSet) {
            return Ok(());
        }
        let left = self.mark.replace(Mark::Unreadable);
        file::write_all(self.files, &self.file, Mark::encode(name).as_bytes(), 0).await?;
        if left == Mark::Clear {
            self.mark.replace(Mark::Of(name.to_owned()));
        }
        Ok(())
    }

    /// Clears the mark. If that fails, the next process renews a durable object, which does no harm.
    pub(crate) async fn clear(&self) {
        let is_set = *self.mark.borrow() != Mark::Clear;
        if is_set && self.files.set_len(&self.file, 0).await.is_ok() {
            self.mark.replace(Mark::Clear);
        }
    }

    /// Clears the mark durably: it appears clear only after the sync.
    pub(crate) async fn clear_for_good(&self) -> io::Result<()> {
        let is_set = *self.mark.borrow() != Mark::Clear;
        if is_set {
            self.mark.replace(Mark::Unreadable);
            file::write_all(self.files, &self.file, b"--------", 0).await?;
            self.files.sync_file(&self.file).await?;
            self.files.set_len(&self.file, 0).await?;
            self.mark.replace(Mark::Clear);
        }
        Ok(())
    }
}

/// A mark is at most as long as the longest key and its checksum.
async fn read_mark<F: Files>(files: &F, file: &F::File) -> io::Result<Mark> {
    let mut found = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        match files.read_at(file, &mut buffer, found.len() as u64).await {
            Ok(0) => return Ok(Mark::decode(found)),
            Ok(read) => found.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl<F: Files> Folders<F> {
    fn path_of_lock(&self, name: &str) -> PathBuf {
        self.locks.join(name)
    }

    /// Waits until no other handle, in any process, holds this lock, but not for ever: its holder may be stuck.
    pub(crate) async fn hold(&self, name: &str) -> io::Result<Held<'_, F>> {
        self.is_in_place().await?;
        let path = self.path_of_lock(name);
        let until = self.files.now() + LONGEST_WAIT;
        for _ in 0..TRIES {
            let file = match self.files.open(&path, Access::Either).await {
                // Another process had created the folder and removed it when it closed the store.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.is_in_place().await?;
                    make_with_those_above(&self.files, &self.locks, self.durable).await?;
                    continue;
                }
                opened => opened?,
            };
            let mut pause = FIRST_PAUSE;
            while !self.files.try_lock(&file).await? && !mutant::is(Mutant::LockDoesNotLock) {
                let now = self.files.now();
                if now >= until {
                    return Err(self.held_too_long(name));
                }
                self.files.sleep_until(earlier(now + pause, until)).await;
                pause = Span::from_nanos(pause.as_nanos() * 2).min(LONGEST_PAUSE);
            }
            // The lock's file may have been removed too; then other processes lock a new file by now.
            if self.files.leads_to(&path, &file).await? {
                // Asked again, because it may have been moved while this one waited.
                self.is_in_place().await?;
                return Ok(Held { files: &self.files, file, mark: RefCell::new(Mark::Clear), durable: self.durable });
            }
        }
        Err(io::Error::other("another program removes the file of this lock again and again"))
    }

    pub(crate) fn held_too_long(&self, name: &str) -> io::Error {
        let why = format!(
            "others have held the lock {} for {} s. If many writers change this object, let fewer do so at a time. \
             Otherwise a process of this machine is stuck while it writes, or is stopped: let it go on, or end it, and its \
             lock ends with it",
            self.path_of_lock(name).display(),
            LONGEST_WAIT.as_secs_f64()
        );
        io::Error::new(io::ErrorKind::TimedOut, Busy(why))
    }

    /// Whether what is visible under this name (a key, or [`FOLDERS`]) may not be durable. Must be called after
    /// reading: if there is no mark now, what was read is durable.
    pub(crate) async fn in_doubt(&self, name: &str) -> io::Result<bool> {
        let lock = if name == FOLDERS { FOLDERS.to_owned() } else { name_of_lock(name) };
        let path = self.path_of_lock(&lock);
        if !self.durable || mutant::is(Mutant::MarksIgnored) {
            return Ok(false);
        }
        let file = match self.files.length(&path).await {
            Ok(0) => return Ok(false),
            Ok(_) => match self.files.open(&path, Access::Read).await {
                // Removed since, which only happens to clear marks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened?,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(match read_mark(&self.files, &file).await? {
            Mark::Clear => false,
            Mark::Of(key) => name == FOLDERS || key == name,
            Mark::Unreadable => true,
        })
    }
}

fn earlier(a: Instant, b: Instant) -> Instant {
    a.min(b)
}

#[cfg(test)]
mod tests {
    use super::Mark;

    #[test]
    fn a_mark_says_its_name_or_nothing() {
        let name = "catalog/log/ü 7";
        let whole = Mark::encode(name).into_bytes();
        assert_eq!(Mark::decode(whole.clone()), Mark::Of(name.to_owned()));
        assert_eq!(Mark::decode(Vec::new()), Mark::Clear);
        for length in 1..whole.len() {
            assert_eq!(Mark::decode(whole[..length].to_vec()), Mark::Unreadable, "{length} bytes");
        }
        assert_eq!(Mark::decode(vec![0; whole.len()]), Mark::Unreadable);
        assert_eq!(Mark::decode(Mark::encode("").into_bytes()), Mark::Of(String::new()));
    }
}
