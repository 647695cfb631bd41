//! What the programs `elinvar` and `elinvar-lab` share: how they end, their output and progress,
//! and the commands that both have.
//!
//! Exit status: 0 if all went well; 1 with one sentence on standard error if something failed, or
//! without one if a check found what it looks for; 2 if the command line was wrong. A reader of
//! standard output may stop at any line.

mod bar;
pub mod completions;
pub mod devices;
mod output;

pub use bar::Bar;
pub use output::Out;

use clap::Parser;
use elinvar::profile::TraceFile;
use elinvar::{Error, Result, try_run};
use output::complain;
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

/// Parses the command line, runs its command, and gives the exit status of the program.
pub fn main<C: Parser>(run: impl FnOnce(C, &mut Out) -> Result<Verdict>) -> ExitCode {
    let name = C::command().get_name().to_owned();
    let program = name.clone();
    // A sentence instead of a backtrace, which a debugger gives.
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or("no reason given");
        let place = panic.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        complain(&program, &format!("a mistake in the program: {said}{place}"));
    }));
    let cli = C::parse();
    let trace = TraceFile::from_environment();
    let end = ended(|| run(cli, &mut Out::new()));
    if let Some(Err(e)) = trace.map(TraceFile::finish) {
        complain(&name, e.message());
        return ExitCode::FAILURE;
    }
    match end {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Error(e)) => {
            complain(&name, e.message());
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

/// Parses an argument that is a positive, finite number.
///
/// # Errors
/// What it must be, if it is something else.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("it must be a positive number, such as 0.001".into()),
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
