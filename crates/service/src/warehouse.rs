//! The files of tables in an object store, found by their locations.

use bytes::Bytes;
use glidepath_env::{DeleteError, Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_table::{FileError, Files};

use crate::locations::unslashed;

/// How often a write whose outcome is unknown is looked for and repeated. Its name is fresh, so a repeat writes the
/// same bytes.
const TRIES: u32 = 4;

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
        let key = Key::new(key);
        if !self.store.can_name(&key) {
            return Err(outside("this server addresses no file of this name in a store of this kind"));
        }
        Ok(key)
    }
}

impl<O: ObjectStore> Files for Warehouse<O> {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        match self.store.get_range(&self.key(location)?, 0..most + 1).await {
            Ok(object) if object.payload.bytes.len() as u64 > most => {
                Err(FileError::TooLarge { location: location.to_owned(), most })
            }
            Ok(object) => Ok(object.payload.bytes),
            Err(ReadError::NotFound) => Err(FileError::NotFound(location.to_owned())),
            Err(ReadError::Failed(cause)) => Err(FileError::Failed { location: location.to_owned(), cause }),
        }
    }

    async fn is_there(&self, location: &str) -> Option<bool> {
        self.store.is_there(&self.key(location).ok()?).await
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        let key = self.key(location)?;
        let (mut tries, mut guard, mut doubt) = (0, Guard::Absent, false);
        loop {
            tries += 1;
            let payload = Payload::from(bytes.clone());
            let cause = match self.store.put(&key, payload, guard.clone()).await {
                Ok(_) => return Ok(()),
                // The name is fresh: what is there is an earlier delivery of this write, if it is the same. If that
                // failed after it took effect, it can be read and is perhaps not durable: it is written anew.
                Err(PutError::Lost) => match self.store.get(&key).await {
                    Ok(object) if object.payload.bytes == bytes && !doubt => return Ok(()),
                    Ok(object) if object.payload.bytes == bytes => {
                        guard = Guard::None;
                        glidepath_env::Cause::words("a write whose outcome is unknown may not be durable")
                    }
                    Ok(_) => glidepath_env::Cause::words("another file has this name"),
                    Err(error) => glidepath_env::Cause::from_error(error),
                },
                Err(PutError::Unknown(cause)) => {
                    doubt = true;
                    cause
                }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ops::Range;

    use glidepath_env::{Appended, Body, Capabilities, Cause, ListPage, Metadata, Object, Tag};

    use super::*;

    /// Keeps one object. The outcomes of the first writes, which all take effect, are unknown.
    struct Doubtful {
        unknown: usize,
        object: RefCell<Option<Bytes>>,
        guards: RefCell<Vec<Guard>>,
    }

    impl ObjectStore for Doubtful {
        fn capabilities(&self) -> Capabilities {
            Capabilities { put_if_absent: true, put_if_match: false, append: false, delivers_once: true }
        }

        async fn get(&self, _: &Key) -> Result<Object, ReadError> {
            let found = self.object.borrow().clone().ok_or(ReadError::NotFound)?;
            Ok(Object { payload: Payload::from(found), tag: Tag::number(0) })
        }

        async fn put(&self, _: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
            self.guards.borrow_mut().push(guard.clone());
            if guard == Guard::Absent && self.object.borrow().is_some() {
                return Err(PutError::Lost);
            }
            *self.object.borrow_mut() = Some(body.into_payload().bytes);
            match self.guards.borrow().len() <= self.unknown {
                true => Err(PutError::Unknown(Cause::words("the sync failed"))),
                false => Ok(Tag::number(0)),
            }
        }

        fn can_name(&self, key: &Key) -> bool {
            key.as_str().len() < 100
        }

        async fn get_range(&self, key: &Key, _: Range<u64>) -> Result<Object, ReadError> {
            self.get(key).await
        }

        async fn head(&self, _: &Key) -> Result<Metadata, ReadError> {
            Err(ReadError::NotFound)
        }

        async fn append(&self, _: &Key, _: Payload, _: u64) -> Result<Appended, PutError> {
            Err(PutError::Lost)
        }

        async fn list(&self, _: &Key, _: Option<&Key>, _: usize) -> Result<ListPage, ReadError> {
            Err(ReadError::NotFound)
        }

        async fn delete(&self, _: &Key) -> Result<(), DeleteError> {
            Ok(())
        }
    }

    async fn written(unknown: usize, before: Option<&'static str>) -> (Result<(), FileError>, Vec<Guard>) {
        let object = RefCell::new(before.map(|text| Bytes::from_static(text.as_bytes())));
        let warehouse = Warehouse::new(Doubtful { unknown, object, guards: RefCell::default() }, "s3://lake");
        let done = warehouse.write("s3://lake/file", Bytes::from_static(b"content")).await;
        (done, warehouse.store.guards.take())
    }

    /// A purge passes over such names. It would be begun again for ever, if they were taken for files that cannot be
    /// deleted now.
    #[tokio::test]
    async fn a_name_that_the_store_cannot_have_is_outside() {
        let store = Doubtful { unknown: 0, object: RefCell::default(), guards: RefCell::default() };
        let warehouse = Warehouse::new(store, "s3://lake");
        let long = format!("s3://lake/{}", "x".repeat(100));
        assert!(matches!(warehouse.read_up_to(&long, 9).await, Err(FileError::Outside { .. })));
        assert!(matches!(warehouse.write(&long, Bytes::new()).await, Err(FileError::Outside { .. })));
        assert!(matches!(warehouse.delete(&long).await, Err(FileError::Outside { .. })));
        assert!(warehouse.delete("s3://lake/x").await.is_ok());
    }

    /// A file that can be read after an unknown outcome is perhaps not durable.
    #[tokio::test]
    async fn what_a_write_of_unknown_outcome_left_is_written_anew() {
        let (done, guards) = written(1, None).await;
        assert!(done.is_ok() && guards == [Guard::Absent, Guard::Absent, Guard::None], "{done:?} {guards:?}");
        let (done, guards) = written(9, None).await;
        assert!(done.is_err() && guards.last() == Some(&Guard::None), "{done:?} {guards:?}");
        // Something on the way sent it twice, and the answer of the first was lost.
        let (done, guards) = written(0, Some("content")).await;
        assert!(done.is_ok() && guards == [Guard::Absent], "{done:?} {guards:?}");
        let (done, guards) = written(0, Some("another")).await;
        assert!(done.is_err() && !guards.contains(&Guard::None), "{done:?} {guards:?}");
    }
}
