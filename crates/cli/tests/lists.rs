//! Do `glidepath experiments` and `glidepath providers` list what ships?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};

#[test]
fn experiments_are_listed_with_their_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "experiments"));
    assert!(text.contains("4c") && text.contains("900") && text.contains("retry-policies"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&output(glidepath(folder.path(), "experiments --json"))).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["points"]), (&"1a".into(), &10.into()));
}

#[test]
fn providers_are_listed_with_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "providers"));
    assert!(text.contains("azure-premium") && text.contains("part 3, Distribution Parameters, GET"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("cassandra-regional: for catalogs only, as in --set"), "{text}");
    let json = output(glidepath(folder.path(), "providers s3-express --json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["operations"]["conditional_put"]["median_ms"], 22.0);
    assert!(json[0]["operations"]["append"]["source"].as_str().unwrap().contains("June 2025"));
    // A local disk is far below a millisecond.
    let shipped =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/s3-express-2025-06.toml"));
    let local = shipped.unwrap().replace("median = \"2500us\"", "median = \"7550ns\"");
    std::fs::write(folder.path().join("local.toml"), local).unwrap();
    let text = output(glidepath(folder.path(), "providers local.toml"));
    assert!(text.contains(" 0.00755 ") && text.contains(" 6.5 "), "{text}");
}

#[test]
fn a_provider_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(glidepath(folder.path(), "providers s3"), 2);
    assert!(error.contains("there is no provider \"s3\"") && error.contains("known: s3-express"), "{error}");
    std::fs::write(folder.path().join("mine.toml"), "title = \"Mine\"\n").unwrap();
    let error = refused(glidepath(folder.path(), "providers mine.toml"), 2);
    assert!(error.starts_with("error: mine.toml: "), "{error}");
}
