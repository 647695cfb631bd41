//! `cargo xtask footprint`: what it costs to use elinvar: the time of a build, crates, bytes, memory.
//!
//! A project outside of the workspace depends on the crate `elinvar` with its usual features, and multiplies two matrices.
//! It has nothing but cargo's usual release profile, as the project of a new user.

use crate::{cargo, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Builds with as many jobs, on every machine.
const JOBS: &str = "2";
/// Of the project.
const NAME: &str = "hello";

/// Programs, by the name of the line's peer and the device: one that is chosen at run time, and one that is there when the program is
/// compiled, so that nothing of the others is in it.
const DEVICES: [(&str, &str); 2] = [("ours", "Device"), ("ours-static", "elinvar::CpuDevice")];

/// The program's text.
fn text(device: &str) -> String {
    format!(
        r#"use elinvar::prelude::*;

fn main() {{
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &{device}::default());
    println!("{{}}", x.matmul(&x));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{{}}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or(""));
}}
"#
    )
}

/// Prints the figures as lines of JSON.
pub fn footprint() -> ExitCode {
    let dir = std::env::temp_dir().join(format!("elinvar-footprint-{}", std::process::id()));
    let outcome = measure(&dir);
    // What cannot be removed is left to the system's own cleaning of its temporary directory.
    let _ = fs::remove_dir_all(&dir);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn measure(dir: &Path) -> Result<(), String> {
    project(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let main = dir.join("src/main.rs");
    for (peer, device) in DEVICES {
        let write = || fs::write(&main, text(device)).map_err(|e| format!("{}: {e}", main.display()));
        write()?;
        run(dir, &["fetch"])?;
        let first = build(dir)?;
        if peer == "ours" {
            print(peer, "clean_build_hello_j2", tenths(first), "s");
            let tree = run(dir, &["tree", "--prefix", "none", "--edges", "normal,build"])?;
            print(peer, "dependencies_hello", crates(&tree) as f64, "crates");
        }
        // Times of files tick in steps; the content is what it was, the time of change is not.
        write()?;
        print(peer, "incremental_build_hello", tenths(build(dir)?), "s");
        let program = dir.join("target/release").join(NAME).with_extension(std::env::consts::EXE_EXTENSION);
        print(peer, "binary_hello_stripped", hundredths(stripped(&program)?), "MiB");
        let ran = Command::new(&program).output().map_err(|e| format!("{}: {e}", program.display()))?;
        match held(&String::from_utf8_lossy(&ran.stdout)).filter(|_| ran.status.success()) {
            Some(mib) => print(peer, "rss_hello", hundredths(mib), "MiB"),
            None => {
                eprintln!(
                    "xtask: this system does not tell how much memory a process held; it does on Linux"
                );
            }
        }
    }
    Ok(())
}

fn project(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir.join("src"))?;
    let elinvar = root().join("crates/elinvar");
    let manifest = format!(
        "[package]\nname = \"{NAME}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\nelinvar = {{ path = {:?} }}\n",
        elinvar.display().to_string()
    );
    fs::write(dir.join("Cargo.toml"), manifest)?;
    // The same versions of everything as here.
    fs::copy(root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    Ok(())
}

fn build(dir: &Path) -> Result<Duration, String> {
    let start = Instant::now();
    run(dir, &["build", "--release", "--jobs", JOBS])?;
    Ok(start.elapsed())
}

/// What cargo says, in the project's directory, into a target directory of its own.
fn run(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = cargo(args);
    command.current_dir(dir).env("CARGO_TARGET_DIR", dir.join("target")).env_remove("RUSTFLAGS");
    let out = command.output().map_err(|e| format!("cargo did not start: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(format!("cargo {}: {}\n{}", args.join(" "), out.status, String::from_utf8_lossy(&out.stderr)))
}

/// The crates of a tree without indentation, but the project itself.
fn crates(tree: &str) -> usize {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    lines.skip(1).collect::<BTreeSet<_>>().len()
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

/// MiB of the line that the program has printed.
fn held(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

fn hundredths(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

fn print(peer: &str, workload: &str, value: f64, unit: &str) {
    let version = env!("CARGO_PKG_VERSION");
    println!(
        r#"{{"peer":"{peer}","version":"{version}","workload":"{workload}","value":{value},"unit":"{unit}","threads":{JOBS}}}"#
    );
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
    fn memory_is_read_from_the_program() {
        assert_eq!(held("[[7 10]\n [15 22]]\nVmHWM:\t    2560 kB\n"), Some(2.5));
        assert_eq!(held("[[7 10]\n [15 22]]\n\n"), None);
    }
}
