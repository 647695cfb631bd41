//! Capture: work that is recorded once and replayed without the program that asked for it (CUDA
//! graphs, where the driver has them).
//!
//! While a thread records, what it would give to the device goes to a list. Memory that it
//! allocates comes from an arena of its own ([`CaptureArena`]), so that the list's addresses stay
//! reserved as long as the list may be replayed; memory that was there before is kept alive. What
//! the recording needs only once, and now (a cached scalar, bytes from the host, maps that were
//! deferred earlier), is done at once, [unrecorded](GpuDevice::unrecorded).

use crate::allocator::{BlockOffset, CaptureArena, Piece, PieceRange};
use crate::buffer::GpuBuffer;
use crate::device::{GpuDevice, OpenDevice};
use crate::timeline::Timed;
use elinvar_core::profile::Kind;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_driver::{Call, CallGraph, Driver, VendorGemm};
use elinvar_kernel::interp::Launch;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// What belongs to a recording holds one of these.
#[derive(Clone, Debug)]
pub(crate) struct CaptureId(Arc<()>);

impl CaptureId {
    pub(crate) fn is(&self, other: &CaptureId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What the current thread records.
pub(crate) struct Recording<D: Driver> {
    device: Arc<OpenDevice<D>>,
    pub(crate) id: CaptureId,
    pub(crate) memory: Arc<CaptureArena<D>>,
    calls: Vec<RecordedCall<D>>,
    /// Memory that was there before, and is it written?
    before: Vec<(Arc<Piece<D>>, bool)>,
    known: HashMap<*const Piece<D>, usize>,
}

thread_local! {
    static RECORDING: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Puts back what a thread recorded, also when a function panics.
struct RestoreOnDrop(Option<Box<dyn Any>>);

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        RECORDING.set(self.0.take());
    }
}

/// Runs `f` on what this thread records on a device; `None` if it records nothing there.
pub(crate) fn with<D: Driver, T>(
    device: &Arc<OpenDevice<D>>,
    f: impl FnOnce(&mut Recording<D>) -> T,
) -> Option<T> {
    RECORDING.with_borrow_mut(|r| {
        let recording = r.as_mut()?.downcast_mut::<Recording<D>>()?;
        Arc::ptr_eq(&recording.device, device).then(|| f(recording))
    })
}

/// Runs `f` as if this thread recorded nothing.
pub(crate) fn unrecorded<T>(f: impl FnOnce() -> T) -> T {
    let _back = RestoreOnDrop(RECORDING.take());
    f()
}

impl<D: Driver> Recording<D> {
    fn place(&mut self, part: &PieceRange<'_, D>, writes: bool) -> (BlockOffset<D>, u64) {
        if !part.piece.is_of(&self.memory) {
            let known = *self.known.entry(Arc::as_ptr(part.piece)).or_insert(self.before.len());
            match self.before.get_mut(known) {
                Some((_, written)) => *written |= writes,
                None => self.before.push((part.piece.clone(), writes)),
            }
        }
        part.place()
    }
    /// Buffers, each with whether it is written.
    pub(crate) fn launch<'b>(
        &mut self,
        module: Arc<D::Module>,
        buffers: impl Iterator<Item = (&'b PieceRange<'b, D>, &'b bool)>,
        launch: &Launch,
        args: Option<Vec<u8>>,
    ) {
        let buffers = buffers.map(|(b, &writes)| self.place(b, writes)).collect();
        self.calls.push(RecordedCall::Launch { module, buffers, launch: launch.clone(), args });
    }
    pub(crate) fn multiply(&mut self, product: VendorGemm, operands: [PieceRange<'_, D>; 3]) {
        let [x, w, y] = operands;
        let operands = [self.place(&x, false), self.place(&w, false), self.place(&y, true)];
        self.calls.push(RecordedCall::Multiply { product, operands });
    }
    pub(crate) fn copy(&mut self, from: &PieceRange<'_, D>, to: &PieceRange<'_, D>) {
        let (from, to) = (self.place(from, false), self.place(to, true));
        self.calls.push(RecordedCall::Copy { from, to });
    }
}

/// Something that was asked of the device.
enum RecordedCall<D: Driver> {
    Launch {
        module: Arc<D::Module>,
        buffers: Vec<(BlockOffset<D>, u64)>,
        launch: Launch,
        args: Option<Vec<u8>>,
    },
    Multiply {
        product: VendorGemm,
        operands: [(BlockOffset<D>, u64); 3],
    },
    Copy {
        from: (BlockOffset<D>, u64),
        to: (BlockOffset<D>, u64),
    },
}

impl<D: Driver> RecordedCall<D> {
    fn call(&self) -> Call<'_, D> {
        match self {
            RecordedCall::Launch { module, buffers, launch, args } => Call::Launch {
                module,
                buffers: buffers.iter().map(|(place, bytes)| place.slice(*bytes)).collect(),
                launch,
                args: args.as_deref(),
            },
            RecordedCall::Multiply { product, operands } => Call::Multiply {
                product: *product,
                operands: operands.each_ref().map(|(place, bytes)| place.slice(*bytes)),
            },
            RecordedCall::Copy { from, to } => {
                Call::Copy { from: from.0.slice(from.1), to: to.0.slice(to.1) }
            }
        }
    }
}

/// Work that can be done again, as one call of the driver if that can keep it.
pub struct Graph<D: Driver> {
    // The driver's goes first: it uses all the rest.
    kept: Option<D::Graph>,
    calls: Vec<RecordedCall<D>>,
    before: Vec<(Arc<Piece<D>>, bool)>,
    memory: Arc<CaptureArena<D>>,
    device: Arc<OpenDevice<D>>,
}

impl<D: Driver> Graph<D> {
    /// Records what `work` asks of the device.
    ///
    /// # Errors
    /// As `Capture::record`.
    pub(crate) fn record(
        d: &GpuDevice<D>,
        work: &mut dyn FnMut(&mut dyn FnMut(&GpuBuffer<D>) -> Result<()>) -> Result<()>,
    ) -> Result<Graph<D>> {
        let device = d.opened()?.clone();
        let (id, memory) = (CaptureId(Arc::new(())), CaptureArena::new());
        let recording = Recording {
            device: device.clone(),
            id: id.clone(),
            memory: memory.clone(),
            calls: Vec::new(),
            before: Vec::new(),
            known: HashMap::new(),
        };
        let mut results: Vec<Arc<Piece<D>>> = Vec::new();
        let recording = {
            let _back = RestoreOnDrop(RECORDING.replace(Some(Box::new(recording))));
            work(&mut |b: &GpuBuffer<D>| {
                results.push(b.node.piece()?.clone());
                Ok(())
            })?;
            RECORDING.take()
        };
        let recording = recording.and_then(|r| r.downcast::<Recording<D>>().ok());
        let Recording { calls, before, .. } = *recording.expect("it is taken out here alone");
        let make_unique: HashSet<*const Piece<D>> =
            results.iter().filter(|p| p.is_of(&memory)).map(Arc::as_ptr).collect();
        // What is put off holds `id`, as this function does.
        if memory.out() > make_unique.len() || Arc::strong_count(&id.0) > 1 {
            return Err(Error::argument(format!(
                "{}: a function that is recorded keeps a tensor that it computed; it should return it",
                D::NAME
            )));
        }
        let all: Vec<Call<'_, D>> = calls.iter().map(RecordedCall::call).collect();
        let current = device.current();
        let keep = || D::Graph::capture(current.driver(), &all);
        let kept = keep().or_else(|e| match e.kind() {
            // What the pool keeps for tensors may be what is missing.
            ErrorKind::OutOfMemory => {
                device.pool.release();
                current.driver().wait()?;
                keep()
            }
            _ => Err(e),
        })?;
        drop(current);
        Ok(Graph { kept, calls, before, memory, device })
    }
    /// Does it again, in this thread's queue.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`; `Unsupported` if the driver replays it in another queue alone.
    pub(crate) fn replay(&self) -> Result<()> {
        let before = self.before.iter().map(|(piece, writes)| (piece.uses(), *writes));
        let all = before.chain([(self.memory.uses(), true)]);
        self.device.give(all, |queue| match &self.kept {
            Some(kept) => {
                let what = || Timed {
                    kind: Kind::Kernel,
                    name: format!("graph of {} calls", self.calls.len()).into(),
                    bytes: 0,
                };
                self.device.timed(queue, what, &mut |driver| kept.replay(driver))
            }
            None => self.calls.iter().try_for_each(|c| self.device.submit(queue, &c.call())),
        })
    }
}

impl<D: Driver> fmt::Debug for Graph<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} calls)", self.calls.len())
    }
}
