//! Whether the current thread records.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Puts the mode back, also when the scope is left by a panic.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        ENABLED.set(self.0);
    }
}

fn with<T>(enabled: bool, f: impl FnOnce() -> T) -> T {
    let _restore = Restore(ENABLED.replace(enabled));
    f()
}

/// Runs `f` without recording: results depend on nothing, and nothing is kept for a backward pass.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with(false, f)
}

/// Runs `f` with recording, inside of a [`no_grad`] scope say.
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with(true, f)
}

/// Does the current thread record?
pub fn is_grad_enabled() -> bool {
    ENABLED.get()
}
