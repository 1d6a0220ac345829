//! Turns of a commit over several tables. It has the same place in the line at each of them, so two such commits wait in the same
//! order everywhere, and not for each other.

use glidepath_env::{Env, Purpose, together};
use glidepath_model::{Action, Name};

use super::super::{CommitError, Committer, Grouped};
use super::{Line, Next, Turn};

/// Commits to lines that are sent at once.
const AT_ONCE: usize = 16;

/// What a process knows of the lines at these tables, while it commits to all of them.
#[derive(Debug)]
pub struct Turns(Vec<(Name, Turn)>);

impl Turns {
    /// Of these tables, each with whether the commit there must not wait.
    pub fn at(tables: impl IntoIterator<Item = (Name, bool)>) -> Self {
        let of = |(name, free)| {
            let mut turn = Turn::default();
            turn.set_free(free);
            (name, turn)
        };
        Self(tables.into_iter().map(of).collect())
    }

    /// The tables, in the order in which they were given.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Whether others may wait for this commit.
    #[must_use]
    pub fn have_place(&self) -> bool {
        self.0.iter().any(|(_, turn)| turn.has_place())
    }

    /// These are the lines now, in the order of the tables; `None` where there is no table. `see` tells one of them, as by
    /// [`Turn::see`]. It is this one's turn if it is at each.
    pub fn see(
        &mut self,
        lines: impl IntoIterator<Item = Option<Line>>,
        mut see: impl FnMut(&mut Turn, Line) -> Next,
    ) -> Next {
        let (mut joins, mut wait) = (false, None);
        for (line, (_, turn)) in lines.into_iter().zip(&mut self.0) {
            let Some(line) = line else { continue };
            let look = match see(turn, line) {
                Next::Go => continue,
                Next::JoinAndWait(look) => {
                    joins = true;
                    look
                }
                Next::Wait(look) => look,
            };
            wait = wait.into_iter().chain([look]).min();
        }
        match wait {
            None => Next::Go,
            Some(look) if joins => Next::JoinAndWait(look),
            Some(look) => Next::Wait(look),
        }
    }

    /// An attempt was lost: joins the lines if it is time.
    pub async fn lost<E: Env, C: Grouped>(&mut self, env: &E, committer: &Committer<E, C>) {
        if self.0.iter_mut().fold(false, |joins, (_, turn)| turn.lost() | joins) {
            self.join(env, committer).await;
        }
    }

    /// Joins the lines where it may and has no place yet. Whether it did is seen when the tables are loaded again.
    ///
    /// Where one commit of the catalog does not meet those to other tables, each line is joined by a commit of its own: one
    /// commit to all of them would be overtaken by others to any. Elsewhere one commit joins all, since each may be
    /// overtaken by any other.
    pub async fn join<E: Env, C: Grouped>(&mut self, env: &E, committer: &Committer<E, C>) {
        let (mut joining, joins) = self.places(env.unix_ms(), env.draw(Purpose::Names));
        let apart = joins.iter().all(|join| committer.catalog().is_apart(std::slice::from_ref(join)));
        let requests: Vec<_> = match apart {
            true => joins.into_iter().map(|join| vec![join]).collect(),
            false => vec![joins],
        };
        let each = joining.len().div_ceil(requests.len().max(1)).max(1);
        let commits = requests.into_iter().map(|request| committer.commit(request));
        for (joined, turns) in together(AT_ONCE, commits).await.into_iter().zip(joining.chunks_mut(each)) {
            if !matches!(joined, Ok(_) | Err(CommitError::Unknown(_))) {
                turns.iter_mut().for_each(|turn| turn.not_joined());
            }
        }
    }

    /// Those that join, and what joins their lines: the same number, behind all others, and the same random text.
    pub(super) fn places(&mut self, unix_ms: u64, random: u64) -> (Vec<&mut Turn>, Vec<Action>) {
        let joining: Vec<_> = self.0.iter_mut().filter(|(_, turn)| turn.may_join()).collect();
        let number = joining.iter().map(|(_, turn)| turn.end()).fold(unix_ms, u64::max);
        let join = |(name, turn): &mut (Name, Turn)| turn.join(name, number, random);
        joining.into_iter().map(|one| (join(one), &mut one.1)).map(|(action, turn)| (turn, action)).unzip()
    }

    /// What the commit asserts and does because of the lines, for each table.
    pub fn actions(&self) -> impl Iterator<Item = Vec<Action>> {
        self.0.iter().map(|(name, turn)| turn.actions(name))
    }

    /// The commit took effect.
    pub fn taken(&mut self) {
        self.0.iter_mut().for_each(|(_, turn)| turn.taken());
    }

    /// Leaves the lines, where nothing was committed. Where this fails, others wait once, in vain.
    pub async fn leave<E: Env, C: Grouped>(self, committer: &Committer<E, C>) {
        let leaves = self.0.iter().filter_map(|(name, turn)| turn.leave(name));
        together(AT_ONCE, leaves.map(|leave| committer.commit(leave))).await;
    }
}
