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

fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "allowed: a whole number from 1 on; leave the option out for one thread per processor".to_owned())
}
