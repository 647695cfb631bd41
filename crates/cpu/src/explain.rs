//! `ELINVAR_EXPLAIN=1`: one line on standard error for each plan that is run: op, shape, path and
//! why.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The environment's wish to see plans.
const EXPLAIN_VARIABLE: &str = "ELINVAR_EXPLAIN";

/// The variable was not read yet; it asks for nothing; it asks for lines.
const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNREAD);

/// Prints a line, which is made only then. The variable is read by the first call; later ones cost
/// a relaxed load.
#[inline]
pub(crate) fn explain(line: impl FnOnce() -> String) {
    let state = STATE.load(Relaxed);
    if state == ON || state == UNREAD && is_asked_for() {
        print(&line());
    }
}

#[cold]
fn is_asked_for() -> bool {
    let is_on = std::env::var(EXPLAIN_VARIABLE).is_ok_and(|value| value == "1");
    STATE.store(if is_on { ON } else { OFF }, Relaxed);
    is_on
}

#[cold]
fn print(line: &str) {
    eprintln!("elinvar: {line}");
}
