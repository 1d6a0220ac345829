//! Tests of `glidepath reproduce`, without the parts that take minutes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};

#[test]
fn one_part_alone_writes_its_page_and_its_picture() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "reproduce --only versioned-manifest --quick --out pages/sweep.md"));
    assert!(text.contains("pages/sweep.md"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("pages/sweep.md")).unwrap();
    for expected in ["A coarse run", "reproduce --only versioned-manifest --quick", "](sweep.svg)", "first principles"]
    {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    // A published figure, beside a deviation.
    let row = page.lines().find(|line| line.starts_with("| 1000000 | 200 | 0.300 |")).unwrap();
    assert!(row.contains(" %)"), "{row}");
    assert!(std::fs::read_to_string(folder.path().join("pages/sweep.svg")).unwrap().starts_with("<svg"));
    // The page of the other part is not changed.
    assert_eq!(std::fs::read_dir(folder.path().join("pages")).unwrap().count(), 2);
}

/// Whoever changes the model runs `glidepath reproduce` again.
#[test]
fn the_pages_are_of_the_model_that_runs() {
    for page in ["reproduction.md", "reproduction-versioned-manifest.md"] {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = format!("model version {}", glidepath_point::MODEL_VERSION);
        assert!(text.contains(&expected), "{path} is not of {expected}: run `glidepath reproduce`");
    }
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = refused(glidepath(folder.path(), "reproduce --only everything"), 2);
    for expected in ["everything", "simulations", "versioned-manifest"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
