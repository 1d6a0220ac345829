//! The origin of results: place, date, program and command.

use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, Utc};

/// A URL without the parts after a question mark and before an at sign, which may be secret; with its schema, which
/// says where things are.
pub(crate) fn bare(url: &str) -> String {
    let schema = glidepath_kv::schema_of(url);
    let url = url.split('?').next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}{schema}"),
        _ => format!("{url}{schema}"),
    }
}

/// The machine, without its name.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{} {}, {cores} processors", std::env::consts::OS, std::env::consts::ARCH)
}

/// This program and its version.
pub(crate) fn program() -> String {
    format!("glidepath {}", env!("CARGO_PKG_VERSION"))
}

/// The day in UTC.
pub(crate) fn today() -> String {
    day_now().to_string()
}

/// How long ago a day was, in words; `None` for an invalid or future day.
pub(crate) fn ago(date: &str) -> Option<String> {
    let day: NaiveDate = date.parse().ok()?;
    match day_now().signed_duration_since(day).num_days() {
        0 => Some("today".to_owned()),
        1 => Some("yesterday".to_owned()),
        days if days > 0 => Some(format!("{days} days ago")),
        _ => None,
    }
}

fn day_now() -> NaiveDate {
    DateTime::<Utc>::from(SystemTime::now()).date_naive()
}

/// The command line, quoted so that it can be typed again.
pub(crate) fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    let quote = |argument: String| {
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    std::iter::once("glidepath".to_owned()).chain(std::env::args().skip(1).map(quote)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_so_many_days_ago() {
        assert_eq!(ago(&today()).as_deref(), Some("today"));
        let days = day_now().signed_duration_since(NaiveDate::from_ymd_opt(2026, 11, 1).unwrap()).num_days();
        assert_eq!(ago("2026-11-01"), Some(format!("{days} days ago")));
        assert_eq!((ago("June 2025"), ago("2026-13-01"), ago("2999-01-01")), (None, None, None));
    }
}
