//! Opens a store by its URL.

use glidepath_model::Span;
use url::Url;

use crate::cloud::CloudStore;
use crate::local::LocalStore;
use crate::memory::MemoryStore;
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
    #[error("{url:?} is not a store: {why}; allowed: {ALLOWED}")]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
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
}

/// The forms of URLs.
const ALLOWED: &str = "memory:, file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix";

/// Opens the store that a URL names. Makes no request; a directory is created if it does not exist.
///
/// # Errors
/// [`OpenError`] says what is wrong with the URL, or with the directory, the credentials or the parameters it names.
pub fn open(url: &str, options: &Options) -> Result<Store, OpenError> {
    let wrong = |why: String| OpenError::Url { url: url.to_owned(), why };
    let parsed = Url::parse(url).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => wrong(no_scheme(url)),
        error => wrong(error.to_string()),
    })?;
    match parsed.scheme() {
        "memory" => Ok(Store::Memory(MemoryStore::new())),
        "file" => LocalStore::open(&parsed).map(Store::Local),
        "s3" | "az" | "gs" => CloudStore::open(&parsed, options).map(Store::Cloud),
        other => Err(wrong(format!("there is no kind of store {other:?}"))),
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
