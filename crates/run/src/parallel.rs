//! How is independent work done by several threads? Pieces are numbered and begin in the order of their numbers; each
//! that has begun is finished and delivered. [`map`] returns the results in the order of their numbers; [`each`] hands
//! each over as soon as it ends.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All pieces are done.
    Complete,
    /// It was stopped before the last piece began. Those that had begun are finished.
    Stopped,
}

/// Does `count` pieces of work, with at most `threads` at a time. Passes each result to `take`, on this thread, as soon
/// as it is there. Once `stop` is set, or `take` has refused a result, no further piece begins.
///
/// # Errors
/// The refusal of `take`; of several, that of the lowest number.
///
/// # Panics
/// Where a piece of work does.
pub fn each<R: Send, E>(
    count: u64,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    work: impl Fn(u64) -> R + Sync,
    mut take: impl FnMut(u64, R) -> Result<(), E>,
) -> Result<Ended, E> {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let begin = || {
        let halted = stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        (!halted).then(|| next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count)
    };
    let mut refused: Option<(u64, E)> = None;
    let mut taken = 0;
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..count.min(threads.get() as u64) {
            let (sender, begin, work, failed) = (sender.clone(), &begin, &work, &failed);
            scope.spawn(move || {
                let _ends = EndsAll(failed);
                while let Some(number) = begin()
                    && sender.send((number, work(number))).is_ok()
                {}
            });
        }
        drop(sender);
        for (number, result) in results {
            taken += 1;
            if let Err(error) = take(number, result) {
                failed.store(true, Ordering::Relaxed);
                if refused.as_ref().is_none_or(|(earlier, _)| number < *earlier) {
                    refused = Some((number, error));
                }
            }
        }
    });
    match refused {
        Some((_, error)) => Err(error),
        None if taken == count => Ok(Ended::Complete),
        None => Ok(Ended::Stopped),
    }
}

/// Where a piece panics, no further one begins: the panic is seen when those that have begun are finished.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The result of each item, in order; `None` if it was stopped before the end.
///
/// # Panics
/// Where `work` does.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: NonZeroUsize,
    stop: &AtomicBool,
    work: impl Fn(&T) -> R + Sync,
) -> Option<Vec<R>> {
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let keep = |number: u64, result: R| {
        results[number as usize] = Some(result);
        Ok::<(), Infallible>(())
    };
    let Ok(_) = each(items.len() as u64, threads, stop, |number| work(&items[number as usize]), keep);
    results.into_iter().collect()
}

/// The same without a way to stop.
///
/// # Panics
/// Where `work` does.
pub fn map_all<T: Sync, R: Send>(items: &[T], threads: NonZeroUsize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map(items, threads, &AtomicBool::new(false), work).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    proptest! {
        #[test]
        fn results_are_in_the_order_of_the_items(items in prop::collection::vec(any::<u32>(), 0..60), count in 1_usize..5) {
            let twice: Vec<u64> = items.iter().map(|item| 2 * u64::from(*item)).collect();
            prop_assert_eq!(map_all(&items, threads(count), |item| 2 * u64::from(*item)), twice);
        }

        /// Whichever ends first.
        #[test]
        fn of_several_refusals_the_lowest_is_told(first in 0_u64..40, count in 1_usize..5) {
            let never = AtomicBool::new(false);
            let mut taken = Vec::new();
            let refused = each(40, threads(count), &never, |number| number, |number, _| {
                taken.push(number);
                if number >= first { Err(number) } else { Ok(()) }
            });
            prop_assert_eq!(refused, Err(first));
            // No lower piece was left out, and few higher ones were begun.
            prop_assert!((0..=first).all(|number| taken.contains(&number)));
        }
    }

    #[test]
    fn what_is_stopped_hands_over_what_has_begun() {
        let stop = AtomicBool::new(false);
        let mut taken = 0;
        let ended = each(
            1000,
            threads(2),
            &stop,
            |_| stop.store(true, Ordering::Relaxed),
            |_, ()| {
                taken += 1;
                Ok::<(), Infallible>(())
            },
        );
        assert_eq!(ended, Ok(Ended::Stopped));
        assert!((1..=3).contains(&taken), "{taken}");
        assert_eq!(map(&[1, 2], threads(2), &stop, |item| *item), None);
        assert_eq!(map(&[] as &[u8], threads(2), &stop, |item| *item), Some(Vec::new()));
    }

    #[test]
    fn after_a_panic_no_further_piece_begins() {
        /// Told when the piece that has it unwinds.
        struct Told<'a>(&'a AtomicBool);
        impl Drop for Told<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        const COUNT: u64 = 100_000;
        let (stop, unwound, begun) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let work = |number: u64| {
            begun.fetch_add(1, Ordering::SeqCst);
            let _told = (number == 1).then(|| Told(&unwound));
            assert!(number != 1, "the piece that panics");
            while !unwound.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // The thread that unwinds has a little to do yet.
            (0..1000).for_each(|_| std::thread::yield_now());
        };
        let all = || each(COUNT, threads(2), &stop, work, |_, ()| Ok::<(), ()>(()));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)).is_err());
        assert!(begun.load(Ordering::SeqCst) < COUNT);
    }

    #[test]
    fn a_panic_is_not_swallowed() {
        let panicked = std::panic::catch_unwind(|| map_all(&[1, 2, 3], threads(2), |item| assert_ne!(*item, 2)));
        assert!(panicked.is_err());
    }
}
