//! What happens in one run of one configuration?
//!
//! A [`Point`] is a checked configuration with the profiles of its stores; [`simulate`] runs it with one seed. All
//! protocols are compiled into simulations here, once: experiments, searches and reports (`glidepath-lab`) only call
//! it.

mod config;
mod load;
mod server;
mod simulate;

pub use config::{Balance, CatalogConfig, Config, MODEL_VERSION, Point, Profiles, burst_misfit, part, window};
pub use load::{MOST_AT_ONCE, expected_arrivals};
pub use simulate::{Open, SimulatedRun, Underway, arrivals_in_window, simulate, simulate_while};
