//! Whether the catalog can be read, asked by many at once: one look at a time, whose result all get.
//!
//! Anybody may ask, and a look at a store that hangs is under way until the store answers, whoever asked: without this,
//! each question would leave one more behind.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glidepath_service::ServiceError;
use tokio::sync::watch;

type Seen = Option<Result<(), ServiceError>>;

/// The look that is under way, if one is.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    under_way: Arc<Mutex<Option<watch::Receiver<Seen>>>>,
}

impl Probe {
    /// What the look that is under way finds, or a new one; `None` if that takes longer than this.
    pub(crate) async fn ask<F>(&self, look: impl FnOnce() -> F, patience: Duration) -> Seen
    where
        F: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        let mut seen = self.join(look);
        let seen = tokio::time::timeout(patience, seen.wait_for(Option::is_some)).await.ok()?;
        seen.ok()?.clone()
    }

    fn join<F>(&self, look: impl FnOnce() -> F) -> watch::Receiver<Seen>
    where
        F: Future<Output = Result<(), ServiceError>> + Send + 'static,
    {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose task has ended, also by a panic, is over.
        if let Some(seen) = under_way.as_ref().filter(|seen| seen.has_changed().is_ok()) {
            return seen.clone();
        }
        let (tell, seen) = watch::channel(None);
        let look = look();
        tokio::spawn(async move { tell.send_replace(Some(look.await)) });
        *under_way = Some(seen.clone());
        seen
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_once_share_a_look() {
        let (probe, looks, answers) = (Probe::default(), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let patience = Duration::from_secs(2);
        let ask = || {
            let (looks, answers) = (Arc::clone(&looks), Arc::clone(&answers));
            probe.ask(
                move || async move {
                    looks.fetch_add(1, Ordering::Relaxed);
                    answers.notified().await;
                    Ok(())
                },
                patience,
            )
        };
        // The store hangs.
        for _ in 0..3 {
            assert!(ask().await.is_none());
        }
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        answers.notify_one();
        assert!(ask().await.unwrap().is_ok());
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        // That one is over: what it saw is not told to those who ask later.
        answers.notify_one();
        assert!(ask().await.unwrap().is_ok());
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_panics_is_begun_again() {
        let probe = Probe::default();
        let patience = Duration::from_secs(2);
        let broken = || async { panic!("as a defect would") };
        assert!(probe.ask(broken, patience).await.is_none());
        assert!(probe.ask(|| async { Ok(()) }, patience).await.unwrap().is_ok());
    }
}
