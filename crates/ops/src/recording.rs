//! What a function may not do while it is recorded, and what it reads besides its operands.
//!
//! Recorded work is done again without the function that gave it, so it must be all that the
//! function does: no number may come to the host, and nothing that outlives the call may change.
//! What it reads besides its operands (weights, a mode) may change between two runs; so whoever
//! owns such a thing says, when it is read, how to see that it is still the same.

use crate::array::Array;
use crate::backend::Backend;
use elinvar_core::{Error, Layout, Result};
use std::cell::RefCell;

/// Is what a function has read still the same?
pub type Watch = Box<dyn Fn() -> bool + Send + Sync>;

thread_local! {
    static WATCHES: RefCell<Option<Vec<Watch>>> = const { RefCell::new(None) };
}

/// Takes the list away also when a function panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        WATCHES.set(None);
    }
}

/// Runs a function under these rules; gives its result and what it has read.
///
/// # Errors
/// Those of the function; `Unsupported` if it does what it may not do, or if this thread records
/// one already.
pub fn observe<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Watch>)> {
    if is_recording() {
        return Err(Error::unsupported("a function that is recorded cannot record another one"));
    }
    WATCHES.set(Some(Vec::new()));
    let _end = End;
    let result = f()?;
    Ok((result, WATCHES.take().unwrap_or_default()))
}

/// Is a function being recorded in this thread?
pub fn is_recording() -> bool {
    WATCHES.with_borrow(Option::is_some)
}

/// Something that may change was read.
pub fn read(watch: impl FnOnce() -> Watch) {
    if is_recording() {
        let watch = watch();
        WATCHES.with_borrow_mut(|all| all.as_mut().expect("it was just there").push(watch));
    }
}

/// `what` is about to be done, which a function that is recorded may not do.
///
/// # Errors
/// `Unsupported` if one is.
pub fn refuse(what: &str) -> Result<()> {
    if is_recording() {
        return Err(Error::unsupported(format!("{what}: a function that is recorded cannot do this")));
    }
    Ok(())
}

/// Which numbers a tensor looks at, and how. As long as somebody holds the memory, equal places
/// have equal numbers at every moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    memory: usize,
    layout: Layout,
}

impl Place {
    /// Where a tensor's numbers are; they are computed first if that was put off.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    pub fn of<B: Backend>(x: &Array<B>) -> Result<Place> {
        Ok(Place { memory: B::memory_id(x.device(), x.buffer())?, layout: x.layout().clone() })
    }
}

/// A tensor was read out of a cell, from which `now` reads what is in it.
pub fn read_cell<B: Backend>(x: &Array<B>, now: impl Fn() -> Array<B> + Send + Sync + 'static) {
    read(|| {
        // What has no place now is never the same.
        let before = Place::of(x).ok();
        Box::new(move || before.is_some() && Place::of(&now()).ok() == before)
    });
}
