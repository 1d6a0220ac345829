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
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let days = passed.as_secs() as i64 / 86_400 + 719_468;
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
