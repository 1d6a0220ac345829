//! Which protocols are there, and how is a catalog opened whose protocol only its store knows?
//!
//! A protocol is a folder, in it an `impl` of [`Design`], and a line in the list below. That is all: simulations, checks,
//! benchmarks and the command line take what is in the list. [`AnyCatalog`] is a catalog of any of them, for
//! programs that do not choose one: it does what its protocol does, and adds nothing but a choice between a few cases.
//!
//! The object `protocol` (`registry/label.rs`) says which protocol keeps the catalog below a prefix. Steps of a creation:
//!
//! 1. Read the label. Where it names another protocol, there is, or will be, another catalog: conflict.
//! 2. Look for objects of each protocol. Where there are any, a catalog is there (conflict), or what is left of one (refused).
//! 3. Put the label if there is none. Of two who create catalogs of different protocols at a time, one loses.
//! 4. Create the catalog, as the protocol does. Who dies before leaves a label and no catalog; the same creation may be tried
//!    again.

mod any;
mod label;
mod traces;

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use glidepath_env::{Cause, Env, Key};
use glidepath_model::{Action, ByteSize, Changes, Entry, Kind, Name, TableId, TableState, Version};

use crate::afterwards::{Made, Write};
use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::group::{GroupAttempt, Grouped};
use crate::manifest_chain::Layout;
use crate::upkeep::{Changed, Facts, Keep, Removed, Report, VacuumError};
use crate::{append_log, catalog_file, manifest_chain};

/// A protocol, as whoever works with any of them sees it. The type that implements it has no values.
pub trait Design: 'static {
    /// As people write it.
    const NAME: &'static str;

    /// Objects that only a catalog of this protocol has, below its prefix: keys, or beginnings of keys where they end in `/`. The creation
    /// of a catalog leaves none of them before its commit point.
    const TRACES: &'static [&'static str];

    /// Whether it appends to objects, which few stores can.
    const APPENDS: bool = false;

    /// Whether table metadata can be kept in the catalog itself.
    const HOLDS_METADATA: bool = false;

    /// Whether a handle learns of versions by what other handles of its process did. Simulations then make an event of every operation,
    /// so that nobody learns of what has not happened yet.
    const SHARES: bool = true;

    /// Whether an acknowledged commit is told its own version, not a later one.
    const TELLS_OWN_VERSION: bool = false;

    /// Whether versions carry the time at which they were written.
    const KEEPS_TIMES: bool = false;

    /// Whether each request of a group makes a version of its own.
    const VERSION_PER_REQUEST: bool = false;

    /// How entries can lie in objects; the first one is the usual. Empty where there is only one way.
    const LAYOUTS: &'static [Layout] = &[];

    /// A catalog at one version.
    type Snapshot: Clone + Debug;

    /// What the handles of a process to one catalog share.
    type Place: Send + Sync + 'static;

    /// A handle to a catalog.
    type Catalog<E: Env>: Grouped<Snapshot = Self::Snapshot>;

    /// The catalog below this prefix (empty, or ending in `/`).
    fn place(prefix: &str, settings: &Settings) -> Self::Place;

    /// A handle to it. Makes no request.
    fn open<E: Env>(env: E, store: E::Objects, place: Arc<Self::Place>) -> Self::Catalog<E>;

    /// Creates a catalog. `Conflict` if there is one.
    fn create<E: Env>(catalog: &Self::Catalog<E>, creation: Creation) -> impl Future<Output = Outcome<Self::Snapshot>>;

    /// What is known of a version beside its entries.
    fn facts(at: &Self::Snapshot) -> Facts;

    /// The oldest version that is kept, given the newest; all after it are kept, too.
    fn oldest<E: Env>(
        catalog: &Self::Catalog<E>,
        newest: &Self::Snapshot,
    ) -> impl Future<Output = Result<Version, LoadError>> {
        ready(Ok(catalog.version(newest)))
    }

    /// A version that is kept; `None` if there is none of this number.
    fn version_at<E: Env>(
        catalog: &Self::Catalog<E>,
        version: Version,
    ) -> impl Future<Output = Result<Option<Self::Snapshot>, LoadError>> {
        async move { Ok(Some(catalog.load().await?).filter(|newest| catalog.version(newest) == version)) }
    }

    /// Up to `limit` names that two versions (`None`: nothing at all) differ in. Protocols that keep one version are never asked.
    fn changed<E: Env>(
        _: &Self::Catalog<E>,
        _: Option<&Self::Snapshot>,
        _: &Self::Snapshot,
        _: usize,
    ) -> impl Future<Output = Result<Vec<Changed>, LoadError>> {
        ready(Ok(Vec::new()))
    }

    /// Removes what no kept version needs, while others go on. It can be dropped at any point, and run again.
    fn vacuum<E: Env>(catalog: &Self::Catalog<E>, _: Keep) -> impl Future<Output = Result<Removed, VacuumError>> {
        async {
            let newest = catalog.version(&catalog.load().await?);
            Ok(Removed { before: newest, oldest: newest, newest, removed: Vec::new(), kept: 0 })
        }
    }

    /// Looks at every object. Where `mend` is set and nothing is damaged, mends what is proven to be right.
    fn fsck<E: Env>(catalog: &Self::Catalog<E>, mend: bool) -> impl Future<Output = Result<Report, LoadError>>;

    /// Every version that the catalog has had, oldest first, from all that was ever written to its store, in the order in which it took
    /// effect.
    ///
    /// # Errors
    /// What cannot be read, or should not have been written, in words.
    fn versions(place: Self::Place, writes: &[Write]) -> Result<Vec<Made>, String>;
}

/// How a handle is set up. A protocol takes what concerns it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What each numbered table adds to the catalog, as if its metadata were kept there.
    pub metadata_per_table: ByteSize,
    /// So small, in a way of its own for each number, that short runs meet every limit.
    pub tiny: Option<u32>,
}

/// What is chosen when a catalog is created. A protocol takes what concerns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Numbered tables that are there from the beginning, by rising numbers. (Protocols that cannot create them at once commit them at
    /// once behind the creation.)
    pub tables: Vec<(TableId, TableState)>,
    /// How the entries lie in objects, where there are several ways.
    pub layout: Layout,
    /// Whether a manifest chain has indices by type and by base object.
    pub indexed: bool,
}

impl Default for Creation {
    fn default() -> Self {
        Self { tables: Vec::new(), layout: Layout::Paged, indexed: true }
    }
}

/// What is peculiar to a protocol: the constants of its [`Design`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// See [`Design::APPENDS`].
    pub appends: bool,
    /// See [`Design::HOLDS_METADATA`].
    pub holds_metadata: bool,
    /// See [`Design::KEEPS_TIMES`].
    pub keeps_times: bool,
    /// See [`Design::LAYOUTS`].
    pub layouts: &'static [Layout],
}

/// Something to be done with the types of a protocol that is known only when the program runs.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<D: Design>(self) -> Self::Output;
}

any::protocols! {
    /// One object, replaced by a guarded put.
    CatalogFile: catalog_file::OneFile;
    /// A chain of versions.
    ManifestChain: manifest_chain::Chain;
    /// Records appended to a log.
    AppendLog: append_log::Log;
    /// The least that a protocol can be.
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

struct TraitsOf;

impl Visitor for TraitsOf {
    type Output = Traits;

    fn visit<D: Design>(self) -> Traits {
        Traits {
            appends: D::APPENDS,
            holds_metadata: D::HOLDS_METADATA,
            keeps_times: D::KEEPS_TIMES,
            layouts: D::LAYOUTS,
        }
    }
}

impl Protocol {
    /// A handle to the catalog of this protocol below a prefix (empty, or ending in `/`), with the usual settings. Makes no request.
    pub fn open<E: Env>(self, env: E, store: E::Objects, prefix: &str) -> AnyCatalog<E> {
        self.place(prefix, &Settings::default()).open(env, store)
    }

    /// What is peculiar to it.
    #[must_use]
    pub fn traits(self) -> Traits {
        self.visit(TraitsOf)
    }

    /// Those that are so, by name: "one, another or a third".
    #[must_use]
    pub fn which(so: impl Fn(Traits) -> bool) -> String {
        let names: Vec<&str> = Self::ALL.iter().filter(|one| so(one.traits())).map(|one| one.name()).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => "none".to_owned(),
        }
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
    /// The catalog below a prefix (empty, or ending in `/`), by the protocol that its label names, or, where the label is lost, by its
    /// objects. With a label, reads nothing else: whether there is a catalog, a [`load`](Catalog::load) tells.
    ///
    /// # Errors
    /// There is neither a label nor an object of a catalog; the label cannot be read, or names no protocol that is known; without a label,
    /// there are objects of several protocols.
    pub async fn find(env: E, store: E::Objects, prefix: &str) -> Result<Self, LoadError> {
        let protocol = match label::read::<E>(&store, prefix).await? {
            Some(protocol) => protocol,
            None => match traces::found::<E>(&store, prefix).await?[..] {
                [] => return Err(LoadError::NotFound),
                [(protocol, _)] => protocol,
                [(one, ref first), (another, ref second), ..] => {
                    let words = format!(
                        "the object `protocol` is missing, and there are objects of {} ({first}) and of {} ({second}): put the right \
                         name and a line feed there",
                        one.name(),
                        another.name()
                    );
                    return Err(LoadError::Undecodable(Cause::words(words)));
                }
            },
        };
        Ok(protocol.open(env, store, prefix))
    }

    /// Why no catalog was [found](LoadError::NotFound) by a handle: for messages. `Undecodable` where objects of a catalog are there all the
    /// same, `NotFound` where there are none.
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

    /// As [`fsck`](Self::fsck) for a catalog below this prefix, its label included, which is put back where `mend` is set.
    ///
    /// # Errors
    /// As [`fsck`](Self::fsck).
    pub async fn fsck_with_label(
        &self,
        env: &E,
        store: &E::Objects,
        prefix: &str,
        mend: bool,
    ) -> Result<Report, LoadError> {
        let mut report = self.fsck(mend).await?;
        if label::read::<E>(store, prefix).await?.is_none() {
            report.findings.push(label::missing(prefix));
            if mend && !report.is_damaged() && label::put(env, store, prefix, self.protocol()).await.is_none() {
                report.mended.push(format!("the object `protocol` says {} again", self.protocol().name()));
            }
        }
        Ok(report)
    }

    /// Creates an empty catalog below a prefix (empty, or ending in `/`), and returns a handle to it. `Conflict` if there is one, of
    /// whatever protocol, or if the place was taken for another protocol; `find` tells which. `Refused` if there are objects of a catalog
    /// that cannot be read.
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
            (None, None) => label::put(env, store, prefix, protocol).await,
            (Some(_), None) => None,
        }
    }
}

/// What is left of a catalog that cannot be read.
fn remains(label: Option<Protocol>, of: Protocol, key: &Key) -> Cause {
    let name = of.name();
    Cause::words(match label {
        Some(label) if label != of => format!(
            "the object `protocol` says {}, and there are objects of a catalog of {name} (such as {key}): put {name} and a line feed there \
             to open it",
            label.name()
        ),
        _ => format!(
            "there are objects of a catalog of {name} here (such as {key}), but what makes it a catalog is lost or damaged"
        ),
    })
}

fn foreign() -> LoadError {
    LoadError::Failed(Cause::words("this snapshot is of a catalog of another protocol"))
}

#[cfg(test)]
mod tests;
