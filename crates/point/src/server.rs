//! Servers that have the catalog: the commits that wait at one are committed as one group.
//!
//! Clients reach theirs in half a round trip. A server that is the only one answers reads with the newest version that
//! it knows, because no other process commits; the first read, and every read of a protocol that keeps no newest
//! version, goes to the store. So does every read at one of several servers. What is committed in a group is the same
//! code that runs live ([`glidepath_protocols::group`]). They may keep the tables too ([`tables`]).

pub(crate) mod tables;

use std::pin::Pin;
use std::rc::Rc;

use glidepath_env::{Cause, Denial, Env};
use glidepath_model::{Changes, Entry, Kind, Name, Span, TableId, TableState, Version};
use glidepath_protocols::group::{CommitError, Committer, Group, Grouped, Leader, RetryPolicy};
use glidepath_protocols::table_turn::line::Line;
use glidepath_protocols::{Catalog, LoadError, Outcome, TableStates};
use glidepath_sim::{SimEnv, SimStore};
use glidepath_workload::Kind as Of;
use tables::{Sizes, Tables};

/// Requests that may wait at the server: more than any run has at a time.
const MOST_WAITING: usize = 1 << 24;

/// What the server's process does.
pub(crate) type Life = Pin<Box<dyn Future<Output = ()>>>;

/// Starts the server, in a process of its own.
pub(crate) type Lead = Box<dyn FnOnce(SimEnv, SimStore) -> Life>;

/// The server, and the way to it.
pub(crate) struct Server<C: Grouped> {
    group: Group<C>,
    way: Span,
    /// Whether no other server commits.
    alone: bool,
    /// The tables, if it keeps them.
    tables: Option<Rc<Tables<C>>>,
}

impl<C: Grouped + 'static> Server<C> {
    /// A server this far away; one that keeps the tables has the sizes of their files.
    pub(crate) fn new(way: Span, alone: bool, tables: Option<Sizes>) -> Self {
        let tables = tables.map(|sizes| Rc::new(Tables::new(sizes)));
        Self { group: Group::new(MOST_WAITING), way, alone, tables }
    }

    /// What the server's process does.
    pub(crate) fn leader(&self, open: impl Fn(SimEnv, SimStore) -> C + 'static) -> Lead {
        let group = self.group.clone();
        Box::new(move |env, store| {
            let leader = Leader::new(env.clone(), open(env, store), &group, RetryPolicy::default());
            Box::pin(async move {
                let Ok(leader) = leader else { unreachable!("a group of one run has one leader") };
                leader.lead().await;
            })
        })
    }

    /// The catalog as the client of a transaction of this kind sees it. `tables` is the store of the tables' files.
    pub(crate) fn client(&self, env: SimEnv, catalog: C, tables: SimStore, kind: Of) -> Served<C> {
        let group = self.group.clone();
        let committer = match &self.tables {
            // Two commits to one table are never under way at once.
            Some(_) => Committer::mixed(env.clone(), catalog, group, RetryPolicy::default()),
            None => Committer::grouped(env.clone(), catalog, group),
        };
        let (way, alone, server_tables) = (self.way, self.alone, self.tables.clone());
        Served { env, committer, way, alone, server_tables, tables, kind }
    }
}

/// A client's handle on the catalog of a server.
pub(crate) struct Served<C: Grouped> {
    env: SimEnv,
    committer: Committer<SimEnv, C>,
    way: Span,
    alone: bool,
    server_tables: Option<Rc<Tables<C>>>,
    tables: SimStore,
    kind: Of,
}

impl<C: Grouped> Served<C> {
    async fn half_the_way(&self) {
        self.env.sleep_until(self.env.now() + self.way.half()).await;
    }

    /// The newest version that the server knows, which may be out of date where it is not alone.
    fn newest_known(&self) -> Option<C::Snapshot> {
        self.committer.catalog().newest_known()
    }

    /// The newest version, if the server knows it without asking.
    fn newest(&self) -> Option<C::Snapshot> {
        self.newest_known().filter(|_| self.alone)
    }

    /// These tables at this version, or at the newest.
    async fn states(&self, at: Option<C::Snapshot>, tables: &[TableId]) -> Result<Vec<TableState>, Cause> {
        let catalog = self.committer.catalog();
        let at = match at {
            Some(at) => at,
            None => catalog.load().await.map_err(Cause::from_error)?,
        };
        let found = catalog.tables(&at, tables).await.map_err(Cause::from_error)?;
        let states = found.iter().map(|state| state.as_deref().cloned());
        states.collect::<Option<_>>().ok_or_else(|| Cause::words("a table is not there"))
    }

    /// A table as it is now, and the servers that wait for their turn there.
    async fn state_and_line(&self, table: &Name) -> Result<(TableState, Line), Cause> {
        let catalog = self.committer.catalog();
        let at = catalog.load().await.map_err(Cause::from_error)?;
        let entry = catalog.entry(&at, table).await.map_err(Cause::from_error)?;
        let missing = || Cause::words("a table is not there");
        let mut entry = entry.ok_or_else(missing)?;
        let line = Line::take(&mut entry.properties);
        Ok((entry.state.ok_or_else(missing)?, line))
    }

    /// Commits at the server, to the catalog: all of these, or none.
    async fn send(&self, changes: impl IntoIterator<Item = &Changes>) -> Outcome<C::Snapshot> {
        outcome(self.committer.commit(changes.into_iter().flat_map(Changes::actions).collect()).await)
    }
}

fn outcome<S>(answer: Result<S, CommitError>) -> Outcome<S> {
    match answer {
        Ok(now) => Outcome::Committed(now),
        Err(CommitError::Refused(_) | CommitError::Contention { .. }) => Outcome::Conflict(None),
        Err(CommitError::Unknown(cause)) => Outcome::Unknown(cause),
        Err(CommitError::Failed(cause)) => Outcome::Refused(Denial::certain(cause)),
        Err(error @ CommitError::Full { .. }) => Outcome::Refused(Denial::certain(Cause::from_error(error)).passing()),
    }
}

impl<C: Grouped> Catalog for Served<C> {
    type Snapshot = C::Snapshot;

    async fn load(&self) -> Result<C::Snapshot, LoadError> {
        self.half_the_way().await;
        let found = match self.newest() {
            Some(known) => Ok(known),
            None => self.committer.catalog().load().await,
        };
        self.half_the_way().await;
        found
    }

    fn version(&self, at: &C::Snapshot) -> Option<Version> {
        self.committer.catalog().version(at)
    }

    async fn tables<'a>(&self, at: &'a C::Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        self.committer.catalog().tables(at, ids).await
    }

    async fn entry(&self, at: &C::Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        self.committer.catalog().entry(at, name).await
    }

    async fn children(
        &self,
        at: &C::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        self.committer.catalog().children(at, namespace, after, limit).await
    }

    async fn list<T: PartialEq>(
        &self,
        at: &C::Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<Vec<(Name, T)>, LoadError> {
        self.committer.catalog().list(at, namespace, after, limit, what).await
    }

    async fn search(
        &self,
        at: &C::Snapshot,
        enters: impl Fn(&Name) -> bool,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        self.committer.catalog().search(at, enters, wanted).await
    }

    async fn of_kind(&self, at: &C::Snapshot, kind: Kind) -> Result<Vec<Name>, LoadError> {
        self.committer.catalog().of_kind(at, kind).await
    }

    async fn with_base(&self, at: &C::Snapshot, base: &Name) -> Result<Vec<Name>, LoadError> {
        self.committer.catalog().with_base(at, base).await
    }

    async fn trim(&self, namespace: Option<&Name>) -> Result<u64, LoadError> {
        self.committer.catalog().trim(namespace).await
    }

    async fn commit(&self, _: &C::Snapshot, changes: &Changes) -> Outcome<C::Snapshot> {
        self.half_the_way().await;
        let answer = match &self.server_tables {
            Some(tables) => tables.commit(self, changes).await,
            None => self.send([changes]).await,
        };
        self.half_the_way().await;
        answer
    }
}
