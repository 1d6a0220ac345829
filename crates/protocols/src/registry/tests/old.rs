//! Old versions, what changed between them, vacuums, and checks: of every protocol.

use super::*;
use crate::manifest_chain::Grace;
use crate::mutant::{self, Mutant};

/// A handle with limits so small that a few commits reach them.
fn open(env: &SimEnv, protocol: Protocol) -> AnyCatalog<SimEnv> {
    open_tiny(env, protocol, 1)
}

/// With other limits.
fn open_tiny(env: &SimEnv, protocol: Protocol, number: u32) -> AnyCatalog<SimEnv> {
    protocol
        .shared_state("", &Settings { test_limits: Some(number), ..Settings::default() })
        .open(env.clone(), env.store(STORE))
}

async fn sleep(env: &SimEnv, seconds: u64) {
    env.sleep_until(env.now() + Span::from_secs(seconds)).await;
}

async fn all(catalog: &AnyCatalog<SimEnv>, at: &AnySnapshot) -> Vec<(Name, Entry)> {
    catalog.children(at, None, None, 1000).await.unwrap()
}

/// Makes commits, a minute between them; returns each version with its entries, oldest first.
async fn grown(env: &SimEnv, catalog: &AnyCatalog<SimEnv>) -> Vec<(Version, Vec<(Name, Entry)>)> {
    assert!(matches!(catalog.create_here(Creation::default()).await, Outcome::Committed(_)));
    let mut versions = Vec::new();
    for number in 0..30 {
        let at = catalog.load().await.unwrap();
        versions.push((catalog.version(&at).unwrap_or_default(), all(catalog, &at).await));
        let name = Name::of_parts([&*format!("n{number:02}")]).unwrap();
        let action = Action::Create { name, entry: Entry::namespace() };
        let attempt = catalog.attempt_group(&at, &[&[action]]).await;
        let committed = matches!(attempt, GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. });
        assert!(committed, "{attempt:?}");
        sleep(env, 60).await;
    }
    let at = catalog.load().await.unwrap();
    versions.push((catalog.version(&at).unwrap_or_default(), all(catalog, &at).await));
    versions
}

#[test]
fn old_versions_are_what_they_were() {
    for &protocol in Protocol::ALL.iter().filter(|protocol| protocol.features().keeps_old) {
        alone(move |env| async move {
            let versions = grown(&env, &open(&env, protocol)).await;
            let reader = open(&env, protocol);
            let newest = reader.load().await.unwrap();
            assert_eq!(reader.oldest(&newest).await.unwrap(), versions[0].0, "{protocol:?}");
            let mut before = None;
            for (version, entries) in &versions {
                let at = reader.version_at(*version).await.unwrap().expect("it is kept");
                assert_eq!(reader.version(&at), Some(*version), "{protocol:?}");
                assert_eq!(all(&reader, &at).await, *entries, "{protocol:?}: {version:?}");
                if let Some(before) = before {
                    let changed = reader.changed(&before, &at, 9).await.unwrap();
                    let [changed] = &changed[..] else { panic!("{protocol:?}: {changed:?}") };
                    assert_eq!(Some(&changed.name), entries.last().map(|(name, _)| name), "{protocol:?}");
                    assert_eq!((&changed.before, &changed.now), (&None, &Some(Entry::namespace())), "{protocol:?}");
                }
                before = Some(at);
            }
            let later = Version(versions.last().unwrap().0.0 + 1);
            assert!(reader.version_at(later).await.unwrap().is_none(), "{protocol:?}");
        });
    }
}

#[test]
fn a_vacuum_keeps_the_versions_that_it_must() {
    for &protocol in Protocol::ALL.iter().filter(|protocol| protocol.features().keeps_old) {
        alone(move |env| async move {
            let writer = open(&env, protocol);
            let versions = grown(&env, &writer).await;
            sleep(&env, 7200).await;
            let removed = writer.vacuum(Keep { versions: 12, age: Some(Grace::LEAST.age) }).await.unwrap();
            let reader = open(&env, protocol);
            let newest = reader.load().await.unwrap();
            let (oldest, last) = (reader.oldest(&newest).await.unwrap(), versions.last().unwrap().0);
            // The vacuum of a manifest chain is a commit.
            assert_eq!((removed.oldest, Some(removed.newest)), (oldest, reader.version(&newest)), "{protocol:?}");
            assert!(oldest > versions[0].0 && oldest.0 + 12 <= last.0, "{protocol:?}: {removed:?}");
            for (version, entries) in &versions {
                match reader.version_at(*version).await.unwrap() {
                    Some(at) => assert_eq!(all(&reader, &at).await, *entries, "{protocol:?}: {version:?}"),
                    None => assert!(*version < oldest, "{protocol:?}: {version:?} of {removed:?}"),
                }
            }
        });
    }
}

/// The versions of which all entries can be read.
async fn readable(catalog: &AnyCatalog<SimEnv>, newest: Version) -> Vec<Version> {
    let mut readable = Vec::new();
    for number in 0..=newest.0 {
        let Ok(Some(at)) = catalog.version_at(Version(number)).await else { continue };
        if catalog.children(&at, None, None, 1000).await.is_ok() {
            readable.push(Version(number));
        }
    }
    readable
}

#[test]
fn a_vacuum_beside_damage_leaves_what_can_be_read() {
    vacuum_beside_damage();
}

#[test]
#[should_panic(expected = "ManifestChain")]
fn a_vacuum_that_does_not_look_at_the_newest_version_is_caught() {
    mutant::with(Mutant::NewestUnread, vacuum_beside_damage);
}

/// If the newest version cannot be read, a vacuum takes away none of those that can.
fn vacuum_beside_damage() {
    for &protocol in Protocol::ALL.iter().filter(|protocol| protocol.features().keeps_old) {
        alone(move |env| async move {
            // Its pages are in packs.
            let open = || open_tiny(&env, protocol, 0);
            let versions = grown(&env, &open()).await;
            let newest = versions.last().unwrap().0;
            let store = env.store(STORE);
            let everything = store.list(&Key::new(""), None, 1000).await.unwrap().objects;
            let (mut objects, mut unreadable) = (Vec::new(), 0);
            for listed in &everything {
                objects.push((listed.key.clone(), store.get(&listed.key).await.unwrap().payload));
            }
            for (key, payload) in &objects {
                let mut changed = payload.bytes.to_vec();
                let middle = changed.len() / 2;
                changed[middle] ^= 1;
                store.put(key, Payload::from(bytes::Bytes::from(changed)), Guard::None).await.unwrap();
                let before = readable(&open(), newest).await;
                if !before.contains(&newest) {
                    // What was put back below is young.
                    sleep(&env, 7200).await;
                    let _ = open().vacuum(Keep { versions: 3, age: Some(Grace::LEAST.age) }).await;
                    assert_eq!(readable(&open(), newest).await, before, "{protocol:?}: {key}");
                    unreadable += 1;
                }
                let now = store.list(&Key::new(""), None, 1000).await.unwrap().objects;
                for listed in now {
                    store.delete(&listed.key).await.unwrap();
                }
                for (key, payload) in &objects {
                    store.put(key, payload.clone(), Guard::None).await.unwrap();
                }
            }
            // The newest segment of a log may have no record yet, and its checkpoint is not needed.
            let least = if protocol == Protocol::ManifestChain { 2 } else { 0 };
            assert!(unreadable >= least, "{protocol:?}: {unreadable} of {}", objects.len());
        });
    }
}

/// Of the objects in which a byte is changed, at least the one with the newest entries is told of.
#[test]
fn a_check_finds_a_changed_byte() {
    for &protocol in Protocol::ALL {
        alone(move |env| async move {
            grown(&env, &open(&env, protocol)).await;
            let store = env.store(STORE);
            let clean = open(&env, protocol).fsck(false).await.unwrap();
            assert!(!clean.is_damaged(), "{protocol:?}: {:?}", clean.findings);
            let page = store.list(&Key::new(""), None, 1000).await.unwrap();
            let mut found = 0;
            for listed in &page.objects {
                let bytes = store.get(&listed.key).await.unwrap().payload.bytes;
                let mut changed = bytes.to_vec();
                let middle = changed.len() / 2;
                changed[middle] ^= 1;
                let changed = Payload::from(bytes::Bytes::from(changed));
                assert!(store.put(&listed.key, changed, Guard::None).await.is_ok());
                found += u32::from(open(&env, protocol).fsck(false).await.is_ok_and(|report| report.is_damaged()));
                assert!(store.put(&listed.key, Payload::from(bytes), Guard::None).await.is_ok());
            }
            assert!(found > 0, "{protocol:?}: {} objects", page.objects.len());
        });
    }
}
