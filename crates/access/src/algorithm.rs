//! The signatures of JSON web tokens: public keys only.
//!
//! There is no `none` and no HMAC here. A server that took HMAC would take a token that somebody signed with the public
//! key as the password.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};

impl Algorithm {
    pub(crate) const ALL: [Self; 9] = [Rs256, Rs384, Rs512, Ps256, Ps384, Ps512, Es256, Es384, EdDsa];

    /// As tokens write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rs256 => "RS256",
            Rs384 => "RS384",
            Rs512 => "RS512",
            Ps256 => "PS256",
            Ps384 => "PS384",
            Ps512 => "PS512",
            Es256 => "ES256",
            Es384 => "ES384",
            EdDsa => "EdDSA",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The names, for messages.
    pub(crate) fn names(algorithms: &[Self]) -> String {
        algorithms.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>().join(", ")
    }
}

/// A public key.
pub(crate) enum PublicKey {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// Whether the algorithm is one of this kind of key.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Self::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Self::P256(_) => algorithm == Es256,
            Self::P384(_) => algorithm == Es384,
            Self::Ed25519(_) => algorithm == EdDsa,
        }
    }

    /// Whether the owner of this key signed the message by this algorithm.
    pub(crate) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (self, algorithm) {
            (Self::P256(point), Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Self::P384(point), Es384) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            (Self::Ed25519(point), EdDsa) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
            (Self::Rsa { modulus, exponent }, _) => match rsa_parameters(algorithm) {
                Some(parameters) => {
                    RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature)
                }
                None => return false,
            },
            _ => return false,
        };
        verified.is_ok()
    }
}

/// The parameters of an RSA algorithm. Each refuses keys of less than 2048 bits.
fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        Es256 | Es384 | EdDsa => None,
    }
}
