//! `cargo xtask amd`: what is emitted as LLVM IR, for all architectures of AMD, without a card.
//!
//! Every kernel of the library is verified by LLVM 15 and 19 and compiled by clang-19 and by AMD's
//! compiler library; registers, spills and LDS are printed as a table. What a tool is missing for
//! is skipped, and said.

use std::process::ExitCode;

/// Runs the checks.
pub fn amd() -> ExitCode {
    let suites = [["--package", "elinvar-kernel"], ["--package", "elinvar-gpu-kernels"]];
    for package in suites {
        let args = [&["test"], &package[..], &["--test", "suite", "llvm::", "--", "--nocapture"]].concat();
        match crate::cargo(&args).env("ELINVAR_AMD", "1").status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(e) => {
                eprintln!("xtask: cargo cannot be started: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
