//! `cargo xtask docs`: automatic checks of the documentation.
//!
//! Each check takes the tree as text and returns sentences; an empty list is a pass. How it can be
//! wrong: a check that finds nothing to look at passes, so every one of them has a test in which it
//! must fail.

mod environment;
mod links;
mod numbers;
mod sentences;
mod tree;

use crate::step::Outcome;
use crate::{metrics, results};
pub(crate) use links::targets;
use std::process::ExitCode;
#[cfg(test)]
pub(crate) use tree::small;
pub(crate) use tree::{Tree, resolve};

/// A check, and its name.
type Check = (&'static str, fn(&Tree) -> Vec<String>);

const CHECKS: [Check; 8] = [
    ("links and anchors", links::dead),
    ("paths in code spans", links::lost_paths),
    ("pages that the summary lacks", links::unlisted),
    ("crates that the architecture lacks", links::unnamed_crates),
    ("numbers in README", numbers::unheld),
    ("environment variables", environment::differences),
    ("methods that sentences name", sentences::unknown_methods),
    ("code metrics", metrics::faults),
];

/// Runs all checks and prints the faults.
pub fn docs() -> ExitCode {
    match check() {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed(why) | Outcome::Skipped(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The same as a step of `cargo xtask test`.
pub(crate) fn check() -> Outcome {
    let tree = match Tree::of_git() {
        Ok(tree) => tree,
        Err(why) => return Outcome::Skipped(why),
    };
    let mut count = 0;
    for (name, check) in CHECKS {
        count += told(name, &check(&tree));
    }
    match results::stale() {
        Ok(stale) => count += told("pages that `cargo xtask results` would write otherwise", &stale),
        Err(why) => return Outcome::Failed(why),
    }
    if count > 0 { Outcome::Failed(format!("{count} faults in the documentation")) } else { Outcome::Passed }
}

/// Prints the faults of a check, and returns their number.
fn told(name: &str, faults: &[String]) -> usize {
    println!(
        "{name}: {}",
        if faults.is_empty() { "fine".into() } else { format!("{} faults", faults.len()) }
    );
    for fault in faults {
        println!("  {fault}");
    }
    faults.len()
}
