//! What are swept settings and their values called in reports?

use glidepath_model::{ByteSize, Span};

use crate::experiment::ALTERNATIVE;

/// The load: every curve runs along it.
pub(crate) const LOAD: &str = "arrivals.scale";
pub(crate) const TABLES: &str = "tables.count";
pub(crate) const CATALOG_STORE: &str = "catalog.store";
pub(crate) const CATALOG_LATENCY: &str = "catalog.latency";
pub(crate) const FAST_APPEND: &str = "transaction.fast_append";
pub(crate) const PROVIDER: &str = "provider";
pub(crate) const PROTOCOL: &str = "catalog.protocol";
const BURST_FACTOR: &str = "arrivals.burst.factor";
const RETRIES: &str = "retry.retries";

/// The providers of the published work, in the order that fixes their colours.
const PROVIDERS: [(&str, &str); 5] = [
    ("s3-standard", "S3 Standard"),
    ("s3-express", "S3 Express One Zone"),
    ("azure-premium", "Azure Premium"),
    ("azure-standard", "Azure Standard"),
    ("gcs", "GCS"),
];

/// The sortable value of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// In seconds.
    Time(f64),
    /// In bytes.
    Bytes(f64),
    Number(f64),
    /// Not sortable: kept in the order of the file.
    Name,
}

impl Size {
    pub(crate) fn of(text: &str) -> Self {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        let time = || text.parse().ok().map(|span: Span| Self::Time(span.as_secs_f64()));
        let bytes = || text.parse().ok().map(|size: ByteSize| Self::Bytes(size.as_bytes() as f64));
        number.map(Self::Number).or_else(time).or_else(bytes).unwrap_or(Self::Name)
    }

    /// The number, in the unit of its kind; absent for names.
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Self::Time(value) | Self::Bytes(value) | Self::Number(value) => Some(value),
            Self::Name => None,
        }
    }
}

/// The name of an axis, with the unit in which [`tick`] gives its values.
pub(crate) fn axis_label(key: &str, times: bool) -> String {
    let unit = if times { " (ms)" } else { "" };
    match key {
        LOAD => format!("Time between arrivals{unit}"),
        TABLES => "Tables".to_owned(),
        CATALOG_LATENCY => format!("Catalog latency{unit}"),
        FAST_APPEND => "Fast appends (% of transactions)".to_owned(),
        PROVIDER => "Provider".to_owned(),
        CATALOG_STORE => "Store of the catalog".to_owned(),
        PROTOCOL => "Protocol".to_owned(),
        ALTERNATIVE => "Alternative".to_owned(),
        BURST_FACTOR => "Arrivals in bursts (times as many)".to_owned(),
        RETRIES => "Retries".to_owned(),
        other => format!("{other}{unit}"),
    }
}

/// The same in the middle of a sentence.
pub(crate) fn axis_noun(key: &str) -> &str {
    match key {
        LOAD => "load",
        TABLES => "number of tables",
        CATALOG_LATENCY => "catalog latency",
        FAST_APPEND => "share of fast appends",
        PROVIDER => "provider",
        CATALOG_STORE => "store of the catalog",
        PROTOCOL => "protocol",
        ALTERNATIVE => "alternative",
        BURST_FACTOR => "strength of bursts",
        RETRIES => "number of retries",
        other => other,
    }
}

/// A value beside its axis: times in milliseconds without the unit.
pub(crate) fn tick(key: &str, text: &str) -> String {
    match (key, Size::of(text)) {
        (FAST_APPEND, Size::Number(share)) => plain(share * 100.0),
        (_, Size::Time(seconds)) => plain(seconds * 1e3),
        (_, Size::Number(number)) => plain(number),
        (PROVIDER | CATALOG_STORE, _) => provider_name(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// A value without an axis, as in a legend.
pub(crate) fn phrase(key: &str, text: &str) -> String {
    match (key, Size::of(text)) {
        (LOAD, _) => format!("{} between arrivals", spaced(text)),
        (TABLES, _) if text == "1" => "1 table".to_owned(),
        (TABLES, _) => format!("{text} tables"),
        (CATALOG_LATENCY, _) => format!("{} catalog latency", spaced(text)),
        (FAST_APPEND, Size::Number(1.0)) => "fast appends only".to_owned(),
        (FAST_APPEND, Size::Number(0.0)) => "validated overwrites only".to_owned(),
        (FAST_APPEND, Size::Number(share)) => format!("{} % fast appends", plain(share * 100.0)),
        (PROVIDER, _) => provider_name(text).to_owned(),
        (CATALOG_STORE, _) => format!("catalog on {}", provider_name(text)),
        (ALTERNATIVE | PROTOCOL, _) => text.to_owned(),
        (BURST_FACTOR, Size::Number(factor)) => format!("bursts of {} times the arrivals", plain(factor)),
        (RETRIES, _) if text == "1" => "1 retry".to_owned(),
        (RETRIES, _) => format!("{text} retries"),
        _ => format!("{key} = {text}"),
    }
}

/// The same if the setting is named nearby, as beside an axis.
pub(crate) fn brief(key: &str, text: &str) -> String {
    let phrase = phrase(key, text);
    phrase.strip_prefix(&format!("{key} = ")).map(str::to_owned).unwrap_or(phrase)
}

/// A quantity with a space between number and unit.
fn spaced(text: &str) -> String {
    match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) if at > 0 => format!("{} {}", text[..at].trim_end(), &text[at..]),
        _ => text.to_owned(),
    }
}

fn provider_name(text: &str) -> &str {
    PROVIDERS.iter().find(|(id, _)| *id == text).map_or(text, |(_, name)| name)
}

/// The colour of a known provider, the same in every picture. Others take later colours.
pub(crate) fn provider_slot(text: &str, index: usize) -> usize {
    PROVIDERS.iter().position(|(id, _)| *id == text).unwrap_or(PROVIDERS.len() + index)
}

/// A number with at most three digits after the point.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with three significant digits or all its integer digits, without trailing zeros.
pub(crate) fn short(value: f64) -> String {
    let text = significant(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number with three significant digits or all its integer digits.
pub(crate) fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A time with two or three significant digits and its unit.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if value < 0.009_95 => format!("{:.1} ms", value * 1e3),
        value if value < 0.999_5 => format!("{:.0} ms", value * 1e3),
        value if value < 9.95 => format!("{value:.1} s"),
        value => format!("{value:.0} s"),
    }
}

/// A share as per cent, rounded down, so that only all transactions give 100, and what misses a threshold does not seem
/// to reach it.
#[must_use]
pub fn percent(share: f64) -> String {
    if share >= 1.0 { "100".to_owned() } else { format!("{:.1}", (share * 1000.0 + 1e-9).floor() / 10.0) }
}

/// A share as per cent, to a tenth.
pub(crate) fn rounded_percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// At the start of a line.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// Lower-case letters, digits and points; everything else becomes a hyphen.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().map(|character| character.to_ascii_lowercase()) {
        if character.is_ascii_lowercase() || character.is_ascii_digit() || character == '.' {
            slug.push(character);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_matches(['-', '.']).chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_known_by_their_units() {
        assert_eq!(Size::of("20ms"), Size::Time(0.02));
        assert_eq!(Size::of("100KiB"), Size::Bytes(102_400.0));
        assert_eq!(Size::of("0.9"), Size::Number(0.9));
        assert_eq!(Size::of("{ zipf = 1.5 }"), Size::Name);
    }

    #[test]
    fn values_read_as_people_say_them() {
        assert_eq!(phrase(TABLES, "1"), "1 table");
        assert_eq!(phrase(FAST_APPEND, "0.9"), "90 % fast appends");
        assert_eq!(phrase(PROTOCOL, "append-log"), "append-log");
        assert_eq!(phrase("retry.time_limit", "1h"), "retry.time_limit = 1h");
        assert_eq!(brief("retry.time_limit", "1h"), "1h");
        assert_eq!(brief(TABLES, "5"), "5 tables");
        assert_eq!(phrase(LOAD, "20ms"), "20 ms between arrivals");
        assert_eq!(tick(LOAD, "1s"), "1000");
        assert_eq!(tick(LOAD, "1500us"), "1.5");
        assert_eq!(percent(0.9999), "99.9");
        assert_eq!(seconds(0.0873), "87 ms");
        assert_eq!(slug("tables.choice = { Zipf }"), "tables.choice-zipf");
    }
}
