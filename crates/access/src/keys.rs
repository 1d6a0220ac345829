//! The public keys of an issuer: fetched when first needed, and again when they are old or a token names another key.
//!
//! Anybody can send tokens that name keys which do not exist. So the issuer is asked at most once in [`PAUSE`], one
//! request answers all that wait for it, and it goes on if the one who caused it hangs up. Known keys are kept while
//! the issuer cannot be reached.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Mutex, OwnedMutexGuard};
use url::{Host, Url};

use crate::algorithm::Algorithm;
use crate::identity::Denied;
use crate::keyset::KeySet;

/// The shortest time between two attempts to fetch keys.
const PAUSE: Duration = Duration::from_secs(30);

/// The age from which keys are fetched again, so that a key which the issuer withdrew is forgotten.
const OLD: Duration = Duration::from_secs(600);

/// After this time nothing is taken before they have been fetched again: nobody asked meanwhile, or the machine slept.
/// If that fails, the issuer is away, and what is known still counts.
const TOO_OLD: Duration = Duration::from_secs(1800);

/// The longest time of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of an answer.
const MOST_BYTES: usize = 1 << 20;

/// An answer on its way: the body of it, or what went wrong.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

/// Fetches documents of the issuer, and tells how old they are.
pub trait Fetch: Send + Sync + 'static {
    /// The body of the document, by HTTP GET.
    ///
    /// Anything but status 200 is an error. Do not follow redirects, and stop reading after 1 MiB. A request that takes
    /// longer than 10 seconds is dropped.
    fn get<'a>(&'a self, url: &'a str) -> Fetching<'a>;

    /// The time since any fixed moment, by a clock that is never set and that goes on while the machine sleeps: a key
    /// may be withdrawn meanwhile.
    fn now(&self) -> Duration;
}

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The discovery document of the issuer with this URL names the address of its keys.
    Discovery(String),
    /// A file holds the keys.
    File(PathBuf),
}

/// The keys of one issuer.
pub(crate) struct Keys {
    source: Source,
    fetch: Arc<dyn Fetch>,
    held: RwLock<Held>,
    /// Held by the one that fetches. When fetching was last attempted.
    gate: Arc<Mutex<Option<Duration>>>,
}

struct Held {
    set: Arc<KeySet>,
    /// When the set was fetched.
    fetched: Option<Duration>,
    /// What went wrong at the last attempt, and when.
    failure: Option<(String, Duration)>,
}

impl Keys {
    pub(crate) fn new(source: Source, fetch: Arc<dyn Fetch>) -> Self {
        let held = Held { set: Arc::new(KeySet::none()), fetched: None, failure: None };
        Self { source, fetch, held: RwLock::new(held), gate: Arc::default() }
    }

    /// With the keys of the source, read just now.
    pub(crate) fn of(source: Source, fetch: Arc<dyn Fetch>, set: KeySet) -> Self {
        let keys = Self::new(source, fetch);
        keys.put(Ok(set));
        keys
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The set that has a key for such a token. Fetches the keys if the known ones have none.
    pub(crate) async fn find(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm) -> Result<Arc<KeySet>, Denied> {
        let (set, fetched) = self.held();
        // Nobody waits for an issuer that has failed to answer since.
        let waits = self.is_past(fetched, TOO_OLD) && !self.has_failed_since(fetched, TOO_OLD);
        if !set.candidates(id, algorithm).is_empty() && !waits {
            if self.is_past(fetched, OLD) {
                self.refresh_behind();
            }
            return Ok(set);
        }
        self.refresh().await;
        let (set, _) = self.held();
        if !set.candidates(id, algorithm).is_empty() {
            return Ok(set);
        }
        match self.failure() {
            Some(why) => Err(Denied::Unavailable { why }),
            None => Err(Denied::refused("its issuer has no such key, or it names none of several; get a new token")),
        }
    }

    /// Fetches the keys if there are none yet, so that the first token need not wait.
    pub(crate) async fn warm(self: &Arc<Self>) -> Result<(), Denied> {
        if self.held().1.is_none() {
            self.refresh().await;
        }
        self.failure().map_or(Ok(()), |why| Err(Denied::Unavailable { why }))
    }

    fn held(&self) -> (Arc<KeySet>, Option<Duration>) {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        (held.set.clone(), held.fetched)
    }

    /// Whether this was so long ago, or never.
    fn is_past(&self, at: Option<Duration>, age: Duration) -> bool {
        at.is_none_or(|at| self.fetch.now().saturating_sub(at) >= age)
    }

    fn failure(&self) -> Option<String> {
        Some(self.held.read().unwrap_or_else(PoisonError::into_inner).failure.as_ref()?.0.clone())
    }

    /// Whether the last attempt failed when what was fetched had this age or more.
    fn has_failed_since(&self, fetched: Option<Duration>, age: Duration) -> bool {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.failure.as_ref().is_some_and(|(_, at)| fetched.is_some_and(|fetched| *at >= fetched + age))
    }

    /// Fetches the keys, or waits for the one that does. Does nothing if that was attempted a moment ago.
    async fn refresh(self: &Arc<Self>) {
        let gate = self.gate.clone().lock_owned().await;
        if self.is_past(*gate, PAUSE) {
            // A task of its own: whoever hangs up while it runs does not end it.
            let fetching = tokio::spawn(self.clone().fetch_into(gate));
            if let Err(error) = fetching.await {
                self.put(Err(format!("fetching the keys of the issuer ended early: {error}")));
            }
        }
    }

    /// Fetches the keys without waiting for them, unless that is under way or was attempted a moment ago.
    fn refresh_behind(self: &Arc<Self>) {
        if let Ok(gate) = self.gate.clone().try_lock_owned()
            && self.is_past(*gate, PAUSE)
        {
            drop(tokio::spawn(self.clone().fetch_into(gate)));
        }
    }

    async fn fetch_into(self: Arc<Self>, mut gate: OwnedMutexGuard<Option<Duration>>) {
        *gate = Some(self.fetch.now());
        self.put(self.source.read(self.fetch.as_ref()).await);
    }

    fn put(&self, result: Result<KeySet, String>) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(set) => *held = Held { set: Arc::new(set), fetched: Some(self.fetch.now()), failure: None },
            Err(why) => held.failure = Some((why, self.fetch.now())),
        }
    }
}

/// What is needed of a discovery document.
#[derive(Deserialize)]
struct Discovered {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    async fn read(&self, fetch: &dyn Fetch) -> Result<KeySet, String> {
        let issuer = match self {
            Self::File(path) => return read_file(path),
            Self::Discovery(issuer) => issuer,
        };
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let discovered: Discovered = serde_json::from_slice(&get(fetch, &url).await?)
            .map_err(|error| format!("{url} is no discovery document with issuer and jwks_uri: {error}"))?;
        if discovered.issuer != *issuer {
            return Err(format!("{url} names the issuer {:?}; set issuer in [jwt] to exactly this", discovered.issuer));
        }
        let url = discovered.jwks_uri;
        if let Some(fault) = url_fault(&url) {
            return Err(format!("the jwks_uri of {issuer} is {url:?}: {fault}"));
        }
        KeySet::of_json(&get(fetch, &url).await?).map_err(|why| format!("{url}: {why}"))
    }
}

/// The keys of a file.
pub(crate) fn read_file(path: &Path) -> Result<KeySet, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    KeySet::of_json(&bytes).map_err(|why| format!("{}: {why}", path.display()))
}

async fn get(fetch: &dyn Fetch, url: &str) -> Result<Vec<u8>, String> {
    match tokio::time::timeout(PATIENCE, fetch.get(url)).await {
        Ok(Ok(bytes)) if bytes.len() > MOST_BYTES => Err(format!("{url} answered more than {MOST_BYTES} bytes")),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(why)) => Err(format!("{url}: {why}")),
        Err(_) => Err(format!("{url} did not answer within {} s", PATIENCE.as_secs())),
    }
}

/// What is wrong with the URL of an issuer or of its keys. Whoever could change an answer could sign tokens, so it must
/// come by TLS, or from this machine.
pub(crate) fn url_fault(url: &str) -> Option<&'static str> {
    let Ok(parsed) = Url::parse(url) else {
        return Some("it is no URL; write https://HOST/PATH");
    };
    let is_local = match parsed.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Some("it names no host; write https://HOST/PATH"),
    };
    match parsed.scheme() {
        "https" => {}
        "http" if is_local => {}
        _ => return Some("only https is allowed, and http on this machine (localhost, 127.0.0.1, [::1])"),
    }
    let has_user = !parsed.username().is_empty() || parsed.password().is_some();
    has_user.then_some("it has a user name; write it without")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_by_tls_or_from_this_machine() {
        for right in ["https://id.example.org", "https://id.example.org:8443/a/b?c=d", "http://localhost:1/x"] {
            assert_eq!(url_fault(right), None, "{right}");
        }
        for right in ["http://127.0.0.1", "http://127.1.2.3/", "http://[::1]:8080/"] {
            assert_eq!(url_fault(right), None, "{right}");
        }
        for wrong in ["", "id.example.org", "http://id.example.org", "http://localhost.example.org", "ftp://localhost/"]
        {
            assert!(url_fault(wrong).is_some(), "{wrong}");
        }
        for wrong in ["file:///etc/keys", "http://127.0.0.1.example.org", "https://u:p@id.example.org", "http://[::2]/"]
        {
            assert!(url_fault(wrong).is_some(), "{wrong}");
        }
    }
}
