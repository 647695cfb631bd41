//! The program `elinvar`.
//!
//! Exit status: 0 if all went well; 1 with one sentence on standard error if something failed, or without one if a
//! check found what it looks for; 2 if the command line was wrong. Whoever reads standard output may stop at any line.

mod args;
mod command;
mod metrics;
mod network;
mod output;
mod plot;
mod progress;

use args::{Cli, Command};
use clap::Parser;
use elinvar::{Result, try_run};
use output::{Out, complain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// How a command ended that met no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Good,
    /// It ran, and what it checked is not in order; its output says what.
    Bad,
}

fn main() -> ExitCode {
    // A sentence instead of a backtrace. Whoever wants that one runs the library in a debugger.
    std::panic::set_hook(Box::new(|panic| {
        let said = panic.payload_as_str().unwrap_or("no reason given");
        let place = panic.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        complain(&format!("a mistake in the program: {said}{place}"));
    }));
    let cli = Cli::parse();
    match catch_unwind(AssertUnwindSafe(|| try_run(|| run(cli)))) {
        Ok(Ok(Ok(Verdict::Good))) => ExitCode::SUCCESS,
        Ok(Ok(Ok(Verdict::Bad))) => ExitCode::FAILURE,
        Ok(Ok(Err(e)) | Err(e)) => {
            complain(e.message());
            ExitCode::FAILURE
        }
        // The hook has said why.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(cli: Cli) -> Result<Verdict> {
    let out = &mut Out::new();
    match cli.command {
        Command::Train(args) => command::train::run(&args, out),
        Command::Eval(args) => command::eval::run(&args, out),
        Command::Devices => command::devices::run(out),
        Command::Ulp(args) => command::ulp::run(&args, out),
        Command::Conformance(args) => command::conformance::run(&args, out),
        Command::Completions(args) => command::completions::run(&args, out),
    }
}
