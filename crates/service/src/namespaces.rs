//! Namespaces: nested, with properties, listed in pages.

use std::collections::BTreeMap;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;

use crate::Service;
use crate::error::{Kind, ServiceError};
use crate::keys::{CommitFailure, Idempotency, Operation};
use crate::locations::{checked_folder, of_namespace};
use crate::mutant::{self, Mutant};
use crate::names::{Identifier, dotted, is_hidden, namespace_name};
use crate::reading::is_iceberg;
use crate::tables::{bare_words, is_bare};

/// The most entries of a page that a client can ask for.
const MOST_OF_A_PAGE: usize = 1000;

/// How many entries of a namespace are looked at that is not empty, for one that clients do not see.
const LOOKED_AT: usize = 100;

/// The most bytes of a namespace's properties, keys and values: each answer about it has all of them.
const MOST_OF_PROPERTIES: usize = 2 << 20;

/// How often a change of properties is tried, if each time another one of those that it removes came first.
const MOST_CHANGED: u32 = 10;

/// Refuses more properties than a namespace may have. One that has more already may lose some.
fn affordable(properties: usize, before: usize) -> Result<(), ServiceError> {
    if properties <= MOST_OF_PROPERTIES || properties <= before {
        return Ok(());
    }
    let words = format!(
        "the properties of the namespace would have {properties} bytes; at most {MOST_OF_PROPERTIES} are allowed"
    );
    Err(ServiceError::invalid(words))
}

fn bytes<'a>(properties: impl IntoIterator<Item = (&'a String, &'a String)>) -> usize {
    properties.into_iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its parts.
    pub parts: Vec<String>,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
}

/// Changes of the properties of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceChange {
    /// Properties to set.
    pub updates: BTreeMap<String, String>,
    /// Properties to remove.
    pub removals: Vec<String>,
}

/// The most bytes that are kept of what a change did.
const LONGEST_NOTE: usize = 4096;

/// What a change of properties did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceChanged {
    /// Set.
    pub updated: Vec<String>,
    /// Removed.
    pub removed: Vec<String>,
    /// To be removed, and not there.
    pub missing: Vec<String>,
}

impl NamespaceChanged {
    /// What a later delivery of the request has to know: the names that were removed, if they are not too long.
    fn note(&self) -> String {
        serde_json::to_string(&self.removed).ok().filter(|note| note.len() <= LONGEST_NOTE).unwrap_or_default()
    }

    /// What the request did when it noted this.
    fn of_note(note: &str, change: &NamespaceChange) -> Self {
        let removed: Vec<String> = serde_json::from_str(note).unwrap_or_else(|_| change.removals.clone());
        let missing = change.removals.iter().filter(|name| !removed.contains(name)).cloned().collect();
        Self { updated: change.updates.keys().cloned().collect(), removed, missing }
    }
}

/// Which part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Where the last page ended; `None` for the first.
    pub token: Option<String>,
    /// The most entries; `None` for all.
    pub size: Option<usize>,
}

/// A part of a listing, and the token of the next part if there is one.
pub type Listing<T> = (Vec<T>, Option<String>);

pub(crate) fn no_namespace(parts: &[String]) -> ServiceError {
    ServiceError::new(Kind::NoNamespace, format!("Namespace does not exist: {}", dotted(parts)))
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Creates a namespace, with those above it that are missing, as Iceberg's own server does. Where each namespace
    /// has access rules of its own, the one above must exist: who may create it is another question.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NoNamespace`] for the parent, or what the commit proves.
    pub async fn create_namespace(&self, namespace: &Namespace, key: Option<&Idempotency>) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_create_namespace(namespace, key).await).await
    }

    async fn try_create_namespace(&self, namespace: &Namespace, key: Option<&Idempotency>) -> Result<(), ServiceError> {
        let Some(name) = namespace_name(&namespace.parts)? else {
            return Err(ServiceError::invalid("a namespace needs at least one part"));
        };
        self.check_location(&namespace.parts, &namespace.properties)?;
        affordable(bytes(&namespace.properties), 0)?;
        let entry = Entry { properties: namespace.properties.clone(), ..Entry::namespace() };
        let own = Action::Create { name: name.clone(), entry };
        let mut above = Vec::new();
        let mut tries = 0..8;
        let failure = loop {
            let done = self.inner.commit_once(key, [above.clone(), vec![own.clone()]].concat(), "").await;
            let Err(failure) = done else { return Ok(()) };
            let is_above = |refused: &Name| {
                above.iter().any(|action| matches!(action, Action::Create { name, .. } if name == refused))
            };
            let others_moved = match &failure {
                CommitFailure::Refused(Refusal::NoParent { name: of, .. }) => *of == name || is_above(of),
                CommitFailure::Refused(Refusal::Exists(of)) => is_above(of),
                _ => false,
            };
            if self.inner.settings.own_folders || !others_moved || tries.next().is_none() {
                break failure;
            }
            above = self.missing_above(&namespace.parts).await?;
        };
        let error = failure.told(|refusal| match refusal {
            Refusal::Exists(of) if *of == name => {
                let words = format!("Namespace already exists: {}", dotted(&namespace.parts));
                Some(ServiceError::new(Kind::Exists, words))
            }
            Refusal::NoParent { parent, .. } | Refusal::WrongKind { name: parent, .. } => {
                Some(no_namespace(&parent.parts()))
            }
            _ => None,
        });
        let mut parts = namespace.parts.clone();
        let own = parts.pop().unwrap_or_default();
        Err(self.taken(error, &Identifier { namespace: parts, name: own }, EntryKind::Namespace).await)
    }

    /// What creates the namespaces above one that are not there now, the highest first.
    async fn missing_above(&self, parts: &[String]) -> Result<Vec<Action>, ServiceError> {
        let at = self.head().await?;
        let mut missing = Vec::new();
        for length in 1..parts.len() {
            let Some(name) = namespace_name(&parts[..length])? else { continue };
            if self.entry(&at, &name).await?.is_none() {
                missing.push(Action::Create { name, entry: Entry::namespace() });
            }
        }
        Ok(missing)
    }

    /// A namespace with its properties.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn load_namespace(&self, parts: &[String]) -> Result<Namespace, ServiceError> {
        let at = self.head().await?;
        let entry = self.namespace_at(&at, parts).await?;
        Ok(Namespace { parts: parts.to_vec(), properties: entry.properties })
    }

    /// The folder in which the tables of a namespace without the property `location` get theirs.
    #[must_use]
    pub fn folder_of_namespace(&self, parts: &[String]) -> String {
        of_namespace(&self.inner.settings.warehouse, parts)
    }

    /// Refuses a location of a namespace outside of the folder in which it may choose one.
    fn check_location(&self, parts: &[String], properties: &BTreeMap<String, String>) -> Result<(), ServiceError> {
        let settings = &self.inner.settings;
        match properties.get("location") {
            Some(location) if settings.own_folders => checked_folder(location, &settings.folder_of(parts)).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether the catalog can be read.
    ///
    /// # Errors
    /// Why not.
    pub async fn ping(&self) -> Result<(), ServiceError> {
        self.head().await.map(drop)
    }

    /// The entry of a namespace; for the root an empty one.
    pub(crate) async fn namespace_at(&self, at: &C::Snapshot, parts: &[String]) -> Result<Entry, ServiceError> {
        let Some(name) = namespace_name(parts)? else { return Ok(Entry::namespace()) };
        let entry = self.entry(at, &name).await?;
        entry.filter(|entry| entry.kind == EntryKind::Namespace).ok_or_else(|| no_namespace(parts))
    }

    /// The properties of a namespace and of those that it is in, from the outermost; only those that exist.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub async fn ancestry(&self, parts: &[String]) -> Result<Vec<Namespace>, ServiceError> {
        let (at, mut found) = (self.head().await?, Vec::new());
        for end in 1..=parts.len() {
            let Some(name) = namespace_name(&parts[..end])? else { continue };
            match self.entry(&at, &name).await? {
                Some(entry) if entry.kind == EntryKind::Namespace => {
                    found.push(Namespace { parts: parts[..end].to_vec(), properties: entry.properties });
                }
                _ => break,
            }
        }
        Ok(found)
    }

    /// Drops a namespace, which must be empty.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`], [`Kind::NotEmpty`], or what the commit proves.
    pub async fn drop_namespace(&self, parts: &[String], key: Option<&Idempotency>) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_drop_namespace(parts, key).await).await
    }

    async fn try_drop_namespace(&self, parts: &[String], key: Option<&Idempotency>) -> Result<(), ServiceError> {
        let Some(name) = namespace_name(parts)? else {
            return Err(ServiceError::invalid("the root cannot be dropped"));
        };
        let action = Action::Drop { name, kind: EntryKind::Namespace, expected: None };
        let Err(failure) = self.inner.commit_once(key, vec![action], "").await else { return Ok(()) };
        let mut error = failure.told(|refusal| match refusal {
            Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_namespace(parts)),
            Refusal::NotEmpty(_) => {
                let words = format!("Namespace {} is not empty", dotted(parts));
                Some(ServiceError::new(Kind::NotEmpty, words))
            }
            _ => None,
        });
        if let (Kind::NotEmpty, Some(unseen)) = (error.kind, self.bare_in(parts).await) {
            error.message.push_str(&bare_words(&unseen));
        }
        Err(error)
    }

    /// One of the first entries of a namespace that clients do not see, after the error that it is not empty.
    async fn bare_in(&self, parts: &[String]) -> Option<Identifier> {
        let (at, parent) = (self.head().await.ok()?, namespace_name(parts).ok()?);
        let what = |_: &Name, entry: &Entry| Some(is_bare(entry));
        let catalog = self.inner.committer.catalog();
        let first = catalog.list(&at, parent.as_ref(), None, LOOKED_AT, what).await.ok()?;
        first.iter().find(|(_, is_bare)| *is_bare).map(|(name, _)| Identifier::of(name))
    }

    /// Changes properties of a namespace.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`]; [`Kind::Contradictory`] if a property is both set and removed; [`Kind::Unavailable`] if
    /// others change the properties to remove again and again.
    pub async fn change_namespace(
        &self,
        parts: &[String],
        change: &NamespaceChange,
        key: Option<&Idempotency>,
    ) -> Result<NamespaceChanged, ServiceError> {
        self.inner
            .once(key, async || {
                for _ in 0..MOST_CHANGED {
                    if let Some(changed) = self.try_change_namespace(parts, change, key).await? {
                        return Ok(changed);
                    }
                }
                let words = "others changed the properties to remove again and again; nothing was done: send it again";
                Err(ServiceError::new(Kind::Unavailable, words))
            })
            .await
    }

    /// `None` if another change of a property to remove came between look and commit.
    async fn try_change_namespace(
        &self,
        parts: &[String],
        change: &NamespaceChange,
        key: Option<&Idempotency>,
    ) -> Result<Option<NamespaceChanged>, ServiceError> {
        if let Some(both) = change.removals.iter().find(|removed| change.updates.contains_key(*removed)) {
            let words = format!("the property {both:?} is among the updates and among the removals");
            return Err(ServiceError::new(Kind::Contradictory, words));
        }
        let Some(name) = namespace_name(parts)? else {
            return Err(ServiceError::invalid("the root has no properties"));
        };
        self.check_location(parts, &change.updates)?;
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return Ok(Some(NamespaceChanged::of_note(&noted, change)));
        }
        let before = self.namespace_at(&at, parts).await?;
        let mut changed = NamespaceChanged { updated: change.updates.keys().cloned().collect(), ..Default::default() };
        for removed in &change.removals {
            let list =
                if before.properties.contains_key(removed) { &mut changed.removed } else { &mut changed.missing };
            list.push(removed.clone());
        }
        let set = change.updates.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        let changes: BTreeMap<_, _> = set.chain(changed.removed.iter().map(|key| (key.clone(), None))).collect();
        if changes.is_empty() && key.is_none() {
            return Ok(Some(changed));
        }
        let kept = before.properties.iter().filter(|(key, _)| !changes.contains_key(*key));
        affordable(bytes(kept) + bytes(&change.updates), bytes(&before.properties))?;
        // The answer says which of the properties to remove were there.
        let as_seen = |key: &String| {
            let holds = Assertion::Property { key: key.clone(), value: before.properties.get(key).cloned() };
            Action::Assert { name: name.clone(), holds }
        };
        let asserted = if mutant::is(Mutant::RemovalNotAsserted) { &[] } else { change.removals.as_slice() };
        let mut actions: Vec<Action> = asserted.iter().map(as_seen).collect();
        actions.push(Action::SetProperties { name, changes });
        match self.inner.commit_once(key, actions, &changed.note()).await {
            Ok(Operation::Done) => Ok(Some(changed)),
            Ok(Operation::Before(noted)) => Ok(Some(NamespaceChanged::of_note(&noted, change))),
            Err(CommitFailure::Refused(Refusal::PropertyChanged { .. })) => Ok(None),
            Err(failure) => Err(failure.told(|refusal| match refusal {
                Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_namespace(parts)),
                _ => None,
            })),
        }
    }

    /// The namespaces directly in one.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn list_namespaces(&self, parent: &[String], page: &Page) -> Result<Listing<Vec<String>>, ServiceError> {
        self.list_namespaces_where(parent, page, |_, _| true).await
    }

    /// As [`list_namespaces`](Self::list_namespaces), only those whose path and properties `wanted` selects.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn list_namespaces_where(
        &self,
        parent: &[String],
        page: &Page,
        wanted: impl Fn(&[String], &BTreeMap<String, String>) -> bool,
    ) -> Result<Listing<Vec<String>>, ServiceError> {
        let of_kind = |name: &Name, entry: &Entry| entry.kind == EntryKind::Namespace && !is_hidden(name);
        let wanted = |name: &Name, entry: &Entry| of_kind(name, entry) && wanted(&name.parts(), &entry.properties);
        let found = self.listed(parent, page, wanted).await?;
        Ok((found.0.iter().map(Name::parts).collect(), found.1))
    }

    /// The tables of Iceberg directly in a namespace.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn list_tables(&self, namespace: &[String], page: &Page) -> Result<Listing<Identifier>, ServiceError> {
        let found = self.listed(namespace, page, |_, entry| is_iceberg(entry)).await?;
        Ok((found.0.iter().map(Identifier::of).collect(), found.1))
    }

    /// The views directly in a namespace.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn list_views(&self, namespace: &[String], page: &Page) -> Result<Listing<Identifier>, ServiceError> {
        let found = self.listed(namespace, page, |_, entry| entry.kind == EntryKind::View && !is_bare(entry)).await?;
        Ok((found.0.iter().map(Identifier::of).collect(), found.1))
    }

    /// The names of entries directly in a namespace that `wanted` selects. The token of a page is the last part of its
    /// last name, so a listing continues right though names come and go.
    pub(crate) async fn listed(
        &self,
        namespace: &[String],
        page: &Page,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> Result<Listing<Name>, ServiceError> {
        let at = self.head().await?;
        self.namespace_at(&at, namespace).await?;
        let parent = namespace_name(namespace)?;
        let most = page.size.map_or(usize::MAX, |size| size.clamp(1, MOST_OF_A_PAGE));
        let last = page.token.as_deref().filter(|token| !token.is_empty());
        let after = last.map(|last| Name::in_namespace(parent.as_ref(), last));
        let after = after.transpose().map_err(|_| ServiceError::invalid("pageToken: not a token of this server"))?;
        let asked = most.saturating_add(1);
        let what = |name: &Name, entry: &Entry| wanted(name, entry).then_some(());
        let listed = self.inner.committer.catalog().list(&at, parent.as_ref(), after.as_ref(), asked, what).await?;
        let mut found: Vec<Name> = listed.into_iter().map(|(name, ())| name).collect();
        let has_more = found.len() > most;
        found.truncate(most);
        let token = found.last().filter(|_| has_more).map(|last| last.last().to_owned());
        Ok((found, token))
    }
}
