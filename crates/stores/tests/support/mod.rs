//! What the tests of stores share.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod broken;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{self, ChildStdout, Command, Stdio};

use glidepath_env::conformance::Violation;

/// Fails with all violations, if there are any.
pub(crate) fn none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "the contract is broken:\n{}", lines.join("\n"));
}

const TASK: &str = "GLIDEPATH_TEST_TASK";
const DIRECTORY: &str = "GLIDEPATH_TEST_DIRECTORY";
const ARGUMENT: &str = "GLIDEPATH_TEST_ARGUMENT";

/// Another process of this test program, in which one test runs a task.
pub(crate) struct Child {
    process: process::Child,
    output: Lines<BufReader<ChildStdout>>,
}

/// In a child started for this task: the directory and the argument it was given.
pub(crate) fn child_task(task: &str) -> Option<(String, String)> {
    let given = |name| std::env::var(name).ok();
    (given(TASK)? == task).then_some((given(DIRECTORY)?, given(ARGUMENT)?))
}

impl Child {
    pub(crate) fn start(test: &str, task: &str, directory: &Path, argument: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]);
        Self::spawn(command, task, directory, argument)
    }

    /// Starts it so that no file can grow beyond 64 KiB, and exceeding that is an error instead of a signal.
    pub(crate) fn start_without_room(test: &str, task: &str, directory: &Path) -> Self {
        let mut command = Command::new("bash");
        command.args(["-c", r#"trap "" XFSZ; ulimit -f 64; exec "$0" "$@""#]);
        command.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
        Self::spawn(command, task, directory, "")
    }

    fn spawn(mut command: Command, task: &str, directory: &Path, argument: &str) -> Self {
        command.env(TASK, task).env(DIRECTORY, directory).env(ARGUMENT, argument);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, output }
    }

    /// Waits for its end, which must be successful.
    pub(crate) fn succeeds(mut self) {
        let output: Vec<String> = self.output.map_while(Result::ok).collect();
        let status = self.process.wait().unwrap();
        let output = output.join("\n");
        assert!(status.success() && output.contains("1 passed"), "{status}\n{output}");
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.output.next()?.ok()
    }

    /// Kills it, as `kill -9` does, and returns the rest of its output. It must not have ended by itself.
    pub(crate) fn kill(mut self) -> Vec<String> {
        assert_eq!(self.process.try_wait().unwrap(), None, "the process ended by itself");
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.output.map_while(Result::ok).collect()
    }
}
