//! `cargo xtask footprint [PART...]`: the footprint of elinvar: build times, crates, bytes, memory.
//!
//! Each part builds in a new directory with a target directory of its own, after everything was
//! downloaded. It prints lines of JSON, from which `cargo xtask results` makes a page.

mod elinvar;
mod gpt2;
mod hello;

use crate::{cargo, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Parallel jobs of a build, on every machine.
const JOBS: &str = "2";
/// The peer of lines about elinvar.
const OURS: &str = "ours";

/// Measures a part in an existing directory.
type Measure = fn(&Path) -> Result<(), String>;

/// The parts, by the word that selects one; the names of its lines contain it too.
const PARTS: [(&str, Measure); 3] =
    [("elinvar", elinvar::measure), ("gpt2", gpt2::measure), ("hello", hello::measure)];

/// Prints the figures of the selected parts, or of all.
pub fn footprint(asked: &[&str]) -> ExitCode {
    let names = PARTS.map(|(name, _)| name);
    if let Some(none) = asked.iter().find(|name| !names.contains(name)) {
        eprintln!("xtask: footprint has no part {none}; it has {}", names.join(", "));
        return ExitCode::from(2);
    }
    let dir = std::env::temp_dir().join(format!("elinvar-footprint-{}", std::process::id()));
    let parts = PARTS.iter().filter(|(name, _)| asked.is_empty() || asked.contains(name));
    let outcome = parts.into_iter().try_for_each(|(name, measure)| {
        let dir = dir.join(name);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        measure(&dir)
    });
    // If it cannot be removed, it is left to the system's cleaning of its temporary directory.
    let _ = fs::remove_dir_all(&dir);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// The output of cargo, in a project's directory, with the target directory `target` in it.
fn run(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = cargo(args);
    command.current_dir(dir).env("CARGO_TARGET_DIR", dir.join("target"));
    command.env_remove("RUSTFLAGS").env_remove("CARGO_INCREMENTAL");
    let out = command.output().map_err(|e| format!("cargo did not start: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(format!("cargo {}: {}\n{}", args.join(" "), out.status, String::from_utf8_lossy(&out.stderr)))
}

/// The time of a cargo command.
fn timed(dir: &Path, args: &[&str]) -> Result<Duration, String> {
    let start = Instant::now();
    run(dir, &[args, &["--jobs", JOBS]].concat())?;
    Ok(start.elapsed())
}

/// The number of crates that a project depends on for this machine, without itself.
fn dependencies(dir: &Path) -> Result<f64, String> {
    Ok(crates(&run(dir, &["tree", "--prefix", "none", "--edges", "normal,build"])?) as f64)
}

/// The crates of a tree without indentation, without the project itself.
fn crates(tree: &str) -> usize {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    lines.skip(1).collect::<BTreeSet<_>>().len()
}

/// A program that the project's release build made.
fn built(dir: &Path, name: &str) -> PathBuf {
    dir.join("target/release").join(name).with_extension(std::env::consts::EXE_EXTENSION)
}

/// MiB of a copy without symbols.
fn stripped(program: &Path) -> Result<f64, String> {
    let copy: PathBuf = program.with_extension("stripped");
    let at = |e: std::io::Error| format!("{}: {e}", copy.display());
    fs::copy(program, &copy).map_err(at)?;
    let status =
        Command::new("strip").arg(&copy).status().map_err(|e| format!("strip did not start: {e}"))?;
    if !status.success() {
        return Err(format!("strip: {status}"));
    }
    Ok(fs::metadata(&copy).map_err(at)?.len() as f64 / f64::from(1 << 20))
}

/// The crate `elinvar` as the value of a manifest's `path`, and the same versions as in this
/// workspace.
fn depend(dir: &Path, manifest: impl FnOnce(&str) -> String) -> Result<(), String> {
    let elinvar = format!("{:?}", root().join("crates/elinvar").display().to_string());
    let at = |e: std::io::Error| format!("{}: {e}", dir.display());
    fs::create_dir_all(dir.join("src")).map_err(at)?;
    fs::write(dir.join("Cargo.toml"), manifest(&elinvar)).map_err(at)?;
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock")).map(drop).map_err(at)
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn hundredths(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

fn print(peer: &str, workload: &str, value: f64, unit: &str) {
    println!("{}", line(peer, workload, value, unit));
}

fn line(peer: &str, workload: &str, value: f64, unit: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        r#"{{"peer":"{peer}","version":"{version}","workload":"{workload}","value":{value},"unit":"{unit}","threads":{JOBS}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_counted_once_and_without_the_project() {
        let tree = "hello v0.0.0 (/tmp/x)\nelinvar v0.1.0 (/y)\nhalf v2.7.1\ncfg-if v1.0.5\nhalf v2.7.1 (*)\n\nsyn v2.0.1\nsyn v3.0.1\n";
        assert_eq!(crates(tree), 5);
        assert_eq!(crates("hello v0.0.0 (/tmp/x)\n"), 0);
    }

    #[test]
    fn a_line_is_json() {
        let line: serde_json::Value = serde_json::from_str(&line(OURS, "w", 1.5, "MiB")).unwrap();
        assert_eq!(
            (&line["peer"], &line["value"], &line["unit"]),
            (&"ours".into(), &1.5.into(), &"MiB".into())
        );
    }
}
