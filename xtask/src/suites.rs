//! The tests of the workspace, side by side: Cargo runs one program after the other, and most end
//! with a test that uses one core.

use crate::part::{self, Part};
use crate::step::{Outcome, joined, side_by_side};
use crate::{cargo, vulkan};
use serde::Deserialize;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WORKSPACE: [&str; 3] = ["test", "--workspace", "--all-features"];

/// A line of what Cargo says of a build in JSON ("External tools" in Cargo's book).
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs all of them; every one runs, also after another has failed.
pub fn run(part: Part) -> Outcome {
    match programs(part) {
        Ok(mut commands) => {
            let mut documentation = cargo(&[&WORKSPACE[..], &["--doc"]].concat());
            documentation.envs([vulkan::UNOPTIMIZED]);
            commands.push(("documentation's examples".into(), documentation));
            println!("{} programs", commands.len());
            joined(&side_by_side(commands, |outcome, _| outcome))
        }
        Err(why) => Outcome::Failed(why),
    }
}

/// Compiles the programs of tests; the largest test most, and take longest: first.
fn programs(part: Part) -> Result<Vec<(String, Command)>, String> {
    let mut build =
        cargo(&[&WORKSPACE[..], &["--no-run", "--message-format=json-render-diagnostics"]].concat());
    let output = build.stderr(Stdio::inherit()).output().map_err(|e| format!("cargo did not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("{}; what cargo says is above", output.status));
    }
    let mut all = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Message =
            serde_json::from_str(line).map_err(|e| format!("what cargo says: {e}: {line}"))?;
        let is_test = message.reason == "compiler-artifact" && message.profile.is_some_and(|p| p.test);
        let (Some(program), Some(manifest), Some(target)) =
            (message.executable.filter(|_| is_test), message.manifest_path, message.target)
        else {
            continue;
        };
        let package = manifest.parent().ok_or_else(|| format!("{} has no directory", manifest.display()))?;
        let size = program.metadata().map_err(|e| format!("{}: {e}", program.display()))?.len();
        let mut command = Command::new(program);
        // As Cargo runs it, but for its threads: several programs run at once, and threads of the
        // library that wait for one another would keep the cores from those that work.
        command
            .current_dir(package)
            .env("CARGO_MANIFEST_DIR", package)
            .env("RUST_TEST_THREADS", "1")
            .env(part::VARIABLE, part.text())
            .envs([vulkan::UNOPTIMIZED]);
        let package = package.file_name().unwrap_or_default().display().to_string();
        all.push((size, (format!("tests of {package}, {}", target.name), command)));
    }
    all.sort_by_key(|(size, _)| Reverse(*size));
    Ok(all.into_iter().map(|(_, command)| command).collect())
}
