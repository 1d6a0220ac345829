//! One connection to a server, and what it costs: requests as they are, one after the other, no pool, no retry.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::ServedError;

/// The longest time of a request.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct Address {
    socket: SocketAddr,
    host: HeaderValue,
    /// The path before `/v1`, without a slash at its end.
    pub(super) base: String,
    token: Option<HeaderValue>,
}

impl Address {
    pub(super) fn parse(url: &str, token: Option<&str>) -> Result<Self, ServedError> {
        let wrong = |why: &str| ServedError::Url { url: url.to_owned(), why: why.to_owned() };
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(wrong("TLS would be measured, too; give the server's plain port")),
            _ => {
                return Err(wrong(
                    "it does not begin with http:// (`glidepath bench` and `glidepath measure` take a store, and `glidepath serve` \
                 starts a server on it)",
                ));
            }
        };
        if rest.contains(['?', '#', '@', ' ']) {
            return Err(wrong("it has more than a host, a port and a path"));
        }
        let (host, base) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let named = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let socket = named.to_socket_addrs().ok().and_then(|mut found| found.next());
        let socket = socket.ok_or_else(|| wrong("there is no such host"))?;
        let host = HeaderValue::from_str(host).map_err(|_| wrong("its host is no name"))?;
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let token = token.transpose().map_err(|_| wrong("the token has characters that no header has"))?;
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        Ok(Self { socket, host, base, token })
    }
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) tag: Option<HeaderValue>,
    /// The body; empty if it was not asked for.
    pub(super) body: Bytes,
    pub(super) bytes: u64,
}

impl Answer {
    /// What an error says, in a few words.
    pub(super) fn words(&self) -> String {
        let value: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let message = value["error"]["message"].as_str().map(str::to_owned);
        let text = message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        let line: String = text.chars().take_while(|c| *c != '\n').take(200).collect();
        format!("{}: {line}", self.status)
    }
}

/// What a request asks for.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    /// From the root of the server.
    pub(super) path: &'a str,
    pub(super) body: Bytes,
    pub(super) known: Option<&'a HeaderValue>,
    /// Whether the body of a success is needed.
    pub(super) keep: bool,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, body: Bytes::new(), known: None, keep: true }
    }

    pub(super) fn post(path: &'a str, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, body: body.into(), ..Self::get(path) }
    }

    pub(super) fn delete(path: &'a str) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    /// The answer's body is not looked at.
    pub(super) fn dropping(self) -> Self {
        Self { keep: false, ..self }
    }
}

/// One connection, which is made when it is needed.
pub(super) struct Connection {
    address: Address,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(super) fn new(address: &Address) -> Self {
        Self { address: address.clone(), open: None }
    }

    async fn opened(&mut self) -> Result<SendRequest<Full<Bytes>>, ServedError> {
        if let Some(open) = self.open.take()
            && !open.is_closed()
        {
            return Ok(open);
        }
        let socket = self.address.socket;
        let unreachable = |error: &dyn std::fmt::Display| ServedError::Unreachable(format!("{socket}: {error}"));
        let stream = TcpStream::connect(socket).await.map_err(|error| unreachable(&error))?;
        stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// # Errors
    /// [`ServedError::Unreachable`]: there is no connection, and nothing was sent. [`ServedError::Broken`]: it may have
    /// been sent.
    pub(super) async fn send(&mut self, ask: Ask<'_>) -> Result<Answer, ServedError> {
        let mut sender = self.opened().await?;
        let mut request = Request::builder().method(ask.method).uri(ask.path).header(HOST, &self.address.host);
        if let Some(token) = &self.address.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(known) = ask.known {
            request = request.header(IF_NONE_MATCH, known);
        }
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let request = request.body(Full::new(ask.body));
        let request = request.map_err(|error| ServedError::Broken(format!("{}: {error}", ask.path)))?;
        let asked = async {
            let (parts, mut body) = sender.send_request(request).await?.into_parts();
            let (status, tag) = (parts.status.as_u16(), parts.headers.get(ETAG).cloned());
            let (mut kept, mut bytes) = (Vec::new(), 0);
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame?.into_data() {
                    bytes += data.len() as u64;
                    if ask.keep || status >= 400 {
                        kept.extend_from_slice(&data);
                    }
                }
            }
            Ok::<_, hyper::Error>(Answer { status, tag, body: kept.into(), bytes })
        };
        let answer = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(ServedError::Broken(error.to_string())),
            Err(_) => return Err(ServedError::Broken(format!("no answer within {} s", PATIENCE.as_secs()))),
        };
        // With an answer that is read to its end, the connection can be used again.
        if sender.ready().await.is_ok() {
            self.open = Some(sender);
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_a_path() {
        let parsed = |url| Address::parse(url, None).map(|address| (address.socket.to_string(), address.base));
        let local = |port: u16, base: &str| (format!("127.0.0.1:{port}"), base.to_owned());
        assert_eq!(parsed("http://127.0.0.1:8181").unwrap(), local(8181, ""));
        assert_eq!(parsed("http://127.0.0.1:8181/v1/").unwrap(), local(8181, ""));
        assert_eq!(parsed("http://127.0.0.1/iceberg/").unwrap(), local(80, "/iceberg"));
        for (url, part) in [
            ("https://127.0.0.1:1", "TLS"),
            ("127.0.0.1:8181", "http://"),
            ("http://me@127.0.0.1:1", "more than"),
            ("http://127.0.0.1:1/?x", "more than"),
            ("http://no.such.host.invalid:1", "no such host"),
        ] {
            let words = parsed(url).unwrap_err().to_string();
            assert!(words.contains(part) && words.contains(url), "{words}");
        }
    }
}
