//! Helpers of all tests of the program: run it in a folder, and check how it ended.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in this folder, with these arguments, separated by spaces.
pub(crate) fn glidepath(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("glidepath"));
    command.args(arguments.split_whitespace()).current_dir(folder).output().unwrap()
}

/// Its output; it must have succeeded.
pub(crate) fn output(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Its error message. It must have ended with this code, and printed nothing else.
pub(crate) fn refused(output: Output, code: i32) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    // Blanks of the source, where a line was broken.
    assert!(error.lines().filter(|line| line.starts_with("error: ")).all(|line| !line.contains("   ")), "{error}");
    error
}
