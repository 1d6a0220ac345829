//! Several requests at once.

use std::future::Future;

use futures_util::future::join_all;

/// Futures at a time. `join_all` polls up to 30 futures whenever it is polled; with more it polls those whose wakers
/// were called, and the simulator calls none.
const AT_ONCE: usize = 16;

/// The answers of all, in order, up to [`AT_ONCE`] at a time. After a batch with an answer that `enough` accepts, no
/// more are asked.
pub(crate) async fn together_until<I: IntoIterator, F: Future>(
    items: I,
    ask: impl Fn(I::Item) -> F,
    enough: impl Fn(&F::Output) -> bool,
) -> Vec<F::Output> {
    let (mut items, mut answers) = (items.into_iter(), Vec::new());
    loop {
        #[allow(clippy::disallowed_methods, reason = "no more than it polls by itself")]
        let batch = join_all(items.by_ref().take(AT_ONCE).map(&ask)).await;
        let done = batch.len() < AT_ONCE || batch.iter().any(&enough);
        answers.extend(batch);
        if done {
            return answers;
        }
    }
}

/// The answers of all, in order.
pub(crate) async fn together<I: IntoIterator, F: Future>(items: I, ask: impl Fn(I::Item) -> F) -> Vec<F::Output> {
    together_until(items, ask, |_| false).await
}
