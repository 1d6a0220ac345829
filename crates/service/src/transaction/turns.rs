//! Turns of a commit over several tables: it joins all their lines at once, and commits when it is its turn at each.

use glidepath_env::{Env, together};
use glidepath_model::Action;
use glidepath_protocols::group::Grouped;
use glidepath_protocols::group::line::{Next, Turn, join_all};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::Part;
use crate::bodies::Loaded;
use crate::commit::priority::overwrites;
use crate::error::ServiceError;
use crate::{AT_ONCE, Inner};

/// The turns at the tables of a commit, in the order of its parts.
pub(super) struct Turns<'a>(Vec<(&'a Part, Turn)>);

impl<'a> Turns<'a> {
    pub(super) fn at(parts: &'a [Part]) -> Self {
        let of = |part: &'a Part| {
            let mut turn = Turn::default();
            turn.set_free(overwrites(&part.request));
            (part, turn)
        };
        Self(parts.iter().map(of).collect())
    }

    /// Whether others may wait for this commit.
    pub(super) fn have_place(&self) -> bool {
        self.0.iter().any(|(_, turn)| turn.has_place())
    }

    /// What the commit asserts and does because of the lines, of each part.
    pub(super) fn actions(&self) -> impl Iterator<Item = Vec<Action>> {
        self.0.iter().map(|(part, turn)| turn.actions(&part.name))
    }

    /// The commit took effect.
    pub(super) fn taken(&mut self) {
        self.0.iter_mut().for_each(|(_, turn)| turn.taken());
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The tables as they are when it is this commit's turn at all of them; `None` for one that is not there.
    pub(super) async fn in_turns(
        &self,
        Turns(turns): &mut Turns<'_>,
    ) -> Result<Vec<Option<Loaded<TableMetadata>>>, ServiceError> {
        loop {
            let reads = turns.iter().map(|(part, _)| self.current_to_commit(&part.name));
            let (mut tables, mut wait, mut joins) = (Vec::new(), None, false);
            for (read, (_, turn)) in together(AT_ONCE, reads).await.into_iter().zip(turns.iter_mut()) {
                let Some((current, line)) = read? else {
                    tables.push(None);
                    continue;
                };
                let look = match self.see(turn, line) {
                    Next::Go => None,
                    Next::JoinAndWait(look) => {
                        joins = true;
                        Some(look)
                    }
                    Next::Wait(look) => Some(look),
                };
                wait = wait.into_iter().chain(look).min();
                tables.push(Some(current));
            }
            let Some(look) = wait else { return Ok(tables) };
            if joins {
                self.join_lines(turns).await;
            }
            self.wait_in_line(look).await;
        }
    }

    /// An attempt was lost: joins the lines if it is time.
    pub(super) async fn all_lost(&self, Turns(turns): &mut Turns<'_>) {
        let joins = turns.iter_mut().fold(false, |joins, (_, turn)| turn.lost() | joins);
        if joins {
            self.join_lines(turns).await;
        }
    }

    /// Whether it did is seen when the tables are loaded again.
    async fn join_lines(&self, turns: &mut [(&Part, Turn)]) {
        let named = turns.iter_mut().map(|(part, turn)| (&part.name, turn));
        join_all(&self.env, &self.committer, named).await;
    }

    /// Leaves the lines, where nothing was committed.
    pub(super) async fn withdraw_all(&self, Turns(turns): Turns<'_>) {
        together(AT_ONCE, turns.into_iter().map(|(part, turn)| self.withdraw(&part.name, turn))).await;
    }
}
