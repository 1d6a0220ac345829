//! JSON web tokens (RFC 7519), signed by an issuer whose public keys are known.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::identity::{Denied, Identity, name_fault};
use crate::keys::Keys;

/// The most bytes of a token.
const MOST_BYTES: usize = 16 << 10;

/// How far clocks may differ, in seconds.
const LEEWAY: f64 = 60.0;

/// What a token must be.
pub(crate) struct Jwt {
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) subject_claim: String,
    pub(crate) groups_claim: Option<String>,
    pub(crate) keys: Arc<Keys>,
}

/// The header of a token. `typ` and `alg` are compared with what is allowed; keys that a token brings along (`jwk`,
/// `jku`, `x5u`) are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

type Claims = Map<String, Value>;

impl Jwt {
    /// Who has this token, at this time in seconds since 1970.
    pub(crate) async fn identify(&self, token: &str, now: u64) -> Result<Identity, Denied> {
        if token.len() > MOST_BYTES {
            return Err(Denied::refused(format!("it has more than {MOST_BYTES} bytes; get one with fewer claims")));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Denied::Unknown)?;
        let (header, claims) = signed.split_once('.').ok_or(Denied::Unknown)?;
        let header: Header = part(header, "header")?;
        let algorithm = self.allowed(&header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed("signature"))?;
        let keys = self.keys.find(header.kid.as_deref(), algorithm).await?;
        let candidates = keys.candidates(header.kid.as_deref(), algorithm);
        if !candidates.iter().any(|key| key.has_signed(algorithm, signed.as_bytes(), &signature)) {
            return Err(Denied::refused("its signature is wrong; get a new token from the issuer"));
        }
        let claims: Claims = part(claims, "claims")?;
        self.check_issuer_and_audience(&claims)?;
        check_times(&claims, now as f64)?;
        self.identity(&claims)
    }

    /// The algorithm of the token, if it is allowed.
    fn allowed(&self, header: &Header) -> Result<Algorithm, Denied> {
        if header.crit.is_some() {
            return Err(Denied::refused("it has critical extensions (crit), of which this server knows none"));
        }
        if let Some(kind) = &header.typ {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if !matches!(kind, "jwt" | "at+jwt") {
                return Err(Denied::refused("it is no access token: its typ is neither JWT nor at+jwt"));
            }
        }
        let found = Algorithm::of_name(&header.alg).filter(|algorithm| self.algorithms.contains(algorithm));
        found.ok_or_else(|| {
            let allowed = Algorithm::names(&self.algorithms);
            Denied::refused(format!("its algorithm is not allowed; set the issuer to one of: {allowed}"))
        })
    }

    fn check_issuer_and_audience(&self, claims: &Claims) -> Result<(), Denied> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(Denied::refused(format!("it is not of the issuer {:?} (claim iss)", self.issuer)));
        }
        let is_ours = |value: &Value| value.as_str().is_some_and(|name| self.audiences.iter().any(|one| one == name));
        let is_meant = match claims.get("aud") {
            Some(Value::Array(names)) => names.iter().any(is_ours),
            Some(name) => is_ours(name),
            None => false,
        };
        if is_meant {
            return Ok(());
        }
        let audiences = self.audiences.join(", ");
        Err(Denied::refused(format!("it is not for this server (claim aud); get a token for one of: {audiences}")))
    }

    fn identity(&self, claims: &Claims) -> Result<Identity, Denied> {
        let name = claim(claims, &self.subject_claim).and_then(Value::as_str);
        let Some(name) = name.filter(|name| name_fault(name).is_none()) else {
            let claim = &self.subject_claim;
            return Err(Denied::refused(format!("it names no user: its claim {claim:?} is missing or no proper name")));
        };
        let groups = match self.groups_claim.as_deref().and_then(|path| claim(claims, path)) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(name)) => vec![name.clone()],
            Some(value) => texts(value).ok_or_else(|| {
                let claim = self.groups_claim.as_deref().unwrap_or_default();
                Denied::refused(format!("its claim {claim:?} is no list of texts; set groups-claim to another claim"))
            })?,
        };
        Ok(Identity::new(name, groups))
    }
}

/// The times are numbers of seconds since 1970, perhaps with a fraction.
fn check_times(claims: &Claims, now: f64) -> Result<(), Denied> {
    let time = |name| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(time) if time.is_finite() => Ok(Some(time)),
            _ => Err(Denied::refused(format!("its claim {name} is no time: a number of seconds since 1970"))),
        },
    };
    let Some(end) = time("exp")? else {
        return Err(Denied::refused("it never expires: the claim exp is missing; let the issuer set it"));
    };
    if now >= end + LEEWAY {
        return Err(Denied::refused("it has expired; get a new one"));
    }
    if time("nbf")?.is_some_and(|start| start > now + LEEWAY) {
        return Err(Denied::refused("it is not valid yet (claim nbf); wait, or set the clocks right"));
    }
    Ok(())
}

/// A claim by its name, or by a path of names such as `realm_access.roles`. Names with dots are tried first.
fn claim<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    claim(claims.get(first)?.as_object()?, rest)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A part of a token: JSON in base64.
fn part<T: serde::de::DeserializeOwned>(text: &str, what: &'static str) -> Result<T, Denied> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed(what))?;
    serde_json::from_slice(&bytes).map_err(|_| malformed(what))
}

fn malformed(what: &'static str) -> Denied {
    Denied::refused(format!("its {what} is malformed; send it as the issuer gave it"))
}
