//! The part `hello`: a project outside of the workspace that depends on the crate `elinvar` with
//! its usual features, and multiplies two matrices.
//!
//! It has only Cargo's default release profile, as the project of a new user.

use super::{OURS, built, depend, dependencies, hundredths, print, run, stripped, tenths, timed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Name of the project.
const NAME: &str = "hello";

/// Programs, by the peer of the line and the device: one chosen at run time, and one chosen at
/// compile time, so that code of the others is not linked.
const DEVICES: [(&str, &str); 2] = [(OURS, "Device"), ("ours-static", "elinvar::CpuDevice")];

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

pub fn measure(dir: &Path) -> Result<(), String> {
    depend(dir, |elinvar| {
        format!(
            "[package]\nname = \"{NAME}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\nelinvar = {{ path = {elinvar} }}\n"
        )
    })?;
    let main = dir.join("src/main.rs");
    let build = ["build", "--release"];
    for (peer, device) in DEVICES {
        let write = || fs::write(&main, text(device)).map_err(|e| format!("{}: {e}", main.display()));
        write()?;
        run(dir, &["fetch"])?;
        let first = timed(dir, &build)?;
        if peer == OURS {
            print(peer, "clean_build_hello_j2", tenths(first), "s");
            print(peer, "dependencies_hello", dependencies(dir)?, "crates");
        }
        // The timestamp of a file may be coarse; the content is unchanged, its modification time is
        // not.
        write()?;
        print(peer, "incremental_build_hello", tenths(timed(dir, &build)?), "s");
        let program = built(dir, NAME);
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

/// MiB of the line that the program has printed.
fn held(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_program() {
        assert_eq!(held("[[7 10]\n [15 22]]\nVmHWM:\t    2560 kB\n"), Some(2.5));
        assert_eq!(held("[[7 10]\n [15 22]]\n\n"), None);
    }
}
