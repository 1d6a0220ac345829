//! The store to measure: a live one, with threads, or a simulated one, with simulated processes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use glidepath_env::{Cause, Env, Guard, Key, ObjectStore, Payload, PutError, Tag};
use glidepath_model::{ByteSize, Instant, Span};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use glidepath_stores::{LiveEnv, Store};

use crate::pace::{EndsForAll, Pace};
use crate::plan::{MOST_DURATIONS, Operation, Plan, Trial};
use crate::sample::{Sample, TrialSamples};
use crate::writer::{Ask, Learn, Task, fresh, write};

/// Why a store cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The machine refuses threads or timers.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// The first requests failed.
    #[error("the store cannot be measured: {0}")]
    Unusable(String),
    /// A writer panicked: a bug in this program or in a library.
    #[error("{operation} with {writers} writers: a writer panicked ({cause}); the trial was ended and does not count")]
    Panicked {
        /// Its operation.
        operation: String,
        /// The number of writers.
        writers: u32,
        /// The panic message.
        cause: String,
    },
    /// Objects could not be removed.
    #[error("objects under {prefix} could not be removed: {cause}. Remove them by hand")]
    LeftBehind {
        /// What their keys begin with.
        prefix: String,
        /// The store's error.
        cause: String,
    },
}

/// A store that can be measured.
pub trait Site {
    /// Whether it supports this operation.
    fn can(&self, operation: Operation) -> bool;

    /// Runs one trial, until its end or until `stop` is set. A simulated trial ignores `stop`, because it ends soon.
    ///
    /// # Errors
    /// The measurement cannot continue.
    fn measure(&mut self, plan: &Plan, trial: Trial, stop: &AtomicBool) -> Result<TrialSamples, MeasureError>;

    /// Removes everything that was written, and nothing else.
    ///
    /// # Errors
    /// Something could not be removed.
    fn clean(&mut self) -> Result<(), MeasureError>;

    /// Whether its latencies include reading the current state of an object, so that no writer asks for it: as in
    /// [`Profile`].
    fn latency_includes_read(&self) -> bool {
        false
    }

    /// The operations of a plan that it does not support, in words.
    fn left_out(&self, plan: &Plan) -> Vec<String> {
        let cannot = plan.operations.iter().filter(|operation| !self.can(**operation));
        cannot.map(|operation| format!("{}: this store cannot do it", operation.name())).collect()
    }
}

/// A live store.
pub struct LiveSite {
    store: Store,
    runtime: tokio::runtime::Runtime,
    /// The prefix of all its keys, and of no others.
    scratch: Key,
}

impl LiveSite {
    /// Tests the store with a few requests: a write, a read, and for each guard a write that must lose.
    ///
    /// # Errors
    /// The store cannot be reached or written to.
    pub fn open(store: Store) -> Result<Self, MeasureError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(MeasureError::Start)?;
        let nonce = LiveEnv::new().draw(glidepath_env::Purpose::Names);
        let mut site = Self { store, runtime, scratch: Key::new(&format!("glidepath-measure-{nonce:016x}")) };
        let tried = site.runtime.block_on(try_out(&site.store, &site.key("try")));
        site.clean().or_else(|error| if tried.is_err() { Ok(()) } else { Err(error) })?;
        tried.map_err(MeasureError::Unusable)?;
        Ok(site)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn key(&self, name: &str) -> Key {
        Key::new(&format!("{}/{name}", self.scratch))
    }
}

/// Tests whether the store accepts guarded writes and honours guards, whatever it reports.
async fn try_out(store: &Store, key: &Key) -> Result<(), String> {
    let env = LiveEnv::new();
    let body = || fresh(&env, ByteSize::from_bytes(16));
    let first = store.put(key, body(), Guard::Absent).await.map_err(|error| format!("the first write: {error}"))?;
    store.get(key).await.map_err(|error| format!("reading the object just written: {error}"))?;
    match store.put(key, body(), Guard::Absent).await {
        Err(PutError::Lost) => {}
        Ok(_) => return Err("it ignores put-if-absent: a second creation of the same object succeeded".to_owned()),
        Err(error) => return Err(format!("a second creation of the same object: {error}")),
    }
    let second = store.put(key, body(), Guard::Matches(first.clone())).await;
    second.map_err(|error| format!("put-if-match: {error}"))?;
    match store.put(key, body(), Guard::Matches(first)).await {
        Err(PutError::Lost) => Ok(()),
        Ok(_) => Err("it ignores put-if-match: a write with a tag that is gone succeeded".to_owned()),
        Err(error) => Err(format!("put-if-match with a tag that is gone: {error}")),
    }
}

impl Site for LiveSite {
    fn can(&self, operation: Operation) -> bool {
        let capabilities = self.store.capabilities();
        match operation {
            Operation::Cas => capabilities.put_if_match,
            Operation::Create => capabilities.put_if_absent,
            Operation::Append => capabilities.append,
            Operation::Get(_) | Operation::Put(_) => true,
        }
    }

    fn measure(&mut self, plan: &Plan, trial: Trial, stop: &AtomicBool) -> Result<TrialSamples, MeasureError> {
        let key = self.key(&trial_name(trial));
        let failed = |cause: String| MeasureError::Unusable(format!("{}: {cause}", trial.operation.name()));
        self.runtime.block_on(put_in_place(&LiveEnv::new(), &self.store, &key, plan, trial)).map_err(failed)?;
        // One clock for all writers, so that their windows can be compared.
        let env = LiveEnv::new();
        let pace = Pace::new(plan, trial.writers, env.now() + plan.warm_up, stop);
        let task = |writer| Task { operation: trial.operation, key: key.clone(), body: plan.body, writer, pace: &pace };
        // The future runs on its writer's thread; the runtime only drives the sockets.
        let samples = together(&pace, trial, |writer| {
            self.runtime.handle().block_on(write(&env, &self.store, &task(writer), &Ask(&self.store)))
        });
        self.runtime.block_on(remove(&self.store, &key)).map_err(|cause| self.left_behind(&cause))?;
        Ok(TrialSamples::counted(trial, samples?, pace.closed()))
    }

    fn clean(&mut self) -> Result<(), MeasureError> {
        self.runtime.block_on(remove(&self.store, &self.scratch)).map_err(|cause| self.left_behind(&cause))
    }
}

impl LiveSite {
    fn left_behind(&self, cause: &Cause) -> MeasureError {
        MeasureError::LeftBehind { prefix: self.scratch.to_string(), cause: cause.to_string() }
    }
}

/// Runs each writer of a trial on its own thread. A panic of one ends the trial.
fn together(
    pace: &Pace<'_>,
    trial: Trial,
    work: impl Fn(u32) -> Vec<Sample> + Sync,
) -> Result<Vec<Sample>, MeasureError> {
    let joined: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let one = move |writer| {
            let _ends = EndsForAll(pace);
            work(writer)
        };
        let writers: Vec<_> = (0..trial.writers).map(|writer| scope.spawn(move || one(writer))).collect();
        writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut samples = Vec::new();
    for writer in joined {
        samples.extend(writer.map_err(|panic| {
            let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
            let cause = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            MeasureError::Panicked { operation: trial.operation.name(), writers: trial.writers, cause }
        })?);
    }
    Ok(samples)
}

fn trial_name(trial: Trial) -> String {
    format!("{}-{}-{}", trial.operation.name().replace(' ', "-"), trial.writers, trial.number)
}

/// Writes the initial objects of a trial.
async fn put_in_place<E: Env>(env: &E, store: &E::Objects, key: &Key, plan: &Plan, trial: Trial) -> Result<(), String> {
    let first = match trial.operation {
        Operation::Create => return Ok(()),
        Operation::Append => {
            let piece = Payload { bytes: bytes::Bytes::new(), filler: plan.body };
            return store.append(key, piece, 0).await.map(|_| ()).map_err(|error| error.to_string());
        }
        Operation::Cas => plan.body,
        Operation::Get(size) | Operation::Put(size) => size,
    };
    store.put(key, fresh(env, first), Guard::None).await.map(|_| ()).map_err(|error| error.to_string())
}

/// Removes every object whose key begins with this.
async fn remove(store: &Store, prefix: &Key) -> Result<(), Cause> {
    loop {
        let page = store.list(prefix, None, 1000).await.map_err(Cause::from_error)?;
        for object in &page.objects {
            store.delete(&object.key).await.map_err(Cause::from_error)?;
        }
        if !page.more {
            return Ok(());
        }
    }
}

/// A simulated store.
pub struct SimulatedSite {
    profile: Profile,
    seed: u64,
    /// The operations that may still be made.
    left: Option<u64>,
}

impl SimulatedSite {
    /// A store of this profile. Each trial has its own seed, drawn from this one.
    #[must_use]
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self { profile, seed, left: None }
    }

    /// The same, with at most this number of operations in all trials.
    pub(crate) fn at_most(self, operations: u64) -> Self {
        Self { left: Some(operations), ..self }
    }

    /// Whether it may make more operations.
    pub(crate) fn may_go_on(&self) -> bool {
        self.left != Some(0)
    }

    /// The store.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
}

/// Reads the simulated store without a request: for profiles whose latencies include reading the current state.
struct Peek<'a>(&'a SimEnv);

impl Learn for Peek<'_> {
    const ALWAYS: bool = true;

    async fn learn(&self, key: &Key) -> Option<(Tag, u64)> {
        self.0.peek(STORE, key).map(|metadata| (metadata.tag, metadata.size.as_bytes()))
    }
}

const STORE: StoreId = StoreId(0);

/// The object, or what its keys begin with.
const MEASURED: &str = "measured";

static NEVER: AtomicBool = AtomicBool::new(false);

impl Site for SimulatedSite {
    fn can(&self, operation: Operation) -> bool {
        operation != Operation::Append || self.profile.append.is_some()
    }

    fn latency_includes_read(&self) -> bool {
        self.profile.latency_includes_read
    }

    fn measure(&mut self, plan: &Plan, trial: Trial, _stop: &AtomicBool) -> Result<TrialSamples, MeasureError> {
        let mut world = self.stage(plan, trial);
        Ok(self.play(&mut world, plan, trial))
    }

    fn clean(&mut self) -> Result<(), MeasureError> {
        Ok(())
    }
}

impl SimulatedSite {
    /// A world in which a trial can begin.
    fn stage(&mut self, plan: &Plan, trial: Trial) -> Simulation {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let longest = Span::from_nanos(plan.duration.as_nanos().saturating_mul(MOST_DURATIONS));
        let setup = Setup {
            seed: self.seed,
            // As live, the trial waits for the operations that count.
            horizon: Instant::ZERO + plan.warm_up + longest + Span::from_secs(3600),
            // Each answer must be an event, because the writer reads the store at the time of its answer.
            mode: Mode::EveryOperation,
            stores: vec![StoreModel::of(self.profile.clone())],
        };
        let simulation = Simulation::new(setup);
        let size = match trial.operation {
            Operation::Get(size) | Operation::Put(size) => size,
            _ => plan.body,
        };
        if trial.operation != Operation::Create {
            simulation.seed_object(STORE, &Key::new(MEASURED), Payload { bytes: bytes::Bytes::new(), filler: size });
        }
        simulation
    }

    fn play(&mut self, simulation: &mut Simulation, plan: &Plan, trial: Trial) -> TrialSamples {
        let told = self.profile.latency_includes_read;
        let samples = Rc::new(RefCell::new(Vec::new()));
        let pace = Pace::new(plan, trial.writers, Instant::ZERO + plan.warm_up, &NEVER);
        let pace = Rc::new(match self.left {
            Some(left) => pace.at_most(left),
            None => pace,
        });
        let writers: Vec<_> = (0..trial.writers)
            .map(|writer| {
                let (operation, key, body) = (trial.operation, Key::new(MEASURED), plan.body);
                let (samples, pace) = (Rc::clone(&samples), Rc::clone(&pace));
                let begin = move |env: SimEnv| async move {
                    let store = env.store(STORE);
                    let task = Task { operation, key, body, writer, pace: &pace };
                    let seen = match told {
                        true => write(&env, &store, &task, &Peek(&env)).await,
                        false => write(&env, &store, &task, &Ask(&store)).await,
                    };
                    samples.borrow_mut().extend(seen);
                };
                (Instant::ZERO, begin)
            })
            .collect();
        simulation.run(writers);
        self.left = self.left.map(|_| pace.left());
        TrialSamples::counted(trial, samples.take(), pace.closed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_panics_ends_the_trial_with_an_error() {
        let never = AtomicBool::new(false);
        let plan = Plan::full();
        let pace = Pace::new(&plan, 3, Instant::ZERO, &never);
        let trial = Trial { operation: Operation::Cas, writers: 3, number: 1 };
        let work = |writer| {
            assert!(writer != 1, "writer {writer} is broken");
            while !pace.is_over() {
                std::thread::yield_now();
            }
            Vec::new()
        };
        let error = together(&pace, trial, work).unwrap_err().to_string();
        assert!(error.starts_with("cas with 3 writers: a writer panicked (writer 1 is broken)"), "{error}");
    }

    #[test]
    fn a_simulated_store_that_answers_at_once_makes_no_more_operations_than_are_allowed() {
        let mut site = SimulatedSite::new(Profile::constant(Span::from_nanos(300)), 1).at_most(2000);
        let trial = Trial { operation: Operation::Create, writers: 4, number: 1 };
        let mut world = site.stage(&Plan::quick(), trial);
        world.keep_writes(STORE);
        let samples = site.play(&mut world, &Plan::quick(), trial).samples.len();
        assert!(world.writes(STORE).len() <= 2000 && !site.may_go_on());
        assert!((900..=1100).contains(&samples), "half of them are for the warm-up: {samples}");
    }

    /// Ten writers on a store that takes 30 ms, and sometimes ten seconds: while the trial waits for a slow operation,
    /// the others must not exceed the agreed requests.
    #[test]
    fn while_the_last_are_waited_for_nobody_writes_more_than_was_agreed() {
        let mut profile = Profile::constant(Span::from_millis(20));
        profile.put = glidepath_sim::OperationProfile { sigma: 3.0, floor: Span::from_millis(10), ..profile.put };
        let plan = Plan { duration: Span::from_millis(500), warm_up: Span::from_millis(100), ..Plan::full() };
        let trial = Trial { operation: Operation::Put(ByteSize::from_bytes(16)), writers: 10, number: 1 };
        let mut slow = 0;
        for seed in 1..20 {
            let mut site = SimulatedSite::new(profile.clone(), seed);
            let mut world = site.stage(&plan, trial);
            world.keep_writes(STORE);
            let samples = site.play(&mut world, &plan, trial);
            let made = world.writes(STORE).len() as u64;
            slow += samples.samples.iter().filter(|sample| sample.latency() > plan.duration).count();
            assert!(made <= 10 * plan.most_requests(), "{made} requests, {} agreed", 10 * plan.most_requests());
        }
        assert!(slow > 20, "{slow} are waited for");
    }
}
