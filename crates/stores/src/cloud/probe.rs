//! Tests whether the store can be used and honours guards. A server that ignores conditional headers answers 200 to
//! everything, so the probe makes real requests.

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError};

use super::CloudStore;
use crate::open::OpenError;

impl CloudStore {
    /// Tries put-if-absent, put-if-match and, if the store offers them, appends, on a scratch key that no other program
    /// may use. Removes what it wrote.
    ///
    /// # Errors
    /// [`OpenError::Unusable`] if the store cannot be reached or written, or does not honour a guard. The text says
    /// what to do.
    pub async fn probe(&self, scratch: &Key) -> Result<(), OpenError> {
        let mut result = self.try_guards(scratch).await;
        if result.is_ok() && self.capabilities().append {
            result = self.try_appends(scratch).await;
        }
        // After a refusal there is nothing to remove, and the first error matters more than one from here.
        let _ = self.delete(scratch).await;
        let url = self.0.address.shown.clone();
        // The URL needs to be in the message only once.
        result.map_err(|why| OpenError::Unusable { why: why.replace(&format!("{url}: "), ""), url })
    }

    async fn try_guards(&self, scratch: &Key) -> Result<(), String> {
        let put = |content: &'static str, guard| self.put(scratch, Payload::from(Bytes::from(content)), guard);
        let first = match put("first", Guard::Absent).await {
            Ok(tag) => tag,
            Err(PutError::Lost) => {
                return Err(format!("the object {scratch} already exists; give a fresh scratch key"));
            }
            Err(error) => return Err(error.to_string()),
        };
        match put("never", Guard::Absent).await {
            Err(PutError::Lost) => {}
            Ok(_) => return Err(ignores("If-None-Match", "put-if-absent replaced an object")),
            Err(error) => return Err(format!("put-if-absent: {error}")),
        }
        let second = put("second", Guard::Matches(first.clone())).await;
        second.map_err(|error| format!("put-if-match with the current tag: {error}"))?;
        match put("never", Guard::Matches(first)).await {
            Err(PutError::Lost) => Ok(()),
            Ok(_) => Err(ignores("If-Match", "put-if-match with a stale tag replaced an object")),
            Err(error) => Err(format!("put-if-match with a stale tag: {error}")),
        }
    }

    /// Some stores cannot append to an object that was put, so this begins without an object.
    async fn try_appends(&self, scratch: &Key) -> Result<(), String> {
        self.delete(scratch).await.map_err(|error| error.to_string())?;
        let append = |content: &'static str, offset| self.append(scratch, Payload::from(Bytes::from(content)), offset);
        append("four", 0).await.map_err(|error| format!("an append to no object: {error}"))?;
        append("more", 4).await.map_err(|error| format!("an append at the end: {error}"))?;
        let found = self.get(scratch).await.map_err(|error| format!("reading what was appended: {error}"))?;
        if found.payload.bytes != "fourmore" {
            return Err(ignores("the offset of an append", "an append replaced the object"));
        }
        match append("lost", 4).await {
            Err(PutError::Lost) => Ok(()),
            Ok(_) => {
                Err(ignores("the offset of an append", "an append at another offset than the end was acknowledged"))
            }
            Err(error) => Err(format!("an append elsewhere than at the end: {error}")),
        }
    }
}

fn ignores(header: &str, proof: &str) -> String {
    format!("the server ignores {header} ({proof}): no protocol is safe on it; use another server, or a newer version")
}
