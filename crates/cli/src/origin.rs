//! The origin of results: place, date, program and command.

use std::time::SystemTime;

use chrono::{DateTime, NaiveDate, Utc};

/// A URL without the parts after a question mark and before an at sign, which may be secret; with its schema, which
/// says where things are.
pub(crate) fn bare(url: &str) -> String {
    let schema = glidepath_kv::schema_of(url);
    let url = url.split('?').next().unwrap_or_default();
    // As `file:///folder` is: one store has one name.
    if let Some(folder) = url.strip_prefix("file:/").filter(|folder| !folder.starts_with('/')) {
        return format!("file:///{folder}");
    }
    let Some((scheme, place)) = url.split_once("://") else { return format!("{url}{schema}") };
    let (place, path) = place.split_at(names_begin(scheme, place));
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{place}{path}{schema}")
}

/// Where, in the part of a URL behind its scheme, certainly nothing secret follows: from there on, an at sign is part
/// of a name.
fn names_begin(scheme: &str, place: &str) -> usize {
    match scheme {
        "file" | "kv+file" => 0,
        "s3" | "az" | "gs" => {
            let bucket = place.split('/').next().unwrap_or_default();
            // Otherwise a password that has a slash.
            if bucket.contains('@') || !bucket.contains(':') { bucket.len() } else { place.len() }
        }
        _ => place.len(),
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
    let typed = std::env::args().skip(1).map(|argument| quoted(&argument));
    std::iter::once("glidepath".to_owned()).chain(typed).collect::<Vec<_>>().join(" ")
}

/// An argument as it is typed in a shell.
pub(crate) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+%@".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
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

    #[test]
    fn arguments_are_quoted_where_a_shell_would_not_take_them() {
        for (argument, typed) in [("a/ü%20.b", "a/ü%20.b"), ("x y", "'x y'"), ("it's", r"'it'\''s'"), ("", "''")] {
            assert_eq!(quoted(argument), typed);
        }
    }

    #[test]
    fn one_folder_has_one_name() {
        for url in ["file:/lake/a", "file:///lake/a", "file:///lake/a?durability=none"] {
            assert_eq!(bare(url), "file:///lake/a");
        }
        assert_eq!(bare("s3://me:secret@b/lake?region=x"), "s3://b/lake");
        for url in ["file:///lake/me@work", "s3://b/me@work", "kv+file:///lake/me@work"] {
            assert_eq!(bare(url), url);
        }
        assert_eq!(bare("s3://me:hu/sh@b/lake"), "s3://b/lake");
        assert_eq!(bare("postgres://me:hu/s@h@host/db?schema=a"), "postgres://host/db?schema=a");
        assert_eq!(bare("memory:"), "memory:");
    }
}
