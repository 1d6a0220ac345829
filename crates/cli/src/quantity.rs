//! Command-line arguments that are times or sizes, with the least and the most that is allowed.

use std::str::FromStr;

use glidepath_model::{ByteSize, ParseQuantityError, Span};

/// A quantity within these ends, which are written as on the command line.
fn within<T>(text: &str, [least, most]: [&'static str; 2]) -> Result<T, String>
where
    T: FromStr<Err = ParseQuantityError> + PartialOrd,
{
    let allowed = || format!("allowed: {least} to {most}");
    let found: T = text.parse().map_err(|error: ParseQuantityError| format!("{error}; {}", allowed()))?;
    let is_within = least.parse().is_ok_and(|least| found >= least) && most.parse().is_ok_and(|most| found <= most);
    if is_within { Ok(found) } else { Err(allowed()) }
}

/// A time within these ends.
pub(crate) fn time(least: &'static str, most: &'static str) -> impl Fn(&str) -> Result<Span, String> + Clone {
    move |text| within(text, [least, most])
}

/// A size within these ends.
pub(crate) fn size(least: &'static str, most: &'static str) -> impl Fn(&str) -> Result<ByteSize, String> + Clone {
    move |text| within(text, [least, most])
}
