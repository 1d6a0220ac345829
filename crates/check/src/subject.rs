//! What is checked, and what does the checker need from each protocol?

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::{Key, Payload};
use glidepath_history::{Chain, Change, Item};
use glidepath_model::{CommitId, MetadataId, Name, TableId, TableState, Version};
use glidepath_protocols::afterwards::{Made, Write};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::{Creation, Design, Protocol, Settings};
use glidepath_sim::{Simulation, StoreId};

use crate::scenario::Scenario;

pub(crate) const STORE: StoreId = StoreId(0);

/// The catalog's prefix in its store.
pub(crate) const PREFIX: &str = "catalog/";

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A catalog.
    Catalog(CatalogKind),
    /// The service of transactions.
    Transactions,
    /// The catalog server, over a catalog of this kind.
    #[cfg(feature = "serve")]
    Serve(CatalogKind, Clients),
}

/// The clients of a catalog server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clients {
    /// They commit to tables of Iceberg.
    Iceberg,
    /// They create versions of tables of Lance, which the server orders.
    Lance,
}

/// The protocol of a catalog, and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CatalogKind {
    /// The protocol.
    pub protocol: Protocol,
    /// Its layout, if it has several.
    pub layout: Option<Layout>,
}

impl Subject {
    /// All protocols, in all their layouts, and transactions.
    #[must_use]
    pub fn all() -> Vec<Self> {
        CatalogKind::all().into_iter().map(Self::Catalog).chain([Self::Transactions]).collect()
    }

    /// The catalog server over each protocol, in all their layouts, with these clients. Not in [`all`](Self::all): its
    /// runs take longer. None without the feature `serve`.
    #[must_use]
    pub fn servers(clients: Clients) -> Vec<Self> {
        #[cfg(feature = "serve")]
        return CatalogKind::all().into_iter().map(|kind| Self::Serve(kind, clients)).collect();
        #[cfg(not(feature = "serve"))]
        {
            let _ = clients;
            Vec::new()
        }
    }

    /// As written on the command line: the protocol, and its layout if that is not the usual one.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Catalog(kind) => kind.name(),
            Self::Transactions => "transactions".to_owned(),
            #[cfg(feature = "serve")]
            Self::Serve(kind, clients) => format!("{}-{}", clients.name(), kind.name()),
        }
    }

    /// The subject of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let servers = Clients::ALL.into_iter().flat_map(Self::servers);
        Self::all().into_iter().chain(servers).find(|subject| subject.name() == name)
    }

    /// Whether there can be such a thing in the place of a scenario: cells cannot be appended to, transactions are in
    /// cells of their own in every scenario without a disk, and the files of a server's tables are in an object store.
    /// Strangers copy objects of catalogs only.
    #[must_use]
    pub fn runs_in(self, scenario: &Scenario) -> bool {
        let in_store = !scenario.rows && scenario.disk.is_none();
        match self {
            Self::Catalog(kind) => !scenario.rows || !kind.protocol.features().appends,
            Self::Transactions => in_store && scenario.writers.strange == 0,
            #[cfg(feature = "serve")]
            Self::Serve(..) => in_store && scenario.writers.strange == 0,
        }
    }
}

impl Clients {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Iceberg, Self::Lance];

    /// The server with these clients, as written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Iceberg => "serve",
            Self::Lance => "lance",
        }
    }
}

impl CatalogKind {
    /// All protocols, in all their layouts.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let of = |protocol: &Protocol| -> Vec<Self> {
            let (protocol, layouts) = (*protocol, protocol.features().layouts);
            match layouts {
                [] => vec![Self { protocol, layout: None }],
                _ => layouts.iter().map(|layout| Self { protocol, layout: Some(*layout) }).collect(),
            }
        };
        Protocol::ALL.iter().flat_map(of).collect()
    }

    fn name(self) -> String {
        let protocol = self.protocol.name();
        match self.layout {
            Some(layout) if Some(&layout) != self.protocol.features().layouts.first() => {
                format!("{protocol}-{}", layout.name())
            }
            _ => protocol.to_owned(),
        }
    }

    pub(crate) fn creation(self, tables: Vec<(TableId, TableState)>) -> Creation {
        Creation { tables, layout: self.layout.unwrap_or(Layout::Paged), indexed: true }
    }
}

/// What the threads of a process share. Limits are so small that every run reaches them, and differ between processes.
pub(crate) fn shared_state<D: Design>(process: u32) -> D::SharedState {
    D::shared_state(PREFIX, &Settings { test_limits: Some(process), ..Settings::default() })
}

/// The same, shared.
pub(crate) fn shared<D: Design>(process: u32) -> Arc<D::SharedState> {
    Arc::new(shared_state::<D>(process))
}

/// All versions that were written in a run.
pub(crate) fn writes(simulation: &Simulation) -> Vec<Write> {
    let write = |write: glidepath_sim::Written| Write { key: write.key, object: write.object };
    simulation.journal(STORE).into_iter().map(write).collect()
}

/// The same for objects that were never deleted.
pub(crate) fn kept(written: Vec<(Key, Payload)>) -> Vec<Write> {
    written.into_iter().map(|(key, payload)| Write { key, object: Some(payload) }).collect()
}

/// The metadata id of each table.
pub(crate) type Standing = Vec<MetadataId>;

pub(crate) fn tables(count: u32) -> Vec<(TableId, TableState)> {
    (0..count).map(|id| (TableId(id), TableState::new(1))).collect()
}

/// The state of each table in each version, from the first version on that has all tables.
pub(crate) fn standings(versions: &[Made], tables: u32) -> Result<Vec<(Version, Standing)>, String> {
    let ids: BTreeMap<Name, usize> = (0..tables).map(|id| (Name::numbered(TableId(id)), id as usize)).collect();
    let (mut now, mut standings) = (vec![None; ids.len()], Vec::new());
    for made in versions {
        for (name, entry) in &made.changed {
            let Some(place) = ids.get(name) else { continue };
            let state = entry.as_ref().and_then(|entry| entry.state.as_ref());
            now[*place] =
                Some(state.ok_or_else(|| format!("{name} is missing, although no request dropped it"))?.metadata);
        }
        standings.extend(now.iter().copied().collect::<Option<Standing>>().map(|standing| (made.version, standing)));
    }
    Ok(standings)
}

/// The chain of commits of these versions.
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
