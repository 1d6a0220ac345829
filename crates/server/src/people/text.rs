//! Numbers, times and links, as people read them.

use chrono::DateTime;
use glidepath_model::visible;
use glidepath_service::Identifier;
use maud::{Markup, html};

/// The path of the page of a namespace.
pub(super) fn namespace_path(parts: &[String]) -> String {
    if parts.is_empty() { "/".to_owned() } else { format!("/namespaces/{}", joined(parts)) }
}

/// The path of the page of a table or a view. `kind` is the part of the path before its name.
pub(super) fn object_path(name: &Identifier, kind: &str) -> String {
    let within = if name.namespace.is_empty() { String::new() } else { namespace_path(&name.namespace) };
    format!("{within}/{kind}/{}", segment(&name.name))
}

/// The path of the next part of a listing.
pub(super) fn next_path(parts: &[String], after: &str) -> String {
    format!("{}?after={}", namespace_path(parts), segment(after))
}

/// A name of the catalog that leads to its page. Browsers take segments of dots for steps up, also if they are escaped,
/// so such a name leads nowhere.
pub(super) fn link(path: &str, shown: &str) -> Markup {
    let steps = path.split('/').any(|segment| segment == "." || segment == "..");
    html! {
        @if steps { bdi title="This page cannot lead there: browsers take such a name for a step up" { (visible(shown)) } }
        @else { a href=(path) { bdi { (visible(shown)) } } }
    }
}

fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| segment(part)).collect::<Vec<_>>().join("%1F")
}

/// A text as a segment of a path.
fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A number with thin spaces between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202F}');
        }
        out.push(digit);
    }
    out
}

/// For example "1 table" and "2 tables".
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(count as u64), if count == 1 { "" } else { "s" })
}

/// Bytes in the unit that suits them.
pub(super) fn bytes(amount: u64) -> String {
    let mut value = amount as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{amount} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} PiB")
}

/// The first characters of a text, all of them visible, for places where a client could write a novel.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}\u{2026}", visible(&text[..end])),
        None => visible(text),
    }
}

/// A time since 1970 as date and time in UTC. Clients write times, so it may be one that no calendar has.
pub(super) fn utc(ms: i64) -> String {
    formatted(ms, "%Y-%m-%d %H:%M:%S")
}

/// The time of day in UTC.
pub(super) fn time_of_day(ms: i64) -> String {
    formatted(ms, "%H:%M:%S")
}

fn formatted(ms: i64, pattern: &str) -> String {
    DateTime::from_timestamp_millis(ms).map_or_else(|| format!("{ms} ms"), |time| time.format(pattern).to_string())
}

/// How long something has lasted, in its largest unit.
pub(super) fn lasted(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", seconds / 60),
        5400..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// How long ago a time was.
pub(super) fn ago(now_ms: i64, ms: i64) -> String {
    match ms.saturating_sub(now_ms) {
        ahead if ahead > 1000 => "in the future".to_owned(),
        _ => format!("{} ago", lasted(now_ms.saturating_sub(ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_827_696_000), "2000-02-29 12:34:56");
        assert_eq!(utc(1_772_323_199_999), "2026-02-28 23:59:59");
        assert_eq!((utc(-1).as_str(), time_of_day(-1).as_str()), ("1969-12-31 23:59:59", "23:59:59"));
        assert_eq!(utc(i64::MIN), "-9223372036854775808 ms");
        assert_eq!((ago(1, i64::MIN).as_str(), ago(1, i64::MAX).as_str()), ("106751991167 days ago", "in the future"));
        assert_eq!((ago(100_000, 10_000).as_str(), ago(0, 60_000).as_str()), ("1 min ago", "in the future"));
    }

    #[test]
    fn numbers_and_texts_are_readable() {
        assert_eq!(grouped(1_234_567).replace('\u{202F}', "_"), "1_234_567");
        assert_eq!((bytes(1023).as_str(), bytes(1536).as_str()), ("1023 B", "1.5 KiB"));
        assert_eq!((shortened("äöü", 2).as_str(), shortened("äö", 2).as_str()), ("äö\u{2026}", "äö"));
    }

    #[test]
    fn any_name_is_a_segment() {
        let name = Identifier { namespace: vec!["a/b".to_owned(), "c".to_owned()], name: "<ä?>".to_owned() };
        assert_eq!(object_path(&name, "tables"), "/namespaces/a%2Fb%1Fc/tables/%3C%C3%A4%3F%3E");
        let name = Identifier { namespace: Vec::new(), name: "t".to_owned() };
        assert_eq!(object_path(&name, "tables"), "/tables/t");
        assert_eq!(link("/tables/<", "<").into_string(), "<a href=\"/tables/&lt;\"><bdi>&lt;</bdi></a>");
        let nowhere = link("/namespaces/../tables/t", "t").into_string();
        assert!(nowhere.starts_with("<bdi title=") && nowhere.ends_with(">t</bdi>"), "{nowhere}");
        assert_eq!(link("/tables/a", "a\u{202E}b").into_string(), "<a href=\"/tables/a\"><bdi>a\\u{202e}b</bdi></a>");
    }
}
