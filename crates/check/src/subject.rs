//! Which protocols can be checked, and how is each set up and read afterwards?

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Env, Key, Payload};
use glidepath_history::{Chain, Change, Item, Leftovers, References, references};
use glidepath_model::{ByteSize, Changes, CommitId, Edit, MetadataId, Span, TableId, TableState, Version};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::manifest_chain::{self, Grace, ManifestChain, Snapshot};
use glidepath_protocols::{Catalog, LoadError, Outcome};
use glidepath_sim::{Simulation, StoreId};

use crate::frozen::{Frozen, at_once};

pub(crate) const STORE: StoreId = StoreId(0);

/// A protocol that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The whole catalog in one object.
    CatalogFile,
    /// A chain of versions, each with the pages that it changed.
    ManifestChain,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::CatalogFile, Self::ManifestChain];

    /// As written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CatalogFile => "catalog-file",
            Self::ManifestChain => "manifest-chain",
        }
    }
}

/// What a run needs to know of a protocol.
pub(crate) trait Subject {
    /// What the threads of one process share.
    type Shared: 'static;
    type Catalog<E: Env>: Catalog;

    fn shared() -> Arc<Self::Shared>;

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> Self::Catalog<E>;

    /// Creates an empty catalog, or one with these tables.
    async fn create<E: Env>(catalog: &Self::Catalog<E>, tables: u32) -> Result<(), String>;

    /// Cleans up, where the protocol does.
    async fn vacuum<E: Env>(catalog: &Self::Catalog<E>);

    /// What the catalog became: where each table stood in each version, oldest first, from the version of creation on.
    fn versions(simulation: &Simulation, tables: u32) -> Result<Vec<(Version, Standing)>, String>;

    /// Whether all that is referred to is there.
    fn references(_: &BTreeMap<Key, Payload>) -> Result<References, String> {
        Ok(References::default())
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

    fn shared() -> Arc<Self::Shared> {
        Arc::new(catalog_file::Place::new(Key::new("catalog"), ByteSize::default()).settling_lost())
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

    fn versions(simulation: &Simulation, _: u32) -> Result<Vec<(Version, Standing)>, String> {
        let decoded = simulation.writes(STORE).into_iter().map(|payload| {
            let file = catalog_file::File::decode(&payload.bytes).map_err(|error| error.to_string())?;
            let root = file.root();
            Ok((root.version, root.tables().iter().map(|(_, state)| state.metadata).collect()))
        });
        decoded.collect()
    }
}

pub(crate) struct Manifests;

impl Subject for Manifests {
    type Shared = manifest_chain::Place;
    type Catalog<E: Env> = ManifestChain<E>;

    fn shared() -> Arc<Self::Shared> {
        Arc::new(manifest_chain::Place::new("catalog/", 1 << 20))
    }

    fn catalog<E: Env>(env: E, store: E::Objects, shared: Arc<Self::Shared>) -> ManifestChain<E> {
        ManifestChain::new(env, store, shared)
    }

    async fn create<E: Env>(catalog: &ManifestChain<E>, count: u32) -> Result<(), String> {
        let Outcome::Committed(empty) = catalog.create(true).await else { return Err("not created".to_owned()) };
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

    fn versions(simulation: &Simulation, tables: u32) -> Result<Vec<(Version, Standing)>, String> {
        // Versions that were cleaned away meanwhile count, too: they are read from all that was ever written.
        let world = Frozen(Rc::new(simulation.first_writes(STORE)));
        let catalog = ManifestChain::new(world.clone(), world, Self::shared());
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

    fn references(objects: &BTreeMap<Key, Payload>) -> Result<References, String> {
        let world = Frozen(Rc::new(objects.clone()));
        let catalog = ManifestChain::new(world.clone(), world, Self::shared());
        let broken = |error: LoadError| error.to_string();
        let versions = at_once(catalog.every_version()).map_err(broken)?;
        let oldest = versions.last().map_or(Version(0), Snapshot::oldest_kept);
        let mut needed = BTreeSet::new();
        for version in versions.iter().filter(|version| version.version() >= oldest) {
            needed.extend(at_once(catalog.objects(version)).map_err(broken)?);
        }
        let needed = needed.iter().map(Key::as_str);
        let present = objects.keys().map(|key| (key.as_str(), Span::ZERO));
        references(present, needed, Leftovers::Allowed).map_err(|violation| violation.to_string())
    }
}
