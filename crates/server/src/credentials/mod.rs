//! What are clients told about the storage of a table?
//!
//! The settings of the command line, and, if a token service is configured and the client asks for it, short-lived
//! credentials for the table's folder: to read it, or to read and write it, by the right of the client on the table's
//! namespace. `kept` says which credentials are given again, `words` how clients of Iceberg and Lance call them.

mod kept;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::HeaderMap;
use glidepath_access::Right;
use glidepath_service::{Identifier, Kind, ServiceError};
use glidepath_stores::Store;
use glidepath_stores::cloud::{Permission, Sts, StsError, StsOptions, Temporary, is_protected};

use crate::operations::metrics::Metrics;
use crate::security::check::{Asker, right_on};
use crate::start::StartError;
use crate::state::App;
use kept::Kept;

/// The header by which Iceberg's clients say how they want to reach the storage.
const DELEGATION: &str = "x-iceberg-access-delegation";

/// What that header says of one who wants credentials.
const WANTED: &str = "vended-credentials";

/// Parts of the names of settings that are secret, or name whose secret it is.
const SECRET: [&str; 5] = ["access-key", "access_key", "session-token", "session_token", "secret"];

/// A service that gives short-lived credentials, and those that it gave.
pub(crate) struct Vendor {
    sts: Sts,
    kept: Kept,
    metrics: Arc<Metrics>,
}

/// What a client that asks for credentials is told.
pub(crate) struct Vended {
    /// The folder that they are for.
    pub(crate) prefix: String,
    /// All settings, with the credentials.
    pub(crate) config: BTreeMap<String, String>,
    /// Differs when the credentials differ; for the tag of an answer.
    pub(crate) mark: String,
}

/// Whether a request of Iceberg asks for credentials.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    let given = headers.get_all(DELEGATION).iter().filter_map(|given| given.to_str().ok());
    given.flat_map(|given| given.split(',')).any(|one| one.trim().eq_ignore_ascii_case(WANTED))
}

fn without_service(base: &str) -> StartError {
    StartError::Credentials(format!("the warehouse {base} has no token service; s3://bucket/prefix has"))
}

/// Whether credentials for tables of a warehouse would protect anything.
pub(crate) fn check(base: &str, settings: &BTreeMap<String, String>) -> Result<(), StartError> {
    let wrong = |why: String| Err(StartError::Credentials(why));
    if !base.starts_with("s3://") {
        return Err(without_service(base));
    }
    if let Some(key) = settings.keys().find(|key| SECRET.iter().any(|secret| key.contains(secret))) {
        return wrong(format!("the setting for clients {key} would give everybody what the service gives for a time"));
    }
    Ok(())
}

impl Vendor {
    /// The service for the tables of a warehouse. Asks it once, so that a mistake is in the log from the start.
    pub(crate) async fn start(
        options: StsOptions,
        base: &str,
        store: &Store,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let Store::Cloud(store) = store else { return Err(without_service(base)) };
        let sts = store.sts(options).map_err(|error| StartError::Credentials(error.to_string()))?;
        let vendor = Self { sts, kept: Kept::default(), metrics };
        if let Err(error) = vendor.ask(&format!("{base}/glidepath-probe"), Permission::Read).await {
            tracing::warn!(%error, "no short-lived credentials now; they are asked for again when a client needs some");
        }
        Ok(vendor)
    }

    async fn ask(&self, location: &str, permission: Permission) -> Result<Temporary, StsError> {
        let answer = self.sts.issue(location, permission).await;
        // No request is made for a location that can have no credentials.
        let failed = matches!(answer, Err(StsError::Failed(_)));
        self.metrics.credentials.fetch_add(u64::from(answer.is_ok() || failed), Ordering::Relaxed);
        self.metrics.credential_failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        answer
    }

    /// Credentials for a folder; `None` if there can be none for it.
    async fn issue(&self, location: &str, permission: Permission) -> Result<Option<Arc<Temporary>>, ServiceError> {
        match self.kept.get(location, permission, || self.ask(location, permission)).await {
            Ok(temporary) => Ok(Some(temporary)),
            Err(error @ StsError::Location { .. }) => {
                tracing::info!(%error, "a table is answered without credentials");
                Ok(None)
            }
            Err(StsError::Failed(why)) => {
                tracing::warn!(why, "no short-lived credentials");
                let message = "the token service of the storage gave no credentials, and this request asks for some; \
                               nothing was done: try again later (the reason is in the log of the server)";
                Err(ServiceError { kind: Kind::Unavailable, message: message.to_owned() })
            }
        }
    }
}

/// Who said where a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The catalog.
    ByCatalog,
    /// The metadata file, which somebody may have changed who can write in the table's folder.
    ByMetadata,
}

/// A table, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) table: &'a Identifier,
    pub(crate) location: &'a str,
    pub(crate) said: Said,
}

impl App {
    /// What a client is told that asks for credentials for a table; `None` if no token service is configured, or if
    /// there can be no credentials for this location.
    pub(crate) async fn vended(&self, asker: &Asker, placed: Placed<'_>) -> Result<Option<Vended>, ServiceError> {
        let Some(vendor) = &self.vendor else { return Ok(None) };
        let Placed { table, location, said } = placed;
        if said == Said::ByMetadata {
            let (name, place) = (table.clone(), location.to_owned());
            if !self.run(move |service| async move { service.is_place_of(&name, &place).await }).await? {
                let table = table.dotted();
                tracing::warn!(table, location, "no credentials: the metadata file names a folder of something else");
                return Ok(None);
            }
        }
        let right = right_on(self, asker, &table.namespace, Right::Write).await?;
        let permission = if right >= Some(Right::Write) { Permission::Write } else { Permission::Read };
        let Some(temporary) = vendor.issue(location, permission).await? else { return Ok(None) };
        let letter = if permission == Permission::Write { 'w' } else { 'r' };
        let mut config = BTreeMap::clone(&self.storage);
        config.extend(words::of_iceberg(&temporary, table));
        Ok(Some(Vended {
            prefix: location.trim_end_matches('/').to_owned(),
            config,
            mark: format!("-{letter}{:x}", temporary.ends_at_ms),
        }))
    }

    /// The same for an answer that tells of something that has been done: then there are no credentials rather than an
    /// error, which would say that it has not been done.
    pub(crate) async fn vended_if_possible(&self, asker: &Asker, placed: Placed<'_>) -> Option<Vended> {
        self.vended(asker, placed).await.unwrap_or_else(|error| {
            tracing::warn!(why = error.message, "what was done is answered without credentials");
            None
        })
    }

    /// Refuses to register a metadata file that clients with credentials could write.
    pub(crate) fn check_registered(&self, file: &str) -> Result<(), ServiceError> {
        let name = file.rsplit('/').next().unwrap_or_default();
        if self.vendor.is_none() || is_protected(name) {
            return Ok(());
        }
        let words = format!(
            "metadata-location is {file:?}; this server gives clients credentials for the storage, so it accepts names \
             with .metadata.json only, which these credentials cannot write"
        );
        Err(ServiceError::invalid(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_credentials_only_if_it_asks() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(DELEGATION, axum::http::HeaderValue::from_static(value));
            }
            headers
        };
        assert!(wanted(&headers(&["vended-credentials"])) && wanted(&headers(&["remote-signing, Vended-Credentials"])));
        assert!(wanted(&headers(&["remote-signing", "vended-credentials"])));
        assert!(!wanted(&headers(&[])) && !wanted(&headers(&["remote-signing"])) && !wanted(&headers(&[""])));
    }
}
