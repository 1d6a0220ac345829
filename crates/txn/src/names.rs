//! In which tables of a store does a service keep what it knows?
//!
//! | table | what is in it |
//! |---|---|
//! | `glidepath_services` | the map of each service: which table a start timestamp is in |
//! | `glidepath_formats` | the encoding of each table of transactions, and the service that it belongs to |
//! | `glidepath_objects` | the objects of a catalog (`glidepath_stores::rows`): no transactions |
//! | `NAME_timestamps` | the bound of the timestamps of the service `NAME` |
//! | `NAME_original`, `NAME_tickets`, `NAME_staged` | its transactions, unless another name is given |

use glidepath_env::Table;

use crate::Encoding;

/// The longest name of a service, so that the names of its tables are names of tables.
pub const LONGEST: usize = 32;

/// Whether a service may have this name: letters, digits and `_`, first a letter or `_`, at most [`LONGEST`].
#[must_use]
pub fn is_service(name: &str) -> bool {
    name.len() <= LONGEST && Table::new(name).is_some()
}

/// The table of the timestamps of this service; `None` if it is no name of a service.
#[must_use]
pub fn timestamps(service: &str) -> Option<Table> {
    named(service, "timestamps")
}

/// The table of its transactions in this encoding, unless another is chosen; `None` if it is no name of a service.
#[must_use]
pub fn transactions(service: &str, encoding: Encoding) -> Option<Table> {
    named(
        service,
        match encoding {
            Encoding::Original(_) => "original",
            Encoding::Tickets(_) => "tickets",
            Encoding::Staged(_) => "staged",
        },
    )
}

/// Whether this table holds something else than transactions, of any service.
pub(crate) fn is_reserved(table: &Table) -> bool {
    let name = table.as_str();
    ["glidepath_services", "glidepath_formats", "glidepath_objects"].contains(&name) || name.ends_with("_timestamps")
}

fn named(service: &str, what: &str) -> Option<Table> {
    is_service(service).then(|| Table::new(&format!("{service}_{what}"))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Original, Tickets};

    #[test]
    fn a_name_of_a_service_gives_names_of_tables() {
        let longest = "x".repeat(LONGEST);
        for service in ["main", "_1", &longest] {
            let table = timestamps(service).unwrap();
            assert_eq!(table.as_str(), format!("{service}_timestamps"));
            assert!(transactions(service, Encoding::Original(Original)).is_some());
            assert!(transactions(service, Encoding::Tickets(Tickets::default())).is_some());
        }
        for service in ["", "1x", "a-b", &"x".repeat(LONGEST + 1)] {
            assert!(timestamps(service).is_none(), "{service:?}");
        }
    }
}
