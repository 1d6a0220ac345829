//! How are rows of columns kept? Live stores behind [`glidepath_env::KvStore`].
//!
//! [`Memory`] is for tests and for trying things out.

mod memory;

pub use memory::Memory;
