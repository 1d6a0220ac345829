//! The option `--threads`.

use std::num::NonZeroUsize;

use clap::Args;

/// The option of all commands that work on several threads.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// The number of parallel threads; results do not depend on it [default: one for each processor]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    threads: Option<NonZeroUsize>,
}

impl Threads {
    pub(crate) fn count(self) -> NonZeroUsize {
        self.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
    }
}

/// More than any machine has processors, and fewer than systems refuse.
const MOST: usize = 4096;

fn count(text: &str) -> Result<NonZeroUsize, String> {
    let count: Option<NonZeroUsize> = text.parse().ok();
    count.filter(|count| count.get() <= MOST).ok_or_else(|| {
        format!("allowed: a whole number from 1 to {MOST}; leave the option out for one thread per processor")
    })
}
