//! Where in a store are catalogs filled, copied and removed? Under a unique prefix.

use glidepath_env::{Cause, Env, Guard, Key, ObjectStore, Purpose};
use glidepath_stores::{LiveEnv, Store};

use crate::live::LiveError;

/// A unique prefix. Its objects are removed by [`remove`](Self::remove), not by dropping it.
#[derive(Clone, Debug)]
pub struct Scratch {
    store: Store,
    prefix: String,
}

/// Objects could not be copied or removed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("objects under {prefix} could not be {what}: {cause}")]
pub struct ScratchError {
    prefix: String,
    what: &'static str,
    cause: Cause,
}

impl ScratchError {
    pub(crate) fn new(prefix: &str, what: &'static str, cause: Cause) -> Self {
        Self { prefix: prefix.to_owned(), what, cause }
    }
}

impl Scratch {
    /// Makes no request.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let nonce = LiveEnv::new().draw(Purpose::Names);
        Self { store, prefix: format!("glidepath-bench-{nonce:016x}/") }
    }

    /// The prefix of all its keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Copies every object of one of its folders to another.
    ///
    /// # Errors
    /// An object cannot be read or written.
    pub fn copy(&self, from: &str, to: &str) -> Result<(), LiveError> {
        let (from, to) = (format!("{}{from}/", self.prefix), format!("{}{to}/", self.prefix));
        crate::live::runtime()?.block_on(async {
            let failed = |cause| ScratchError::new(&from, "copied", cause);
            let mut after = None;
            loop {
                let page = self.store.list(&Key::new(&from), after.as_ref(), 1000).await;
                let page = page.map_err(|error| failed(Cause::from_error(error)))?;
                for object in &page.objects {
                    let read = self.store.get(&object.key).await.map_err(|error| failed(Cause::from_error(error)))?;
                    let rest = object.key.as_str().strip_prefix(&from).unwrap_or_default();
                    let written = self.store.put(&Key::new(&format!("{to}{rest}")), read.payload, Guard::None).await;
                    written.map_err(|error| failed(Cause::from_error(error)))?;
                }
                after = page.objects.last().map(|last| last.key.clone());
                if !page.more || after.is_none() {
                    return Ok(());
                }
            }
        })
    }

    /// Removes everything in it.
    ///
    /// # Errors
    /// Some objects are left.
    pub fn remove(&self) -> Result<(), LiveError> {
        let prefix = &self.prefix;
        crate::live::runtime()?.block_on(async {
            let failed = |cause| ScratchError::new(prefix, "removed", cause);
            loop {
                let page = self.store.list(&Key::new(prefix), None, 1000).await;
                let page = page.map_err(|error| failed(Cause::from_error(error)))?;
                for object in &page.objects {
                    self.store.delete(&object.key).await.map_err(|error| failed(Cause::from_error(error)))?;
                }
                if !page.more {
                    return Ok(());
                }
            }
        })
    }
}
