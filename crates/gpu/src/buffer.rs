//! Buffers: what a tensor on a device holds, memory or a deferred map (lazy evaluation).

use crate::allocator::{Piece, PieceRange};
use crate::backend::GpuView;
use crate::device::GpuDevice;
use crate::fusion::{self, DeferredMap};
use elinvar_core::{DType, HostData, Layout, Result, match_storage};
use elinvar_driver::Driver;
use elinvar_ops::backend::Pool;
use half::slice::HalfFloatSliceExt;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Memory of a GPU backend.
pub struct GpuBuffer<D: Driver> {
    pub(crate) node: Arc<Node<D>>,
}

/// Numbers that several can hold. Either its memory is there, or its plan is.
pub(crate) struct Node<D: Driver> {
    pub(crate) dtype: DType,
    pub(crate) len: usize,
    /// The smallest and the largest number, if they are known without asking the device: of i64,
    /// which are indices.
    pub(crate) range: Option<[i64; 2]>,
    /// Of places that a pool's largest elements have: which pool's.
    pub(crate) max_pool_indices: Option<Box<MaxPoolIndices>>,
    pub(crate) piece: OnceLock<Arc<Piece<D>>>,
    plan: Mutex<Option<Arc<DeferredMap<D>>>>,
}

/// Where indices come from: the places of largest elements, in planes of these sizes. Who adds at
/// them knows so which windows can have named an element, and need not sort them.
pub(crate) struct MaxPoolIndices {
    pub(crate) pool: Pool,
    pub(crate) spatial: Vec<usize>,
}

impl MaxPoolIndices {
    /// Do indices name, along an axis, elements of such planes, all of a pool's results at once?
    pub(crate) fn fit<D: Driver>(&self, base: &GpuView<'_, D>, axis: usize, index: &GpuView<'_, D>) -> bool {
        let last = base.shape().rank() - 1;
        let results: usize = self.pool.axes.iter().map(|a| a.start.len()).product();
        axis == last
            && index.buffer.node.is_whole(index.layout)
            && base.shape()[..last] == index.shape()[..last]
            && base.shape()[last] == self.spatial.iter().product::<usize>()
            && index.shape()[last] == results
    }
}

impl<D: Driver> Node<D> {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<DeferredMap<D>>>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// How its numbers will be computed, unless they are there.
    pub(crate) fn plan(&self) -> Option<Arc<DeferredMap<D>>> {
        if self.piece.get().is_some() { None } else { self.lock().clone() }
    }
    /// Its memory; the numbers are computed now if they were put off.
    pub(crate) fn piece(self: &Arc<Self>) -> Result<&Arc<Piece<D>>> {
        if let Some(piece) = self.piece.get() {
            return Ok(piece);
        }
        let mut plan = self.lock();
        if let (None, Some(what)) = (self.piece.get(), plan.as_ref()) {
            let device = what.device();
            // What was put off before the work that is recorded now is not part of it.
            device.within(what.queue(), || {
                if device.is_recorded(what.recording()) {
                    fusion::compute(self, what)
                } else {
                    device.unrecorded(|| fusion::compute(self, what))
                }
            })?;
        }
        *plan = None;
        drop(plan);
        Ok(self.piece.get().expect("a node has its memory or a plan"))
    }
    /// The memory of numbers that were computed for another node's sake.
    pub(crate) fn computed(&self, piece: Arc<Piece<D>>) {
        // Another thread may have been faster, with the same bits.
        drop(self.piece.set(piece));
        // Who holds the lock is about to take the plan out himself.
        if let Ok(mut plan) = self.plan.try_lock() {
            *plan = None;
        }
    }
    pub(crate) fn bytes(&self) -> u64 {
        (self.len * self.dtype.size()) as u64
    }
    /// All of its memory that holds numbers.
    pub(crate) fn part(self: &Arc<Self>) -> Result<PieceRange<'_, D>> {
        let bytes = self.bytes();
        Ok(PieceRange::new(self.piece()?, bytes))
    }
    /// Does a view look at all of it, in its order?
    pub(crate) fn is_whole(&self, layout: &Layout) -> bool {
        layout.offset() == 0 && layout.is_contiguous() && layout.shape().numel() == self.len
    }
}

impl<D: Driver> GpuBuffer<D> {
    pub(crate) fn new(dtype: DType, len: usize, piece: Piece<D>) -> Self {
        Self::known(dtype, len, Arc::new(piece), None)
    }
    /// Numbers whose range is known.
    pub(crate) fn known(dtype: DType, len: usize, piece: Arc<Piece<D>>, range: Option<[i64; 2]>) -> Self {
        let piece = OnceLock::from(piece);
        let node = Node { dtype, len, range, max_pool_indices: None, piece, plan: Mutex::new(None) };
        GpuBuffer { node: Arc::new(node) }
    }
    pub(crate) fn defer(dtype: DType, len: usize, plan: DeferredMap<D>) -> Self {
        let plan = Mutex::new(Some(Arc::new(plan)));
        GpuBuffer {
            node: Arc::new(Node {
                dtype,
                len,
                range: None,
                max_pool_indices: None,
                piece: OnceLock::new(),
                plan,
            }),
        }
    }
    /// Memory for so many numbers, which nothing is said about.
    pub(crate) fn uninit(d: &GpuDevice<D>, dtype: DType, len: usize) -> Result<Self> {
        Ok(GpuBuffer::new(dtype, len, d.take(len * dtype.size())?))
    }
    pub(crate) fn part(&self) -> Result<PieceRange<'_, D>> {
        self.node.part()
    }
    /// The same memory once more.
    pub(crate) fn share(&self) -> Self {
        GpuBuffer { node: self.node.clone() }
    }
    /// The same numbers, of which it is known that they are between two.
    pub(crate) fn within(mut self, range: Option<[i64; 2]>) -> Self {
        if let Some(node) = Arc::get_mut(&mut self.node) {
            node.range = range;
        }
        self
    }
    /// The same numbers, which are a pool's winners.
    pub(crate) fn with_max_pool_indices(mut self, max_pool_indices: MaxPoolIndices) -> Self {
        if let Some(node) = Arc::get_mut(&mut self.node) {
            node.max_pool_indices = Some(Box::new(max_pool_indices));
        }
        self
    }
    /// Makes its memory unique, which is about to be changed: what is put off and would read it
    /// keeps a copy of the old numbers.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` if that would move numbers from before a recording to its
    /// memory.
    pub(crate) fn make_unique(&mut self, d: &GpuDevice<D>) -> Result<&Self> {
        let old = self.node.part()?;
        if Arc::strong_count(&self.node) > 1 {
            d.may_move(old.piece)?;
            let new = GpuBuffer::uninit(d, self.node.dtype, self.node.len)?;
            d.copy(old, new.part()?)?;
            *self = new;
        }
        Ok(self)
    }
    /// Drops what is known of its numbers, some of which are about to change. Its memory is unique.
    pub(crate) fn forget_values(&mut self) {
        let node = Arc::get_mut(&mut self.node).expect("it was made unique");
        (node.range, node.max_pool_indices) = (None, None);
    }
    /// Host memory, on the device.
    pub(crate) fn upload(d: &GpuDevice<D>, data: &HostData) -> Result<Self> {
        let codes;
        let bytes: &[u8] = match_storage!(HostData data;
            float8 v: T => {
                codes = v.iter().map(|x: &T| x.to_bits()).collect::<Vec<u8>>();
                &codes
            };
            HostData::F32(v) => bytemuck::cast_slice(v),
            HostData::F64(v) => bytemuck::cast_slice(v),
            HostData::F16(v) => bytemuck::cast_slice(v.reinterpret_cast()),
            HostData::BF16(v) => bytemuck::cast_slice(v.reinterpret_cast()),
            HostData::I64(v) => bytemuck::cast_slice(v),
            HostData::I32(v) => bytemuck::cast_slice(v),
            HostData::U8(v) => bytemuck::cast_slice(v),
            HostData::Bool(v) => bytemuck::cast_slice(v),
        );
        // Recorded work has it already when it is done again.
        let piece = d.unrecorded(|| -> Result<Arc<Piece<D>>> {
            let piece = Arc::new(d.take(bytes.len())?);
            if !bytes.is_empty() {
                d.write(PieceRange::new(&piece, bytes.len() as u64), bytes)?;
            }
            Ok(piece)
        })?;
        let range = match data {
            HostData::I64(v) => v.iter().min().zip(v.iter().max()).map(|(&a, &b)| [a, b]),
            _ => None,
        };
        Ok(GpuBuffer::known(data.dtype(), data.len(), piece, range))
    }
    /// The first numbers, in host memory.
    pub(crate) fn download(&self, d: &GpuDevice<D>, len: usize) -> Result<HostData> {
        let node = &self.node;
        d.may_wait()?;
        // No more than is asked for.
        let read = |bytes: &mut [u8]| d.read(node.part()?, bytes);
        let mut all = HostData::full(node.dtype, len, 0.into())?;
        if len == 0 {
            return Ok(all);
        }
        match_storage!(HostData &mut all;
            float8 v: T => {
                let mut codes = vec![0; len];
                read(&mut codes)?;
                v.iter_mut().zip(codes).for_each(|(v, code)| *v = T::from_bits(code));
            };
            HostData::F32(v) => read(bytemuck::cast_slice_mut(v))?,
            HostData::F64(v) => read(bytemuck::cast_slice_mut(v))?,
            HostData::F16(v) => read(bytemuck::cast_slice_mut(v.reinterpret_cast_mut()))?,
            HostData::BF16(v) => read(bytemuck::cast_slice_mut(v.reinterpret_cast_mut()))?,
            HostData::I64(v) => read(bytemuck::cast_slice_mut(v))?,
            HostData::I32(v) => read(bytemuck::cast_slice_mut(v))?,
            HostData::U8(v) => read(v)?,
            HostData::Bool(v) => {
                let mut bytes = vec![0; len];
                read(&mut bytes)?;
                v.iter_mut().zip(bytes).for_each(|(v, b)| *v = b != 0);
            }
        );
        debug_assert!(
            node.range.is_none_or(|range| is_within(&all, range)),
            "{all:?} is not in {:?}",
            node.range
        );
        Ok(all)
    }
}

impl<D: Driver> fmt::Debug for GpuBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuBuffer({} x {} on {})", self.node.len, self.node.dtype, D::NAME)
    }
}

/// Do all numbers lie in a range? Asked of i64 alone, as `IntRange` is.
fn is_within(all: &HostData, [low, high]: [i64; 2]) -> bool {
    match all {
        HostData::I64(v) => v.iter().all(|v| (low..=high).contains(v)),
        _ => true,
    }
}
