use glidepath_env::{Guard, ObjectStore, Payload};
use glidepath_model::{Instant, Span};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use super::*;
use crate::conformance::run_all;

mod creators;
mod formats;
mod old;

const STORE: StoreId = StoreId(0);

/// Runs this in a simulated world without faults.
fn alone<F: Future<Output = ()> + 'static>(run: impl FnOnce(SimEnv) -> F + 'static) {
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(100_000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    assert_eq!(simulation.run([(Instant::ZERO, run)]).unfinished, 0, "it came to no end");
}

async fn create(env: &SimEnv, prefix: &str, protocol: Protocol) -> Outcome<AnySnapshot> {
    AnyCatalog::create(env.clone(), env.store(STORE), prefix, protocol, Creation::default()).await.1
}

#[test]
fn names_are_those_that_find_a_protocol() {
    for protocol in Protocol::ALL {
        assert_eq!(Protocol::named(protocol.name()), Some(*protocol));
    }
    assert_eq!(Protocol::named("scrolls"), None);
}

/// A catalog behaves the same through a handle of any protocol and through its own.
#[test]
fn a_catalog_of_any_protocol_does_what_a_catalog_must() {
    for &protocol in Protocol::ALL {
        alone(move |env| async move {
            let prefix = format!("{}/", protocol.name());
            assert!(matches!(create(&env, &prefix, protocol).await, Outcome::Committed(_)));
            let find = || AnyCatalog::find(env.clone(), env.store(STORE), &prefix);
            let (writer, reader) = (find().await.unwrap(), find().await.unwrap());
            assert_eq!(writer.protocol(), protocol);
            assert_eq!(run_all(&writer, &reader).await, [], "{}", protocol.name());
        });
    }
}

#[test]
fn a_place_takes_one_protocol_only() {
    for &first in Protocol::ALL {
        for &second in Protocol::ALL {
            alone(move |env| async move {
                assert!(matches!(create(&env, "", first).await, Outcome::Committed(_)));
                assert!(matches!(create(&env, "", second).await, Outcome::Conflict(_)), "{first:?} {second:?}");
                let found = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
                assert_eq!(found.protocol(), first);
                assert!(found.load().await.is_ok());
            });
        }
    }
}

async fn remove(env: &SimEnv, key: &str) {
    assert!(ObjectStore::delete(&env.store(STORE), &Key::new(key)).await.is_ok());
}

async fn relabel(env: &SimEnv, label: &'static str) {
    let label = Payload::from(bytes::Bytes::from_static(label.as_bytes()));
    assert!(env.store(STORE).put(&Key::new("protocol"), label, Guard::None).await.is_ok());
}

/// Its objects show its protocol, and no other catalog can be created.
#[test]
fn a_catalog_whose_label_is_lost_is_found_and_keeps_its_place() {
    for &kept in Protocol::ALL {
        alone(move |env| async move {
            assert!(matches!(create(&env, "", kept).await, Outcome::Committed(_)));
            remove(&env, "protocol").await;
            for &protocol in Protocol::ALL {
                let outcome = create(&env, "", protocol).await;
                assert!(matches!(outcome, Outcome::Conflict(_)), "{kept:?} {protocol:?}: {outcome:?}");
            }
            let found = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
            assert_eq!(found.protocol(), kept);
            assert!(found.load().await.is_ok());
            let store = env.store(STORE);
            for (mend, findings, mended) in [(false, 1, 0), (true, 1, 1), (false, 0, 0)] {
                let mut report = AnyCatalog::fsck_below(&env, &store, "", mend).await.unwrap();
                // Nothing was committed yet.
                report.findings.retain(|finding| finding.trouble != "no-segment");
                assert_eq!((report.findings.len(), report.mended.len()), (findings, mended), "{report:?}");
                assert!(!report.is_damaged());
            }
        });
    }
}

/// No other catalog is created beside it, and the error is not that there is none.
#[test]
fn a_catalog_whose_label_says_another_protocol_is_told_of() {
    for &kept in Protocol::ALL {
        for &said in Protocol::ALL.iter().filter(|said| **said != kept) {
            alone(move |env| async move {
                assert!(matches!(create(&env, "", kept).await, Outcome::Committed(_)));
                relabel(&env, Box::leak(format!("{}\n", said.name()).into_boxed_str())).await;
                for &protocol in Protocol::ALL {
                    let Outcome::Refused(denial) = create(&env, "", protocol).await else { panic!("{protocol:?}") };
                    assert!(denial.to_string().contains(kept.name()), "{denial}");
                }
                let found = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
                assert!(matches!(found.load().await, Err(LoadError::NotFound)));
                let why = AnyCatalog::<SimEnv>::why_not_found(&env.store(STORE), "").await.to_string();
                assert!(why.contains(kept.name()) && why.contains(said.name()), "{why}");
            });
        }
    }
}

/// No catalog is created over the remains of another.
#[test]
fn a_catalog_without_its_beginning_is_not_created_anew() {
    alone(|env| async move {
        assert!(matches!(create(&env, "", Protocol::AppendLog).await, Outcome::Committed(_)));
        let catalog = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
        let at = catalog.load().await.unwrap();
        let sales = Action::Create { name: Name::of_parts(["sales"]).unwrap(), entry: Entry::namespace() };
        assert!(matches!(
            catalog.attempt_group(&at, &[&[sales]]).await,
            GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. }
        ));
        remove(&env, "log/checkpoint/00000000000000000000").await;
        for _ in 0..2 {
            assert!(matches!(create(&env, "", Protocol::AppendLog).await, Outcome::Refused(_)));
            let why = AnyCatalog::<SimEnv>::why_not_found(&env.store(STORE), "").await;
            assert!(matches!(why, LoadError::Undecodable(_)), "{why}");
            remove(&env, "log/head").await;
        }
    });
}

/// A process that crashes between label and catalog leaves a prefix that only the same protocol may use.
#[test]
fn a_creation_that_died_is_made_again() {
    alone(|env| async move {
        assert!(label::put(&env, &env.store(STORE), "", Protocol::AppendLog).await.is_none());
        let found = AnyCatalog::find(env.clone(), env.store(STORE), "").await.unwrap();
        assert!(matches!(found.load().await, Err(LoadError::NotFound)));
        assert!(matches!(create(&env, "", Protocol::CatalogFile).await, Outcome::Conflict(None)));
        assert!(matches!(create(&env, "", Protocol::AppendLog).await, Outcome::Committed(_)));
    });
}

/// A newer version may have put it there.
#[test]
fn a_label_of_an_unknown_protocol_is_left_alone() {
    alone(|env| async move {
        let store = env.store(STORE);
        let key = glidepath_env::Key::new("protocol");
        let label = || glidepath_env::Payload::from(bytes::Bytes::from_static(b"scrolls\n"));
        let put = glidepath_env::ObjectStore::put(&store, &key, label(), glidepath_env::Guard::Absent).await;
        assert!(put.is_ok());
        let found = AnyCatalog::find(env.clone(), env.store(STORE), "").await;
        assert!(matches!(found, Err(LoadError::Undecodable(_))));
        for &protocol in Protocol::ALL {
            assert!(matches!(create(&env, "", protocol).await, Outcome::Refused(_)), "{protocol:?}");
        }
        let kept = glidepath_env::ObjectStore::get(&store, &key).await.unwrap();
        assert_eq!(kept.payload, label());
    });
}

#[test]
fn a_snapshot_of_another_protocol_is_not_read() {
    alone(|env| async move {
        assert!(matches!(create(&env, "a/", Protocol::CatalogFile).await, Outcome::Committed(_)));
        assert!(matches!(create(&env, "b/", Protocol::AppendLog).await, Outcome::Committed(_)));
        let [a, b] = ["a/", "b/"].map(|prefix| AnyCatalog::find(env.clone(), env.store(STORE), prefix));
        let (a, b) = (a.await.unwrap(), b.await.unwrap());
        let at = b.load().await.unwrap();
        assert!(a.children(&at, None, None, 1).await.is_err());
        assert!(matches!(a.commit(&at, &Changes::default()).await, Outcome::Refused(_)));
    });
}
