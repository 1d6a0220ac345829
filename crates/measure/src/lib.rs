//! What do conditional writes cost on this store? This crate drives a store, live or simulated, with writers in a
//! closed loop; sums up and fits their samples; and writes a profile for simulations.
//!
//! The path of the data: a [`Plan`] says what to do; [`run`] lets a [`Site`] do it, trial by trial; [`Sample`]s become
//! [`Measurement`]s (`measurement.rs`). Those are fitted (`fit.rs`) and become a profile (`profile.rs`, `hold.rs`),
//! other profiles that the measurement allows (`alternatives.rs`), and a report (`report.rs`). This crate knows no
//! commit protocol.

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
pub use fit::{Fit, Fits, Fitted, GOOD_KS};
pub use hold::{FailureRate, Rehearsal, fit_holds};
pub use measurement::{Measurement, Numbers, percentile_interval};
pub use plan::{Estimate, Operation, Plan, PlanError};
pub use profile::{Provenance, has_profile, profile};
pub use raw::write_samples;
pub use report::{Report, comparison};
pub use run::{PlanResult, run};
pub use sample::{End, Sample, TrialSamples};
pub use site::{LiveSite, MeasureError, SimulatedSite, Site};
