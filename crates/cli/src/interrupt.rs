//! What does Ctrl-C do? The first one lets the current work finish and keeps it; the second one ends the program at
//! once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::output::complain;

static STOP: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C sets the flag that is returned. To be called once.
pub(crate) fn on_interrupt() -> Result<&'static AtomicBool, Failure> {
    on_interrupt_that_leaves(None)
}

/// In a command that keeps nothing: Ctrl-C ends it at once.
pub(crate) fn ended_by_interrupt() -> Result<&'static AtomicBool, Failure> {
    let end = || {
        complain("\nStopped.");
        std::process::exit(130);
    };
    ctrlc::set_handler(end).map_err(|error| Failure::Failed(format!("cannot handle Ctrl-C: {error}")))?;
    Ok(&STOP)
}

/// The same in a command that leaves something behind if it ends at once.
pub(crate) fn on_interrupt_that_leaves(what: Option<&'static str>) -> Result<&'static AtomicBool, Failure> {
    ctrlc::set_handler(move || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        let left = what.map(|what| format!(", which leaves {what} behind")).unwrap_or_default();
        complain(&format!("\nStopping after the current work; press Ctrl-C again to stop at once{left}."));
    })
    .map_err(|error| Failure::Failed(format!("cannot handle Ctrl-C: {error}")))?;
    Ok(&STOP)
}
