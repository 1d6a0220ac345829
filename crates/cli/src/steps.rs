//! How many of so many steps are done? A bar on a terminal, a line now and then elsewhere; on the standard error output.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Shows it until it is dropped.
pub(crate) struct Steps {
    what: &'static str,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Steps {
    /// Of steps that are called so, in the plural. Shows nothing before the first call.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template(&format!("{{bar:30}} {{pos}}/{{len}} {what}, {{eta}} left {{msg}}"));
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { what, bar, last_line: Instant::now() }
    }

    /// How far it has come now, and what is under way.
    pub(crate) fn show(&mut self, done: usize, all: usize, now: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
                bar.set_message(now.to_owned());
            }
            None if self.last_line.elapsed() >= BETWEEN_LINES => {
                self.last_line = Instant::now();
                let now = if now.is_empty() { String::new() } else { format!(": {now}") };
                complain(&format!("{done}/{all} {}{now}", self.what));
            }
            None => {}
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
