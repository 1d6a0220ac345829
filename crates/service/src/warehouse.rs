//! The files of tables in an object store, found by their locations.

use bytes::Bytes;
use glidepath_env::{DeleteError, Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_table::{FileError, Files};

use crate::locations::unslashed;

/// How often a write whose outcome is unknown is looked for and repeated. Its name is fresh, so a repeat writes the same
/// bytes.
const TRIES: u32 = 3;

/// The object store of a warehouse. Locations begin with its base; what follows is the key.
#[derive(Clone, Debug)]
pub struct Warehouse<O> {
    store: O,
    base: String,
}

impl<O: ObjectStore> Warehouse<O> {
    /// The store that keeps what is under `base`, such as `s3://bucket/lake`.
    pub fn new(store: O, base: &str) -> Self {
        Self { store, base: base.trim_end_matches('/').to_owned() }
    }

    fn key(&self, location: &str) -> Result<Key, FileError> {
        let outside = |why| FileError::Outside { location: location.to_owned(), warehouse: self.base.clone(), why };
        let base = format!("{}/", unslashed(&self.base));
        let written = unslashed(location);
        let key = written.strip_prefix(&base).ok_or_else(|| outside("it begins differently"))?;
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(outside("a part of it is empty, . or .."));
        }
        Ok(Key::new(key))
    }
}

impl<O: ObjectStore> Files for Warehouse<O> {
    async fn read(&self, location: &str) -> Result<Bytes, FileError> {
        match self.store.get(&self.key(location)?).await {
            Ok(object) => Ok(object.payload.bytes),
            Err(ReadError::NotFound) => Err(FileError::NotFound(location.to_owned())),
            Err(ReadError::Failed(cause)) => Err(FileError::Failed { location: location.to_owned(), cause }),
        }
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        let key = self.key(location)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let payload = Payload::from(bytes.clone());
            let cause = match self.store.put(&key, payload, Guard::Absent).await {
                Ok(_) => return Ok(()),
                // The name is fresh: what is there is an earlier delivery of this write, if it is the same.
                Err(PutError::Lost) => match self.store.get(&key).await {
                    Ok(object) if object.payload.bytes == bytes => return Ok(()),
                    Ok(_) => glidepath_env::Cause::words("another file has this name"),
                    Err(error) => glidepath_env::Cause::from_error(error),
                },
                Err(PutError::Unknown(cause)) => cause,
                Err(PutError::Refused(denial)) => denial.cause,
            };
            if tries >= TRIES {
                return Err(FileError::Failed { location: location.to_owned(), cause });
            }
        }
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        self.store.delete(&self.key(location)?).await.map_err(|error| {
            let (DeleteError::Unknown(cause) | DeleteError::Refused(cause)) = error;
            FileError::Failed { location: location.to_owned(), cause }
        })
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        let prefix = Key::new(&format!("{}/", self.key(folder.trim_end_matches('/'))?.as_str()));
        let after = after.map(|after| self.key(after)).transpose()?;
        let page = self.store.list(&prefix, after.as_ref(), limit).await.map_err(|error| {
            let cause = match error {
                ReadError::Failed(cause) => cause,
                ReadError::NotFound => glidepath_env::Cause::words("the store cannot list it"),
            };
            FileError::Failed { location: folder.to_owned(), cause }
        })?;
        Ok(page.objects.iter().map(|object| format!("{}/{}", self.base, object.key.as_str())).collect())
    }
}
