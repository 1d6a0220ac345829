//! How do several requests of one task run at the same time?
//!
//! Every future that runs is polled whenever the task is: a simulated world does not tell which of a process's futures
//! it woke.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs these futures, at most `limit` (at least one) at a time, and gives what they return in their order. When one
/// has ended, the next one begins.
pub async fn together<F: Future>(limit: usize, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut outputs = Vec::new();
    let mut waiting: VecDeque<_> = futures.into_iter().enumerate().collect();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    outputs.resize_with(waiting.len(), || None);
    poll_fn(|context| {
        loop {
            running.retain_mut(|(place, future)| match future.as_mut().poll(context) {
                Poll::Ready(output) => {
                    outputs[*place] = Some(output);
                    false
                }
                Poll::Pending => true,
            });
            let free = limit.max(1) - running.len();
            let next = waiting.drain(..free.min(waiting.len())).map(|(place, future)| (place, Box::pin(future)));
            let first_new = running.len();
            running.extend(next);
            match running.len() {
                0 => return Poll::Ready(()),
                // Those that were added have not been polled yet.
                now if now > first_new => {}
                _ => return Poll::Pending,
            }
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Asks about these items in batches of `limit` (at least one), and gives the answers in their order. After a batch
/// with an answer that `enough` accepts, no more are asked about.
pub async fn together_until<I: IntoIterator, F: Future>(
    limit: usize,
    items: I,
    ask: impl Fn(I::Item) -> F,
    enough: impl Fn(&F::Output) -> bool,
) -> Vec<F::Output> {
    let (limit, mut items, mut outputs) = (limit.max(1), items.into_iter(), Vec::new());
    loop {
        let batch: Vec<F> = items.by_ref().take(limit).map(&ask).collect();
        let batch = together(limit, batch).await;
        let done = batch.len() < limit || batch.iter().any(&enough);
        outputs.extend(batch);
        if done {
            return outputs;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Polls until it is ready, and says how often that took.
    fn polled<T>(future: impl Future<Output = T>) -> (T, u32) {
        let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
        for polls in 1..1000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return (output, polls);
            }
        }
        panic!("it is never ready");
    }

    /// Counts those that run at a time, and all that have begun.
    #[derive(Default)]
    struct Counts {
        running: Cell<usize>,
        most: Cell<usize>,
        begun: Cell<usize>,
    }

    /// Is ready at its poll of this number.
    async fn waits(polls: usize, counts: &Counts) -> usize {
        counts.begun.set(counts.begun.get() + 1);
        counts.running.set(counts.running.get() + 1);
        counts.most.set(counts.most.get().max(counts.running.get()));
        let mut left = polls;
        poll_fn(|_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        counts.running.set(counts.running.get() - 1);
        polls
    }

    #[test]
    fn outputs_are_in_order_and_no_more_run_than_may() {
        // None ends at its first poll, so that as many run as may.
        let lengths: Vec<usize> = (0..40).map(|number| 2 + number * 7 % 5).collect();
        for limit in [0, 1, 3, 16, 100] {
            let counts = Counts::default();
            let (outputs, _) = polled(together(limit, lengths.iter().map(|polls| waits(*polls, &counts))));
            assert_eq!(outputs, lengths);
            assert_eq!(counts.most.get(), limit.clamp(1, lengths.len()), "{limit} at a time");
        }
        assert!(polled(together::<std::future::Ready<()>>(4, [])).0.is_empty());
    }

    #[test]
    fn all_that_run_are_polled_each_time() {
        let counts = Counts::default();
        let (_, polls) = polled(together(100, (0..100).map(|_| waits(3, &counts))));
        assert_eq!(polls, 3);
    }

    #[test]
    fn a_batch_with_enough_is_the_last_one() {
        for (enough, begun) in [(2, 4), (4, 4), (5, 8), (9, 10), (11, 10)] {
            let counts = Counts::default();
            let asking = together_until(4, 1..=10, |polls| waits(polls, &counts), |polls| *polls == enough);
            let (outputs, _) = polled(asking);
            assert_eq!(outputs, (1..=begun).collect::<Vec<_>>(), "until {enough}");
            assert_eq!(counts.begun.get(), begun);
        }
    }
}
