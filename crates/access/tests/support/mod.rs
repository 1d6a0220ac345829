//! Issuers, keys and tokens for tests.

#![allow(dead_code, clippy::unwrap_used, reason = "tests only, and each takes what it needs")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use glidepath_access::{Access, AccessError, Fetch, Fetching};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

pub(crate) const ISSUER: &str = "https://id.example.org/realms/data";
pub(crate) const JWKS: &str = "https://keys.example.org/jwks.json";
/// The time of the tests.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A private key. The RSA key is a file, since `ring` makes none. It protects nothing.
pub(crate) enum Private {
    Ec(&'static str, EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl Private {
    pub(crate) fn p256() -> Self {
        Self::ec("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    pub(crate) fn p384() -> Self {
        Self::ec("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ec(curve: &'static str, algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let written = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ec(curve, EcdsaKeyPair::from_pkcs8(algorithm, written.as_ref(), &random).unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        let written = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(written.as_ref()).unwrap())
    }

    pub(crate) fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(include_bytes!("../data/rsa-for-tests.pk8")).unwrap()))
    }

    /// The public key as issuers publish it.
    pub(crate) fn public(&self, id: &str) -> Value {
        match self {
            Self::Ec(curve, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
                json!({"kty": "EC", "crv": curve, "kid": id, "x": base64(x), "y": base64(y), "use": "sig"})
            }
            Self::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(pair.public_key().as_ref())})
            }
            Self::Rsa(pair) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
                let (modulus, exponent) = (base64(&public.n), base64(&public.e));
                json!({"kty": "RSA", "kid": id, "n": modulus, "e": exponent})
            }
        }
    }

    /// The algorithms of this kind of key.
    pub(crate) fn algorithms(&self) -> &'static [&'static str] {
        match self {
            Self::Ec("P-256", _) => &["ES256"],
            Self::Ec(..) => &["ES384"],
            Self::Ed(_) => &["EdDSA"],
            Self::Rsa(_) => &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
        }
    }

    /// A signature by the key, whatever the algorithm is said to be.
    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ec(_, pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rsa(pair) => {
                let encoding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", base64(&signature))
    }

    /// A proper token, signed by the key `id`.
    pub(crate) fn good(&self, id: &str) -> String {
        self.token(&json!({"alg": self.algorithms()[0], "kid": id, "typ": "JWT"}), &claims())
    }
}

/// Header and claims, without a signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()))
}

/// A token "signed" with a password.
pub(crate) fn hs256(header: &Value, claims: &Value, password: &[u8]) -> String {
    let signed = unsigned(header, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, password), signed.as_bytes());
    format!("{signed}.{}", base64(tag.as_ref()))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The claims of a proper token.
pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "glidepath", "sub": "ada", "exp": NOW + 300, "nbf": NOW - 10, "iat": NOW - 10})
}

/// The claims of a proper token, with one replaced, or removed by null.
pub(crate) fn claims_but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// An issuer that counts how often its keys are fetched.
pub(crate) struct Issuer {
    pub(crate) name: Mutex<String>,
    pub(crate) jwks_uri: Mutex<String>,
    /// `None`: it cannot be reached.
    pub(crate) keys: Mutex<Option<Vec<Value>>>,
    pub(crate) fetches: AtomicUsize,
    /// How long an answer takes.
    pub(crate) delay: Mutex<Duration>,
}

impl Issuer {
    pub(crate) fn new(keys: Vec<Value>) -> Arc<Self> {
        Arc::new(Self {
            name: Mutex::new(ISSUER.to_owned()),
            jwks_uri: Mutex::new(JWKS.to_owned()),
            keys: Mutex::new(Some(keys)),
            fetches: AtomicUsize::new(0),
            delay: Mutex::new(Duration::ZERO),
        })
    }

    /// How often the keys were asked for.
    pub(crate) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, keys: Option<Vec<Value>>) {
        *self.keys.lock().unwrap() = keys;
    }

    fn answer(&self, url: &str) -> Result<Vec<u8>, String> {
        let keys = self.keys.lock().unwrap().clone().ok_or("no route to host")?;
        let answer = match url {
            "https://id.example.org/realms/data/.well-known/openid-configuration" => {
                json!({"issuer": *self.name.lock().unwrap(), "jwks_uri": *self.jwks_uri.lock().unwrap(), "more": [1]})
            }
            JWKS => json!({"keys": keys}),
            _ => return Err("404".to_owned()),
        };
        Ok(answer.to_string().into_bytes())
    }
}

/// Asks an issuer, by the clock of the runtime.
pub(crate) struct Ask(pub(crate) Arc<Issuer>, pub(crate) Instant);

impl Ask {
    pub(crate) fn new(issuer: &Arc<Issuer>) -> Self {
        Self(issuer.clone(), Instant::now())
    }
}

impl Fetch for Ask {
    fn get<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            if url.ends_with("openid-configuration") {
                self.0.fetches.fetch_add(1, Ordering::SeqCst);
            }
            let delay = *self.0.delay.lock().unwrap();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            self.0.answer(url)
        })
    }

    fn now(&self) -> Duration {
        self.1.elapsed()
    }
}

/// Asks nobody.
pub(crate) struct NoFetch;

impl Fetch for NoFetch {
    fn get<'a>(&'a self, _: &'a str) -> Fetching<'a> {
        Box::pin(async { Err("there is no network".to_owned()) })
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A folder with an access file.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// Loads an access file with this text. It fetches no keys.
    pub(crate) fn load(&self, text: &str) -> Result<Access, AccessError> {
        self.write("access.toml", text);
        Access::load(&self.path("access.toml"), Arc::new(NoFetch))
    }

    /// Loads an access file that takes the tokens of an issuer.
    pub(crate) fn load_jwt(&self, issuer: &Arc<Issuer>, more: &str) -> Access {
        self.write("access.toml", &format!("[jwt]\nissuer = {ISSUER:?}\naudience = \"glidepath\"\n{more}"));
        Access::load(&self.path("access.toml"), Arc::new(Ask::new(issuer))).unwrap()
    }
}
