//! Requests that carry a key are done once, however often and to whichever server they are sent.
//!
//! The key is an entry of the catalog, created by the same commit that does what the request asks: the two take effect
//! together or not at all, and survive every server. A delivery of the request that finds the entry answers with what
//! the first one did. A refusal is noted under the key too, before anybody is told, so that no later delivery is done.
//! Keys are kept for [`LIFETIME_MS`] at least, and cleaned by any server afterwards.

use glidepath_env::Env;
use glidepath_model::{Action, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;

use crate::cleaning::AT;
use crate::error::{Kind, ServiceError};
use crate::mutant::{self, Mutant};
use crate::names::{RESERVED, lacks_own, own_name};
use crate::{Counts, Inner, Service, claims, leaving, purge};

/// How long a key is kept at least, in milliseconds.
pub const LIFETIME_MS: u64 = 30 * 60 * 1000;

/// How much longer it is kept, because clocks of servers differ.
const GRACE_MS: u64 = 10 * 60 * 1000;

/// How long a key is kept.
pub(crate) const KEPT_MS: u64 = LIFETIME_MS + GRACE_MS;

/// The namespace of keys, in that of the service.
pub(crate) const KEYS: &str = "keys";

/// The answer when a commit was refused because the key exists, and the key has been cleaned before it could be read.
pub(crate) const CLEANED: &str = "the key was cleaned meanwhile; send it again";

const REQUEST: &str = "request";
const ANSWER: &str = "answer";
/// What kind of refusal the answer is.
const REFUSED: &str = "refused";

/// Bytes of the words of a refusal that are noted.
const MOST_WORDS: usize = 2000;

/// The refusals that are noted, as they are noted: those that depend on what the catalog has, or on the request. Not
/// those by the key of another request, and those after which the request may be sent again.
const REFUSALS: [(Kind, &str); 10] = [
    (Kind::Invalid, "invalid"),
    (Kind::Illegal, "illegal"),
    (Kind::NoFile, "no-file"),
    (Kind::NoNamespace, "no-namespace"),
    (Kind::NoTable, "no-table"),
    (Kind::NoView, "no-view"),
    (Kind::NoVersion, "no-version"),
    (Kind::Exists, "exists"),
    (Kind::NotEmpty, "not-empty"),
    (Kind::Conflict, "conflict"),
];

/// The key of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// As the client sent it.
    pub key: String,
    /// A digest of the request's method, path and body: a key belongs to one request.
    pub request: String,
}

/// What became of a request that may have been sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It was done now.
    Done,
    /// An earlier delivery did it; this is what that noted for its answer.
    Before(String),
}

impl Idempotency {
    /// A key of a client.
    ///
    /// # Errors
    /// If it is empty, longer than 128 bytes, or not printable ASCII.
    pub fn new(key: &str, request: String) -> Result<Self, ServiceError> {
        let allowed = !key.is_empty() && key.len() <= 128 && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !allowed {
            let words = "Idempotency-Key: 1 to 128 printable characters without blanks are allowed, best a UUID";
            return Err(ServiceError::invalid(words));
        }
        Ok(Self { key: key.to_owned(), request })
    }

    pub(crate) fn name(&self) -> Result<Name, ServiceError> {
        own_name([KEYS, &self.key])
    }

    /// The action that keeps the key.
    pub(crate) fn action(&self, now_ms: u64, answer: &str) -> Result<Action, ServiceError> {
        self.noting(now_ms, answer, None)
    }

    fn noting(&self, now_ms: u64, answer: &str, refused: Option<&str>) -> Result<Action, ServiceError> {
        let properties = [(AT, now_ms.to_string()), (REQUEST, self.request.clone()), (ANSWER, answer.to_owned())];
        let refused = refused.map(|kind| (REFUSED, kind.to_owned()));
        let properties = properties.into_iter().chain(refused);
        let properties = properties.map(|(key, value)| (key.to_owned(), value)).collect();
        let entry = Entry { kind: EntryKind::Table, properties, ..Entry::namespace() };
        Ok(Action::Create { name: self.name()?, entry })
    }

    /// What the earlier delivery noted; the error if that was refused.
    fn noted(&self, entry: &Entry) -> Result<String, ServiceError> {
        if entry.properties.get(REQUEST) != Some(&self.request) && !mutant::is(Mutant::KeyOfAny) {
            let words = format!("the Idempotency-Key {} was used for another request", self.key);
            return Err(ServiceError::new(Kind::KeyReused, words));
        }
        let answer = entry.properties.get(ANSWER).cloned().unwrap_or_default();
        match entry.properties.get(REFUSED) {
            None => Ok(answer),
            Some(noted) => {
                let kind = REFUSALS.iter().find(|(_, word)| word == noted).map_or(Kind::Conflict, |(kind, _)| *kind);
                Err(ServiceError::new(kind, answer))
            }
        }
    }
}

/// What became of a note of a refusal.
#[derive(PartialEq)]
enum Noted {
    /// It stands.
    Now,
    /// Another delivery of the request was answered before.
    AlreadyThere,
    /// Such refusals are not noted.
    NotKept,
}

/// The namespaces of the service, from the outer to the inner.
fn own_namespaces() -> impl Iterator<Item = Vec<&'static str>> {
    let folders = [KEYS, purge::FOLDER, claims::FOLDER, leaving::FOLDER].into_iter().chain(purge::MARKS);
    std::iter::once(vec![RESERVED]).chain(folders.map(|folder| vec![RESERVED, folder]))
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The answer to a request, by `answer`. If it has a key and is refused, that is noted under the key before anybody
    /// is told. If another delivery was done or refused before, the request is answered by that.
    pub(crate) async fn once<T>(
        &self,
        key: Option<&Idempotency>,
        answer: impl AsyncFn() -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let first = answer().await;
        match (key, &first) {
            (Some(key), Err(refusal))
                if self.note_refusal(key, refusal).await? == Noted::AlreadyThere
                    && !mutant::is(Mutant::RefusalTrusted) =>
            {
                answer().await
            }
            _ => first,
        }
    }

    /// Notes a refusal under the key of its request, if it is one that is kept.
    async fn note_refusal(&self, key: &Idempotency, refusal: &ServiceError) -> Result<Noted, ServiceError> {
        let Some((_, kind)) = REFUSALS.iter().find(|(kind, _)| *kind == refusal.kind) else {
            return Ok(Noted::NotKept);
        };
        if mutant::is(Mutant::RefusalNotNoted) {
            return Ok(Noted::NotKept);
        }
        let words = &refusal.message[..refusal.message.floor_char_boundary(MOST_WORDS)];
        let note = key.noting(self.env.unix_ms(), words, Some(kind))?;
        let error = match self.committer.commit(vec![note]).await {
            Ok(_) => return Ok(Noted::Now),
            Err(CommitError::Refused(Refusal::Exists(taken))) if is_key(Some(key), &taken) => {
                return Ok(Noted::AlreadyThere);
            }
            Err(CommitError::Refused(refusal)) if lacks_own(&refusal) => return Err(refusal.into()),
            Err(error) => error,
        };
        let (kind, known) = match error {
            CommitError::Unknown(_) => (Kind::Unknown, "whether that is noted under its key is not known"),
            _ => (Kind::Unavailable, "that could not be noted under its key"),
        };
        let words = format!("refused, and {known} ({error}): send it again with the key. The refusal: {words}");
        Err(ServiceError::new(kind, words))
    }

    /// What an earlier delivery of the request noted; `None` if none took effect before this was asked.
    pub(crate) async fn replayed(
        &self,
        at: &C::Snapshot,
        key: Option<&Idempotency>,
    ) -> Result<Option<String>, ServiceError> {
        let Some(key) = key else { return Ok(None) };
        let Some(entry) = self.committer.catalog().entry(at, &key.name()?).await? else { return Ok(None) };
        let noted = key.noted(&entry)?;
        Counts::add(&self.counts.replayed, 1);
        Ok(Some(noted))
    }

    /// Notes under the key of a request that it is done, where what it asks for was there already, so that no commit of
    /// its own has noted it. If another delivery was answered before, the request is answered by that.
    pub(crate) async fn note_done(&self, key: Option<&Idempotency>, answer: &str) -> Result<Operation, ServiceError> {
        match key {
            None => Ok(Operation::Done),
            Some(_) if mutant::is(Mutant::KeyForgotten) => Ok(Operation::Done),
            Some(_) => {
                let noted = self.commit_once(key, Vec::new(), answer).await;
                noted.map_err(|failure| failure.told(|_| None))
            }
        }
    }

    /// Commits actions, and the key with them; refusals are given to `refused`.
    pub(crate) async fn commit_once(
        &self,
        key: Option<&Idempotency>,
        mut actions: Vec<Action>,
        answer: &str,
    ) -> Result<Operation, CommitFailure> {
        if let Some(key) = key {
            let at = self.head().await?;
            if let Some(noted) = self.replayed(&at, Some(key)).await? {
                return Ok(Operation::Before(noted));
            }
            if !mutant::is(Mutant::KeyForgotten) {
                actions.push(key.action(self.env.unix_ms(), answer)?);
            }
        }
        match self.committer.commit(actions).await {
            Ok(_) => Ok(Operation::Done),
            // What refuses it may be what another delivery of the request did since the look above.
            Err(CommitError::Refused(refusal)) if key.is_some() && !mutant::is(Mutant::RefusalTrusted) => {
                let at = self.head().await?;
                match self.replayed(&at, key).await? {
                    Some(noted) => Ok(Operation::Before(noted)),
                    None if matches!(&refusal, Refusal::Exists(name) if is_key(key, name)) => {
                        Err(ServiceError::new(Kind::Unavailable, CLEANED).into())
                    }
                    None => Err(CommitFailure::Refused(refusal)),
                }
            }
            Err(error) => {
                if matches!(error, CommitError::Unknown(_)) {
                    Counts::add(&self.counts.unknown, 1);
                }
                match error {
                    CommitError::Refused(refusal) => Err(CommitFailure::Refused(refusal)),
                    error => Err(CommitFailure::Other(error.into())),
                }
            }
        }
    }
}

/// Whether this is the name of the request's key.
pub(crate) fn is_key(key: Option<&Idempotency>, name: &Name) -> bool {
    key.and_then(|key| key.name().ok()).as_ref() == Some(name)
}

/// Why a commit of names failed: a refusal, whose words depend on what was asked, or anything else.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    Refused(Refusal),
    Other(ServiceError),
}

impl From<ServiceError> for CommitFailure {
    fn from(error: ServiceError) -> Self {
        Self::Other(error)
    }
}

impl CommitFailure {
    /// The answer, where `told` has words for a refusal.
    pub(crate) fn told(self, told: impl FnOnce(&Refusal) -> Option<ServiceError>) -> ServiceError {
        match self {
            // Not that a namespace of the client is missing.
            Self::Refused(refusal) if lacks_own(&refusal) => refusal.into(),
            Self::Refused(refusal) => told(&refusal).unwrap_or_else(|| refusal.into()),
            Self::Other(error) => error,
        }
    }
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Makes the namespaces that the service keeps its own entries in. Any number of servers may do so at once.
    ///
    /// # Errors
    /// If the catalog does not answer.
    pub async fn prepare(&self) -> Result<(), ServiceError> {
        for parts in own_namespaces() {
            let name = Name::of_parts(parts).map_err(|error| ServiceError::invalid(error.to_string()))?;
            // A catalog without versions does not show one namespace as it was before it was made, and the next one
            // after.
            let at = self.head().await?;
            if self.entry(&at, &name).await?.is_some() {
                continue;
            }
            let create = Action::Create { name, entry: Entry::namespace() };
            match self.inner.committer.commit(vec![create]).await {
                Ok(_) | Err(CommitError::Refused(Refusal::Exists(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes the keys that are older than their lifetime, however many: as many as arise. Returns how many were
    /// found.
    ///
    /// # Errors
    /// If the catalog does not answer. It may be called again at any time, also by several servers at once.
    pub async fn clean_keys(&self) -> Result<usize, ServiceError> {
        self.clean(KEYS, KEPT_MS).await
    }
}
