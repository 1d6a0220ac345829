//! What does Ctrl-C do? The first one lets the current work finish and keeps it; the second one ends the program at
//! once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::output::complain;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C sets the flag that is returned. To be called once.
pub(crate) fn on_interrupt() -> Result<&'static AtomicBool, Failure> {
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        complain("\nStopping after the current work; press Ctrl-C again to stop at once.");
    })
    .map_err(|error| Failure::Failed(format!("cannot handle Ctrl-C: {error}")))?;
    Ok(&STOP)
}
