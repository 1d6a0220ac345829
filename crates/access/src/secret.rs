//! Texts that nobody may read in a log.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::{Deserialize, Deserializer, Error as _};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A token. It is not shown by `Debug`, has no `Display`, and is wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a text secret.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// A new token of 256 random bits, or `None` if the operating system gives no random numbers.
    #[must_use]
    pub fn random() -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(bytes.as_mut()).ok()?;
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_ref()));
        Some(Self::new(format!("gp_{}", text.as_str())))
    }

    /// The text itself. For the one place that hands it to its owner.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// The error of a derived `Deserialize` would show the value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self::new(text)),
            _ => Err(D::Error::custom("a token is a text: write it between quotes")),
        }
    }
}

/// The SHA-256 of a token. Tokens are long and random, so it needs no salt.
#[derive(Clone, Copy)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(text: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits.
    pub(crate) fn of_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Some(Self(bytes))
    }

    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether they are equal, in a time that does not depend on where they differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert!(!format!("{:?}", Some(Secret::new("hunter2".to_owned()))).contains("hunter2"));
    }

    #[test]
    fn random_secrets_differ_and_are_long() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.expose().len(), 46);
    }

    #[test]
    fn digests_are_sha256_in_hex() {
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of("abc").hex(), hex);
        assert!(Digest::of_hex(hex).unwrap().is(&Digest::of("abc")));
        assert!(Digest::of_hex(&hex.to_uppercase()).unwrap().is(&Digest::of("abc")));
        assert!(!Digest::of_hex(hex).unwrap().is(&Digest::of("abd")));
        for wrong in ["", "ba", &hex[1..], &format!("{hex}0"), &hex.replace('b', "g")] {
            assert!(Digest::of_hex(wrong).is_none(), "{wrong}");
        }
    }
}
