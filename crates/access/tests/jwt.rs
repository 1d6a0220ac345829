//! JSON web tokens: which are taken, and which attacks are refused.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use glidepath_access::{Access, Denied, Identity};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Folder, ISSUER, Issuer, NOW, Private, base64, claims, claims_but, hs256, unsigned};

struct Bench {
    key: Private,
    access: Access,
    _folder: Folder,
}

/// A server that takes tokens of one key.
fn bench(key: Private, more: &str) -> Bench {
    let folder = Folder::new();
    let access = folder.load_jwt(&Issuer::new(vec![key.public("k")]), more);
    Bench { key, access, _folder: folder }
}

impl Bench {
    async fn ask(&self, token: &str) -> Result<Identity, Denied> {
        self.access.authenticate(Some(token), NOW).await
    }

    async fn ask_claims(&self, claims: &Value) -> Result<Identity, Denied> {
        self.ask(&self.key.token(&json!({"alg": self.key.algorithms()[0], "kid": "k"}), claims)).await
    }

    /// Why a token is refused. No part of it is shown.
    async fn refusal(&self, token: &str) -> String {
        let denied = self.ask(token).await.unwrap_err();
        for part in token.split('.').filter(|part| part.len() > 8) {
            assert!(!format!("{denied} {denied:?}").contains(part));
        }
        match denied {
            Denied::Refused { why } => why.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    async fn refusal_of_claims(&self, claims: &Value) -> String {
        self.refusal(&self.key.token(&json!({"alg": self.key.algorithms()[0], "kid": "k"}), claims)).await
    }
}

#[tokio::test]
async fn every_algorithm_is_taken_by_its_own_kind_of_key_only() {
    let keys = [Private::p256(), Private::p384(), Private::ed25519(), Private::rsa()];
    let algorithms: Vec<&str> = keys.iter().flat_map(|key| key.algorithms()).copied().collect();
    assert_eq!(algorithms.len(), 9);
    for key in keys {
        let own = key.algorithms();
        let bench = bench(key, "");
        for algorithm in &algorithms {
            let token = bench.key.token(&json!({"alg": algorithm, "kid": "k"}), &claims());
            let taken = bench.ask(&token).await;
            assert_eq!(taken.is_ok(), own.contains(algorithm), "{algorithm}: {taken:?}");
        }
    }
}

#[tokio::test]
async fn a_signature_counts_for_its_own_algorithm_only() {
    let bench = bench(Private::rsa(), "");
    let token = bench.key.token(&json!({"alg": "RS256", "kid": "k"}), &claims());
    let (_, signature) = token.rsplit_once('.').unwrap();
    for other in ["RS384", "PS256"] {
        let forged = format!("{}.{signature}", unsigned(&json!({"alg": other, "kid": "k"}), &claims()));
        assert!(bench.refusal(&forged).await.contains("signature"));
    }
}

#[tokio::test]
async fn unsigned_tokens_are_refused() {
    let bench = bench(Private::p256(), "");
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({"alg": name, "kid": "k"});
        for signature in ["", "AAAA"] {
            let why = bench.refusal(&format!("{}.{signature}", unsigned(&header, &claims()))).await;
            assert!(why.contains("algorithm"), "{why}");
        }
        assert!(bench.refusal(&bench.key.token(&header, &claims())).await.contains("algorithm"));
    }
    let header = json!({"alg": "ES256", "kid": "k"});
    for signature in [String::new(), base64(&[0; 64]), base64(&[0; 63]), base64(&[255; 64])] {
        let why = bench.refusal(&format!("{}.{signature}", unsigned(&header, &claims()))).await;
        assert!(why.contains("signature"), "{why}");
    }
}

#[tokio::test]
async fn public_keys_are_no_passwords() {
    for key in [Private::rsa(), Private::p256()] {
        let bench = bench(key, "");
        let public = bench.key.public("k");
        let modulus = public.get("n").or(public.get("x")).and_then(Value::as_str).unwrap();
        for password in [public.to_string().as_bytes(), modulus.as_bytes(), b""] {
            for name in ["HS256", "hs256", "HS512"] {
                let why = bench.refusal(&hs256(&json!({"alg": name, "kid": "k"}), &claims(), password)).await;
                assert!(why.contains("algorithm"), "{why}");
            }
            // The same tag with the name of an algorithm that is allowed.
            let name = bench.key.algorithms()[0];
            let why = bench.refusal(&hs256(&json!({"alg": name, "kid": "k"}), &claims(), password)).await;
            assert!(why.contains("signature"), "{why}");
        }
    }
}

#[tokio::test]
async fn keys_that_a_token_brings_along_are_not_used() {
    let bench = bench(Private::p256(), "");
    let thief = Private::p256();
    let header = json!({"alg": "ES256", "kid": "k", "jwk": thief.public("k"), "jku": "https://thief.example.org/keys"});
    assert!(bench.refusal(&thief.token(&header, &claims())).await.contains("signature"));
}

#[tokio::test]
async fn changed_tokens_are_refused() {
    let bench = bench(Private::ed25519(), "");
    let token = bench.key.good("k");
    assert_eq!(bench.ask(&token).await.unwrap().name(), "ada");
    let (header, rest) = token.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let changed = base64(claims_but("sub", json!("root")).to_string().as_bytes());
    assert!(bench.refusal(&format!("{header}.{changed}.{signature}")).await.contains("signature"));
    for wrong in [format!("{token}="), format!("{token}AAAA"), format!("{token}."), format!("{token}.x")] {
        bench.refusal(&wrong).await;
    }
}

#[tokio::test]
async fn issuer_and_audience_must_be_these() {
    let bench = bench(Private::p256(), "");
    for wrong in
        [json!("https://thief.example.org"), json!(format!("{ISSUER}/")), json!([ISSUER]), json!(1), Value::Null]
    {
        assert!(bench.refusal_of_claims(&claims_but("iss", wrong)).await.contains("iss"));
    }
    for wrong in
        [json!("other"), json!("glidepath2"), json!([]), json!(["other"]), json!({"a": "glidepath"}), Value::Null]
    {
        assert!(bench.refusal_of_claims(&claims_but("aud", wrong)).await.contains("aud"));
    }
    bench.ask_claims(&claims_but("aud", json!(["other", "glidepath"]))).await.unwrap();
}

#[tokio::test]
async fn tokens_hold_for_a_time() {
    let bench = bench(Private::p256(), "");
    // The clocks may differ by a minute.
    for right in [json!(NOW - 59), json!(NOW + 1), json!(NOW as f64 + 0.5), json!(1e300)] {
        bench.ask_claims(&claims_but("exp", right)).await.unwrap();
    }
    for wrong in [json!(NOW - 60), json!(0), json!(-1), json!(NOW - 3600)] {
        assert!(bench.refusal_of_claims(&claims_but("exp", wrong)).await.contains("expired"));
    }
    assert!(bench.refusal_of_claims(&claims_but("exp", Value::Null)).await.contains("exp is missing"));
    for wrong in [json!("9999999999"), json!([NOW + 300]), json!(true), json!({})] {
        assert!(bench.refusal_of_claims(&claims_but("exp", wrong.clone())).await.contains("no time"));
        assert!(bench.refusal_of_claims(&claims_but("nbf", wrong)).await.contains("no time"));
    }
    bench.ask_claims(&claims_but("nbf", json!(NOW + 60))).await.unwrap();
    bench.ask_claims(&claims_but("nbf", Value::Null)).await.unwrap();
    assert!(bench.refusal_of_claims(&claims_but("nbf", json!(NOW + 61))).await.contains("not valid yet"));
}

#[tokio::test]
async fn only_access_tokens_without_extensions_are_taken() {
    let bench = bench(Private::p256(), "");
    for kind in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let header = json!({"alg": "ES256", "kid": "k", "typ": kind});
        bench.ask(&bench.key.token(&header, &claims())).await.unwrap();
    }
    for more in
        [("typ", json!("logout+jwt")), ("typ", json!("dpop+jwt")), ("crit", json!(["b64"])), ("crit", json!([]))]
    {
        let mut header = json!({"alg": "ES256", "kid": "k"});
        header[more.0] = more.1;
        assert!(bench.refusal(&bench.key.token(&header, &claims())).await.contains(more.0));
    }
    let twice = format!("{}.{}", base64(b"{\"alg\":\"ES256\",\"alg\":\"none\"}"), base64(b"{}"));
    assert!(bench.refusal(&format!("{twice}.AAAA")).await.contains("header"));
    let long = bench.key.token(&json!({"alg": "ES256", "kid": "k"}), &claims_but("x", json!("x".repeat(20_000))));
    assert!(bench.refusal(&long).await.contains("bytes"));
}

#[tokio::test]
async fn names_come_from_the_claims_that_are_set() {
    let key = Private::p256();
    let more = "subject-claim = \"email\"\ngroups-claim = \"realm_access.roles\"\n";
    let bench = bench(key, more);
    let mut all = claims_but("email", json!("ada@example.org"));
    all["realm_access"] = json!({"roles": ["b", "a", "b"]});
    let identity = bench.ask_claims(&all).await.unwrap();
    assert_eq!(identity, Identity::new("ada@example.org", ["a".to_owned(), "b".to_owned()]));
    assert!(!identity.is_unchecked());
    // A claim whose own name has the dot is taken first.
    all["realm_access.roles"] = json!("c");
    assert_eq!(bench.ask_claims(&all).await.unwrap().groups().collect::<Vec<_>>(), ["c"]);
    for wrong in [json!([1]), json!({}), json!(7)] {
        all["realm_access.roles"] = wrong;
        assert!(bench.refusal_of_claims(&all).await.contains("realm_access.roles"));
    }
    for wrong in [json!(""), json!("a\nb"), json!(7), json!(["ada"]), Value::Null] {
        assert!(bench.refusal_of_claims(&claims_but("email", wrong)).await.contains("email"));
    }
    assert_eq!(bench.ask_claims(&claims_but("email", json!("x"))).await.unwrap(), Identity::new("x", []));
}

#[tokio::test]
async fn only_the_algorithms_that_are_set_are_taken() {
    let bench = bench(Private::rsa(), "algorithms = [\"PS256\"]\n");
    bench.ask(&bench.key.token(&json!({"alg": "PS256", "kid": "k"}), &claims())).await.unwrap();
    let why = bench.refusal(&bench.key.token(&json!({"alg": "RS256", "kid": "k"}), &claims())).await;
    assert!(why.contains("PS256") && !why.contains("RS256"), "{why}");
}

#[tokio::test]
async fn static_tokens_and_issuers_share_no_names() {
    let more = "[[token]]\nname = \"ada\"\ntoken = \"0123456789abcdef0123\"\n";
    let bench = bench(Private::p256(), more);
    assert_eq!(bench.ask("0123456789abcdef0123").await.unwrap().name(), "ada");
    assert!(bench.refusal(&bench.key.good("k")).await.contains("static token"));
    assert_eq!(bench.ask_claims(&claims_but("sub", json!("bob"))).await.unwrap().name(), "bob");
    assert_eq!(bench.access.authenticate(None, NOW).await, Err(Denied::Missing));
    assert_eq!(bench.ask("0123456789abcdef0124").await, Err(Denied::Unknown));
}

/// Texts like tokens, and parts of them.
fn garbage() -> impl Strategy<Value = String> {
    let header = Just(base64(b"{\"alg\":\"ES256\",\"kid\":\"k\"}"));
    let part = prop_oneof![
        any::<String>(),
        "[A-Za-z0-9_-]{0,40}",
        header,
        any::<Vec<u8>>().prop_map(|bytes| base64(&bytes)),
        "\\PC*".prop_map(|text| base64(format!("{{\"alg\":\"RS256\",\"kid\":{text:?}}}").as_bytes())),
    ];
    prop_oneof![any::<String>(), proptest::collection::vec(part, 0..6).prop_map(|parts| parts.join("."))]
}

proptest! {
    #[test]
    fn garbage_is_refused_without_a_panic(texts in proptest::collection::vec(garbage(), 20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let bench = bench(Private::p256(), "");
            for text in texts {
                assert!(bench.ask(&text).await.is_err());
            }
        });
    }

    #[test]
    fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9._-]") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let bench = bench(Private::ed25519(), "");
            let mut token = bench.key.good("k");
            let at = at.index(token.len());
            if token[at..=at] != to {
                token.replace_range(at..=at, &to);
                assert!(bench.ask(&token).await.is_err());
            }
        });
    }
}
