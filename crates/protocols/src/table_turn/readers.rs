//! Who reads the files of its change, before it is its turn at a table?
//!
//! Appends that were committed together come back together. While one of them commits, the others read their files. The
//! next leader is the first to finish reading; it waits for the others ([`gather`](Readers::gather)), so that they are
//! committed together again.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Those that read at one table.
#[derive(Debug)]
pub struct Readers {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// So far.
    number: u64,
    now: BTreeSet<u64>,
    waiting: Vec<Waker>,
}

/// One that reads, until this is dropped.
#[derive(Debug)]
#[must_use = "it reads until this is dropped"]
pub struct Reader<'a> {
    all: &'a Readers,
    number: u64,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let woken = {
            let mut state = self.all.lock();
            state.now.remove(&self.number);
            std::mem::take(&mut state.waiting)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Readers {
    /// At most `most` read at a time: what more of them read would wait in memory.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more that reads; nothing if enough do.
    pub fn enter(&self) -> Option<Reader<'_>> {
        let mut state = self.lock();
        if state.now.len() >= self.most {
            return None;
        }
        let number = state.number;
        state.number += 1;
        state.now.insert(number);
        Some(Reader { all: self, number })
    }

    /// Whether somebody reads: then who comes now is not the next.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.lock().now.is_empty()
    }

    /// Waits until those that read now have ended, or `late` has.
    pub async fn gather(&self, late: impl Future<Output = ()>) {
        let (mut late, next) = (pin!(late), self.lock().number);
        poll_fn(|context| {
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            let mut state = self.lock();
            if state.now.range(..next).next().is_none() {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_leader_waits_for_those_that_read_when_it_came() {
        let (readers, woken) = (Readers::new(3), Arc::new(Woken::default()));
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        let mut poll = |gathered: Pin<&mut dyn Future<Output = ()>>| gathered.poll(&mut context).is_ready();
        assert!(poll(pin!(readers.gather(pending()))), "nobody reads");
        assert!(!readers.any());
        let (first, second) = (readers.enter(), readers.enter());
        let mut gathered = pin!(readers.gather(pending()));
        assert!(!poll(gathered.as_mut()));
        let later = readers.enter();
        assert!(readers.any());
        drop(first);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(!poll(gathered.as_mut()));
        drop(second);
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert!(poll(gathered.as_mut()), "who comes later is not waited for");
        assert!(poll(pin!(readers.gather(ready(())))), "no longer than it may take");
        drop(later);
        assert!(readers.lock().now.is_empty());
    }

    #[test]
    fn no_more_read_than_may() {
        let readers = Readers::new(2);
        let (first, _second) = (readers.enter(), readers.enter());
        assert!(first.is_some() && readers.enter().is_none());
        drop(first);
        assert!(readers.enter().is_some());
    }
}
