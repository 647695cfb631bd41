//! The part `elinvar`: `cargo build --release` in a new clone, which builds the program `elinvar`.

use super::{OURS, built, dependencies, hundredths, print, run, tenths, timed};
use crate::root;
use std::fs;
use std::path::Path;
use std::process::Command;

pub fn measure(dir: &Path) -> Result<(), String> {
    clone(dir)?;
    run(dir, &["fetch"])?;
    print(OURS, "clean_build_elinvar_j2", tenths(timed(dir, &["build", "--release"])?), "s");
    print(OURS, "dependencies_elinvar", dependencies(dir)?, "crates");
    // The workspace's profile strips it.
    let program = built(dir, "elinvar");
    let bytes = fs::metadata(&program).map_err(|e| format!("{}: {e}", program.display()))?.len();
    print(OURS, "binary_elinvar_stripped", hundredths(bytes as f64 / f64::from(1 << 20)), "MiB");
    Ok(())
}

/// Clones the last commit, which is what a user gets.
fn clone(dir: &Path) -> Result<(), String> {
    let git = |command: &mut Command| {
        let out = command.output().map_err(|e| format!("git did not start: {e}"))?;
        match out.status.success() {
            true => Ok(out.stdout),
            false => Err(format!("git: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr))),
        }
    };
    let status = ["status", "--porcelain"];
    if !git(Command::new("git").current_dir(root()).args(status))?.is_empty() {
        eprintln!("xtask: elinvar is measured as it was committed last, without the changes since");
    }
    git(Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(dir)).map(drop)
}
