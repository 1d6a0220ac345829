//! Leading in several queues: in all of them at once or, if that fails a few times, in one after the other.
//!
//! Who tries all at once holds up no queue while it waits for another. It might wait for ever, so after [`AT_ONCE`] tries it
//! keeps the roles that it has while it waits for the next. Then it takes the queues in the order in which all callers give them, so no
//! two wait for each other.

use std::sync::Arc;

use crate::queue::{NotQueued, Queue, Seat};

/// Tries to lead in all queues at once, before one leads in one after the other.
const AT_ONCE: usize = 8;

/// The role in each of these queues, or in none: then the number of one in which somebody leads.
///
/// # Errors
/// Somebody leads in one of them.
pub fn lead_at_once<R, A>(queues: &[Arc<Queue<R, A>>]) -> Result<Vec<Seat<R, A>>, usize> {
    beginning_with(0, queues)
}

/// The role in each of these queues, which all callers give in the same order. `to_lead` makes a request that is not to be taken: who
/// leads is to [take](Seat::take_while) only those before it.
///
/// # Errors
/// One of the queues takes no request. Then nothing is led.
pub async fn lead_all<R, A>(
    queues: &[Arc<Queue<R, A>>],
    to_lead: impl Fn() -> R,
) -> Result<Vec<Seat<R, A>>, NotQueued> {
    let mut told_in = 0;
    for tried in 1..=AT_ONCE {
        match beginning_with(told_in, queues) {
            Ok(seats) => return Ok(seats),
            Err(busy) if tried < AT_ONCE => told_in = busy,
            Err(_) => break,
        }
        told(&queues[told_in], &to_lead).await?;
    }
    let mut seats = Vec::new();
    for queue in queues {
        match lead_in(queue, &to_lead).await {
            Ok(seat) => seats.push(seat),
            Err(refused) => {
                seats.into_iter().for_each(Seat::hand_over);
                return Err(refused);
            }
        }
    }
    Ok(seats)
}

/// Who was told in a queue has to ask for its role before that in others: if it goes away, the next there is told only by the end
/// of a role.
fn beginning_with<R, A>(first: usize, queues: &[Arc<Queue<R, A>>]) -> Result<Vec<Seat<R, A>>, usize> {
    let mut seats = Vec::new();
    for number in (first..queues.len()).chain(0..first) {
        match queues[number].seat() {
            Some(seat) => seats.push(seat),
            None => {
                seats.into_iter().for_each(Seat::hand_over);
                return Err(number);
            }
        }
    }
    Ok(seats)
}

async fn lead_in<R, A>(queue: &Arc<Queue<R, A>>, to_lead: &impl Fn() -> R) -> Result<Seat<R, A>, NotQueued> {
    loop {
        match queue.seat() {
            Some(seat) => return Ok(seat),
            // Another one may come first: then it waits again.
            None => told(queue, to_lead).await?,
        }
    }
}

/// Waits until nobody leads, and this is the first that waits.
async fn told<R, A>(queue: &Arc<Queue<R, A>>, to_lead: &impl Fn() -> R) -> Result<(), NotQueued> {
    match queue.enqueue(to_lead()) {
        Ok(ticket) => {
            let _ = ticket.await;
            Ok(())
        }
        Err(NotQueued::NoLeader) => Ok(()),
        Err(refused) => Err(refused),
    }
}
