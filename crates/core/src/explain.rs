//! `ELINVAR_EXPLAIN=1`: one line on standard error for each plan that a backend runs: op, shape,
//! path and why.

use std::sync::OnceLock;

/// The environment's wish to see plans.
const EXPLAIN_VARIABLE: &str = "ELINVAR_EXPLAIN";
/// Whether the variable asks for lines; read by the first call.
static IS_ON: OnceLock<bool> = OnceLock::new();

/// Prints a line, which is made only if the environment asks for it.
#[inline]
pub fn explain(line: impl FnOnce() -> String) {
    if *IS_ON.get_or_init(is_asked_for) {
        print(&line());
    }
}

#[cold]
fn is_asked_for() -> bool {
    std::env::var(EXPLAIN_VARIABLE).is_ok_and(|value| value == "1")
}

#[cold]
fn print(line: &str) {
    eprintln!("elinvar: {line}");
}
