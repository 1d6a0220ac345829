//! `glidepath serve`: a catalog server for clients of Iceberg and Lance.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
#[cfg(unix)]
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use glidepath_model::{ByteSize, Span};
use glidepath_protocols::registry::Protocol;
use glidepath_protocols::table_turn::HOLD;
use glidepath_server::{
    Config, Handle, Limits, LogFormat, LogLevel, Operations, Security, Server, StartError, StsOptions, TlsFiles,
    log_to_stderr,
};
use glidepath_stores::{shown, with_small_scheme};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

use crate::choice::one_of;
use crate::failure::{Failure, not_built};
use crate::quantity::{size, time};
use crate::whole::between;

/// Serve a catalog to clients of Iceberg REST and of Lance namespaces
///
/// STORE is a URL: file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, or a key-value store
/// (then --warehouse is needed). A catalog is created there if there is none. Any number of servers may serve one
/// store; whatever a server keeps in memory may be lost at any moment.
///
/// Without --access, everybody who reaches the server may do everything, so it listens on loopback only. With it, each
/// request needs a token, and grants say what its owner may do. Beyond loopback, the server also needs a certificate
/// (--tls-certificate, --tls-key), or --plain-http behind a load balancer that ends TLS.
///
/// /healthz: the process runs, and its store may take writes. /readyz: the catalog can be read, and the server is not
/// ending. /metrics: for Prometheus.
///
/// SIGHUP reads the access file and the certificate again. SIGTERM or Ctrl-C: /readyz says no, --drain-delay passes,
/// requests that have arrived are answered, then the server ends.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The store of the catalog, by its URL
    #[arg(value_name = "STORE")]
    store: String,
    /// Where to listen
    #[arg(long, alias = "port", default_value = "127.0.0.1:8181", value_name = "ADDRESS:PORT", value_parser = address)]
    listen: SocketAddr,
    /// The URL under which new tables get their folders [default: the folder "tables" in the store]
    #[arg(long, value_name = "URL")]
    warehouse: Option<String>,
    /// The protocol of a catalog that is created because there is none [default: manifest-chain; in a key-value store,
    /// tickets]
    #[arg(long, value_parser = one_of(Protocol::ALL, Protocol::name))]
    protocol: Option<Protocol>,
    /// A setting that clients get with each table, such as s3.endpoint=http://127.0.0.1:9000; may be repeated
    // Taken apart later: the parser's errors show the value, which may be a secret.
    #[arg(long = "client-setting", value_name = "KEY=VALUE")]
    client_settings: Vec<String>,
    /// Rebase appends of clients that do not ask for it, where the isolation levels of the table are all "snapshot"
    #[arg(long)]
    rebase_appends: bool,
    /// How long others' commits to a branch wait at most for the next try of an overwrite that conflicted (twice as
    /// long for one over several tables); 0ms: not at all
    #[arg(long, default_value_t = HOLD, value_name = "TIME", value_parser = time("0ms", "60s"))]
    overwrite_priority: Span,
    /// The latency to add to every request to the storage before it is sent, for experiments
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    added_latency: Span,
    /// Threads that run requests [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = between::<u16>(1, 512))]
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
    /// The token service (STS) that is asked for credentials for a table's folder: "aws", or a URL such as MinIO's.
    /// Only
    /// with a warehouse s3://
    #[arg(long, value_name = "aws|URL")]
    sts: Option<String>,
    /// The role that is assumed; Amazon needs one, MinIO does not
    #[arg(long, value_name = "ARN", requires = "sts")]
    sts_role: Option<String>,
    /// The region of the token service [default: that of the warehouse]
    #[arg(long, value_name = "REGION", requires = "sts")]
    sts_region: Option<String>,
    /// How long the credentials are valid
    #[arg(long, default_value = "3600s", value_name = "TIME", value_parser = time("900s", "43200s"), requires = "sts")]
    sts_duration: Span,
}

impl CredentialArguments {
    fn options(&self) -> Option<StsOptions> {
        let sts = self.sts.as_ref()?;
        Some(StsOptions {
            endpoint: (sts != "aws").then(|| sts.clone()),
            role: self.sts_role.clone(),
            region: self.sts_region.clone(),
            lifetime: duration(self.sts_duration),
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
    /// The largest body of a request
    #[arg(long, default_value = "16MiB", value_name = "SIZE", value_parser = size("1MiB", "1024MiB"))]
    most_body: ByteSize,
    /// The most for the bodies of all requests at once; further ones are answered 503 before they have any effect
    #[arg(long, default_value = "32MiB", value_name = "SIZE", value_parser = size("1MiB", "1024GiB"))]
    all_bodies: ByteSize,
    /// The most for all answers that their clients have not read, without the metadata of tables and views; further
    /// reads are answered 503
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = size("1MiB", "1024GiB"))]
    all_answers: ByteSize,
    /// The most for the headers of a request
    #[arg(long, default_value = "32KiB", value_name = "SIZE", value_parser = size("8KiB", "1024KiB"))]
    most_headers: ByteSize,
    /// The most requests at once; further ones are answered 503 before they have any effect
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = between::<u32>(1, 1_000_000))]
    most_requests: u32,
    /// The most connections at once; further ones wait
    #[arg(long, default_value_t = 8192, value_name = "N", value_parser = between::<u32>(1, 1_000_000))]
    most_connections: u32,
    /// The time until a request is answered though its work goes on: 504 (outcome unknown) if it changes something,
    /// else 503
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = time("1s", "3600s"))]
    request_timeout: Span,
    /// How long a connection may be silent between requests, or take nothing of its answers
    #[arg(long, default_value = "75s", value_name = "TIME", value_parser = time("1s", "3600s"))]
    idle_timeout: Span,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Operations")]
struct OperationArguments {
    /// Where to serve /healthz, /readyz and /metrics, without tokens [default: with the catalog]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    operations_listen: Option<SocketAddr>,
    /// The time between "not ready" and the end of accepting, so that load balancers notice
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = time("0s", "3600s"))]
    drain_delay: Span,
    /// The time for the requests that have arrived then
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = time("1s", "3600s"))]
    drain_timeout: Span,
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

/// Whether nobody can listen on both.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.is_ipv4() == other.is_ipv4() && (one.ip().is_unspecified() || other.ip().is_unspecified());
    one.port() == other.port() && one.port() != 0 && (any || one.ip() == other.ip())
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

fn bytes(size: ByteSize) -> usize {
    usize::try_from(size.as_bytes()).unwrap_or(usize::MAX)
}

fn pair(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::Mistake(
            "--client-setting: found one without a key and a \"=\"; allowed: KEY=VALUE, such as s3.region=eu-central-1"
                .to_owned(),
        )),
    }
}

impl Arguments {
    fn config(&self) -> Result<Config, Failure> {
        let Self { security, limits, operations, .. } = self;
        let tls = security.tls_certificate.clone().zip(security.tls_key.clone());
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Ok(Config {
            warehouse: self.warehouse.clone(),
            protocol: self.protocol,
            listen: self.listen,
            storage: self.client_settings.iter().map(|text| pair(text)).collect::<Result<BTreeMap<_, _>, _>>()?,
            sts: self.credentials.options(),
            rebase: self.rebase_appends,
            overwrite_priority: duration(self.overwrite_priority),
            added_latency: duration(self.added_latency),
            threads: self.threads.map_or(cores, usize::from),
            security: Security {
                access: security.access.clone(),
                tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
                plain_http: security.plain_http,
            },
            limits: Limits {
                request_timeout: duration(limits.request_timeout),
                most_requests: limits.most_requests as usize,
                most_body_bytes: bytes(limits.most_body),
                all_bodies_bytes: bytes(limits.all_bodies),
                all_answers_bytes: bytes(limits.all_answers),
                most_header_bytes: bytes(limits.most_headers),
                idle_timeout: duration(limits.idle_timeout),
                most_connections: with_descriptors(limits.most_connections as usize),
            },
            operations: Operations {
                listen: operations.operations_listen,
                drain_delay: duration(operations.drain_delay),
                drain_timeout: duration(operations.drain_timeout),
            },
            ..Config::of(&self.store)
        })
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
    let config = arguments.config()?;
    if let Some(second) = arguments.operations.operations_listen.filter(|second| meet(*second, arguments.listen)) {
        let words = format!(
            "--operations-listen {second} is the address of --listen {}; name another port, or leave --operations-listen out: \
             then that address has /healthz, /readyz and /metrics, too",
            arguments.listen
        );
        return Err(Failure::Mistake(words));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(async {
        let server = Server::start(config).await.map_err(|error| arguments.not_started(error))?;
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
        let new = if server.is_new() { ", a new catalog" } else { "" };
        let (store, protocol) = (shown(&arguments.store), server.protocol().name());
        if with_small_scheme(&arguments.store).starts_with("memory:") {
            tracing::warn!("the catalog is in memory: it ends with this server");
        }
        // Before anybody is told that it runs: a signal would end it at once.
        let (reloads, stopped) = (reloads(server.handle()), stopped());
        // Whoever started the server may have gone; the server stays.
        let _ = writeln!(std::io::stdout(), "serving {store} ({protocol}{new}) on {scheme}://{address}");
        tokio::spawn(reloads);
        server.serve(stopped).await.map_err(|error| Failure::Failed(error.to_string()))
    });
    // What did not end in time is not waited for.
    runtime.shutdown_background();
    ended
}

/// Requests allocate and free megabytes of small objects on several threads. With huge pages the server takes three
/// times as much memory for that, and the kernel spends a fifth of the server's processor time on clearing it.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::warn!("huge pages stay on: {error}; the server takes more memory");
    }
}

/// File descriptors that connections leave for everything else: the files or connections of the store, and logs. Where
/// there are few, half of them.
#[cfg(unix)]
const LEFT: u64 = 1024;

/// As many of these connections as there are file descriptors for. Raises this process's own limit for that, as far as
/// it may: the usual one, 1,024, would let a thousand idle connections take the descriptors of the store.
#[cfg(unix)]
fn with_descriptors(connections: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (limit, wanted) = (getrlimit(Resource::Nofile), (connections as u64).saturating_add(LEFT));
    let Some(mut now) = limit.current else { return connections };
    let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let rise = Rlimit { current: Some(raised), maximum: limit.maximum };
    if raised > now && setrlimit(Resource::Nofile, rise).is_ok() {
        now = raised;
    }
    let allowed = usize::try_from(now.saturating_sub(LEFT).max(now / 2)).unwrap_or(usize::MAX);
    if allowed < connections {
        tracing::warn!(
            "at most {allowed} connections at once, not {connections} (--most-connections): this process may have {now} open \
             files (ulimit -n, or LimitNOFILE of a unit)"
        );
    }
    connections.min(allowed)
}

#[cfg(not(unix))]
fn with_descriptors(connections: usize) -> usize {
    connections
}

impl Arguments {
    fn not_started(&self, error: StartError) -> Failure {
        match error {
            StartError::Store(glidepath_stores::OpenError::NotBuilt { url, feature }) => not_built(&url, feature),
            StartError::Listen { address, .. } => {
                let is_second = self.operations.operations_listen == Some(address);
                let option = if is_second { "--operations-listen" } else { "--listen" };
                Failure::Failed(format!("{option}: {error}"))
            }
            // It was made of the URL of the store.
            StartError::Store(error @ glidepath_stores::OpenError::Warehouse { .. }) if self.warehouse.is_none() => {
                Failure::Mistake(format!("{error}. The option for it is --warehouse URL"))
            }
            StartError::Store(
                glidepath_stores::OpenError::Url { .. } | glidepath_stores::OpenError::Warehouse { .. },
            )
            | StartError::Exposed { .. }
            | StartError::Access(_)
            | StartError::Credentials(_)
            | StartError::Places(_)
            | StartError::Protocol(_)
            | StartError::Tls { .. } => Failure::Mistake(error.to_string()),
            error => Failure::Failed(error.to_string()),
        }
    }
}

/// Reads the files again at each SIGHUP from this call on. A bad file changes nothing.
fn reloads(handle: Handle) -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        let hangups = signal(SignalKind::hangup());
        async move {
            let Ok(mut hangups) = hangups else { return };
            while hangups.recv().await.is_some() {
                match handle.reload() {
                    Ok(()) => tracing::info!("read the access file and the certificate again"),
                    Err(error) => tracing::error!(%error, "not read again: what was read before goes on"),
                }
            }
        }
    }
    #[cfg(not(unix))]
    async move {
        drop(handle)
    }
}

/// Done when the process is asked to end, from this call on: a request may be answered before the result is polled.
fn stopped() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let mut signals: Vec<_> = kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect();
        std::future::poll_fn(move |context| {
            match signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }
    #[cfg(not(unix))]
    async {
        let _ = tokio::signal::ctrl_c().await;
    }
}
