//! Threads that run the service.
//!
//! The futures of protocols are not `Send` (the traits of the seam make no such promise, because the simulated world
//! has one thread), so each runs on one thread from its beginning to its end; decision 17 has the alternatives. A
//! request that is handed over runs to its end even if the client goes away: a commit may be made for several clients
//! at once.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use glidepath_service::{Kind, ServiceError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// How long after a panic a task is begun again.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts a task on the thread that runs it.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that run tasks.
#[derive(Clone)]
pub(crate) struct Workers {
    all: Arc<[Worker]>,
}

struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    /// Requests that have not ended.
    busy: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts this many threads, and at least one. They end when the last handle is dropped.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let mut all = Vec::new();
        for number in 0..threads.max(1) {
            let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            std::thread::Builder::new().name(format!("service-{number}")).spawn(move || {
                LocalSet::new().block_on(&runtime, async move {
                    while let Some(job) = queue.recv().await {
                        job();
                    }
                });
            })?;
            all.push(Worker { jobs, busy: Arc::default() });
        }
        Ok(Self { all: all.into() })
    }

    /// The first of the workers with the fewest requests. The first worker has the tasks that serve all requests, so a
    /// request that is alone wakes no second thread.
    fn freest(&self) -> &Worker {
        let fewest = self.all.iter().min_by_key(|worker| worker.busy.load(Ordering::Relaxed));
        fewest.unwrap_or(&self.all[0])
    }

    /// Whether no request is at work.
    pub(crate) fn are_idle(&self) -> bool {
        self.all.iter().all(|worker| worker.busy.load(Ordering::Relaxed) == 0)
    }

    /// Runs a task that serves all requests, for as long as the server lives, on the first worker. It does not count:
    /// a worker that it slows down ends its requests later, and so gets fewer. If it panics, it is begun again.
    pub(crate) fn serve_all<W, F>(&self, what: &'static str, work: W)
    where
        W: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        self.all[0].start(move || again(what, PAUSE, work));
    }

    /// Runs a task that nobody waits for, for as long as the server lives. It may compute for long, so it is not beside
    /// those that serve all requests if there are two workers or more. If it panics, it is begun again.
    pub(crate) fn keep_up<W, F>(&self, what: &'static str, work: W)
    where
        W: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        self.all[self.all.len() - 1].start(move || again(what, PAUSE, work));
    }

    /// Runs a request to its end, and returns its answer.
    pub(crate) async fn run<T, W, F>(&self, work: W) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<T, ServiceError>> + 'static,
    {
        let (tell, told) = oneshot::channel();
        let worker = self.freest();
        worker.busy.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&worker.busy));
        worker.start(move || async move {
            let _counted = counted;
            let _ = tell.send(work().await);
        });
        told.await.unwrap_or_else(|_| {
            let message = "the server failed while it worked on this request".to_owned();
            Err(ServiceError { kind: Kind::Unknown, message })
        })
    }
}

impl Worker {
    fn start<W, F>(&self, work: W)
    where
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        let job: Job = Box::new(move || {
            spawn_local(async move { work().await });
        });
        // A worker ends only after the last handle, so it takes the job.
        let _ = self.jobs.send(job);
    }
}

/// Begins a task again until it ends without a panic.
async fn again<W, F>(what: &'static str, pause: Duration, mut work: W)
where
    W: FnMut() -> F,
    F: Future<Output = ()>,
{
    while AssertUnwindSafe(async { work().await }).catch_unwind().await.is_err() {
        tracing::error!("{what} panicked: a defect of the server; it begins again");
        tokio::time::sleep(pause).await;
    }
}

/// A request that counts until it ends, also by a panic.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "a test may panic")]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_begun_again() {
        let mut begun = 0;
        let work = || {
            begun += 1;
            let panics = begun < 3;
            async move { assert!(!panics, "as a defect would") }
        };
        again("a test", PAUSE, work).await;
        assert_eq!(begun, 3);
    }
}
