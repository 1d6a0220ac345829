//! Which answers of a server are the same but for numbers and names?

use super::cell::Line;

/// In place of a number or a name.
const ANY: char = '#';

/// The answers to all tries that were not acknowledged, with the count of tries: the most frequent one first.
#[must_use]
pub fn answers(lines: &[Line]) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> = Vec::new();
    for (words, count) in lines.iter().flat_map(|line| &line.errors) {
        match all.iter_mut().find(|(known, _)| known == words) {
            Some((_, known)) => *known += count,
            None => all.push((words.as_str(), *count)),
        }
    }
    // Stable: the first one of equally frequent ones stays first.
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

/// What became of the tries that conflicted, in a sentence; `None` if there are none.
#[must_use]
pub fn after_conflicts(lines: &[Line]) -> Option<String> {
    let figures = || lines.iter().flat_map(|line| std::iter::once(&line.figures).chain(&line.overwrites));
    let conflicts: u64 = figures().map(|figures| figures.conflicts).sum();
    let given_up: u64 = figures().map(|figures| figures.given_up).sum();
    (conflicts > 0).then(|| {
        format!(
            "Conflicts: {conflicts}, after {given_up} of which the operation was given up; after the others the client \
             tried again while the cell ran."
        )
    })
}

/// For example "1 try" and "2 tries".
#[must_use]
pub fn tries(count: u64) -> String {
    if count == 1 { "1 try".to_owned() } else { format!("{count} tries") }
}

/// An answer with [`ANY`] in place of words with digits and of what is in quotation marks. The status at its beginning
/// stays.
pub(super) fn grouped(answer: &str) -> String {
    let is_status = |status: &&str| status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
    match answer.split_once(':').filter(|(status, _)| is_status(status)) {
        Some((status, words)) => format!("{status}:{}", without_values(words)),
        None => without_values(answer),
    }
}

fn without_values(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let quoted = quoted(rest, kept.chars().next_back());
        let word = &rest[..rest.find(|c: char| !in_word(c)).unwrap_or(rest.len())];
        let length = match quoted {
            Some(length) => length,
            None if word.is_empty() => first.len_utf8(),
            None => word.len(),
        };
        match quoted.is_some() || word.contains(|c: char| c.is_ascii_digit()) {
            true => kept.push(ANY),
            false => kept.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    kept
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the quotation at the beginning of a text, with its marks. After a letter or digit, a mark is an
/// apostrophe.
fn quoted(text: &str, before: Option<char>) -> Option<usize> {
    let mark = text.chars().next().filter(|c| ['"', '\'', '`'].contains(c))?;
    if before.is_some_and(in_word) {
        return None;
    }
    let inner = &text[mark.len_utf8()..];
    let end = |(at, _): &(usize, &str)| !inner[at + mark.len_utf8()..].starts_with(in_word);
    let (at, _) = inner.match_indices(mark).find(end)?;
    Some(at + 2 * mark.len_utf8())
}

#[cfg(test)]
mod tests {
    use glidepath_model::Span;

    use super::super::cell::{Cell, Outcome, Samples, Workload};
    use super::*;

    #[test]
    fn numbers_and_names_do_not_make_another_answer() {
        for (answer, expected) in [
            ("409: expected id 8589934592 != 4294967296", "409: expected id # != #"),
            ("409: branch \"main\" of 'bench_1.t2' has changed", "409: branch # of # has changed"),
            ("409: bench_00ab.t17 has changed", "409: #.# has changed"),
            ("503: it's the server's turn", "503: it's the server's turn"),
            ("503: 'an open mark", "503: 'an open mark"),
            ("500: \u{fc}ber `x`", "500: \u{fc}ber #"),
            ("the connection broke: os error 104", "the connection broke: os error #"),
            ("", ""),
        ] {
            assert_eq!(grouped(answer), expected);
            assert_eq!(grouped(expected), expected, "grouped once more");
        }
    }

    #[test]
    fn answers_of_all_cells_are_counted_together() {
        let cell = Cell { workload: Workload::Hot, connections: 2, overwrites: 0, duration: Span::from_secs(1) };
        let line = |id: u64, given_up: u64| {
            let mut operations = Samples { given_up, conflicts: 2, ..Samples::default() };
            operations.note("503: busy", 1);
            operations.note(&format!("409: expected id {id} != 7"), 2);
            Line::new(cell, &Outcome { operations, ..Outcome::default() })
        };
        let lines = [line(1, 0), line(22, 1)];
        assert_eq!(answers(&lines), [("409: expected id # != #", 4), ("503: busy", 2)]);
        let told = after_conflicts(&lines).unwrap();
        assert!(told.starts_with("Conflicts: 4, after 1 of which the operation was given up; "), "{told}");
        assert_eq!(after_conflicts(&[]), None);
        assert_eq!([1, 2].map(tries), ["1 try", "2 tries"]);
        assert_eq!(lines[0].client_processor_us, None);
    }
}
