//! The store in memory keeps the contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_env::Table;
use glidepath_env::conformance::kv::run_all;
use glidepath_kv::Memory;

#[tokio::test]
async fn memory_conforms() {
    let memory = Memory::default();
    let violations = run_all(&[memory.clone(), memory], &Table::new("scratch").unwrap()).await;
    assert!(violations.is_empty(), "{violations:#?}");
}
