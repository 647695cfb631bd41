//! `cargo xtask test`: everything that must hold before a change goes in, in one command.
//!
//! Every step runs, even after one has failed, so that one run tells all. What cannot run here is listed as skipped,
//! with the reason; it is never counted as passed.

use crate::root;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Places beside the project where a directory of golden cases is looked for, unless `ELINVAR_GOLDEN` names one.
const GOLDEN: [&str; 2] = ["../golden", "../shared/golden"];

/// How a step ended.
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs all steps.
pub fn test() -> ExitCode {
    let mut rows = Vec::new();
    let mut step = |name: &'static str, run: &dyn Fn() -> Outcome| {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = run();
        rows.push(Row { name, outcome, took: start.elapsed() });
    };
    step("format", &|| cargo(&["fmt", "--all", "--check"], &[]));
    step("clippy", &|| {
        cargo(&["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings"], &[])
    });
    step("docs", &|| {
        cargo(&["doc", "--workspace", "--all-features", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    });
    step("tests", &|| cargo(&["test", "--workspace", "--all-features", "--no-fail-fast"], &[]));
    step("golden sample", &|| conformance(&[]));
    step("golden cases", &|| match golden() {
        Ok(dir) => conformance(&["--golden", &dir.to_string_lossy()]),
        Err(outcome) => outcome,
    });
    summary(&rows)
}

/// The same program that users run, on the device that defines every result.
fn conformance(args: &[&str]) -> Outcome {
    let run = ["run", "--release", "--package", "elinvar-cli", "--", "conformance", "--device", "reference"];
    cargo(&[&run, args].concat(), &[])
}

/// The directory of golden cases, or why there is none.
fn golden() -> Result<PathBuf, Outcome> {
    let is_golden = |dir: &PathBuf| dir.join("index.json").is_file();
    if let Some(dir) = env::var_os("ELINVAR_GOLDEN") {
        let dir = PathBuf::from(dir);
        return if is_golden(&dir) {
            Ok(dir)
        } else {
            Err(Outcome::Failed(format!("ELINVAR_GOLDEN is {}, where there is no index.json", dir.display())))
        };
    }
    GOLDEN.iter().map(|dir| root().join(dir)).find(is_golden).ok_or_else(|| {
        Outcome::Skipped(format!("no directory {} and ELINVAR_GOLDEN is not set", GOLDEN.join(" or ")))
    })
}

fn cargo(args: &[&str], vars: &[(&str, &str)]) -> Outcome {
    match crate::cargo(args).envs(vars.iter().copied()).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(e) => Outcome::Failed(format!("cargo did not start: {e}")),
    }
}

/// A line for each step, then the count, which is the last line.
fn summary(rows: &[Row]) -> ExitCode {
    println!("\n== summary");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Row { name, outcome, took } in rows {
        let (word, count, why) = match outcome {
            Outcome::Passed => ("ok", &mut passed, None),
            Outcome::Failed(why) => ("failed", &mut failed, Some(why)),
            Outcome::Skipped(why) => ("skipped", &mut skipped, Some(why)),
        };
        *count += 1;
        let why = why.map(|w| format!("  {w}")).unwrap_or_default();
        println!("{name:15} {word:8} {:7.1} s{why}", took.as_secs_f64());
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
