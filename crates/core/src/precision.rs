//! The arithmetic of products: exact, or the fastest of the device.

use std::cell::Cell;
use std::fmt;

/// The arithmetic of contractions. Fast arithmetic is always opt-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// The bits of the reference, on every device.
    #[default]
    Exact,
    /// The device's fastest units (tensor cores, AMX): the terms of a sum may be added in another
    /// order or in pairs, and subnormal numbers may be flushed to zero. A result is reproducible on
    /// one kind of device, whatever the number of threads, and does not depend on the other rows of
    /// a batch; it may differ between kinds of devices. Ops that gain nothing from it stay exact.
    Fast,
}

thread_local! {
    static SCOPE: Cell<Option<Precision>> = const { Cell::new(None) };
}

/// Restores the outer scope's precision, also on a panic.
struct Restore(Option<Precision>);

impl Drop for Restore {
    fn drop(&mut self) {
        SCOPE.set(self.0);
    }
}

impl Precision {
    /// Runs `f` with this precision for all products of this thread, whatever the device's own
    /// setting. Ops that are recorded on the tape inside are differentiated with the same
    /// precision, also after the scope has ended.
    ///
    /// ```
    /// use elinvar_core::Precision;
    /// let inside = Precision::Fast.scope(Precision::of_scope);
    /// assert_eq!((inside, Precision::of_scope()), (Some(Precision::Fast), None));
    /// ```
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        Self::scope_of(Some(self), f)
    }
    /// Runs `f` as in a scope of this precision, or outside of any.
    pub fn scope_of<T>(precision: Option<Precision>, f: impl FnOnce() -> T) -> T {
        let _restore = Restore(SCOPE.replace(precision));
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
            assert_eq!(Precision::scope_of(None, Precision::of_scope), None);
            assert!(std::panic::catch_unwind(|| Exact.scope(|| panic!("as it should"))).is_err());
            assert_eq!(Precision::of_scope(), Some(Fast));
            let elsewhere = std::thread::spawn(Precision::of_scope).join();
            assert_eq!(elsewhere.unwrap(), None, "a scope is of one thread");
        });
        assert_eq!(Precision::of_scope(), None);
    }
}
