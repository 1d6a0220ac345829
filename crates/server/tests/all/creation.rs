//! Servers that find no catalog, and create one.

use std::path::{Path, PathBuf};

use glidepath_protocols::registry::Protocol;
use glidepath_server::{Config, Server};

use crate::support::local;

/// How many servers start at once, and how often.
const SERVERS: usize = 4;
const TIMES: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_that_start_at_once_serve_one_catalog() {
    for _ in 0..TIMES {
        let (_folder, config) = local();
        let mut starting = tokio::task::JoinSet::new();
        for _ in 0..SERVERS {
            let (config, runtime) = (config.clone(), tokio::runtime::Handle::current());
            starting.spawn_blocking(move || runtime.block_on(Server::start(config)));
        }
        while let Some(started) = starting.join_next().await {
            started.unwrap().unwrap();
        }
    }
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The first server wrote the label of the catalog, and died.
#[tokio::test]
async fn a_catalog_that_was_not_created_to_the_end_is_created() {
    let (folder, config) = local();
    drop(Server::start(config.clone()).await.unwrap());
    let all = files(folder.path());
    let label = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("protocol"));
    assert_eq!(all.iter().filter(|path| label(path)).count(), 1, "{all:?}");
    for path in all.iter().filter(|path| !label(path)) {
        std::fs::remove_file(path).unwrap();
    }
    // What the label says counts, not what this server would create.
    let second = Server::start(Config { protocol: Some(Protocol::Tickets), ..config }).await.unwrap();
    assert_eq!(second.protocol(), Protocol::ManifestChain);
    assert!(second.is_new());
}
