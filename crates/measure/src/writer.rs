//! What does one writer do, on any store? It repeats its operation when the last one is answered, until counting is
//! closed and all counted operations have ended.

use bytes::Bytes;
use glidepath_env::{Env, Guard, Key, Object, ObjectStore, Payload, Purpose, PutError, ReadError, Tag};
use glidepath_model::{ByteSize, Span};

use crate::pace::{Done, Pace};
use crate::plan::Operation;
use crate::sample::{End, Sample};

/// The operation.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) operation: Operation,
    /// The object, or what its keys begin with.
    pub(crate) key: Key,
    pub(crate) body: ByteSize,
    pub(crate) writer: u32,
    /// Which of its operations count.
    pub(crate) pace: &'a Pace<'a>,
}

/// How a writer reads the current state of the object. This is not part of its latency.
pub(crate) trait Learn {
    /// Whether to do so also after a success, because it makes no request.
    const ALWAYS: bool;

    /// The tag and size of the object; `None` if it is absent or cannot be read.
    fn learn(&self, key: &Key) -> impl Future<Output = Option<(Tag, u64)>>;
}

/// Asks the store.
pub(crate) struct Ask<'a, S>(pub(crate) &'a S);

impl<S: ObjectStore> Learn for Ask<'_, S> {
    const ALWAYS: bool = false;

    async fn learn(&self, key: &Key) -> Option<(Tag, u64)> {
        self.0.head(key).await.ok().map(|metadata| (metadata.tag, metadata.size.as_bytes()))
    }
}

/// How often a writer without operations left checks whether the trial is over.
const LOOK: Span = Span::from_millis(10);

/// Runs until the trial is over; returns this writer's operations that count. Dropping the future does not withdraw its
/// last request.
pub(crate) async fn write<E: Env, L: Learn>(env: &E, store: &E::Objects, task: &Task<'_>, learn: &L) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut at = Place { chain: 0, seen: None };
    if task.operation.is_guarded() && task.operation != Operation::Create {
        at.seen = learn.learn(&task.key).await;
    }
    let (mut has_left, mut made) = (false, 0);
    loop {
        let began = env.now();
        let done = Done { made, counted: samples.len() };
        let counts = task.pace.counts(began, done);
        if !has_left && began >= task.pace.closed() {
            has_left = true;
            task.pace.leave();
        }
        if task.pace.is_over() {
            return samples;
        }
        if task.pace.is_spent(began, done) {
            env.sleep_until(began + LOOK).await;
            continue;
        }
        made += 1;
        task.pace.begins(began);
        let end = once(env, store, task, &mut at).await;
        let ended = env.now();
        if counts {
            task.pace.ended(ended.since(began), samples.is_empty());
            samples.push(Sample { writer: task.writer, began, ended, end });
        }
        if (end != End::Done || L::ALWAYS) && matches!(task.operation, Operation::Cas | Operation::Append) {
            at.seen = learn.learn(&task.key).await.or(at.seen);
        }
        // A store with zero latency must not stop the clock of a simulated world.
        if env.now() == began {
            env.sleep_until(began + Span::from_nanos(1)).await;
        }
    }
}

/// The state of a writer.
struct Place {
    chain: u64,
    seen: Option<(Tag, u64)>,
}

async fn once<E: Env>(env: &E, store: &E::Objects, task: &Task<'_>, at: &mut Place) -> End {
    match task.operation {
        Operation::Cas => {
            let guard = at.seen.as_ref().map_or(Guard::Absent, |(tag, _)| Guard::Matches(tag.clone()));
            let put = store.put(&task.key, fresh(env, task.body), guard).await;
            written(put, |tag| at.seen = Some((tag, task.body.as_bytes())))
        }
        Operation::Create => {
            let key = Key::new(&format!("{}/{:012}", task.key, at.chain));
            let end = written(store.put(&key, fresh(env, task.body), Guard::Absent).await, |_| {});
            // The key is taken, by this writer or another. After a refusal or an unknown outcome it may be tried again.
            at.chain += u64::from(matches!(end, End::Done | End::Lost));
            end
        }
        Operation::Append => {
            let offset = at.seen.as_ref().map_or(0, |(_, end)| *end);
            let piece = Payload { bytes: Bytes::new(), filler: task.body };
            written(store.append(&task.key, piece, offset).await, |appended| {
                at.seen = Some((appended.tag, appended.end));
            })
        }
        Operation::Get(_) => match store.get(&task.key).await {
            Ok(Object { .. }) => End::Done,
            Err(ReadError::NotFound | ReadError::Failed(_)) => End::Unknown,
        },
        Operation::Put(size) => written(store.put(&task.key, fresh(env, size), Guard::None).await, |_| {}),
    }
}

fn written<T>(result: Result<T, PutError>, done: impl FnOnce(T)) -> End {
    match result {
        Ok(written) => {
            done(written);
            End::Done
        }
        Err(PutError::Lost) => End::Lost,
        Err(PutError::Refused(_)) => End::Refused,
        Err(PutError::Unknown(_)) => End::Unknown,
    }
}

/// A unique body, because the tags of some stores are hashes of the content.
pub(crate) fn fresh<E: Env>(env: &E, size: ByteSize) -> Payload {
    let nonce = [env.draw(Purpose::Names).to_le_bytes(), env.draw(Purpose::Names).to_le_bytes()].concat();
    let filler = ByteSize::from_bytes(size.as_bytes().saturating_sub(nonce.len() as u64));
    Payload { bytes: nonce.into(), filler }
}
