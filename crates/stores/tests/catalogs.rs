//! Every protocol keeps the rules for names on live stores: the suite that the simulated store passes, in memory and on
//! local disk.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::ByteSize;
use glidepath_protocols::Outcome;
use glidepath_protocols::append_log::{self, AppendLog, Limits};
use glidepath_protocols::catalog_file::{self, CatalogFile};
use glidepath_protocols::conformance::run_all;
use glidepath_protocols::manifest_chain::{self, Layout, ManifestChain};
use glidepath_stores::{LiveEnv, Options, Store, open};

fn file(store: &Store) -> CatalogFile<LiveEnv> {
    let shared_state = catalog_file::SharedState::new(Key::new("file/catalog"), ByteSize::default());
    CatalogFile::new(LiveEnv::new(), store.clone(), Arc::new(shared_state))
}

fn log(store: &Store) -> AppendLog<LiveEnv> {
    let shared_state = append_log::SharedState::new("log", Limits { records: 10, ..Limits::default() });
    AppendLog::new(LiveEnv::new(), store.clone(), Arc::new(shared_state))
}

fn chain(store: &Store, layout: Layout) -> ManifestChain<LiveEnv> {
    let shared_state = manifest_chain::SharedState::new(&format!("{}/", layout.name()), 1 << 20);
    ManifestChain::new(LiveEnv::new(), store.clone(), Arc::new(shared_state))
}

async fn every_protocol_holds_names(store: Store) {
    let created = |created: bool| assert!(created, "a catalog was not created");
    created(matches!(file(&store).create(Vec::new()).await, Outcome::Committed(_)));
    assert_eq!(run_all(&file(&store), &file(&store)).await, [], "catalog file");
    created(matches!(log(&store).create(Vec::new()).await, Outcome::Committed(_)));
    assert_eq!(run_all(&log(&store), &log(&store)).await, [], "append log");
    for layout in Layout::ALL {
        created(matches!(chain(&store, layout).create(layout, true).await, Outcome::Committed(_)));
        let broken = run_all(&chain(&store, layout), &chain(&store, layout)).await;
        assert_eq!(broken, [], "manifest chain, {}", layout.name());
    }
}

#[tokio::test]
async fn in_memory() {
    every_protocol_holds_names(open("memory:", &Options::default()).unwrap()).await;
}

#[tokio::test]
async fn on_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().display());
    every_protocol_holds_names(open(&url, &Options::default()).unwrap()).await;
}
