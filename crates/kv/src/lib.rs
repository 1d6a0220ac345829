//! How are real key-value stores accessed? Live stores of rows of columns, which implement [`glidepath_env::KvStore`].
//!
//! [`Embedded`] keeps the rows on the disk of this machine, [`Postgres`] in a server, [`Cassandra`] in a cluster of
//! Apache Cassandra. [`Memory`] is for tests.

#[cfg(feature = "cassandra")]
pub mod cassandra;
mod embedded;
mod memory;
mod open;
#[cfg(feature = "postgres")]
mod postgres;

#[cfg(feature = "cassandra")]
pub use cassandra::Cassandra;
pub use embedded::{Embedded, EmbeddedOptions, OpenError, is_folder_of_cells};
pub use memory::Memory;
pub use open::{
    AnyKv, OpenUrlError, folder, is_missing, is_scheme, open, open_without_requests, schema_of, shown,
    with_small_scheme,
};
#[cfg(feature = "postgres")]
pub use postgres::{AddressError, Postgres, PostgresOptions};
