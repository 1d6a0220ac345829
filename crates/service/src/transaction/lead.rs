//! A commit over several tables leads at each of them, so that nothing else of this server commits to them meanwhile.
//!
//! It takes the role at one table after the other, in the order of their names. Who leads at one table alone waits for no other,
//! so no two wait for each other.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_queue::{NotQueued, Seat};
use glidepath_table::Files;

use crate::Inner;
use crate::cells::{Answer, Cell};
use crate::commit::Request;
use crate::error::{Kind, ServiceError};

/// The role at one table. The commit holds its cell.
pub(super) type Lead = Seat<Arc<Request>, Answer>;

/// Ends these roles; those that wait take them together.
pub(super) fn hand_over(led: &mut Vec<Lead>) {
    led.drain(..).for_each(Seat::hand_over);
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The role at each of these tables, which are in the order of their names. It ends when the seats are handed over or dropped.
    pub(super) async fn lead_all(&self, cells: impl Iterator<Item = &Cell>) -> Result<Vec<Lead>, ServiceError> {
        let mut all = Vec::new();
        for cell in cells {
            all.push(self.lead_one(cell).await?);
        }
        Ok(all)
    }

    async fn lead_one(&self, cell: &Cell) -> Result<Lead, ServiceError> {
        loop {
            if let Some(seat) = cell.queue.seat() {
                return Ok(seat);
            }
            match cell.queue.enqueue(Arc::new(Request::to_lead())) {
                // Told when it is the first that waits and nobody leads. Another one may come first: then it waits again.
                Ok(ticket) => drop(ticket.await),
                Err(NotQueued::NoLeader) => {}
                Err(NotQueued::Full(waiting)) => {
                    let words =
                        format!("{waiting} commits wait for one of the tables already; not done: try again later");
                    return Err(ServiceError::new(Kind::Unavailable, words));
                }
                Err(NotQueued::Closed) => {
                    return Err(ServiceError::new(Kind::Unavailable, "the server is stopping; not done"));
                }
            }
        }
    }
}
