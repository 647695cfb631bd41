//! Profiles: what ran when, on the host and on devices.
//!
//! Everything that a profile shows passes one of a few places: the call of an op and of its
//! gradient (crate `tensor`), a kind of work at the door of a run-time backend
//! (`ops/backend/delegate.rs`), a kernel or a copy of a device with a queue (crate `gpu`), a part
//! of training (crate `nn`). Each asks [`is_on`] and does nothing else while no profile is
//! recorded.
//!
//! How it can be wrong: what is open in a thread is a stack, so guards must end in the reverse
//! order of their beginnings, in the same thread. A guard that began while nothing was recorded is
//! not on the stack, and ends without touching it.

mod call;
mod log;

pub use call::{Call, Cost};
pub use log::{Event, Kind, Record, Sample, Session, Source, Track, add_note, add_source, log_number, now};

use std::cell::RefCell;
use std::fmt::{self, Display, Write};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Is a profile recorded?
#[inline(always)]
pub fn is_on() -> bool {
    log::IS_ON.load(Relaxed)
}

/// Something that runs, until this is dropped.
#[must_use = "it ends when this is dropped"]
#[derive(Debug)]
pub struct Guard {
    is_open: bool,
    /// It ends in its own thread.
    here: PhantomData<*const ()>,
}

impl Guard {
    const OFF: Guard = Guard { is_open: false, here: PhantomData };
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_open {
            close();
        }
    }
}

/// The call of an op begins.
#[inline(always)]
pub fn op(name: impl FnOnce() -> &'static str) -> Guard {
    if is_on() { open(Kind::Op, Call { name: name(), gradient: false }) } else { Guard::OFF }
}

/// The gradient of an op begins.
#[inline(always)]
pub fn gradient(name: impl FnOnce() -> &'static str) -> Guard {
    if is_on() { open(Kind::Gradient, Call { name: name(), gradient: true }) } else { Guard::OFF }
}

/// A part of the program begins, such as a step of training.
#[inline(always)]
pub fn span(name: &'static str) -> Guard {
    if is_on() { open(Kind::Span, Call { name, gradient: false }) } else { Guard::OFF }
}

/// The call on whose behalf this thread works; of use to who puts work off.
#[inline(always)]
pub fn current() -> Call {
    if is_on() { innermost() } else { Call::NONE }
}

/// Work begins that was put off by a [call](current): the time is its own, and not that of who asks
/// for the result now.
#[inline(always)]
pub fn deferred(device: &dyn Display, call: Call) -> Guard {
    if is_on() { open_deferred(device, call) } else { Guard::OFF }
}

/// A kind of work begins on a device, or a copy between host and device, until [`end_work`]. Called
/// only if a profile [is recorded](is_on).
#[cold]
#[inline(never)]
pub fn begin_work(kind: Kind, name: &'static str, device: &dyn Display, cost: Cost) {
    // It ends by `end_work`.
    std::mem::forget(push(work(kind, name, device, cost, None)));
}

/// The work that began last in this thread ends.
pub fn end_work() {
    close();
}

/// Bytes that a device's tensors hold now. Called only if a profile [is recorded](is_on).
#[cold]
#[inline(never)]
pub fn memory(device: &dyn Display, bytes: u64) {
    log::sample(label(device), bytes);
}

/// What a thread has begun.
struct Here {
    thread: u32,
    open: Vec<Open>,
    /// The last device that was named: most work is on one.
    label: Option<Arc<str>>,
}

/// Something that has begun.
struct Open {
    kind: Kind,
    name: &'static str,
    call: Call,
    device: Option<Arc<str>>,
    cost: Cost,
    start: u64,
    /// Nanoseconds of what is inside, of the same level: ops in ops, work in work.
    inner: u64,
}

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here { thread: 0, open: Vec::new(), label: None }) };
}

/// The number of this thread in profiles, from 1.
fn thread(here: &mut Here) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    if here.thread == 0 {
        here.thread = NEXT.fetch_add(1, Relaxed);
    }
    here.thread
}

#[cold]
#[inline(never)]
fn open(kind: Kind, call: Call) -> Guard {
    // A part of the program is no call.
    let of = if kind == Kind::Span { Call::NONE } else { call };
    push(Open {
        kind,
        name: call.name,
        call: of,
        device: None,
        cost: Cost::default(),
        start: now(),
        inner: 0,
    })
}

#[cold]
#[inline(never)]
fn open_deferred(device: &dyn Display, call: Call) -> Guard {
    push(work(Kind::Work, "deferred", device, Cost::default(), Some(call)))
}

/// Work for a call: that one, or the one that is open in this thread; without any it is its own.
fn work(kind: Kind, name: &'static str, device: &dyn Display, cost: Cost, of: Option<Call>) -> Open {
    let asked = of.filter(|c| !c.is_none()).unwrap_or_else(innermost);
    let call = if asked.is_none() { Call { name, gradient: false } } else { asked };
    Open { kind, name, call, device: Some(label(device)), cost, start: now(), inner: 0 }
}

fn push(open: Open) -> Guard {
    HERE.with_borrow_mut(|here| here.open.push(open));
    Guard { is_open: true, here: PhantomData }
}

#[cold]
#[inline(never)]
fn innermost() -> Call {
    HERE.with_borrow(|here| here.open.last().map_or(Call::NONE, |open| open.call))
}

/// Ends what began last in this thread.
#[cold]
#[inline(never)]
fn close() {
    let end = now();
    let event = HERE.with_borrow_mut(|here| {
        let open = here.open.pop()?;
        let duration = end - open.start;
        if let Some(outer) = here.open.last_mut()
            && outer.kind.is_host_call() == open.kind.is_host_call()
        {
            outer.inner += duration;
        }
        Some(Event {
            kind: open.kind,
            name: open.name.into(),
            call: open.call,
            track: Track::Thread(thread(here)),
            device: open.device,
            given: open.start,
            start: open.start,
            duration,
            own: duration.saturating_sub(open.inner),
            cost: open.cost,
        })
    });
    if let Some(event) = event {
        log::add(event);
    }
}

/// The name of a device as text; the last one of this thread again, if it is the same.
fn label(device: &dyn Display) -> Arc<str> {
    let mut name = Name { bytes: [0; Name::MOST], len: 0 };
    // Only what is too long for a name is not written.
    let _ = write!(name, "{device}");
    let text = std::str::from_utf8(&name.bytes[..name.len]).unwrap_or_default();
    HERE.with_borrow_mut(|here| match &here.label {
        Some(last) if **last == *text => last.clone(),
        _ => here.label.insert(text.into()).clone(),
    })
}

/// A device's name, written without an allocation.
struct Name {
    bytes: [u8; Name::MOST],
    len: usize,
}

impl Name {
    /// `reference` has nine bytes, `vulkan:12` too.
    const MOST: usize = 64;
}

impl Write for Name {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let to = self.bytes.get_mut(self.len..self.len + s.len()).ok_or(fmt::Error)?;
        to.copy_from_slice(s.as_bytes());
        self.len += s.len();
        Ok(())
    }
}
