//! What the tests on Cassandra have in common: the nodes that `scripts/servers` or `scripts/cassandra` started.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "only tests use it, and may fail")]

pub mod proxy;

use std::time::{SystemTime, UNIX_EPOCH};

use glidepath_env::conformance::Violation;
use glidepath_kv::Cassandra;
use glidepath_kv::cassandra::Options;

/// What a variable says, or nothing where it is not set and need not be.
pub fn given(variable: &str) -> Option<String> {
    match std::env::var(variable) {
        Ok(value) if value == "missing" => {
            eprintln!("skipped: Cassandra needs Java 17 and Maven, which `scripts/servers` did not find");
            None
        }
        Ok(value) => Some(value),
        Err(_) if std::env::var("GLIDEPATH_SERVERS").is_ok_and(|value| value == "required") => {
            panic!("{variable} is not set: run the tests by `scripts/servers exec cargo test -p glidepath-kv`")
        }
        Err(_) => {
            eprintln!("skipped: {variable} is not set; `scripts/servers exec cargo test -p glidepath-kv` runs this");
            None
        }
    }
}

/// A keyspace that nobody else uses.
pub fn fresh(name: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "a name that no earlier run took")]
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    format!("{name}_{nanos}_{}", std::process::id())
}

pub async fn open(hosts: &str, keyspace: &str, options: &Options) -> Cassandra {
    let hosts: Vec<&str> = hosts.split(',').collect();
    Cassandra::open(&hosts, keyspace, options).await.unwrap()
}

/// Fails with every violation there is.
pub fn none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "the contract is broken:\n{}", lines.join("\n"));
}
