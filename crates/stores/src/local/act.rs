//! What does each operation do to the files, and what does each failure on the way mean?
//!
//! Before the step by which a write takes effect (a rename, the switch of a slot, the removal of a file) every failure is
//! a refusal: nothing that counts was touched. From that step on it is unknown.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use glidepath_env::{
    Appended, Cause, DeleteError, Denial, Guard, Key, Metadata, Object, Payload, PutError, ReadError, Tag,
};
use glidepath_model::ByteSize;

use super::file::{self, State};
use super::folders::Folders;
use super::names;

pub(super) fn get(folders: &Folders, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
    let (file, state) = open_to_read(&place(folders, key).map_err(failed)?)?;
    let bytes = file::read(&file, &state, range.start, range.end).map_err(failed)?;
    Ok(Object { payload: bytes.into(), tag: state.tag() })
}

pub(super) fn head(folders: &Folders, key: &Key) -> Result<Metadata, ReadError> {
    let (_, state) = open_to_read(&place(folders, key).map_err(failed)?)?;
    Ok(Metadata { size: ByteSize::from_bytes(state.length), tag: state.tag() })
}

fn open_to_read(place: &Path) -> Result<(File, State), ReadError> {
    let file = File::open(place).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::NotFound,
        _ => failed(error),
    })?;
    let state = file::state(&file).map_err(failed)?;
    Ok((file, state))
}

pub(super) fn put(folders: &Folders, key: &Key, payload: &Payload, guard: &Guard) -> Result<Tag, PutError> {
    let place = place(folders, key).map_err(refused)?;
    let _lock = folders.lock(key.as_str()).map_err(refused)?;
    if !holds(&place, guard).map_err(refused)? {
        return Err(PutError::Lost);
    }
    let state = State::first(payload.size().as_bytes());
    create(folders, &place, &state, payload)?;
    Ok(state.tag())
}

/// Needs the key's lock.
fn holds(place: &Path, guard: &Guard) -> io::Result<bool> {
    let Guard::Matches(tag) = guard else {
        return Ok(match guard {
            Guard::Absent => !fs::exists(place)?,
            _ => true,
        });
    };
    match File::open(place) {
        Ok(file) => Ok(file::state(&file)?.tag() == *tag),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the object's file anew. Needs the key's lock.
fn create(folders: &Folders, place: &Path, state: &State, payload: &Payload) -> Result<(), PutError> {
    let unfinished = folders.unfinished().map_err(refused)?;
    file::fill(&unfinished.file, state, &payload.bytes, payload.filler.as_bytes()).map_err(refused)?;
    folders.sync(&unfinished.file).map_err(refused)?;
    // A rename that reports a failure has not happened.
    folders.finish(unfinished, place).map_err(refused)?;
    folders.sync_folder_of(place).map_err(unknown)
}

pub(super) fn append(folders: &Folders, key: &Key, payload: &Payload, offset: u64) -> Result<Appended, PutError> {
    let place = place(folders, key).map_err(refused)?;
    let _lock = folders.lock(key.as_str()).map_err(refused)?;
    let size = payload.size().as_bytes();
    let file = match File::options().read(true).write(true).open(&place) {
        Ok(file) => file,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
        Err(_) if offset > 0 => return Err(PutError::Lost),
        Err(_) => {
            let state = State::first(size);
            create(folders, &place, &state, payload)?;
            return Ok(Appended { tag: state.tag(), end: size });
        }
    };
    let before = file::state(&file).map_err(refused)?;
    if before.length != offset {
        return Err(PutError::Lost);
    }
    let end = offset.checked_add(size).filter(|end| i64::try_from(*end).is_ok());
    let end = end.ok_or_else(|| refused(io::ErrorKind::FileTooLarge.into()))?;
    let after = before.next(end);
    file::write_behind(&file, &before, &payload.bytes, payload.filler.as_bytes()).map_err(refused)?;
    // Also makes the slot that counts durable, should its writer have died before it could: now the other may go.
    folders.sync(&file).map_err(refused)?;
    file::switch(&file, &after).map_err(unknown)?;
    folders.sync(&file).map_err(unknown)?;
    Ok(Appended { tag: after.tag(), end })
}

pub(super) fn delete(folders: &Folders, key: &Key) -> Result<(), DeleteError> {
    let refused = |error| DeleteError::Refused(Cause::from_error(error));
    let place = place(folders, key).map_err(refused)?;
    let _lock = folders.lock(key.as_str()).map_err(refused)?;
    match fs::remove_file(&place) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
    }
    folders.sync_folder_of(&place).map_err(|error| DeleteError::Unknown(Cause::from_error(error)))?;
    folders.prune(&place);
    Ok(())
}

fn place(folders: &Folders, key: &Key) -> io::Result<PathBuf> {
    let length = key.as_str().len();
    if length > names::LONGEST_KEY {
        let why = format!("the key is {length} bytes long; at most {} are allowed", names::LONGEST_KEY);
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
    }
    Ok(names::path(&folders.objects, key.as_str()))
}

fn failed(error: io::Error) -> ReadError {
    ReadError::Failed(Cause::from_error(error))
}

fn refused(error: io::Error) -> PutError {
    PutError::Refused(denial(error))
}

/// Nothing that counts was touched. Some errors pass by themselves.
fn denial(error: io::Error) -> Denial {
    let passing =
        matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut | io::ErrorKind::ResourceBusy);
    let many_files = matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
    Denial { cause: Cause::from_error(error), certain: true, passing: passing || many_files }
}

/// Too many open files: of the machine, of the process. The same numbers on every Unix.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

fn unknown(error: io::Error) -> PutError {
    PutError::Unknown(Cause::from_error(error))
}
