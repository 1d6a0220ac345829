//! Which pieces of work are done? An append-only file keeps their results.
//!
//! Each result is one line of JSON, given to the system at once and never synced: a power cut may lose the last ones,
//! whose work is then done again. A line without an end was torn by a crash or a full
//! disk: it is cut off, and its work is done again. A whole line of another form comes from another program, and is an
//! error.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The journal of one folder, open for appending: the result of each piece of work that is done. No other process can
/// open it meanwhile.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends.
    length: u64,
    done: HashMap<String, T>,
}

#[derive(Serialize)]
struct NewLine<'a, T> {
    key: &'a str,
    metrics: &'a T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<T> {
    key: String,
    metrics: T,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file or its folder cannot be read or written.
    #[error("{path}: cannot {what}: {cause}")]
    Io {
        /// Its path.
        path: PathBuf,
        /// The failed action.
        what: &'static str,
        /// The system's error.
        cause: std::io::Error,
    },
    /// Another process has it open.
    #[error("{path}: another run is writing to this folder; wait for it, or choose another folder with --out")]
    Busy {
        /// Its path.
        path: PathBuf,
    },
    /// A whole line that is not a finished run.
    #[error(
        "{path}, line {line}: found no finished run of this version ({cause}); move the file away to start anew, or \
         choose another folder with --out"
    )]
    Shape {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The error.
        cause: serde_json::Error,
    },
}

impl<T: Serialize + DeserializeOwned + Clone> Journal<T> {
    /// Opens the journal of this name in a folder, and creates both if need be.
    ///
    /// # Errors
    /// The folder is unwritable, in use, or holds something else under that name.
    pub fn open(folder: &Path, name: &str) -> Result<Self, JournalError> {
        let path = folder.join(name);
        let io = |what| {
            let path = path.clone();
            move |cause| JournalError::Io { path, what, cause }
        };
        let unmade = |cause| JournalError::Io { path: folder.to_owned(), what: "create this folder", cause };
        std::fs::create_dir_all(folder).map_err(unmade)?;
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).open(&path).map_err(io("open this file"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy { path }),
            // Some file systems have no locks; on these, users must keep two runs apart.
            Err(TryLockError::Error(_)) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io("read this file"))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(io("cut off the torn last line of this file"))?;
            file.seek(SeekFrom::End(0)).map_err(io("read this file"))?;
        }
        let mut done = HashMap::new();
        for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line: Line<T> = serde_json::from_slice(line).map_err(|cause| JournalError::Shape {
                path: path.clone(),
                line: index + 1,
                cause,
            })?;
            done.insert(line.key, line.metrics);
        }
        Ok(Self { path, file, length: whole as u64, done })
    }

    /// The result under this key, if it is done.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.done.get(key)
    }

    /// Adds a result.
    ///
    /// # Errors
    /// It could not be written. A partial line is removed; if that fails too, the next opening removes it.
    pub fn append(&mut self, key: &str, metrics: &T) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(&NewLine { key, metrics }).map_err(|error| self.unwritable(error.into()))?;
        line.push(b'\n');
        if let Err(cause) = self.file.write_all(&line).and_then(|()| self.file.flush()) {
            // A partial line must not join the next one. An error here cannot be handled.
            let _ = self.file.set_len(self.length);
            return Err(self.unwritable(cause));
        }
        self.length += line.len() as u64;
        self.done.insert(key.to_owned(), metrics.clone());
        Ok(())
    }

    fn unwritable(&self, cause: std::io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), what: "write to this file", cause }
    }
}

#[cfg(test)]
mod tests;
