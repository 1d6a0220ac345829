//! How is a user's mistake reported? With what was found, what is allowed, and what was probably meant.

use std::collections::BTreeSet;

use glidepath_point::Config;
use glidepath_workload::whole_range;
use toml::{Table, Value};

use super::DEFAULT_PRESET;
use super::fields::covers;
use super::layers::{OPTIONAL, OVERWRITE_RUNTIME};
use super::sweep::leaves;
use crate::library::{Shelf, did_you_mean};

/// Options of searches that look like fields.
const OPTIONS: [&str; 6] = ["threshold", "worst", "commit_within", "within", "tolerance", "budget"];

const TABLE: &str = "a table, such as { name = value }";

/// Rewrites a message of the deserializer about the field at this path.
pub(crate) fn complaint(message: &str, path: &str) -> String {
    let message = message.trim();
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("{field} is missing: add it, or choose a preset that has it", field = unquoted(field));
    }
    let kinds = [
        ("invalid type: ", ""),
        ("invalid value: ", ""),
        ("invalid length ", "length "),
        ("unknown variant ", ""),
        ("unknown field ", "unknown field "),
    ];
    let split = kinds.iter().find_map(|(prefix, what)| {
        let (found, allowed) = message.strip_prefix(prefix)?.split_once(", expected ")?;
        Some((*what, found, allowed))
    });
    let Some((what, found, allowed)) = split else { return message.to_owned() };
    if let ("unit variant", "newtype variant" | "struct variant") = (found, allowed) {
        return "found the name alone; allowed: the name with its fields: { name = { field = value } }".to_owned();
    }
    let digits = found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
    // On the command line, a number that is too large for TOML.
    let too_large = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_err();
    let digits = digits.filter(|text| !text.is_empty() && too_large(text));
    let found = digits.unwrap_or(found);
    let allowed = match whole_range(path).filter(|_| allowed == "u32") {
        Some(range) => format!("a whole number from {} to {}", range.start(), range.end()),
        None => plain(allowed.strip_prefix("one of ").unwrap_or(allowed)).replace('`', "\""),
    };
    let candidates = allowed.split('"').skip(1).step_by(2);
    let hint = match what {
        "unknown field " => meant(unquoted(found), candidates),
        _ if allowed == TABLE => parts(path),
        _ => did_you_mean(unquoted(found), candidates),
    };
    format!("found {what}{}{hint}; allowed: {allowed}", found.replace('`', "\""))
}

/// What somebody probably meant who gave an unknown field: a field of this name in a section, an option of a search, or
/// one of the known names here that is similar.
pub(super) fn meant<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let name = word.replace('-', "_");
    let in_section = format!(".{name}");
    let elsewhere = paths().into_iter().filter(|path| path.ends_with(&in_section));
    let elsewhere: Vec<String> = elsewhere.map(|path| format!("\"{path}\"")).collect();
    if !elsewhere.is_empty() {
        return format!(" (did you mean {}?)", elsewhere.join(" or "));
    }
    match OPTIONS.contains(&name.as_str()) {
        true => format!(" (--{} is an option of a search for knees, not a field)", name.replace('_', "-")),
        false => did_you_mean(word, known),
    }
}

/// The fields of the table at this path, one of which somebody probably meant who gave a value for the whole.
fn parts(path: &str) -> String {
    let inside = |field: &String| field != path && covers(path, field);
    let fields: Vec<String> = paths().into_iter().filter(inside).map(|field| format!("\"{field}\"")).collect();
    match fields.is_empty() {
        true => String::new(),
        false => format!(" (did you mean {}?)", fields.join(" or ")),
    }
}

/// The paths of fields: those that the default preset sets, and optional ones.
fn paths() -> BTreeSet<String> {
    let preset = Shelf::Presets.find(DEFAULT_PRESET).map(|found| found.text).unwrap_or_default();
    let config = toml::from_str::<Config>(&preset).ok().and_then(|config| Table::try_from(&config).ok());
    let mut entries = Vec::new();
    leaves("", Value::Table(config.unwrap_or_default()), "", &mut entries);
    let mut paths: BTreeSet<String> = entries.into_iter().map(|entry| entry.key).collect();
    let overwrites = |path: &String| Some(format!("{OVERWRITE_RUNTIME}{}", path.strip_prefix("transaction.runtime")?));
    let of_overwrites: Vec<String> = paths.iter().filter_map(overwrites).collect();
    paths.extend(of_overwrites);
    paths.extend(OPTIONAL.map(str::to_owned));
    paths
}

/// Replaces the deserializer's names of types by words for people.
fn plain(allowed: &str) -> &str {
    match allowed {
        "f64" => "a number",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 9223372036854775807",
        "a boolean" => "true or false",
        "a map" => TABLE,
        "a sequence" => "a list, such as [\"one\", \"two\"]",
        other if other.starts_with("struct ") => TABLE,
        other => other,
    }
}

fn unquoted(word: &str) -> &str {
    word.trim_matches('`')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_was_found_and_what_is_allowed() {
        let cases = [
            ("invalid type: integer `35`, expected a span", "found integer \"35\"; allowed: a span"),
            (
                "unknown variant `unifrom`, expected `uniform` or `zipf`",
                "found \"unifrom\" (did you mean \"uniform\"?); allowed: \"uniform\" or \"zipf\"",
            ),
            (
                "unknown field `scal`, expected one of `kind`, `scale`",
                "found unknown field \"scal\" (did you mean \"scale\"?); allowed: \"kind\", \"scale\"",
            ),
            ("missing field `kind`", "kind is missing: add it, or choose a preset that has it"),
            (
                "invalid type: string \"99999999999999999999\", expected u32",
                "found 99999999999999999999; allowed: a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: unit variant, expected newtype variant",
                "found the name alone; allowed: the name with its fields: { name = { field = value } }",
            ),
            ("something else", "something else"),
        ];
        for (message, expected) in cases {
            assert_eq!(complaint(message, "retry.retries"), expected);
        }
    }

    #[test]
    fn a_range_is_the_same_for_every_mistake() {
        let message = "invalid type: integer `-1`, expected u32";
        let expected = "found integer \"-1\"; allowed: a whole number from 1 to 100000";
        assert_eq!(complaint(message, "tables.count"), expected);
    }

    #[test]
    fn a_field_of_another_section_and_an_option_are_recognized() {
        let here = || ["provider", "tables"].into_iter();
        assert_eq!(meant("protocol", here()), " (did you mean \"catalog.protocol\"?)");
        assert_eq!(meant("fast-append", here()), " (did you mean \"transaction.fast_append\"?)");
        let scales = " (did you mean \"arrivals.scale\" or \"transaction.overwrite_runtime.scale\" or \
            \"transaction.runtime.scale\"?)";
        assert_eq!(meant("scale", here()), scales);
        assert_eq!(meant("servers", here()), " (did you mean \"catalog.servers\"?)");
        let option = " (--commit-within is an option of a search for knees, not a field)";
        assert_eq!(meant("commit_within", here()), option);
        assert_eq!(meant("tabels", here()), " (did you mean \"tables\"?)");
    }
}
