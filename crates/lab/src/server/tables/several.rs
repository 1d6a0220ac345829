//! A commit over several tables at a server that keeps them.
//!
//! It leads at each of its tables, in the order of their numbers, so that nothing else of this server commits to them
//! meanwhile. An append is put on top of what it met, at each table. Overtaken by other servers, it waits in the lines of all its
//! tables at once.

use std::rc::Rc;

use glidepath_env::{Cause, Denial, Env, Purpose, together};
use glidepath_model::{Changes, MetadataId, Name, Refusal, Span, TableId, TableState};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::line::{Next, Turns};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_queue::Seat;
use glidepath_workload::Kind;

use super::{ATTEMPTS, Answer, Request, Tables, fit};
use crate::server::{Served, outcome};

/// Tables that are read at once: as many as the service does.
const AT_ONCE: usize = 16;

impl<C: Grouped> Tables<C> {
    pub(super) async fn commit_several(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let ids: Vec<TableId> = changes.edits().iter().map(|change| change.table).collect();
        let holds = ids.iter().filter_map(|id| {
            let cell = self.of(*id);
            cell.priority.before(client.env.now(), |_| true).map(|hold| (cell, hold))
        });
        for (cell, hold) in holds.collect::<Vec<_>>() {
            let late = client.env.sleep_until(hold.until());
            cell.priority.over(hold, late).await;
        }
        let lines = ids.iter().map(|id| (Name::numbered(*id), client.kind == Kind::ValidatedOverwrite));
        let (mut led, mut turns) = (Vec::new(), Turns::at(lines));
        let answer = self.commit_led(client, changes, &ids, &mut led, &mut turns).await;
        turns.leave(&client.committer).await;
        led.into_iter().for_each(Seat::hand_over);
        answer
    }

    async fn lead_at(&self, client: &Served<C>, table: TableId) -> Seat<Rc<Request>, Answer<C>> {
        let cell = self.of(table);
        loop {
            if let Some(seat) = cell.queue.seat() {
                return seat;
            }
            let request = Request { changes: Changes::default(), kind: client.kind, leads: true };
            if let Ok(ticket) = cell.queue.enqueue(Rc::new(request)) {
                drop(ticket.await);
            }
        }
    }

    async fn commit_led(
        &self,
        client: &Served<C>,
        changes: &Changes,
        ids: &[TableId],
        led: &mut Vec<Seat<Rc<Request>, Answer<C>>>,
        turns: &mut Turns,
    ) -> Answer<C> {
        for attempt in 0..ATTEMPTS {
            if led.is_empty() {
                for id in ids {
                    led.push(self.lead_at(client, *id).await);
                }
            }
            let states = match client.alone {
                true => client.states(client.newest(), ids).await,
                false => in_turns(client, turns).await,
            };
            let states = match states {
                Ok(states) => states,
                Err(cause) => return Outcome::Refused(Denial::certain(cause)),
            };
            let state = |id: TableId| ids.iter().zip(&states).find(|(of, _)| **of == id).map(|(_, state)| state);
            let fresh = || MetadataId(client.env.draw(Purpose::Names));
            let Some((changes, rebased)) = fit(changes, client.kind, state, fresh) else {
                return Outcome::Conflict(None);
            };
            if let Err(cause) = self.make(&client.tables, ids.len(), rebased).await {
                return Outcome::Refused(Denial::certain(cause));
            }
            let asserted = if client.alone { Vec::new() } else { turns.actions().flatten().collect() };
            let sent = client.committer.commit([changes.actions(), asserted].concat()).await;
            let its_turn = !matches!(&sent, Err(CommitError::Refused(Refusal::PropertyChanged { .. })));
            match outcome(sent) {
                Outcome::Conflict(_) => {
                    if !client.alone && its_turn {
                        turns.lost(&client.env, &client.committer).await;
                    }
                }
                answer => {
                    if let Outcome::Committed(_) = &answer {
                        turns.taken();
                    }
                    return answer;
                }
            }
            // Without a place in line it may be overtaken for long: others that wait here for one of its tables go on meanwhile.
            if !turns.have_place() {
                led.drain(..).for_each(Seat::hand_over);
                let wait = Span::from_millis(5 << attempt.min(6));
                client.env.sleep_until(client.env.now() + wait).await;
            }
        }
        Outcome::Refused(Denial::certain(Cause::words("other commits moved one of the tables first every time")))
    }
}

/// The tables when it is this commit's turn at all of them.
async fn in_turns<C: Grouped>(client: &Served<C>, turns: &mut Turns) -> Result<Vec<TableState>, Cause> {
    loop {
        let reads = together(AT_ONCE, turns.names().map(|name| client.state_and_line(name))).await;
        let (states, lines): (Vec<_>, Vec<_>) = reads.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let now = (client.env.now(), client.env.unix_ms());
        let look = match turns.see(lines.into_iter().map(Some), |turn, line| turn.see(line, now, false)) {
            Next::Go => return Ok(states),
            Next::JoinAndWait(look) => {
                turns.join(&client.env, &client.committer).await;
                look
            }
            Next::Wait(look) => look,
        };
        client.env.sleep_until(client.env.now() + look).await;
    }
}
