//! Does `glidepath measure` work on the command line, and refuse wrong arguments with a message?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};

/// Whether a table on the terminal has a row that begins with these words.
fn has_row(text: &str, words: &str) -> bool {
    text.lines().any(|line| format!("{} ", line.split_whitespace().collect::<Vec<_>>().join(" ")).starts_with(words))
}

#[test]
fn a_simulated_store_is_measured_and_its_profile_taken() {
    let folder = tempfile::tempdir().unwrap();
    let asked = "measure sim:s3-express-2025-06 --quick --duration 5s --writers 1,4 --operations cas,get,put --out m";
    let text = output(glidepath(folder.path(), asked));
    assert!(text.contains("Conditional writes on sim:s3-express-2025-06, from ") && has_row(&text, "cas 4"), "{text}");
    assert!(has_row(&text, "get 1MiB") && !has_row(&text, "append"), "{text}");
    assert!(text.contains("- cas: with 1 writer the median is "), "{text}");
    let tables = std::fs::read_to_string(folder.path().join("m/report.md")).unwrap();
    assert!(tables.contains("| cas | 4 |") && tables.contains("| get 1MiB |"), "{tables}");
    let report = std::fs::read_to_string(folder.path().join("m/report.html")).unwrap();
    assert!(report.contains("<svg") && !report.contains("http://") || report.contains("www.w3.org"));
    assert!(std::fs::metadata(folder.path().join("m/samples.parquet")).unwrap().len() > 1000);
    // The measured profile can be simulated.
    let asked = "knee --profile m/profile.toml --tables 2 --budget 50s --no-what-if --json";
    let json = output(glidepath(folder.path(), asked));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["knee_commits_per_s"].as_f64().unwrap() > 0.5, "{json}");
    // With its interval, and the composition of that.
    let number =
        |path: &str| json.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}: {json}"));
    assert!(number("/measurement/interval_commits_per_s/0") < number("/knee_commits_per_s"), "{json}");
    let shares =
        ["simulation", "sampling", "effect_time"].map(|share| number(&format!("/measurement/made_of/{share}")));
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    let asked = "knee --profile m/profile.toml --tables 2 --budget 50s --no-what-if";
    let text = output(glidepath(folder.path(), asked));
    assert!(text.contains("With the measurement of the store: ") && text.contains("(variance shares)"), "{text}");
    assert!(text.contains("was measured on 2") && text.contains("(today)") || text.contains("(yesterday)"), "{text}");
    let text = output(glidepath(folder.path(), &asked.replace("m/profile.toml", "s3-express")));
    assert!(text.contains("covers the simulation only: the profile of s3-express does not include"), "{text}");
    // A profile whose alternatives are missing is an error.
    std::fs::rename(folder.path().join("m/profile-alternatives.toml"), folder.path().join("m/other")).unwrap();
    let error = refused(glidepath(folder.path(), asked), 2);
    assert!(error.contains("profile-alternatives.toml: ") && error.contains("keep the two together"), "{error}");
    // For an operation that was not measured a latency is assumed, and no interval covers it.
    let asked = "measure sim:s3-express-2025-06 --quick --duration 1s --writers 1 --operations cas --out only";
    let text = output(glidepath(folder.path(), asked));
    assert!(!text.contains("; with 1 writer") && !text.contains("of the attempts fail"), "{text}");
    let asked = "knee --profile only/profile.toml --tables 2 --budget 2s --no-what-if --json";
    let json: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), asked))).unwrap();
    assert!(json["assumed_operations"].to_string().contains("put"), "{json}");
    assert!(json["measurement"]["interval_commits_per_s"].is_null(), "{json}");
    let compared = output(glidepath(folder.path(), "measure compare m m"));
    assert!(compared.contains("| cas | 4 |") && compared.contains("| 1.00 |"), "{compared}");
}

#[test]
fn a_folder_is_measured_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let asked = format!(
        "measure file://{}?durability=none --quick --trials 1 --duration 100ms --writers 1,2 --out m",
        store.display()
    );
    let text = output(glidepath(folder.path(), &asked));
    assert!(has_row(&text, "append 2") && has_row(&text, "put 1MiB 1"), "{text}");
    assert!(!store.exists(), "{:?}", files(&folder.path().join("store")));
    // A store that existed keeps its objects and gets no others.
    let catalog = format!("catalog create file://{}", store.display());
    output(glidepath(folder.path(), &catalog));
    let before = files(&store);
    output(glidepath(folder.path(), &asked));
    assert_eq!(files(&store), before);
    // An empty folder that existed stays empty.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::create_dir(&store).unwrap();
    output(glidepath(folder.path(), &asked));
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
}

/// Every file under a folder.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

#[test]
fn what_is_typed_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for (asked, told) in [
        ("measure ftp://x", "memory:, file:///directory"),
        ("measure sim:s3", "there is no provider \"s3\""),
        ("measure memory: --writers 4,2", "--writers"),
        ("measure memory: --writers x", "1-16"),
        ("measure memory: --operations cos", "allowed: cas"),
        ("measure memory: --trials 0", "--trials"),
        ("measure s3://bucket/prefix?endpoint=http://127.0.0.1:9", "--yes"),
        ("measure S3://bucket/prefix?endpoint=http://127.0.0.1:9", "--yes"),
        ("measure s3:/bucket", "\"s3:/bucket\" is not a store: two slashes follow s3:"),
        ("measure compare a b", "latencies.json"),
    ] {
        let error = refused(glidepath(folder.path(), asked), 2);
        assert!(error.contains(told), "{asked}: {error}");
    }
}
