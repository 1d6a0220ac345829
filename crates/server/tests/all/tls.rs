//! TLS, and the refusal to go without it.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{local, start, write_access};
use bytes::Bytes;
use glidepath_server::{Config, Limits, Security, Server, StartError, TlsFiles};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

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

/// Over HTTP/2 a connection lives as long as its client answers pings, whether it takes its answers or not.
#[tokio::test]
async fn a_client_of_http2_that_gives_no_room_for_answers_loses_its_connection() {
    let (folder, mut config) = local();
    let (files, pem) = certify(&folder);
    config.security.tls = Some(files);
    config.limits = Limits { idle_timeout: Duration::from_secs(3), ..Limits::default() };
    let server = start(folder, config).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.base.trim_start_matches("https://")).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    let mut client = h2::client::Builder::new();
    let (mut requests, connection) = client.initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = axum::http::Request::get(format!("{}/v1/config", server.base)).body(()).unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 200);
    let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
    assert!(ended.is_ok(), "the connection stays, and its answer was never taken");
    assert!(answer.into_body().data().await.is_none_or(|piece| piece.is_err()));
    assert_eq!(trusting(&pem).get(format!("{}/v1/config", server.base)).send().await.unwrap().status(), 200);
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
