//! `elinvar completions SHELL`

use crate::Verdict;
use crate::args::{Cli, Completions};
use clap::CommandFactory;
use elinvar::Result;
use std::io::Write;

/// Prints the script.
pub fn run(args: &Completions, out: &mut dyn Write) -> Result<Verdict> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "elinvar", &mut script);
    out.write_all(&script)?;
    Ok(Verdict::Good)
}
