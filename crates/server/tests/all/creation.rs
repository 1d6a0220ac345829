//! Servers that find no catalog, and create one.

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

/// The first server wrote the label of the catalog, and died.
#[tokio::test]
async fn a_catalog_that_was_not_created_to_the_end_is_created() {
    let (first, config) = local();
    drop(Server::start(config).await.unwrap());
    let (second, config) = local();
    // Only the label is looked at: a store that is closed removes other files and folders of its own for a while.
    let objects = second.path().join("catalog/objects");
    std::fs::create_dir_all(&objects).unwrap();
    let label = "protocol%o";
    std::fs::copy(first.path().join("catalog/objects").join(label), objects.join(label)).unwrap();
    // What the label says counts, not what this server would create.
    let server = Server::start(Config { protocol: Some(Protocol::Tickets), ..config }).await.unwrap();
    assert_eq!(server.protocol(), Protocol::ManifestChain);
    assert!(server.is_new());
}
