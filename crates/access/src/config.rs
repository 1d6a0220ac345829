//! The file `access.toml`: who may come in, and with which rights.
//!
//! ```toml
//! [jwt]
//! issuer = "https://id.example.org/realms/data"
//! audience = "glidepath"
//!
//! [[token]]
//! name = "etl"
//! sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
//!
//! [[grant]]
//! to = "user:etl"
//! on = "sales.eu"
//! right = "write"
//! ```

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zeroize::Zeroizing;

use crate::algorithm::Algorithm;
use crate::grants::{Grant, Grants, Principal};
use crate::identity::{Identity, name_fault};
use crate::keys::{Source, url_fault};
use crate::secret::{Digest, Secret};
use crate::tokens::{Tokens, token_fault};

/// Why the file cannot be used. No text of it contains a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// Others than its owner could learn a token from it, or change it.
    #[error("{}: {why}", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Who could, and what to do about it.
        why: String,
    },
    /// It is no TOML, or has unknown or missing keys.
    #[error("{}, line {line}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A value is not allowed.
    #[error("{}, {at}: {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Which entry has it.
        at: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
}

/// What the file says.
pub(crate) struct Config {
    pub(crate) jwt: Option<JwtConfig>,
    pub(crate) tokens: Tokens,
    pub(crate) grants: Grants,
    /// What is allowed, and may be a mistake.
    pub(crate) doubts: Vec<String>,
}

/// What JSON web tokens must be.
pub(crate) struct JwtConfig {
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) subject_claim: String,
    pub(crate) groups_claim: Option<String>,
    pub(crate) source: Source,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    jwt: Option<WrittenJwt>,
    #[serde(default)]
    token: Vec<WrittenToken>,
    #[serde(default)]
    grant: Vec<WrittenGrant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenJwt {
    issuer: String,
    audience: Texts,
    jwks_file: Option<PathBuf>,
    algorithms: Option<Vec<String>>,
    subject_claim: Option<String>,
    groups_claim: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenToken {
    name: String,
    sha256: Option<Secret>,
    token: Option<Secret>,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGrant {
    to: String,
    on: Texts,
    right: String,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Config {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Self, AccessError> {
        let unreadable = |error: std::io::Error| AccessError::Unreadable {
            path: path.to_owned(),
            why: format!("the access file cannot be read: {error}; give the path of a file that this user may read"),
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text).map_err(unreadable)?;
        let written = parse(path, &text)?;
        let has_plain = written.token.iter().any(|entry| entry.token.is_some());
        let mode = mode(&file).map_err(unreadable)?;
        if let Some(why) = exposure(mode, has_plain) {
            return Err(AccessError::Exposed { path: path.to_owned(), why });
        }
        written.checked(path)
    }
}

/// The permissions of the open file, where there are such.
#[cfg(unix)]
fn mode(file: &File) -> std::io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode())
}

#[cfg(not(unix))]
fn mode(_: &File) -> std::io::Result<u32> {
    Ok(0)
}

/// Who besides the owner and its group could misuse a file with these permissions.
fn exposure(mode: u32, has_plain: bool) -> Option<String> {
    if mode & 0o002 != 0 {
        Some("every user of this machine may change the file, and so give itself any right; run chmod o-w".to_owned())
    } else if mode & 0o004 != 0 && has_plain {
        Some("every user of this machine may read the tokens in it; run chmod o-r, or give sha256 for token".to_owned())
    } else {
        None
    }
}

/// Parses the text. The parser's full message would quote the line, which may hold a token.
fn parse(path: &Path, text: &str) -> Result<Written, AccessError> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start).min(text.len());
        let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
        AccessError::Syntax { path: path.to_owned(), line, why: error.message().to_owned() }
    })
}

impl Written {
    fn checked(self, path: &Path) -> Result<Config, AccessError> {
        let error = |at: String, why| AccessError::Value { path: path.to_owned(), at, why };
        let jwt = self.jwt.map(|jwt| jwt.checked(path)).transpose().map_err(|why| error("[jwt]".to_owned(), why))?;
        let mut tokens = Tokens::none();
        for (at, entry) in self.token.into_iter().enumerate() {
            let at = format!("[[token]] {} ({:?})", at + 1, entry.name);
            entry.add_to(&mut tokens).map_err(|why| error(at, why))?;
        }
        let (mut grants, mut doubts) = (Grants::new(), Vec::new());
        for (at, entry) in self.grant.into_iter().enumerate() {
            let at = format!("[[grant]] {} (to {:?})", at + 1, entry.to);
            let grant = entry.checked().map_err(|why| error(at.clone(), why))?;
            let doubt = doubt(&grant, jwt.is_some(), &tokens);
            doubts.extend(doubt.map(|why| format!("{}, {at}: {why}", path.display())));
            grants.add(grant);
        }
        if jwt.is_none() && tokens.is_empty() {
            let why = "nobody could come in: there is no [[token]] and no [jwt]; add one".to_owned();
            return Err(error("whole file".to_owned(), why));
        }
        Ok(Config { jwt, tokens, grants, doubts })
    }
}

impl WrittenJwt {
    fn checked(self, path: &Path) -> Result<JwtConfig, String> {
        let source = match self.jwks_file {
            // A relative path starts at the folder of the access file.
            Some(file) => Source::File(path.parent().map_or_else(|| file.clone(), |folder| folder.join(&file))),
            None => match url_fault(&self.issuer) {
                Some(fault) => {
                    return Err(format!("issuer {:?}: {fault}; or set jwks-file to a file with its keys", self.issuer));
                }
                None if self.issuer.contains(['?', '#']) => {
                    return Err(format!("issuer {:?} has a ? or #, which no issuer has; remove it", self.issuer));
                }
                None => Source::Discovery(self.issuer.clone()),
            },
        };
        let audiences = match self.audience {
            Texts::One(name) => vec![name],
            Texts::Many(names) => names,
        };
        if self.issuer.is_empty() || audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(
                "issuer or audience is empty; set both, so that no token for another server is taken".to_owned()
            );
        }
        let subject_claim = self.subject_claim.unwrap_or_else(|| "sub".to_owned());
        if subject_claim.is_empty() || self.groups_claim.as_deref() == Some("") {
            return Err("the name of a claim is empty; give it, or leave the key out".to_owned());
        }
        let algorithms = algorithms(self.algorithms)?;
        let groups_claim = self.groups_claim;
        Ok(JwtConfig { issuer: self.issuer, audiences, algorithms, subject_claim, groups_claim, source })
    }
}

fn algorithms(names: Option<Vec<String>>) -> Result<Vec<Algorithm>, String> {
    let allowed = Algorithm::names(&Algorithm::ALL);
    match names {
        None => Ok(Algorithm::ALL.to_vec()),
        Some(names) if names.is_empty() => {
            Err(format!("algorithms is empty; leave it out, or name some of: {allowed}"))
        }
        Some(names) => names
            .iter()
            .map(|name| Algorithm::of_name(name).ok_or_else(|| format!("algorithm {name:?}; allowed: {allowed}")))
            .collect(),
    }
}

impl WrittenToken {
    fn add_to(self, tokens: &mut Tokens) -> Result<(), String> {
        if let Some(fault) = std::iter::once(&self.name).chain(&self.groups).find_map(|name| name_fault(name)) {
            return Err(fault);
        }
        let digest = match (&self.sha256, &self.token) {
            (Some(hex), None) => Digest::of_hex(hex.expose()).ok_or_else(|| {
                let found = hex.expose().chars().count();
                format!("sha256 is not the SHA-256 of a token: found {found} characters; allowed: 64 digits, 0 to 9 and a to f")
            })?,
            (None, Some(token)) => match token_fault(token) {
                Some(fault) => return Err(fault),
                None => Digest::of(token.expose()),
            },
            _ => return Err("it needs one of sha256 and token, and not both".to_owned()),
        };
        tokens.add(digest, Identity::new(self.name, self.groups))
    }
}

impl WrittenGrant {
    fn checked(self) -> Result<Grant, String> {
        let on = match self.on {
            Texts::One(text) if text == "*" => Vec::new(),
            Texts::One(text) => text.split('.').map(str::to_owned).collect(),
            Texts::Many(path) => path,
        };
        if on.iter().any(String::is_empty) {
            let forms = "\"*\" (the whole catalog), \"sales.eu\", [\"sales\", \"eu\"]";
            return Err(format!("on has a namespace without a name; allowed: {forms}"));
        }
        Ok(Grant { to: self.to.parse()?, on, right: self.right.parse()? })
    }
}

/// Why a grant may be a mistake. It is no error: who takes back a token must not be stopped by the grants that are
/// left, and names may have a slash.
fn doubt(grant: &Grant, has_jwt: bool, tokens: &Tokens) -> Option<String> {
    if !has_jwt {
        match &grant.to {
            Principal::User(name) if !tokens.names(name) => {
                return Some(format!("no [[token]] has the name {name:?}, so nobody has this right"));
            }
            Principal::Group(name) if !tokens.has_group(name) => {
                return Some(format!("no [[token]] is in the group {name:?}, so nobody has this right"));
            }
            _ => {}
        }
    }
    let slashed = grant.on.iter().find(|name| name.contains('/'))?;
    let split = slashed.replace('/', ".");
    Some(format!("on names a namespace {slashed:?}, with a slash in its name; if levels are meant, write {split:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_others_can_misuse_are_refused() {
        assert_eq!([exposure(0o600, true), exposure(0o640, true), exposure(0o644, false)], [None, None, None]);
        assert!(exposure(0o644, true).is_some_and(|why| why.contains("o-r")));
        assert!(exposure(0o602, false).is_some_and(|why| why.contains("o-w")));
    }
}
