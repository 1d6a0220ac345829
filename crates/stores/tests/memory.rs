//! The store in memory keeps the contract.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use glidepath_env::Key;
use glidepath_env::conformance::run_all;
use glidepath_stores::memory::MemoryStore;
use support::none;

#[tokio::test]
async fn keeps_the_contract() {
    let store = MemoryStore::new();
    none(&run_all(&[store], &Key::new("scratch")).await);
}
