//! Which folders and lock files does a command leave in a store that it used temporarily?

use glidepath_stores::local::Footprint;

use crate::failure::Failure;
use crate::output::complain;

/// What was there before; nothing if the store is not on local disk.
pub(crate) struct Leftovers(Option<Footprint>);

impl Leftovers {
    /// To be called before the store is opened.
    pub(crate) fn before_opening(url: &str) -> Result<Self, Failure> {
        Ok(Self(Footprint::before_opening(url)?))
    }

    /// To be called when the store is closed. Removes the folders and lock files that the command added, and reports
    /// those that it could not remove.
    pub(crate) fn remove(self) {
        match self.0.map(Footprint::remove) {
            None => {}
            Some(Ok(stays)) => {
                for path in stays {
                    complain(&format!("not removed: {}; it is in use, or not empty", path.display()));
                }
            }
            Some(Err(error)) => complain(&format!("folders of the store were not removed: {error}")),
        }
    }
}
