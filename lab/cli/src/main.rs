//! The program `elinvar-lab`: does elinvar compute what it should, how accurately, and how fast?

mod args;
mod command;

use args::{Cli, Command};
use elinvar::Result;
use elinvar_cli_support::{Out, Verdict, completions, devices};
use std::process::ExitCode;

fn main() -> ExitCode {
    elinvar_cli_support::main(run)
}

fn run(cli: Cli, out: &mut Out) -> Result<Verdict> {
    match cli.command {
        Command::Conformance(args) => command::conformance::run(&args, out),
        Command::Bench(args) => command::bench::run(&args, out),
        Command::Gates(args) => command::gates::run(&args, out),
        Command::Ulp(args) => command::ulp::run(&args, out),
        Command::Schedule(args) => command::schedule::run(&args, out),
        Command::Sums(args) => command::sums::run(&args, out),
        Command::Devices => devices::run(out),
        Command::Completions(args) => completions::run::<Cli>(&args, out),
    }
}
