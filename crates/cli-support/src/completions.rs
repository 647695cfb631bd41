//! `completions SHELL`

use crate::Verdict;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use elinvar::Result;
use std::io::Write;

/// Print a script that completes this program's commands in a shell
#[derive(Args, Debug)]
pub struct Completions {
    /// For this shell
    pub shell: Shell,
}

/// Prints the script for the program whose command line is `C`.
///
/// # Errors
/// Those of writing.
pub fn run<C: CommandFactory>(args: &Completions, out: &mut dyn Write) -> Result<Verdict> {
    let mut command = C::command();
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    Ok(Verdict::Good)
}
