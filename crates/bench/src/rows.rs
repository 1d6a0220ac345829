//! Which entries does a catalog under load have, and how does a client use them?

use std::collections::BTreeMap;

use glidepath_env::{Cause, Denial, Env};
use glidepath_model::{Action, Entry, Name, TableState};
use glidepath_protocols::group::{GroupAttempt, Grouped, Request, Verdict};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::{AnyCatalog, AnySnapshot, Creation};
use glidepath_protocols::{Catalog, LoadError, Outcome};

use crate::design::Design;

/// The most names of one listing.
pub(crate) const LISTED: usize = 1000;

/// The most clients of one catalog: each has its own range of numbers.
pub const MOST_CLIENTS: u32 = 2048;

/// Entries that are created in one commit.
const BATCH: u64 = 25_000;

/// Why a catalog could not be filled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FillError {
    /// There is a catalog already.
    #[error("there is a catalog already: give an empty place")]
    Taken,
    /// The place could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A commit failed.
    #[error("the catalog could not be filled: {0}")]
    Commit(Cause),
    /// Stopped by the caller.
    #[error("stopped before the catalog was filled")]
    Stopped,
}

/// Creates an entry that is unique to this pair of numbers and not an initial one: a namespace, as in the published
/// sweep of manifest chains.
pub(crate) fn create(client: u32, number: u64) -> Request {
    let mut entry = Entry::namespace();
    entry.properties = BTreeMap::from([("bench".to_owned(), "true".to_owned())]);
    vec![Action::Create { name: named(&format!("w{client:04}-{number:08}")), entry }]
}

/// Whether the entry of this number exists, with a look-up of all its content. Initial entries have numbers below
/// [`Cell::rows`](crate::Cell::rows).
pub(crate) async fn describe<E: Env>(
    catalog: &AnyCatalog<E>,
    at: &AnySnapshot,
    number: u64,
) -> Result<bool, LoadError> {
    Ok(catalog.entry(at, &name(number)).await?.is_some())
}

/// The number of entries in a listing of the first [`LISTED`].
pub(crate) async fn list<E: Env>(catalog: &AnyCatalog<E>, at: &AnySnapshot) -> Result<u64, LoadError> {
    Ok(catalog.children(at, None, None, LISTED).await?.len() as u64)
}

/// Fills an empty place. `progress` gets the number of entries so far, and returns whether to continue.
pub(crate) async fn fill<E: Env>(
    catalog: &AnyCatalog<E>,
    design: Design,
    rows: u64,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<(), FillError> {
    let (layout, indexed) = (design.layout.unwrap_or(Layout::Paged), design.indexed.unwrap_or(true));
    let mut head = created(catalog.create_here(Creation { tables: Vec::new(), layout, indexed }).await)?;
    let mut done = 0;
    loop {
        if done > 0 && !progress(done) {
            return Err(FillError::Stopped);
        }
        if done == rows {
            return Ok(());
        }
        let upto = (done + BATCH).min(rows);
        let actions: Vec<Action> = (done..upto).map(first).collect();
        head = match catalog.attempt_group(&head, &[&actions]).await {
            GroupAttempt::Decided { outcome: Some(outcome), .. } => created(outcome)?,
            GroupAttempt::Decided { verdicts, outcome: None } => return Err(FillError::Commit(undone(verdicts))),
            GroupAttempt::NotMade(error) => return Err(error.into()),
        };
        done = upto;
    }
}

/// Checks that a creation succeeded.
fn created<S>(outcome: Outcome<S>) -> Result<S, FillError> {
    match outcome {
        Outcome::Committed(head) => Ok(head),
        Outcome::Conflict(_) => Err(FillError::Taken),
        Outcome::Refused(Denial { cause, .. }) | Outcome::Unknown(cause) => Err(FillError::Commit(cause)),
    }
}

/// Why entries could not be created.
fn undone(verdicts: Vec<Verdict>) -> Cause {
    match verdicts.into_iter().next() {
        Some(Verdict::Failed(cause)) => cause,
        Some(Verdict::Refused(refusal)) => Cause::words(refusal.to_string()),
        Some(Verdict::Fits) | None => Cause::words("the entries were there before"),
    }
}

/// A third of the initial entries are namespaces, the rest tables, as in the published sweep.
fn name(number: u64) -> Name {
    let kind = if number.is_multiple_of(3) { "ns" } else { "table" };
    named(&format!("{kind}_{number}"))
}

fn named(text: &str) -> Name {
    Name::of_parts([text]).expect("letters, digits and a line are a name")
}

fn first(number: u64) -> Action {
    if number.is_multiple_of(3) {
        return Action::Create { name: name(number), entry: Entry::namespace() };
    }
    let mut entry = Entry::table(Some(format!("table_{number}")), TableState::new(1));
    entry.properties.insert("bench".to_owned(), "true".to_owned());
    Action::Create { name: name(number), entry }
}
