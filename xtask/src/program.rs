//! The programs `elinvar` and `elinvar-lab`, as users run them, and what the tests have built.

use crate::step::Scratch;
use crate::{cargo, python, root};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// In one command: separately, each would be built with other features, and shared dependencies
/// several times.
const BUILD: [&str; 6] = ["build", "--release", "--package", "elinvar-cli", "--package", "elinvar-lab"];
/// What only measures is not optimised for checks: it would take the compiler longer than
/// anything that runs in them.
const TO_CHECK: [&str; 6] = [
    "--config",
    "profile.release.package.elinvar-bench.opt-level=0",
    "--config",
    "profile.release.package.elinvar-lab.opt-level=0",
    "--config",
    "profile.release.package.elinvar-ulp.opt-level=0",
];

/// The command that builds all of them, for checks.
pub fn build() -> Command {
    let mut command = cargo(&BUILD);
    command.args(TO_CHECK);
    command
}

/// The program that users run.
pub fn elinvar() -> Result<Command, String> {
    program("elinvar")
}

/// The program that checks and measures.
pub fn lab() -> Result<Command, String> {
    program("elinvar-lab")
}

/// The directory with all libraries and the program `elinvar-lab`, with all features, as the tests
/// have built them.
pub fn built_with_all_features() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let build = ["build", "--workspace", "--all-features", "--lib", "--bin", "elinvar-lab"];
        let status = cargo(&build).status().map_err(|e| format!("cargo did not start: {e}"))?;
        if !status.success() {
            return Err(format!("the workspace could not be built ({status}); what cargo says is above"));
        }
        Ok(python::target()?.join("debug"))
    };
    BUILT.get_or_init(build).as_deref().map_err(Clone::clone)
}

/// That program.
pub fn lab_with_all_features() -> Result<Command, String> {
    let lab = built_with_all_features()?.join("elinvar-lab");
    let mut command = Command::new(lab.with_extension(env::consts::EXE_EXTENSION));
    command.current_dir(root());
    Ok(command)
}

fn program(name: &str) -> Result<Command, String> {
    let mut command = Command::new(built()?.join(name).with_extension(env::consts::EXE_EXTENSION));
    command.current_dir(root());
    Ok(command)
}

/// The directory with everything that [`build`] builds. If the build fails, no older program is
/// run.
pub fn built() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| directory_of(&mut build())).as_deref().map_err(Clone::clone)
}

/// The directory with the same programs, as users build them: also what measures is optimised.
pub fn built_to_measure() -> Result<PathBuf, String> {
    directory_of(&mut cargo(&BUILD))
}

fn directory_of(build: &mut Command) -> Result<PathBuf, String> {
    let status = build.status().map_err(|e| format!("cargo did not start: {e}"))?;
    if !status.success() {
        return Err(format!("the programs could not be built ({status}); what cargo says is above"));
    }
    Ok(python::target()?.join("release"))
}

/// The command line is the same without the feature `tokenizers`, which [`build`] leaves out; what
/// needs it says so in one line, and writes nothing.
pub fn says_what_is_missing() -> Result<(), String> {
    let rows: [(&str, &[&str]); 3] = [
        ("train text", &["train", "text", "file"]),
        ("generate", &["generate", "dir"]),
        ("embed", &["embed", "dir", "x"]),
    ];
    let empty = Scratch::new("no-features");
    fs::create_dir(&empty.0).map_err(|e| format!("{}: {e}", empty.0.display()))?;
    for (command, args) in rows {
        let output = elinvar()?.args(args).current_dir(&empty.0).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("elinvar did not start: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let remedy = format!("`cargo run --release --features tokenizers -- {command} ...`");
        let written = fs::read_dir(&empty.0).map_or(0, Iterator::count);
        if output.status.code() != Some(1)
            || said.lines().count() != 1
            || !said.contains(&remedy)
            || written != 0
        {
            return Err(format!("elinvar {args:?}: {}, {written} files, {said}", output.status));
        }
    }
    Ok(())
}

/// The most bytes that the program may have on x86-64 Linux (ADR 32).
const MOST_BYTES: usize = 17_000_000;

/// Is the program stripped, as the profile of releases asks? A package with a profile of its own is
/// not. Known of ELF files, by the name of the section. Then also its size is checked, where it has
/// a limit.
pub fn is_small() -> Result<(), String> {
    let path = built()?.join("elinvar").with_extension(env::consts::EXE_EXTENSION);
    let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let symbols: &[u8] = b"\0.symtab\0";
    let (is_elf, len) = (bytes.starts_with(b"\x7fELF"), bytes.len());
    println!("{}: {len} bytes", path.display());
    if is_elf && bytes.windows(symbols.len()).any(|w| w == symbols) {
        return Err(format!("{} has its symbols, in {len} bytes", path.display()));
    }
    if is_elf && cfg!(target_arch = "x86_64") && len > MOST_BYTES {
        return Err(format!("{} has {len} bytes; ADR 32 allows {MOST_BYTES}", path.display()));
    }
    Ok(())
}
