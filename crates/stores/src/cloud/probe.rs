//! Can the store be used, and does it honour guards? Found out by trying: a server that ignores conditional headers answers
//! 200 to everything.

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError};

use super::CloudStore;
use crate::open::OpenError;

impl CloudStore {
    /// Tries put-if-absent and put-if-match on a scratch key, which nobody else may use, and removes what it wrote.
    ///
    /// # Errors
    /// [`OpenError::Unusable`] where the store cannot be reached or written, or does not honour a guard, in words that say
    /// what to do.
    pub async fn probe(&self, scratch: &Key) -> Result<(), OpenError> {
        let result = self.try_guards(scratch).await;
        // After a refusal there is nothing to remove, and whatever went wrong is worth more than what goes wrong now.
        let _ = self.delete(scratch).await;
        result.map_err(|why| OpenError::Unusable { url: self.0.address.shown.clone(), why })
    }

    async fn try_guards(&self, scratch: &Key) -> Result<(), String> {
        let put = |content: &'static str, guard| self.put(scratch, Payload::from(Bytes::from(content)), guard);
        let first = match put("first", Guard::Absent).await {
            Ok(tag) => tag,
            Err(PutError::Lost) => {
                return Err(format!("there is an object {scratch} already; give a fresh scratch key"));
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
}

fn ignores(header: &str, proof: &str) -> String {
    format!("the server ignores {header} ({proof}): no protocol is safe on it; use another server, or a newer version")
}
