//! Command-line arguments that are whole numbers.

use std::fmt::Display;
use std::str::FromStr;

/// A type of whole numbers.
pub(crate) trait Whole: FromStr + PartialOrd + From<u8> + Send + Sync + 'static {
    /// The end of the range, in words.
    const UP_TO: &'static str;
}

impl Whole for u16 {
    const UP_TO: &'static str = "to 65535";
}

impl Whole for u32 {
    const UP_TO: &'static str = "to 4294967295";
}

impl Whole for u64 {
    const UP_TO: &'static str = "on";
}

impl Whole for usize {
    const UP_TO: &'static str = "on";
}

/// A whole number from 1 on.
pub(crate) fn from_one<T: Whole>(text: &str) -> Result<T, String> {
    at_least(1, text)
}

/// A whole number, also 0.
pub(crate) fn from_zero<T: Whole>(text: &str) -> Result<T, String> {
    at_least(0, text)
}

/// A whole number from `least` to `most`.
pub(crate) fn between<T: Whole + Copy + Display>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        without_leading_zeros(text)?;
        let found = text.parse::<T>().ok().filter(|number| *number >= least && *number <= most);
        found.ok_or_else(|| format!("allowed: a whole number from {least} to {most}, in digits alone"))
    }
}

/// Refuses what is left of 1,000 where a comma separates numbers.
pub(crate) fn without_leading_zeros(text: &str) -> Result<(), String> {
    match text.len() > 1 && text.starts_with('0') {
        true => Err(format!("found {text}; write 1000 without a comma")),
        false => Ok(()),
    }
}

fn at_least<T: Whole>(least: u8, text: &str) -> Result<T, String> {
    without_leading_zeros(text)?;
    let found = text.parse::<T>().ok().filter(|number| *number >= T::from(least));
    found.ok_or_else(|| format!("allowed: a whole number from {least} {}, in digits alone, such as 1000", T::UP_TO))
}
