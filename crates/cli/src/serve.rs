//! `glidepath serve`: a catalog server for clients of Iceberg.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::Args;
use glidepath_protocols::registry::Protocol;
use glidepath_server::{Config, Server, StartError};

use crate::choice::one_of;
use crate::failure::Failure;

/// Serve a catalog to clients of Iceberg REST
///
/// STORE is a URL: file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, or a key-value store
/// (then --warehouse is needed). A catalog is created there if there is none. Any number of servers may serve one store;
/// whatever a server keeps in memory may be lost at any moment.
///
/// SIGTERM or Ctrl-C: requests that have arrived are answered, then the server ends.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The store of the catalog, by its URL
    #[arg(value_name = "STORE")]
    store: String,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8181", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The URL under which new tables get their folders [default: the folder "tables" in the store]
    #[arg(long, value_name = "URL")]
    warehouse: Option<String>,
    /// The protocol of a catalog that is created because there is none
    #[arg(long, default_value = "manifest-chain", value_parser = one_of(Protocol::ALL, Protocol::name))]
    protocol: Protocol,
    /// A setting that clients get with each table, such as s3.endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long = "client-setting", value_name = "KEY=VALUE", value_parser = pair)]
    client_settings: Vec<(String, String)>,
    /// Rebase appends of clients that do not ask for it, where the isolation levels of the table are all "snapshot"
    #[arg(long)]
    rebase_appends: bool,
    /// Threads that run requests [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,
    /// The most megabytes in the body of a request
    #[arg(long, default_value_t = 64, value_name = "MB", value_parser = clap::value_parser!(u16).range(1..=1024))]
    most_body: u16,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.listen.ip().is_loopback() {
        let words = "--listen: without access rules a server listens on loopback only (127.0.0.1 or [::1])";
        return Err(Failure::Mistake(words.to_owned()));
    }
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let config = Config {
        store: arguments.store.clone(),
        warehouse: arguments.warehouse.clone(),
        protocol: arguments.protocol,
        listen: arguments.listen,
        storage: arguments.client_settings.iter().cloned().collect::<BTreeMap<_, _>>(),
        rebase: arguments.rebase_appends,
        threads: arguments.threads.map_or(cores, usize::from),
        most_body_bytes: usize::from(arguments.most_body) << 20,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let server = Server::start(config).await.map_err(not_started)?;
        let address = server.address().map_err(|error| Failure::Failed(error.to_string()))?;
        println!("serving {} ({}) on http://{address}", arguments.store, server.protocol().name());
        server.serve(stopped()).await.map_err(|error| Failure::Failed(error.to_string()))
    })
}

fn not_started(error: StartError) -> Failure {
    match error {
        StartError::Store(glidepath_stores::OpenError::Url { .. }) => Failure::Mistake(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
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
