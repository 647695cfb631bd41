//! Restrictions on a function whose work is captured, and the state that it reads besides its
//! operands.
//!
//! Captured work is replayed without the function, so it must be all that the function does: no
//! value may be read on the host, and nothing that outlives the call may change, but for a training
//! step ([`observe_step`]), of which the change is the purpose. State that it
//! reads besides its operands (weights, a mode) may change between two runs; so the owner of such
//! state registers, when it is read, a check that it is unchanged.

use crate::array::Array;
use crate::backend::Backend;
use elinvar_core::{Error, Layout, Result};
use std::cell::RefCell;

/// Is the state that a function has read unchanged?
pub type Watch = Box<dyn Fn() -> bool + Send + Sync>;

/// What the function of this thread has read, and may do.
struct Rules {
    watches: Vec<Watch>,
    /// May it change tensors in place?
    changes: bool,
}

thread_local! {
    static RULES: RefCell<Option<Rules>> = const { RefCell::new(None) };
}

/// Clears the rules also when a function panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        RULES.set(None);
    }
}

/// Runs a function under these restrictions; returns its result and the checks of the state it has
/// read.
///
/// # Errors
/// Those of the function; `Unsupported` if it violates the restrictions, or if a capture is active
/// in this thread.
pub fn observe<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Watch>)> {
    under(false, f)
}

/// [`observe`] for a training step: it may change tensors in place, and the state of a model. Who
/// captures it makes sure that the memory which it changes stays where it is.
///
/// # Errors
/// As [`observe`].
pub fn observe_step<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Watch>)> {
    under(true, f)
}

fn under<T>(changes: bool, f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Watch>)> {
    if is_recording() {
        return Err(Error::unsupported("a function that is recorded cannot record another one"));
    }
    RULES.set(Some(Rules { watches: Vec::new(), changes }));
    let _end = End;
    let result = f()?;
    Ok((result, RULES.take().map(|rules| rules.watches).unwrap_or_default()))
}

/// Is a capture active in this thread?
pub fn is_recording() -> bool {
    RULES.with_borrow(Option::is_some)
}

/// Registers state that was read and may change.
pub fn read(watch: impl FnOnce() -> Watch) {
    if is_recording() {
        let watch = watch();
        RULES.with_borrow_mut(|r| r.as_mut().expect("it was just there").watches.push(watch));
    }
}

/// Refuses `what`, if a capture is active.
///
/// # Errors
/// `Unsupported` if one is.
pub fn refuse(what: &str) -> Result<()> {
    if is_recording() {
        return Err(Error::unsupported(format!("{what}: a function that is recorded cannot do this")));
    }
    Ok(())
}

/// Refuses `what`, which changes something, if a capture is active that is not of a training step.
///
/// # Errors
/// `Unsupported` if one is.
pub fn refuse_change(what: &str) -> Result<()> {
    if RULES.with_borrow(|r| r.as_ref().is_some_and(|r| r.changes)) { Ok(()) } else { refuse(what) }
}

/// The identity of a tensor's memory, and its view. As long as the memory is held, equal places
/// have equal values at every moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    memory: usize,
    layout: Layout,
}

impl Place {
    /// The place of a tensor's elements; deferred work is run first.
    ///
    /// # Errors
    /// `OutOfMemory`, or the device's errors.
    pub fn of<B: Backend>(x: &Array<B>) -> Result<Place> {
        Ok(Place { memory: B::memory_id(x.device(), x.buffer())?, layout: x.layout().clone() })
    }
}

/// Registers a tensor that was read out of a cell, whose current content `now` returns.
pub fn read_cell<B: Backend>(x: &Array<B>, now: impl Fn() -> Array<B> + Send + Sync + 'static) {
    read(|| {
        // A tensor whose place is unknown never counts as unchanged.
        let before = Place::of(x).ok();
        Box::new(move || before.is_some() && Place::of(&now()).ok() == before)
    });
}
