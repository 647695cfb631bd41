//! Whether products are exact, or as fast as the device can make them.

use std::cell::Cell;
use std::fmt;

/// How the sums of products are rounded: asked for by name, never guessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// The bits of the definition, on every device.
    #[default]
    Exact,
    /// What the device's fastest units give: the terms of a sum may be taken in another order, in
    /// pairs, and subnormal numbers as zero. A result is the same every time on one kind of device,
    /// whatever the number of threads, and does not depend on the other rows of a batch; it need
    /// not be the same on another. What gains nothing from it stays exact.
    Fast,
}

thread_local! {
    static SCOPE: Cell<Option<Precision>> = const { Cell::new(None) };
}

/// Puts the scope back, also when it is left by a panic.
struct Restore(Option<Precision>);

impl Drop for Restore {
    fn drop(&mut self) {
        SCOPE.set(self.0);
    }
}

impl Precision {
    /// Runs `f`, in which products on this thread are computed so, whatever their device would
    /// choose. What was recorded for gradients in it is differentiated with the same precision,
    /// also when that happens later.
    ///
    /// ```
    /// use elinvar_core::Precision;
    /// let inside = Precision::Fast.scope(Precision::of_scope);
    /// assert_eq!((inside, Precision::of_scope()), (Some(Precision::Fast), None));
    /// ```
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        let _restore = Restore(SCOPE.replace(Some(self)));
        f()
    }
    /// The precision of the innermost scope of this thread, if it is in one.
    pub fn of_scope() -> Option<Precision> {
        SCOPE.get()
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Exact => "exact",
            Precision::Fast => "fast",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Precision::{Exact, Fast};
    use super::*;

    #[test]
    fn scopes_nest_and_end_with_a_panic() {
        Fast.scope(|| {
            assert_eq!(Exact.scope(Precision::of_scope), Some(Exact));
            assert!(std::panic::catch_unwind(|| Exact.scope(|| panic!("as it should"))).is_err());
            assert_eq!(Precision::of_scope(), Some(Fast));
            let elsewhere = std::thread::spawn(Precision::of_scope).join();
            assert_eq!(elsewhere.unwrap(), None, "a scope is of one thread");
        });
        assert_eq!(Precision::of_scope(), None);
    }
}
