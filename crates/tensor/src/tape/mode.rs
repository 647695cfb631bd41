//! Recording mode of the current thread.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Restores the mode, also on a panic.
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

/// Runs `f` without recording: results are not tracked, and nothing is kept for a backward pass.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with(false, f)
}

/// Runs `f` with recording, for example inside of a [`no_grad`] scope.
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with(true, f)
}

/// Does the current thread record?
pub fn is_grad_enabled() -> bool {
    ENABLED.get()
}
