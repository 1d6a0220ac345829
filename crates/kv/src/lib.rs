//! Live stores of rows of columns: they implement [`glidepath_env::KvStore`].
//!
//! [`Embedded`] keeps the rows on the disk of this machine, [`Postgres`] in a server, [`Cassandra`] in a cluster of Apache Cassandra.
//! [`Memory`] is for tests.

pub mod cassandra;
mod embedded;
mod memory;
mod postgres;

pub use cassandra::Cassandra;
pub use embedded::{Embedded, EmbeddedOptions, OpenError};
pub use memory::Memory;
pub use postgres::{AddressError, Postgres, PostgresOptions};
