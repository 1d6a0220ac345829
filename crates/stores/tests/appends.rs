//! Appends at an offset under faults, at limits, and on servers that do not support them. The conformance suite, which
//! each provider's tests run, tests healthy stores.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use bytes::Bytes;
use cloud_support::proxy::{self, Fault, Plan};
use cloud_support::{End, Faulty, fresh, open, server, tiny};
use glidepath_env::conformance::{POINTS, check};
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_stores::cloud::{CloudStore, Operation};
use url::Url;

/// The expected ending of an append whose own request meets each fault.
const FAULTS: &[(Fault, End)] = &[
    (Fault::LoseAnswer, End::Unknown),
    (Fault::ResetRequest, End::Unknown),
    (Fault::SlowAnswer, End::Unknown),
    (Fault::Zombie, End::Unknown),
    (Fault::Twice, End::Done),
    (Fault::Answer(500, "InternalError"), End::Unknown),
    (Fault::Answer(503, ""), End::Unknown),
    (Fault::Answer(408, ""), End::Unknown),
    (Fault::Answer(429, ""), End::Done),
    (Fault::Answer(403, "AccessDenied"), End::Refused),
    (Fault::Answer(409, "ConditionalRequestConflict"), End::Refused),
    (Fault::Answer(409, "BlockCountExceedsLimit"), End::Refused),
    (Fault::Answer(400, "TooManyParts"), End::Refused),
];

struct Pair {
    direct: CloudStore,
    faulty: Faulty,
    plan: Plan,
    /// Whether an append at 0 makes another request first.
    creates_first: bool,
}

fn payload(text: &str) -> Payload {
    Payload::from(Bytes::from(text.to_owned()))
}

async fn small() -> Url {
    Url::parse(&format!("s3://bucket?endpoint=http://127.0.0.1:{}&append=true", tiny::start(true).await)).unwrap()
}

async fn pairs() -> Vec<Pair> {
    let mut urls = vec![small().await];
    urls.extend(server("GLIDEPATH_AZURE").map(|url| fresh(url, "appends")));
    let mut pairs = Vec::new();
    for url in urls {
        let (_, endpoint) = url.query_pairs().find(|(name, _)| name == "endpoint").unwrap();
        let upstream = Url::parse(&endpoint).unwrap().port().unwrap();
        let (port, plan) = proxy::start(upstream, false).await;
        let through = Url::parse(&url.as_str().replace(&format!(":{upstream}"), &format!(":{port}"))).unwrap();
        let faulty = Faulty::open(&through);
        pairs.push(Pair { direct: open(&url), faulty, plan, creates_first: url.scheme() == "az" });
    }
    pairs
}

impl Pair {
    async fn content(&self, key: &Key) -> String {
        match self.direct.get(key).await {
            Ok(object) => String::from_utf8(object.payload.bytes.to_vec()).unwrap(),
            Err(ReadError::NotFound) => String::new(),
            Err(error) => panic!("reading back: {error}"),
        }
    }

    /// Appends to an object with the content `before` under these faults.
    async fn append_under(&self, key: &Key, before: &str, faults: &[Fault], expected: End) {
        let tail = format!("<under {faults:?}>");
        self.plan.lock().unwrap().extend(faults);
        let result = self.faulty.under(faults).append(key, payload(&tail), before.len() as u64).await;
        let after = self.content(key).await;
        let what = format!("{:?} {key} {faults:?}: {result:?}, then {after:?}", self.direct);
        let happened = after == format!("{before}{tail}");
        assert!(happened || after == before, "{what}");
        let end = End::of(&result);
        match end {
            End::Done => assert!(happened, "{what}"),
            End::Lost | End::Refused => assert!(!happened, "{what}"),
            End::Unknown => {}
        }
        assert_eq!(end, expected, "{what}");
        assert!(self.plan.lock().unwrap().is_empty(), "a fault was not met: {what}");
        if faults.contains(&Fault::Zombie) {
            assert!(!happened, "{what}");
            self.plan.deliver_zombie().await;
            assert_eq!(self.content(key).await, format!("{before}{tail}"), "it appears after all: {what}");
        }
    }
}

#[tokio::test]
async fn an_append_that_happened_is_never_reported_as_lost_or_refused() {
    for pair in pairs().await {
        for (number, (fault, expected)) in FAULTS.iter().enumerate() {
            let key = Key::new(&format!("extended-{number}"));
            pair.direct.append(&key, payload("before"), 0).await.unwrap();
            pair.append_under(&key, "before", &[*fault], *expected).await;
            let key = Key::new(&format!("created-{number}"));
            let faults = [Fault::Pass, *fault];
            pair.append_under(&key, "", if pair.creates_first { &faults } else { &faults[1..] }, *expected).await;
        }
    }
}

/// Azure needs two requests for an append at 0. Whatever happens to the first, the next append at 0 succeeds.
#[tokio::test]
async fn a_fault_between_creation_and_append_leaves_what_counts_as_absent() {
    for pair in pairs().await.into_iter().filter(|pair| pair.creates_first) {
        for (number, (fault, expected)) in FAULTS.iter().enumerate() {
            let key = Key::new(&format!("creation-{number}"));
            pair.plan.lock().unwrap().push_back(*fault);
            let result = pair.faulty.under(&[*fault]).append(&key, payload("mine"), 0).await;
            assert_eq!(End::of(&result), *expected, "{fault:?}: {result:?}");
            if result.is_ok() {
                assert_eq!(pair.content(&key).await, "mine");
                continue;
            }
            assert_eq!(pair.content(&key).await, "", "{fault:?}");
            pair.direct.append(&key, payload("next"), 0).await.unwrap();
            if *fault == Fault::Zombie {
                pair.plan.deliver_zombie().await;
            }
            assert_eq!(pair.content(&key).await, "next", "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_append_leaves_no_empty_object_behind() {
    for pair in pairs().await.into_iter().filter(|pair| pair.creates_first) {
        let key = Key::new("refused");
        pair.plan.lock().unwrap().extend([Fault::Pass, Fault::Answer(403, "AccessDenied")]);
        assert_eq!(End::of(&pair.faulty.under(&[]).append(&key, payload("x"), 0).await), End::Refused);
        assert!(matches!(pair.direct.head(&key).await, Err(ReadError::NotFound)));
        // Another client had created it, so it must not be removed.
        pair.plan.lock().unwrap().extend([Fault::Pass, Fault::LoseAnswer]);
        assert_eq!(End::of(&pair.faulty.under(&[]).append(&key, payload("x"), 0).await), End::Unknown);
        pair.plan.lock().unwrap().extend([Fault::Pass, Fault::Answer(403, "AccessDenied")]);
        assert_eq!(End::of(&pair.faulty.under(&[]).append(&key, payload("y"), 0).await), End::Refused);
        assert_eq!(pair.content(&key).await, "x");
    }
}

#[tokio::test]
async fn what_was_deleted_between_creation_and_append_is_created_again() {
    for pair in pairs().await.into_iter().filter(|pair| pair.creates_first) {
        let key = Key::new("deleted");
        pair.plan.lock().unwrap().extend([Fault::Pass, Fault::Answer(404, "BlobNotFound")]);
        pair.faulty.under(&[]).append(&key, payload("x"), 0).await.unwrap();
        assert_eq!(pair.content(&key).await, "x");
        assert_eq!(pair.faulty.under(&[]).counts().of(Operation::Append).requests, 4);
        let key = Key::new("deleted again and again");
        pair.plan.lock().unwrap().extend([Fault::Pass, Fault::Answer(404, "BlobNotFound")].repeat(8));
        assert_eq!(End::of(&pair.faulty.under(&[]).append(&key, payload("x"), 0).await), End::Refused);
        assert_eq!(pair.content(&key).await, "");
    }
}

#[tokio::test]
async fn an_append_to_what_was_put_is_refused_on_azure() {
    let Some(url) = server("GLIDEPATH_AZURE") else { return };
    let store = open(&fresh(url, "kinds"));
    let key = Key::new("put");
    store.put(&key, payload("put"), Guard::Absent).await.unwrap();
    for offset in [0, 3] {
        let error = store.append(&key, payload("x"), offset).await.unwrap_err();
        assert!(matches!(error, PutError::Refused(_)), "{error}");
        let words = error.to_string();
        assert!(words.contains("InvalidBlobType") && words.contains("only one that an append created"), "{words}");
    }
    assert_eq!(store.get(&key).await.unwrap().payload.bytes, "put");
}

/// The points of the suite about appends; this server does not list.
#[tokio::test]
async fn write_offsets_keep_the_contract_of_appends() {
    let url = small().await;
    let handles: Vec<CloudStore> = (0..16).map(|_| open(&url)).collect();
    let points: Vec<_> = POINTS.iter().filter(|point| point.name.starts_with("append-")).collect();
    assert!(points.len() >= 8);
    for point in points {
        check(&handles, &Key::new("suite"), point).await.unwrap_or_else(|violation| panic!("{violation}"));
    }
    handles[0].probe(&Key::new("scratch")).await.unwrap();
}

#[tokio::test]
async fn the_last_append_that_fits_is_followed_by_a_clear_refusal() {
    let store = open(&small().await);
    let key = Key::new("full");
    for number in 0..tiny::MOST_PARTS {
        store.append(&key, payload("x"), number).await.unwrap();
    }
    let error = store.append(&key, payload("x"), tiny::MOST_PARTS).await.unwrap_err();
    assert!(matches!(error, PutError::Refused(_)), "{error}");
    assert!(error.to_string().contains("TooManyParts; the object has as many appends"), "{error}");
}

/// Such a server replaces the object by the tail, and answers with success.
#[tokio::test]
async fn a_server_that_ignores_write_offsets_is_found_out() {
    let mut urls = vec![
        Url::parse(&format!("s3://b?endpoint=http://127.0.0.1:{}&append=true", tiny::start(false).await)).unwrap(),
    ];
    let real = server("GLIDEPATH_S3").map(|url| fresh(url, "offsets"));
    urls.extend(real.map(|mut url| {
        url.query_pairs_mut().append_pair("append", "true");
        url
    }));
    for (url, honours_guards) in urls.iter().zip([false, true]) {
        let store = open(url);
        let key = Key::new("log");
        store.append(&key, payload("four"), 0).await.unwrap();
        let error = store.append(&key, payload("more"), 4).await.unwrap_err();
        assert!(matches!(error, PutError::Unknown(_)), "{error}");
        assert!(error.to_string().contains("in the place of the object"), "{error}");
        let error = store.probe(&Key::new("scratch")).await.unwrap_err().to_string();
        let found = if honours_guards { "an append at the end" } else { "ignores If-None-Match" };
        assert!(error.contains(found), "{error}");
        assert!(matches!(store.head(&Key::new("scratch")).await, Err(ReadError::NotFound)));
    }
}

#[tokio::test]
async fn nothing_cannot_be_appended() {
    for pair in pairs().await {
        let key = Key::new("nothing");
        assert_eq!(End::of(&pair.direct.append(&key, Payload::default(), 0).await), End::Refused);
        assert!(matches!(pair.direct.head(&key).await, Err(ReadError::NotFound)));
    }
}
