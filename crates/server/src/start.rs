//! Starting and stopping a server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use glidepath_env::Env;
use glidepath_model::Span;
use glidepath_protocols::registry::{AnyCatalog, Creation, Protocol};
use glidepath_protocols::{Catalog as _, LoadError, Outcome};
use glidepath_service::{PRIORITY, ServiceError, Settings, Warehouse};
use glidepath_stores::cloud::StsOptions;
use glidepath_stores::{LiveEnv, Options, Store, base_location, is_rows, is_there, open, open_plain, shown};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::answer::error;
use crate::credentials::{self, Vendor};
use crate::iceberg;
use crate::lance;
use crate::operations::gate::{Gate, pass};
use crate::operations::listen::{Serving, accept};
use crate::operations::metrics::Metrics;
use crate::operations::probe::Probe;
use crate::operations::timed::Timed;
use crate::operations::{Limits, Operations, routes};
use crate::pace::Pace;
use crate::people;
use crate::people::recent::Recent;
use crate::places;
use crate::security::{Security, Tls, tell_doubts};
use crate::state::App;
use crate::tasks::{live, note_commits, purges, upkeep};
use crate::workers::Workers;

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The store of the catalog.
    pub store: String,
    /// The URL under which new tables get their folders; `None`: the folder `tables` in the store.
    pub warehouse: Option<String>,
    /// The protocol of a catalog that is created because there is none; `None`: the usual one for the store.
    pub protocol: Option<Protocol>,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Settings that clients get with each table.
    pub storage: BTreeMap<String, String>,
    /// The service that gives clients short-lived credentials; `None`: they get what is in `storage`.
    pub sts: Option<StsOptions>,
    /// Whether appends are rebased though neither table nor commit asks for it, where the isolation levels allow it.
    pub rebase: bool,
    /// How long others' commits to a branch wait at most for the next try of an overwrite that lost; zero: not at all.
    pub overwrite_priority: Duration,
    /// Added to the time of each request to the storage, for experiments.
    pub added_latency: Duration,
    /// Threads that run requests.
    pub threads: usize,
    /// Who may come in, and how.
    pub security: Security,
    /// What a request may cost.
    pub limits: Limits,
    /// How the server is watched, and how it ends.
    pub operations: Operations,
}

impl Config {
    /// The usual settings for a store, on a free port of loopback.
    #[must_use]
    pub fn of(store: &str) -> Self {
        Self {
            store: store.to_owned(),
            warehouse: None,
            protocol: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            storage: BTreeMap::new(),
            sts: None,
            rebase: false,
            overwrite_priority: Duration::from_nanos(PRIORITY.as_nanos()),
            added_latency: Duration::ZERO,
            threads: 2,
            security: Security::default(),
            limits: Limits::default(),
            operations: Operations::default(),
        }
    }
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
    /// The protocol that was asked for cannot be kept there.
    #[error("{0} (--protocol)")]
    Protocol(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}{}", crate::operations::listen::next_step(cause))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        cause: std::io::Error,
    },
    /// The server would be reachable without the protection that this needs.
    #[error("cannot listen on {address}: {why}")]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        why: String,
    },
    /// The file of tokens and grants is unusable.
    #[error("{0}")]
    Access(#[from] glidepath_access::AccessError),
    /// Short-lived credentials cannot be given, or would protect nothing.
    #[error("no short-lived credentials for clients: {0}")]
    Credentials(String),
    /// The catalog and the files of tables are not apart.
    #[error("{0}")]
    Places(String),
    /// The certificate is unusable.
    #[error("{}: {why}", path.display())]
    Tls {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No client for the keys of issuers.
    #[error("no HTTP client for the keys of issuers can be made: {0}")]
    Client(String),
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Threads(std::io::Error),
    /// The service could not be prepared.
    #[error("{0}")]
    Service(#[from] ServiceError),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    /// The listener for operators, if it is another one.
    watched: Option<TcpListener>,
    app: App,
    tls: Option<Tls>,
    operations: Operations,
    protocol: Protocol,
    is_new: bool,
}

/// Changes a server that runs.
#[derive(Clone)]
pub struct Handle {
    app: App,
    tls: Option<Tls>,
}

impl Handle {
    /// Reads the files of access and of the certificate again.
    ///
    /// # Errors
    /// What is wrong with the first bad file: what it replaces goes on.
    pub fn reload(&self) -> Result<(), StartError> {
        let access = self.app.gate.access.reload().map_err(StartError::from);
        if access.is_ok() {
            tell_doubts(&self.app.gate.access);
        }
        let tls = self.tls.as_ref().map_or(Ok(()), Tls::reload);
        access.and(tls)
    }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
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

/// Refuses, before anything is opened, what a catalog in a key-value store cannot be.
fn fits_rows(config: &Config) -> Result<(), StartError> {
    if let Some(why) = config.protocol.and_then(Protocol::unfit_for_rows) {
        return Err(StartError::Protocol(why));
    }
    if config.warehouse.is_none() {
        let words =
            "a key-value store keeps the catalog, and no files: say where the files of tables are (--warehouse)";
        return Err(StartError::Places(words.to_owned()));
    }
    Ok(())
}

/// The life of a server. In a box, as its start is: the compiler makes the code of other futures again in each crate
/// that runs them, and this is most of the server.
pub type Serves = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Server {
    /// Opens the store, finds or creates the catalog, and listens.
    ///
    /// # Errors
    /// [`StartError`] says what to change.
    pub fn start(config: Config) -> Pin<Box<dyn Future<Output = Result<Self, StartError>>>> {
        Box::pin(Self::open(config))
    }

    async fn open(config: Config) -> Result<Self, StartError> {
        config.security.check(config.listen)?;
        let access = config.security.load().await?;
        let tls = config.security.tls.as_ref().map(Tls::load).transpose()?;
        // What is wrong with its URL is told before what is wrong with that of the warehouse, which may be made of it.
        is_there(&config.store)?;
        if is_rows(&config.store) {
            fits_rows(&config)?;
        }
        let warehouse_url = config.warehouse.clone().unwrap_or_else(|| tables_of(&config.store));
        let base = base_location(&warehouse_url)?;
        if config.sts.is_some() {
            credentials::check(&base, &config.storage)?;
        }
        places::check(&base, &config.store)?;
        // Before anything is created: a server that is refused leaves nothing behind.
        let listener = bind(config.listen).await?;
        let watched = match config.operations.listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let metrics = Arc::<Metrics>::default();
        let options = Options::default();
        let store = open(&config.store, &options)?.slower_by(span(config.added_latency));
        let tables = open_plain(&warehouse_url, &options)?;
        let vendor = match config.sts {
            Some(sts) => Some(Arc::new(Vendor::start(sts, &base, &tables, Arc::clone(&metrics)).await?)),
            None => None,
        };
        let on_disk = matches!(tables, Store::Plain(_));
        let at_once = on_disk && matches!(store, Store::Local(_));
        let added = span(config.added_latency);
        let files = Warehouse::new(tables.slower_by(added), &base);
        let protocol = config.protocol.unwrap_or_else(|| Protocol::usual(is_rows(&config.store)));
        let (catalog, is_new) = found_or_created(store.clone(), protocol).await?;
        let protocol = catalog.protocol();
        let settings = Settings {
            rebase: config.rebase,
            priority: span(config.overwrite_priority),
            own_folders: !access.is_open(),
            ..Settings::of(&base)
        };
        let files = Timed::new(files, Arc::clone(&metrics));
        let workers = Workers::start(config.threads).map_err(StartError::Threads)?;
        let service = live(catalog, files, settings, &workers);
        let preparing = service.clone();
        workers.run(move || async move { preparing.prepare().await }).await?;
        let keeping = service.clone();
        let purging = service.clone();
        workers.keep_up("upkeep", move || upkeep(keeping.clone()));
        workers.keep_up("purging", move || purges(purging.clone()));
        let gate = Arc::new(Gate::new(access, config.limits, metrics));
        let recent = Arc::new(Recent::new(LiveEnv::new().unix_ms()));
        let (noting, counts) = (Arc::clone(&recent), service.counts());
        workers.keep_up("counting", move || note_commits(Arc::clone(&noting), Arc::clone(&counts)));
        let about = shown(&config.store);
        let about = Arc::new((protocol.name(), about.split('?').next().unwrap_or_default().to_owned()));
        let storage = Arc::new(config.storage);
        let (probe, loads) = (Probe::default(), Arc::new(Pace::new()));
        let app = App { service, store, about, workers, gate, storage, vendor, recent, on_disk, at_once, probe, loads };
        Ok(Self { listener, watched, app, tls, operations: config.operations, protocol, is_new })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where it listens for operators, if that is another address.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn operations_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.watched.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// The protocol of the catalog.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether it created the catalog.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether clients must use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What changes the server while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { app: self.app.clone(), tls: self.tls.clone() }
    }

    /// Serves until `stop` is done. Then it says that it is not ready, goes on for the time that is configured, accepts
    /// no further connection, and ends after the last answer, or when the time for that is over.
    ///
    /// # Errors
    /// If requests were left without an answer.
    pub fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Serves {
        self.boxed(Box::pin(stop))
    }

    /// With no type to choose, so that this crate has the code.
    fn boxed(self, stop: Stop) -> Serves {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: Stop) -> std::io::Result<()> {
        let Self { listener, watched, app, tls, operations, .. } = self;
        let gate = Arc::clone(&app.gate);
        let serving = |router: Router<App>, tls| Serving {
            router: router.with_state(app.clone()),
            tls,
            limits: app.gate.limits.clone(),
            metrics: Arc::clone(&app.gate.metrics),
        };
        let mut all = catalog_routes(&app);
        let (end, ended) = watch::channel(false);
        let mut watching = None;
        if let Some(watched) = watched {
            watching = Some(tokio::spawn(accept(watched, serving(routes::alone(), None), ended.clone())));
        } else {
            all = all.merge(routes::with_catalog());
        }
        let accepting = tokio::spawn(accept(listener, serving(all, tls), ended));
        stop.await;
        gate.drain();
        tracing::info!(running = gate.running(), "ending: not ready any more");
        tokio::time::sleep(operations.drain_delay).await;
        let _ = end.send(true);
        let emptied = async {
            let _ = accepting.await;
            // Work whose client has gone, or was told that it takes long.
            while gate.running() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let done = tokio::time::timeout(operations.drain_timeout, emptied).await;
        if let Some(watching) = watching {
            watching.abort();
        }
        if done.is_ok() {
            tracing::info!("ended: all requests have their answers");
        }
        done.map_err(|_| {
            let words = match gate.running() {
                0 => "all requests had ended, and some connections had not: their clients had not read all answers, or sent a part of a request".to_owned(),
                running => format!("{running} requests had not ended in time; their outcome is unknown"),
            };
            std::io::Error::new(std::io::ErrorKind::TimedOut, words)
        })
    }
}

/// The routes of clients, behind what every request passes.
fn catalog_routes(app: &App) -> Router<App> {
    Router::new()
        .merge(iceberg::routes())
        .merge(lance::routes())
        .merge(people::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), pass))
        // The gate limits bodies.
        .layer(DefaultBodyLimit::disable())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|cause| StartError::Listen { address, cause })
}

/// How often a catalog is looked for and created, while other servers do the same.
const CREATIONS: u32 = 8;

/// The catalog in a store, and whether it is new: it is created if there is none.
async fn found_or_created(store: Store, protocol: Protocol) -> Result<(AnyCatalog<LiveEnv>, bool), StartError> {
    for _ in 0..CREATIONS {
        let protocol = match AnyCatalog::find(LiveEnv::new(), store.clone(), "").await {
            Ok(catalog) => match catalog.load().await {
                Ok(_) => return Ok((catalog, false)),
                // Only its label is there: a server that creates it now, or that died before it had done so, wrote
                // that.
                Err(LoadError::NotFound) => catalog.protocol(),
                Err(error) => return Err(error.into()),
            },
            Err(LoadError::NotFound) => protocol,
            Err(error) => return Err(error.into()),
        };
        let creation = Creation::default();
        let (created, outcome) = AnyCatalog::create(LiveEnv::new(), store.clone(), "", protocol, creation).await;
        match outcome {
            Outcome::Committed(_) => return Ok((created, true)),
            // Another server was first.
            Outcome::Conflict(_) => {}
            Outcome::Refused(denial) => return Err(StartError::Create(denial.to_string())),
            Outcome::Unknown(cause) => {
                return Err(StartError::Create(format!("{cause}; it may have been created: start again")));
            }
        }
    }
    Err(StartError::Create("it conflicts with others again and again, and is not found then".to_owned()))
}

async fn no_route(uri: axum::http::Uri) -> Response {
    let words = format!("there is no route {}; GET /v1/config lists them", uri.path());
    error(StatusCode::NOT_FOUND, "NotFoundException", &words)
}

async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let words = format!("{} has no method {method}; GET /v1/config lists what there is", uri.path());
    error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedException", &words)
}
