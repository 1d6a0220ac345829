//! Starting and stopping a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::Response;
use glidepath_protocols::group::{Committer, Group, Leader, Loader, Loads, MOST_WAITING, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, Creation, Protocol};
use glidepath_protocols::{LoadError, Outcome};
use glidepath_service::{Service, Settings, Warehouse};
use glidepath_stores::{LiveEnv, Options, base_location, open, open_plain};
use tokio::net::TcpListener;

use crate::answer::error;
use crate::iceberg;
use crate::state::{App, Live};
use crate::workers::Workers;

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store of the catalog.
    pub store: String,
    /// The URL under which new tables get their folders; `None`: the folder `tables` in the store.
    pub warehouse: Option<String>,
    /// The protocol of a catalog that is created because there is none.
    pub protocol: Protocol,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Settings that clients get with each table.
    pub storage: BTreeMap<String, String>,
    /// Whether appends are rebased though neither table nor commit asks for it, where the isolation levels allow it.
    pub rebase: bool,
    /// Threads that run requests.
    pub threads: usize,
    /// The most bytes of a request's body.
    pub most_body_bytes: usize,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store or the warehouse cannot be used.
    #[error("{0}")]
    Store(#[from] glidepath_stores::OpenError),
    /// The catalog cannot be read.
    #[error("{0}")]
    Catalog(#[from] LoadError),
    /// The catalog could not be created.
    #[error("the catalog could not be created: {0}")]
    Create(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        cause: std::io::Error,
    },
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Threads(std::io::Error),
    /// The service could not be prepared.
    #[error("{0}")]
    Service(#[from] glidepath_service::ServiceError),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    app: App,
    most_body_bytes: usize,
    protocol: Protocol,
}

/// The folder of new tables, as a URL.
fn tables_of(store: &str) -> String {
    let (path, parameters) = store.split_once('?').map_or((store, None), |(path, rest)| (path, Some(rest)));
    let path = path.trim_end_matches('/');
    match parameters {
        Some(parameters) => format!("{path}/tables?{parameters}"),
        None => format!("{path}/tables"),
    }
}

impl Server {
    /// Opens the store, finds or creates the catalog, and listens.
    ///
    /// # Errors
    /// [`StartError`] says what to change.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let options = Options::default();
        let warehouse_url = config.warehouse.clone().unwrap_or_else(|| tables_of(&config.store));
        let base = base_location(&warehouse_url)?;
        let files = Warehouse::new(open_plain(&warehouse_url, &options)?, &base);
        let store = open(&config.store, &options)?;
        let catalog = match AnyCatalog::find(LiveEnv::new(), store.clone(), "").await {
            Ok(catalog) => catalog,
            Err(LoadError::NotFound) => {
                let creation = Creation::default();
                let env = LiveEnv::new();
                let (created, outcome) = AnyCatalog::create(env, store.clone(), "", config.protocol, creation).await;
                match outcome {
                    Outcome::Committed(_) => created,
                    // Another server was first.
                    Outcome::Conflict(_) => AnyCatalog::find(LiveEnv::new(), store, "").await?,
                    Outcome::Refused(denial) => return Err(StartError::Create(denial.to_string())),
                    Outcome::Unknown(cause) => {
                        return Err(StartError::Create(format!("{cause}; it may have been created: start again")));
                    }
                }
            }
            Err(error) => return Err(error.into()),
        };
        let protocol = catalog.protocol();
        let settings = Settings { rebase: config.rebase, ..Settings::of(&base) };
        let workers = Workers::start(config.threads).map_err(StartError::Threads)?;
        let service = live(catalog, files, settings, &workers);
        let preparing = service.clone();
        workers.run(move || async move { preparing.prepare().await }).await?;
        let keeping = service.clone();
        workers.spawn(move || upkeep(keeping));
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|cause| StartError::Listen { address: config.listen, cause })?;
        let app = App { service, workers, storage: Arc::new(config.storage) };
        Ok(Self { listener, app, most_body_bytes: config.most_body_bytes, protocol })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The protocol of the catalog.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Serves until `stop` is done; then answers what has arrived, and ends.
    ///
    /// # Errors
    /// If the system refuses to accept connections.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        let router = Router::new()
            .merge(iceberg::routes())
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
            .layer(DefaultBodyLimit::max(self.most_body_bytes))
            .with_state(self.app);
        axum::serve(self.listener, router).with_graceful_shutdown(stop).await
    }
}

/// A service on a live catalog, with the tasks that commit and load for all.
fn live(catalog: AnyCatalog<LiveEnv>, files: Warehouse<glidepath_stores::Store>, settings: Settings, workers: &Workers) -> Live {
    let env = LiveEnv::new();
    let (group, loads) = (Group::new(MOST_WAITING), Loads::new());
    if let Ok(leader) = Leader::new(env, catalog.clone(), &group, RetryPolicy::default()) {
        workers.spawn(move || leader.lead());
    }
    if let Ok(loader) = Loader::new(catalog.clone(), &loads) {
        workers.spawn(move || loader.serve());
    }
    Service::new(env, Committer::grouped(env, catalog, group), loads, files, settings)
}

/// Cleans old keys and runs purges, for as long as the server lives.
async fn upkeep(service: Live) {
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        // What fails now is done at the next turn, or by another server.
        let _ = service.clean_keys().await;
        let _ = service.run_purges().await;
    }
}

async fn no_route(uri: axum::http::Uri) -> Response {
    let words = format!("there is no route {}; GET /v1/config lists them", uri.path());
    error(StatusCode::NOT_FOUND, "NotFoundException", &words)
}

async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let words = format!("{} has no method {method}; GET /v1/config lists what there is", uri.path());
    error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedException", &words)
}
