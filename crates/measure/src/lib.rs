//! What do conditional writes cost on this store? Drives a store, live or simulated, with writers that each write again as
//! soon as they are answered; sums up and fits what they saw; and writes a profile that simulations take as it is.
//!
//! The path of the data: a [`Plan`] says what is done; [`run`] lets a [`Site`] do it, trial by trial; [`Sample`]s become
//! [`Measurement`]s (`measurement.rs`); those are fitted (`fit.rs`) and become a profile (`profile.rs`, `hold.rs`), others
//! that it might as well have been (`alternatives.rs`), and a report (`report.rs`). This crate refuses to know commit protocols.

mod alternatives;
mod fit;
mod flat;
mod hold;
mod measurement;
mod pace;
mod plan;
mod profile;
mod raw;
mod report;
mod resample;
mod run;
mod sample;
mod site;
mod writer;

pub use alternatives::{DRAWN, Evidence, alternatives};
pub use fit::{Fit, Fits, GOOD_KS};
pub use hold::{FailureRate, Rehearsal, fit_holds};
pub use measurement::{Measurement, Numbers};
pub use plan::{Estimate, Operation, Plan, PlanError};
pub use profile::{Provenance, profile};
pub use raw::write_samples;
pub use report::{Report, comparison};
pub use run::{Stopped, run};
pub use sample::{End, Sample, TrialSamples};
pub use site::{LiveSite, MeasureError, SimulatedSite, Site};
