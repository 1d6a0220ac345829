//! How does a cell run against a server? Its clients share a few threads, each client with a connection of its own.

#![allow(clippy::disallowed_methods, reason = "clients of a real server run in real time")]

mod append;
mod catalog;
mod files;
mod head;
mod http;
mod processor;
mod responder;
mod verify;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glidepath_env::{Env as _, Purpose};
use glidepath_stores::LiveEnv;
use tokio::sync::Barrier;
use tokio::task::LocalSet;

use super::cell::{Cell, Outcome, Samples, Workload};
use catalog::Catalog;
use files::TableFiles;
use head::Heads;
use http::{Address, Connection};

pub use processor::processor_of;
pub use responder::Responder;

/// Why a cell was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    /// The URL is not that of a server.
    #[error(
        "{url}: {why}; allowed: http://HOST:PORT, with a path if the server has one, as in http://127.0.0.1:19120/iceberg"
    )]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no connection to the server.
    #[error("the server cannot be reached: {0}; start it, or give its URL")]
    Unreachable(String),
    /// A connection broke before the answer.
    #[error("a connection broke before the answer: {0}")]
    Broken(String),
    /// An answer without which there is nothing to measure.
    #[error("{what}: answered {words}")]
    Answer {
        /// The request.
        what: &'static str,
        /// The status and what the server says.
        words: String,
    },
    /// The files of an append.
    #[error("{0}")]
    Files(String),
    /// The machine refuses threads or timers.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// The server, and how its clients are.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Its URL, as Iceberg's clients get it.
    pub url: String,
    /// Sent with each request.
    pub token: Option<String>,
    /// The warehouse that is asked for, by its name.
    pub warehouse: Option<String>,
    /// The store that has the files of tables, by its URL, if they are not on this machine.
    pub files: Option<String>,
    /// The processes of the server, whose processor time is measured.
    pub processes: Vec<u32>,
    /// The threads of the clients.
    pub threads: usize,
    /// Whether nothing can be checked, because the server is a [`Responder`].
    pub is_responder: bool,
}

/// Cells against one server.
pub struct Measuring {
    target: Target,
    catalog: Catalog,
    /// Namespaces with their tables, to be removed at the end.
    made: Vec<(String, Vec<String>)>,
}

/// What the clients of a cell share.
struct Shared {
    cell: Cell,
    catalog: Catalog,
    namespace: String,
    heads: Heads,
    /// Of the one table, if clients append.
    files: Option<TableFiles>,
    /// All begin together.
    ready: Barrier,
    stop: &'static AtomicBool,
}

impl Shared {
    fn goes_on(&self, until: Instant) -> bool {
        Instant::now() < until && !self.stop.load(Ordering::Relaxed)
    }
}

/// What one client did.
#[derive(Default)]
struct Done {
    number: u32,
    samples: Samples,
    /// Whether it overwrote.
    overwrites: bool,
    began: Option<Instant>,
    ended: Option<Instant>,
    not_modified: u64,
    received_bytes: u64,
    /// Snapshots, or in `own` the last turn.
    acknowledged: Vec<i64>,
    unknown: Vec<i64>,
    refused: Vec<i64>,
}

impl Done {
    /// A snapshot that was given up. Who puts a commit off may be a gateway that has passed it on.
    fn ended_without(&mut self, snapshot: i64, was_put_off: bool) {
        if was_put_off { self.unknown.push(snapshot) } else { self.refused.push(snapshot) }
    }
}

/// What the clients of one thread did, with the thread's processor time.
type OfThread = Result<(Vec<Done>, u64), ServedError>;

impl Measuring {
    /// Asks the server what it is.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn begin(target: Target) -> Result<Self, ServedError> {
        let address = Address::parse(&target.url, target.token.as_deref())?;
        let catalog = on_this_thread(Catalog::find(address, target.warehouse.as_deref()))??;
        Ok(Self { target, catalog, made: Vec::new() })
    }

    /// Runs a cell, in a namespace of its own, until its time is over or `stop` is set.
    ///
    /// # Errors
    /// If the server cannot be used; what it refuses or puts off is part of the outcome.
    pub fn run(&mut self, cell: &Cell, stop: &'static AtomicBool) -> Result<Outcome, ServedError> {
        let shared = Arc::new(self.prepared(cell, stop)?);
        let clients: Vec<u32> = (0..cell.connections + cell.overwrites).collect();
        let threads = self.target.threads.clamp(1, clients.len().max(1));
        let server = processor_of(&self.target.processes);
        let ran: Vec<OfThread> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|thread| {
                    let own: Vec<u32> = clients.iter().copied().skip(thread).step_by(threads).collect();
                    let shared = Arc::clone(&shared);
                    scope.spawn(move || of_thread(&shared, own))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, OfThread>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            started.into_iter().map(join).collect()
        });
        let server_after = processor_of(&self.target.processes);
        let (mut all, mut processor) = (Vec::new(), Vec::new());
        for one in ran {
            let (done, used) = one?;
            all.extend(done);
            processor.push(used);
        }
        let mut outcome = joined(&all);
        outcome.client_processor_ns = Some(processor.iter().sum());
        let busiest = processor.iter().copied().max().unwrap_or_default();
        outcome.busiest_client = busiest as f64 / outcome.took_ns.max(1) as f64;
        outcome.server_processor_ns = server_after.zip(server).map(|(after, before)| after.saturating_sub(before));
        if !self.target.is_responder {
            outcome.checked = on_this_thread(verify::checked(&shared, &all))??;
        }
        Ok(outcome)
    }

    /// What all clients of a cell need.
    fn prepared(&mut self, cell: &Cell, stop: &'static AtomicBool) -> Result<Shared, ServedError> {
        let namespace = format!("bench_{:016x}", LiveEnv::new().draw(Purpose::Names));
        let (catalog, target) = (self.catalog.clone(), &self.target);
        let all = cell.connections + cell.overwrites;
        let tables = match cell.workload {
            Workload::Own => (0..all).map(work::own_table).collect(),
            _ => vec![work::THE_TABLE.to_owned()],
        };
        let first = tables.clone();
        self.made.push((namespace.clone(), tables));
        let files = on_this_thread(async {
            catalog.create_namespace(&namespace).await?;
            let mut connection = Connection::new(&catalog.address);
            let mut location = String::new();
            for table in &first {
                let made = catalog.create_table(&mut connection, &namespace, table).await?;
                location = made["metadata"]["location"].as_str().unwrap_or_default().to_owned();
            }
            match cell.workload.appends() && !target.is_responder {
                true => TableFiles::of(&location, target.files.as_deref()).await.map(Some),
                false => Ok(None),
            }
        })??;
        let ready = Barrier::new(all as usize);
        let shared = Shared { cell: *cell, catalog, namespace, heads: Heads::default(), files, ready, stop };
        if shared.files.is_some() {
            // A rebase needs a parent: the first append is made alone.
            on_this_thread(append::first(&shared))??;
        }
        Ok(shared)
    }

    /// Removes the tables and namespaces of all cells.
    ///
    /// # Errors
    /// What was not removed stays on the server.
    pub fn remove(self) -> Result<(), ServedError> {
        on_this_thread(async {
            let mut connection = Connection::new(&self.catalog.address);
            let mut first = Ok(());
            for (namespace, tables) in &self.made {
                for table in tables {
                    first = first.and(self.catalog.drop_table(&mut connection, namespace, table).await);
                }
                first = first.and(self.catalog.drop_namespace(namespace).await);
            }
            first
        })?
    }
}

/// Whether this is the URL of a server. Its host is looked up, and nothing is sent to it.
///
/// # Errors
/// [`ServedError::Url`]
pub fn check_url(url: &str) -> Result<(), ServedError> {
    Address::parse(url, None).map(drop)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn on_this_thread<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(LocalSet::new().block_on(&runtime()?, work))
}

/// Runs these clients on this thread.
fn of_thread(shared: &Arc<Shared>, own: Vec<u32>) -> OfThread {
    let used = processor::of_thread_ns();
    let done = on_this_thread(async {
        let clients = own.into_iter().map(|number| {
            let shared = Arc::clone(shared);
            tokio::task::spawn_local(async move { work::client(&shared, number).await })
        });
        let clients: Vec<_> = clients.collect();
        let mut all = Vec::new();
        for client in clients {
            let done = client.await.map_err(|error| ServedError::Broken(format!("a client stopped: {error}")))?;
            all.push(done?);
        }
        Ok::<_, ServedError>(all)
    })??;
    Ok((done, processor::of_thread_ns() - used))
}

fn joined(all: &[Done]) -> Outcome {
    let mut outcome = Outcome::default();
    let began = all.iter().filter_map(|done| done.began).min();
    let ended = all.iter().filter_map(|done| done.ended).max();
    let took = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended.duration_since(began));
    outcome.took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    for done in all {
        outcome.not_modified += done.not_modified;
        outcome.received_bytes += done.received_bytes;
        match done.overwrites {
            true => outcome.overwrites.get_or_insert_default().add(done.samples.clone()),
            false => outcome.operations.add(done.samples.clone()),
        }
    }
    outcome
}

/// When a server that was just started first answered `config`, and when it gave a table.
pub(super) fn first_answers(
    url: &str,
    namespace: &str,
    table: &str,
    mut alive: impl FnMut() -> bool,
) -> Result<[Instant; 2], ServedError> {
    let address = Address::parse(url, None)?;
    on_this_thread(async {
        let catalog = loop {
            match Catalog::find(address.clone(), None).await {
                Err(ServedError::Unreachable(_)) if alive() => tokio::time::sleep(super::start::AGAIN).await,
                found => break found?,
            }
        };
        let config = Instant::now();
        let path = catalog.table(namespace, table);
        catalog.load(&mut Connection::new(&address), &path).await?;
        Ok([config, Instant::now()])
    })?
}
