//! `sample IN OUT`: makes the built-in sample from a whole golden directory.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Picks a few small cases of every op.
#[derive(Parser)]
struct Cli {
    /// Directory with index.json and OP.safetensors.
    golden: PathBuf,
    /// Where index.json and sample.safetensors are to go.
    out: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match elinvar_conformance::sample::make(&cli.golden, &cli.out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
