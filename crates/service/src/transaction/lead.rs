//! A commit over several tables leads at each of them, so that nothing else of this server commits to them meanwhile.
//!
//! It takes the role at all of them at once, and holds up none while it waits; after a few times in vain, it takes the
//! role at one table after the other ([`Several`]). Who leads at one table alone waits for no other, so no two wait for
//! each other.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_queue::{Seat, Several};
use glidepath_table::Files;

use crate::Inner;
use crate::commit::{Request, not_queued};
use crate::error::ServiceError;
use crate::mutant::{self, Mutant};
use crate::table_queues::{TableQueue, Told};

/// The role at one table. The commit holds its queue.
pub(crate) type Lead = Seat<Arc<Request>, Told>;

/// Ends these roles; those that wait take them together.
pub(crate) fn hand_over(led: &mut Vec<Lead>) {
    led.drain(..).for_each(Seat::hand_over);
}

/// Its place at each of these tables, which are in the order of their names.
pub(crate) type Places = Several<Arc<Request>, Told>;

pub(crate) fn places<'a>(table_queues: impl Iterator<Item = &'a Arc<TableQueue>>) -> Places {
    Several::of(table_queues.map(|table_queue| Arc::clone(&table_queue.commits)))
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The role at each of these tables. It ends when the seats are handed over or dropped.
    pub(crate) async fn lead_all(&self, places: &Places) -> Result<Vec<Lead>, ServiceError> {
        let to_lead = || Arc::new(Request::to_lead());
        if mutant::is(Mutant::LedInAnyOrder) {
            let mut each: Vec<_> = places.queues().map(|queue| Several::of([Arc::clone(queue)])).collect();
            if self.env.draw(glidepath_env::Purpose::Names).is_multiple_of(2) {
                each.reverse();
            }
            let mut led = Vec::new();
            for place in each {
                led.extend(place.lead(to_lead).await.map_err(not_queued)?);
            }
            return Ok(led);
        }
        places.lead(to_lead).await.map_err(not_queued)
    }
}
