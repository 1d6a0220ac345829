//! `glidepath catalog vacuum`: removes what no kept version needs.

use clap::Args;
use glidepath_model::Span;
use glidepath_protocols::manifest_chain::{Grace, VacuumError};
use serde_json::json;

use super::Common;
use super::place::{Site, done, told};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Remove what no kept version needs; safe beside readers and writers
///
/// A version is kept while it is among the newest so many, or its successor is younger than the age: whichever keeps more.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// So many versions before the newest are kept
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    keep_versions: u64,
    /// Versions are kept for so long after the next one; at least 10min
    #[arg(long, value_name = "TIME", default_value = "24h")]
    keep_age: Span,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        let chain = site.chain("vacuum")?;
        let before = site.chain_at("vacuum", None)?.oldest_kept();
        let grace = Grace { versions: self.keep_versions, age: self.keep_age };
        let swept = site.wait(chain.vacuum(grace)).map_err(|error| failed(&error))?;
        if self.common.json {
            return done(print_json(&json!({
                "deleted_versions": swept.versions,
                "deleted_packs": swept.packs,
                "kept_old_objects": swept.kept,
                "oldest_kept_version": swept.oldest.0,
                "oldest_kept_version_before": before.0,
                "newest_version": swept.newest.0,
            })));
        }
        done(print(&format!(
            "deleted {} objects of old versions and {} packs\nkept    versions {} to {}, and {} older objects and packs that they need \
             or that may still be needed",
            swept.versions, swept.packs, swept.oldest.0, swept.newest.0, swept.kept
        )))
    }
}

/// A vacuum that stopped, as told.
pub(super) fn failed(error: &VacuumError) -> Failure {
    match error {
        VacuumError::TooShort(_) => Failure::Mistake(format!("--keep-age: {error}")),
        VacuumError::Load(load) => told(load),
        VacuumError::Commit(_) | VacuumError::Store { .. } => {
            Failure::Failed(format!("{error}; what was deleted until then was not needed: run it again"))
        }
    }
}
