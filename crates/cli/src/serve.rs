//! `glidepath serve`: a catalog server for clients of Iceberg.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use glidepath_model::Span;
use glidepath_protocols::registry::Protocol;
use glidepath_server::{
    Config, Handle, Limits, LogFormat, LogLevel, Operations, Security, Server, StartError, StsOptions, TlsFiles,
    log_to_stderr,
};
use glidepath_stores::shown;

use crate::choice::one_of;
use crate::failure::Failure;

/// Serve a catalog to clients of Iceberg REST
///
/// STORE is a URL: file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, or a key-value store
/// (then --warehouse is needed). A catalog is created there if there is none. Any number of servers may serve one store;
/// whatever a server keeps in memory may be lost at any moment.
///
/// Without --access, everybody who reaches the server may do everything, so it listens on loopback only. With it, each
/// request needs a token, and grants say what its owner may do. Beyond loopback, the server also needs a certificate
/// (--tls-certificate, --tls-key), or --plain-http behind a load balancer that ends TLS.
///
/// /healthz: the process runs. /readyz: the catalog can be read, and the server is not ending. /metrics: for Prometheus.
///
/// SIGHUP reads the access file and the certificate again. SIGTERM or Ctrl-C: /readyz says no, --drain-delay passes,
/// requests that have arrived are answered, then the server ends.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The store of the catalog, by its URL
    #[arg(value_name = "STORE")]
    store: String,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8181", value_name = "ADDRESS:PORT", value_parser = address)]
    listen: SocketAddr,
    /// The URL under which new tables get their folders [default: the folder "tables" in the store]
    #[arg(long, value_name = "URL")]
    warehouse: Option<String>,
    /// The protocol of a catalog that is created because there is none [default: manifest-chain]
    #[arg(long, value_parser = one_of(Protocol::ALL, Protocol::name))]
    protocol: Option<Protocol>,
    /// A setting that clients get with each table, such as s3.endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long = "client-setting", value_name = "KEY=VALUE", value_parser = pair)]
    client_settings: Vec<(String, String)>,
    /// Rebase appends of clients that do not ask for it, where the isolation levels of the table are all "snapshot"
    #[arg(long)]
    rebase_appends: bool,
    /// Milliseconds that others' commits to a branch wait at most for the next try of an overwrite that conflicted; 0: not at all
    #[arg(long, default_value_t = 1500, value_name = "MS", value_parser = whole_within("milliseconds", 0..=60_000))]
    overwrite_priority: u32,
    /// The latency to add to every request to the storage before it is sent, for experiments
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    added_latency: Span,
    /// Threads that run requests [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,
    #[command(flatten)]
    credentials: CredentialArguments,
    #[command(flatten)]
    security: SecurityArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    operations: OperationArguments,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Short-lived credentials for clients")]
struct CredentialArguments {
    /// The token service (STS) that is asked for credentials for a table's folder: "aws", or a URL such as MinIO's. Only
    /// with a warehouse s3://
    #[arg(long, value_name = "aws|URL")]
    sts: Option<String>,
    /// The role that is assumed; Amazon needs one, MinIO does not
    #[arg(long, value_name = "ARN", requires = "sts")]
    sts_role: Option<String>,
    /// The region of the token service [default: that of the warehouse]
    #[arg(long, value_name = "REGION", requires = "sts")]
    sts_region: Option<String>,
    /// Seconds that the credentials are valid
    #[arg(long, default_value_t = 3600, value_name = "S", value_parser = seconds(900..=43_200), requires = "sts")]
    sts_duration: u32,
}

impl CredentialArguments {
    fn options(&self) -> Option<StsOptions> {
        let sts = self.sts.as_ref()?;
        Some(StsOptions {
            endpoint: (sts != "aws").then(|| sts.clone()),
            role: self.sts_role.clone(),
            region: self.sts_region.clone(),
            lifetime: Duration::from_secs(self.sts_duration.into()),
        })
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Security")]
struct SecurityArguments {
    /// The file with tokens, issuers and grants; without it, everybody may do everything
    #[arg(long, value_name = "FILE")]
    access: Option<PathBuf>,
    /// The certificate of the server and those of the authorities above it, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Allow plain HTTP beyond loopback: a load balancer in front ends TLS
    #[arg(long, conflicts_with = "tls_certificate")]
    plain_http: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// The most megabytes in the body of a request
    #[arg(long, default_value_t = 16, value_name = "MB", value_parser = whole_within("megabytes", 1..=1024))]
    most_body: u32,
    /// The most megabytes in the bodies of all requests at once; further ones are answered 503 before they have any effect
    #[arg(long, default_value_t = 32, value_name = "MB", value_parser = whole_within("megabytes", 1..=1_048_576))]
    all_bodies: u32,
    /// The most kilobytes in the headers of a request
    #[arg(long, default_value_t = 32, value_name = "KB", value_parser = whole_within("kilobytes", 8..=1024))]
    most_headers: u32,
    /// The most requests at once; further ones are answered 503 before they have any effect
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    most_requests: u32,
    /// The most connections at once; further ones wait
    #[arg(long, default_value_t = 8192, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    most_connections: u32,
    /// Seconds until a request is answered though its work goes on: 504 (outcome unknown) if it changes something, else 503
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = seconds(1..=3600))]
    request_timeout: u32,
    /// Seconds that a connection may be silent between requests
    #[arg(long, default_value_t = 75, value_name = "S", value_parser = seconds(1..=3600))]
    idle_timeout: u32,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Operations")]
struct OperationArguments {
    /// Where to serve /healthz, /readyz and /metrics, without tokens [default: with the catalog]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    operations_listen: Option<SocketAddr>,
    /// Seconds between "not ready" and the end of accepting, so that load balancers notice
    #[arg(long, default_value_t = 0, value_name = "S", value_parser = seconds(0..=3600))]
    drain_delay: u32,
    /// Seconds for the requests that have arrived then
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = seconds(1..=3600))]
    drain_timeout: u32,
    /// How the log is written, to the standard error output
    #[arg(long, default_value = "text", value_parser = one_of(&LogFormat::ALL, LogFormat::name))]
    log: LogFormat,
    /// What is logged; each includes those before it. One line per request: info
    #[arg(long, default_value = "info", value_parser = one_of(&LogLevel::ALL, LogLevel::name))]
    log_level: LogLevel,
}

/// Names but `localhost` are refused: what they mean is decided elsewhere, and here it decides who reaches the server.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        "allowed: ADDRESS:PORT in digits, such as 127.0.0.1:8181 or [::1]:8181, or localhost:PORT; the port is 0 (any that is \
         free) to 65535"
            .to_owned()
    })
}

/// A whole number of these units.
fn whole_within(unit: &'static str, range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let found = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        found.ok_or_else(|| format!("allowed: {unit} from {least} to {most}, in digits alone, such as {most}"))
    }
}

fn seconds(range: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    whole_within("seconds", range)
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl Arguments {
    fn config(&self) -> Config {
        let Self { security, limits, operations, .. } = self;
        let seconds = |amount: u32| Duration::from_secs(amount.into());
        let tls = security.tls_certificate.clone().zip(security.tls_key.clone());
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Config {
            warehouse: self.warehouse.clone(),
            protocol: self.protocol.unwrap_or(Protocol::ManifestChain),
            listen: self.listen,
            storage: self.client_settings.iter().cloned().collect::<BTreeMap<_, _>>(),
            sts: self.credentials.options(),
            rebase: self.rebase_appends,
            overwrite_priority: Duration::from_millis(self.overwrite_priority.into()),
            added_latency: Duration::from_nanos(self.added_latency.as_nanos()),
            threads: self.threads.map_or(cores, usize::from),
            security: Security {
                access: security.access.clone(),
                tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
                plain_http: security.plain_http,
            },
            limits: Limits {
                request_timeout: seconds(limits.request_timeout),
                most_requests: limits.most_requests as usize,
                most_body_bytes: (limits.most_body as usize) << 20,
                all_bodies_bytes: (limits.all_bodies as usize) << 20,
                most_header_bytes: (limits.most_headers as usize) << 10,
                idle_timeout: seconds(limits.idle_timeout),
                most_connections: limits.most_connections as usize,
            },
            operations: Operations {
                listen: operations.operations_listen,
                drain_delay: seconds(operations.drain_delay),
                drain_timeout: seconds(operations.drain_timeout),
            },
            ..Config::of(&self.store)
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    log_to_stderr(arguments.operations.log, arguments.operations.log_level);
    use_small_pages();
    let LimitArguments { most_body, all_bodies, .. } = arguments.limits;
    if all_bodies < most_body {
        let words = format!(
            "--all-bodies {all_bodies} is less than --most-body {most_body}; allowed: at least as much for all bodies as for one"
        );
        return Err(Failure::Mistake(words));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        let server = Server::start(arguments.config()).await.map_err(not_started)?;
        if let Some(asked) = arguments.protocol.filter(|asked| *asked != server.protocol()) {
            let (store, there) = (shown(&arguments.store), server.protocol().name());
            let words = format!(
                "the catalog in {store} has the protocol {there}, not {}; --protocol is for a new catalog: leave it out, or name \
                 another store",
                asked.name()
            );
            return Err(Failure::Mistake(words));
        }
        let address = server.address().map_err(|error| Failure::Failed(error.to_string()))?;
        let scheme = if server.is_tls() { "https" } else { "http" };
        println!("serving {} ({}) on {scheme}://{address}", shown(&arguments.store), server.protocol().name());
        tokio::spawn(reloads(server.handle()));
        server.serve(stopped()).await.map_err(|error| Failure::Failed(error.to_string()))
    });
    // What did not end in time is not waited for.
    runtime.shutdown_background();
    ended
}

/// Requests allocate and free megabytes of small objects on several threads. With huge pages the server takes three times as
/// much memory for that, and the kernel spends a fifth of the server's processor time on clearing it.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!("huge pages stay on: {error}; the server takes more memory");
    }
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Store(glidepath_stores::OpenError::Url { .. } | glidepath_stores::OpenError::Warehouse { .. })
        | StartError::Exposed { .. }
        | StartError::Access(_)
        | StartError::Credentials(_)
        | StartError::Tls { .. } => Failure::Mistake(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

/// Reads the files again at each SIGHUP. A bad file changes nothing.
async fn reloads(handle: Handle) {
    #[cfg(unix)]
    {
        let Ok(mut hangups) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) else { return };
        while hangups.recv().await.is_some() {
            match handle.reload() {
                Ok(()) => tracing::info!("read the access file and the certificate again"),
                Err(error) => tracing::error!(%error, "not read again: what was read before goes on"),
            }
        }
    }
    #[cfg(not(unix))]
    drop(handle);
}

/// Done when the process is asked to end.
async fn stopped() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        let Ok(mut ended) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
            let _ = interrupted.await;
            return;
        };
        tokio::select! {
            _ = interrupted => {}
            _ = ended.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = interrupted.await;
}
