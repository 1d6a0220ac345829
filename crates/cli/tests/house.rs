//! Does the source follow the house rules on sizes, dependencies and words? `clippy.toml` has the rules that clippy
//! checks: the size of functions, and calls that simulated code must not make.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Source files have fewer lines than this.
const MOST_LINES: usize = 500;

/// Columns of a comment, as of code (`max_width` in `rustfmt.toml`).
const WIDTH: usize = 120;

/// From the bottom up: a crate depends on crates before it only. `docs/architecture.md` says what each is for.
const LAYERS: [&[&str]; 7] = [
    &["allocator", "model", "picture", "queue", "run"],
    &["env", "history", "page"],
    &["access", "files", "kv", "protocols", "sim", "table", "txn"],
    &["service", "stores", "workload"],
    &["bench", "check", "measure", "point", "server"],
    &["lab"],
    &["cli"],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The files below a folder of the project with this ending, sorted; without build output.
fn files(within: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(within)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{within}: no file ends in {ending}");
    found
}

#[test]
fn files_are_short_enough_to_be_read_at_once() {
    let long = files("crates", ".rs").into_iter().filter_map(|path| {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        (lines >= MOST_LINES).then(|| format!("{}: {lines} lines", path.display()))
    });
    let long: Vec<String> = long.collect();
    assert!(long.is_empty(), "{MOST_LINES} lines or more:\n{}", long.join("\n"));
}

#[test]
fn dependencies_point_downwards() {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let mut known = 0;
    for path in files("crates", "Cargo.toml") {
        let manifest: toml::Table = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let package = manifest["package"]["name"].as_str().unwrap().trim_start_matches("glidepath-").to_owned();
        let own = layer(&package).unwrap_or_else(|| panic!("{package} has no layer"));
        known += 1;
        let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
        for name in dependencies.keys().filter_map(|name| name.strip_prefix("glidepath-")) {
            let other = layer(name).unwrap_or_else(|| panic!("{name} has no layer"));
            assert!(other < own, "{package} depends on {name}, which is not below it");
        }
    }
    assert_eq!(known, LAYERS.iter().map(|layer| layer.len()).sum::<usize>());
}

/// What the lines of documentation at the beginning of a file say, as one line.
fn beginning(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_library_begins_with_the_question_that_the_page_about_architecture_states() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let mut asked = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, name, what, ..] = cells[..] else { continue };
        let Some((question, _)) = what.split_once('?') else { continue };
        let library = root().join(format!("crates/{}/src/lib.rs", name.trim_matches('`')));
        let text = fs::read_to_string(&library).unwrap();
        assert!(beginning(&text).starts_with(&format!("{question}?")), "{}: not {question}?", library.display());
        asked += 1;
    }
    assert!(asked > 20, "{asked} questions: the table is not the one that this test reads");
}

#[test]
fn comments_are_no_wider_than_code() {
    for path in files("crates", ".rs") {
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let words = line.trim_start();
            // Tables, addresses and code are not broken.
            let text = words.trim_start_matches(['/', '!']);
            let whole = words.contains("://") || text.trim_start().starts_with('|') || text.starts_with("     ");
            let comment = words.starts_with("//") && !whole;
            assert!(!comment || line.chars().count() <= WIDTH, "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn every_crate_is_on_the_page_about_architecture() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for (number, layer) in (1..).zip(LAYERS) {
        for name in layer {
            let row = format!("| {number} | `{name}` |");
            assert!(page.contains(&row), "docs/architecture.md has no row that begins with {row}");
        }
    }
}

/// The links of a page to other places of the project, each with its line: also those that are broken over two lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let targets = text.match_indices("](").filter_map(|(at, _)| {
        let target = text[at + 2..].split([')', '\n']).next()?;
        Some((text[..at].lines().count(), target.to_owned()))
    });
    targets.filter(|(_, target)| !target.contains("://")).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let before = found.iter().filter(|known| **known == anchor).count();
        found.push(if before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    found
}

/// Links between pages lead to existing files, and to headings that are in them.
#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let mut dead = Vec::new();
    let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    for path in files("docs", ".md").into_iter().chain(pages) {
        let text = fs::read_to_string(&path).unwrap();
        for (line, target) in links(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let there = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let found = match (there.exists(), anchor) {
                (exists, "") => exists,
                (exists, anchor) => {
                    exists && anchors(&fs::read_to_string(&there).unwrap()).iter().any(|known| known == anchor)
                }
            };
            if !found {
                dead.push(format!("{}:{line}: {target}", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "these links lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn headings_have_the_anchors_that_links_use() {
    let page = "# A *first* heading: one\n```\n# no heading\n```\n## Twice\n## Twice\n#no\n";
    assert_eq!(anchors(page), ["a-first-heading-one", "twice", "twice-1"]);
    assert_eq!(links("[a](b.md#c) and\n[d](#e) [f](https://g)"), [(1, "b.md#c".into()), (2, "#e".into())]);
}

/// The words of the table "Not these words" in the glossary, each with what to write instead.
fn unwanted() -> Vec<(String, String)> {
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let table = glossary.split("## Not these words").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_lowercase());
        (cells.next().unwrap(), cells.next().unwrap())
    });
    let words: Vec<_> = rows.collect();
    assert!(words.len() > 5);
    words
}

/// Whether a line contains this word as a whole word, in any case.
fn stands(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    let letter = |side: Option<char>| side.is_some_and(|character| character.is_alphanumeric() || character == '_');
    line.match_indices(word)
        .any(|(at, _)| !letter(line[..at].chars().next_back()) && !letter(line[at + word.len()..].chars().next()))
}

#[test]
fn unwanted_words_are_not_used() {
    let (words, glossary) = (unwanted(), root().join("docs/glossary.md"));
    let sources = files("crates", ".rs").into_iter().chain(files("docs", ".md")).chain([root().join("README.md")]);
    let mut found = Vec::new();
    for path in sources.filter(|path| *path != glossary && !path.ends_with("house.rs")) {
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            for (word, instead) in words.iter().filter(|(word, _)| stands(line, word)) {
                found.push(format!("{}:{}: {word:?}; write {instead}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_of_the_glossary_are_in_order() {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let mut before = String::new();
    for line in text.lines() {
        let word = line.strip_prefix("| **").and_then(|rest| rest.split_once("**"));
        let word = word.map(|(word, _)| word.to_lowercase()).unwrap_or_default();
        assert!(word.is_empty() || before <= word, "docs/glossary.md: {word} comes after {before}");
        before = word;
    }
}
