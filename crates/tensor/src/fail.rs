//! Panics for programming errors: methods and operators panic with the error's sentence and the
//! caller's line, as indexing does in std. [`try_run`] turns such a panic back into the error.

use elinvar_core::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};

thread_local! {
    /// The nesting depth of `try_run` calls of this thread.
    static CAUGHT: Cell<usize> = const { Cell::new(0) };
}

/// For code that, like the methods here, panics on a programming error: a layer, for example.
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
        // Inside of `try_run` the error is returned, and the panic hook must not print a report.
        resume_unwind(Box::new(e))
    }
    panic!("{e}")
}

/// Runs `f` and gives the error back in which one of elinvar's methods or operators would have
/// panicked: for servers, notebooks and other programs that must continue.
///
/// # Errors
/// The first error of a method or operator.
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
