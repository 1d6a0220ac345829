//! Does the catalog leave alone what is not its own?
//!
//! A process that knows nothing of the catalog copies objects of it to keys that resemble theirs, as an operator or a
//! backup may. The copies are whole, so who takes one for an object of the catalog finds nothing wrong with it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use glidepath_env::{Env, Guard, Key, ObjectStore, Payload, Purpose, unit_interval};
use glidepath_model::{Instant, Span};
use glidepath_protocols::afterwards::Write;
use glidepath_sim::SimEnv;

use crate::run::Start;
use crate::scenario::Writers;
use crate::subject::{PREFIX, STORE};

/// Keys of a listing from which one is drawn.
const LISTED: usize = 1000;

/// Tries of a put, so that most copies are there in the end, also where many requests fail.
const PUTS: u32 = 4;

/// The keys to which a stranger copied something, or tried to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies(Rc<RefCell<BTreeSet<Key>>>);

impl Copies {
    /// The process that makes them; none in a scenario without a stranger.
    pub(crate) fn start(&self, writers: &Writers) -> Option<(Instant, Start)> {
        let (copies, writers) = (self.clone(), *writers);
        let start: Start = Box::new(move |sim: SimEnv| Box::pin(copies.make(sim, writers)));
        (writers.strange > 0).then_some((Instant::ZERO + writers.round_trip, start))
    }

    async fn make(self, env: SimEnv, writers: Writers) {
        let store = env.store(STORE);
        for _ in 0..writers.strange {
            let pause = unit_interval(env.draw(Purpose::Backoff)) * writers.pause.as_nanos() as f64;
            env.sleep_until(env.now() + Span::from_nanos_f64(pause)).await;
            let (which, how) = (env.draw(Purpose::Names), env.draw(Purpose::Names));
            let Ok(page) = store.list(&Key::new(PREFIX), None, LISTED).await else { continue };
            let keys: Vec<Key> = page.objects.into_iter().map(|listed| listed.key).collect();
            // A copy of a copy may resemble nothing, or too much.
            let own: Vec<&Key> = keys.iter().filter(|key| !self.0.borrow().contains(key)).collect();
            let Some(key) = own.get((which % own.len().max(1) as u64) as usize) else { continue };
            let Some(copy) = resembling(key, how) else { continue };
            let Ok(object) = store.get(key).await else { continue };
            // Before the put, because a put without an answer may have taken effect.
            self.0.borrow_mut().insert(copy.clone());
            for _ in 0..PUTS {
                if store.put(&copy, object.payload.clone(), Guard::Absent).await.is_ok() {
                    break;
                }
            }
        }
    }

    /// Whether the catalog neither wrote nor deleted an object under these keys.
    pub(crate) fn untouched(&self, writes: &[Write]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for Write { key, object } in writes.iter().filter(|write| self.0.borrow().contains(&write.key)) {
            match object {
                None => return Err(format!("{key} was deleted, which is not the catalog's")),
                Some(_) if !seen.insert(key) => {
                    return Err(format!("{key} was overwritten, which is not the catalog's"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether all of them that were there before are there now, as they were.
    pub(crate) fn all_in(&self, before: &BTreeMap<Key, Payload>, now: &BTreeMap<Key, Payload>) -> Result<(), String> {
        let lost = self.0.borrow().iter().find(|key| before.get(key) != now.get(key)).cloned();
        lost.map_or(Ok(()), |key| Err(format!("a last vacuum deleted or changed {key}, which is not the catalog's")))
    }

    /// The objects without the copies.
    pub(crate) fn removed_from(&self, objects: &BTreeMap<Key, Payload>) -> BTreeMap<Key, Payload> {
        let mut own = objects.clone();
        own.retain(|key, _| !self.0.borrow().contains(key));
        own
    }
}

/// A key that resembles this one and that no catalog writes; `None` if this disguise changes nothing.
fn resembling(key: &Key, how: u64) -> Option<Key> {
    let (folder, last) = key.as_str().rsplit_once('/')?;
    let last = match how % 8 {
        0 => format!("{last}.bak"),
        1 => format!("{last}-1"),
        2 => format!("{last}/copy"),
        3 => last.to_uppercase(),
        4 => last.get(..last.len() - 1).filter(|shorter| !shorter.is_empty())?.to_owned(),
        5 => format!("0{last}"),
        // Before and behind everything else in the folder.
        6 => format!("!{last}"),
        _ => format!("~{last}"),
    };
    Some(Key::new(&format!("{folder}/{last}"))).filter(|copy| copy != key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_resemble_and_differ() {
        let key = Key::new("catalog/versions/ffffffffffffff0a");
        let copies: BTreeSet<Key> = (0..8).filter_map(|how| resembling(&key, how)).collect();
        assert_eq!(copies.len(), 8);
        assert!(!copies.contains(&key) && copies.iter().all(|copy| copy.as_str().starts_with("catalog/versions/")));
        assert_eq!(resembling(&Key::new("catalog/versions/0000"), 3), None);
    }

    #[test]
    fn what_is_overwritten_or_deleted_is_noticed() {
        let key = Key::new("catalog/hint.bak");
        let copies = Copies(Rc::new(RefCell::new(BTreeSet::from([key.clone()]))));
        let write = |object: Option<&'static [u8]>| Write {
            key: key.clone(),
            object: object.map(|bytes| bytes::Bytes::from_static(bytes).into()),
        };
        assert_eq!(copies.untouched(&[write(Some(b"1"))]), Ok(()));
        assert!(copies.untouched(&[write(Some(b"1")), write(Some(b"2"))]).is_err());
        assert!(copies.untouched(&[write(Some(b"1")), write(None)]).is_err());
        let there = BTreeMap::from([(key.clone(), bytes::Bytes::from_static(b"1").into())]);
        assert_eq!(copies.all_in(&there, &there), Ok(()));
        assert!(copies.all_in(&there, &BTreeMap::new()).is_err());
        assert!(copies.removed_from(&there).is_empty());
    }
}
