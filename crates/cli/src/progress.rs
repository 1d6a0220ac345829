//! How far has it come? A bar on a terminal, a line now and then elsewhere; on the standard error output. Both say the same.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use glidepath_lab::{knee, runner};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

/// A wait shorter than this needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Elsewhere than on a terminal: the time between lines.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Parts of a bar.
const PARTS: u64 = 1000;

/// Shows how far it has come until it is dropped. Any thread may call it.
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

    /// The share of the work that is done now, and what to say of it.
    pub(crate) fn show(&self, share: f64, words: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            if self.began.elapsed() > PATIENCE {
                bar.set_message(words());
                bar.set_position((share * PARTS as f64) as u64);
            }
            return;
        }
        // Where another thread is about to write the line, this one need not.
        let Ok(mut last_line) = self.last_line.try_lock() else { return };
        if last_line.elapsed() >= BETWEEN_LINES {
            *last_line = Instant::now();
            complain(&words());
        }
    }

    /// Of steps that take about as long as each other, called so in the plural; and what is under way, if that is to be said.
    pub(crate) fn steps(&self, done: usize, all: usize, what: &str, now: &str) {
        let share = done as f64 / all.max(1) as f64;
        let now = if now.is_empty() { String::new() } else { format!(": {now}") };
        self.show(share, || format!("{done}/{all} {what}, {} left{now}", self.left(share)));
    }

    /// Of runs. The work left is told at the speed so far: heavy runs come first, so counting runs would promise too long a wait.
    pub(crate) fn runs(&self, progress: runner::Progress) {
        let runner::Progress { done, total, simulated_s, arrivals_done, arrivals_total, .. } = progress;
        let share = arrivals_done / arrivals_total.max(1.0);
        let words = || {
            let rate = simulated_s / 3600.0 / self.began.elapsed().as_secs_f64().max(1e-3);
            format!("{done}/{total} runs, {rate:.1} simulated hours per second, {} left", self.left(share))
        };
        self.show(share, words);
    }

    /// Of searches within a budget.
    pub(crate) fn searches(&self, progress: knee::Progress) {
        self.show(progress.events as f64 / progress.budget.max(1) as f64, || searches(progress));
    }

    /// How much longer, at the speed so far.
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
