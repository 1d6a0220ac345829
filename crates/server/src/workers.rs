//! Threads that run the service.
//!
//! The futures of protocols are not `Send` (the traits of the seam make no such promise, because the simulated world has
//! one thread), so each runs on one thread from its beginning to its end; decision 17 has the alternatives. A request
//! that is handed over runs to its end even if the client goes away: a commit may be made for several clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glidepath_service::{Kind, ServiceError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

/// Starts a task on the thread that runs it.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that run tasks.
#[derive(Clone)]
pub(crate) struct Workers {
    all: Arc<[Worker]>,
    next: Arc<AtomicUsize>,
}

struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    /// Tasks that have not ended.
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
        Ok(Self { all: all.into(), next: Arc::default() })
    }

    /// The worker with the fewest tasks.
    fn freest(&self) -> &Worker {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let order = (0..self.all.len()).map(|step| &self.all[(first + step) % self.all.len()]);
        let mut best = &self.all[first % self.all.len()];
        for worker in order {
            if worker.busy.load(Ordering::Relaxed) < best.busy.load(Ordering::Relaxed) {
                best = worker;
            }
        }
        best
    }

    /// Runs a task that is not waited for.
    pub(crate) fn spawn<W, F>(&self, work: W)
    where
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        let worker = self.freest();
        let busy = Arc::clone(&worker.busy);
        busy.fetch_add(1, Ordering::Relaxed);
        let job: Job = Box::new(move || {
            spawn_local(async move {
                let _counted = Counted(busy);
                work().await;
            });
        });
        // A worker ends only after the last handle, so it takes the job.
        let _ = worker.jobs.send(job);
    }

    /// Runs a request to its end, and returns its answer.
    pub(crate) async fn run<T, W, F>(&self, work: W) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<T, ServiceError>> + 'static,
    {
        let (tell, told) = oneshot::channel();
        self.spawn(move || async move {
            let _ = tell.send(work().await);
        });
        told.await.unwrap_or_else(|_| {
            let message = "the server failed while it worked on this request".to_owned();
            Err(ServiceError { kind: Kind::Unknown, message })
        })
    }
}

/// A task that counts until it ends, also by a panic.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
