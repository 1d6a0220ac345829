//! Priority for one that lost: others wait a moment for its next try.
//!
//! A change that depends on all it has read, such as an overwrite of a table, conflicts with every commit since it was
//! prepared. Beside fast appends it might never land. So the process that commits for all holds the others back after
//! such a change has lost: until its next try has landed, but for a bounded time. Not every client comes back, and not
//! every one can be told again by its id, so
//!
//! * a commit waits once at most at a table, and no longer than the longest hold in all;
//! * after a hold, the next one begins only when as much time has passed as the hold took; each hold in a row that was
//!   in vain doubles this rest;
//! * who lost a change of several tables has a hold at all of them or at none, so no two that have holds wait for each
//!   other.
//!
//! All of this is in the memory of one process. Nothing depends on it but who comes first.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use glidepath_model::{Instant, Span};

/// How long others wait at most, if nothing else is said.
pub const HOLD: Span = Span::from_millis(1500);

/// The most doublings of the rest after a hold.
const MOST_DOUBLINGS: u32 = 6;

/// Who has priority at one table. `K` tells who comes back.
#[derive(Debug)]
pub struct Priority<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    held: Option<Held<K>>,
    /// No hold begins before.
    rests_until: Option<Instant>,
    /// Holds in a row that were in vain.
    in_vain: u32,
    /// Holds so far.
    number: u64,
    /// Those that were told to wait so far.
    told: u64,
    waiting: BTreeMap<u64, Waker>,
}

#[derive(Debug)]
struct Held<K> {
    holder: K,
    of_several: bool,
    from: Instant,
    until: Instant,
}

/// A hold that has to be waited out.
#[derive(Debug)]
#[must_use = "a hold holds nobody back that does not wait"]
pub struct Hold {
    number: u64,
    place: u64,
    of_several: bool,
    until: Instant,
}

impl Hold {
    /// When it ends at the latest.
    #[must_use]
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Whether it is for a change of several tables.
    #[must_use]
    pub fn is_of_several(&self) -> bool {
        self.of_several
    }
}

impl<K> Default for Priority<K> {
    fn default() -> Self {
        let state = State { held: None, rests_until: None, in_vain: 0, number: 0, told: 0, waiting: BTreeMap::new() };
        Self { state: Mutex::new(state) }
    }
}

impl<K> Priority<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hold that somebody has to wait for. `waits` says whether it waits for this holder.
    pub fn before(&self, now: Instant, waits: impl FnOnce(&K) -> bool) -> Option<Hold> {
        let mut state = self.lock();
        state.expire(now);
        let held = state.held.as_ref().filter(|held| waits(&held.holder))?;
        let Held { of_several, until, .. } = *held;
        let hold = Hold { number: state.number, place: state.told, of_several, until };
        state.told += 1;
        Some(hold)
    }

    /// Waits for the end of a hold of this priority. `late` is a sleep until [`Hold::until`].
    pub async fn over(&self, hold: Hold, late: impl Future<Output = ()>) {
        let mut late = pin!(late);
        poll_fn(|context| {
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut state = self.lock();
            if state.held.is_none() || state.number != hold.number {
                return Poll::Ready(());
            }
            state.waiting.insert(hold.place, context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Somebody lost. Returns whether a hold begins, of `longest` at most.
    pub fn lost(&self, now: Instant, holder: K, longest: Span) -> bool {
        Self::lost_at([(self, holder)], now, longest)
    }

    /// Somebody lost a change of several tables. Returns whether holds begin: one at each of them, or none; of
    /// `longest` at most if it is one table, and of twice that if they are several, because a try takes longer that
    /// prepares all of them.
    ///
    /// Each table is there once, and all callers give tables in the same order: one is locked while the next is.
    pub fn lost_at<'a>(tables: impl IntoIterator<Item = (&'a Self, K)>, now: Instant, longest: Span) -> bool
    where
        K: 'a,
    {
        let mut free = Vec::new();
        for (table, holder) in tables {
            let mut state = table.lock();
            state.expire(now);
            let rests = state.rests_until.is_some_and(|until| now < until);
            if longest == Span::ZERO || rests || state.held.is_some() {
                return false;
            }
            free.push((state, holder));
        }
        let of_several = free.len() > 1;
        let longest = if of_several { longest + longest } else { longest };
        let begins = !free.is_empty();
        for (mut state, holder) in free {
            state.held = Some(Held { holder, of_several, from: now, until: now + longest });
            state.number += 1;
        }
        begins
    }

    /// Something took effect. `is_it` says whether this holder did. Returns whether a hold was for it; that hold has
    /// ended.
    pub fn landed(&self, now: Instant, is_it: impl FnOnce(&K) -> bool) -> bool {
        let mut state = self.lock();
        state.expire(now);
        let used = state.held.as_ref().is_some_and(|held| is_it(&held.holder));
        if used {
            state.in_vain = 0;
            state.end(now);
        }
        used
    }
}

impl<K> State<K> {
    fn expire(&mut self, now: Instant) {
        if let Some(until) = self.held.as_ref().map(|held| held.until).filter(|until| now >= *until) {
            self.in_vain = (self.in_vain + 1).min(MOST_DOUBLINGS);
            self.end(until);
        }
    }

    fn end(&mut self, at: Instant) {
        if let Some(held) = self.held.take() {
            let rest = (0..self.in_vain).fold(at.since(held.from), |rest, _| rest + rest);
            self.rests_until = Some(at + rest);
        }
        std::mem::take(&mut self.waiting).into_values().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn is_held(priority: &Priority<u32>, ms: u64) -> bool {
        priority.before(at(ms), |_| true).is_some()
    }

    #[test]
    fn others_wait_until_it_landed() {
        let priority = Priority::default();
        assert!(!is_held(&priority, 0));
        assert!(priority.lost(at(0), 1, HOLD));
        let hold = priority.before(at(1), |holder| *holder == 1).unwrap();
        assert_eq!(hold.until(), at(1500));
        assert!(priority.before(at(1), |holder| *holder != 1).is_none());
        let mut waits = pin!(priority.over(hold, std::future::pending()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(!priority.landed(at(200), |holder| *holder == 2));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(priority.landed(at(200), |holder| *holder == 1));
        assert!(waits.as_mut().poll(&mut context).is_ready());
        assert!(!is_held(&priority, 200));
        assert!(!priority.lost(at(399), 1, HOLD), "it rests as long as it held");
        assert!(priority.lost(at(400), 1, HOLD));
    }

    #[test]
    fn who_waits_for_one_hold_does_not_wait_for_the_next() {
        let priority = Priority::default();
        assert!(priority.lost(at(0), 1, HOLD));
        let hold = priority.before(at(1), |_| true).unwrap();
        assert!(priority.landed(at(10), |_| true));
        assert!(priority.lost(at(20), 2, HOLD));
        let mut waits = pin!(priority.over(hold, std::future::pending()));
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn who_lost_at_several_tables_has_a_hold_at_all_or_at_none() {
        let (one, two, three) = (Priority::default(), Priority::default(), Priority::default());
        assert!(!Priority::<u32>::lost_at([], at(0), HOLD));
        assert!(two.lost(at(0), 7, HOLD));
        assert!(!Priority::lost_at([(&one, 8), (&two, 8)], at(1), HOLD));
        assert!(!is_held(&one, 1));
        assert!(Priority::lost_at([(&one, 8), (&three, 8)], at(1), HOLD));
        assert!(is_held(&one, 2) && is_held(&three, 2));
        assert!(is_held(&one, 3000) && !is_held(&two, 1500), "twice as long at several");
        assert!(one.before(at(3000), |_| true).unwrap().is_of_several());
        assert!(one.landed(at(3), |holder| *holder == 8));
        assert!(is_held(&three, 3), "each ends by itself");
        assert!(!Priority::lost_at([(&one, 9)], at(4), HOLD), "it rests");
    }

    #[test]
    fn those_that_never_come_back_wait_longer_each_time() {
        let priority = Priority::default();
        assert!(priority.lost(at(0), 1, HOLD));
        assert!(!is_held(&priority, 1500));
        assert!(!priority.lost(at(4499), 2, HOLD), "1.5 s in vain, 3 s of rest");
        assert!(priority.lost(at(4500), 2, HOLD));
        assert!(!priority.lost(at(11_999), 3, HOLD), "then 6 s");
        assert!(priority.lost(at(12_000), 3, HOLD));
    }

    proptest! {
        /// Whatever happens, others are held back half of the time at most, besides one hold.
        #[test]
        fn half_of_the_time_is_free(steps in proptest::collection::vec((1_u64..700, 0_u32..4, any::<bool>()), 1..200)) {
            let priority = Priority::default();
            let (mut now, mut held) = (0, 0);
            for (step, holder, lands) in steps {
                for ms in now..now + step {
                    held += u64::from(is_held(&priority, ms));
                }
                now += step;
                if lands {
                    priority.landed(at(now), |one| *one == holder);
                } else {
                    priority.lost(at(now), holder, HOLD);
                }
            }
            prop_assert!(2 * held <= now + 1500, "{held} of {now} ms");
        }
    }
}
