//! Which protocols are there, and how is a catalog opened whose protocol only its store knows?
//!
//! A protocol is a folder, with its `NAME` and an `impl` of [`Design`], and a line in the list below. [`AnyCatalog`] is a catalog of any of them, for
//! programs that do not choose one: it does what its protocol does, and adds nothing but a choice between a few cases.
//!
//! The object `protocol` (`registry/label.rs`) says which protocol keeps the catalog below a prefix. Steps of a creation:
//!
//! 1. Read the label. Where it names another protocol, there is, or will be, another catalog: conflict.
//! 2. Where there is no label, look for a catalog of the protocol that had none: it keeps its place.
//! 3. Put the label if there is none. Of two who create catalogs of different protocols at a time, one loses.
//! 4. Create the catalog, as the protocol does. Who dies before leaves a label and no catalog; the same creation may be tried
//!    again.

mod label;

use glidepath_env::{Cause, Env};
use glidepath_model::{Action, Changes, CommitId, Entry, Name, TableId, Version};

use crate::append_log::{self, AppendLog};
use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::catalog_file::{self, CatalogFile};
use crate::group::{GroupAttempt, Grouped};
use crate::manifest_chain::{self, Layout, ManifestChain};

/// What a protocol brings along to be in the list.
pub trait Design<E: Env>: Grouped + Sized {
    /// A handle to the catalog below this prefix (empty, or ending in `/`), with the protocol's usual settings. Makes no request.
    fn open(env: E, store: E::Objects, prefix: &str) -> Self;

    /// Creates an empty catalog. `Conflict` if there is one.
    fn create_empty(&self, creation: &Creation) -> impl Future<Output = Outcome<Self::Snapshot>>;

    /// The commit that made a snapshot.
    fn commit_of(at: &Self::Snapshot) -> CommitId;
}

/// What is chosen when a catalog is created. A protocol takes what concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// How the entries of a manifest chain lie in objects.
    pub layout: Layout,
    /// Whether a manifest chain has indices by type and by base object.
    pub indexed: bool,
}

impl Default for Creation {
    fn default() -> Self {
        Self { layout: Layout::Paged, indexed: true }
    }
}

macro_rules! protocols {
    ($($(#[$doc:meta])* $variant:ident: $module:ident;)*) => {
        /// A protocol that a catalog may be kept by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Protocol {
            $($(#[$doc])* $variant,)*
        }

        impl Protocol {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        /// A catalog of any protocol.
        pub enum AnyCatalog<E: Env> {
            $($(#[$doc])* $variant($variant<E>),)*
        }

        impl<E: Env + Clone> Clone for AnyCatalog<E>
        where
            E::Objects: Clone,
        {
            fn clone(&self) -> Self {
                match self {
                    $(Self::$variant(catalog) => Self::$variant(catalog.clone()),)*
                }
            }
        }

        /// A snapshot of a catalog of any protocol.
        #[derive(Clone, Debug)]
        pub enum AnySnapshot {
            $($(#[$doc])* $variant($module::Snapshot),)*
        }

        impl Protocol {
            /// As people write it, and as the label has it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $module::NAME,)*
                }
            }

            /// A handle to the catalog of this protocol below a prefix (empty, or ending in `/`). Makes no request.
            pub fn open<E: Env>(self, env: E, store: E::Objects, prefix: &str) -> AnyCatalog<E> {
                match self {
                    $(Self::$variant => AnyCatalog::$variant($variant::open(env, store, prefix)),)*
                }
            }
        }

        impl<E: Env> AnyCatalog<E> {
            /// Its protocol.
            #[must_use]
            pub fn protocol(&self) -> Protocol {
                match self {
                    $(Self::$variant(_) => Protocol::$variant,)*
                }
            }

            /// The commit that made a snapshot.
            #[must_use]
            pub fn commit_of(&self, at: &AnySnapshot) -> CommitId {
                match at {
                    $(AnySnapshot::$variant(at) => <$variant<E> as Design<E>>::commit_of(at),)*
                }
            }

            async fn create_empty(&self, creation: &Creation) -> Outcome<AnySnapshot> {
                match self {
                    $(Self::$variant(catalog) => {
                        catalog.create_empty(creation).await.map(AnySnapshot::$variant)
                    })*
                }
            }
        }

        impl<E: Env> Catalog for AnyCatalog<E> {
            type Snapshot = AnySnapshot;

            async fn load(&self) -> Result<AnySnapshot, LoadError> {
                match self {
                    $(Self::$variant(catalog) => catalog.load().await.map(AnySnapshot::$variant),)*
                }
            }

            fn version(&self, at: &AnySnapshot) -> Version {
                match (self, at) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(at)) => catalog.version(at),)*
                    _ => Version(0),
                }
            }

            async fn tables<'a>(&self, at: &'a AnySnapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
                match (self, at) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(at)) => catalog.tables(at, ids).await,)*
                    _ => Err(foreign()),
                }
            }

            async fn entry(&self, at: &AnySnapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
                match (self, at) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::entry(catalog, at, name).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn children(
                &self,
                at: &AnySnapshot,
                namespace: Option<&Name>,
                after: Option<&Name>,
                limit: usize,
            ) -> Result<Vec<(Name, Entry)>, LoadError> {
                match (self, at) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::children(catalog, at, namespace, after, limit).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn commit(&self, base: &AnySnapshot, changes: &Changes) -> Outcome<AnySnapshot> {
                match (self, base) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(base)) => {
                        catalog.commit(base, changes).await.map(AnySnapshot::$variant)
                    })*
                    _ => Outcome::not_read(foreign()),
                }
            }
        }

        impl<E: Env> Grouped for AnyCatalog<E> {
            fn newest_known(&self) -> Option<AnySnapshot> {
                match self {
                    $(Self::$variant(catalog) => catalog.newest_known().map(AnySnapshot::$variant),)*
                }
            }

            async fn attempt_group(&self, base: &AnySnapshot, requests: &[&[Action]]) -> GroupAttempt<AnySnapshot> {
                match (self, base) {
                    $((Self::$variant(catalog), AnySnapshot::$variant(base)) => {
                        catalog.attempt_group(base, requests).await.map(AnySnapshot::$variant)
                    })*
                    _ => GroupAttempt::NotMade(foreign()),
                }
            }
        }
    };
}

protocols! {
    /// One object, replaced by a guarded put.
    CatalogFile: catalog_file;
    /// A chain of versions.
    ManifestChain: manifest_chain;
    /// Records appended to a log.
    AppendLog: append_log;
}

/// Catalogs that have no label are of this protocol: it was the first that held names.
const UNLABELLED: Protocol = Protocol::ManifestChain;

impl Protocol {
    /// The protocol of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.name() == name)
    }
}

impl<E: Env + Clone> AnyCatalog<E>
where
    E::Objects: Clone,
{
    /// The catalog below a prefix (empty, or ending in `/`), by the protocol that its label names. Reads the label only: whether
    /// there is a catalog, a [`load`](Catalog::load) tells.
    ///
    /// # Errors
    /// The label cannot be read, or names no protocol that is known.
    pub async fn find(env: E, store: E::Objects, prefix: &str) -> Result<Self, LoadError> {
        let protocol = label::read::<E>(&store, prefix).await?.unwrap_or(UNLABELLED);
        Ok(protocol.open(env, store, prefix))
    }

    /// Creates an empty catalog below a prefix (empty, or ending in `/`), and returns a handle to it. `Conflict` if there is one, of
    /// whatever protocol, or if the place was taken for another protocol; `find` tells which.
    pub async fn create(
        env: E,
        store: E::Objects,
        prefix: &str,
        protocol: Protocol,
        creation: &Creation,
    ) -> (Self, Outcome<AnySnapshot>) {
        let catalog = protocol.open(env.clone(), store.clone(), prefix);
        // Steps 1 to 3.
        let refused = match label::read::<E>(&store, prefix).await {
            Ok(Some(found)) if found == protocol => None,
            Ok(Some(_)) => Some(Outcome::Conflict(None)),
            Ok(None) => match UNLABELLED.open(env.clone(), store.clone(), prefix).load().await {
                Ok(head) => Some(Outcome::Conflict((protocol == UNLABELLED).then_some(head))),
                Err(LoadError::NotFound) => label::put(&env, &store, prefix, protocol).await,
                Err(error) => Some(Outcome::not_read(error)),
            },
            Err(error) => Some(Outcome::not_read(error)),
        };
        let outcome = match refused {
            Some(outcome) => outcome,
            // Step 4.
            None => catalog.create_empty(creation).await,
        };
        (catalog, outcome)
    }
}

fn foreign() -> LoadError {
    LoadError::Failed(Cause::words("this snapshot is of a catalog of another protocol"))
}

#[cfg(test)]
mod tests;
