//! How is a table of transactions made and opened, so that nobody reads it in another encoding than it is written in?
//!
//! The bytes of a cell do not say which encoding wrote them. So the encoding is written down when a table is made, in a
//! table of its own: `glidepath_formats`, one row for each table, column `encoding`, a text such as `tickets 25000000
//! 16`. It is never changed. It is written after the table was made, so a table that is missing later was lost: nobody
//! makes it anew by opening it.
//!
//! A table belongs to one service: the column `service` has its name, which is written before the table is made.

use std::fmt;

use bytes::Bytes;
use glidepath_env::{Cause, Cell, ConditionError, Env, KvReadError, KvStore, ReadLevel, Table, WriteError};

use super::{Options, Transactions};
use crate::{Encoding, Original, Partitioning, PartitioningError, Staged, Tickets};
use glidepath_env::settling::{self, ROUNDS};

/// Why a table was not made or opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no table of transactions of this name.
    #[error("there is no table of transactions {0}: create it first")]
    NoTable(Table),
    /// The table is there, with another encoding.
    #[error(
        "table {table} is encoded as {found:?}, not as {wanted:?}: open it as it is, or create a table of another name"
    )]
    OtherEncoding {
        /// The table.
        table: Table,
        /// How it is written.
        found: String,
        /// How it was to be created.
        wanted: String,
    },
    /// The table belongs to another service, or to this program itself.
    #[error("table {table} belongs to {owner}: choose another name")]
    Taken {
        /// The table.
        table: Table,
        /// Whose it is.
        owner: String,
    },
    /// What is written down of the encoding is not known to this program.
    #[error("table {table} is encoded as {found:?}, which this program does not know ({why}): use a newer one")]
    UnknownEncoding {
        /// The table.
        table: Table,
        /// What is written down.
        found: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store does not answer, or refuses. To create the table again is safe.
    #[error("the store of table {table} failed: {cause}")]
    Store {
        /// The table.
        table: Table,
        /// Why.
        cause: Cause,
    },
}

/// Makes this table the service's, unless it is another's.
///
/// # Errors
/// [`OpenError`]
pub(crate) async fn claim<E: Env, K: KvStore>(
    env: &E,
    store: &K,
    table: &Table,
    service: &str,
) -> Result<(), OpenError> {
    let failed = |cause: Cause| OpenError::Store { table: table.clone(), cause };
    let taken = |owner: String| OpenError::Taken { table: table.clone(), owner };
    if crate::names::is_reserved(table) {
        return Err(taken("the program itself".to_owned()));
    }
    let formats = formats().ok_or_else(|| failed(Cause::words("the table of encodings has no name")))?;
    make(env, store, &formats).await.map_err(failed)?;
    let wanted = Bytes::copy_from_slice(service.as_bytes());
    let found = put(env, store, &formats, cell(table, "service"), &wanted).await.map_err(failed)?;
    match found == wanted {
        true => Ok(()),
        false => Err(taken(format!("the service {:?}", String::from_utf8_lossy(&found)))),
    }
}

/// The table of encodings. A name that [`Table::new`] takes.
fn formats() -> Option<Table> {
    Table::new("glidepath_formats")
}

impl<E: Env, K: KvStore> Transactions<E, K> {
    /// Makes a table of this encoding, or opens it if it is there. May be repeated, by anybody, at any time.
    ///
    /// # Errors
    /// [`OpenError`]
    pub async fn create(
        env: E,
        store: K,
        table: Table,
        encoding: Encoding,
        options: Options,
    ) -> Result<Self, OpenError> {
        let failed = |cause: Cause| OpenError::Store { table: table.clone(), cause };
        let formats = formats().ok_or_else(|| failed(Cause::words("the table of encodings has no name")))?;
        make(&env, &store, &formats).await.map_err(failed)?;
        make(&env, &store, &table).await.map_err(failed)?;
        let wanted = write(encoding);
        let found = put(&env, &store, &formats, cell(&table, "encoding"), &wanted).await.map_err(failed)?;
        if found != wanted {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            return Err(OpenError::OtherEncoding { found: text(&found), wanted: text(&wanted), table });
        }
        Ok(Self::new(env, store, table, encoding, options))
    }

    /// Opens a table that was made before, with the encoding that it was made with.
    ///
    /// # Errors
    /// [`OpenError`]
    pub async fn open(env: E, store: K, table: Table, options: Options) -> Result<Self, OpenError> {
        let failed = |cause: Cause| OpenError::Store { table: table.clone(), cause };
        let formats = formats().ok_or_else(|| failed(Cause::words("the table of encodings has no name")))?;
        let cells = [cell(&table, "encoding")];
        let mut cause = Cause::words("the store was not asked");
        for round in 0..ROUNDS {
            match store.get(&formats, &cells, ReadLevel::Linearizable).await {
                Ok(mut found) => {
                    let Some(found) = found.pop().flatten() else { return Err(OpenError::NoTable(table)) };
                    let text = String::from_utf8_lossy(&found).into_owned();
                    let encoding = parse_encoding(&text);
                    let encoding = encoding.map_err(|why| OpenError::UnknownEncoding {
                        table: table.clone(),
                        found: text,
                        why,
                    })?;
                    return Ok(Self::new(env, store, table, encoding, options));
                }
                Err(KvReadError::NoTable(_)) => return Err(OpenError::NoTable(table)),
                Err(KvReadError::Failed(why)) => cause = why,
            }
            settling::wait_after(&env, round).await;
        }
        Err(failed(cause))
    }
}

fn cell(table: &Table, column: &'static str) -> Cell {
    Cell { row: Bytes::copy_from_slice(table.as_str().as_bytes()), column: Bytes::from_static(column.as_bytes()) }
}

pub(crate) async fn make<E: Env, K: KvStore>(env: &E, store: &K, table: &Table) -> Result<(), Cause> {
    let mut cause = Cause::words("the store was not asked");
    for round in 0..ROUNDS {
        match store.create_table(table).await {
            Ok(()) => return Ok(()),
            Err(WriteError::Refused(denial)) if !denial.passing => return Err(denial.cause),
            Err(WriteError::Refused(denial)) => cause = denial.cause,
            Err(WriteError::Unknown(why)) => cause = why,
        }
        settling::wait_after(env, round).await;
    }
    Err(cause)
}

/// Writes a cell unless it is written, and answers what is.
async fn put<E: Env, K: KvStore>(
    env: &E,
    store: &K,
    formats: &Table,
    Cell { row, column }: Cell,
    wanted: &Bytes,
) -> Result<Bytes, Cause> {
    let columns = [(column, wanted.clone())];
    let mut cause = Cause::words("the store was not asked");
    for round in 0..ROUNDS {
        match store.put_unless_exists(formats, &row, &columns).await {
            Ok(()) => return Ok(wanted.clone()),
            Err(ConditionError::Lost { found }) => {
                let found = found.into_iter().next().map(|(_, value)| value);
                return found
                    .ok_or_else(|| Cause::words("the store says that the cell is written, and not what is in it"));
            }
            Err(ConditionError::Refused(denial)) if !denial.passing => return Err(denial.cause),
            Err(ConditionError::Refused(denial)) => cause = denial.cause,
            Err(ConditionError::Unknown(why)) => cause = why,
        }
        settling::wait_after(env, round).await;
    }
    Err(cause)
}

fn write(encoding: Encoding) -> Bytes {
    encoding.to_string().into()
}

impl fmt::Display for Encoding {
    /// As it is written down beside a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, Partitioning { quantum, rows }) = match self {
            Self::Original(_) => return f.write_str("original"),
            Self::Tickets(tickets) => ("tickets", tickets.partitioning()),
            Self::Staged(staged) => ("staged", staged.tickets().partitioning()),
        };
        write!(f, "{name} {quantum} {rows}")
    }
}

/// The encoding that this text says, as it is written down beside a table.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_encoding(text: &str) -> Result<Encoding, String> {
    let words: Vec<&str> = text.split(' ').collect();
    let partitioning = |quantum: &str, rows: &str| {
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no number"));
        Ok::<_, String>(Partitioning { quantum: number(quantum)?, rows: number(rows)? })
    };
    let words_of = |error: PartitioningError| error.to_string();
    let encoding = match words[..] {
        ["original"] => Encoding::Original(Original),
        ["tickets", quantum, rows] => Encoding::Tickets(Tickets::new(partitioning(quantum, rows)?).map_err(words_of)?),
        ["staged", quantum, rows] => Encoding::Staged(Staged::new(partitioning(quantum, rows)?).map_err(words_of)?),
        _ => return Err("it is none of original, tickets and staged".to_owned()),
    };
    match write(encoding) == text.as_bytes() {
        true => Ok(encoding),
        false => Err("it is not written as this program writes it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodings_come_back() {
        let partitioning = Partitioning { quantum: 100, rows: 5 };
        for encoding in [
            Encoding::Original(Original),
            Encoding::Tickets(Tickets::default()),
            Encoding::Tickets(Tickets::new(partitioning).unwrap()),
            Encoding::Staged(Staged::new(partitioning).unwrap()),
        ] {
            assert_eq!(parse_encoding(std::str::from_utf8(&write(encoding)).unwrap()), Ok(encoding));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_known_is_written_so(text in "(original|tickets|staged|x)?( ?[0-9+]{0,4}){0,3}") {
            if let Ok(encoding) = parse_encoding(&text) {
                prop_assert_eq!(write(encoding), text.as_bytes());
            }
        }
    }
}
