//! Leading in several queues: in all of them at once or, if that fails a few times, in one after the other.
//!
//! Who tries all at once holds up no queue while it waits for another. It might wait for ever, so after [`AT_ONCE`]
//! tries it keeps the roles that it has while it waits for the next. Then it takes the queues in the order in which all
//! callers give them, so no two wait for each other. In each queue it keeps the place of its arrival, however often it
//! waits there: so nobody that came later leads before it where it waits. Others lead in its other queues meanwhile.

use std::sync::Arc;

use crate::queue::{Arrival, NotQueued, Queue, Seat, Turn};

/// Tries to lead in all queues at once, before one leads in one after the other.
const AT_ONCE: usize = 8;

/// One that is to lead in several queues.
pub struct Several<R, A> {
    queues: Vec<(Arc<Queue<R, A>>, Arrival)>,
}

impl<R, A> Several<R, A> {
    /// It has its place in these queues from now on. All callers give them in the same order.
    pub fn of(queues: impl IntoIterator<Item = Arc<Queue<R, A>>>) -> Self {
        let arrived = queues.into_iter().map(|queue| {
            let arrival = queue.arrive();
            (queue, arrival)
        });
        Self { queues: arrived.collect() }
    }

    /// The queues, in the order in which they were given.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<Queue<R, A>>> {
        self.queues.iter().map(|(queue, _)| queue)
    }

    /// The role in each queue, if it is free everywhere.
    pub fn at_once(&self) -> Option<Vec<Seat<R, A>>> {
        self.with(None).ok()
    }

    /// The role in each queue. `to_lead` makes a request that is not to be [taken](Seat::take_if).
    ///
    /// # Errors
    /// One of the queues takes no request. Then nothing is led.
    pub async fn lead(&self, to_lead: impl Fn() -> R) -> Result<Vec<Seat<R, A>>, NotQueued> {
        let mut held = None;
        for _ in 0..AT_ONCE {
            match self.with(held.take()) {
                Ok(seats) => return Ok(seats),
                Err(busy) => held = Some((busy, self.turn_in(busy, &to_lead).await?)),
            }
        }
        if let Ok(seats) = self.with(held) {
            return Ok(seats);
        }
        let mut seats = Vec::new();
        for number in 0..self.queues.len() {
            match self.turn_in(number, &to_lead).await {
                Ok(seat) => seats.push(seat),
                Err(refused) => {
                    seats.into_iter().for_each(Seat::hand_over);
                    return Err(refused);
                }
            }
        }
        Ok(seats)
    }

    /// The role in all queues, with the one that it has; or in none: then the number of one in which somebody leads.
    fn with(&self, held: Option<(usize, Seat<R, A>)>) -> Result<Vec<Seat<R, A>>, usize> {
        let (held, mut seats) = held.map_or((None, Vec::new()), |(number, seat)| (Some(number), vec![seat]));
        for (number, (queue, _)) in self.queues.iter().enumerate().filter(|(number, _)| Some(*number) != held) {
            match queue.seat() {
                Some(seat) => seats.push(seat),
                None => {
                    seats.into_iter().for_each(Seat::hand_over);
                    return Err(number);
                }
            }
        }
        Ok(seats)
    }

    /// Waits for its turn in a queue.
    async fn turn_in(&self, number: usize, to_lead: &impl Fn() -> R) -> Result<Seat<R, A>, NotQueued> {
        let (queue, arrival) = &self.queues[number];
        loop {
            match queue.join(to_lead(), *arrival)?.turn().await {
                Turn::Lead(seat) => return Ok(seat),
                // A leader stopped, and all that waited were told so.
                Turn::Answer(_) => {}
            }
        }
    }
}
