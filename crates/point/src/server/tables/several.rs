//! A commit over several tables at a server that keeps them.
//!
//! It leads at all of its tables, so that nothing else of this server commits to them meanwhile. An append is put on
//! top of what it met, at each table. After an overwrite that conflicted, others wait for its next try at all its
//! tables, or at none. Overtaken by other servers, it waits in the lines of all its tables at once.

use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Cause, Denial, Env, Purpose};
use glidepath_model::{Changes, MetadataId, Name, Refusal, TableId};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_protocols::table_turn::line::Turns;
use glidepath_protocols::table_turn::{ATTEMPTS, retry_over_several};
use glidepath_queue::{Seat, Several};
use glidepath_workload::Kind;

use super::{Answer, Request, TableQueue, Tables, fit, in_turn, note_for_priority};
use crate::server::{Served, outcome};

/// The places of a commit in the queues of its tables.
type Places<C> = Several<Rc<Request>, Answer<C>>;

impl<C: Grouped> Tables<C> {
    pub(super) async fn commit_several(&self, client: &Served<C>, changes: &Changes) -> Answer<C> {
        let ids: Vec<TableId> = changes.edits().iter().map(|change| change.table).collect();
        let (table_queues, process) = (ids.iter().map(|id| self.of(*id)).collect::<Vec<_>>(), client.env.process());
        let before = |table_queue: &Rc<TableQueue<C>>| {
            table_queue.priority.before(client.env.now(), |holder| *holder != process)
        };
        let holds: Vec<_> =
            table_queues.iter().filter_map(|table_queue| Some((table_queue, before(table_queue)?))).collect();
        for (table_queue, hold) in holds {
            let late = client.env.sleep_until(hold.until());
            table_queue.priority.over(hold, late).await;
        }
        let lines = ids.iter().map(|id| (Name::numbered(*id), client.kind == Kind::ValidatedOverwrite));
        let (mut led, mut turns) = (Vec::new(), Turns::at(lines));
        let places = Several::of(table_queues.iter().map(|table_queue| Arc::clone(&table_queue.commits)));
        let answer = self.commit_led(client, changes, (&ids, &places), &mut led, &mut turns).await;
        turns.leave(&client.committer).await;
        led.into_iter().for_each(Seat::hand_over);
        note_for_priority(&table_queues, client, &answer);
        answer
    }

    /// Leads at all of its tables. Where others lead, an append reads its files meanwhile.
    async fn lead_at_all(
        &self,
        client: &Served<C>,
        places: &Places<C>,
        led: &mut Vec<Seat<Rc<Request>, Answer<C>>>,
        has_read: &mut bool,
    ) -> Result<(), Cause> {
        if let Some(seats) = places.at_once() {
            *led = seats;
            return Ok(());
        }
        if client.kind == Kind::FastAppend && !*has_read {
            self.read(&client.tables, places.queues().count() as u64).await?;
            *has_read = true;
        }
        let to_lead =
            || Rc::new(Request { changes: Changes::default(), kind: client.kind, leads: true, reading: None });
        let refused = |_| Cause::words("too many wait at one of the tables");
        *led = places.lead(to_lead).await.map_err(refused)?;
        Ok(())
    }

    async fn commit_led(
        &self,
        client: &Served<C>,
        changes: &Changes,
        (ids, places): (&[TableId], &Places<C>),
        led: &mut Vec<Seat<Rc<Request>, Answer<C>>>,
        turns: &mut Turns,
    ) -> Answer<C> {
        // Whether the files of an append were read before it led, while others did.
        let mut has_read = false;
        for attempt in 0..ATTEMPTS {
            if led.is_empty()
                && let Err(refused) = self.lead_at_all(client, places, led, &mut has_read).await
            {
                return Outcome::Refused(Denial::certain(refused));
            }
            let states = match client.alone {
                true => client.states(client.newest(), ids).await,
                false => in_turn(client, turns).await,
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
            let to_read = if has_read { 0 } else { rebased };
            if let Err(cause) = self.make(&client.tables, ids.len(), (rebased, to_read)).await {
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
            // Without a place in line it may be overtaken for long: others that wait here for one of its tables go on
            // meanwhile.
            if !turns.have_place() {
                led.drain(..).for_each(Seat::hand_over);
                let wait = retry_over_several(attempt);
                client.env.sleep_until(client.env.now() + wait).await;
            }
        }
        Outcome::Refused(Denial::certain(Cause::words("other commits moved one of the tables first every time")))
    }
}
