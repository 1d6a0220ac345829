//! Are the objects of the catalog and the files of tables apart?
//!
//! Clients name locations in the warehouse, and with short-lived credentials they write there; if the catalog is there
//! too, a table can be put over it. And a warehouse in the folders of the catalog has files that the store takes for
//! its own.

use glidepath_protocols::registry::Protocol;
use glidepath_stores::base_location;

use crate::start::StartError;

/// What a store on local disk keeps in its directory.
const ON_DISK: [&str; 3] = ["objects", "locks", "writers"];

/// Refuses a warehouse at this location for the catalog in the store of this URL if one is in the other's folders.
pub(crate) fn check(base: &str, catalog: &str) -> Result<(), StartError> {
    let wrong = |why: String| Err(StartError::Places(why));
    let cells = catalog.len() > 3 && catalog.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("kv+"));
    let url = if cells { &catalog[3..] } else { catalog };
    // Servers keep these objects apart in any case; other stores without a location for clients are elsewhere.
    let place = match base_location(url) {
        Ok(place) if !place.starts_with("memory:") => place,
        _ => return Ok(()),
    };
    if rest(&place, base).is_some() {
        return wrong(format!(
            "the catalog is in the warehouse {base}, so a table could be put over it; give the warehouse a folder of its own \
             (--warehouse), such as {place}/tables"
        ));
    }
    let Some(within) = rest(base, &place) else { return Ok(()) };
    let first = within.split('/').next().unwrap_or_default();
    let is_own = match place.starts_with("file:") {
        true => ON_DISK.contains(&first),
        false => first == "protocol" || Protocol::own_folders().any(|own| own == first),
    };
    if cells {
        return wrong(format!(
            "the warehouse {base} is in the folder {place} of the catalog, where no other files may be; give it a folder beside \
             that (--warehouse)"
        ));
    }
    match is_own {
        true => wrong(format!(
            "the warehouse {base} is in a folder in which the catalog keeps its own objects; give it another one (--warehouse), \
             such as {place}/tables"
        )),
        false => Ok(()),
    }
}

/// What a location has behind a folder; `None` if it is not in it.
fn rest<'a>(location: &'a str, folder: &str) -> Option<&'a str> {
    let rest = location.strip_prefix(folder.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_and_a_warehouse_that_meet_are_refused() {
        for (catalog, base, words) in [
            ("s3://b/lake?region=eu-west-1", "s3://b/lake", "catalog is in the warehouse"),
            ("s3://b/lake/catalog", "s3://b/lake", "catalog is in the warehouse"),
            ("s3://b/lake", "s3://b", "catalog is in the warehouse"),
            ("file:///lake/catalog", "file:///lake", "catalog is in the warehouse"),
            ("kv+file:///lake/catalog", "file:///lake", "catalog is in the warehouse"),
            ("kv+file:///lake", "file:///lake/tables", "no other files may be"),
            ("KV+file:///lake", "file:///lake/data", "no other files may be"),
            ("file:///lake", "file:///lake/objects/x", "its own objects"),
            ("file:///lake?durability=none", "file:///lake/locks", "its own objects"),
            ("s3://b/lake", "s3://b/lake/tickets/x", "its own objects"),
        ] {
            let error = check(base, catalog).unwrap_err().to_string();
            assert!(error.contains(words), "{catalog} {base}: {error}");
        }
    }

    #[test]
    fn those_that_are_apart_are_not() {
        for (catalog, base) in [
            ("s3://b/lake", "s3://b/lake/tables"),
            ("s3://b/lake2", "s3://b/lake"),
            ("s3://b/lake", "s3://b/lake/objects"),
            ("file:///lake", "file:///lake/tables"),
            ("file:///lake", "file:///lake/versions"),
            ("file:///lake/catalog", "file:///lake/tables"),
            ("memory:", "memory://warehouse"),
            ("postgres://me@host/lake", "s3://b/lake"),
            ("kv+file:///lake", "s3://b"),
            ("kv+file:///lake", "file:///lake2"),
        ] {
            check(base, catalog).unwrap();
        }
    }
}
