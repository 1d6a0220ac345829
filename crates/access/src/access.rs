//! Who has a token, by the current configuration.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::{AccessError, Config};
use crate::grants::Grants;
use crate::identity::{Denied, Identity};
use crate::jwt::Jwt;
use crate::keys::{Fetch, Keys, Source, read_file};
use crate::tokens::Tokens;

/// Who may come in, and the grants of the configuration. Shared by all requests of a server.
pub struct Access {
    /// `None` if security is off.
    checked: Option<Checked>,
}

struct Checked {
    path: PathBuf,
    fetch: Arc<dyn Fetch>,
    rules: RwLock<Arc<Rules>>,
}

struct Rules {
    tokens: Tokens,
    jwt: Option<Jwt>,
    grants: Arc<Grants>,
    doubts: Vec<String>,
}

impl Access {
    /// Security is off: everybody is the [anonymous administrator](Identity::anonymous_admin).
    #[must_use]
    pub fn open() -> Self {
        Self { checked: None }
    }

    /// Reads the configuration from a file. Sends no request: the keys of an issuer are fetched when first needed, or
    /// by [`Access::warm`].
    ///
    /// # Errors
    /// [`AccessError`] says what is wrong with the file, or with the file of keys that it names.
    pub fn load(path: &Path, fetch: Arc<dyn Fetch>) -> Result<Self, AccessError> {
        let rules = RwLock::new(Arc::new(Rules::read(path, &fetch, None)?));
        Ok(Self { checked: Some(Checked { path: path.to_owned(), fetch, rules }) })
    }

    /// Reads the configuration again. Requests under way end by the old one.
    ///
    /// # Errors
    /// [`AccessError`] if the file is bad now: then the old configuration goes on.
    pub fn reload(&self) -> Result<(), AccessError> {
        if let Some(checked) = &self.checked {
            let rules = Arc::new(Rules::read(&checked.path, &checked.fetch, Some(&checked.rules()))?);
            *checked.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        }
        Ok(())
    }

    /// Fetches the keys of the issuer if they are not known yet. For the start of a server, which may log the error and
    /// go on: the keys are fetched again when needed.
    ///
    /// # Errors
    /// [`Denied::Unavailable`] if they could not be fetched.
    pub async fn warm(&self) -> Result<(), Denied> {
        match self.checked.as_ref().map(Checked::rules).as_deref() {
            Some(Rules { jwt: Some(jwt), .. }) => jwt.keys.warm().await,
            _ => Ok(()),
        }
    }

    /// Who has this token, at this time in seconds since 1970. May fetch keys, and so needs a Tokio runtime with
    /// timers.
    ///
    /// # Errors
    /// [`Denied`] if there is no token, or no valid one.
    pub async fn authenticate(&self, bearer: Option<&str>, now: u64) -> Result<Identity, Denied> {
        let Some(checked) = &self.checked else {
            return Ok(Identity::anonymous_admin());
        };
        let rules = checked.rules();
        let token = bearer.ok_or(Denied::Missing)?;
        if let Some(identity) = rules.tokens.find(token) {
            return Ok(identity.clone());
        }
        let jwt = rules.jwt.as_ref().ok_or(Denied::Unknown)?;
        let identity = jwt.identify(token, now).await?;
        if rules.tokens.names(identity.name()) {
            // The issuer, or whoever chooses names there, could take over the rights of this token.
            return Err(Denied::refused("its user has the name of a static token of this server; rename one of them"));
        }
        Ok(identity)
    }

    /// The grants of the configuration. Without security there are none, and none are needed.
    #[must_use]
    pub fn grants(&self) -> Arc<Grants> {
        self.checked.as_ref().map_or_else(Arc::default, |checked| checked.rules().grants.clone())
    }

    /// What the configuration has that is allowed and may be a mistake, such as a grant to a name that no token has.
    /// For the log.
    #[must_use]
    pub fn doubts(&self) -> Vec<String> {
        self.checked.as_ref().map_or_else(Vec::new, |checked| checked.rules().doubts.clone())
    }

    /// Whether security is off.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.checked.is_none()
    }
}

impl Checked {
    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Rules {
    /// Reads the file. Takes over the keys of the old rules if their issuer is the same.
    fn read(path: &Path, fetch: &Arc<dyn Fetch>, old: Option<&Self>) -> Result<Self, AccessError> {
        let config = Config::read(path)?;
        let jwt = match config.jwt {
            None => None,
            Some(jwt) => {
                let keys = match &jwt.source {
                    Source::File(file) => {
                        let at = "[jwt] jwks-file".to_owned();
                        let error = |why| AccessError::Value { path: path.to_owned(), at, why };
                        Arc::new(Keys::of(jwt.source.clone(), fetch.clone(), read_file(file).map_err(error)?))
                    }
                    Source::Discovery(_) => {
                        let known = old.and_then(|old| old.jwt.as_ref()).map(|jwt| &jwt.keys);
                        let same = known.filter(|keys| *keys.source() == jwt.source);
                        same.cloned().unwrap_or_else(|| Arc::new(Keys::new(jwt.source, fetch.clone())))
                    }
                };
                Some(Jwt {
                    issuer: jwt.issuer,
                    audiences: jwt.audiences,
                    algorithms: jwt.algorithms,
                    subject_claim: jwt.subject_claim,
                    groups_claim: jwt.groups_claim,
                    keys,
                })
            }
        };
        Ok(Self { tokens: config.tokens, jwt, grants: Arc::new(config.grants), doubts: config.doubts })
    }
}
