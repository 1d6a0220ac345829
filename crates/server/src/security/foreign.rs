//! Does a web page of another site send this request?
//!
//! A server without tokens lets everybody do everything who reaches it on loopback. A browser on the machine reaches it
//! too, and with it each page that is open there: a page may send requests to any address (the browser withholds only
//! the answers), and with a name of its own that leads to 127.0.0.1 it may read the answers as well. Browsers say where
//! a request comes from in `Origin` and `Sec-Fetch-Site`, and which name it was sent to in `Host`; other clients send
//! only the last.

use std::net::IpAddr;

use axum::http::{HeaderName, Request, header};

use super::refusal::Refusal;
use crate::operations::gate::is_read;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests that another site may have sent. For servers without tokens.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(&header::HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if let Some(host) = host.filter(|host| !is_local(host)) {
        return Err(Refusal::Forbidden(format!(
            "a server without --access answers to IP addresses, localhost, names without a dot, and names that end in \
             .localhost or .internal, and this request was sent to {host:?}: use one of these, or start the server with \
             --access"
        )));
    }
    // A page of another site cannot read what these answer.
    if is_read(request.method()) {
        return Ok(());
    }
    let same_origin =
        |origin: &str| host.is_some_and(|host| origin.split_once("://").is_some_and(|(_, of)| of == host));
    let from_elsewhere = text(&SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"))
        || text(&header::ORIGIN).is_some_and(|origin| !same_origin(origin));
    if from_elsewhere {
        let words = "a browser sent this request for a page of another origin; a server without --access changes nothing \
                     for those";
        return Err(Refusal::Forbidden(words.to_owned()));
    }
    Ok(())
}

/// Whether nobody can lead this name to loopback in public.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split_once(']').map_or("", |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let reserved = [".localhost", ".internal"].iter().any(|end| name.ends_with(end));
    reserved || !name.contains('.') && !host.starts_with('[') || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, headers: &[(&str, &str)]) -> bool {
        let builder =
            headers.iter().fold(Request::builder().method(method).uri("/v1/config"), |builder, (name, value)| {
                builder.header(*name, *value)
            });
        check(&builder.body(()).unwrap()).is_ok()
    }

    #[test]
    fn only_pages_of_the_server_change_something() {
        let host = ("host", "127.0.0.1:8181");
        assert!(told("POST", &[host]));
        assert!(told("POST", &[]));
        assert!(told("POST", &[host, ("origin", "http://127.0.0.1:8181"), ("sec-fetch-site", "same-origin")]));
        for foreign in ["http://evil.example", "http://127.0.0.1:3000", "null", "http://evil.example/127.0.0.1:8181"] {
            assert!(!told("POST", &[host, ("origin", foreign)]), "{foreign}");
            assert!(!told("DELETE", &[host, ("origin", foreign)]), "{foreign}");
            // Its page cannot read the answer.
            assert!(told("GET", &[host, ("origin", foreign)]), "{foreign}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(!told("POST", &[host, ("sec-fetch-site", site)]), "{site}");
        }
        // A link from elsewhere.
        assert!(told("GET", &[host, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn public_names_are_refused() {
        for local in [
            "localhost",
            "LOCALHOST:80",
            "[::1]:8181",
            "::1",
            "127.0.0.1",
            "10.0.0.7:1",
            "catalog:8181",
            "a.localhost.",
            "host.docker.internal:8181",
        ] {
            assert!(told("GET", &[("host", local)]), "{local}");
        }
        for public in [
            "evil.example",
            "127.0.0.1.evil.example:8181",
            "[evil.example]",
            "localhost.evil.example",
            "internal.evil",
            "evil.example.",
        ] {
            assert!(!told("GET", &[("host", public)]), "{public}");
        }
    }
}
