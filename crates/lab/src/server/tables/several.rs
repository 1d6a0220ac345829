//! A commit over several tables at a server that keeps them.
//!
//! It leads at each of its tables, in the order of their numbers, so that nothing else of this server commits to them
//! meanwhile. An append is put on top of what it met, at each table.

use std::rc::Rc;

use glidepath_env::{Cause, Denial, Env, Purpose};
use glidepath_model::{Changes, MetadataId, Span, TableId};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::Grouped;
use glidepath_queue::Seat;

use super::{ATTEMPTS, Answer, Request, Tables, fit};
use crate::server::Served;

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
        let mut led = Vec::new();
        for id in &ids {
            led.push(self.lead_at(client, *id).await);
        }
        let answer = self.commit_led(client, changes, &ids).await;
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

    async fn commit_led(&self, client: &Served<C>, changes: &Changes, ids: &[TableId]) -> Answer<C> {
        for attempt in 0..ATTEMPTS {
            let states = match client.states(client.newest(), ids).await {
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
            match client.send([&changes]).await {
                Outcome::Conflict(_) => {
                    let wait = Span::from_millis(5 << attempt.min(6));
                    client.env.sleep_until(client.env.now() + wait).await;
                }
                answer => return answer,
            }
        }
        Outcome::Refused(Denial::certain(Cause::words("other commits moved one of the tables first every time")))
    }
}
