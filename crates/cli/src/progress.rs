//! How far has it come? A bar on a terminal, a line now and then elsewhere; on the standard error output.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use glidepath_lab::runner::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::complain;

/// Elsewhere than on a terminal: the time between lines.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Shows how far it has come until it is dropped.
pub(crate) struct Display {
    began: Instant,
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl Display {
    /// Shows nothing before the first call.
    pub(crate) fn new() -> Self {
        let began = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {msg}");
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { began, bar, last_line: began }
    }

    /// How far it has come now.
    pub(crate) fn show(&mut self, progress: Progress) {
        let message = self.message(progress);
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(message);
            }
            None if self.last_line.elapsed() >= BETWEEN_LINES => {
                self.last_line = Instant::now();
                complain(&format!("{}/{} runs, {message}", progress.done, progress.total));
            }
            None => {}
        }
    }

    fn message(&self, progress: Progress) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let rate = progress.simulated_s / 3600.0 / elapsed.max(1e-3);
        let work = progress.arrivals_done / progress.arrivals_total.max(1.0);
        // The work left, at the speed so far: heavy runs come first, so counting runs would promise too long a wait.
        let left = if work > 0.0 { time(elapsed * (1.0 - work) / work) } else { "?".to_owned() };
        format!("{rate:.1} simulated hours per second, {left} left")
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}
