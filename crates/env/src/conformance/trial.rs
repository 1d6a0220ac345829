//! What the points share: keys of their own, and messages about violations.

use std::fmt::Display;

use bytes::Bytes;

use crate::{Guard, Key, Object, ObjectStore, Payload, PutError, ReadError, Tag};

/// How a store broke a rule.
pub(super) struct Broken(pub(super) String);

/// One try of one point.
pub(super) struct Trial<'a, S> {
    handles: &'a [S],
    prefix: String,
}

impl<'a, S: ObjectStore> Trial<'a, S> {
    pub(super) fn new(handles: &'a [S], prefix: String) -> Self {
        Self { handles, prefix }
    }

    /// The store, as one writer sees it.
    pub(super) fn store(&self) -> &'a S {
        &self.handles[0]
    }

    /// The store, as the n-th of many writers sees it.
    pub(super) fn handle(&self, writer: usize) -> &'a S {
        &self.handles[writer % self.handles.len()]
    }

    /// A key that only this try uses.
    pub(super) fn key(&self, name: &str) -> Key {
        Key::new(&format!("{}{name}", self.prefix))
    }

    /// A key's name without the part that the try gave it.
    pub(super) fn name<'k>(&self, key: &'k Key) -> &'k str {
        key.as_str().strip_prefix(&self.prefix).unwrap_or(key.as_str())
    }

    /// A write without a guard.
    pub(super) async fn write(&self, key: &Key, body: impl Into<Bytes>) -> Result<Tag, Broken> {
        done("an unguarded put", self.store().put(key, Payload::from(body.into()), Guard::None).await)
    }

    pub(super) async fn read(&self, key: &Key) -> Result<Object, Broken> {
        done(&format!("a get of {:?}", self.name(key)), self.store().get(key).await)
    }

    /// Broken unless the object holds exactly this.
    pub(super) async fn expect(&self, key: &Key, content: &[u8]) -> Result<Object, Broken> {
        let object = self.read(key).await?;
        same(&format!("the content of {:?}", self.name(key)), &flat(&object.payload), content)?;
        Ok(object)
    }

    /// Broken unless there is no object.
    pub(super) async fn expect_missing(&self, key: &Key) -> Result<(), Broken> {
        missing("get", self.store().get(key).await)
    }

    /// Removes what the try wrote. Objects that the store does not delete remain under the caller's prefix, where the
    /// caller can see them.
    pub(super) async fn clean_up(&self) {
        let prefix = self.key("");
        // A broken store may list the same keys for ever.
        for _ in 0..100 {
            let Ok(page) = self.store().list(&prefix, None, 1000).await else { return };
            for listed in &page.objects {
                if listed.key.as_str().starts_with(prefix.as_str()) {
                    let _ = self.store().delete(&listed.key).await;
                }
            }
            if page.objects.is_empty() || !page.more {
                return;
            }
        }
    }
}

/// The value; an error breaks the point, because this operation has no reason to fail.
pub(super) fn done<T, E: Display>(what: &str, result: Result<T, E>) -> Result<T, Broken> {
    result.map_err(|error| Broken(format!("{what} failed: {error}")))
}

/// Broken unless the write was lost.
pub(super) fn lost<T>(what: &str, result: Result<T, PutError>) -> Result<(), Broken> {
    match result {
        Err(PutError::Lost) => Ok(()),
        Ok(_) => Err(Broken(format!("{what} was acknowledged"))),
        Err(error) => Err(Broken(format!("{what} was not lost but: {error}"))),
    }
}

/// Broken unless the read found nothing.
pub(super) fn missing<T>(what: &str, result: Result<T, ReadError>) -> Result<(), Broken> {
    match result {
        Err(ReadError::NotFound) => Ok(()),
        Ok(_) => Err(Broken(format!("{what} found an object where there is none"))),
        Err(error) => Err(Broken(format!("{what} did not say that there is no object but: {error}"))),
    }
}

/// Broken, with these words, unless it holds.
pub(super) fn holds(held: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if held { Ok(()) } else { Err(Broken(otherwise())) }
}

/// Broken unless the bytes are equal; says where they differ.
pub(super) fn same(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), Broken> {
    holds(found == wanted, || {
        let (found_size, wanted_size) = (found.len(), wanted.len());
        let at = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
        let at = at.map_or(String::new(), |at| format!(", different from byte {at} on"));
        format!("{what} is not what was written: {found_size} bytes where {wanted_size} were expected{at}")
    })
}

/// Content and filler as bytes.
pub(super) fn flat(payload: &Payload) -> Vec<u8> {
    let mut bytes = payload.bytes.to_vec();
    bytes.resize(payload.size().as_bytes() as usize, 0);
    bytes
}

/// Sends a guarded write until it wins or is lost. A store may refuse requests under load; a healthy one leaves none
/// unknown.
pub(super) async fn insist<T, F>(mut write: impl FnMut() -> F) -> Result<Option<T>, Broken>
where
    F: Future<Output = Result<T, PutError>>,
{
    let mut refusals = 0;
    loop {
        match write().await {
            Ok(won) => return Ok(Some(won)),
            Err(PutError::Lost) => return Ok(None),
            Err(PutError::Refused(_)) if refusals < 100 => refusals += 1,
            Err(error) => return Err(Broken(format!("a guarded write failed: {error}"))),
        }
    }
}
