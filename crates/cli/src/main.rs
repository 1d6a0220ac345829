//! `glidepath`: how many commits per second will land, on which store, with which protocol?
//!
//! One file for each subcommand, with its `Arguments` and a `run`. What they share: `load_options.rs` (what is
//! simulated), `setting.rs` (the same in words), `choice.rs` and `whole.rs` (values), `failure.rs` (errors and exit codes), `output.rs`, `progress.rs`,
//! `interrupt.rs`, `folder.rs` (where results go) and `origin.rs` (where they come from).
//!
//! Exit codes: 0 done, 1 failed, 2 a mistake on the command line or in a file, 130 interrupted. `catalog` and `txn` have
//! further codes (`catalog.rs`, `txn.rs`).

#![allow(clippy::disallowed_methods, reason = "a command runs in real time")]

mod bench;
#[cfg(feature = "serve")]
mod bench_server;
#[cfg(feature = "serve")]
mod bench_start;
mod catalog;
mod check;
mod choice;
mod cost;
mod experiments;
mod failure;
mod folder;
mod interrupt;
mod knee;
mod knees;
mod leftovers;
mod load_options;
mod measure;
mod origin;
mod output;
mod progress;
mod providers;
mod reproduce;
#[cfg(feature = "serve")]
mod serve;
mod setting;
mod simulate;
mod threads;
mod txn;
mod whole;

use std::process::ExitCode;

use clap::Parser;

/// A simulation allocates millions of small objects: with this allocator it takes about 5 % less processor time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many commits per second will land, on which store, with which protocol?
#[derive(Parser)]
#[command(name = "glidepath", version, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Simulate(simulate::Arguments),
    Knee(knee::Arguments),
    Knees(knees::Arguments),
    Measure(measure::Arguments),
    Bench(bench::Arguments),
    #[cfg(feature = "serve")]
    BenchServer(bench_server::Arguments),
    #[cfg(feature = "serve")]
    BenchStart(bench_start::Arguments),
    #[command(hide = true)]
    BenchWorker(bench::WorkerArguments),
    Check(check::Arguments),
    Catalog(catalog::Arguments),
    Txn(txn::Arguments),
    #[cfg(feature = "serve")]
    Serve(serve::Arguments),
    /// Serve a catalog to clients of Iceberg REST (not in this program: build it with the feature serve)
    #[cfg(not(feature = "serve"))]
    Serve(failure::Left),
    #[cfg(not(feature = "serve"))]
    #[command(hide = true)]
    BenchServer(failure::Left),
    #[cfg(not(feature = "serve"))]
    #[command(hide = true)]
    BenchStart(failure::Left),
    Reproduce(reproduce::Arguments),
    Experiments(experiments::Arguments),
    Providers(providers::Arguments),
}

fn main() -> ExitCode {
    let result = match Program::parse().command {
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Knee(arguments) => knee::run(&arguments),
        Command::Knees(arguments) => knees::run(&arguments),
        Command::Measure(arguments) => measure::run_command(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "serve")]
        Command::BenchServer(arguments) => bench_server::run(&arguments),
        #[cfg(feature = "serve")]
        Command::BenchStart(arguments) => bench_start::run(&arguments),
        Command::BenchWorker(arguments) => bench::run_worker(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Catalog(arguments) => catalog::run(&arguments),
        Command::Txn(arguments) => txn::run(&arguments),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) | Command::BenchServer(_) | Command::BenchStart(_) => Err(failure::without_the_server()),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Experiments(arguments) => experiments::run(&arguments),
        Command::Providers(arguments) => providers::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The git revision this program was built from, or "unknown".
const GIT_REVISION: &str = env!("GLIDEPATH_GIT_REVISION");
