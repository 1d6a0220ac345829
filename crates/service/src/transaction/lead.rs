//! A commit over several tables leads at each of them, so that nothing else of this server commits to them meanwhile.
//!
//! It takes the role at all of them at once, and holds up none while it waits; after a few times in vain, it takes the role at one
//! table after the other ([`glidepath_queue::lead_all`]). Then who leads at one table alone waits for no other, so no two wait
//! for each other.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_queue::{NotQueued, Seat, lead_all, lead_at_once};
use glidepath_table::Files;

use crate::Inner;
use crate::cells::{Answer, Cell};
use crate::commit::Request;
use crate::error::{Kind, ServiceError};
use crate::mutant::{self, Mutant};

/// The role at one table. The commit holds its cell.
pub(super) type Lead = Seat<Arc<Request>, Answer>;

/// Ends these roles; those that wait take them together.
pub(super) fn hand_over(led: &mut Vec<Lead>) {
    led.drain(..).for_each(Seat::hand_over);
}

/// The role at all of these tables, unless others lead at one of them.
pub(super) fn at_once<'a>(cells: impl Iterator<Item = &'a Arc<Cell>>) -> Vec<Lead> {
    let queues: Vec<_> = cells.map(|cell| Arc::clone(&cell.queue)).collect();
    lead_at_once(&queues).unwrap_or_default()
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The role at each of these tables, which are in the order of their names. It ends when the seats are handed over or dropped.
    pub(super) async fn lead_all(&self, cells: impl Iterator<Item = &Cell>) -> Result<Vec<Lead>, ServiceError> {
        let mut queues: Vec<_> = cells.map(|cell| Arc::clone(&cell.queue)).collect();
        if mutant::is(Mutant::LedInAnyOrder) {
            if self.env.draw(glidepath_env::Purpose::Names).is_multiple_of(2) {
                queues.reverse();
            }
            let mut led = Vec::new();
            for queue in queues.chunks(1) {
                led.extend(lead_all(queue, || Arc::new(Request::to_lead())).await.map_err(not_queued)?);
            }
            return Ok(led);
        }
        lead_all(&queues, || Arc::new(Request::to_lead())).await.map_err(not_queued)
    }
}

fn not_queued(why: NotQueued) -> ServiceError {
    let words = match why {
        NotQueued::Full(waiting) => {
            format!("{waiting} commits wait for one of the tables already; not done: try again later")
        }
        NotQueued::Closed | NotQueued::NoLeader => "the server is stopping; not done".to_owned(),
    };
    ServiceError::new(Kind::Unavailable, words)
}
