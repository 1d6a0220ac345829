//! How does a URL become a store?

use glidepath_model::Span;
use url::Url;

use crate::cloud::CloudStore;
use crate::local::LocalStore;
use crate::memory::MemoryStore;
use crate::store::Store;

/// What can be set about a store beside its URL.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a request may take before its outcome is given up as unknown (a write) or failed (a read).
    pub request_timeout: Span,
    /// How long making a connection may take.
    pub connect_timeout: Span,
    /// The most requests in flight at once, over all clones of a store.
    pub requests_in_flight: usize,
    /// How often a read that failed, or a write that was refused before any effect (429, 503), is sent again. Guarded
    /// writes whose outcome is unknown never are.
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

/// Why a URL does not lead to a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The text cannot be read as the URL of a store.
    #[error("{url:?} is not a store: {why}; allowed: {ALLOWED}")]
    Url {
        /// As given, without credentials.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store was found and cannot be used.
    #[error("{url}: {why}")]
    Unusable {
        /// As given, without credentials.
        url: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
}

/// The URLs there are.
const ALLOWED: &str = "memory:, file:///directory, s3://bucket/prefix, az://container/prefix, gs://bucket/prefix";

/// Opens the store that a URL names. Makes no request; a directory is created where there is none.
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

/// What to say of a text without a scheme: most likely it is a folder.
fn no_scheme(text: &str) -> String {
    let folder = std::path::absolute(text).ok().and_then(|folder| Url::from_directory_path(folder).ok());
    match folder {
        Some(folder) => {
            format!("the kind of store is missing; for a folder, write {}", folder.as_str().trim_end_matches('/'))
        }
        None => "the kind of store is missing".to_owned(),
    }
}
