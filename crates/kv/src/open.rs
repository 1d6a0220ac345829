//! Opens a store by its URL.
//!
//! | URL | store |
//! |---|---|
//! | `kv+file:///directory` | the disk of this machine, for one process at a time; the folder is made if there is none |
//! | `postgres://user:password@host:port/database?schema=name` | a PostgreSQL server (feature `postgres`) |
//! | `cassandra://user:password@host:port,host:port/keyspace?copies=3` | a cluster of Apache Cassandra (feature `cassandra`) |
//! | `kv+memory:` | the memory of this process |
//!
//! A URL may hold a password, so no message repeats one.

use std::borrow::Cow;
use std::path::PathBuf;

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice, Table,
    WriteError,
};
use url::Url;

#[cfg(feature = "cassandra")]
use crate::Cassandra;
#[cfg(feature = "postgres")]
use crate::Postgres;
use crate::{Embedded, EmbeddedOptions, Memory, OpenError};

const ALLOWED: &str = "kv+file:///directory, postgres://user@host:port/database, \
                       cassandra://host:port/keyspace, kv+memory:";

/// Why no store was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenUrlError {
    /// The text is not the URL of a store.
    #[error("{shown:?} is not a key-value store: {why}; allowed: {ALLOWED}")]
    Url {
        /// The URL without what may be secret.
        shown: String,
        /// What is wrong with it.
        why: String,
    },
    /// This program was built without the driver of that store.
    #[error("{shown}: this program was built without the driver for {scheme}; build it with `--features {scheme}`")]
    NotBuilt {
        /// The URL without what may be secret.
        shown: String,
        /// The feature that is missing.
        scheme: &'static str,
    },
    /// The folder cannot be opened.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The servers cannot be used.
    #[error("{shown}: {why}")]
    Unusable {
        /// The URL without what may be secret.
        shown: String,
        /// What is wrong.
        why: String,
    },
}

/// A store of any kind. Clones share it.
#[derive(Clone)]
pub enum AnyKv {
    /// On this machine's disk.
    Embedded(Embedded),
    /// In memory.
    Memory(Memory),
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
    /// In Apache Cassandra.
    #[cfg(feature = "cassandra")]
    Cassandra(Cassandra),
}

/// Opens the store that the URL names. The module says which URLs there are. A server that does not answer is an error
/// at once; later its requests are tried again for a while.
///
/// # Errors
/// [`OpenUrlError`]
pub async fn open(url: &str) -> Result<AnyKv, OpenUrlError> {
    match open_without_requests(url)? {
        #[cfg(feature = "postgres")]
        Some(AnyKv::Postgres(store)) => match store.connect().await {
            Ok(()) => Ok(AnyKv::Postgres(store)),
            Err(why) => {
                let why = format!(
                    "{why}; see that the server runs there, and that it has the user and the database of the URL"
                );
                Err(OpenUrlError::Unusable { shown: shown(url), why })
            }
        },
        Some(store) => Ok(store),
        None => cassandra(url).await,
    }
}

/// Opens the store that the URL names, if that takes no request; `None` for a cluster of Cassandra at a correct URL.
///
/// # Errors
/// [`OpenUrlError`]
pub fn open_without_requests(url: &str) -> Result<Option<AnyKv>, OpenUrlError> {
    let wrong = |why: &str| OpenUrlError::Url { shown: shown(url), why: why.to_owned() };
    let url = &*with_small_scheme(url);
    let (scheme, _) = url.split_once(':').ok_or_else(|| wrong("it has no scheme, such as kv+file://"))?;
    match scheme {
        "kv+file" => Ok(Some(AnyKv::Embedded(Embedded::open(&path(url)?, &EmbeddedOptions::default())?))),
        "kv+memory" if url == "kv+memory:" => Ok(Some(AnyKv::Memory(Memory::default()))),
        "kv+memory" => Err(wrong("nothing may follow kv+memory:")),
        "postgres" | "postgresql" => postgres(url).map(Some),
        "cassandra" => cassandra_url(url).map(|()| None),
        "file" => Err(wrong("that is a folder of objects; a folder of cells is kv+file:///directory")),
        _ => Err(wrong("its scheme is not known")),
    }
}

/// The folder that a `kv+file:` URL names; `None` for another store. Nothing is made.
///
/// # Errors
/// [`OpenUrlError::Url`]
pub fn folder(url: &str) -> Result<Option<PathBuf>, OpenUrlError> {
    let url = &*with_small_scheme(url);
    url.starts_with("kv+file:").then(|| path(url)).transpose()
}

fn path(url: &str) -> Result<PathBuf, OpenUrlError> {
    let wrong = |why: &str| OpenUrlError::Url { shown: shown(url), why: why.to_owned() };
    let address = url.strip_prefix("kv+").unwrap_or(url);
    if !address.starts_with("file:///") {
        return Err(wrong("the path is absolute, so three slashes follow kv+file:"));
    }
    let parsed = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(wrong("a folder takes no options; `?` and `#` in a path are written %3F and %23"));
    }
    let path = parsed.to_file_path().map_err(|()| wrong("it is not a path of this machine"))?;
    match path.as_os_str().as_encoded_bytes().contains(&0) {
        true => Err(wrong("no name of a folder has the character %00")),
        false => Ok(path),
    }
}

/// Whether the URL names a folder in which there is no store yet, so that a mistyped one is not made by a program that
/// only reads.
#[must_use]
pub fn is_missing(url: &str) -> bool {
    // What cannot be looked at is opened, and the error says why.
    let missing =
        |folder: PathBuf| ["format", "cells"].iter().all(|name| matches!(folder.join(name).try_exists(), Ok(false)));
    folder(url).is_ok_and(|folder| folder.is_some_and(missing))
}

#[cfg(feature = "postgres")]
fn postgres(url: &str) -> Result<AnyKv, OpenUrlError> {
    let opened = Postgres::open(url, &crate::PostgresOptions::default());
    opened.map(AnyKv::Postgres).map_err(|error| OpenUrlError::Url { shown: shown(url), why: error.to_string() })
}

#[cfg(not(feature = "postgres"))]
fn postgres(url: &str) -> Result<AnyKv, OpenUrlError> {
    Err(OpenUrlError::NotBuilt { shown: shown(url), scheme: "postgres" })
}

/// Whether a URL of this scheme names a key-value store.
#[must_use]
pub fn is_scheme(scheme: &str) -> bool {
    let all = ["kv+file", "kv+memory", "postgres", "postgresql", "cassandra"];
    all.iter().any(|known| known.eq_ignore_ascii_case(scheme))
}

/// The URL with its scheme in small letters, in which schemes are compared: `S3:` is `s3:`. What has no scheme stays as
/// it is.
#[must_use]
pub fn with_small_scheme(url: &str) -> Cow<'_, str> {
    let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    match url.split_once(':') {
        Some((scheme, rest))
            if scheme.bytes().all(of_scheme) && scheme.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            Cow::Owned(format!("{}:{rest}", scheme.to_ascii_lowercase()))
        }
        _ => Cow::Borrowed(url),
    }
}

#[cfg(not(feature = "cassandra"))]
async fn cassandra(url: &str) -> Result<AnyKv, OpenUrlError> {
    cassandra_url(url).and(Err(OpenUrlError::NotBuilt { shown: shown(url), scheme: "cassandra" }))
}

#[cfg(not(feature = "cassandra"))]
fn cassandra_url(url: &str) -> Result<(), OpenUrlError> {
    Err(OpenUrlError::NotBuilt { shown: shown(url), scheme: "cassandra" })
}

#[cfg(feature = "cassandra")]
fn cassandra_url(url: &str) -> Result<(), OpenUrlError> {
    cluster(url).map(drop).map_err(|why| OpenUrlError::Url { shown: shown(url), why })
}

#[cfg(feature = "cassandra")]
async fn cassandra(url: &str) -> Result<AnyKv, OpenUrlError> {
    let Cluster { hosts, keyspace, options } =
        cluster(url).map_err(|why| OpenUrlError::Url { shown: shown(url), why })?;
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let opened = Cassandra::open(&hosts, &keyspace, &options).await;
    opened.map(AnyKv::Cassandra).map_err(|error| OpenUrlError::Unusable { shown: shown(url), why: error.to_string() })
}

/// What a `cassandra:` URL says.
#[cfg(feature = "cassandra")]
struct Cluster {
    hosts: Vec<String>,
    keyspace: String,
    options: crate::cassandra::Options,
}

#[cfg(feature = "cassandra")]
fn cluster(url: &str) -> Result<Cluster, String> {
    use crate::cassandra::{Credentials, Options};
    let url = with_small_scheme(url);
    let address = url.strip_prefix("cassandra://").ok_or("two slashes follow cassandra:")?;
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let (hosts, keyspace) = address.split_once('/').ok_or("it names no keyspace: cassandra://host:port/keyspace")?;
    let (user, hosts) = match hosts.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, hosts),
    };
    let decoded = |text: &str| {
        let text = percent_encoding::percent_decode_str(text).decode_utf8();
        text.map(Cow::into_owned).map_err(|_| "the user or the password is not UTF-8".to_owned())
    };
    let credentials = match user {
        None => None,
        Some(user) => {
            let (user, password) = user.split_once(':').ok_or("a user has a password: user:password@host")?;
            Some(Credentials { user: decoded(user)?, password: decoded(password)? })
        }
    };
    let hosts: Vec<String> = hosts.split(',').map(with_port).collect();
    if hosts.iter().any(|host| host.starts_with(':')) {
        return Err("a host has no name".to_owned());
    }
    if Table::new(keyspace).is_none() {
        // Then what is behind the slash may be of a password.
        if keyspace.contains('@') {
            return Err("in a user's name or password, write / as %2F".to_owned());
        }
        return Err(crate::cassandra::OpenError::Name(keyspace.to_owned()).to_string());
    }
    let mut options = Options { credentials, ..Options::default() };
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let copies = option.strip_prefix("copies=").ok_or_else(|| {
            format!(
                "{:?} is no option; copies=N is: how many copies of each row a keyspace that is made has",
                name_of(option)
            )
        })?;
        if options.replication_factor.is_some() {
            return Err("the parameter \"copies\" is given twice; give it once".to_owned());
        }
        options.replication_factor =
            Some(copies.parse().map_err(|_| format!("{copies:?} is no number of copies, 1 or more"))?);
    }
    Ok(Cluster { hosts, keyspace: keyspace.to_owned(), options })
}

#[cfg(feature = "cassandra")]
fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}

/// Cassandra's own port where none is given.
#[cfg(feature = "cassandra")]
fn with_port(host: &str) -> String {
    let has_port = host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    let is_bare_v6 = host.starts_with('[') && host.ends_with(']');
    if has_port && !is_bare_v6 { host.to_owned() } else { format!("{host}:9042") }
}

/// The URL without a password, for people; of its parameters only the schema, which says where things are. Where it
/// cannot be told which part is the password, less of it: passwords may have any character, also those that end a host.
#[must_use]
pub fn shown(url: &str) -> String {
    let url = &*with_small_scheme(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.split_once(':').map_or_else(|| url.to_owned(), |(scheme, _)| format!("{scheme}:..."));
    };
    let without_parameters = |place: &str| format!("{}{}", place.split('?').next().unwrap_or_default(), schema_of(url));
    let (user, place) = match rest.split_once('@') {
        Some(parts) if scheme != "kv+file" => parts,
        _ => return format!("{scheme}://{}", without_parameters(rest)),
    };
    let name = user.split(':').next().unwrap_or_default();
    match (name.contains(['/', '?', '=', '&']), place.contains('@')) {
        (true, _) => format!("{scheme}://..."),
        (false, true) => format!("{scheme}://{name}@..."),
        (false, false) => format!("{scheme}://{name}@{}", without_parameters(place)),
    }
}

/// `?schema=name` if the URL certainly has it as a parameter: no password may end in it.
#[must_use]
pub fn schema_of(url: &str) -> String {
    let Some((place, parameters)) = url.rsplit_once('?') else { return String::new() };
    // A question mark before may be part of a password, and so may what follows it.
    if place.contains('?') || parameters.contains('@') {
        return String::new();
    }
    let schema = parameters.split('&').find_map(|parameter| parameter.strip_prefix("schema="));
    let plain = |schema: &&str| schema.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    schema.filter(plain).map(|schema| format!("?schema={schema}")).unwrap_or_default()
}

macro_rules! of_any {
    ($any:expr, $store:ident => $do:expr) => {
        match $any {
            AnyKv::Embedded($store) => $do,
            AnyKv::Memory($store) => $do,
            #[cfg(feature = "postgres")]
            AnyKv::Postgres($store) => $do,
            #[cfg(feature = "cassandra")]
            AnyKv::Cassandra($store) => $do,
        }
    };
}

impl AnyKv {
    /// Whether no other process can have it open.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Embedded(_) | Self::Memory(_))
    }

    /// Why it takes no more writes until it is opened again, if so.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        match self {
            Self::Embedded(store) => store.stopped(),
            _ => None,
        }
    }

    /// What a table takes on the disk of a server, in bytes; `None` where the store is in this process. For benchmarks.
    ///
    /// # Errors
    /// Where the server does not say.
    pub async fn disk_bytes(&self, table: &Table) -> Result<Option<u64>, KvReadError> {
        match self {
            Self::Embedded(_) | Self::Memory(_) => {
                // Without a server's driver, nothing else names it.
                let _ = table;
                Ok(None)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.disk_bytes(table).await.map(Some),
            #[cfg(feature = "cassandra")]
            Self::Cassandra(store) => store.disk_bytes(table).await.map(Some),
        }
    }
}

impl KvStore for AnyKv {
    fn capabilities(&self) -> KvCapabilities {
        of_any!(self, store => store.capabilities())
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        of_any!(self, store => store.create_table(table).await)
    }

    async fn get(&self, table: &Table, cells: &[Cell], level: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        of_any!(self, store => store.get(table, cells, level).await)
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        of_any!(self, store => store.scan(table, row, columns, limit, level).await)
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        of_any!(self, store => store.rows(table, after, limit).await)
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        of_any!(self, store => store.put_unless_exists(table, row, columns).await)
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        of_any!(self, store => store.compare_and_set(table, cell, expected, new).await)
    }

    async fn put_final(&self, table: &Table, cell: &Cell, value: &Bytes, rank: Rank) -> Result<(), WriteError> {
        of_any!(self, store => store.put_final(table, cell, value, rank).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { open(url).await.map(drop) }).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_url_is_named_without_its_secrets() {
        for (url, words) in [
            ("/tmp/x", "no scheme"),
            ("file:///tmp/x", "kv+file:///directory"),
            ("kv+file://tmp/x", "three slashes"),
            ("kv+file:///tmp/x?y=z", "no options"),
            ("kv+file:///tmp/x#y", "no options"),
            ("kv+file:///%00", "the character %00"),
            ("kv+file:///tmp/a%00b", "the character %00"),
            ("kv+memory:x", "nothing may follow"),
            ("mysql://secret:hush@host/x", "scheme is not known"),
            ("postgres://u:hush@host/db?schema=1x", "no name of a schema"),
            ("postgres://", "names no server"),
            ("postgres://u:hush@/db", "names no server"),
            ("postgres://u:hush@host/db?schema=a&schema=b", "\"schema\" is given twice"),
            ("cassandra://u:hush@host:9042", "names no keyspace"),
            ("cassandra://u@host:9042/k", "a user has a password"),
            ("cassandra://u:p/w@host:9042/k", "write / as %2F"),
            ("cassandra://u:hush@host:9042/k?copies=0", "no number of copies"),
            ("cassandra://u:hush@host:9042/k?token=hush", "\"token\" is no option"),
            ("cassandra://u:hush@host:9042/k?copies=1&copies=2", "\"copies\" is given twice"),
            ("cassandra://host:9042/", "no name of a keyspace"),
            ("cassandra://:9042/k", "no name"),
        ] {
            let message = refused(url);
            assert!(message.contains(words), "{url}: {message}");
            assert!(!message.contains("hush"), "{message}");
        }
    }

    #[test]
    fn the_letters_of_a_scheme_may_be_large() {
        for (url, small) in [
            ("S3://Bucket/A", "s3://Bucket/A"),
            ("KV+File:///A", "kv+file:///A"),
            ("s3://B", "s3://B"),
            ("/A:b", "/A:b"),
            ("A", "A"),
        ] {
            assert_eq!(with_small_scheme(url), small);
        }
        let folder = tempfile::tempdir().unwrap();
        let large = format!("KV+FILE://{}/cells", folder.path().display());
        assert!(is_missing(&large) && is_scheme("Postgres"));
        drop(open_without_requests(&large).unwrap());
        assert!(!is_missing(&large.replace("KV+FILE", "kv+file")));
        assert!(!refused("POSTGRES://u:hush@/db").contains("hush"));
    }

    #[cfg(feature = "cassandra")]
    #[test]
    fn a_cluster_has_several_hosts_and_a_user() {
        let Cluster { hosts, keyspace, options } =
            cluster("cassandra://me:p%40ss@a:1,b,[::1]:3,[::1]/k?copies=3").unwrap();
        assert_eq!(hosts, ["a:1", "b:9042", "[::1]:3", "[::1]:9042"]);
        assert_eq!(keyspace, "k");
        assert_eq!(options.replication_factor.map(std::num::NonZeroUsize::get), Some(3));
        assert_eq!(options.credentials.map(|user| (user.user, user.password)), Some(("me".into(), "p@ss".into())));
    }

    #[test]
    fn a_missing_folder_is_told_before_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("kv+file://{}/cells", folder.path().display());
        assert!(is_missing(&url));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        drop(runtime.block_on(open(&url)).unwrap());
        assert!(!is_missing(&url));
    }
}
