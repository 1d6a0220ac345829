//! How is a text of a stranger shown to a person?

/// Any text on one line: what would control a terminal, change the direction of text or be invisible is escaped, as in
/// `\u{1b}`.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Control characters, those that end a line or change its direction, and those without width that join nothing
/// (Unicode's `Default_Ignorable_Code_Point`, without joiners and variation selectors, which letters and emoji need).
fn is_hidden(character: char) -> bool {
    match character {
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180E}' => true,
        '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' => true,
        '\u{3164}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{E0000}'..='\u{E00FF}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_shown() {
        assert_eq!(visible("a b\u{e9}\u{1f469}\u{200d}\u{1f680}"), "a b\u{e9}\u{1f469}\u{200d}\u{1f680}");
        let hidden =
            ["\n", "\r", "\u{1b}[31m", "\u{7f}", "\u{9b}", "\u{2028}", "\u{202e}", "\u{2066}", "\u{ad}", "\u{e0041}"];
        for text in hidden {
            assert!(visible(text).starts_with('\\') && !visible(text).contains(text), "{}", visible(text));
        }
    }
}
