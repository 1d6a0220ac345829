//! From a URL to a service, and from an error to a message and an exit code.

use glidepath_env::Table;
use glidepath_kv::{AnyKv, OpenError, OpenUrlError, is_missing, shown, with_small_scheme};
use glidepath_stores::LiveEnv;
use glidepath_txn::service::{Service, ServiceError};
use glidepath_txn::table::{DecideError, GetError, Options};
use glidepath_txn::timestamps::{self, Allocator, AllocatorOptions, Sharing, TakeError};
use glidepath_txn::{Outcome, Timestamp, names};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::Common;
use crate::failure::{Failure, code, not_built};

/// An open store, and its runtime.
pub(super) struct Opened {
    pub(super) store: AnyKv,
    runtime: Runtime,
}

/// A service in an open store.
pub(super) struct Site {
    pub(super) service: Service<LiveEnv, AnyKv>,
    timestamps: Table,
    opened: Opened,
    /// The command that gives out a timestamp.
    begin: String,
}

impl Opened {
    /// Opens the store, or makes it.
    pub(super) fn of(common: &Common) -> Result<Self, Failure> {
        if with_small_scheme(&common.store) == "kv+memory:" {
            let words = "kv+memory: exists only until the command ends, so no other command could use it; \
                         use kv+file:///directory for a try";
            return Err(Failure::Mistake(words.to_owned()));
        }
        // One thread: a command does one thing at a time. The driver of Cassandra has tasks of its own on it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
        let store = runtime.block_on(glidepath_kv::open(&common.store)).map_err(|error| open(&error))?;
        Ok(Self { store, runtime })
    }

    /// Waits for something.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl Site {
    /// Opens an existing service. Makes no folder.
    pub(super) fn of(common: &Common) -> Result<Self, Failure> {
        if is_missing(&common.store) {
            return Err(none(common));
        }
        let opened = Opened::of(common)?;
        let found = Service::open(LiveEnv::new(), opened.store.clone(), &common.service, Options::default());
        let found = opened.wait(found).map_err(|error| match error {
            ServiceError::NoService(_) => none(common),
            error => service(&error),
        })?;
        Self::with(common, opened, found)
    }

    pub(super) fn with(common: &Common, opened: Opened, service: Service<LiveEnv, AnyKv>) -> Result<Self, Failure> {
        let timestamps = names::timestamps(&common.service);
        let timestamps = timestamps.ok_or_else(|| Failure::Mistake(format!("{:?} is no service", common.service)))?;
        Ok(Self { service, timestamps, opened, begin: common.command("begin STORE") })
    }

    /// Waits for something.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.opened.wait(future)
    }

    /// Whether no other process can open the store meanwhile.
    pub(super) fn is_exclusive(&self) -> bool {
        self.opened.store.is_exclusive()
    }

    /// An allocator of `count` timestamps and not many more: those that are left when the command ends are lost.
    pub(super) fn allocator(&self, count: u64) -> Result<Allocator<LiveEnv, AnyKv>, Failure> {
        self.bound()?;
        self.new_allocator(count)
    }

    /// The same, also where the bound was lost: to fast-forward it.
    pub(super) fn new_allocator(&self, count: u64) -> Result<Allocator<LiveEnv, AnyKv>, Failure> {
        let sharing = match self.is_exclusive() {
            true => Sharing::Alone,
            false => Sharing::Shared,
        };
        let options = AllocatorOptions { allotment: count.max(1), sharing };
        let store = self.opened.store.clone();
        let opened = self.wait(Allocator::open(LiveEnv::new(), store, self.timestamps.clone(), options));
        opened.map_err(|error| take(&error))
    }

    /// Every timestamp that was given out is below this number.
    pub(super) fn bound(&self) -> Result<u64, Failure> {
        let env = LiveEnv::new();
        let bound = timestamps::bound(&env, &self.opened.store, &self.timestamps);
        let bound = self.wait(bound).map_err(|error| take(&error))?;
        let looked_up = self.service.bound();
        if bound == 1 && looked_up > 0 {
            let words = format!(
                "the bound of timestamps in the table {} is lost: transactions up to {looked_up} may have begun. Put \
                 the table back from a backup, or let {} see to it that no timestamp is given out twice",
                self.timestamps,
                self.begin.replace("begin STORE", &format!("fast-forward STORE {looked_up}"))
            );
            return Err(Failure::Failed(words));
        }
        Ok(bound)
    }

    /// An error if one of these was not given out: a service follows the highest timestamp that it is asked for.
    pub(super) fn given_out(&self, asked: impl IntoIterator<Item = Timestamp>) -> Result<(), Failure> {
        let Some(highest) = asked.into_iter().max() else { return Ok(()) };
        let bound = self.bound()?;
        if highest.get() < bound {
            return Ok(());
        }
        let words = match bound {
            1 => format!("{highest} was not given out: no timestamp was; {} gives out one", self.begin),
            _ => format!(
                "{highest} was not given out: timestamps up to {} were; {} gives out the next",
                bound - 1,
                self.begin
            ),
        };
        Err(Failure::Mistake(words))
    }
}

/// The transaction had ended otherwise than it was to end.
pub(super) fn otherwise(start: Timestamp, found: Outcome) -> Failure {
    Failure::Coded(code::OTHERWISE, format!("nothing was done: transaction {}", words(start, Some(found))))
}

pub(super) fn open(error: &OpenUrlError) -> Failure {
    match error {
        OpenUrlError::NotBuilt { shown, scheme } => not_built(shown, scheme),
        OpenUrlError::Url { .. } => Failure::Mistake(error.to_string()),
        OpenUrlError::Folder(OpenError::Locked(_)) => Failure::Coded(code::CONTENTION, error.to_string()),
        OpenUrlError::Folder(_) | OpenUrlError::Unusable { .. } => Failure::Failed(error.to_string()),
    }
}

/// There is no such service. Without a word of the store, a mistyped one, and one that has lost its tables, look like a
/// new one.
fn none(common: &Common) -> Failure {
    let (name, store) = (&common.service, shown(&common.store));
    let words = format!(
        "there is no transaction service {name:?} in {store}. If there was one, look at the address of the store, and at its backups; \
         {} makes a new one, whose timestamps begin at 1",
        common.command("create STORE")
    );
    Failure::Coded(code::NOT_FOUND, words)
}

pub(super) fn service(error: &ServiceError) -> Failure {
    match error {
        ServiceError::NoService(_) => Failure::Coded(code::NOT_FOUND, error.to_string()),
        ServiceError::Unknown { .. } => {
            Failure::Coded(code::UNKNOWN, format!("{error}; it may have been done: the same command again settles it"))
        }
        ServiceError::Table(glidepath_txn::table::OpenError::Taken { .. }) => Failure::Mistake(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

pub(super) fn take(error: &TakeError) -> Failure {
    match error {
        TakeError::Fenced { .. } => Failure::Coded(
            code::CONTENTION,
            "another process took over the timestamps; nothing was done: try again".to_owned(),
        ),
        error => Failure::Failed(error.to_string()),
    }
}

pub(super) fn get(error: &GetError) -> Failure {
    Failure::Failed(error.to_string())
}

/// `again` is the command that settles it.
pub(super) fn decide(error: &DecideError, again: &str) -> Failure {
    let is_unknown = match error {
        DecideError::Impossible(_) => return Failure::Mistake(error.to_string()),
        DecideError::Unknown(_) => true,
        DecideError::Refused(denial) => !denial.certain,
        DecideError::Read(_) => false,
    };
    match is_unknown {
        true => {
            let advice = format!("it may have been done: {again} settles it");
            Failure::Coded(code::UNKNOWN, format!("{error}; {advice}"))
        }
        false => Failure::Failed(error.to_string()),
    }
}

/// A transaction and how it ended, in words.
pub(super) fn words(start: Timestamp, outcome: Option<Outcome>) -> String {
    match outcome {
        None => format!("{start} is in progress"),
        Some(Outcome::Aborted) => format!("{start} aborted"),
        Some(Outcome::Committed(commit)) => format!("{start} committed at {commit}"),
    }
}

/// The same as JSON.
pub(super) fn object(start: Timestamp, outcome: Option<Outcome>) -> Value {
    let (status, commit) = match outcome {
        None => ("in progress", None),
        Some(Outcome::Aborted) => ("aborted", None),
        Some(Outcome::Committed(commit)) => ("committed", Some(commit.get())),
    };
    json!({ "start": start.get(), "status": status, "commit": commit })
}

#[cfg(test)]
mod tests;
