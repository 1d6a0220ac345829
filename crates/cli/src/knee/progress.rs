//! How much of the budget is spent? A bar on a terminal, a line now and then elsewhere; on the standard error output.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use glidepath_lab::knee::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

/// A wait shorter than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Elsewhere than on a terminal: the time between lines.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Shows it until it is dropped.
pub(super) struct Display {
    began: Instant,
    bar: Option<ProgressBar>,
    last_line: Mutex<Instant>,
}

impl Display {
    /// Shows nothing before the first call.
    pub(super) fn new() -> Self {
        let began = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent} % of the budget, {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { began, bar, last_line: Mutex::new(began) }
    }

    /// How far it is now; by any thread.
    pub(super) fn show(&self, progress: Progress) {
        if let Some(bar) = &self.bar {
            if self.began.elapsed() > PATIENCE {
                bar.set_length(progress.budget);
                bar.set_message(searches(progress));
                bar.set_position(progress.events.min(progress.budget));
            }
            return;
        }
        // Where another thread is about to write the line, this one need not.
        let Ok(mut last_line) = self.last_line.try_lock() else { return };
        if last_line.elapsed() >= BETWEEN_LINES {
            *last_line = Instant::now();
            complain(&line(progress));
        }
    }
}

fn searches(Progress { searches, searches_done, .. }: Progress) -> String {
    format!("{searches_done} of {searches} searches done")
}

fn line(progress: Progress) -> String {
    let percent = 100.0 * progress.events as f64 / progress.budget.max(1) as f64;
    format!("{percent:.0} % of the budget, {}", searches(progress))
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_spent_of_what() {
        let progress = Progress { events: 5_000_000, budget: 20_000_000, searches: 21, searches_done: 3 };
        assert_eq!(line(progress), "25 % of the budget, 3 of 21 searches done");
    }
}
