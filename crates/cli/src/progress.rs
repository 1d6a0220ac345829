//! Progress on the standard error output: a bar on a terminal, otherwise a line from time to time. Both have the same
//! text.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use glidepath_lab::{knee, runner};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

/// A wait shorter than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between lines, if not on a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Parts of a bar.
const PARTS: u64 = 1000;

/// Shows the progress until it is dropped. Any thread may call it.
pub(crate) struct Display {
    began: Instant,
    bar: Option<ProgressBar>,
    last_line: Mutex<Instant>,
}

impl Display {
    /// Shows nothing before the first call.
    pub(crate) fn new() -> Self {
        let began = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {msg}");
            ProgressBar::new(PARTS).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { began, bar, last_line: Mutex::new(began) }
    }

    /// Shows the share of the work that is done, and a text.
    pub(crate) fn show(&self, share: f64, words: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            if self.began.elapsed() > PATIENCE {
                bar.set_message(words());
                bar.set_position((share * PARTS as f64) as u64);
            }
            return;
        }
        // If another thread is writing the line, this one skips it.
        let Ok(mut last_line) = self.last_line.try_lock() else { return };
        if last_line.elapsed() >= BETWEEN_LINES {
            *last_line = Instant::now();
            complain(&words());
        }
    }

    /// Progress of steps of similar length, with their name in the plural and optionally the current step.
    pub(crate) fn steps(&self, done: usize, all: usize, what: &str, now: &str) {
        let share = done as f64 / all.max(1) as f64;
        let now = if now.is_empty() { String::new() } else { format!(": {now}") };
        self.show(share, || format!("{done}/{all} {what}, {} left{now}", self.left(share)));
    }

    /// Progress of runs. The remaining time is estimated from the work left, because heavy runs come first and a count
    /// of runs would overestimate it.
    pub(crate) fn runs(&self, progress: runner::Progress) {
        let runner::Progress { done, total, simulated_s, arrivals_done, arrivals_total, .. } = progress;
        let share = arrivals_done / arrivals_total.max(1.0);
        let words = || {
            let rate = simulated_s / 3600.0 / self.began.elapsed().as_secs_f64().max(1e-3);
            format!("{done}/{total} runs, {rate:.1} simulated hours per second, {} left", self.left(share))
        };
        self.show(share, words);
    }

    /// Progress of searches within a budget, or within the part of it for this.
    pub(crate) fn searches(&self, progress: knee::Progress, part: Option<&str>) {
        let part = part.map(|part| format!("{part}: ")).unwrap_or_default();
        let share = progress.events as f64 / progress.budget.max(1) as f64;
        self.show(share, || format!("{part}{}", searches(progress)));
    }

    /// The remaining time at the speed so far.
    fn left(&self, share: f64) -> String {
        let left = |share: f64| time(self.began.elapsed().as_secs_f64() * (1.0 - share) / share);
        if share > 0.0 { left(share.min(1.0)) } else { "?".to_owned() }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn searches(knee::Progress { events, budget, searches, searches_done }: knee::Progress) -> String {
    let percent = 100.0 * events as f64 / budget.max(1) as f64;
    format!("{percent:.0} % of the budget, {searches_done} of {searches} searches done")
}

fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_spent_of_what() {
        let progress = knee::Progress { events: 5_000_000, budget: 20_000_000, searches: 21, searches_done: 3 };
        assert_eq!(searches(progress), "25 % of the budget, 3 of 21 searches done");
    }

    #[test]
    fn what_is_left_is_told_in_minutes_and_seconds() {
        assert_eq!(time(59.2), "1 min 00 s");
        assert_eq!((time(3.1), time(125.0)), ("4 s".to_owned(), "2 min 05 s".to_owned()));
        assert_eq!(Display::new().left(0.0), "?");
    }
}
