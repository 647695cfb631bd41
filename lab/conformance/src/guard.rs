//! A panic in an op becomes a failure of its case, with the message and location, instead of the
//! end of the run.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// `Some` while this thread runs a case: the message and location of a panic, after there was
    /// one.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static ACTIVE: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs `f`; a panic is returned as its message and location, and is not printed.
///
/// The process's panic hook is replaced once, by one that does this for threads inside of `caught`
/// and calls the previous hook for all others.
///
/// # Errors
/// The panic's message.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !ACTIVE.with(|a| *a.borrow()) {
                return before(info);
            }
            let said = info.payload_as_str().unwrap_or("a panic without words");
            let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
            CAUGHT.with(|c| *c.borrow_mut() = Some(format!("panic: {said}{place}")));
        }));
    });
    let outer = ACTIVE.with(|a| a.replace(true));
    // The partial state of `f` is dropped: results are returned, never shared.
    let result = catch_unwind(AssertUnwindSafe(f));
    ACTIVE.with(|a| *a.borrow_mut() = outer);
    result.map_err(|_| CAUGHT.with(|c| c.borrow_mut().take()).unwrap_or_else(|| "panic".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_as_its_sentence_and_place() {
        assert_eq!(caught(|| 3), Ok(3));
        let v: Vec<u8> = Vec::new();
        let said = caught(|| v[7]).unwrap_err();
        assert!(said.contains("index is 7") && said.contains("guard.rs"), "{said}");
        assert_eq!(caught(|| 4), Ok(4));
    }
}
