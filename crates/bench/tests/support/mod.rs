//! What tests of live catalogs under violence have in common: processes that say what they do and what they are told, and who
//! listens to them.
//!
//! Nothing here waits for a time to pass: the tests go on when so much was said. On a busy machine that takes longer.

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

/// Processes that say nothing for so long are stuck.
const PATIENCE: Duration = Duration::from_secs(300);

const TASK: &str = "GLIDEPATH_TEST_PROCESS";

/// In a process that was started for it: its task.
pub(crate) fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// One line, in one write, at once, with the time on a clock that all processes of the machine share.
pub(crate) fn say(line: &str) {
    let time = clock_gettime(ClockId::Monotonic);
    let nanos = u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap();
    let line = format!("{line} {nanos}\n");
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
}

/// What the processes of a test have said.
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

    /// Waits until `done` is content with what was said from line number `from` on.
    pub(crate) fn wait(&self, from: usize, mut done: impl FnMut(&[String]) -> bool) {
        let mut lines = self.lines.lock().unwrap();
        while !done(&lines[from..]) {
            let before = lines.len();
            let (next, waited) = self.more.wait_timeout_while(lines, PATIENCE, |lines| lines.len() == before).unwrap();
            if waited.timed_out() {
                let last = next.last().cloned();
                // Others are to hear of this from the panic alone.
                drop(next);
                panic!("nobody has said anything for {PATIENCE:?}; the last was {last:?}");
            }
            lines = next;
        }
    }
}

/// A process of this test program that does the task of one of its tests. Dropped, it is killed.
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
            // What a killed process was in the middle of writing is no line.
            while output.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
                said.lines.lock().unwrap().push(String::from_utf8_lossy(&line).trim_end().to_owned());
                said.more.notify_all();
                line.clear();
            }
        });
        Self { process, listener: Some(listener) }
    }

    /// Ends it at once, as `kill -9` does. When this returns, all that it said is among what was said.
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

/// Numbers that are other ones each time, from a seed that is printed.
pub(crate) struct Luck(u64);

impl Luck {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "other moments in each run")]
        let seed = u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos());
        println!("moments drawn from {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A moment later that nothing which was said decides: a few milliseconds.
    pub(crate) fn pause(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "processes are killed at real moments")]
        std::thread::sleep(Duration::from_micros(self.below(20_000)));
    }
}
