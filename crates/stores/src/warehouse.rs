//! Warehouses: stores in which the key `a/b` is the file or object `a/b`, plainly, because other programs read and
//! write the same files. They name a file by the warehouse's location, a slash and the key, without any encoding.
//!
//! | URL | where objects are | location |
//! |---|---|---|
//! | `file:///lake` | the files below the directory: [`crate::plain`] | `file:///lake` |
//! | `s3://bucket/prefix`, `gs://bucket/prefix` | objects whose names are the prefix, a slash and the key | the URL without parameters |
//! | `az://container/prefix?account=name` | the same | `abfss://container@name.dfs.core.windows.net/prefix` |
//! | `memory:` | in this process, where no other program sees them | `memory://warehouse` |

use url::Url;

use crate::cloud::{CloudStore, address_of};
use crate::local::LocalStore;
use crate::memory::MemoryStore;
use crate::open::{OpenError, Options, is_rows, parse, wrong};
use crate::plain::PlainStore;
use crate::store::Store;

/// Characters besides letters and digits of ASCII that a location may have. All clients take them literally; others are
/// percent-encoded by some clients, decoded by others, or taken for patterns.
const PLAIN: &str = "-._~=+@";

/// Opens the warehouse that a URL names. Makes no request; a directory is created if it does not exist.
///
/// # Errors
/// [`OpenError`] says what is wrong with the URL, or with the directory, the credentials or the parameters it names.
pub fn open_plain(url: &str, options: &Options) -> Result<Store, OpenError> {
    // Also the check of the URL.
    base_location(url)?;
    let parsed = parse(url)?;
    match parsed.scheme() {
        "memory" => Ok(Store::Memory(MemoryStore::new())),
        "file" => PlainStore::open(&parsed).map(Store::Plain),
        _ => CloudStore::open(&parsed, options).map(Store::Cloud),
    }
}

/// The location of a warehouse as clients see it, without a slash at its end: the file of a key is at the location, a
/// slash, and the key.
///
/// # Errors
/// [`OpenError`] says what is wrong with the URL, or why clients could not find the files.
pub fn base_location(url: &str) -> Result<String, OpenError> {
    if is_rows(url) {
        let why = "a warehouse holds files that other programs read by their names, and a key-value store has none; \
                   keep the catalog there, and give the warehouse a URL of its own";
        return Err(OpenError::Warehouse { url: glidepath_kv::shown(url), why: why.to_owned() });
    }
    let parsed = parse(url)?;
    match parsed.scheme() {
        "memory" => Ok("memory://warehouse".to_owned()),
        "file" => directory_location(url, &parsed),
        "s3" | "az" | "gs" => cloud_location(&parsed),
        other => Err(wrong(url, format!("there is no kind of store {other:?}"))),
    }
}

fn directory_location(url: &str, parsed: &Url) -> Result<String, OpenError> {
    let (directory, _) = LocalStore::named(parsed)?;
    let mut location = "file://".to_owned();
    for part in directory.components() {
        if let std::path::Component::Normal(part) = part {
            location.push('/');
            location.push_str(&part.to_string_lossy());
        }
    }
    checked(url, location.strip_prefix("file://").unwrap_or_default())?;
    Ok(location)
}

fn cloud_location(parsed: &Url) -> Result<String, OpenError> {
    let address = address_of(parsed)?;
    let (bucket, prefix) = (&address.bucket, address.keys.full(""));
    let below = format!("{bucket}/{prefix}");
    let below = below.trim_end_matches('/');
    checked(&address.shown, below)?;
    if parsed.scheme() != "az" {
        return Ok(format!("{}://{below}", parsed.scheme()));
    }
    let Some(account) = &address.account else {
        let why = "its location for clients names the storage account: add ?account=NAME to the URL";
        return Err(OpenError::Warehouse { url: address.shown, why: why.to_owned() });
    };
    let path = format!("{account}.dfs.core.windows.net/{prefix}");
    Ok(format!("abfss://{bucket}@{}", path.trim_end_matches('/')))
}

/// Refuses a place that clients would read differently.
fn checked(url: &str, place: &str) -> Result<(), OpenError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '/' || PLAIN.contains(c);
    match place.chars().find(|c| !plain(*c)) {
        None => Ok(()),
        Some(other) => {
            let why = format!(
                "the name {place:?} has the character {other:?}, and clients disagree about how such characters are \
                 written in a location; use a name of letters and digits of ASCII and {PLAIN}"
            );
            Err(OpenError::Warehouse { url: url.to_owned(), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_what_clients_see() {
        for (url, location) in [
            ("file:///lake", "file:///lake"),
            ("file:///lake/of/ours/", "file:///lake/of/ours"),
            ("file://localhost/lake?durability=none", "file:///lake"),
            ("file:///a//b/../c", "file:///a/c"),
            ("file:///tmp/%61b", "file:///tmp/ab"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://bucket/a/b/?endpoint=http://127.0.0.1:7070&region=eu-west-1", "s3://bucket/a/b"),
            ("gs://bucket/a?endpoint=http://127.0.0.1:1", "gs://bucket/a"),
            ("az://container/a/b?account=ours", "abfss://container@ours.dfs.core.windows.net/a/b"),
            ("az://container?account=ours", "abfss://container@ours.dfs.core.windows.net"),
            ("memory:", "memory://warehouse"),
        ] {
            assert_eq!(base_location(url).unwrap(), location, "{url}");
        }
    }

    #[test]
    fn what_clients_could_not_find_is_no_warehouse() {
        for (url, part) in [
            ("file:///tmp/a%20b", "' '"),
            ("file:///tmp/%C3%A4", "'ä'"),
            ("file:///tmp/50%25", "'%'"),
            ("file:///tmp/a*", "'*'"),
            ("s3://bucket/a%20b?region=x", "' '"),
            ("az://container/a", "?account=NAME"),
            ("kv+file:///tmp/lake", "URL of its own"),
            ("kv+memory:", "URL of its own"),
            ("postgres://me:secret@host/database", "URL of its own"),
            ("cassandra://me:secret@host/space", "URL of its own"),
        ] {
            let error = open_plain(url, &Options::default()).unwrap_err();
            assert!(matches!(error, OpenError::Warehouse { .. }), "{url}: {error}");
            let words = error.to_string();
            assert!(words.contains(part) && words.contains("file:///directory"), "{url}: {words}");
            assert!(!words.contains("secret"), "{url}: {words}");
        }
        for url in ["lake", "file:lake", "file:///", "ftp://host/lake", "file:///lake?x=1", "s3://me:secret@bucket"] {
            let error = base_location(url).unwrap_err();
            assert!(matches!(error, OpenError::Url { .. }), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{url}: {error}");
        }
    }
}
