//! What all requests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use glidepath_protocols::registry::AnyCatalog;
use glidepath_service::{Identifier, Loaded, Service, ServiceError, Warehouse};
use glidepath_stores::{LiveEnv, Store};
use iceberg::spec::TableMetadata;

use crate::credentials::Vendor;
use crate::operations::gate::Gate;
use crate::operations::probe::Probe;
use crate::operations::timed::Timed;
use crate::pace::Pace;
use crate::people::recent::Recent;
use crate::workers::Workers;

/// The service of a live server.
pub(crate) type Live = Service<LiveEnv, AnyCatalog<LiveEnv>, Timed<Warehouse<Store>>>;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Live,
    /// Where the catalog is.
    pub(crate) store: Store,
    /// What the catalog is, for people: its protocol, and the URL of its store.
    pub(crate) about: Arc<(&'static str, String)>,
    pub(crate) workers: Workers,
    /// What all requests pass.
    pub(crate) gate: Arc<Gate>,
    /// Settings that clients get with each table, such as the endpoint of its store.
    pub(crate) storage: Arc<BTreeMap<String, String>>,
    /// What gives clients short-lived credentials, if a token service is configured.
    pub(crate) vendor: Option<Arc<Vendor>>,
    /// Commits over time, for people.
    pub(crate) recent: Arc<Recent>,
    /// Whether the warehouse is a folder of this machine.
    pub(crate) on_disk: bool,
    /// Whether the catalog is too, so that most loads wait for nothing.
    pub(crate) at_once: bool,
    /// Whether the catalog can be read.
    pub(crate) probe: Probe,
    /// How fast loads come.
    pub(crate) loads: Arc<Pace>,
}

/// Loads with less time between them share a look at the catalog: then they take less processor time.
const SPARSE: Duration = Duration::from_micros(40);

impl App {
    /// Runs a request on the service, to its end even if the client goes away.
    pub(crate) async fn run<T, W, F>(&self, work: W) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        W: FnOnce(Live) -> F + Send + 'static,
        F: Future<Output = Result<T, ServiceError>> + 'static,
    {
        let service = self.service.clone();
        self.workers.run(move || work(service)).await
    }

    /// A table, as it is now. If nothing has to be waited for, this thread looks itself: to hand the request over to a
    /// thread of the service and back takes longer than the load. Loads that come fast are handed over, because they
    /// share a look at the catalog.
    pub(crate) async fn load_table(&self, table: &Identifier) -> Result<Loaded<TableMetadata>, ServiceError> {
        if self.at_once
            && self.loads.after() >= SPARSE
            && self.workers.are_idle()
            && let Some(loaded) = self.service.load_table_at_once(table)
        {
            return loaded;
        }
        let table = table.clone();
        self.run(move |service| async move { service.load_table(&table).await }).await
    }

    /// Makes the folder for the metadata of a table that is staged, if the warehouse is a folder: before its first
    /// commit clients write manifests there, and DuckDB makes no folder for them.
    pub(crate) async fn prepare_folder(&self, table: &str) {
        let Some(path) = table.strip_prefix("file:").filter(|_| self.on_disk) else { return };
        let folder = format!("/{}/metadata", path.trim_matches('/'));
        // Other clients make it themselves.
        if let Err(error) = tokio::fs::create_dir_all(&folder).await {
            tracing::warn!(%error, folder, "the folder of a staged table could not be made");
        }
    }
}
