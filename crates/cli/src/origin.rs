//! Where and when was something measured, by what, and by which command? For people who read the results later.

/// A URL without what follows a question mark or stands before an at sign: that may be secret.
pub(crate) fn bare(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
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

/// The day in UTC (Howard Hinnant's days-to-civil algorithm).
pub(crate) fn today() -> String {
    let days = days_now() + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// How long ago a day was, for people; `None` for what is no day, or is still to come.
pub(crate) fn ago(date: &str) -> Option<String> {
    match days_now() - days_of(date)? {
        0 => Some("today".to_owned()),
        1 => Some("yesterday".to_owned()),
        days if days > 0 => Some(format!("{days} days ago")),
        _ => None,
    }
}

/// Since 1970-01-01, in UTC.
fn days_now() -> i64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    passed.as_secs() as i64 / 86_400
}

/// The inverse of [`today`] (Howard Hinnant's civil-to-days algorithm).
fn days_of(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// What was typed, fit to be typed again.
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
    fn days_are_counted_from_1970() {
        assert_eq!(days_of("1970-01-01"), Some(0));
        assert_eq!(days_of("2026-11-22"), Some(20_779));
        assert_eq!(days_of("2000-03-01"), Some(11_017));
        assert_eq!(days_of("June 2025"), None);
        assert_eq!(days_of(&today()), Some(days_now()));
        assert_eq!(ago("2999-01-01"), None);
    }
}
