//! What a stream is given: work in order, under one lock.

use super::blaslt::BlasLt;
use super::device::Shared;
use super::event::Event;
use super::functions::{Address, CopyBetween, Handle};
use super::memory;
use super::module::Module;
use super::staging::{Pinned, Ring, SLOT_BYTES};
use super::stream::Stream;
use crate::cuda::maps;
use crate::streams::Streams;
use crate::{Slice, VendorGemm};
use elinvar_core::{Error, NativeQueue, NativeWork, Result};
use elinvar_kernel::interp::Launch;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of device memory for the numbers of launches, at least.
const ARGS_BYTES: usize = 64 << 10;
/// Pieces of host memory for downloads that are kept.
const MAX_KEPT: usize = 4;
/// A kernel's operand: where it begins.
pub type Operand = Address;

/// Where a slice begins.
pub fn address<D: Streams>(slice: &Slice<'_, D>) -> Operand {
    slice.memory.at + slice.offset
}

/// Starts a kernel in a stream of this device, whose context is the thread's.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`, `InvalidArgument` if parameters do not fit the kernel.
pub fn start(
    shared: &Shared,
    stream: Handle,
    kernel: &Module,
    operands: impl Iterator<Item = Operand>,
    launch: &Launch,
) -> Result<()> {
    crate::params::check(&kernel.name, &kernel.params, &launch.params)?;
    let [x, y, z] = launch.groups;
    let most = shared.physical.max_groups;
    if launch.groups.iter().zip(most).any(|(&n, most)| n > most) {
        return Err(Error::argument(shared.api.say(format_args!(
            "{}: {x} x {y} x {z} workgroups, and at most {} x {} x {} can be started",
            kernel.name, most[0], most[1], most[2]
        ))));
    }
    if x == 0 || y == 0 || z == 0 {
        return Ok(());
    }
    let buffers: Vec<Address> = operands.collect();
    assert_eq!(buffers.len(), kernel.buffers, "{kernel:?} gets as many buffers as it has");
    let maps = maps(shared, kernel, &buffers, &launch.params)?;
    // One by one, and not as a block: where the driver has maps in a block depends on where the
    // block will be.
    let args = launch.params.iter().map(|p| (&raw const p.bits).cast());
    let mut params: Vec<*mut c_void> = (maps.iter().map(|map| (&raw const *map).cast()))
        .chain(buffers.iter().map(|at| (&raw const *at).cast()))
        .chain(args)
        .chain(launch.groups.iter().take(kernel.group_counts).map(|n| (&raw const *n).cast()))
        .map(|at: *const c_void| at.cast_mut())
        .collect();
    let [tx, ty, tz] = kernel.group;
    // SAFETY: the function belongs to this device and has these parameters, of these sizes: of a
    // number in less than 64 bits, its first bytes are read, which these machines keep in front.
    // All of them live longer than the call, which copies them and writes to none. Buffers stay
    // alive until the work is done: they are given back in the stream's order, and a graph's owner
    // keeps them.
    let started = unsafe {
        let (none, params) = (std::ptr::null_mut(), params.as_mut_ptr());
        let dynamic = kernel.dynamic;
        (shared.api.table.launch)(kernel.function, x, y, z, tx, ty, tz, dynamic, stream, params, none)
    };
    shared.api.check(started, || kernel.name.clone())
}

/// What is needed to give work to a stream.
pub struct Queue {
    stream: Handle,
    up: Ring,
    down: Vec<Pinned>,
    /// Device memory for the numbers of launches: its address, its bytes, and how many are used.
    args: Option<(Address, usize, usize)>,
    /// What is there since the buffer wrapped around: a launch that is done again finds its
    /// numbers.
    sent: HashMap<Box<[u8]>, Address>,
    /// The vendor's products, once one was asked for; nothing inside if they are not installed.
    blas: Option<Option<BlasLt>>,
}

impl Queue {
    pub fn new(stream: Handle) -> Queue {
        let (up, down, args, sent, blas) = (Ring::default(), Vec::new(), None, HashMap::new(), None);
        Queue { stream, up, down, args, sent, blas }
    }
    /// Starts a kernel.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, `InvalidArgument` if parameters do not fit the kernel.
    pub fn launch<D: Streams>(
        &mut self,
        shared: &Shared,
        kernel: &Module,
        buffers: &[Slice<'_, D>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        shared.enter()?;
        let args = match args {
            Some(bytes) => Some(self.send(shared, bytes)?),
            None => None,
        };
        start(shared, self.stream, kernel, buffers.iter().map(address).chain(args), launch)
    }

    /// Where the numbers of a launch are, once it begins. A copy in front of a launch takes the
    /// device some microseconds, so what was copied and not written over is not copied again.
    fn send(&mut self, shared: &Shared, bytes: &[u8]) -> Result<Address> {
        if let Some(&at) = self.sent.get(bytes) {
            return Ok(at);
        }
        let at = self.place(shared, bytes.len())?;
        self.up(shared, at, bytes)?;
        self.sent.insert(bytes.into(), at);
        Ok(at)
    }

    /// Device memory for the numbers of a launch. It is used again without waiting: what comes
    /// later in the stream writes it later.
    fn place(&mut self, shared: &Shared, bytes: usize) -> Result<Address> {
        let (at, capacity, used) = match self.args {
            Some(n) if n.1 >= bytes => n,
            other => {
                let capacity = bytes.next_power_of_two().max(ARGS_BYTES);
                let at = memory::allocate(shared, self.stream, capacity as u64)?;
                if let Some((old, ..)) = other {
                    memory::free_in(shared, self.stream, old);
                }
                (at, capacity, 0)
            }
        };
        let from = used.next_multiple_of(16);
        let from = if from + bytes > capacity { 0 } else { from };
        if from == 0 {
            self.sent.clear();
        }
        self.args = Some((at, capacity, from + bytes));
        Ok(at + from as u64)
    }

    /// Copies bytes to the device, through memory that both reach.
    fn up(&mut self, shared: &Shared, mut to: Address, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(SLOT_BYTES) {
            let from = self.up.put(shared, self.stream, part)?;
            // SAFETY: the bytes stay as they are until the device has them (see `Ring`); the target
            // has as many.
            let given = unsafe { (shared.api.table.copy_up)(to, from.cast(), part.len(), self.stream) };
            shared.api.check(given, || format!("writing {} bytes", bytes.len()))?;
            to += part.len() as u64;
        }
        Ok(())
    }
    /// Writes bytes to memory.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn write<D: Streams>(&mut self, shared: &Shared, to: Slice<'_, D>, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= to.len, "what is written fits");
        shared.enter()?;
        self.up(shared, to.memory.at + to.offset, bytes)
    }
    /// Gives a product to this stream, or to one that is captured for it; `false` if there is no
    /// library for it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn multiply<D: Streams>(
        &mut self,
        shared: &Shared,
        captured: Option<Handle>,
        product: &VendorGemm,
        operands: &[Slice<'_, D>; 3],
    ) -> Result<bool> {
        shared.enter()?;
        if self.blas.is_none() {
            self.blas = Some(BlasLt::new(shared, self.stream)?);
        }
        let operands = operands.each_ref().map(address);
        match self.blas.as_mut().and_then(Option::as_mut) {
            Some(blas) => blas.multiply(captured.unwrap_or(self.stream), product, operands),
            None => Ok(false),
        }
    }
    /// Copies as many bytes as the target has.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn copy<D: Streams>(&mut self, shared: &Shared, from: Slice<'_, D>, to: Slice<'_, D>) -> Result<()> {
        assert!(to.len <= from.len, "what is copied is there");
        shared.enter()?;
        let (a, b) = (from.memory.at + from.offset, to.memory.at + to.offset);
        // SAFETY: both ranges are in their memory, which is given back in the stream's order.
        let given = unsafe { (shared.api.table.copy_across)(b, a, to.len as usize, self.stream) };
        shared.api.check(given, || format!("copying {} bytes", to.len))
    }
    /// Begins to copy at most a slot's bytes to the host. Gives where they will be, behind its
    /// mark.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn fetch(&mut self, shared: &Shared, from: Address, bytes: usize) -> Result<Pinned> {
        let pinned = match self.down.pop() {
            Some(pinned) => pinned,
            None => Pinned::new(shared, SLOT_BYTES)?,
        };
        debug_assert!(bytes <= pinned.bytes());
        // SAFETY: both have as many bytes, and the host's are not looked at before the mark.
        let given =
            unsafe { (shared.api.table.copy_down)(pinned.address(0).cast(), from, bytes, self.stream) };
        let given = (shared.api.check(given, || format!("reading {bytes} bytes")))
            .and_then(|()| pinned.mark(shared, self.stream));
        match given {
            Ok(()) => Ok(pinned),
            Err(e) => {
                // The copy may be under way. Where the device is lost, waiting fails at once.
                let _ = shared.wait(self.stream);
                pinned.destroy(shared);
                Err(e)
            }
        }
    }
    fn capture(&mut self, shared: &Shared, pinned: Pinned) {
        if self.down.len() < MAX_KEPT {
            self.down.push(pinned);
        } else {
            pinned.destroy(shared);
        }
    }
    /// Destroys everything. The stream has nothing to do.
    pub fn destroy(self, shared: &Shared) {
        self.up.destroy(shared);
        self.down.into_iter().for_each(|p| p.destroy(shared));
        if let Some((at, ..)) = self.args {
            memory::free_in(shared, self.stream, at);
        }
        if let Some(blas) = self.blas.flatten() {
            blas.destroy(shared);
        }
    }
}

impl Stream {
    /// Copies from another device's memory to this one's, behind what its stream was given; what
    /// that is given later comes behind the copy. `false` if the driver cannot do that.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn receive<D: Streams>(
        &self,
        shared: &Arc<Shared>,
        (other, other_stream): (&Arc<Shared>, &Stream),
        from: Slice<'_, D>,
        to: Slice<'_, D>,
    ) -> Result<bool> {
        assert!(to.len <= from.len, "what is copied is there");
        let t = &shared.api.table;
        let (Some(_), Some(copy)) = (t.await_event, t.copy_between) else { return Ok(false) };
        let (n, m) = (shared.physical.raw, other.physical.raw);
        let behind = |device: &Shared, stream: &Stream, event: &Event| -> Result<()> {
            let _queue = stream.queue();
            event.precedes(device, stream.raw)
        };
        // Everything that computes the numbers is before this event.
        behind(shared, self, &Event::untimed(other, other_stream.raw)?)?;
        let (a, b) = (from.memory.at + from.offset, to.memory.at + to.offset);
        {
            let _queue = self.queue();
            shared.enter()?;
            // SAFETY: both ranges are in their memory. The target is given back behind this stream,
            // and the source behind the other one, which waits for this below.
            let given = unsafe {
                match copy {
                    CopyBetween::Contexts(f) => {
                        f(b, shared.context(), a, other.context(), to.len as usize, self.raw)
                    }
                    CopyBetween::Numbers(f) => f(b, n, a, m, to.len as usize, self.raw),
                }
            };
            shared.api.check(given, || format!("copying {} bytes from another device", to.len))?;
        }
        behind(other, other_stream, &Event::untimed(shared, self.raw)?)?;
        Ok(true)
    }
    /// Has `work` give work to it, which knows where these parts are.
    ///
    /// # Errors
    /// Those of `work`; `DeviceLost`.
    pub fn lend<D: Streams>(
        &self,
        shared: &Shared,
        driver: &'static str,
        parts: &[Slice<'_, D>],
        work: NativeWork<'_>,
    ) -> Result<()> {
        let addresses: Vec<Address> = parts.iter().map(address).collect();
        let _queue = self.queue();
        shared.enter()?;
        let is_shareable = !shared.pools();
        work(NativeQueue { driver, stream: self.raw.addr(), addresses: &addresses, is_shareable })
    }
    /// Brings memory to the host, after everything that was given to the stream; waits for it.
    /// While a piece is looked at, the next one is on its way.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn read<D: Streams>(&self, shared: &Shared, from: Slice<'_, D>, bytes: &mut [u8]) -> Result<()> {
        assert!(bytes.len() as u64 <= from.len, "what is read is there");
        shared.enter()?;
        let at = from.memory.at + from.offset;
        let (mut before, mut offset) = (None, 0);
        for part in bytes.chunks_mut(SLOT_BYTES) {
            // Others may give work to the stream meanwhile, but none that writes here: the caller
            // has the memory.
            let next = self.queue().fetch(shared, at + offset, part.len());
            offset += part.len() as u64;
            if let Some((pinned, part)) = before.take() {
                self.arrived(shared, pinned, part)?;
            }
            before = Some((next?, part));
        }
        before.map_or(Ok(()), |(pinned, part)| self.arrived(shared, pinned, part))
    }
    fn arrived(&self, shared: &Shared, pinned: Pinned, part: &mut [u8]) -> Result<()> {
        let waited = pinned.wait(shared);
        if waited.is_ok() {
            pinned.read(part);
        }
        self.queue().capture(shared, pinned);
        waited
    }
}
