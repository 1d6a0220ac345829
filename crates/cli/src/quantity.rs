//! Command-line arguments that are times or sizes, with the least and the most that is allowed.

use std::str::FromStr;

use glidepath_model::{ByteSize, ParseQuantityError, Span};

/// A quantity within these ends, which are written as on the command line; a number alone is of this unit.
fn within<T>(text: &str, unit: &str, [least, most]: [&'static str; 2]) -> Result<T, String>
where
    T: FromStr<Err = ParseQuantityError> + PartialOrd,
{
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_number { format!("{text}{unit}") } else { text.to_owned() };
    let allowed = || format!("allowed: {least} to {most}; a number without a unit is {unit}");
    let found: T = text.parse().map_err(|error: ParseQuantityError| format!("{error}; {}", allowed()))?;
    let is_within = least.parse().is_ok_and(|least| found >= least) && most.parse().is_ok_and(|most| found <= most);
    if is_within { Ok(found) } else { Err(allowed()) }
}

/// A time within these ends.
pub(crate) fn time(
    unit: &'static str,
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Span, String> + Clone {
    move |text| within(text, unit, [least, most])
}

/// A size within these ends.
pub(crate) fn size(
    unit: &'static str,
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<ByteSize, String> + Clone {
    move |text| within(text, unit, [least, most])
}
