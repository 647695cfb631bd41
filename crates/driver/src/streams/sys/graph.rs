//! Graphs: calls that the driver keeps and replays at once.
//!
//! The calls are captured in a stream of their own, so nothing that others give to the device's
//! streams gets among them. The launch arguments that do not fit into parameters are in memory of
//! the graph. A library's products have the workspace of the stream that they were captured for.

use super::device::Shared;
use super::event::Event;
use super::functions::{Capture, Handle};
use super::memory::Memory;
use super::queue::{address, start};
use super::stream::{self, Stream};
use crate::streams::Streams;
use crate::{Call, Slice};
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A mode of capture in which other threads may go on with what they do:
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

/// Calls, ready to be made.
pub struct Graph {
    shared: Arc<Shared>,
    functions: Capture,
    raw: Handle,
    calls: usize,
    _numbers: Option<Memory>,
    /// The stream that they were captured for.
    home: Handle,
    /// Behind what the graph's own numbers were written, in that stream.
    ready: Option<Event>,
    /// Do they use its workspace?
    multiplies: bool,
}

// SAFETY: a handle that any thread may use once the context is its own; it is launched under the
// queue's lock.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A stream in which calls are captured. It goes when it is dropped.
struct CaptureStream<'a> {
    shared: &'a Shared,
    raw: Handle,
}

impl Drop for CaptureStream<'_> {
    fn drop(&mut self) {
        // Nothing was done in it.
        stream::destroy(self.shared, self.raw);
    }
}

impl Graph {
    /// Keeps calls, for a stream. `None` if the driver is too old for that.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidArgument` if parameters do not fit a kernel.
    pub fn new<D: Streams>(
        shared: &Arc<Shared>,
        home: &Stream,
        calls: &[Call<'_, D>],
    ) -> Result<Option<Graph>> {
        let Some(functions) = shared.api.table.capture() else { return Ok(None) };
        let (args, places) = args(shared, home, calls)?;
        let ready = if args.is_some() { Some(Event::untimed(shared, home.raw)?) } else { None };
        shared.enter()?;
        let (api, what) = (shared.api, || format!("a graph of {} calls", calls.len()));
        let raw = stream::create(api, what)?;
        let stream = CaptureStream { shared, raw };
        // SAFETY: nothing is being captured in a new stream.
        api.check(unsafe { (functions.begin)(raw, RELAXED) }, what)?;
        let given = capture(shared, home, &stream, calls, &places);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the capture was begun above and ends here, whatever came of it; the place for the
        // result is valid.
        let ended = api.check(unsafe { (functions.end)(raw, &raw mut graph) }, what);
        let made = given.and(ended).and_then(|()| {
            let mut raw = std::ptr::null_mut();
            // SAFETY: the capture's graph, which is not used by anybody else; the place for the
            // result is valid.
            api.check(unsafe { (functions.instantiate)(&raw mut raw, graph, 0) }, what)?;
            Ok(raw)
        });
        if !graph.is_null() {
            // SAFETY: what was made of it does not need it any more.
            unsafe { (functions.destroy)(graph) };
        }
        Ok(Some(Graph {
            shared: shared.clone(),
            functions,
            raw: made?,
            calls: calls.len(),
            _numbers: args,
            home: home.raw,
            ready,
            multiplies: calls.iter().any(|c| matches!(c, Call::Multiply { .. })),
        }))
    }
    /// Makes the calls, behind everything that was given to a stream of the device.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`; `Unsupported` if products of a library were captured for
    /// another stream, whose workspace they use.
    pub fn make_calls(&self, stream: &Stream) -> Result<()> {
        let (shared, api) = (&self.shared, self.shared.api);
        if stream.raw != self.home {
            if self.multiplies {
                return Err(Error::unsupported(api.say(format_args!(
                    "work with products of a library is replayed in the stream in which it was recorded"
                ))));
            }
            if let Some(ready) = &self.ready {
                ready.precedes(shared, stream.raw)?;
            }
        }
        // The stream's order is that of the queue's lock.
        let _queue = stream.queue();
        shared.enter()?;
        // SAFETY: graph and stream belong to this device. The caller keeps alive what the calls
        // name.
        let given = unsafe { (self.functions.launch)(self.raw, stream.raw) };
        api.check(given, || format!("a graph of {} calls", self.calls))
    }
}

/// The numbers of all launches in one piece of memory, and where each launch's are.
fn args<D: Streams>(
    shared: &Arc<Shared>,
    home: &Stream,
    calls: &[Call<'_, D>],
) -> Result<(Option<Memory>, Vec<u64>)> {
    let (mut all, mut places) = (Vec::new(), Vec::with_capacity(calls.len()));
    for call in calls {
        let given = match call {
            Call::Launch { args, .. } => args.unwrap_or(&[]),
            Call::Copy { .. } | Call::Multiply { .. } => &[],
        };
        all.resize(all.len().next_multiple_of(16), 0u8);
        places.push(all.len() as u64);
        all.extend_from_slice(given);
    }
    if all.is_empty() {
        return Ok((None, places));
    }
    let memory = Memory::new(shared, home.raw, all.len() as u64)?;
    let to: Slice<'_, D> = Slice { memory: &memory, offset: 0, len: all.len() as u64 };
    home.queue().write(shared, to, &all)?;
    places.iter_mut().for_each(|place| *place += memory.at);
    Ok((Some(memory), places))
}

/// Gives all calls to a stream that captures.
fn capture<D: Streams>(
    shared: &Shared,
    home: &Stream,
    stream: &CaptureStream<'_>,
    calls: &[Call<'_, D>],
    places: &[u64],
) -> Result<()> {
    for (call, place) in calls.iter().zip(places) {
        match call {
            Call::Launch { module, buffers, launch, args } => {
                let args = args.map(|_| *place);
                let operands = buffers.iter().map(address).chain(args);
                start(shared, stream.raw, module, operands, launch)?;
            }
            Call::Multiply { product, operands } => {
                if !home.queue().multiply(shared, Some(stream.raw), product, operands)? {
                    return Err(Error::unsupported(
                        shared.api.say(format_args!("no library computes {product:?}")),
                    ));
                }
            }
            Call::Copy { from, to } => {
                let (a, b) = (from.memory.at + from.offset, to.memory.at + to.offset);
                // SAFETY: both ranges are in their memory.
                let given = unsafe { (shared.api.table.copy_across)(b, a, to.len as usize, stream.raw) };
                shared.api.check(given, || format!("copying {} bytes", to.len))?;
            }
        }
    }
    Ok(())
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} calls)", self.calls)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // It may be under way. What goes wrong here was reported by a wait.
        let _ = self.shared.wait_for_all();
        // SAFETY: it is not used any more.
        unsafe { (self.functions.destroy_ready)(self.raw) };
    }
}
