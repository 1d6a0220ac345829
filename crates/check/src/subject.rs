//! Which protocols can be checked, and how is each set up and read afterwards?

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Key, Payload};
use glidepath_history::{Chain, Change, Item, Leftovers, references};
use glidepath_model::{ByteSize, Changes, CommitId, Edit, MetadataId, Span, TableId, TableState, Version};
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::manifest_chain::{self, Grace, Layout, ManifestChain, Sizes, Snapshot};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::StoreId;

use crate::frozen::{Frozen, at_once};

pub(crate) const STORE: StoreId = StoreId(0);

/// A protocol that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The whole catalog in one object.
    CatalogFile,
    /// A chain of versions, each with the pages that it changed.
    ManifestChain,
    /// A chain of versions, each with a file of columns of its own.
    ManifestChainWhole,
    /// Records appended to a log, and folded.
    AppendLog,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CatalogFile, Self::ManifestChain, Self::ManifestChainWhole, Self::AppendLog];

    /// As written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CatalogFile => "catalog-file",
            Self::ManifestChain => "manifest-chain",
            Self::ManifestChainWhole => "manifest-chain-whole",
            Self::AppendLog => "append-log",
        }
    }

    /// The protocol of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// What a run needs to know of a protocol.
pub(crate) trait Subject {
    /// What the threads of one process share.
    type Shared: 'static;
    type Catalog<E: Env>: Catalog;

    /// Processes of different numbers may be set up differently, where the protocol allows it.
    fn shared(process: u32) -> Arc<Self::Shared>;

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> Self::Catalog<E>;

    /// Creates an empty catalog, or one with these tables.
    async fn create<E: Env>(catalog: &Self::Catalog<E>, tables: u32) -> Result<(), String>;

    /// Cleans up, where the protocol does, and as much as it dares.
    async fn vacuum<E: Env>(catalog: &Self::Catalog<E>);

    /// What the catalog became: where each table stood in each version, oldest first, from the version of creation on.
    /// `written` is all that was ever written, for each key in the order in which it took effect.
    fn versions(written: &[(Key, Payload)], tables: u32) -> Result<Vec<(Version, Standing)>, String>;

    /// Whether all that is referred to is there; and, if somebody has cleaned up long after all was over, nothing else.
    fn references(_: &BTreeMap<Key, Payload>, _cleaned: bool) -> Result<(), String> {
        Ok(())
    }
}

/// The metadata id of each table.
pub(crate) type Standing = Vec<MetadataId>;

pub(crate) fn tables(count: u32) -> Vec<(TableId, TableState)> {
    (0..count).map(|id| (TableId(id), TableState::new(1))).collect()
}

/// The chain of commits that leads through these versions.
pub(crate) fn chain(versions: &[(Version, Standing)]) -> Chain {
    let Some(((base, first), rest)) = versions.split_first() else { return Chain::new() };
    let item = |table: usize| Item(table as u64);
    let initial = first.iter().enumerate().map(|(table, metadata)| (item(table), CommitId(metadata.0)));
    let mut chain = Chain::starting_at(*base, initial);
    let mut before = first;
    for (version, standing) in rest {
        chain.begin_version(*version);
        let mut commits: BTreeMap<CommitId, Vec<Change>> = BTreeMap::new();
        for (table, (old, new)) in before.iter().zip(standing).enumerate() {
            if old != new {
                let commit = CommitId(new.0);
                commits.entry(commit).or_default().push(Change { item: item(table), now: Some(commit) });
            }
        }
        for (commit, changes) in commits {
            chain.push(commit, changes);
        }
        before = standing;
    }
    chain
}

pub(crate) struct OneFile;

impl Subject for OneFile {
    type Shared = catalog_file::Place;
    type Catalog<E: Env> = CatalogFile<E>;

    fn shared(_: u32) -> Arc<Self::Shared> {
        Arc::new(catalog_file::Place::new(Key::new("catalog"), ByteSize::default()))
    }

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> CatalogFile<E> {
        CatalogFile::new(env, store, shared)
    }

    async fn create<E: Env>(catalog: &CatalogFile<E>, count: u32) -> Result<(), String> {
        match catalog.create(tables(count)).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn vacuum<E: Env>(_: &CatalogFile<E>) {}

    fn versions(written: &[(Key, Payload)], _: u32) -> Result<Vec<(Version, Standing)>, String> {
        let decoded = written.iter().map(|(_, payload)| {
            let file = catalog_file::File::decode(&payload.bytes).map_err(|error| error.to_string())?;
            let root = file.root();
            Ok((root.version, root.tables().map(|(_, state)| state.metadata).collect()))
        });
        decoded.collect()
    }
}

/// In one layout or the other.
pub(crate) struct Manifests<const WHOLE: bool>;

pub(crate) type Paged = Manifests<false>;
pub(crate) type Whole = Manifests<true>;

impl<const WHOLE: bool> Subject for Manifests<WHOLE> {
    type Shared = manifest_chain::Place;
    type Catalog<E: Env> = ManifestChain<E>;

    /// Every second process puts its pages into packs, however few they are. Blocks have a few rows, and every second process
    /// puts each into a part of its own.
    fn shared(process: u32) -> Arc<Self::Shared> {
        let place = manifest_chain::Place::new("catalog/", 1 << 20);
        let place = match process.is_multiple_of(2) {
            true => place.whole_sized(Sizes { block_bytes: 1024, ..Sizes::default() }),
            false => place.inline_up_to(0).whole_sized(Sizes { block_bytes: 512, part_bytes: 1 }),
        };
        Arc::new(place)
    }

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> ManifestChain<E> {
        ManifestChain::new(env, store, shared)
    }

    async fn create<E: Env>(catalog: &ManifestChain<E>, count: u32) -> Result<(), String> {
        let layout = if WHOLE { Layout::Whole } else { Layout::Paged };
        let Outcome::Committed(empty) = catalog.create(layout, true).await else {
            return Err("not created".to_owned());
        };
        let mut changes = Changes::default();
        for (id, state) in tables(count) {
            changes.set(id, Edit::Create(state));
        }
        match catalog.commit(&empty, &changes).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn vacuum<E: Env>(catalog: &ManifestChain<E>) {
        let _ = catalog.vacuum(Grace { versions: 2, age: Grace::SHORTEST }).await;
    }

    fn versions(written: &[(Key, Payload)], tables: u32) -> Result<Vec<(Version, Standing)>, String> {
        // Versions that were cleaned away meanwhile count, too: they are read from all that was ever written.
        let world = Frozen(Rc::new(first_written(written)));
        let catalog = ManifestChain::new(world.clone(), world, Self::shared(0));
        let mut versions = Vec::new();
        for version in at_once(catalog.every_version()).map_err(|error| error.to_string())? {
            let ids: Vec<TableId> = (0..tables).map(TableId).collect();
            let states = at_once(catalog.tables(&version, &ids)).map_err(|error| error.to_string())?;
            // The first version has no table yet.
            if let Some(standing) = states.iter().map(|state| Some(state.as_ref()?.metadata)).collect() {
                versions.push((version.version(), standing));
            }
        }
        Ok(versions)
    }

    fn references(objects: &BTreeMap<Key, Payload>, cleaned: bool) -> Result<(), String> {
        let world = Frozen(Rc::new(objects.clone()));
        let catalog = ManifestChain::new(world.clone(), world, Self::shared(0));
        let broken = |error: LoadError| error.to_string();
        let versions = at_once(catalog.every_version()).map_err(broken)?;
        let oldest = versions.last().map_or(Version(0), Snapshot::oldest_kept);
        let mut needed = BTreeSet::new();
        for version in versions.iter().filter(|version| version.version() >= oldest) {
            needed.extend(at_once(catalog.objects(version)).map_err(broken)?);
        }
        let needed = needed.iter().map(Key::as_str);
        // A pack that was staged for a version that is still kept, and lost, may stay until that one goes.
        let young = |key: &Key| {
            let pack = key.as_str().strip_prefix("catalog/packs/").and_then(|pack| pack.get(..16));
            let version = pack.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            key.as_str() == "catalog/hint" || version.is_some_and(|version| version > oldest.0)
        };
        let age = |key: &Key| if young(key) { Span::ZERO } else { Span::from_secs(1) };
        let present = objects.keys().map(|key| (key.as_str(), age(key)));
        let leftovers = if cleaned { Leftovers::NotOlderThan(Span::ZERO) } else { Leftovers::Allowed };
        references(present, needed, leftovers).map(drop).map_err(|violation| violation.to_string())
    }
}

/// What was first written under each key, whatever became of it.
pub(crate) fn first_written(written: &[(Key, Payload)]) -> BTreeMap<Key, Payload> {
    let mut first = BTreeMap::new();
    for (key, payload) in written.iter().cloned() {
        first.entry(key).or_insert(payload);
    }
    first
}

pub(crate) struct Log;

impl Subject for Log {
    type Shared = append_log::Place;
    type Catalog<E: Env> = AppendLog<E>;

    /// Segments are closed so early that every run has many, and each process has its own idea of when.
    fn shared(process: u32) -> Arc<Self::Shared> {
        let limits = Limits { records: 3 + u64::from(process % 4), ..Limits::default() };
        Arc::new(append_log::Place::new("catalog", limits))
    }

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> AppendLog<E> {
        AppendLog::new(env, store, shared)
    }

    async fn create<E: Env>(catalog: &AppendLog<E>, count: u32) -> Result<(), String> {
        match catalog.create(tables(count)).await {
            Outcome::Committed(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    async fn vacuum<E: Env>(catalog: &AppendLog<E>) {
        let _ = catalog.vacuum(2).await;
    }

    fn versions(written: &[(Key, Payload)], count: u32) -> Result<Vec<(Version, Standing)>, String> {
        let world = Frozen(Rc::new(longest_written(written)?));
        let catalog = AppendLog::new(world.clone(), world, Self::shared(0));
        let versions = at_once(catalog.every_version()).map_err(|error| error.to_string())?;
        let standing = |version: &append_log::Snapshot| {
            let metadata = (0..count).map(|id| Some(version.table(TableId(id))?.metadata)).collect();
            (catalog.version(version), metadata)
        };
        let whole = |(version, standing): (Version, Option<Standing>)| Some((version, standing?));
        let versions: Option<_> = versions.iter().map(standing).map(whole).collect();
        versions.ok_or_else(|| "a table is gone that nobody dropped".to_owned())
    }

    /// What is needed shows when the catalog is read; here only what is not. The newest segment may have no object yet.
    fn references(objects: &BTreeMap<Key, Payload>, cleaned: bool) -> Result<(), String> {
        let segments = objects.keys().filter_map(numbered).filter(|(kind, _)| *kind == "log");
        let newest = segments.map(|(_, number)| number).max().unwrap_or(0);
        let left = objects.iter().filter_map(|(key, payload)| Some((numbered(key)?, payload)));
        let left = left.filter(|((kind, number), payload)| match *kind {
            _ if number + 2 >= newest => false,
            "log" => payload.bytes.len() > append_log::EMPTIED_BYTES,
            _ => *number > 0,
        });
        match left.map(|((kind, number), _)| format!("{kind} {number}")).next() {
            Some(object) if cleaned => Err(format!("{object} is left though nobody needs it; the newest is {newest}")),
            _ => Ok(()),
        }
    }
}

/// The kind of a log's object, and its number.
fn numbered(key: &Key) -> Option<(&str, u64)> {
    let (kind, digits) = key.as_str().strip_prefix("catalog/")?.split_once('/')?;
    Some((kind, digits.parse().ok()?))
}

/// What each segment was before it was emptied, and what was first written under every other key.
pub(crate) fn longest_written(written: &[(Key, Payload)]) -> Result<BTreeMap<Key, Payload>, String> {
    let (mut longest, mut emptied) = (BTreeMap::<Key, Payload>::new(), BTreeMap::<Key, Payload>::new());
    for (key, payload) in written.iter().cloned() {
        match longest.get_mut(&key) {
            None => drop(longest.insert(key, payload)),
            Some(_) if !key.as_str().contains("/log/") => {}
            Some(known) if !emptied.contains_key(&key) && payload.bytes.starts_with(&known.bytes) => *known = payload,
            Some(known) if payload.bytes.len() < known.bytes.len() => {
                if emptied.insert(key.clone(), payload.clone()).is_some_and(|before| before != payload) {
                    return Err(format!("{key} came back after it had been emptied"));
                }
            }
            Some(_) => return Err(format!("{key} was overwritten")),
        }
    }
    Ok(longest)
}
