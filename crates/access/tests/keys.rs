//! When the keys of an issuer are fetched.

mod support;

use std::sync::Arc;
use std::time::Duration;

use glidepath_access::{Access, Denied};
use serde_json::json;
use support::{Ask, Folder, Issuer, NOW, Private, claims};
use tokio::time::advance;

async fn is_taken(access: &Access, token: &str) -> bool {
    access.authenticate(Some(token), NOW).await.is_ok()
}

/// Lets the tasks run that nobody waits for.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_tokens_need_one_fetch() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    let access = folder.load_jwt(&issuer, "");
    assert_eq!(issuer.fetches(), 0);
    for _ in 0..100 {
        assert!(is_taken(&access, &key.good("k")).await);
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_cause_one_fetch_in_thirty_seconds() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    let access = folder.load_jwt(&issuer, "");
    access.warm().await.unwrap();
    advance(Duration::from_secs(31)).await;
    for second in 0..60 {
        for n in 0..20 {
            let denied = access.authenticate(Some(&key.good(&format!("{second}-{n}"))), NOW).await.unwrap_err();
            assert!(matches!(denied, Denied::Refused { .. }), "{denied:?}");
        }
        // Those who have a known key are not disturbed.
        assert!(is_taken(&access, &key.good("k")).await);
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(issuer.fetches(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_new_key_is_found() {
    let (old, new, folder) = (Private::p256(), Private::ed25519(), Folder::new());
    let issuer = Issuer::new(vec![old.public("old")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &old.good("old")).await);
    issuer.set(Some(vec![old.public("old"), new.public("new")]));
    assert!(!is_taken(&access, &new.good("new")).await);
    advance(Duration::from_secs(30)).await;
    assert!(is_taken(&access, &new.good("new")).await);
    assert!(is_taken(&access, &old.good("old")).await);
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_a_fetch() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    *issuer.delay.lock().unwrap() = Duration::from_secs(2);
    let access = Arc::new(folder.load_jwt(&issuer, ""));
    let token = key.good("k");
    let asks: Vec<_> = (0..50)
        .map(|_| {
            let (access, token) = (access.clone(), token.clone());
            tokio::spawn(async move { is_taken(&access, &token).await })
        })
        .collect();
    for ask in asks {
        assert!(ask.await.unwrap());
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_does_not_end_the_fetch() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    *issuer.delay.lock().unwrap() = Duration::from_secs(2);
    let access = folder.load_jwt(&issuer, "");
    let token = key.good("k");
    let hang_up = tokio::time::timeout(Duration::from_secs(1), access.authenticate(Some(&token), NOW));
    assert!(hang_up.await.is_err());
    assert!(is_taken(&access, &token).await);
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_are_kept_while_the_issuer_is_away() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &key.good("k")).await);
    issuer.set(None);
    for _ in 0..20 {
        advance(Duration::from_secs(300)).await;
        assert!(is_taken(&access, &key.good("k")).await);
        settle().await;
    }
    assert!(issuer.fetches() > 5);
    // Whether another key is one of the issuer cannot be told.
    let denied = access.authenticate(Some(&key.good("other")), NOW).await.unwrap_err();
    assert!(denied.is_unavailable(), "{denied:?}");
    // What went wrong is for the log; the client is not told about hosts.
    assert!(format!("{denied:?}").contains("no route") && !denied.to_string().contains("example.org"), "{denied:?}");
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_key_is_forgotten() {
    let (old, new, folder) = (Private::p256(), Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![old.public("old"), new.public("new")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &old.good("old")).await);
    issuer.set(Some(vec![new.public("new")]));
    advance(Duration::from_secs(599)).await;
    assert!(is_taken(&access, &old.good("old")).await);
    settle().await;
    assert_eq!(issuer.fetches(), 1);
    advance(Duration::from_secs(1)).await;
    // This one causes the fetch and does not wait for it.
    assert!(is_taken(&access, &old.good("old")).await);
    settle().await;
    assert_eq!(issuer.fetches(), 2);
    assert!(!is_taken(&access, &old.good("old")).await);
    assert!(is_taken(&access, &new.good("new")).await);
}

/// Nobody asked for two hours, or the machine slept.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_withdrawn_long_ago_is_not_taken_once() {
    let (old, new, folder) = (Private::p256(), Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![old.public("old"), new.public("new")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &old.good("old")).await);
    issuer.set(Some(vec![new.public("new")]));
    advance(Duration::from_secs(7200)).await;
    assert!(!is_taken(&access, &old.good("old")).await);
    assert!(is_taken(&access, &new.good("new")).await);
    // While the issuer is away, what is known counts.
    issuer.set(None);
    advance(Duration::from_secs(7200)).await;
    assert!(is_taken(&access, &new.good("new")).await);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_is_away_or_slow_at_first_is_asked_again() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    issuer.set(None);
    let access = folder.load_jwt(&issuer, "");
    assert!(access.warm().await.is_err_and(|denied| denied.is_unavailable()));
    assert!(access.authenticate(Some(&key.good("k")), NOW).await.is_err_and(|denied| denied.is_unavailable()));
    issuer.set(Some(vec![key.public("k")]));
    *issuer.delay.lock().unwrap() = Duration::from_secs(3600);
    advance(Duration::from_secs(30)).await;
    let denied = access.authenticate(Some(&key.good("k")), NOW).await.unwrap_err();
    assert!(format!("{denied:?}").contains("within 10 s"), "{denied:?}");
    *issuer.delay.lock().unwrap() = Duration::ZERO;
    advance(Duration::from_secs(30)).await;
    assert!(is_taken(&access, &key.good("k")).await);
    assert_eq!(issuer.fetches(), 3);
}

type Spoil = fn(&Issuer);

#[tokio::test(start_paused = true)]
async fn bad_discovery_is_refused() {
    let (key, folder) = (Private::p256(), Folder::new());
    let bad: [(Spoil, &str); 4] = [
        (|issuer| *issuer.name.lock().unwrap() = "https://thief.example.org".to_owned(), "thief"),
        (|issuer| *issuer.name.lock().unwrap() += "/", "exactly"),
        (|issuer| *issuer.jwks_uri.lock().unwrap() = "http://keys.example.org/jwks.json".to_owned(), "only https"),
        (|issuer| issuer.set(Some(vec![json!({"kty": "oct", "k": "AAAA", "kid": "k"})])), "no public key"),
    ];
    for (spoil, expected) in bad {
        let issuer = Issuer::new(vec![key.public("k")]);
        spoil(&issuer);
        let access = folder.load_jwt(&issuer, "");
        let denied = access.authenticate(Some(&key.good("k")), NOW).await.unwrap_err();
        assert!(format!("{denied:?}").contains(expected), "{denied:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_without_a_key_name_is_taken_if_there_is_one_key() {
    let (one, other, folder) = (Private::p256(), Private::p256(), Folder::new());
    let token = one.token(&json!({"alg": "ES256"}), &claims());
    let access = folder.load_jwt(&Issuer::new(vec![one.public("k"), Private::rsa().public("r")]), "");
    assert!(is_taken(&access, &token).await);
    let access = folder.load_jwt(&Issuer::new(vec![one.public("k"), other.public("l")]), "");
    assert!(!is_taken(&access, &token).await);
}

#[tokio::test(start_paused = true)]
async fn reloading_keeps_the_keys_of_the_same_issuer() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &key.good("k")).await);
    issuer.set(None);
    access.reload().unwrap();
    assert!(is_taken(&access, &key.good("k")).await);
    assert_eq!(issuer.fetches(), 1);
}

/// Old keys are fetched anew before a token is taken, but an issuer that hangs holds up one request, not all.
#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_is_not_waited_for_again_and_again() {
    let (key, folder) = (Private::p256(), Folder::new());
    let issuer = Issuer::new(vec![key.public("k")]);
    let access = folder.load_jwt(&issuer, "");
    assert!(is_taken(&access, &key.good("k")).await);
    *issuer.delay.lock().unwrap() = std::time::Duration::from_secs(3600);
    tokio::time::advance(std::time::Duration::from_secs(31 * 60)).await;
    let mut slow = 0;
    for _ in 0..120 {
        let began = tokio::time::Instant::now();
        assert!(is_taken(&access, &key.good("k")).await);
        slow += u32::from(began.elapsed().as_secs() >= 1);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(slow, 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_of_keys_needs_no_network() {
    let (old, new, folder) = (Private::p256(), Private::ed25519(), Folder::new());
    let issuer = Issuer::new(vec![]);
    issuer.set(None);
    folder.write("keys.json", &json!({"keys": [old.public("old")]}).to_string());
    let access = folder.load_jwt(&issuer, "jwks-file = \"keys.json\"\n");
    assert!(is_taken(&access, &old.good("old")).await);
    // A changed file is read when a token names another key.
    folder.write("keys.json", &json!({"keys": [new.public("new")]}).to_string());
    assert!(is_taken(&access, &new.good("new")).await);
    assert!(!is_taken(&access, &old.good("old")).await);
    // Reloading refuses a broken one, and goes on with what it has.
    folder.write("keys.json", "{");
    assert!(access.reload().unwrap_err().to_string().contains("keys.json"));
    assert!(is_taken(&access, &new.good("new")).await);
    assert!(Access::load(&folder.path("access.toml"), Arc::new(Ask::new(&issuer))).is_err());
    folder.write("keys.json", &json!({"keys": [old.public("old")]}).to_string());
    access.reload().unwrap();
    assert!(is_taken(&access, &old.good("old")).await);
    assert_eq!(issuer.fetches(), 0);
}
