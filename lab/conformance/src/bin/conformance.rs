//! `conformance --golden DIR [--op NAME]...`: the suite alone, without the rest of the program.

use clap::Parser;
use elinvar_conformance::{Options, conformance};
use elinvar_devices::Device;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares what the ops give with what they must give.
#[derive(Parser)]
struct Cli {
    /// Directory with index.json and OP.safetensors, which runs in addition to our own cases;
    /// without it, the built-in sample does.
    #[arg(long)]
    golden: Option<PathBuf>,
    /// An op's name, or a part of case ids; may be repeated.
    #[arg(long = "op")]
    only: Vec<String>,
    /// The device under test.
    #[arg(long, default_value = "reference", value_parser = Device::parse)]
    device: Device,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let options = Options { golden: cli.golden, only: cli.only, device: cli.device, ..Options::default() };
    match conformance(&options, &mut std::io::stdout().lock()) {
        Ok(summary) if summary.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}
