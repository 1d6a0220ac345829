//! What happens next? Events in the order of virtual time.
//!
//! Most processes wait minutes for their next event, so one heap of all events would be large and would not fit the
//! cache. Instead, time is cut into slots: far events lie unsorted in their slots, and only the current slot is sorted,
//! small enough for the nearest cache.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use glidepath_model::Instant;

/// A place in the order of events. Ties in time are broken by process, then by the process's count of operations, never
/// by insertion. So the order does not depend on when events were scheduled. (Packed into one number, most significant
/// first, because an agenda mostly compares.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(u128);

impl Order {
    pub(crate) fn new(at: Instant, process: u32, operation: u32) -> Self {
        Self(u128::from(at.as_nanos()) << 64 | u128::from(process) << 32 | u128::from(operation))
    }

    pub(crate) fn at(self) -> Instant {
        Instant::from_nanos((self.0 >> 64) as u64)
    }

    pub(crate) fn process(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An event and its place in the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) order: Order,
    pub(crate) event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The turn of a process: it performs the operation that it waits with.
    Turn { task: u32 },
    /// A request takes effect at its store.
    Arrive { request: u32 },
    /// The answer to a request reaches its process.
    Answer { request: u32 },
    /// A process's wait is over.
    Wake { task: u32 },
}

/// Events up to the horizon; later ones never happen and are not kept.
pub(crate) struct Agenda {
    horizon: Instant,
    slot_bits: u32,
    current: usize,
    /// The events that the current slot held when its time began: sorted, the next event last.
    sorted: Vec<Entry>,
    /// Events added to the current slot since.
    added: BinaryHeap<Reverse<Entry>>,
    far: Vec<Vec<Entry>>,
    /// Memory of past slots, reused for slots of the near future.
    spare: Vec<Vec<Entry>>,
}

/// Enough that a slot of a busy hour holds some fifty events, and few enough that the empty slots of a quiet hour cost
/// little.
const MOST_SLOTS: u64 = 1 << 16;

/// Slots ahead of the current one that are likely to be filled with many events soon.
const NEAR: usize = 64;

impl Agenda {
    pub(crate) fn until(horizon: Instant) -> Self {
        let slot_bits = (0..64).find(|bits| horizon.as_nanos() >> bits < MOST_SLOTS).unwrap_or(63);
        let slots = (horizon.as_nanos() >> slot_bits) as usize + 1;
        let far = std::iter::repeat_with(Vec::new).take(slots).collect();
        Self { horizon, slot_bits, current: 0, sorted: Vec::new(), added: BinaryHeap::new(), far, spare: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        let at = entry.order.at();
        if at > self.horizon {
            return;
        }
        let slot = (at.as_nanos() >> self.slot_bits) as usize;
        if slot <= self.current {
            self.added.push(Reverse(entry));
        } else {
            let far = &mut self.far[slot];
            // A slot far ahead may hold a single event for an hour: it gets no more memory than it needs.
            if far.capacity() == 0 && slot - self.current <= NEAR {
                *far = self.spare.pop().unwrap_or_default();
            }
            far.push(entry);
        }
    }

    /// Whether every scheduled event comes after this place. May return false although it is so: it examines the
    /// current slot only.
    pub(crate) fn is_next(&self, order: Order) -> bool {
        (order.at().as_nanos() >> self.slot_bits) as usize <= self.current
            && order.at() <= self.horizon
            && self.added.peek().is_none_or(|Reverse(entry)| order < entry.order)
            && self.sorted.last().is_none_or(|entry| order < entry.order)
    }

    /// The next event, if it comes before `until`.
    #[inline]
    pub(crate) fn pop_before(&mut self, until: Option<Instant>) -> Option<Entry> {
        let last_slot = until.map_or(usize::MAX, |until| (until.as_nanos() >> self.slot_bits) as usize);
        while self.sorted.is_empty() && self.added.is_empty() {
            if self.current + 1 >= self.far.len() || self.current >= last_slot {
                return None;
            }
            self.current += 1;
            let next = std::mem::take(&mut self.far[self.current]);
            if next.is_empty() {
                continue;
            }
            let past = std::mem::replace(&mut self.sorted, next);
            if self.spare.len() < NEAR {
                self.spare.push(past);
            }
            self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
        let added = self.added.peek().map(|Reverse(entry)| entry.order);
        let sorted = self.sorted.last().map(|entry| entry.order);
        let from_added = sorted.is_none_or(|sorted| added.is_some_and(|added| added < sorted));
        let next = if from_added { added } else { sorted };
        if next.is_none_or(|next| until.is_some_and(|until| next.at() >= until)) {
            return None;
        }
        if from_added { self.added.pop().map(|Reverse(entry)| entry) } else { self.sorted.pop() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_in_order_and_none_is_lost(
            horizon in 1_u64..2_000_000_000_000,
            shares in prop::collection::vec((0.0_f64..1.2, 0_u32..3, 0_u32..3), 0..200),
            interleave in 1_usize..5,
        ) {
            let mut agenda = Agenda::until(Instant::from_nanos(horizon));
            let mut expected = Vec::new();
            let mut popped: Vec<Entry> = Vec::new();
            for (n, (share, process, operation)) in shares.into_iter().enumerate() {
                // Events are only ever scheduled at or after the current one.
                let now = popped.last().map_or(0, |entry| entry.order.at().as_nanos());
                let at = Instant::from_nanos(now + (share * (horizon - now) as f64) as u64);
                let entry = Entry { order: Order::new(at, process, operation), event: Event::Wake { task: n as u32 } };
                agenda.push(entry);
                if at.as_nanos() <= horizon {
                    expected.push(entry.order);
                }
                if n % interleave == 0 {
                    let first = expected.iter().filter(|order| popped.iter().all(|entry| entry.order != **order)).min();
                    prop_assert!(first.is_none_or(|first| !agenda.is_next(Order::new(first.at(), u32::MAX, 0))));
                    popped.extend(agenda.pop_before(None));
                }
            }
            popped.extend(std::iter::from_fn(|| agenda.pop_before(None)));
            let mut popped: Vec<_> = popped.into_iter().map(|entry| entry.order).collect();
            prop_assert!(popped.windows(2).all(|pair| pair[0].at() <= pair[1].at()));
            popped.sort();
            expected.sort();
            prop_assert_eq!(popped, expected);
        }
    }
}
