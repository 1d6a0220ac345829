//! Clients of Lance, whose commits the server orders: do they get the versions that they were told of?
//!
//! A client reads the newest version, stages the manifest of the next one, and asks for it. After an error it deletes
//! what it staged. Other clients read, delete old versions, and make, rename, deregister and drop tables meanwhile.
//!
//! What must hold, besides that all come to an end:
//!
//! 1. The number of each version is one more than that of the version before, and its client has read that one, if it
//!    looked.
//! 2. A version that was acknowledged is the one that its client staged; what was refused is no version.
//! 3. A commit is in one version at most, however often it is sent.
//! 4. What is at the place of a version is the manifest of that version, and only of it.
//! 5. All versions of a table are at their places, but those that a client deleted; the newest may be a copy of the
//!    server's. After a table was deregistered, all are.
//! 6. Readers find the newest version at its place, and it is at least as new as all that were acknowledged before.
//! 7. A table that was dropped does not come back, and its versions are deleted.

mod client;
mod judge;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use glidepath_service::{Identifier, Kind, LanceTable, LanceVersion, NewLanceTable, NewLanceVersion, VersionPage};
use serde::{Deserialize, Serialize};

use super::book::{Book, Told};
use super::server::Served;
use super::wire::{Answer, Done};

pub(super) use judge::judged;

/// What a client of Lance asks about a table.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Declare,
    Describe,
    Newest,
    Versions,
    Create(NewLanceVersion),
    /// To delete all versions before this one.
    Delete(u64),
    Rename(Identifier),
    Deregister,
    Drop,
}

/// What clients put into a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    /// The commit.
    commit: i64,
    /// Which attempt of it; unique.
    attempt: i64,
    version: u64,
    /// The attempt that made the version before; 0: there was none. `None`: its client did not look.
    after: Option<i64>,
}

/// An attempt to create a version.
#[derive(Clone, Debug)]
struct Attempt {
    location: String,
    version: u64,
    told: Told,
}

/// What the clients were told, and asked for.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// By number.
    attempts: BTreeMap<i64, Attempt>,
    /// Acknowledged versions, in the order in which they were told, each with the location of its table.
    acknowledged: Vec<(String, u64)>,
    /// By location: the version before which all may have been deleted.
    deleted: BTreeMap<String, u64>,
    /// The locations of tables that were dropped, in the order in which that was told.
    dropped: Vec<String>,
    /// Manifests that readers did not find: location and version.
    missed: BTreeSet<(String, u64)>,
}

impl Versions {
    /// A client asks to delete all versions before this one.
    fn deletes(&mut self, location: &str, before: u64) {
        let deleted = self.deleted.entry(location.to_owned()).or_default();
        *deleted = before.max(*deleted);
    }

    /// The least version that nobody asked to delete.
    fn least(&self, location: &str) -> u64 {
        self.deleted.get(location).copied().unwrap_or(1)
    }
}

impl Book {
    fn lance_attempt(&mut self, attempt: i64, location: &str, version: u64) {
        self.checked.attempts += 1;
        self.checked.open += 1;
        let begun = Attempt { location: location.to_owned(), version, told: Told::Open };
        self.lance.attempts.insert(attempt, begun);
    }

    fn lance_told(&mut self, attempt: i64, told: Told) {
        let Some(attempt) = self.lance.attempts.get_mut(&attempt) else { return };
        attempt.told = told;
        self.checked.open -= u64::from(told != Told::Open);
        if told == Told::Done {
            self.checked.committed += 1;
            self.lance.acknowledged.push((attempt.location.clone(), attempt.version));
        }
    }

    /// A reader saw this newest version, after so many had been acknowledged.
    fn lance_looked(&mut self, location: &str, newest: u64, acknowledged: usize) {
        let mut before = self.lance.acknowledged[..acknowledged].iter().filter(|(of, _)| of == location);
        if let Some((_, version)) = before.find(|(_, version)| *version > newest) {
            let words =
                format!("{location} was read at version {newest}, and version {version} was acknowledged before");
            self.violated(words);
        }
    }
}

/// The place of the manifest of a version, as Lance's clients name it.
fn place(location: &str, version: u64) -> String {
    format!("{location}/_versions/{:020}.manifest", u64::MAX - version)
}

/// The location and the version whose place this is.
fn placed(file: &str) -> Option<(&str, u64)> {
    let (location, name) = file.split_once("/_versions/")?;
    let number = name.strip_suffix(".manifest").filter(|number| number.len() == 20)?;
    Some((location, u64::MAX - number.parse::<u64>().ok()?))
}

fn read(bytes: &Bytes) -> Result<Manifest, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("a manifest cannot be read: {error}"))
}

/// What declares a table whose commits the server orders.
pub(super) fn managed(identifier: Identifier) -> NewLanceTable {
    let properties = [(glidepath_service::MANAGED_VERSIONING.to_owned(), "true".to_owned())].into();
    NewLanceTable { identifier, location: None, properties }
}

/// What a server answers.
pub(super) async fn answer(service: &Served, table: Identifier, ask: Ask) -> Answer {
    match ask {
        Ask::Declare => service.declare_lance(managed(table)).await.map(Done::Lance),
        Ask::Describe => service.describe_lance(&table).await.map(Done::Lance),
        Ask::Newest => match service.describe_lance_version(&table, None).await {
            Err(error) if error.kind == Kind::NoVersion => Ok(Done::Versions(Vec::new())),
            newest => newest.map(|newest| Done::Versions(vec![newest])),
        },
        Ask::Versions => {
            let versions = service.list_lance_versions(&table, &VersionPage::default()).await;
            versions.map(|(versions, _)| Done::Versions(versions))
        }
        Ask::Create(new) => {
            service.create_lance_version(&table, &new).await.map(|created| Done::Versions(vec![created]))
        }
        Ask::Delete(before) => service.delete_lance_versions(&table, &[(1, before)]).await.map(|_| Done::Nothing),
        Ask::Rename(to) => service.rename_lance(&table, &to).await.map(|()| Done::Nothing),
        Ask::Deregister => service.deregister_lance(&table).await.map(Done::Lance),
        Ask::Drop => service.drop_lance(&table).await.map(Done::Lance),
    }
}

/// The table of an answer.
fn table_of(done: Done) -> Option<LanceTable> {
    if let Done::Lance(table) = done { Some(table) } else { None }
}

/// The versions of an answer.
fn versions_of(done: Done) -> Option<Vec<LanceVersion>> {
    if let Done::Versions(versions) = done { Some(versions) } else { None }
}
