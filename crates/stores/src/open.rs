//! Opens a store by its URL.

use glidepath_kv::with_small_scheme;
use glidepath_model::Span;
use url::Url;

use crate::cloud::CloudStore;
use crate::local::LocalStore;
use crate::memory::MemoryStore;
use crate::rows::RowStore;
use crate::shown;
use crate::store::Store;

/// The settings of a store besides its URL.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time after which a request without an answer counts as unknown (a write) or failed (a read).
    pub request_timeout: Span,
    /// The maximum time for making a connection.
    pub connect_timeout: Span,
    /// The maximum number of requests in flight, over all clones of a store.
    pub requests_in_flight: usize,
    /// How often a failed read, or a write refused before any effect (429, 503), is sent again. Guarded writes whose
    /// outcome is unknown are never repeated.
    pub repeats: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_timeout: Span::from_secs(30),
            connect_timeout: Span::from_secs(5),
            requests_in_flight: 256,
            repeats: 3,
        }
    }
}

/// Why a URL cannot be opened as a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The text is not the URL of a store.
    #[error("{url:?} is not a store: {why}{}", kinds(why))]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A store of this kind, or at this place, cannot hold the files of a warehouse.
    #[error("{url:?} cannot be a warehouse: {why}; allowed: {WAREHOUSES}")]
    Warehouse {
        /// As given, without credentials.
        url: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
    /// The store was found but cannot be used.
    #[error("{url}: {why}")]
    Unusable {
        /// As given, without credentials.
        url: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
    /// This program was built without the driver of that store.
    #[error("{url}: this program was built without the driver for {feature}; build it with `--features {feature}`")]
    NotBuilt {
        /// As given, without credentials.
        url: String,
        /// The feature that is missing.
        feature: &'static str,
    },
    /// Another process has it open, and only one can.
    #[error("{url}: {why}")]
    Held {
        /// As given, without credentials.
        url: String,
        /// Who has it.
        why: String,
    },
}

/// The forms of URLs.
const ALLOWED: &str = "memory:, file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix, \
                       kv+file:///directory, postgres://user@host:port/database, cassandra://host:port/keyspace";

/// The forms of URLs of warehouses.
const WAREHOUSES: &str = "file:///directory, s3://bucket/prefix, gs://bucket/prefix, \
                          az://container/prefix?account=NAME, and memory: for tests";

/// Opens the store that a URL names. Makes no request; a directory is created if it does not exist.
///
/// # Errors
/// [`OpenError`] says what is wrong with the URL, or with the directory, the credentials or the parameters it names.
pub fn open(url: &str, options: &Options) -> Result<Store, OpenError> {
    if is_rows(url) {
        return RowStore::open(url).map(Store::Rows);
    }
    let parsed = parse(url)?;
    match parsed.scheme() {
        "memory" => Ok(Store::Memory(MemoryStore::new())),
        // Objects beside the cells would keep the cells from being opened again.
        "file" if parsed.to_file_path().is_ok_and(|folder| glidepath_kv::is_folder_of_cells(&folder)) => {
            Err(wrong(url, format!("it is a folder of cells: kv+{}", shown(url))))
        }
        "file" => LocalStore::open(&parsed).map(Store::Local),
        "s3" | "az" | "gs" => CloudStore::open(&parsed, options).map(Store::Cloud),
        other => Err(no_kind(url, other)),
    }
}

/// Whether there is a store at a URL already, perhaps an empty one; `None` if that cannot be told without a request.
/// Creates nothing.
///
/// # Errors
/// As [`open`], for what is wrong with the URL itself.
pub fn is_there(url: &str) -> Result<Option<bool>, OpenError> {
    if is_rows(url) {
        let url = with_small_scheme(url);
        return Ok(url.starts_with("kv+file:").then(|| !glidepath_kv::is_missing(&url)));
    }
    let parsed = parse(url)?;
    match parsed.scheme() {
        "file" => LocalStore::is_there(&parsed).map(Some),
        "memory" | "s3" | "az" | "gs" => Ok(None),
        other => Err(no_kind(url, other)),
    }
}

/// Whether the URL names a key-value store. These URLs have their own parser: one of them may name several hosts.
#[must_use]
pub fn is_rows(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| glidepath_kv::is_scheme(scheme))
}

/// All kinds of stores, unless the reason names what is allowed.
fn kinds(why: &str) -> String {
    if why.contains("allowed") || why.contains("must begin") { String::new() } else { format!("; allowed: {ALLOWED}") }
}

fn no_kind(url: &str, scheme: &str) -> OpenError {
    let hint = match scheme {
        "http" | "https" => {
            " (a catalog server is measured by `glidepath bench-server`; a bucket of S3 is s3://bucket/prefix)"
        }
        "s3a" | "s3n" => " (a bucket of S3 is s3://bucket/prefix)",
        "gcs" => " (a bucket of Google Cloud Storage is gs://bucket/prefix)",
        "abfs" | "abfss" | "wasb" | "wasbs" | "azure" => " (a container of Azure is az://container/prefix)",
        "cql" => " (a keyspace of Cassandra is cassandra://host:port/keyspace)",
        "postgresql" => " (a database of PostgreSQL is postgres://user@host:port/database)",
        _ => "",
    };
    wrong(url, format!("there is no kind of store {scheme:?}{hint}"))
}

pub(crate) fn wrong(url: &str, why: String) -> OpenError {
    OpenError::Url { url: shown(url), why }
}

/// The URL. Refuses what the parser would drop without a word: then two texts would name one store.
pub(crate) fn parse(url: &str) -> Result<Url, OpenError> {
    let parsed = Url::parse(url).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => wrong(url, no_scheme(url)),
        error => wrong(url, error.to_string()),
    })?;
    let dropped = |c: char| matches!(c, '\t' | '\n' | '\r');
    if url.contains(dropped) || url.trim_matches(|c: char| c <= ' ') != url {
        let why = "it has a tab, a line feed, or a blank or control character at an end; in a name, write a blank %20";
        return Err(wrong(url, why.to_owned()));
    }
    if parsed.fragment().is_some() {
        return Err(wrong(url, "it has a #, which would end the path; in a name, write it %23".to_owned()));
    }
    let names: Vec<_> = parsed.query_pairs().map(|(name, _)| name).collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(wrong(url, format!("the parameter {:?} is given twice", twice.1)));
    }
    match parsed.scheme() {
        "memory" if parsed.query().is_some() => Err(wrong(url, "memory: has no parameters".to_owned())),
        // The parser would take it for a path from the root.
        "file" if !url.get(5..).is_some_and(|path| path.starts_with('/')) => {
            Err(wrong(url, "a directory is written with three slashes, file:///directory".to_owned()))
        }
        // The parser takes one slash for two, and a message would name a text that was not typed.
        scheme @ ("s3" | "az" | "gs") if !url.get(2..).is_some_and(|rest| rest.starts_with("://")) => {
            Err(wrong(url, format!("two slashes follow {scheme}:, as in {scheme}://name/prefix")))
        }
        _ => Ok(parsed),
    }
}

/// The message for a text without a scheme, which is most likely a folder.
fn no_scheme(text: &str) -> String {
    let folder = std::path::absolute(text).ok().and_then(|folder| Url::from_directory_path(folder).ok());
    match folder {
        Some(folder) => {
            format!("the kind of store is missing; for a folder, write {}", folder.as_str().trim_end_matches('/'))
        }
        None => "the kind of store is missing".to_owned(),
    }
}
