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
use elinvar::{Error, Result, try_run};
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
    match ended(|| run(cli)) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Error(e)) => {
            complain(e.message());
            ExitCode::FAILURE
        }
    }
}

/// Why a command came to no end.
#[derive(Debug)]
enum Failure {
    /// It met an error.
    Error(Error),
    /// It panicked, and the panic's hook has said why.
    Told,
}

/// Runs a command; the panic of a tensor's method is an error like any other.
fn ended(run: impl FnOnce() -> Result<Verdict>) -> Result<Verdict, Failure> {
    match catch_unwind(AssertUnwindSafe(|| try_run(run))) {
        Ok(Ok(Ok(verdict))) => Ok(verdict),
        Ok(Ok(Err(e)) | Err(e)) => Err(Failure::Error(e)),
        Err(_) => Err(Failure::Told),
    }
}

fn run(cli: Cli) -> Result<Verdict> {
    let out = &mut Out::new();
    match cli.command {
        Command::Train(args) => command::train::run(&args, out),
        Command::Eval(args) => command::eval::run(&args, out),
        Command::Generate(args) => command::generate::run(&args, out),
        Command::Embed(args) => command::embed::run(&args, out),
        Command::Inspect(args) => command::inspect::run(&args, out),
        Command::Devices => command::devices::run(out),
        Command::Ulp(args) => command::ulp::run(&args, out),
        Command::Conformance(args) => command::conformance::run(&args, out),
        Command::Bench(args) => command::bench::run(&args, out),
        Command::Completions(args) => command::completions::run(&args, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar::{DType, Device, ErrorKind, Tensor};

    #[test]
    fn every_end_of_a_command_is_known() {
        assert!(matches!(ended(|| Ok(Verdict::Bad)), Ok(Verdict::Bad)));
        let e = ended(|| Err(Error::io("disk full")));
        assert!(matches!(&e, Err(Failure::Error(e)) if e.kind() == ErrorKind::Io), "{e:?}");
        let e = ended(|| {
            let x: Tensor = Tensor::zeros([2, 3], DType::F32, &Device::reference());
            x.matmul(&x);
            Ok(Verdict::Good)
        });
        assert!(matches!(&e, Err(Failure::Error(e)) if e.kind() == ErrorKind::ShapeMismatch), "{e:?}");
        assert!(matches!(ended(|| panic!("on purpose")), Err(Failure::Told)));
    }
}
