//! The service of a running server, and the tasks that run for as long as it does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use glidepath_env::Env as _;
use glidepath_protocols::group::{AlreadyLed, Committer, Group, Leader, Loader, Loads, MOST_WAITING, RetryPolicy};
use glidepath_protocols::registry::AnyCatalog;
use glidepath_service::{Counts, Service, ServiceError, Settings, Warehouse};
use glidepath_stores::{LiveEnv, Store};

use crate::operations::timed::Timed;
use crate::people::recent::Recent;
use crate::state::Live;
use crate::workers::Workers;

/// A service on a live catalog, with the tasks that commit and load for all.
pub(crate) fn live(
    catalog: AnyCatalog<LiveEnv>,
    files: Timed<Warehouse<Store>>,
    settings: Settings,
    workers: &Workers,
) -> Live {
    let env = LiveEnv::new();
    let (group, loads) = (Group::new(MOST_WAITING), Loads::new());
    let (led, of) = (catalog.clone(), group.clone());
    let leader = move || made(Leader::new(env, led.clone(), &of, RetryPolicy::default()));
    let (loaded, by) = (catalog.clone(), loads.clone());
    let loader = move || made(Loader::new(loaded.clone(), &by));
    // The first ones before anybody asks.
    let (mut first_leader, mut first_loader) = (leader(), loader());
    workers.serve_all("committing", move || {
        OptionFuture::from(first_leader.take().or_else(&leader).map(Leader::lead)).map(drop)
    });
    workers.serve_all("loading", move || {
        OptionFuture::from(first_loader.take().or_else(&loader).map(Loader::serve)).map(drop)
    });
    Service::new(env, Committer::mixed(env, catalog, group, RetryPolicy::default()), loads, files, settings)
}

/// Cleans old keys and runs purges, for as long as the server lives.
pub(crate) async fn upkeep(service: Live) {
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        // What fails now is done at the next turn, or by another server.
        told("making the namespaces of the service", service.prepare().await.err());
        told("cleaning old keys", service.clean_keys().await.err());
    }
}

/// By itself, because a purge can take hours, and keys arise meanwhile.
pub(crate) async fn purges(service: Live) {
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let purged = service.run_purges().await;
        if !purged.kept.is_empty() {
            tracing::warn!(files = ?purged.kept, "a purge left files that cannot be read, what leads to them, and what they name");
        }
        told("purging dropped tables", purged.failed);
    }
}

fn made<T>(made: Result<T, AlreadyLed>) -> Option<T> {
    made.inspect_err(|error| tracing::error!("a defect of the server: {error}")).ok()
}

fn told(what: &str, failed: Option<ServiceError>) {
    if let Some(error) = failed {
        tracing::warn!(why = error.message, "{what} failed; it is tried again in 15 seconds");
    }
}

/// Notes for people how many commits there were, for as long as the server lives.
pub(crate) async fn note_commits(recent: Arc<Recent>, counts: Arc<Counts>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        recent.note(&counts, LiveEnv::new().unix_ms());
    }
}
