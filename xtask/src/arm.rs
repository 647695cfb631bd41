//! `cargo xtask arm`: the device `cpu` on aarch64, with NEON.
//!
//! The tests and the program are compiled for aarch64 Linux and run in qemu's user-mode emulation;
//! short training runs must end with the same weights as on this processor.

use crate::cross::{Std, runs, standard_library, variable};
use crate::isa::{ISA, THREADS};
use crate::python::target;
use crate::same_weights::weights;
use crate::step::{Outcome, Scratch, ended, summary, timed};
use crate::{cargo, root};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Debian's path of the C library of that target.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
/// All features that qemu emulates.
const NEWEST: &str = "max";
/// A processor of 2012, without f16 arithmetic: there, conversions are integer arithmetic.
const OLDEST: &str = "cortex-a53";

/// Optimised: debug builds take longer to run under emulation than to compile.
const TESTS: [&str; 7] =
    ["test", "--release", "--package", "elinvar-cpu", "--lib", "--tests", "--no-fail-fast"];
/// The program that users run, on this processor.
const PROGRAM: [&str; 5] = ["run", "--release", "--package", "elinvar-cli", "--"];
/// The conversions.
const MEMORY: [&str; 7] = ["test", "--release", "--package", "elinvar-cpu", "--test", "equal", "memory"];

/// The required tools.
struct Tools {
    std: Std,
    linker: bool,
    emulator: &'static str,
}

/// Runs everything.
pub fn arm() -> ExitCode {
    if let Some(why) = elsewhere() {
        println!("SKIPPED: {why}");
        return ExitCode::SUCCESS;
    }
    let tools = match tools() {
        Ok(tools) => tools,
        Err(missing) => {
            eprintln!("xtask: {missing}");
            return ExitCode::FAILURE;
        }
    };
    summary(&[
        timed("tests", &|| tools.test(&TESTS, NEWEST)),
        timed("memory, no f16", &|| tools.test(&MEMORY, OLDEST)),
        timed("same weights", &|| tools.same_weights().map_or_else(Outcome::Failed, |()| Outcome::Passed)),
    ])
}

/// A step of `cargo xtask test`: does it compile, without a warning? Only where the target's
/// standard library is installed, as compiling that takes longer than the step.
pub fn check() -> Outcome {
    if !matches!(standard_library(TARGET), Some(Std::Installed)) {
        return Outcome::Skipped(format!("{TARGET} is not installed; rustup target add {TARGET} gets it"));
    }
    let check = ["check", "--package", "elinvar-cpu", "--target", TARGET];
    ended(cargo(&check).env("RUSTFLAGS", "-D warnings"))
}

/// The reason this machine cannot run it, if it cannot.
fn elsewhere() -> Option<String> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "aarch64") => Some("this processor has NEON: `cargo xtask test` tests it".into()),
        ("linux", _) => None,
        (os, _) => Some(format!("qemu's emulation of programs needs Linux, and this is {os}")),
    }
}

/// The tools, or what is missing and how to get it.
fn tools() -> Result<Tools, String> {
    let std = standard_library(TARGET);
    let emulator = EMULATORS.into_iter().find(|program| runs(program));
    // Another linker is set by Cargo's environment variable.
    let linker = env::var_os(variable(TARGET, "LINKER")).is_none();
    let mut missing = Vec::new();
    if std.is_none() {
        missing.push(format!(
            "a standard library of {TARGET}: `rustup target add {TARGET}`, or Debian's packages rustc-web and rust-web-src"
        ));
    }
    if linker && !runs(LINKER) {
        missing.push(format!("{LINKER}: Debian's package gcc-aarch64-linux-gnu"));
    }
    if !Path::new(LIBRARIES).join("lib/libc.so.6").exists() {
        missing.push(format!("a C library in {LIBRARIES}: Debian's package libc6-dev-arm64-cross"));
    }
    if emulator.is_none() {
        missing.push(format!("{}: Debian's package qemu-user-static", EMULATORS[0]));
    }
    match (std, emulator) {
        (Some(std), Some(emulator)) if missing.is_empty() => Ok(Tools { std, linker, emulator }),
        _ => Err(format!(
            "nothing ran, for want of\n  {}\nDebian installs its packages with apt-get install --no-install-recommends",
            missing.join("\n  ")
        )),
    }
}

impl Tools {
    /// Cargo, for the target. In a target directory of its own, as another compiler's artifacts
    /// cannot be reused.
    fn cargo(&self, args: &[&str]) -> Result<Command, String> {
        let mut command = cargo(&args[..1]);
        command.args(["--target", TARGET]).args(&args[1..]);
        command.env("CARGO_TARGET_DIR", home()?).env("RUSTFLAGS", "-D warnings");
        if self.linker {
            command.env(variable(TARGET, "LINKER"), LINKER);
        }
        if let Std::Source(rustc) = &self.std {
            command.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
        }
        Ok(command)
    }
    /// qemu with this processor, and its arguments.
    fn emulator(&self, processor: &'static str) -> [&'static str; 5] {
        [self.emulator, "-cpu", processor, "-L", LIBRARIES]
    }
    fn test(&self, args: &[&str], processor: &'static str) -> Outcome {
        match self.cargo(args) {
            Ok(mut cargo) => ended(cargo.env(variable(TARGET, "RUNNER"), self.emulator(processor).join(" "))),
            Err(why) => Outcome::Failed(why),
        }
    }
    /// Training runs end with the same weights here and there, with several numbers of threads.
    fn same_weights(&self) -> Result<(), String> {
        let build = self.cargo(&["build", "--release", "--package", "elinvar-cli"])?.status();
        let build = build.map_err(|e| format!("cargo did not start: {e}"))?;
        if !build.success() {
            return Err(format!("the program could not be built ({build}); what cargo says is above"));
        }
        let program = home()?.join(TARGET).join("release/elinvar");
        let scratch = Scratch::new("arm");
        for model in ["mlp", "cnn", "transformer"] {
            let want = weights(&mut cargo(&PROGRAM), &scratch, (model, "off"), "cpu", &[])?;
            println!("{model:12} {:19} {want}", env::consts::ARCH);
            let [qemu, args @ ..] = self.emulator(NEWEST);
            for threads in ["1", "2", "3"] {
                let mut there = Command::new(qemu);
                there.args(args).arg(&program).current_dir(root()).env(ISA, "neon").env(THREADS, threads);
                let got = weights(&mut there, &scratch, (model, "off"), "cpu", &[])?;
                println!("{model:12} NEON, {threads} threads    {got}");
                if got != want {
                    return Err(format!("{model} on NEON with {threads} threads has other weights"));
                }
            }
        }
        Ok(())
    }
}

/// The directory of these builds.
fn home() -> Result<PathBuf, String> {
    Ok(target()?.join("arm"))
}
