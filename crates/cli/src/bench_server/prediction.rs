//! What does a simulation say about the cells? Options of `glidepath bench-server`.

use std::path::PathBuf;

use clap::Args;
use glidepath_bench::served::predicted::{Costs, World, predicted};
use glidepath_bench::served::{Cell, Outcome};
use glidepath_lab::library::read_text;
use glidepath_model::Span;
use glidepath_protocols::registry::Protocol;
use glidepath_protocols::table_turn::HOLD;

use crate::choice::one_of;
use crate::failure::Failure;
use crate::predicted::read_profile;
use crate::quantity::time;
use crate::whole::between;

/// The seed of predictions.
const SEED: u64 = 1;

#[derive(Args, Debug)]
#[command(next_help_heading = "Prediction")]
pub(super) struct PredictionArguments {
    /// Also simulate the cells, with a server of ours on a store of this profile: a file (from `glidepath measure` of
    /// its store) or a name (see `glidepath providers`)
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// The protocol of the simulated server's catalog
    #[arg(long, default_value = "manifest-chain", value_parser = one_of(Protocol::ALL, Protocol::name), requires = "profile")]
    protocol: Protocol,
    /// How many servers are simulated; each request goes to the next one
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = between::<u32>(1, 64), requires = "profile")]
    servers: u32,
    /// What is added to each request of the simulated server to its store, as by `glidepath serve --added-latency`
    #[arg(long, value_name = "TIME", default_value = "0ms", requires = "profile")]
    added_latency: Span,
    /// A file with the processor time of requests [default: those of crates/bench/src/served/predicted/costs.toml]
    #[arg(long, value_name = "FILE", requires = "profile")]
    costs: Option<PathBuf>,
    /// Of the simulated server, as of `glidepath serve`: how long others' commits wait at most for the next try of an
    /// overwrite that conflicted; 0ms: not at all
    #[arg(long, default_value_t = HOLD, value_name = "TIME", value_parser = time("0ms", "60s"), requires = "profile")]
    overwrite_priority: Span,
    /// Of simulated overwrites: how long each try works between the load of the table and its commit
    #[arg(long, value_name = "TIME", default_value = "0ms", requires = "profile")]
    validation: Span,
    /// Of simulated appends: how long a client waits after each
    #[arg(long, value_name = "TIME", default_value = "0ms", requires = "profile")]
    pause: Span,
}

impl PredictionArguments {
    /// What the cells are simulated on, if they are, with clients on so many threads.
    pub(super) fn world(&self, threads: usize) -> Result<Option<World>, Failure> {
        let Some(profile) = &self.profile else { return Ok(None) };
        let costs = match &self.costs {
            None => Costs::measured(),
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| Failure::Mistake(format!("{}: {error}", path.display()));
                let text = read_text(path).map_err(|error| wrong(&error))?;
                Costs::parse(&text).map_err(|error| wrong(&error))?
            }
        };
        Ok(Some(World {
            servers: self.servers,
            added_latency: self.added_latency,
            priority: self.overwrite_priority,
            validation: self.validation,
            pause: self.pause,
            threads,
            ..World::of(self.protocol, read_profile(profile)?, costs)
        }))
    }
}

/// The outcome of a simulated cell.
pub(super) fn outcome(cell: &Cell, world: &World) -> Result<Outcome, Failure> {
    match predicted(cell, world, SEED) {
        Ok(prediction) => Ok(prediction.outcome),
        Err(error) => Err(Failure::Failed(format!("--profile: {error}"))),
    }
}
