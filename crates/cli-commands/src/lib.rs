//! The commands of the program `elinvar`. A package of its own, because one with settings of its
//! own (it is compiled for size) cannot be stripped as a program, and because a library is compiled
//! beside its dependencies, where a program waits for all of them.

mod args;
mod command;
mod metrics;
mod network;
mod plot;
mod progress;

use args::{Cli, Command};
use elinvar::Result;
use elinvar_cli_support::{Out, Verdict, completions, devices};
use std::process::ExitCode;

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    elinvar_cli_support::main(run)
}

fn run(cli: Cli, out: &mut Out) -> Result<Verdict> {
    match cli.command {
        Command::Train(args) => command::train::run(&args, out),
        Command::Launch(args) => command::launch::run(&args),
        Command::Eval(args) => command::eval::run(&args, out),
        Command::Generate(args) => command::generate::run(&args, out),
        Command::Embed(args) => command::embed::run(&args, out),
        Command::Inspect(args) => command::inspect::run(&args, out),
        Command::Devices => devices::run(out),
        Command::Completions(args) => completions::run::<Cli>(&args, out),
    }
}
