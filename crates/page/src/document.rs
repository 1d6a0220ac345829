//! The HTML document around every report.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole page around its content: one printable file that loads nothing (its content security policy forbids it).
/// Tables of the class `sortable` sort by a click on a heading.
#[must_use]
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
                title { (title) " \u{2013} Glidepath" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                footer { p { "Made by Glidepath, which simulates and runs the commit protocols of lakehouse \
                              catalogs." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}
