//! Programs may spawn commits on live stores. The traits do not require `Send`, but with live stores the futures are
//! `Send`; this does not compile if that changes.

use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::{Action, ByteSize, Changes};
use glidepath_protocols::Catalog;
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::group::{Committer, Group, Leader, RetryPolicy};
use glidepath_protocols::manifest_chain::{self, Grace, Layout, ManifestChain};
use glidepath_stores::{LiveEnv, Options, Store, open};

fn is_send<T: Send>(future: T) -> T {
    future
}

async fn catalog_file(env: LiveEnv, store: Store, changes: Changes) {
    let shared_state = Arc::new(catalog_file::SharedState::new(Key::new("catalog"), ByteSize::default()));
    let catalog = CatalogFile::new(env, store, shared_state);
    drop(is_send(catalog.create(Vec::new())).await);
    if let Ok(base) = is_send(catalog.load()).await {
        drop(is_send(catalog.commit(&base, &changes)).await);
    }
    let group = Group::default();
    let leader = Leader::new(env, catalog.clone(), &group, RetryPolicy::default()).expect("no other leader");
    tokio::spawn(leader.lead());
    let writer = Committer::grouped(env, catalog, group);
    drop(is_send(writer.commit(changes.actions())).await);
}

async fn append_log(env: LiveEnv, store: Store, changes: Changes) {
    let catalog = AppendLog::new(env, store, Arc::new(append_log::SharedState::new("log", Limits::default())));
    drop(is_send(catalog.create(Vec::new())).await);
    if let Ok(base) = is_send(catalog.load()).await {
        drop(is_send(catalog.commit(&base, &changes)).await);
    }
    drop(is_send(catalog.vacuum(2)).await);
    let group = Group::default();
    let leader = Leader::new(env, catalog.clone(), &group, RetryPolicy::default()).expect("no other leader");
    tokio::spawn(leader.lead());
    let writer = Committer::grouped(env, catalog, group);
    drop(is_send(writer.commit(changes.actions())).await);
}

async fn manifest_chain(env: LiveEnv, store: Store, changes: Changes) {
    let catalog = ManifestChain::new(env, store, Arc::new(manifest_chain::SharedState::new("chain/", 1 << 20)));
    let actions: [Action; 0] = [];
    drop(is_send(catalog.create(Layout::Whole, true)).await);
    if let Ok(base) = is_send(catalog.load()).await {
        drop(is_send(catalog.commit(&base, &changes)).await);
        drop(is_send(catalog.attempt(&base, &[&actions])).await);
        drop(is_send(catalog.all(&base, None, 10)).await);
        drop(is_send(catalog.changed(None, &base, 10)).await);
    }
    drop(is_send(catalog.vacuum(Grace { versions: 2, age: Grace::SHORTEST })).await);
    drop(is_send(catalog.fsck()).await);
    let group = Group::default();
    let leader = Leader::new(env, catalog.clone(), &group, RetryPolicy::default()).expect("no other leader");
    tokio::spawn(leader.lead());
    let writer = Committer::grouped(env, catalog, group);
    drop(is_send(writer.commit(actions.to_vec())).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_spawn_its_commits() {
    let (env, store) = (LiveEnv::new(), open("memory:///", &Options::default()).expect("a store in memory"));
    let tasks = [
        tokio::spawn(catalog_file(env, store.clone(), Changes::default())),
        tokio::spawn(append_log(env, store.clone(), Changes::default())),
        tokio::spawn(manifest_chain(env, store, Changes::default())),
    ];
    for task in tasks {
        task.await.expect("it ends");
    }
}
