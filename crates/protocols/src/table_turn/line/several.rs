//! Turns of a commit at one table or at several. It has the same place in the line at each of them, so two such commits
//! wait in the same order everywhere, and not for each other.

use std::future::Future;

use glidepath_env::{Env, Purpose, together};
use glidepath_model::{Action, Instant, Name, Span};

use super::{Line, Next, Turn};
use crate::group::{CommitError, Committer, Grouped};

/// Tables that are loaded, and lines that are joined or left, at once.
const AT_ONCE: usize = 16;

/// What a process knows of the lines at these tables, while it commits to all of them.
#[derive(Debug)]
pub struct Turns(Vec<(Name, Turn)>);

/// What was waited for between two looks at the lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waited {
    /// Turns of others.
    pub turns: u64,
    /// Others that were passed over.
    pub passed_over: u64,
    /// The time until the next look.
    pub time: Span,
}

impl Turns {
    /// Of these tables, each with whether the commit there must not wait.
    pub fn at(tables: impl IntoIterator<Item = (Name, bool)>) -> Self {
        let of = |(name, free)| (name, Turn { free, ..Turn::default() });
        Self(tables.into_iter().map(of).collect())
    }

    /// Whether the commit must not wait, at any of the tables.
    pub fn set_free(&mut self, free: bool) {
        self.0.iter_mut().for_each(|(_, turn)| turn.free = free);
    }

    /// Whether others may wait for this commit.
    #[must_use]
    pub fn have_place(&self) -> bool {
        self.0.iter().any(|(_, turn)| turn.has_place())
    }

    /// The tables as they are when it is this one's turn at each; `None` for one that is not there. `load` gives a
    /// table and the line there. `patient`: pass nobody over. `watch` is told of each wait.
    ///
    /// # Errors
    /// As `load`. Places in the lines are kept.
    pub async fn wait<E: Env, C: Grouped, T, X, L: Future<Output = Result<Option<(T, Line)>, X>>>(
        &mut self,
        (env, committer): (&E, &Committer<E, C>),
        patient: bool,
        load: impl Fn(Name) -> L,
        watch: impl Fn(Waited),
    ) -> Result<Vec<Option<T>>, X> {
        loop {
            let loads = together(AT_ONCE, self.0.iter().map(|(name, _)| load(name.clone()))).await;
            let loads = loads.into_iter().collect::<Result<Vec<_>, _>>()?;
            let (tables, lines): (Vec<_>, Vec<_>) = loads.into_iter().map(Option::unzip).unzip();
            let before = self.waited();
            let next = self.see(lines, (env.now(), env.unix_ms()), patient);
            let waited = self.waited();
            let (turns, passed_over) = (waited.turns - before.turns, waited.passed_over - before.passed_over);
            watch(Waited { turns, passed_over, time: Span::ZERO });
            let look = match next {
                Next::Go => return Ok(tables),
                Next::JoinAndWait(look) => {
                    self.join(env, committer).await;
                    look
                }
                Next::Wait(look) => look,
            };
            let began = env.now();
            env.sleep_until(began + look).await;
            watch(Waited { time: env.now().since(began), ..Waited::default() });
        }
    }

    /// What was waited for in all.
    fn waited(&self) -> Waited {
        let turns = self.0.iter().map(|(_, turn)| turn.turns).sum();
        Waited { turns, passed_over: self.0.iter().map(|(_, turn)| turn.passed.len() as u64).sum(), time: Span::ZERO }
    }

    /// These are the lines at this time, as for [`Turn::see`], in the order of the tables; `None` where there is no
    /// table. It is this one's turn if it is at each.
    pub(super) fn see(
        &mut self,
        lines: impl IntoIterator<Item = Option<Line>>,
        now: (Instant, u64),
        patient: bool,
    ) -> Next {
        let (mut joins, mut wait) = (false, None);
        for (line, (_, turn)) in lines.into_iter().zip(&mut self.0) {
            let Some(line) = line else { continue };
            let look = match turn.see(line, now, patient) {
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
    /// Where one commit of the catalog does not meet those to other tables, each line is joined by a commit of its own:
    /// one commit to all of them would be overtaken by others to any. Elsewhere one commit joins all, since each may be
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
