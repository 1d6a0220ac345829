//! Who may send which request?
//!
//! `routes` has one list of all routes with the rights that each needs; a route that is not in it is refused. `check`
//! finds out whether the client has them, before the handler sees the request. `foreign` keeps the pages of other sites
//! away from a server without tokens. `fetch` gets the keys of issuers, `tls` the certificate.

pub(crate) mod check;
mod fetch;
pub(crate) mod foreign;
pub(crate) mod refusal;
pub(crate) mod routes;
pub(crate) mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use glidepath_access::Access;

use crate::start::StartError;
pub(crate) use tls::Tls;
pub use tls::TlsFiles;

/// Who may come in, and how.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The file with tokens and grants; `None`: everybody may do everything, which is allowed on loopback only.
    pub access: Option<PathBuf>,
    /// The certificate; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether plain HTTP is allowed beyond loopback, since a load balancer in front ends TLS.
    pub plain_http: bool,
}

impl Security {
    /// Refuses to listen beyond this machine without the protection that this needs.
    pub(crate) fn check(&self, listen: SocketAddr) -> Result<(), StartError> {
        let wrong = |why: &str| Err(StartError::Exposed { address: listen, why: why.to_owned() });
        if listen.ip().is_loopback() {
            return Ok(());
        }
        if self.access.is_none() {
            return wrong(
                "without --access FILE a server listens on loopback only (127.0.0.1 or [::1]), since it lets everybody \
                 do everything",
            );
        }
        if self.tls.is_none() && !self.plain_http {
            return wrong(
                "tokens would cross the network unencrypted; give --tls-certificate and --tls-key, or --plain-http if \
                 a load balancer in front ends TLS",
            );
        }
        Ok(())
    }

    /// Reads the file of tokens and grants.
    pub(crate) async fn load(&self) -> Result<Access, StartError> {
        let Some(path) = &self.access else { return Ok(Access::open()) };
        let fetch = fetch::Web::new().map_err(StartError::Client)?;
        let access = Access::load(path, Arc::new(fetch))?;
        tell_doubts(&access);
        if let Err(denied) = access.warm().await {
            tracing::warn!(why = ?denied, "the keys of the issuer could not be fetched; they are fetched when needed");
        }
        Ok(access)
    }
}

/// Logs what may be a mistake in the file.
pub(crate) fn tell_doubts(access: &Access) {
    for doubt in access.doubts() {
        tracing::warn!("{doubt}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_protected_server_leaves_loopback() {
        let (local, wide) = ("127.0.0.1:1".parse().unwrap(), "0.0.0.0:1".parse().unwrap());
        let bare = Security::default();
        assert!(bare.check(local).is_ok() && bare.check("[::1]:1".parse().unwrap()).is_ok());
        assert!(bare.check(wide).unwrap_err().to_string().contains("--access"));
        let access = Security { access: Some("access.toml".into()), ..Security::default() };
        assert!(access.check(wide).unwrap_err().to_string().contains("--tls-certificate"));
        assert!(Security { plain_http: true, ..access.clone() }.check(wide).is_ok());
        assert!(Security { plain_http: true, ..bare }.check(wide).is_err());
        let tls = Some(TlsFiles { certificate: "c".into(), key: "k".into() });
        assert!(Security { tls, ..access }.check(wide).is_ok());
    }
}
