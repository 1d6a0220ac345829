//! How is a user's mistake reported? With what was found, what is allowed, and what was probably meant.

use crate::library::did_you_mean;

/// Rewrites a message of the deserializer.
pub(crate) fn complaint(message: &str) -> String {
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
    let allowed = plain(allowed.strip_prefix("one of ").unwrap_or(allowed)).replace('`', "\"");
    let candidates = allowed.split('"').skip(1).step_by(2);
    let hint = did_you_mean(unquoted(found), candidates);
    format!("found {what}{}{hint}; allowed: {allowed}", found.replace('`', "\""))
}

/// Replaces the deserializer's names of types by words for people.
fn plain(allowed: &str) -> &str {
    match allowed {
        "f64" => "a number",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 9223372036854775807",
        "a boolean" => "true or false",
        "a map" => "a table, such as { name = value }",
        "a sequence" => "a list, such as [\"one\", \"two\"]",
        other if other.starts_with("struct ") => "a table, such as { name = value }",
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
            assert_eq!(complaint(message), expected);
        }
    }
}
