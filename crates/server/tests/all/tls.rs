//! TLS, and the refusal to go without it.

use crate::support::{local, start, write_access};
use glidepath_server::{Config, Security, Server, StartError, TlsFiles};
use tempfile::TempDir;

/// Writes a new certificate for 127.0.0.1; returns it as PEM.
fn certify(folder: &TempDir) -> (TlsFiles, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.pem())
}

/// A client that trusts this certificate only.
fn trusting(pem: &str) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let root = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    reqwest::Client::builder().tls_certs_only([root]).build().unwrap()
}

#[tokio::test]
async fn certificates_are_used_and_replaced() {
    let (folder, mut config) = local();
    let (files, first) = certify(&folder);
    config.security.tls = Some(files.clone());
    let server = start(folder, config).await;
    let url = format!("{}/v1/config", server.base);
    assert!(url.starts_with("https://"));
    assert_eq!(trusting(&first).get(&url).send().await.unwrap().status(), 200);
    let plain = crate::support::client().get(url.replace("https", "http")).send().await;
    assert!(plain.is_err(), "plain HTTP is answered");
    let (_, second) = certify(&server.folder);
    assert!(trusting(&second).get(&url).send().await.is_err());
    server.handle.reload().unwrap();
    assert_eq!(trusting(&second).get(&url).send().await.unwrap().status(), 200);
    assert!(trusting(&first).get(&url).send().await.is_err());
    std::fs::write(&files.key, "nonsense").unwrap();
    assert!(matches!(server.handle.reload(), Err(StartError::Tls { .. })));
    assert_eq!(trusting(&second).get(&url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn without_protection_a_server_does_not_leave_this_machine() {
    let (folder, config) = local();
    let wide = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start(Config { listen: wide, ..config.clone() }).await.err().unwrap();
    assert!(matches!(refused, StartError::Exposed { .. }), "{refused}");
    let security = Security { access: Some(write_access(&folder, &["root"], "")), ..Security::default() };
    let refused =
        Server::start(Config { listen: wide, security: security.clone(), ..config.clone() }).await.err().unwrap();
    assert!(matches!(refused, StartError::Exposed { .. }), "{refused}");
    let security = Security { plain_http: true, ..security };
    assert!(Server::start(Config { listen: wide, security, ..config }).await.is_ok());
}
