//! Turns at a table that several servers commit to: who was overtaken waits in line. The rules are those of
//! [`glidepath_protocols::group::line`].

use glidepath_env::{Env, Purpose};
use glidepath_model::{Name, Span};
use glidepath_protocols::group::line::{Line, Next, Turn};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::Request;
use super::priority::overwrites;
use crate::bodies::Loaded;
use crate::cells::Cell;
use crate::error::ServiceError;
use crate::mutant::{self, Mutant};
use crate::{Counts, Inner};

/// What a commit begins with.
#[derive(Default)]
pub(super) struct Begun {
    /// A version of the table that may be out of date.
    pub(super) base: Option<Loaded<TableMetadata>>,
    pub(super) turn: Turn,
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Where other servers commit too, what this one knows is hardly the newest: so it loads the table when it is its turn.
    pub(super) async fn begin(&self, name: &Name, cell: &Cell, own: &Request) -> Begun {
        let mut turn = Turn::default();
        if !cell.is_shared(self.env.now()) {
            return Begun { base: cell.known(), turn };
        }
        turn.set_free(overwrites(own));
        // Who commits is told what is wrong.
        let base = self.in_turn(name, &mut turn).await.ok().flatten();
        Begun { base, turn }
    }

    /// The table as it is when it is this server's turn; `None` if there is none.
    pub(super) async fn in_turn(
        &self,
        name: &Name,
        turn: &mut Turn,
    ) -> Result<Option<Loaded<TableMetadata>>, ServiceError> {
        loop {
            let Some((current, line)) = self.current_to_commit(name).await? else { return Ok(None) };
            let look = match self.see(turn, line) {
                Next::Go => return Ok(Some(current)),
                Next::JoinAndWait(look) => {
                    self.join(name, turn).await;
                    look
                }
                Next::Wait(look) => look,
            };
            self.wait_in_line(look).await;
        }
    }

    /// This is the line now.
    pub(crate) fn see(&self, turn: &mut Turn, line: Line) -> Next {
        let (turns, passes) = (turn.turns(), turn.passes());
        let next = turn.see(line, (self.env.now(), self.env.unix_ms()), mutant::is(Mutant::TurnForEver));
        Counts::add(&self.counts.turns, turn.turns() - turns);
        Counts::add(&self.counts.passed_over, (turn.passes() - passes) as u64);
        next
    }

    pub(crate) async fn wait_in_line(&self, look: Span) {
        let now = self.env.now();
        self.env.sleep_until(now + look).await;
        Counts::add(&self.counts.in_line_ms, self.env.now().since(now).as_nanos() / 1_000_000);
    }

    /// An attempt was lost: joins the line if it is time.
    pub(super) async fn lost(&self, name: &Name, turn: &mut Turn) {
        if turn.lost() {
            self.join(name, turn).await;
        }
    }

    /// Whether it did is seen when the table is loaded again.
    async fn join(&self, name: &Name, turn: &mut Turn) {
        let join = turn.join(name, self.env.unix_ms(), self.env.draw(Purpose::Names));
        match self.committer.commit(vec![join]).await {
            Ok(_) | Err(CommitError::Unknown(_)) => {}
            Err(_) => turn.not_joined(),
        }
    }

    /// Leaves the line, if nothing was committed there. If this fails, others wait once, in vain.
    pub(super) async fn withdraw(&self, name: &Name, turn: Turn) {
        if let Some(leave) = turn.leave(name) {
            let _ = self.committer.commit(leave).await;
        }
    }
}
