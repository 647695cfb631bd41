//! Compiling for another target: where its standard library comes from, and Debian's packages.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The source of a target's standard library.
pub(crate) enum Std {
    /// It is installed: `rustup target add`.
    Installed,
    /// Compiled from the source that comes with this compiler, as with Debian's. Experimental in
    /// Cargo, so it must be enabled.
    Source(PathBuf),
}

/// That of this target, if there is one.
pub(crate) fn standard_library(target: &str) -> Option<Std> {
    let own = env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from);
    if sysroot(&own).is_some_and(|root| root.join("lib/rustlib").join(target).join("lib").is_dir()) {
        return Some(Std::Installed);
    }
    // Debian's, which is not first in PATH where rustup is installed too.
    let debian = PathBuf::from("/usr/bin/rustc");
    let has_source = |rustc: &PathBuf| {
        sysroot(rustc).is_some_and(|root| root.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file())
    };
    [own, debian].into_iter().find(has_source).map(Std::Source)
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(PathBuf::from(path.trim_end()))
}

/// The name of Cargo's environment variable for a setting of the target.
pub(crate) fn variable(target: &str, name: &str) -> String {
    format!("CARGO_TARGET_{}_{name}", target.to_uppercase().replace('-', "_"))
}

/// Does the program start, and tell its version?
pub(crate) fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Installs missing packages, on Debian and its derivatives, if this is root. Callers check whether
/// it worked.
pub(crate) fn install(packages: &[&str]) {
    let is_there = |package: &&str| {
        let dpkg = Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]).output();
        dpkg.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("install ok installed"))
    };
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0");
    if !Path::new("/etc/debian_version").is_file() || !root || packages.iter().all(is_there) {
        return;
    }
    println!("installing {}", packages.join(" "));
    let apt = |args: &[&str]| {
        let status = Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").status();
        status.is_ok_and(|s| s.success())
    };
    let install = [&["install", "-qq", "-y", "--no-install-recommends"][..], packages].concat();
    if !apt(&install) && (!apt(&["update", "-qq"]) || !apt(&install)) {
        println!("it could not be installed");
    }
}
