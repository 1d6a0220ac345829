//! Support for tests that kill processes and cut power: processes that print their operations and answers, and the test
//! that reads them.
//!
//! Nothing here waits for a fixed time: the tests continue after a number of printed lines. On a busy machine that
//! takes longer.

#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

pub(crate) mod chain;
pub(crate) mod disk;

use std::io::{BufRead, BufReader, Write};
use std::process::{self, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Processes without output for this time are stuck.
const PATIENCE: Duration = Duration::from_secs(300);

const TASK: &str = "GLIDEPATH_TEST_PROCESS";

/// The task of this process, if it was started for one.
pub(crate) fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Prints one line, in one write, unbuffered, with the time by a clock that all processes of the machine share.
pub(crate) fn say(line: &str) {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap();
    let line = format!("{line} {nanos}\n");
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
}

/// The output of the processes of a test.
#[derive(Default)]
pub(crate) struct Said {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Said {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// Waits until `done` accepts the lines from number `from` on.
    pub(crate) fn wait(&self, from: usize, mut done: impl FnMut(&[String]) -> bool) {
        let mut lines = self.lines.lock().unwrap();
        while !done(&lines[from..]) {
            let before = lines.len();
            let (next, waited) = self.more.wait_timeout_while(lines, PATIENCE, |lines| lines.len() == before).unwrap();
            if waited.timed_out() {
                let last = next.last().cloned();
                // Only the panic reports this.
                drop(next);
                panic!("no process has printed a line for {PATIENCE:?}; the last line was {last:?}");
            }
            lines = next;
        }
    }
}

/// A process of this test program that runs the task of one of its tests. Dropping it kills it.
pub(crate) struct Process {
    process: process::Child,
    listener: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(test: &str, task: &str, said: &Arc<Said>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(TASK, task);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (output, said) = (process.stdout.take().unwrap(), Arc::clone(said));
        let listener = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            // A line that was cut off by a kill does not count.
            while output.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
                said.lines.lock().unwrap().push(String::from_utf8_lossy(&line).trim_end().to_owned());
                said.more.notify_all();
                line.clear();
            }
        });
        Self { process, listener: Some(listener) }
    }

    /// Ends it at once, as `kill -9` does. When this returns, all its output has been read.
    pub(crate) fn kill(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        listener.join().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Random numbers from a new seed, which is printed.
pub(crate) struct Luck(u64);

impl Luck {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "different moments in each run")]
        let seed = u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos());
        println!("moments drawn from {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Waits for a few random milliseconds.
    pub(crate) fn pause(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "processes are killed at real moments")]
        std::thread::sleep(Duration::from_micros(self.below(20_000)));
    }
}
