//! The list of protocols, and opening a catalog whose protocol only its store knows.
//!
//! A protocol is a folder with an `impl` of [`Design`], and a line in the list below. Simulations, checks, benchmarks
//! and the command line use the list. [`AnyCatalog`] is a catalog of any of them, for programs that do not choose one:
//! it only selects the protocol at run time.
//!
//! The object `protocol` (`registry/label.rs`) names the protocol of the catalog below a prefix. Steps of a creation:
//!
//! 1. Read the label. If it names another protocol, there is, or will be, another catalog: conflict.
//! 2. Look for objects of each protocol. If there are any, there is a catalog (conflict), or the remains of one
//!    (refused).
//! 3. Put the label if absent. Of two concurrent creations with different protocols, one loses.
//! 4. Create the catalog with the protocol. A process that crashes before leaves a label without a catalog; the same
//!    creation may be tried again.

mod any;
mod check;
mod label;
mod traces;

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use glidepath_env::{Cause, Env, Key, ObjectStore};
use glidepath_model::{Action, ByteSize, Changes, Entry, Kind, Name, TableId, TableState, Version};

use crate::afterwards::{Made, Write};
use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::group::{GroupAttempt, Grouped};
use crate::manifest_chain::Layout;
use crate::upkeep::{Changed, Facts, Keep, Removed, Report, VacuumError};
use crate::{append_log, catalog_file, manifest_chain, tickets};

/// The interface of a protocol to code that works with all of them. The type that implements it has no values.
pub trait Design: 'static {
    /// Its name, as people write it.
    const NAME: &'static str;

    /// Objects that only a catalog of this protocol has below its prefix: keys, or prefixes of keys if they end in `/`.
    /// The creation of a catalog writes none of them before its commit point.
    const TRACES: &'static [&'static str];

    /// Whether it appends to objects, which few stores support.
    const APPENDS: bool = false;

    /// Whether table metadata can be kept in the catalog itself.
    const HOLDS_METADATA: bool = false;

    /// Whether a handle learns of versions from other handles of its process. Simulations then make an event of every
    /// operation, so that no handle learns of a version before it was written.
    const SHARES: bool = true;

    /// Whether the answer to a commit has the commit's own version, never a later one.
    const TELLS_OWN_VERSION: bool = false;

    /// Whether the catalog as a whole has versions. If not, [`Catalog::version`] is `None`, commits are known by their
    /// ids ([`Facts::commit`]), and the versions in reports of maintenance mean nothing.
    const VERSIONED: bool = true;

    /// Whether versions carry the time at which they were written.
    const KEEPS_TIMES: bool = false;

    /// Whether versions before the newest can be read, until a vacuum.
    const KEEPS_OLD: bool = false;

    /// Whether each request of a group makes a version of its own.
    const VERSION_PER_REQUEST: bool = false;

    /// The layouts a catalog may have; the first is the default. Empty if there is only one.
    const LAYOUTS: &'static [Layout] = &[];

    /// A catalog at one version.
    type Snapshot: Clone + Debug;

    /// What the handles of a process to one catalog share.
    type SharedState: Send + Sync + 'static;

    /// A handle to a catalog.
    type Catalog<E: Env>: Grouped<Snapshot = Self::Snapshot>;

    /// The state shared by the handles to the catalog below this prefix (empty, or ending in `/`).
    fn shared_state(prefix: &str, settings: &Settings) -> Self::SharedState;

    /// A handle to it. Makes no request.
    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<Self::SharedState>) -> Self::Catalog<E>;

    /// Creates a catalog. `Conflict` if there is one.
    fn create<E: Env>(catalog: &Self::Catalog<E>, creation: Creation) -> impl Future<Output = Outcome<Self::Snapshot>>;

    /// What is known of a version besides its entries.
    fn facts(at: &Self::Snapshot) -> Facts;

    /// The oldest kept version, given the newest; all between them are kept, too.
    fn oldest<E: Env>(
        catalog: &Self::Catalog<E>,
        newest: &Self::Snapshot,
    ) -> impl Future<Output = Result<Version, LoadError>> {
        ready(Ok(catalog.version(newest).unwrap_or_default()))
    }

    /// A kept version; `None` if there is none with this number.
    fn version_at<E: Env>(
        catalog: &Self::Catalog<E>,
        version: Version,
    ) -> impl Future<Output = Result<Option<Self::Snapshot>, LoadError>> {
        async move { Ok(Some(catalog.load().await?).filter(|newest| catalog.version(newest) == Some(version))) }
    }

    /// Up to `limit` names in which two versions (`None`: an empty one) differ. Never called for protocols that keep
    /// only one version.
    fn changed<E: Env>(
        _: &Self::Catalog<E>,
        _: Option<&Self::Snapshot>,
        _: &Self::Snapshot,
        _: usize,
    ) -> impl Future<Output = Result<Vec<Changed>, LoadError>> {
        ready(Ok(Vec::new()))
    }

    /// Removes what no kept version needs, concurrently with others. May be dropped at any point, and run again.
    fn vacuum<E: Env>(catalog: &Self::Catalog<E>, _: Keep) -> impl Future<Output = Result<Removed, VacuumError>> {
        async {
            let newest = catalog.version(&catalog.load().await?).unwrap_or_default();
            Ok(Removed {
                before: newest,
                oldest: newest,
                newest,
                deleted: Vec::new(),
                emptied: Vec::new(),
                retired: Vec::new(),
                kept: 0,
            })
        }
    }

    /// Checks every object. If `mend` is set and nothing is damaged, repairs what is proven to be wrong.
    fn fsck<E: Env>(catalog: &Self::Catalog<E>, mend: bool) -> impl Future<Output = Result<Report, LoadError>>;

    /// Every version that the catalog has had, oldest first, from everything ever written to its store, in the order in
    /// which it took effect. (What was there before a checked run comes first, in the order of its keys.)
    ///
    /// # Errors
    /// What cannot be read, or should not have been written, as text.
    fn versions(shared_state: Self::SharedState, writes: &[Write]) -> Result<Vec<Made>, String>;
}

/// The settings of a handle. A protocol uses those that concern it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The bytes that each numbered table adds to the catalog, as if its metadata were kept there.
    pub metadata_per_table: ByteSize,
    /// Limits so small that short runs reach all of them; each number gives different ones.
    pub test_limits: Option<u32>,
}

/// The settings of a new catalog. A protocol uses those that concern it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Numbered tables of the first version, by rising numbers. (Protocols that cannot create them with the catalog
    /// commit them directly after.)
    pub tables: Vec<(TableId, TableState)>,
    /// The layout, if there are several.
    pub layout: Layout,
    /// Whether a manifest chain has indices by type and by base object.
    pub indexed: bool,
}

impl Default for Creation {
    fn default() -> Self {
        Self { tables: Vec::new(), layout: Layout::Paged, indexed: true }
    }
}

/// The features of a protocol: the constants of its [`Design`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// See [`Design::APPENDS`].
    pub appends: bool,
    /// See [`Design::HOLDS_METADATA`].
    pub holds_metadata: bool,
    /// See [`Design::VERSIONED`].
    pub versioned: bool,
    /// See [`Design::KEEPS_TIMES`].
    pub keeps_times: bool,
    /// See [`Design::KEEPS_OLD`].
    pub keeps_old: bool,
    /// See [`Design::LAYOUTS`].
    pub layouts: &'static [Layout],
}

/// An operation on the types of a protocol that is chosen at run time.
pub trait Visitor {
    /// Its result.
    type Output;

    /// Runs it.
    fn visit<D: Design>(self) -> Self::Output;
}

any::protocols! {
    /// One object, replaced by a guarded put.
    CatalogFile: catalog_file::OneFile;
    /// A chain of versions.
    ManifestChain: manifest_chain::Chain;
    /// Records appended to a log.
    AppendLog: append_log::Log;
    /// A register per name, without a common root.
    Tickets: tickets::PerName;
    /// A minimal protocol.
    Toy: crate::toy::Toy, if "toy";
}
impl serde::Serialize for Protocol {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Protocol {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        let wrong = || {
            let names: Vec<&str> = Self::ALL.iter().map(|protocol| protocol.name()).collect();
            serde::de::Error::custom(format!("found {found:?}, allowed is one of {}", names.join(", ")))
        };
        Self::named(&found).ok_or_else(wrong)
    }
}

struct FeaturesOf;

impl Visitor for FeaturesOf {
    type Output = Features;

    fn visit<D: Design>(self) -> Features {
        Features {
            appends: D::APPENDS,
            holds_metadata: D::HOLDS_METADATA,
            versioned: D::VERSIONED,
            keeps_times: D::KEEPS_TIMES,
            keeps_old: D::KEEPS_OLD,
            layouts: D::LAYOUTS,
        }
    }
}

impl Protocol {
    /// A handle to the catalog of this protocol below a prefix (empty, or ending in `/`), with default settings. Makes
    /// no request.
    pub fn open<E: Env>(self, env: E, store: E::Objects, prefix: &str) -> AnyCatalog<E> {
        self.shared_state(prefix, &Settings::default()).open(env, store)
    }

    /// Its features.
    #[must_use]
    pub fn features(self) -> Features {
        self.visit(FeaturesOf)
    }

    /// Why a catalog of this protocol cannot be kept in key-value stores, if it cannot: what can be said before one is
    /// opened, which may create it.
    #[must_use]
    pub fn unfit_for_rows(self) -> Option<String> {
        self.features().appends.then(|| {
            let others = Self::which(|features| !features.appends);
            format!("{} appends to objects, which key-value stores cannot; allowed there: {others}", self.name())
        })
    }

    /// The names of the protocols that satisfy a condition: "one, another or a third".
    #[must_use]
    pub fn which(so: impl Fn(Features) -> bool) -> String {
        let names: Vec<&str> = Self::ALL.iter().filter(|one| so(one.features())).map(|one| one.name()).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => "none".to_owned(),
        }
    }

    /// The protocol of a new catalog where nobody asks for another. In the rows of a key-value store a commit of
    /// [`Tickets`](Self::Tickets) writes those of its own tables, and one of any other protocol a row that all commits
    /// share.
    #[must_use]
    pub fn usual(in_rows: bool) -> Self {
        if in_rows { Self::Tickets } else { Self::ManifestChain }
    }

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
    /// The catalog below a prefix (empty, or ending in `/`), by the protocol that its label names or, if the label is
    /// missing, by its objects. With a label, reads nothing else: a [`load`](Catalog::load) tells whether there is a
    /// catalog.
    ///
    /// # Errors
    /// There is neither a label nor an object of a catalog; the label cannot be read, or names an unknown protocol; or
    /// the label is missing and there are objects of several protocols.
    pub async fn find(env: E, store: E::Objects, prefix: &str) -> Result<Self, LoadError> {
        let protocol = match label::read::<E>(&store, prefix).await? {
            Some(protocol) => protocol,
            None => match traces::found::<E>(&store, prefix).await?[..] {
                [] => return Err(LoadError::NotFound),
                [(protocol, _)] => protocol,
                [(one, ref first), (another, ref second), ..] => {
                    let words = format!(
                        "the object `protocol` is missing, and there are objects of {} ({first}) and of {} \
                         ({second}): restore it from a backup, or move the objects that do not belong here elsewhere",
                        one.name(),
                        another.name()
                    );
                    return Err(LoadError::Undecodable(Cause::words(words)));
                }
            },
        };
        Ok(protocol.open(env, store, prefix))
    }

    /// Why a handle [found](LoadError::NotFound) no catalog, for messages. `Undecodable` if there are objects of a
    /// catalog nevertheless, `NotFound` if there are none.
    pub async fn why_not_found(store: &E::Objects, prefix: &str) -> LoadError {
        let label = label::read::<E>(store, prefix).await;
        match (label, traces::found::<E>(store, prefix).await) {
            (Err(error), _) | (_, Err(error)) => error,
            (Ok(label), Ok(found)) => {
                let Some((protocol, key)) = found.into_iter().next() else { return LoadError::NotFound };
                LoadError::Undecodable(remains(label, protocol, &key))
            }
        }
    }

    /// Creates an empty catalog below a prefix (empty, or ending in `/`), and returns a handle to it. `Conflict` if
    /// there is one, of any protocol, or if a label already names another protocol; `find` tells which. `Refused` if
    /// there are objects of a catalog that cannot be read.
    pub async fn create(
        env: E,
        store: E::Objects,
        prefix: &str,
        protocol: Protocol,
        creation: Creation,
    ) -> (Self, Outcome<AnySnapshot>) {
        let catalog = protocol.open(env.clone(), store.clone(), prefix);
        let outcome = match Self::prepare(&env, &store, prefix, protocol).await {
            Some(outcome) => outcome,
            // Step 4.
            None => catalog.create_here(creation).await,
        };
        (catalog, outcome)
    }

    /// Steps 1 to 3. `None` if a catalog can be created.
    async fn prepare(env: &E, store: &E::Objects, prefix: &str, protocol: Protocol) -> Option<Outcome<AnySnapshot>> {
        let label = match label::read::<E>(store, prefix).await {
            Ok(label) => label,
            Err(error) => return Some(Outcome::not_read(error)),
        };
        let found = match traces::found::<E>(store, prefix).await {
            Ok(found) => found.into_iter().next(),
            Err(error) => return Some(Outcome::not_read(error)),
        };
        match (label, found) {
            (Some(label), None) if label != protocol => Some(Outcome::Conflict(None)),
            (_, Some((of, key))) => Some(match of.open(env.clone(), store.clone(), prefix).load().await {
                Ok(head) if label.is_none_or(|label| label == of) => {
                    Outcome::Conflict((of == protocol).then_some(head))
                }
                Ok(_) | Err(LoadError::NotFound) => Outcome::refused(remains(label, of, &key)),
                Err(error) => Outcome::not_read(error),
            }),
            // Otherwise its label would be in the way of the others.
            (None, None) if protocol.features().appends && !store.capabilities().append => {
                Some(Outcome::refused(Cause::words(append_log::CANNOT_APPEND)))
            }
            (None, None) => label::put(env, store, prefix, protocol).await,
            (Some(_), None) => None,
        }
    }
}

/// How to repair a label. Its bytes depend on the store, so users should not write it themselves.
const RELABEL: &str =
    "delete the object `protocol`; then `glidepath catalog fsck STORE --mend` puts it back with the right name";

/// The objects of a catalog that cannot be read.
fn remains(label: Option<Protocol>, of: Protocol, key: &Key) -> Cause {
    let name = of.name();
    Cause::words(match label {
        Some(label) if label != of => format!(
            "the object `protocol` says {}, and there are objects of a catalog of {name} (such as {key}): {RELABEL}",
            label.name()
        ),
        _ => format!(
            "there are objects of a catalog of {name} here (such as {key}), but the catalog itself \
             is lost or damaged"
        ),
    })
}

fn foreign() -> LoadError {
    LoadError::Failed(Cause::words("this snapshot is of a catalog of another protocol"))
}

#[cfg(test)]
mod tests;
