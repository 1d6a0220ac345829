//! Does the source follow the house rules on sizes, dependencies and words? `clippy.toml` has the rules that clippy
//! checks: the size of functions, and calls that simulated code must not make.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// Source files have fewer lines than this.
const MOST_LINES: usize = 500;

/// From the bottom up: a crate depends on crates before it only. `docs/architecture.md` says what each is for.
const LAYERS: [&[&str]; 6] = [
    &["model", "picture", "queue", "run"],
    &["env", "history", "page"],
    &["files", "kv", "protocols", "sim", "txn"],
    &["stores", "workload"],
    &["bench", "check", "lab", "measure"],
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

#[test]
fn every_crate_is_on_the_page_about_architecture() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for name in LAYERS.iter().flat_map(|layer| layer.iter()) {
        assert!(page.contains(&format!("| `{name}` |")), "docs/architecture.md does not say what {name} is for");
    }
}

/// Links between pages lead to existing files.
#[test]
fn links_between_pages_lead_to_files() {
    for path in files("docs", ".md").into_iter().chain([root().join("README.md"), root().join("CONTRIBUTING.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let there = path.parent().unwrap().join(target);
                assert!(there.exists(), "{}:{}: {target} is not there", path.display(), number + 1);
            }
        }
    }
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
