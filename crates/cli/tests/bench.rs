//! `glidepath bench` as people type it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use assert_cmd::Command;

fn glidepath(folder: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("glidepath").unwrap();
    command.current_dir(folder.path()).args(arguments).output().unwrap()
}

fn url(folder: &tempfile::TempDir) -> String {
    format!("file://{}/store", folder.path().display())
}

/// What lies in a folder, however deep.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

#[test]
fn threads_and_processes_commit_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    for how in [&[][..], &["--processes"]] {
        let arguments = ["bench", &url, "--rows", "50", "--writers", "1,3", "--duration", "300ms", "--json"];
        let arguments = [&arguments[..], &["--profile", "s3-express"], how].concat();
        let output = glidepath(&folder, &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 2);
        for row in rows.as_array().unwrap() {
            assert!(row["measured"]["commits"].as_u64().unwrap() > 0, "{row}");
            assert_eq!(row["measured"]["errors"], 0, "{row}");
            assert!(row["predicted"]["commits_per_s"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["prediction_error"].is_number(), "{row}");
        }
    }
    let objects: Vec<_> = files(&folder.path().join("store/objects"));
    assert!(objects.is_empty(), "{objects:?}");
}

#[test]
fn a_table_is_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let output = glidepath(&folder, &["bench", &url(&folder), "--rows", "10", "--writers", "2", "--duration", "200ms"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("commits/s") && text.contains("for each commit"), "{text}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let cases: [(&[&str], &str); 6] = [
        (&["bench", &url, "--writers", "0"], "--writers"),
        (&["bench", &url, "--duration", "5"], "unit"),
        (&["bench", &url, "--rows", "many"], "--rows"),
        (&["bench", "memory:", "--processes"], "memory:"),
        (&["bench", "ftp://host/x"], "file:///directory"),
        (&["bench", &url, "--profile", "nowhere"], "nowhere"),
    ];
    for (arguments, word) in cases {
        let output = glidepath(&folder, arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains(word), "{arguments:?}: {words}");
    }
}
