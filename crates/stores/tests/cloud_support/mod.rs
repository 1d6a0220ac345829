//! What the tests of cloud stores share: the servers that `scripts/servers` started, and the conformance suite with a
//! server's known deviations.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "only tests use it, and may fail")]

pub mod directory;
pub mod proxy;
pub mod tiny;

use std::time::{SystemTime, UNIX_EPOCH};

use glidepath_env::conformance::{POINTS, check};
use glidepath_env::{Key, PutError};
use glidepath_model::Span;
use glidepath_stores::cloud::CloudStore;
use glidepath_stores::{Options, Store};
use proxy::Fault;
use url::Url;

/// How a write ended, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Lost,
    Unknown,
    Refused,
}

impl End {
    pub fn of<T>(result: &Result<T, PutError>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(PutError::Lost) => Self::Lost,
            Err(PutError::Unknown(_)) => Self::Unknown,
            Err(PutError::Refused(_)) => Self::Refused,
        }
    }
}

/// A server's URL; `None` if it was not started and is not required.
pub fn server(variable: &str) -> Option<Url> {
    match std::env::var(variable) {
        Ok(url) => Some(Url::parse(&url).unwrap()),
        Err(_) if std::env::var("GLIDEPATH_SERVERS").is_ok_and(|value| value == "required") => {
            panic!("{variable} is not set: run the tests by `scripts/servers exec cargo test -p glidepath-stores`")
        }
        Err(_) => {
            eprintln!(
                "skipped: {variable} is not set; `scripts/servers exec cargo test -p glidepath-stores` runs this"
            );
            None
        }
    }
}

/// The same server, under an unused prefix.
pub fn fresh(mut url: Url, name: &str) -> Url {
    #[expect(clippy::disallowed_methods, reason = "a name that no earlier run took")]
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    url.set_path(&format!("/{name}-{nanos}-{}", std::process::id()));
    url
}

pub fn open(url: &Url) -> CloudStore {
    open_with(url, &Options::default())
}

/// Opens the store as any user does.
pub fn open_with(url: &Url, options: &Options) -> CloudStore {
    match glidepath_stores::open(url.as_str(), options).unwrap() {
        Store::Cloud(store) => store,
        other => panic!("{other:?}"),
    }
}

/// A store through a faulty proxy. Requests whose answer does not arrive in time use a separate handle with a shorter
/// timeout, because a busy machine may need long for other answers.
pub struct Faulty {
    patient: CloudStore,
    impatient: CloudStore,
}

impl Faulty {
    pub fn open(url: &Url) -> Self {
        let impatient = Options { request_timeout: Span::from_secs(2), ..Options::default() };
        Self { patient: open(url), impatient: open_with(url, &impatient) }
    }

    /// The handle for a request that meets these faults.
    pub fn under(&self, faults: &[Fault]) -> &CloudStore {
        let late = faults.iter().any(|fault| matches!(fault, Fault::SlowAnswer | Fault::Zombie));
        if late { &self.impatient } else { &self.patient }
    }
}

/// A point that a server breaks, and why.
pub type Deviation = (&'static str, &'static str);

/// Every point must hold, except the deviations, which must not: remove a deviation from the list when it is fixed.
pub async fn conforms(url: &Url, deviations: &[Deviation]) {
    let handles: Vec<CloudStore> = (0..16).map(|_| open(url)).collect();
    let mut wrong = Vec::new();
    for point in POINTS {
        let reason = deviations.iter().find(|(name, _)| *name == point.name).map(|(_, reason)| reason);
        match (check(&handles, &Key::new("suite"), point).await, reason) {
            (Ok(()), None) => {}
            (Err(violation), Some(reason)) => println!("known: {violation}; because {reason}"),
            (Err(violation), None) => wrong.push(violation.to_string()),
            (Ok(()), Some(_)) => wrong.push(format!("{} holds, but is listed as a deviation", point.name)),
        }
    }
    assert!(deviations.iter().all(|(name, _)| POINTS.iter().any(|point| point.name == *name)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
