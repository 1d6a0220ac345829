//! Nothing that took effect is reported as lost or refused, whatever the network does; and reads recover. Tested
//! through a faulty proxy, on a small server of the tests and on the real ones that were started.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use bytes::Bytes;
use cloud_support::proxy::{self, Fault, Plan};
use cloud_support::{End, Faulty, fresh, open, open_with, server, tiny};
use glidepath_env::{DeleteError, Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_model::Span;
use glidepath_stores::Options;
use glidepath_stores::cloud::{CloudStore, Operation};
use url::Url;

/// The expected ending of a write that meets each fault.
const WRITES: &[(Fault, End)] = &[
    (Fault::LoseAnswer, End::Unknown),
    (Fault::ResetRequest, End::Unknown),
    (Fault::SlowAnswer, End::Unknown),
    (Fault::Zombie, End::Unknown),
    (Fault::Twice, End::Done),
    (Fault::Answer(500, "InternalError"), End::Unknown),
    (Fault::Answer(502, ""), End::Unknown),
    (Fault::Answer(503, ""), End::Unknown),
    (Fault::Answer(429, ""), End::Done),
    (Fault::Answer(403, "AccessDenied"), End::Refused),
    (Fault::Answer(301, "PermanentRedirect"), End::Refused),
    (Fault::Answer(501, "NotImplemented"), End::Refused),
    (Fault::Answer(409, "ConditionalRequestConflict"), End::Refused),
];

const READS: &[Fault] = &[
    Fault::LoseAnswer,
    Fault::CutAnswer,
    Fault::ResetRequest,
    Fault::SlowAnswer,
    Fault::Twice,
    Fault::Answer(500, "InternalError"),
    Fault::Answer(503, ""),
    Fault::Answer(429, ""),
    // Of something on the way that does not know the store.
    Fault::Answer(404, ""),
];

/// The maximum for a failing probe: its first request and its removal, each with the maximum number of repeats.
const MOST_REQUESTS: u64 = 8;

struct Pair {
    direct: CloudStore,
    faulty: Faulty,
    plan: Plan,
    /// The emulator of Google Cloud Storage names no error by its code, so each 404 counts as of a missing object.
    names_errors: bool,
}

async fn pair(url: Url) -> Pair {
    let (_, endpoint) = url.query_pairs().find(|(name, _)| name == "endpoint").unwrap();
    let upstream = Url::parse(&endpoint).unwrap().port().unwrap();
    let (port, plan) = proxy::start(upstream, url.scheme() == "gs").await;
    let through = Url::parse(&url.as_str().replace(&format!(":{upstream}"), &format!(":{port}"))).unwrap();
    Pair { direct: open(&url), faulty: Faulty::open(&through), plan, names_errors: url.scheme() != "gs" }
}

/// The tests' own server, and the real ones that were started.
async fn pairs() -> Vec<Pair> {
    let own = format!("s3://bucket?endpoint=http://127.0.0.1:{}", tiny::start(true).await);
    let mut pairs = vec![pair(Url::parse(&own).unwrap()).await];
    for variable in ["GLIDEPATH_S3", "GLIDEPATH_AZURE", "GLIDEPATH_GCS"] {
        if let Some(url) = server(variable) {
            pairs.push(pair(fresh(url, "faults")).await);
        }
    }
    pairs
}

fn body(text: String) -> Payload {
    Payload::from(Bytes::from(text))
}

impl Pair {
    async fn content(&self, key: &Key) -> Option<Bytes> {
        match self.direct.get(key).await {
            Ok(object) => Some(object.payload.bytes),
            Err(ReadError::NotFound) => None,
            Err(error) => panic!("reading back: {error}"),
        }
    }

    async fn put_under(&self, key: &Key, fault: Fault, guard: Guard, expected: End) {
        let fresh = format!("written under {fault:?}");
        self.plan.lock().unwrap().push_back(fault);
        let result = self.faulty.under(&[fault]).put(key, body(fresh.clone()), guard).await;
        let happened = self.content(key).await.is_some_and(|content| content == fresh);
        let end = End::of(&result);
        let what = format!("{:?} {key} {fault:?}: {result:?}, happened: {happened}", self.direct);
        match end {
            End::Done => assert!(happened, "{what}"),
            End::Lost | End::Refused => assert!(!happened, "{what}"),
            End::Unknown => {}
        }
        assert_eq!(end, expected, "{what}");
        if fault == Fault::Zombie {
            assert!(!happened, "{what}");
            self.plan.deliver_zombie().await;
            assert_eq!(self.content(key).await.as_deref(), Some(fresh.as_bytes()), "it appears after all: {what}");
        }
        assert!(self.plan.lock().unwrap().is_empty(), "the fault was not met: {what}");
    }
}

#[tokio::test]
async fn what_happened_is_never_reported_as_lost_or_refused() {
    for pair in pairs().await {
        for (number, (fault, expected)) in WRITES.iter().enumerate() {
            let key = |kind: &str| Key::new(&format!("{kind}-{number}"));
            pair.put_under(&key("create"), *fault, Guard::Absent, *expected).await;
            pair.put_under(&key("put"), *fault, Guard::None, *expected).await;
            let replaced = key("replace");
            let tag = pair.direct.put(&replaced, body("before".to_owned()), Guard::None).await.unwrap();
            pair.put_under(&replaced, *fault, Guard::Matches(tag), *expected).await;
        }
    }
}

#[tokio::test]
async fn deletes_that_happened_are_not_reported_as_refused() {
    for pair in pairs().await {
        for (number, (fault, expected)) in WRITES.iter().enumerate() {
            let key = Key::new(&format!("delete-{number}"));
            pair.direct.put(&key, body("before".to_owned()), Guard::None).await.unwrap();
            pair.plan.lock().unwrap().push_back(*fault);
            let end = match pair.faulty.under(&[*fault]).delete(&key).await {
                Ok(()) => End::Done,
                Err(DeleteError::Unknown(_)) => End::Unknown,
                Err(DeleteError::Refused(_)) => End::Refused,
            };
            let happened = pair.content(&key).await.is_none();
            if *fault == Fault::Zombie {
                assert!(!happened, "{:?}", pair.direct);
                pair.plan.deliver_zombie().await;
                assert_eq!(pair.content(&key).await, None, "{:?}: it is deleted after all", pair.direct);
            }
            assert_eq!(end, *expected, "{:?} {fault:?}", pair.direct);
            assert!(end == End::Unknown || happened == (end == End::Done), "{:?} {fault:?} {end:?}", pair.direct);
        }
    }
}

#[tokio::test]
async fn reads_recover() {
    for pair in pairs().await {
        let key = Key::new("read");
        pair.direct.put(&key, body("here it is".to_owned()), Guard::None).await.unwrap();
        for fault in READS.iter().filter(|fault| pair.names_errors || **fault != Fault::Answer(404, "")) {
            pair.plan.lock().unwrap().push_back(*fault);
            let store = pair.faulty.under(&[*fault]);
            let before = store.counts().of(Operation::Get);
            let object = store.get(&key).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            assert_eq!(object.payload.bytes, "here it is", "{fault:?}");
            let after = store.counts().of(Operation::Get);
            let expected = u64::from(*fault != Fault::Twice);
            assert_eq!(after.repeats - before.repeats, expected, "{fault:?}");
            assert_eq!(after.requests - before.requests, 1 + expected, "{fault:?}");
            pair.plan.lock().unwrap().push_back(*fault);
            let object = pair.faulty.under(&[*fault]).get_range(&key, 5..7).await.unwrap_or_else(|error| {
                panic!("a range, {fault:?}: {error}");
            });
            assert_eq!(object.payload.bytes, "it", "a range, {fault:?}");
        }
        pair.plan.lock().unwrap().push_back(Fault::Answer(403, "AccessDenied"));
        let error = pair.faulty.under(&[]).get(&key).await.unwrap_err().to_string();
        assert!(error.contains("403 AccessDenied") && error.contains("credentials"), "{error}");
        assert!(matches!(pair.faulty.under(&[]).head(&Key::new("none")).await, Err(ReadError::NotFound)));
        if !pair.names_errors {
            continue;
        }
        // A HEAD has no code, so it is confirmed; what cannot be confirmed is no answer.
        pair.plan.lock().unwrap().push_back(Fault::Answer(404, ""));
        assert_eq!(pair.faulty.under(&[]).head(&key).await.unwrap().size.as_bytes(), 10);
        pair.plan.lock().unwrap().extend([Fault::Answer(404, ""); 5]);
        let error = pair.faulty.under(&[]).head(&key).await.unwrap_err();
        assert!(matches!(error, ReadError::Failed(_)) && error.to_string().contains("404"), "{error}");
        pair.plan.lock().unwrap().clear();
        // Nothing was deleted.
        pair.plan.lock().unwrap().push_back(Fault::Answer(404, ""));
        let deleted = pair.faulty.under(&[]).delete(&key).await;
        assert!(matches!(deleted, Err(DeleteError::Unknown(_))), "{deleted:?}");
    }
}

#[tokio::test]
async fn a_throttled_write_is_sent_so_often_and_no_oftener() {
    let pair =
        pair(Url::parse(&format!("s3://b?endpoint=http://127.0.0.1:{}", tiny::start(true).await)).unwrap()).await;
    pair.plan.lock().unwrap().extend([Fault::Answer(503, "SlowDown"); 4]);
    let store = pair.faulty.under(&[]);
    let result = store.put(&Key::new("key"), body("x".to_owned()), Guard::Absent).await;
    assert!(matches!(result, Err(PutError::Refused(_))), "{result:?}");
    let counts = store.counts().of(Operation::Put);
    assert_eq!((counts.requests, counts.repeats, counts.failures), (4, 3, 4));
    assert_eq!(counts.sent.as_bytes(), 4);
}

#[tokio::test]
async fn wrong_credentials_are_called_so() {
    for pair in pairs().await {
        pair.plan.lock().unwrap().push_back(Fault::Answer(403, "SignatureDoesNotMatch"));
        let error = pair.faulty.under(&[]).probe(&Key::new("scratch")).await.unwrap_err().to_string();
        assert!(error.contains("403 SignatureDoesNotMatch; check the credentials"), "{error}");
    }
}

/// Each of these ends with one clear message, after at most a few repeats.
#[tokio::test]
async fn what_cannot_work_says_so_and_does_not_go_on() {
    // It has the port, so nobody else has, and it does not listen.
    let unheard = tokio::net::TcpSocket::new_v4().unwrap();
    unheard.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = unheard.local_addr().unwrap().port();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rude = tiny::start(false).await;
    let mut rows = vec![
        (format!("s3://bucket?endpoint=http://127.0.0.1:{closed}"), "no connection to 127.0.0.1:"),
        (format!("gs://bucket?endpoint=http://127.0.0.1:{closed}"), "no connection"),
        ("s3://bucket?endpoint=http://no-such-host.invalid".to_owned(), "no connection to no-such-host.invalid: "),
        (format!("s3://bucket?endpoint=http://127.0.0.1:{rude}"), "ignores If-None-Match"),
    ];
    if let Some(url) = server("GLIDEPATH_S3") {
        // Accepts the connection and never answers TLS. It has credentials: without any, the store would report that
        // before it connects.
        rows.push((format!("s3://bucket?endpoint=https://{}", silent.local_addr().unwrap()), "no connection"));
        rows.push((url.as_str().replace("//glidepath", "//nosuchbucket"), "NoSuchBucket"));
    }
    if let Some(url) = server("GLIDEPATH_AZURE") {
        rows.push((url.as_str().replace("//glidepath", "//nosuchcontainer"), "ContainerNotFound"));
    }
    if let Some(url) = server("GLIDEPATH_GCS") {
        rows.push((url.as_str().replace("//glidepath", "//nosuchbucket"), "404"));
    }
    for (url, part) in rows {
        let store = open_with(
            &Url::parse(&url).unwrap(),
            &Options { connect_timeout: Span::from_secs(2), ..Options::default() },
        );
        let error = store.probe(&Key::new("scratch")).await.unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains("glidepath-tests") && !error.contains("Eby8vdM0"), "{error}");
        let requests = store.counts().total().requests;
        assert!(requests <= MOST_REQUESTS, "{url}: {requests} requests");
        println!("{requests} requests: {error}");
    }
}

#[tokio::test]
async fn an_honest_store_passes_the_probe_and_is_left_clean() {
    for pair in pairs().await {
        pair.direct.probe(&Key::new("scratch")).await.unwrap();
        assert_eq!(pair.content(&Key::new("scratch")).await, None);
    }
}
