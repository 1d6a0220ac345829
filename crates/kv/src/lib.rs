//! How are rows of columns kept? Live stores behind [`glidepath_env::KvStore`].
//!
//! [`Memory`] is for tests and for trying things out. [`Cassandra`] is a cluster of Apache Cassandra.

pub mod cassandra;
mod memory;

pub use cassandra::Cassandra;
pub use memory::Memory;
