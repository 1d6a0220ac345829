//! Fetches the keys of an issuer.

use std::time::Duration;

use glidepath_access::{Fetch, Fetching};
use glidepath_env::Env;
use glidepath_stores::LiveEnv;

/// The most bytes of a document.
const MOST_BYTES: usize = 1 << 20;

/// A client for documents of issuers: no redirects, no answer but 200, at most 1 MiB.
pub(super) struct Web(reqwest::Client);

impl Web {
    pub(super) fn new() -> Result<Self, String> {
        // An error says that a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(10))
            .build();
        client.map(Self).map_err(|error| error.to_string())
    }

    async fn document(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut answer = self.0.get(url).send().await.map_err(|error| plain(&error))?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(format!(
                "the answer is {}; only 200 is accepted, and no redirect is followed",
                answer.status()
            ));
        }
        let mut document = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| plain(&error))? {
            document.extend_from_slice(&chunk);
            if document.len() > MOST_BYTES {
                return Err(format!("the answer has more than {MOST_BYTES} bytes"));
            }
        }
        Ok(document)
    }
}

/// The error with its causes: the message of the library names the first one only.
fn plain(error: &reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        words.push_str(&format!(": {next}"));
        cause = next.source();
    }
    words
}

impl Fetch for Web {
    fn get<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(self.document(url))
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(LiveEnv::new().now().as_nanos())
    }
}
