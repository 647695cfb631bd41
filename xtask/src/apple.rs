//! `cargo xtask apple`: the driver for Metal, and everything above it, type-checked for Apple's
//! systems.
//!
//! Nothing is linked, which takes Apple's SDK, and nothing runs: on a Mac, `cargo xtask test` does.

use crate::cargo;
use crate::cross::{self, Std, standard_library};
use crate::python::target;
use crate::step::{Outcome, ended, summary, timed};
use std::env;
use std::process::ExitCode;

const TARGET: &str = "aarch64-apple-darwin";
/// A compiler with the source of the standard library.
const COMPILER: [&str; 2] = ["rustc-web", "rust-web-src"];
/// What is compiled otherwise there and what stands on it, with default features, of which Metal is
/// one; and the driver's tests on a device. In one command: what they share is compiled once.
const CHECKS: [&str; 23] = [
    "check",
    "--target",
    TARGET,
    "--package",
    "elinvar-gpu",
    "--package",
    "elinvar-devices",
    "--package",
    "elinvar",
    "--package",
    "elinvar-cli",
    "--package",
    "elinvar-cli-commands",
    "--package",
    "elinvar-lab",
    "--package",
    "elinvar-driver",
    "--features",
    "elinvar-driver/metal",
    "--lib",
    "--bins",
    "--test=metal",
    "--test=arithmetic",
];

/// Checks it.
pub fn apple() -> ExitCode {
    cross::install(&COMPILER);
    summary(&[timed("apple, check", &check)])
}

/// A step of `cargo xtask test`.
pub fn check() -> Outcome {
    if env::consts::OS == "macos" {
        return Outcome::Skipped("this is one of Apple's systems: the other steps compile for it".into());
    }
    let Some(std) = standard_library(TARGET) else {
        return Outcome::Skipped(format!(
            "no standard library of {TARGET}; `rustup target add {TARGET}` gets it, or on Debian: apt-get install {}",
            COMPILER.join(" ")
        ));
    };
    let Ok(target) = target() else { return Outcome::Failed("the target directory is not known".into()) };
    let mut command = cargo(&CHECKS);
    // Another compiler's artifacts cannot be reused.
    command.env("CARGO_TARGET_DIR", target.join("apple")).env("RUSTFLAGS", "-D warnings");
    if let Std::Source(rustc) = &std {
        command.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
    }
    ended(&mut command)
}
