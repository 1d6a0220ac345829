//! Directory buckets of S3 Express One Zone, on a server of the tests: the contract, sessions that end, sessions that
//! are refused, listings without order.
//!
//! Without credentials, requests to an unencrypted endpoint are anonymous. The environment belongs to a process, so
//! each test runs in a child that has credentials.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cloud_support;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use cloud_support::directory::{BASE_TOKEN, KEY_ID, REGION, Rules, Server};
use cloud_support::proxy::{self, Fault};
use cloud_support::{Deviation, End, conforms, open, open_with};
use glidepath_env::{Guard, Key, ObjectStore, Payload, ReadError};
use glidepath_model::{Changes, Span, TableId, TableState};
use glidepath_protocols::append_log::{AppendLog, Limits, SharedState};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_stores::cloud::{CloudStore, Operation};
use glidepath_stores::{LiveEnv, Options, Store};

const DEVIATIONS: &[Deviation] =
    &[("dots-and-slashes", "the client library changes such keys, so the store refuses them")];

const CHILD: &str = "GLIDEPATH_TEST_EXPRESS";

/// Runs the test of this name in a child that has credentials.
fn with_credentials(test: &str, body: impl Future<Output = ()>) {
    if std::env::var(CHILD).is_ok() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(body);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_PROFILE", "AWS_DEFAULT_REGION"] {
        command.env_remove(name);
    }
    // A wrong endpoint in the environment must be ignored if the URL has one.
    command.envs([("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"), ("AWS_S3_EXPRESS", "true"), ("AWS_REGION", REGION)]);
    command.envs([
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
        ("AWS_SESSION_TOKEN", BASE_TOKEN),
    ]);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(!said.contains("hidden") && !said.contains("-token"), "a secret in {said}");
}

fn payload(text: &str) -> Payload {
    Payload::from(Bytes::from(text.to_owned()))
}

fn requests(store: &CloudStore, operation: Operation) -> u64 {
    store.counts().of(operation).requests
}

/// According to the server, every request followed Amazon's rules.
fn no_mistakes(server: &Server) {
    let directory = server.look();
    assert!(directory.mistakes.is_empty(), "{:#?}", directory.mistakes);
}

#[test]
fn keeps_the_contract() {
    with_credentials("keeps_the_contract", async {
        let server = Server::start(Rules { uses: 25, page: 4, ..Rules::default() }).await;
        conforms(&Server::url(server.port), DEVIATIONS).await;
        no_mistakes(&server);
        let (given, ended) = server.sessions();
        assert!(given > 16 && ended > 0, "{given} sessions, of which {ended} requests came too late");
    });
}

#[test]
fn one_session_serves_many_requests_of_all_kinds() {
    with_credentials("one_session_serves_many_requests_of_all_kinds", async {
        let server = Server::start(Rules::default()).await;
        let store = open(&Server::url(server.port));
        let capabilities = store.capabilities();
        assert!(capabilities.append && capabilities.put_if_absent && capabilities.put_if_match);
        let tasks: Vec<_> = (0..30)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let key = Key::new(&format!("folder/{number}"));
                    store.append(&key, payload("x"), 0).await.unwrap();
                    store.get(&key).await.unwrap();
                    store.list(&Key::new("folder/"), None, 1).await.unwrap();
                    store.delete(&key).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        store.probe(&Key::new("scratch")).await.unwrap();
        no_mistakes(&server);
        assert_eq!(server.sessions(), (1, 0));
        assert_eq!(requests(&store, Operation::Credentials), 1);
    });
}

/// The server's sessions end as soon as they are given, by a clock that is decades behind.
#[test]
fn a_session_is_replaced_before_it_ends() {
    with_credentials("a_session_is_replaced_before_it_ends", async {
        let server = Server::start(Rules { lasts: 0, uses: 1, ..Rules::default() }).await;
        let store = open(&Server::url(server.port));
        for number in 0..5 {
            store.append(&Key::new("log"), payload("x"), number).await.unwrap();
        }
        no_mistakes(&server);
        assert_eq!(server.sessions(), (5, 0));
    });
}

#[test]
fn a_session_that_ends_before_its_time_is_survived() {
    with_credentials("a_session_that_ends_before_its_time_is_survived", async {
        let server = Server::start(Rules { uses: 3, ..Rules::default() }).await;
        let store = open(&Server::url(server.port));
        let key = Key::new("log");
        for number in 0..10 {
            store.append(&key, payload("x"), number).await.unwrap();
            assert_eq!(store.head(&key).await.unwrap().size.as_bytes(), number + 1);
            let guarded = Key::new(&format!("guarded-{number}"));
            store.put(&guarded, payload("mine"), Guard::Absent).await.unwrap();
            assert_eq!(End::of(&store.put(&guarded, payload("again"), Guard::Absent).await), End::Lost);
            store.delete(&guarded).await.unwrap();
        }
        assert_eq!(store.get(&key).await.unwrap().payload.bytes, "x".repeat(10));
        no_mistakes(&server);
        // 51 requests, three to a session; each that came too late was sent twice.
        assert_eq!(server.sessions(), (17, 16));
        assert_eq!(store.counts().total().repeats, 16);
    });
}

#[test]
fn a_session_that_is_not_given_is_one_clear_message() {
    with_credentials("a_session_that_is_not_given_is_one_clear_message", async {
        let server = Server::start(Rules { closed: true, ..Rules::default() }).await;
        let store = open(&Server::url(server.port));
        let key = Key::new("key");
        let messages = [
            store.put(&key, payload("x"), Guard::Absent).await.unwrap_err().to_string(),
            store.append(&key, payload("x"), 0).await.unwrap_err().to_string(),
            store.get(&key).await.unwrap_err().to_string(),
            store.head(&key).await.unwrap_err().to_string(),
            store.list(&key, None, 1).await.unwrap_err().to_string(),
            store.delete(&key).await.unwrap_err().to_string(),
            store.probe(&key).await.unwrap_err().to_string(),
        ];
        for message in &messages {
            println!("{message}");
            let once = message.matches("no session could be created").count() == 1;
            assert!(once && message.contains("403 AccessDenied; check the credentials"), "{message}");
            assert!(message.contains("s3express:CreateSession"), "{message}");
        }
        // Two are the probe's: a put, and the delete after it. Only sessions were requested.
        assert_eq!(requests(&store, Operation::Credentials), 8);
        assert_eq!(store.counts().total().requests, 8);
    });
}

#[test]
fn a_fault_while_asking_for_a_session_leaves_no_write_unknown() {
    with_credentials("a_fault_while_asking_for_a_session_leaves_no_write_unknown", async {
        let server = Server::start(Rules::default()).await;
        let faults = [
            Fault::LoseAnswer,
            Fault::CutAnswer,
            Fault::ResetRequest,
            Fault::SlowAnswer,
            Fault::Answer(500, "InternalError"),
            Fault::Answer(503, ""),
            Fault::Answer(503, "SlowDown"),
            Fault::Answer(429, ""),
        ];
        for (number, fault) in faults.into_iter().enumerate() {
            for (repeats, expected) in [(0, End::Refused), (1, End::Done)] {
                let (port, plan) = proxy::start(server.port, false).await;
                plan.lock().unwrap().push_back(fault);
                let mut options = Options { repeats, ..Options::default() };
                if fault == Fault::SlowAnswer {
                    options.request_timeout = Span::from_secs(2);
                }
                let store = open_with(&Server::url(port), &options);
                let key = Key::new(&format!("{number}-{repeats}"));
                let result = store.put(&key, payload("x"), Guard::Absent).await;
                assert_eq!(End::of(&result), expected, "{fault:?} with {repeats} repeats: {result:?}");
                assert!(plan.lock().unwrap().is_empty());
                let read = store.head(&key).await;
                match expected {
                    End::Done => drop(read.unwrap()),
                    _ => assert!(matches!(read, Err(ReadError::NotFound)), "{fault:?}: {read:?}"),
                }
                assert_eq!(store.counts().of(Operation::Credentials).repeats, u64::from(repeats));
            }
        }
        no_mistakes(&server);
    });
}

/// The refused request had no effect; the ending of the next one counts.
#[test]
fn a_fault_behind_a_session_that_was_refused_ends_as_it_would_alone() {
    with_credentials("a_fault_behind_a_session_that_was_refused_ends_as_it_would_alone", async {
        let server = Server::start(Rules::default()).await;
        let denied = Fault::Answer(403, "AccessDenied");
        let plans = [
            (&[Fault::Pass, denied, Fault::Pass, Fault::Twice][..], End::Done),
            (&[Fault::Pass, denied, Fault::Pass, Fault::LoseAnswer], End::Unknown),
            (&[Fault::Pass, denied, Fault::Pass, Fault::ResetRequest], End::Unknown),
            (&[Fault::Pass, denied, Fault::Pass, denied], End::Refused),
            (&[Fault::Pass, denied, denied], End::Refused),
            (&[Fault::Pass, Fault::Answer(400, "ExpiredToken"), Fault::LoseAnswer], End::Refused),
            (&[Fault::Pass, Fault::Answer(400, "InvalidArgument")], End::Refused),
            (&[Fault::Pass, Fault::LoseAnswer], End::Unknown),
        ];
        for (number, (faults, expected)) in plans.into_iter().enumerate() {
            let (port, plan) = proxy::start(server.port, false).await;
            plan.lock().unwrap().extend(faults);
            let store = open_with(&Server::url(port), &Options { repeats: 0, ..Options::default() });
            let key = Key::new(&number.to_string());
            let result = store.append(&key, payload("x"), 0).await;
            assert_eq!(End::of(&result), expected, "{faults:?}: {result:?}");
            assert!(plan.lock().unwrap().is_empty(), "{faults:?}");
            if expected == End::Refused {
                assert!(matches!(store.head(&key).await, Err(ReadError::NotFound)), "{faults:?}");
            }
        }
        no_mistakes(&server);
    });
}

#[test]
fn listings_are_in_order_and_cost_the_whole_folder() {
    with_credentials("listings_are_in_order_and_cost_the_whole_folder", async {
        let server = Server::start(Rules { page: 7, ..Rules::default() }).await;
        let store = open(&Server::url(server.port));
        let mut names: BTreeSet<String> = (0..40).map(|number| format!("many/{:02}", (number * 17) % 40)).collect();
        names.extend(["A", "many", "many-", "many!x", "many/sub/deeper", "many0", "z/1"].map(str::to_owned));
        for name in &names {
            store.put(&Key::new(name), payload("x"), Guard::Absent).await.unwrap();
        }
        for prefix in ["", "many", "many/", "many/1", "many/sub/", "none/", "z"] {
            for after in [None, Some("many"), Some("many/"), Some("many/17"), Some("many/99"), Some("zz")] {
                for limit in [1, 2, 9, 100] {
                    let page = store.list(&Key::new(prefix), after.map(Key::new).as_ref(), limit).await.unwrap();
                    let found: Vec<&str> = page.objects.iter().map(|listed| listed.key.as_str()).collect();
                    let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
                    wanted.retain(|name| name.starts_with(prefix) && after.is_none_or(|after| *name > after));
                    let what = format!("{prefix:?} after {after:?}, at most {limit}");
                    assert_eq!(page.more, wanted.len() > limit, "{what}");
                    wanted.truncate(limit);
                    assert_eq!(found, wanted, "{what}");
                }
            }
        }
        no_mistakes(&server);
        // In pages of 7: 41 objects in the folder, 47 in all.
        for (prefix, pages) in [("many/3", 6), ("many", 7), ("z/", 1)] {
            let before = requests(&store, Operation::List);
            store.list(&Key::new(prefix), None, 1).await.unwrap();
            assert_eq!(requests(&store, Operation::List) - before, pages, "{prefix}");
        }
    });
}

#[test]
fn the_last_append_that_fits_is_followed_by_a_clear_refusal() {
    with_credentials("the_last_append_that_fits_is_followed_by_a_clear_refusal", async {
        let server = Server::start(Rules { uses: 5, most_parts: 12, ..Rules::default() }).await;
        let store = open(&Server::url(server.port));
        let key = Key::new("full");
        for number in 0..12 {
            store.append(&key, payload("x"), number).await.unwrap();
        }
        let error = store.append(&key, payload("x"), 12).await;
        assert_eq!(End::of(&error), End::Refused);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("TooManyParts; the object has as many appends"), "{error}");
    });
}

#[test]
fn an_append_log_lives_on_it() {
    with_credentials("an_append_log_lives_on_it", async {
        let server = Server::start(Rules { uses: 10, page: 2, ..Rules::default() }).await;
        let log = || {
            let store = Store::Cloud(open(&Server::url(server.port)));
            let limits = Limits { records: 3, ..Limits::default() };
            AppendLog::new(LiveEnv::new(), store, Arc::new(SharedState::new("log", limits)))
        };
        let catalog = log();
        let table = TableId(7);
        let created = catalog.create(vec![(table, TableState::new(1))]).await;
        assert!(matches!(created, Outcome::Committed(_)), "{created:?}");
        let mut base = catalog.load().await.unwrap();
        for _ in 0..12 {
            let committed = catalog.commit(&base, &Changes::default()).await;
            let Outcome::Committed(next) = committed else { panic!("{committed:?}") };
            base = next;
        }
        // A process that knows nothing finds all of it.
        let found = log().load().await.unwrap();
        assert_eq!(found.commit(), base.commit());
        assert!(found.table(table).is_some());
        let vacuumed = log().vacuum(2).await.unwrap();
        assert!(vacuumed.segments > 0, "{vacuumed:?}");
        no_mistakes(&server);
        assert!(server.sessions().0 > 2);
    });
}
