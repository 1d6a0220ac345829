//! How do several requests of one task run at the same time?

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs these futures, at most `limit` (at least one) at a time, and gives what they return in their order. It polls all that run
/// whenever it is polled: a simulated world does not tell which of a process's futures it woke.
pub(crate) async fn together<F: Future>(limit: usize, futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut outputs = Vec::new();
    let mut waiting: VecDeque<_> = futures.into_iter().enumerate().collect();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    outputs.resize_with(waiting.len(), || None);
    poll_fn(|context| {
        loop {
            let before = running.len();
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
                now if now < before && !waiting.is_empty() => {}
                _ => return Poll::Pending,
            }
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
