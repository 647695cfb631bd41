//! The programs `elinvar` and `elinvar-lab`, as users run them, and the emulated CUDA library.

use crate::{cargo, python, root};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds all of them. In one command: separately, each would be built with other features, and
/// shared dependencies several times.
pub const BUILD: [&str; 8] = [
    "build",
    "--release",
    "--package",
    "elinvar-cli",
    "--package",
    "elinvar-lab",
    "--package",
    "elinvar-emulated-cuda",
];

/// The program that users run.
pub fn elinvar() -> Result<Command, String> {
    program("elinvar")
}

/// The program that checks and measures.
pub fn lab() -> Result<Command, String> {
    program("elinvar-lab")
}

fn program(name: &str) -> Result<Command, String> {
    let mut command = Command::new(built()?.join(name).with_extension(env::consts::EXE_EXTENSION));
    command.current_dir(root());
    Ok(command)
}

/// The directory with everything that [`BUILD`] builds. If the build fails, no older program is
/// run.
pub fn built() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let status = cargo(&BUILD).status().map_err(|e| format!("cargo did not start: {e}"))?;
        if !status.success() {
            return Err(format!("the programs could not be built ({status}); what cargo says is above"));
        }
        Ok(python::target()?.join("release"))
    };
    BUILT.get_or_init(build).as_deref().map_err(Clone::clone)
}
