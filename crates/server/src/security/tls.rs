//! The certificate of the server, read again on request.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::start::StartError;

/// Files with a certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// The certificate as it is now.
#[derive(Clone)]
pub(crate) struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Tls {
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, StartError> {
        let current = Arc::new(RwLock::new(read(files)?));
        Ok(Self { files: Arc::new(files.clone()), current })
    }

    /// Reads the files again. New connections use what was read; if it is unusable, the old certificate goes on.
    pub(crate) fn reload(&self) -> Result<(), StartError> {
        let next = read(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn unusable(path: &Path, why: &impl std::fmt::Display) -> StartError {
    StartError::Tls { path: path.to_owned(), why: why.to_string() }
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, StartError> {
    let TlsFiles { certificate, key } = files;
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"it has no certificate; write it as PEM (BEGIN CERTIFICATE)"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| unusable(certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
