//! Old versions: each is found with few reads, however long the log is, and beside a checkpoint that cannot be read.

use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_model::Version;

use super::super::{AppendLog, Snapshot};
use super::cases::{alone, catalog, commit, shared_state};
use super::counting::{CountingEnv, CountingStore};
use super::world::STORE;

#[test]
fn an_old_version_takes_few_reads() {
    alone(&[catalog()], async |env| {
        let store = CountingStore::new(env.store(STORE));
        let open = || AppendLog::new(CountingEnv(env.clone()), store.clone(), shared_state(3));
        let writer = open();
        let mut versions = Vec::new();
        for metadata in 1..=96 {
            versions.push(commit(&writer, metadata).await);
        }
        let damaged = Key::new("catalog/checkpoint/00000000000000000010");
        for damage in [false, true] {
            if damage {
                let payload = Payload::from(bytes::Bytes::from_static(b"not a checkpoint"));
                store.put(&damaged, payload, Guard::None).await.unwrap();
            }
            for at in &versions {
                store.taken();
                let found = open().version_at(at.version()).await.unwrap().expect("it is kept");
                assert_eq!((found.version(), found.root()), (at.version(), at.root()));
                let requests = store.taken();
                let count = |kind: &str| requests.iter().filter(|request| *request == kind).count();
                // 33 checkpoints; one more if the search, or the way to the version, meets the damaged one.
                assert!(count("get checkpoint") <= 7, "{:?}: {requests:?}", at.version());
                assert!(count("get log") <= 2, "{:?}: {requests:?}", at.version());
            }
        }
        // Who goes back version by version reads each segment once.
        let (reader, mut reads) = (open(), 0);
        for at in versions.iter().rev() {
            store.taken();
            let found = reader.version_at(at.version()).await.unwrap().expect("it is kept");
            assert_eq!((found.version(), found.root()), (at.version(), at.root()));
            reads += store.taken().iter().filter(|request| *request == "get log").count();
        }
        assert!(reads <= 2 * 33, "{reads} reads of 33 segments");
        let later = Version(versions.last().map_or(0, |at: &Snapshot| at.version().0) + 1);
        assert!(open().version_at(later).await.unwrap().is_none());
    });
}
