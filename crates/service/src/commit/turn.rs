//! Turns at tables that several servers commit to: who was overtaken waits in line. The rules are those of
//! [`glidepath_protocols::table_turn::line`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::line::{Turns, Waited};
use glidepath_table::{Files, files};
use iceberg::spec::TableMetadata;

use super::priority::overwrites;
use super::version::Lost;
use super::{AtTable, Request};
use crate::bodies::Loaded;
use crate::error::ServiceError;
use crate::mutant::{self, Mutant};
use crate::{Counts, Inner};

/// What a commit to one table begins with.
pub(super) struct Begun {
    /// A version of the table that may be out of date.
    pub(super) base: Option<Loaded<TableMetadata>>,
    pub(super) turn: Turns,
    pub(super) lost: Lost,
}

impl Begun {
    pub(super) fn at(name: &Name) -> Self {
        Self { base: None, turn: Turns::at([(name.clone(), false)]), lost: Lost::default() }
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Where other servers commit too, what this one knows is hardly the newest: so it loads the table when it is its
    /// turn.
    pub(super) async fn begin(&self, at: AtTable<'_>, own: &Request) -> Begun {
        let mut begun = Begun::at(at.name);
        if !at.queue.is_shared(self.env.now()) {
            return Begun { base: at.queue.known(), ..begun };
        }
        begun.turn.set_free(overwrites(own));
        // Who commits is told what is wrong.
        let tables = self.in_turn(&mut begun.turn).await;
        Begun { base: tables.ok().and_then(|mut tables| tables.pop()).flatten(), ..begun }
    }

    /// The tables as they are when it is this server's turn at all of them; `None` for one that is not there.
    pub(crate) async fn in_turn(&self, turns: &mut Turns) -> Result<Vec<Option<Loaded<TableMetadata>>>, ServiceError> {
        let patient = mutant::is(Mutant::TurnForEver);
        let together = &Together::default();
        let load = |name: Name| async move {
            let table = self.current_to_commit(&name).await?;
            together.add(name, table.as_ref().map_or(0, |(body, _)| body.json.len() as u64))?;
            Ok(table)
        };
        turns.wait((&self.env, &self.committer), patient, load, |waited| self.counts.waited(waited)).await
    }

    /// An attempt was lost: joins the lines if it is time.
    pub(crate) async fn lost(&self, turns: &mut Turns) {
        turns.lost(&self.env, &self.committer).await;
    }

    /// Leaves the lines, where nothing was committed.
    pub(crate) async fn withdraw(&self, turns: Turns) {
        turns.leave(&self.committer).await;
    }
}

/// Bytes of metadata, uncompressed, of the tables of one commit: all of it is in memory at once, old and new.
const MOST_TOGETHER: u64 = 2 * files::MOST;

/// The metadata of these tables.
#[derive(Default)]
struct Together(Mutex<BTreeMap<Name, u64>>);

impl Together {
    fn add(&self, name: Name, bytes: u64) -> Result<(), ServiceError> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name, bytes);
        let all = tables.values().sum::<u64>();
        if all <= MOST_TOGETHER {
            return Ok(());
        }
        Err(ServiceError::invalid(format!(
            "the tables of the commit have more than {MOST_TOGETHER} bytes of metadata together: commit to fewer at once, or expire their snapshots"
        )))
    }
}

impl Counts {
    fn waited(&self, Waited { turns, passed_over, time }: Waited) {
        Self::add(&self.turns, turns);
        Self::add(&self.passed_over, passed_over);
        Self::add(&self.in_line_ms, time.as_nanos() / 1_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_of_one_commit_is_bounded_together() {
        let together = Together::default();
        let add = |table: &str, bytes| together.add(Name::parse(table).unwrap(), bytes);
        assert!(add("a", MOST_TOGETHER - 1).is_ok());
        assert!(add("b", 1).is_ok());
        assert!(add("b", 1).is_ok(), "loaded again, it is the same table");
        assert!(add("c", 1).is_err());
    }
}
