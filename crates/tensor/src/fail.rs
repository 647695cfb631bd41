//! A programmer's mistake: methods and operators panic with the error's sentence and the caller's
//! line, as indexing does in std. [`try_run`] turns such a panic back into the error.

use elinvar_core::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};

thread_local! {
    /// How many `try_run` calls this thread is inside of.
    static CAUGHT: Cell<usize> = const { Cell::new(0) };
}

/// For code that, like the methods here, panics on a programmer's mistake: a layer, say.
pub trait OrFail<T> {
    /// Takes the value, or panics with the error's sentence at the caller's line; [`try_run`] gives
    /// the error back.
    fn or_fail(self) -> T;
}

impl<T> OrFail<T> for Result<T> {
    #[inline]
    #[track_caller]
    fn or_fail(self) -> T {
        match self {
            Ok(v) => v,
            Err(e) => fail(e),
        }
    }
}

#[cold]
#[track_caller]
pub(crate) fn fail(e: Error) -> ! {
    if CAUGHT.get() > 0 {
        // Whoever called try_run wants the error, and no report of a panic on standard error.
        resume_unwind(Box::new(e))
    }
    panic!("{e}")
}

/// Runs `f` and gives the error back in which one of elinvar's methods or operators would have
/// panicked: for servers, notebooks and others that must go on.
///
/// # Errors
/// The first error that a method met.
///
/// # Panics
/// Other panics of `f` pass through.
pub fn try_run<T>(f: impl FnOnce() -> T) -> Result<T> {
    CAUGHT.set(CAUGHT.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    CAUGHT.set(CAUGHT.get() - 1);
    result.map_err(|payload| match payload.downcast::<Error>() {
        Ok(e) => *e,
        Err(other) if other.is::<String>() || other.is::<&str>() => resume_unwind(other),
        Err(other) => panic_any(other),
    })
}
