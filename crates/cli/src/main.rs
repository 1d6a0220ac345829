//! `glidepath`: how many commits per second will land, on which store, with which protocol?
//!
//! One file for each subcommand, with its `Arguments` and a `run`. What they share: `load_options.rs` (what is
//! simulated), `choice.rs` and `whole.rs` (values), `failure.rs` (errors and exit codes), `output.rs`, `progress.rs`,
//! `interrupt.rs`, `folder.rs` (where results go) and `origin.rs` (where they come from).
//!
//! Exit codes: 0 done, 1 failed, 2 a mistake on the command line or in a file, 130 interrupted. `catalog` and `txn`
//! have further codes (`catalog.rs`, `txn.rs`).

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
mod predicted;
mod progress;
mod providers;
#[cfg(feature = "serve")]
mod quantity;
mod reproduce;
#[cfg(feature = "serve")]
mod serve;
mod simulate;
mod threads;
mod txn;
mod whole;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser};
use glidepath_allocator as _;
use glidepath_lab::setting;
use glidepath_model::visible;

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
    /// Serve a catalog to clients of Iceberg REST and of Lance namespaces (not in this program: build it with the
    /// feature serve)
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
    let given = with_numbers(Program::command()).try_get_matches().unwrap_or_else(|error| shown(error).exit());
    let program = Program::from_arg_matches(&given).unwrap_or_else(|error| shown(error).exit());
    let result = match program.command {
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

/// A mistake on the command line. What was written there cannot control the terminal.
fn shown(mut error: clap::Error) -> clap::Error {
    let written = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue];
    for kind in written {
        let Some(ContextValue::String(text)) = error.get(kind) else { continue };
        let plain = visible(text);
        if plain != *text {
            error.insert(kind, ContextValue::String(plain));
            // It would repeat what was written.
            error.remove(ContextKind::Suggested);
        }
    }
    error
}

/// A negative number is a value, which the option refuses with what it allows; clap would take it for an unknown
/// option.
fn with_numbers(command: clap::Command) -> clap::Command {
    let takes_values = |argument: &clap::Arg| argument.get_action().takes_values();
    command
        .mut_args(|argument| if takes_values(&argument) { argument.allow_negative_numbers(true) } else { argument })
        .mut_subcommands(with_numbers)
}

/// The git revision this program was built from, or "unknown".
const GIT_REVISION: &str = env!("GLIDEPATH_GIT_REVISION");

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of a command and of those below it that help says nothing of.
    fn unexplained(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        found.extend(
            shown.filter(|argument| argument.get_help().is_none()).map(|argument| format!("{path} {argument}")),
        );
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            unexplained(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn help_explains_every_argument() {
        let mut found = Vec::new();
        unexplained(&Program::command(), "glidepath", &mut found);
        assert_eq!(found, [""; 0]);
        Program::command().debug_assert();
    }
}
