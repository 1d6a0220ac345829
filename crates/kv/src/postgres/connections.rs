//! How does a request reach the server? Over one of a few connections, each opened when it is first needed and shared
//! by requests that follow each other without waiting.
//!
//! A connection that fails, or lets a request wait too long, is given up with the requests on it; the next request
//! opens another.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use super::outcome::{Failure, Reason};

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A server, and some connections to it.
pub(super) struct Connections {
    config: Config,
    /// Where it is, for messages; without a password.
    pub(super) server: String,
    slots: Vec<Slot>,
    longest: Duration,
}

/// A place for a connection.
#[derive(Default)]
struct Slot {
    /// Requests on it, or waiting for it.
    busy: AtomicUsize,
    link: Mutex<Option<Arc<Link>>>,
}

/// A connection with the statements that were prepared on it.
struct Link {
    client: Client,
    statements: Lock<HashMap<String, Statement>>,
}

/// A request's share of a place.
struct Share<'a>(&'a Slot);

impl<'a> Share<'a> {
    fn of(slot: &'a Slot) -> Self {
        slot.busy.fetch_add(1, Ordering::Relaxed);
        Self(slot)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    pub(super) fn new(config: Config, server: String, count: usize, longest: Duration) -> Self {
        let slots = (0..count.max(1)).map(|_| Slot::default()).collect();
        Self { config, server, slots, longest }
    }

    /// The first place that nobody uses, so that few requests need few connections; else one of those with the fewest.
    fn share(&self) -> Share<'_> {
        let busy = |slot: &&Slot| slot.busy.load(Ordering::Relaxed);
        // There is one at least.
        Share::of(self.slots.iter().min_by_key(busy).unwrap_or(&self.slots[0]))
    }

    /// Waits for a step of a request, but not for ever.
    async fn within<T>(
        &self,
        step: &'static str,
        doing: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Reason> {
        let server = || self.server.clone();
        match timeout(self.longest, doing).await {
            Ok(done) => done.map_err(|error| Reason::Server { server: server(), step, error }),
            Err(_) => Err(Reason::Late { server: server(), seconds: self.longest.as_secs_f64(), step }),
        }
    }

    async fn link(&self, slot: &Slot) -> Result<Arc<Link>, Reason> {
        let connect = async {
            let mut place = slot.link.lock().await;
            if let Some(link) = place.as_ref().filter(|link| !link.client.is_closed()) {
                return Ok(Arc::clone(link));
            }
            let (client, connection) = self.config.connect(NoTls).await?;
            // Ends with its client. What it fails with, the requests on it are told as well.
            tokio::spawn(connection);
            let link = Arc::new(Link { client, statements: Lock::default() });
            *place = Some(Arc::clone(&link));
            Ok(link)
        };
        self.within("connecting", connect).await
    }

    pub(super) async fn connect(&self) -> Result<(), Reason> {
        let Share(slot) = &self.share();
        self.link(slot).await.map(drop)
    }

    /// A connection with this statement prepared on it. Sends nothing that changes anything.
    async fn prepared(&self, slot: &Slot, sql: &str) -> Result<(Arc<Link>, Statement), Failure> {
        let link = self.link(slot).await.map_err(Failure::Before)?;
        let known = || link.statements.lock().unwrap_or_else(PoisonError::into_inner);
        let statement = known().get(sql).cloned();
        if let Some(statement) = statement {
            return Ok((link, statement));
        }
        let statement = self.within("preparing a statement", link.client.prepare(sql)).await.map_err(Failure::Before);
        let statement = self.judged(slot, &link, statement).await?;
        known().insert(sql.to_owned(), statement.clone());
        Ok((link, statement))
    }

    /// Gives the connection up where the failure is its own.
    async fn judged<T>(&self, slot: &Slot, link: &Arc<Link>, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.as_ref().is_err_and(Failure::ends_connection) {
            let mut place = slot.link.lock().await;
            if place.as_ref().is_some_and(|there| Arc::ptr_eq(there, link)) {
                *place = None;
            }
        }
        result
    }

    /// How many rows a statement changed. An answer means that it is committed.
    pub(super) async fn execute(&self, sql: &str, parameters: Parameters<'_>) -> Result<u64, Failure> {
        let Share(slot) = &self.share();
        let (link, statement) = self.prepared(slot, sql).await?;
        let sent = self.within("waiting for a write", link.client.execute(&statement, parameters)).await;
        self.judged(slot, &link, sent.map_err(Failure::After)).await
    }

    pub(super) async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Failure> {
        let Share(slot) = &self.share();
        let (link, statement) = self.prepared(slot, sql).await?;
        let sent = self.within("waiting for a read", link.client.query(&statement, parameters)).await;
        self.judged(slot, &link, sent.map_err(Failure::After)).await
    }

    /// Statements without parameters, in one transaction.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        let Share(slot) = &self.share();
        let link = self.link(slot).await.map_err(Failure::Before)?;
        let sent = self.within("waiting for a change of tables", link.client.batch_execute(sql)).await;
        self.judged(slot, &link, sent.map_err(Failure::After)).await
    }
}
