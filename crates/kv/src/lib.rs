//! How are rows of columns kept? Live stores behind [`glidepath_env::KvStore`].
//!
//! [`Memory`] is for tests and for trying things out. [`Embedded`] keeps them on this machine's disk.

mod embedded;
mod memory;

pub use embedded::{Embedded, EmbeddedOptions, OpenError};
pub use memory::Memory;
