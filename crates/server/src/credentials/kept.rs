//! Which credentials are given again?
//!
//! Those of a folder and a permission, as long as at least half of their life remains. Then one request asks for new
//! ones while others for the same wait. If that fails, the old ones are given until a quarter of their life remains.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_stores::LiveEnv;
use glidepath_stores::cloud::{Permission, StsError, Temporary};

/// The most folders whose credentials are kept. Beyond that, half of them are forgotten, the oldest first.
const MOST: usize = 4096;

/// After a failure, old credentials are given for this long without another try.
const PAUSE: Span = Span::from_secs(5);

type Key = (String, Permission);

/// Credentials that were given.
#[derive(Default)]
pub(super) struct Kept {
    slots: Mutex<BTreeMap<Key, Arc<Slot>>>,
}

/// Locked while its credentials are asked for.
type Slot = tokio::sync::Mutex<State>;

#[derive(Default)]
struct State {
    held: Option<Held>,
    /// The last failure, for those who waited meanwhile.
    failed: Option<(Instant, StsError)>,
}

struct Held {
    temporary: Arc<Temporary>,
    renew_from: Instant,
    useful_until: Instant,
}

impl Kept {
    /// The credentials for a folder; those that `ask` returns if none can be given again.
    pub(super) async fn get<F>(
        &self,
        location: &str,
        permission: Permission,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<Temporary>, StsError>
    where
        F: Future<Output = Result<Temporary, StsError>>,
    {
        let came = now();
        let slot = self.slot((location.to_owned(), permission));
        let mut state = slot.lock().await;
        if let Some(held) = state.held.as_ref().filter(|held| now() < held.renew_from) {
            return Ok(Arc::clone(&held.temporary));
        }
        // One failure is enough for all that waited for it.
        if let Some((at, error)) = &state.failed
            && *at >= came
        {
            return Err(error.clone());
        }
        let began = now();
        match ask().await {
            Ok(temporary) => {
                let temporary = Arc::new(temporary);
                let quarter = quarter(temporary.life);
                let renew_from = began + quarter + quarter;
                let useful_until = renew_from + quarter;
                let held = Held { temporary: Arc::clone(&temporary), renew_from, useful_until };
                *state = State { held: Some(held), failed: None };
                Ok(temporary)
            }
            Err(error) => {
                let now = now();
                if let Some(held) = state.held.as_mut().filter(|held| now < held.useful_until) {
                    tracing::warn!(%error, "short-lived credentials could not be renewed; those of before are given");
                    held.renew_from = now + PAUSE;
                    return Ok(Arc::clone(&held.temporary));
                }
                *state = State { held: None, failed: Some((now, error.clone())) };
                Err(error)
            }
        }
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MOST && !slots.contains_key(&key) {
            make_room(&mut slots);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

/// By the clock of this process that counts the sleep of the machine: credentials age meanwhile.
fn now() -> Instant {
    LiveEnv::new().now()
}

fn quarter(life: Duration) -> Span {
    Span::from_nanos(u64::try_from((life / 4).as_nanos()).unwrap_or(u64::MAX / 8))
}

/// Forgets the older half of those that are not in use.
fn make_room(slots: &mut BTreeMap<Key, Arc<Slot>>) {
    // `None`: in use.
    let age = |slot: &Arc<Slot>| slot.try_lock().ok().map(|state| state.held.as_ref().map(|held| held.renew_from));
    let mut ages: Vec<_> = slots.values().filter_map(age).collect();
    ages.sort_unstable();
    let Some(middle) = ages.get(ages.len() / 2).copied() else { return };
    slots.retain(|_, slot| age(slot).is_none_or(|age| age > middle));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Answers with credentials that have this life, each with another end.
    #[derive(Default)]
    struct Source {
        asked: AtomicU64,
        fails: std::sync::atomic::AtomicBool,
    }

    impl Source {
        async fn ask(&self, life: Duration) -> Result<Temporary, StsError> {
            let ends_at_ms = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if self.fails.load(Ordering::SeqCst) {
                return Err(StsError::Failed("no".to_owned()));
            }
            let text = String::new;
            Ok(Temporary { key_id: text(), secret: text(), token: text(), ends_at_ms, life })
        }

        fn asked(&self) -> u64 {
            self.asked.load(Ordering::SeqCst)
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn one_request_serves_all_for_half_of_a_life() {
        let (kept, source) = (&Kept::default(), &Source::default());
        let get = |location, permission, life| kept.get(location, permission, move || source.ask(life));
        let (one, two, three) = tokio::join!(
            get("s3://b/t", Permission::Read, HOUR),
            get("s3://b/t", Permission::Read, HOUR),
            get("s3://b/t", Permission::Read, HOUR)
        );
        assert!(one.unwrap() == two.unwrap() && three.is_ok() && source.asked() == 1);
        // Another permission and another folder are others.
        let written = get("s3://b/t", Permission::Write, HOUR).await.unwrap();
        assert_eq!(written.ends_at_ms, 2);
        assert_eq!(get("s3://b/u", Permission::Read, HOUR).await.unwrap().ends_at_ms, 3);
        let short = Duration::from_millis(60);
        assert_eq!(get("s3://b/v", Permission::Read, short).await.unwrap().ends_at_ms, 4);
        tokio::time::sleep(Duration::from_millis(35)).await;
        assert_eq!(get("s3://b/v", Permission::Read, short).await.unwrap().ends_at_ms, 5);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_who_waited_and_not_kept() {
        let (kept, source) = (&Kept::default(), &Source::default());
        let get = |life| kept.get("s3://b/t", Permission::Read, move || source.ask(life));
        source.fails.store(true, Ordering::SeqCst);
        let (one, two) = tokio::join!(get(HOUR), get(HOUR));
        assert!(one.is_err() && two.is_err());
        assert_eq!(source.asked(), 1);
        source.fails.store(false, Ordering::SeqCst);
        assert_eq!(get(Duration::from_secs(4)).await.unwrap().ends_at_ms, 2);
        // Half of their life is over, and not three quarters: those of before are given, without another try.
        source.fails.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2100)).await;
        for _ in 0..3 {
            assert_eq!(get(HOUR).await.unwrap().ends_at_ms, 2);
        }
        assert_eq!(source.asked(), 3);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let kept = Kept::default();
        let text = String::new;
        for number in 0..2 * MOST {
            let temporary = Temporary { key_id: text(), secret: text(), token: text(), ends_at_ms: 1, life: HOUR };
            let location = format!("s3://b/{number}");
            kept.get(&location, Permission::Read, || async { Ok(temporary) }).await.unwrap();
            assert!(kept.slots.lock().unwrap().len() <= MOST);
        }
        // The newest are still there.
        let newest = format!("s3://b/{}", 2 * MOST - 1);
        let again = || async { Err(StsError::Failed("asked again".to_owned())) };
        assert!(kept.get(&newest, Permission::Read, again).await.is_ok());
    }
}
