//! How are rows of columns kept? Live stores behind [`glidepath_env::KvStore`].
//!
//! [`Memory`] is for tests and for trying things out. [`Embedded`] keeps them on this machine's disk, [`Postgres`] in a server.

mod embedded;
mod memory;
mod postgres;

pub use embedded::{Embedded, EmbeddedOptions, OpenError};
pub use memory::Memory;
pub use postgres::{AddressError, Postgres, PostgresOptions};
