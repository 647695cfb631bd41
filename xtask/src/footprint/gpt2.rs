//! The part `gpt2`: a user's program that trains a GPT-2, `examples/train-gpt2`: its first build,
//! and the incremental build after each change.
//!
//! A copy is built, because its text is changed; it has only Cargo's default profiles.

use super::{OURS, built, depend, dependencies, hundredths, print, run, stripped, tenths, timed};
use crate::root;
use std::fs;
use std::path::Path;
use std::time::Duration;

const EXAMPLE: &str = "examples/train-gpt2";
/// The name of the package and its program.
const NAME: &str = "train-gpt2";
/// In the manifest: the path of the crate `elinvar`.
const DEPENDENCY: &str = "\"../../crates/elinvar\"";
/// The prefix of the line that is changed: a constant in the function `main`.
const CHANGED: &str = "const STEPS: usize = ";
/// Repetitions of each change; the time is the median.
const TIMES: usize = 3;

pub fn measure(dir: &Path) -> Result<(), String> {
    let at = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let read = |file: &str| {
        let path = root().join(EXAMPLE).join(file);
        fs::read_to_string(&path).map_err(|e| at(&path, e))
    };
    let (manifest, text) = (read("Cargo.toml")?, read("src/main.rs")?);
    if !manifest.contains(DEPENDENCY) {
        return Err(format!("{EXAMPLE}/Cargo.toml does not depend on {DEPENDENCY}"));
    }
    depend(dir, |elinvar| manifest.replace(DEPENDENCY, elinvar))?;
    let main = dir.join("src/main.rs");
    let write = |text: &str| fs::write(&main, text).map_err(|e| at(&main, e));

    write(&text)?;
    run(dir, &["fetch"])?;
    let (build, check) = (&["build", "--release"][..], &["check"][..]);
    print(OURS, "clean_build_gpt2_j2", tenths(timed(dir, build)?), "s");
    print(OURS, "dependencies_gpt2", dependencies(dir)?, "crates");
    print(OURS, "binary_gpt2_stripped", hundredths(stripped(&built(dir, NAME))?), "MiB");
    // The first check compiles the dependencies of all later ones.
    print(OURS, "clean_check_gpt2_j2", tenths(timed(dir, check)?), "s");
    for (workload, command) in [("incremental_build_gpt2", build), ("incremental_check_gpt2", check)] {
        let mut times: Vec<Duration> = Vec::new();
        for n in 1..=TIMES {
            write(&changed(&text, n).ok_or_else(|| format!("{EXAMPLE} has no line \"{CHANGED}\""))?)?;
            times.push(timed(dir, command)?);
        }
        times.sort_unstable();
        print(OURS, workload, tenths(times[TIMES / 2]), "s");
    }
    Ok(())
}

/// The text with one line changed, differently for each number.
fn changed(text: &str, n: usize) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(CHANGED))?;
    Some(text.replacen(line, &format!("{CHANGED}{};", 100 + n), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_the_example_is_changed() {
        let read = |file: &str| fs::read_to_string(root().join(EXAMPLE).join(file)).unwrap();
        assert!(read("Cargo.toml").contains(DEPENDENCY));
        let text = read("src/main.rs");
        let texts = [changed(&text, 1).unwrap(), changed(&text, 2).unwrap()];
        for other in &texts {
            let differ = text.lines().zip(other.lines()).filter(|(a, b)| a != b);
            assert_eq!((differ.count(), other.lines().count()), (1, text.lines().count()));
        }
        assert_ne!(texts[0], texts[1]);
        assert_eq!(changed("fn main() {}\n", 1), None);
    }
}
