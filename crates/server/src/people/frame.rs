//! The document around every page, and the headers that every page has.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use glidepath_model::visible;

use super::text::{link, namespace_path};
use super::{SCRIPT, STYLE};

/// What a page may load: its own style and script, and nothing from elsewhere. Other pages cannot frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Who sees a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader<'a> {
    /// Anybody: there are no access rules.
    Anybody,
    /// The owner of a token, by the name that the access rules know.
    Named(&'a str),
}

/// Where a page is in the catalog.
pub(super) struct Path<'a> {
    pub(super) namespace: &'a [String],
    /// The table or view.
    pub(super) name: Option<&'a str>,
}

impl Path<'_> {
    fn title(&self) -> String {
        let parts = self.namespace.iter().map(String::as_str).chain(self.name);
        parts.collect::<Vec<_>>().join(" / ")
    }
}

/// A page with its content.
pub(super) fn page(reader: Reader<'_>, path: &Path<'_>, content: &Markup) -> Response {
    let crumbs = html! {
        nav aria-label="Path" {
            @for end in 1..=path.namespace.len() {
                @let parts = &path.namespace[..end];
                span.slash { "/" }
                (link(&namespace_path(parts), &parts[end - 1]))
            }
            @if let Some(name) = path.name { span.slash { "/" } bdi.here { (visible(name)) } }
        }
    };
    let title = path.title();
    answer(StatusCode::OK, &document(&title, "content", Some(reader), &crumbs, content))
}

/// The form that asks for a token. The field has no name, so that no browser sends what is in it, also without the
/// script.
pub(super) fn form() -> Response {
    let content = html! {
        form #ask {
            h1 { "This server needs a token" }
            p {
                "Enter a token that the server knows. The page shows what it may read. The browser keeps it in this tab "
                "until the tab is closed, and sends it to this server only."
            }
            label for="token" { "Token" }
            div.field {
                input #token type="password" autocomplete="off" spellcheck="false" autocapitalize="off" required autofocus;
                button type="submit" { "Show the catalog" }
            }
            p #wrong role="alert" {}
            noscript { p { "The form needs JavaScript: without it, a browser cannot send a token." } }
        }
    };
    answer(StatusCode::OK, &document("Token needed", "ask", None, &html! {}, &content))
}

/// A page that says what is wrong.
pub(super) fn failure(status: StatusCode, words: &str) -> Response {
    let content = html! {
        h1 { (headline(status)) }
        p.words { (visible(words)) }
        p { a href="/" { "To the catalog" } }
    };
    answer(status, &document("Error", "failure", None, &html! {}, &content))
}

fn headline(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "There is nothing here",
        StatusCode::FORBIDDEN => "This token may not read this",
        StatusCode::UNAUTHORIZED => "The token is not valid",
        status if status.is_client_error() => "The request is wrong",
        _ => "The server cannot answer now",
    }
}

fn document(title: &str, kind: &str, reader: Option<Reader<'_>>, crumbs: &Markup, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { @if !title.is_empty() { (visible(title)) " \u{2013} " } "Glidepath" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(STYLE);
                script src=(SCRIPT) {}
                @if kind == "content" { noscript { meta http-equiv="refresh" content="30"; } }
            }
            body {
                header {
                    a.home href="/" { "Glidepath" }
                    (crumbs)
                    span.fill {}
                    span #status role="status" {}
                    @if let Some(Reader::Named(name)) = reader {
                        span.who { (visible(name)) }
                        button #forget type="button" { "Forget the token" }
                    }
                }
                main data-page=(kind) { (content) }
            }
        }
    }
}

fn answer(status: StatusCode, document: &Markup) -> Response {
    let mut response = (status, document.0.clone()).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        // What one token may read is not kept for the next.
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "authorization"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
