//! A chain of versions. A third of the entries are namespaces, the rest tables, as in the published sweep.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::{Cause, Denial, Env};
use glidepath_model::{Action, Entry, Name, TableState};
use glidepath_protocols::manifest_chain::{Attempt, Layout, ManifestChain, Place, Snapshot};
use glidepath_protocols::{LoadError, Outcome};

use crate::design::Design;

use super::{CACHE_BYTES, FillError, LISTED, Subject, created};

/// Entries that are created in one commit.
const BATCH: u64 = 25_000;

pub(crate) enum Chain {}

impl Subject for Chain {
    type Place = Place;
    type Catalog<E: Env> = ManifestChain<E>;

    fn place(prefix: &str) -> Place {
        Place::new(prefix, CACHE_BYTES)
    }

    fn catalog<E: Env>(env: E, store: E::Objects, place: Arc<Place>) -> ManifestChain<E> {
        ManifestChain::new(env, store, place)
    }

    async fn fill<E: Env>(
        chain: &ManifestChain<E>,
        design: Design,
        rows: u64,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<(), FillError> {
        let (layout, indexed) = match design {
            Design::ManifestChain { layout, indexed } => (layout, indexed),
            Design::CatalogFile | Design::AppendLog => (Layout::Paged, true),
        };
        let mut head = created(chain.create(layout, indexed).await)?;
        let mut done = 0;
        while done < rows {
            let upto = (done + BATCH).min(rows);
            let actions: Vec<Action> = (done..upto).map(first).collect();
            head = match chain.attempt(&head, &[&actions]).await.1 {
                Attempt::Ended(Outcome::Committed(head)) => head,
                Attempt::Ended(Outcome::Refused(Denial { cause, .. }) | Outcome::Unknown(cause)) => {
                    return Err(FillError::Commit(cause));
                }
                Attempt::NotMade(error) => return Err(error.into()),
                Attempt::Nothing | Attempt::Ended(Outcome::Conflict(_)) => {
                    return Err(FillError::Commit(Cause::words("somebody else writes to the same catalog")));
                }
            };
            done = upto;
            if !progress(done) {
                return Err(FillError::Stopped);
            }
        }
        Ok(())
    }

    /// A namespace, as in the published sweep.
    fn create(_: u64, writer: u32, number: u64) -> Vec<Action> {
        let mut entry = Entry::namespace();
        entry.properties = BTreeMap::from([("bench".to_owned(), "true".to_owned())]);
        vec![Action::Create { name: named(&format!("w{writer:04}-{number:08}")), entry }]
    }

    async fn describe<E: Env>(chain: &ManifestChain<E>, at: &Snapshot, number: u64) -> Result<bool, LoadError> {
        Ok(chain.entry(at, &name(number)).await?.is_some())
    }

    async fn list<E: Env>(chain: &ManifestChain<E>, at: &Snapshot, _: u64) -> Result<u64, LoadError> {
        Ok(chain.children(at, None, None, LISTED).await?.len() as u64)
    }
}

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
