//! Readers that share loads: how many requests are made, and who answers.

use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::tests::counted::{World, at_once};

type CountingChain = ManifestChain<World>;
type Load<'a> = Pin<Box<dyn Future<Output = bool> + 'a>>;

/// A catalog that counts its requests, and the number of requests of one load.
fn catalog() -> (World, CountingChain, u64) {
    let world = World::default();
    let chain = world.chain(SharedState::new("", 1 << 20));
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    assert!(at_once(chain.load()).is_ok());
    world.counted();
    assert!(at_once(chain.load()).is_ok());
    let counts = world.counted();
    (world, chain, counts.gets + counts.lists)
}

fn readers<'a>(count: usize, loads: &'a Loads<CountingChain>, catalog: &'a CountingChain) -> Vec<Load<'a>> {
    let reader = |_| -> Load<'a> { Box::pin(async { loads.load(catalog).await.is_ok() }) };
    (0..count).map(reader).collect()
}

/// The readers without an answer yet.
fn polled(mut readers: Vec<Load<'_>>) -> Vec<Load<'_>> {
    let mut context = Context::from_waker(Waker::noop());
    readers.retain_mut(|reader| match reader.as_mut().poll(&mut context) {
        Poll::Ready(loaded) => {
            assert!(loaded);
            false
        }
        Poll::Pending => true,
    });
    readers
}

#[test]
fn those_who_ask_at_the_same_time_share_one_load() {
    let (world, catalog, requests) = catalog();
    let loads = Loads::new();
    let loader = Loader::new(catalog.clone(), &loads).unwrap();
    assert!(Loader::new(catalog.clone(), &loads).is_err(), "there already is one");
    let mut waiting = polled(readers(100, &loads, &catalog));
    assert_eq!(waiting.len(), 100);
    // One reader is dropped.
    waiting.pop();
    let mut serve = pin!(loader.serve());
    let mut context = Context::from_waker(Waker::noop());
    assert!(serve.as_mut().poll(&mut context).is_pending());
    assert_eq!(polled(waiting).len(), 0);
    let counts = world.counted();
    assert_eq!(counts.gets + counts.lists, requests);
}

#[test]
fn without_a_loader_each_loads_by_itself() {
    let (world, catalog, requests) = catalog();
    let loads = Loads::new();
    assert_eq!(polled(readers(3, &loads, &catalog)).len(), 0);
    // The loader is dropped before it has served the waiting readers.
    let loader = Loader::new(catalog.clone(), &loads).unwrap();
    let waiting = polled(readers(4, &loads, &catalog));
    drop(loader);
    assert_eq!(polled(waiting).len(), 0);
    let counts = world.counted();
    assert_eq!(counts.gets + counts.lists, 7 * requests);
}

#[test]
fn a_loader_ends_when_nobody_is_left_who_could_ask() {
    let (_, catalog, _) = catalog();
    let loads = Loads::new();
    let mut serve = pin!(Loader::new(catalog.clone(), &loads).unwrap().serve());
    let mut context = Context::from_waker(Waker::noop());
    let other = loads.clone();
    drop(loads);
    assert!(serve.as_mut().poll(&mut context).is_pending());
    drop(other);
    assert!(serve.as_mut().poll(&mut context).is_ready());
}
