//! Fills a catalog: a third namespaces, the rest tables, as in the published sweep.

use glidepath_env::{Cause, Env};
use glidepath_model::{Action, Entry, Name, TableState};
use glidepath_protocols::manifest_chain::{Attempt, Layout, ManifestChain};
use glidepath_protocols::{Catalog, LoadError, Outcome};

/// Entries that are created in one commit.
const BATCH: u64 = 25_000;

/// Why a catalog could not be filled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SeedError {
    /// There is one, with other entries.
    #[error("there is a catalog already, with {found} entries: give an empty place")]
    Taken {
        /// How many it has.
        found: u64,
    },
    /// It could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store did not take it.
    #[error("a commit of {BATCH} entries failed: {0}")]
    Commit(Cause),
}

/// Creates a catalog with so many entries. `progress` is told how many there are.
///
/// # Errors
/// Where there is one, or the store fails.
pub async fn seed<E: Env>(
    chain: &ManifestChain<E>,
    rows: u64,
    indexed: bool,
    mut progress: impl FnMut(u64),
) -> Result<(), SeedError> {
    let mut head = match chain.create(Layout::Paged, indexed).await {
        Outcome::Committed(head) => head,
        Outcome::Conflict(_) => return Err(SeedError::Taken { found: chain.load().await?.entries() }),
        Outcome::Refused(cause) | Outcome::Unknown(cause) => return Err(SeedError::Commit(cause)),
    };
    let mut done = 0;
    while done < rows {
        let upto = (done + BATCH).min(rows);
        let actions: Vec<Action> = (done..upto).map(create).collect();
        head = match chain.attempt(&head, &[&actions]).await.1 {
            Attempt::Ended(Outcome::Committed(head)) => head,
            Attempt::Ended(Outcome::Refused(cause) | Outcome::Unknown(cause)) => return Err(SeedError::Commit(cause)),
            Attempt::NotMade(error) => return Err(error.into()),
            Attempt::Nothing | Attempt::Ended(Outcome::Conflict(_)) => {
                return Err(SeedError::Commit(Cause::words("somebody else writes to the same catalog")));
            }
        };
        done = upto;
        progress(done);
    }
    Ok(())
}

fn create(number: u64) -> Action {
    let named = |text: String| Name::of_parts([text.as_str()]).expect("letters, digits and a line are a name");
    if number.is_multiple_of(3) {
        return Action::Create { name: named(format!("ns_{number}")), entry: Entry::namespace() };
    }
    let mut entry = Entry::table(Some(format!("table_{number}")), TableState::new(1));
    entry.properties.insert("bench".to_owned(), "true".to_owned());
    Action::Create { name: named(format!("table_{number}")), entry }
}
