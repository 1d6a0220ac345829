//! A set of public keys, as issuers publish them (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::algorithm::{Algorithm, PublicKey};

/// The most keys of a set. Issuers have a handful.
const MOST_KEYS: usize = 100;

/// Keys that check signatures.
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

pub(crate) struct Key {
    id: Option<String>,
    /// The only algorithm that the issuer uses it for, if it says so.
    algorithm: Option<String>,
    public: PublicKey,
}

/// A key as it is written. Fields that only other kinds of keys have are ignored.
#[derive(Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct WrittenSet {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// No key yet.
    pub(crate) fn none() -> Self {
        Self { keys: Vec::new() }
    }

    /// Reads a set. Skips keys of other kinds and purposes, as the standard asks for.
    pub(crate) fn of_json(bytes: &[u8]) -> Result<Self, String> {
        let written: WrittenSet = serde_json::from_slice(bytes)
            .map_err(|error| format!("no key set, which is JSON like {{\"keys\": [...]}}: {error}"))?;
        if written.keys.len() > MOST_KEYS {
            return Err(format!("the key set has {} keys; at most {MOST_KEYS} are allowed", written.keys.len()));
        }
        let keys: Vec<Key> = written.keys.into_iter().filter_map(Key::of_json).collect();
        if keys.is_empty() {
            let kinds = "RSA from 2048 bits, P-256, P-384 and Ed25519";
            return Err(format!("the key set has no public key that checks signatures; usable kinds: {kinds}"));
        }
        Ok(Self { keys })
    }

    /// The keys with which a token may be signed. A token that names no key can be checked if there is one only.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<&PublicKey> {
        let fit = self.keys.iter().filter(|key| key.fits(algorithm));
        let found: Vec<_> = fit.filter(|key| id.is_none() || key.id.as_deref() == id).map(|key| &key.public).collect();
        if id.is_none() && found.len() > 1 { Vec::new() } else { found }
    }
}

impl Key {
    fn of_json(value: serde_json::Value) -> Option<Self> {
        let written: Written = serde_json::from_value(value).ok()?;
        let signs = written.usage.as_deref().is_none_or(|usage| usage == "sig");
        let verifies = written.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|name| name == "verify"));
        if !signs || !verifies {
            return None;
        }
        let public = written.public()?;
        Some(Self { id: written.kid, algorithm: written.alg, public })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.public.fits(algorithm) && self.algorithm.as_deref().is_none_or(|name| name == algorithm.name())
    }
}

impl Written {
    fn public(&self) -> Option<PublicKey> {
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = number(self.n.as_deref()?)?;
                let exponent = number(self.e.as_deref()?)?;
                (modulus.len() >= 256).then_some(PublicKey::Rsa { modulus, exponent })
            }
            ("EC", Some("P-256")) => self.point(32).map(PublicKey::P256),
            ("EC", Some("P-384")) => self.point(48).map(PublicKey::P384),
            ("OKP", Some("Ed25519")) => {
                let point = decoded(self.x.as_deref()?)?;
                (point.len() == 32).then_some(PublicKey::Ed25519(point))
            }
            _ => None,
        }
    }

    /// A point of a curve, uncompressed.
    fn point(&self, length: usize) -> Option<Vec<u8>> {
        let x = decoded(self.x.as_deref()?)?;
        let y = decoded(self.y.as_deref()?)?;
        (x.len() == length && y.len() == length).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// A number without leading zeros, which some issuers write and the standard forbids.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = decoded(text)?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[start..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC: &str = r#""kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM""#;

    fn set(keys: &[String]) -> Result<KeySet, String> {
        KeySet::of_json(format!("{{\"keys\":[{}],\"more\":1}}", keys.join(",")).as_bytes())
    }

    #[test]
    fn keys_of_other_kinds_and_purposes_are_skipped() {
        let skipped = [
            "{\"kty\":\"oct\",\"k\":\"AAAA\",\"kid\":\"k\"}".to_owned(),
            "{\"kty\":\"quantum\"}".to_owned(),
            "17".to_owned(),
            format!("{{{EC},\"use\":\"enc\"}}"),
            format!("{{{EC},\"key_ops\":[\"sign\"]}}"),
            format!("{{{}}}", EC.replace("P-256", "P-384")),
            "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}".to_owned(),
            "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}".to_owned(),
        ];
        assert!(set(&skipped).is_err_and(|error| error.contains("P-256")));
        let with_one = [&skipped[..], &[format!("{{{EC},\"kid\":\"k\"}}")]].concat();
        assert_eq!(set(&with_one).unwrap().candidates(Some("k"), Algorithm::Es256).len(), 1);
    }

    #[test]
    fn a_key_is_found_by_its_name_and_algorithm() {
        let keys =
            set(&[format!("{{{EC},\"kid\":\"a\"}}"), format!("{{{EC},\"kid\":\"b\",\"alg\":\"ES256\"}}")]).unwrap();
        assert_eq!(keys.candidates(Some("a"), Algorithm::Es256).len(), 1);
        assert_eq!(keys.candidates(Some("b"), Algorithm::Es256).len(), 1);
        assert_eq!(keys.candidates(Some("c"), Algorithm::Es256).len(), 0);
        assert_eq!(keys.candidates(Some("a"), Algorithm::Rs256).len(), 0);
        // Which of the two is meant?
        assert_eq!(keys.candidates(None, Algorithm::Es256).len(), 0);
        let one = set(&[format!("{{{EC},\"kid\":\"a\"}}")]).unwrap();
        assert_eq!(one.candidates(None, Algorithm::Es256).len(), 1);
        let other_use = set(&[format!("{{{EC},\"kid\":\"a\",\"alg\":\"ECDH-ES\"}}")]).unwrap();
        assert_eq!(other_use.candidates(Some("a"), Algorithm::Es256).len(), 0);
    }

    #[test]
    fn what_is_no_key_set_is_refused() {
        for wrong in ["", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]}", "<html>"] {
            assert!(KeySet::of_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(set(&vec![format!("{{{EC}}}"); 101]).is_err_and(|error| error.contains("101")));
    }
}
