//! What do all tests of the program need? To run it in a folder, and to look at how it ended.

use std::path::Path;
use std::process::{Command, Output};

/// The program in this folder, with these arguments, which spaces part.
pub(crate) fn glidepath(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("glidepath"));
    command.args(arguments.split_whitespace()).current_dir(folder).output().unwrap()
}

/// What it printed, if it did what was asked.
pub(crate) fn output(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it complained of. It must have ended with this code, and printed nothing else.
pub(crate) fn refused(output: Output, code: i32) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    error
}
