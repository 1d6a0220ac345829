//! Tests of when a session is renewed, and how an answer is read.

use std::sync::atomic::{AtomicU64, Ordering};

use object_store::StaticCredentialProvider;

use super::*;

const BODY: &str = "<CreateSessionResult><Credentials><SessionToken>T+/=</SessionToken><SecretAccessKey>S</SecretAccessKey>\
    <AccessKeyId>A</AccessKeyId><Expiration>2026-11-21T20:12:05Z</Expiration></Credentials></CreateSessionResult>";

fn headers(date: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))])
}

#[test]
fn a_session_lasts_as_long_as_the_server_says_by_its_own_clock() {
    let began = Instant::now();
    for (date, lasts, fresh) in [
        ("Sat, 21 Nov 2026 20:07:05 GMT", 300, 240),
        ("Sat, 21 Nov 2026 20:11:55 GMT", 10, 8),
        ("Sat, 21 Nov 2026 20:12:06 GMT", 0, 0),
        ("Sat, 21 Nov 2020 20:12:05 GMT", 43_200, 43_140),
        ("nonsense", 300, 240),
    ] {
        let session = read(&headers(date), BODY, began).unwrap();
        assert_eq!(session.ends - began, Duration::from_secs(lasts), "{date}");
        assert_eq!(session.renew_from - began, Duration::from_secs(fresh), "{date}");
        assert_eq!((session.key.key_id.as_str(), session.key.secret_key.as_str()), ("A", "S"));
        assert_eq!(session.token, "T+/=");
        assert!(session.token.is_sensitive() && session.key.token.is_none());
    }
    assert!(read(&HeaderMap::new(), "<Error><Code>SlowDown</Code></Error>", began).is_none());
}

/// Fails all requests, and counts them.
#[derive(Debug, Default)]
struct Silent(Arc<AtomicU64>);

#[async_trait]
impl HttpService for Silent {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        // The test has one thread: after this many turns all other tasks are waiting.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Err(HttpError::new(HttpErrorKind::Connect, std::io::Error::other("nobody answers")))
    }
}

fn unanswered() -> (Sessions, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let key = AwsCredential { key_id: "A".to_owned(), secret_key: "S".to_owned(), token: None };
    let sessions = Sessions::new(Source {
        wire: HttpClient::new(Silent(Arc::clone(&asked))),
        base: "http://127.0.0.1:1/bucket".to_owned(),
        region: "us-east-1".to_owned(),
        credentials: Arc::new(StaticCredentialProvider::new(key)),
        repeats: 0,
        tally: Arc::new(Tally::default()),
    });
    (sessions, asked)
}

#[tokio::test]
async fn one_failure_is_enough_for_all_who_wait() {
    let (sessions, asked) = unanswered();
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let sessions = sessions.clone();
            tokio::spawn(async move { sessions.session(None).await })
        })
        .collect();
    for waiting in waiting {
        let why = waiting.await.unwrap().unwrap_err();
        assert!(why.contains("no session could be created"), "{why}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // A later request tries again.
    sessions.session(None).await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_old_session_serves_until_its_end_while_there_is_no_new_one() {
    let (sessions, asked) = unanswered();
    let now = Instant::now();
    let hour = Duration::from_secs(60 * 60);
    let mut old = read(&HeaderMap::new(), BODY, now).unwrap();
    (old.renew_from, old.ends) = (now, now + hour);
    *sessions.0.current.lock().unwrap() = Some(Arc::new(old));
    for _ in 0..3 {
        assert_eq!(sessions.session(None).await.unwrap().token, "T+/=");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1, "it asks again only after a pause");
    // After it was refused it is not used any more.
    let refused = sessions.session(None).await.unwrap();
    sessions.session(Some(&refused)).await.unwrap_err();
}
