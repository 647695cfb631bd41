//! The buffer of a CPU tensor: elements in memory, or a deferred computation that runs when they
//! are read.

use super::fusion::FusionPlan;
use super::gather::DeferredGather;
use super::plan::NODE_MIN_ELEMENTS;
use crate::CpuDevice;
use crate::gemm::{MatrixPlace, PrepackedB, UseCounter};
use crate::runtime::memory::{self, PooledData};
use elinvar_core::profile::{self, Call};
use elinvar_core::{DType, Element, HostData, HostVec, Layout, Result};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Memory of the CPU backend.
pub struct CpuBuffer(BufferKind);

enum BufferKind {
    /// A few numbers, which are always there.
    Small(PooledData),
    /// Many, which may be put off, and which what is put off refers to.
    Large(Arc<Node>),
}

impl CpuBuffer {
    #[inline]
    pub(crate) fn new(data: HostData) -> CpuBuffer {
        CpuBuffer(if data.len() < NODE_MIN_ELEMENTS {
            BufferKind::Small(PooledData::new(data))
        } else {
            BufferKind::Large(Arc::new(Node::ready(data)))
        })
    }
    /// The same of elements that may be a few: they are written to where the buffer goes, and
    /// nowhere before. What is written word by word and then moved in larger pieces waits for its
    /// stores.
    #[inline(always)]
    pub(crate) fn of_few<T: Element>(v: HostVec<T>) -> CpuBuffer {
        if v.len() < NODE_MIN_ELEMENTS {
            CpuBuffer(BufferKind::Small(PooledData::of(v)))
        } else {
            CpuBuffer::new(T::wrap(v))
        }
    }
    /// Numbers that are computed when they are read.
    pub(crate) fn defer(plan: FusionPlan) -> CpuBuffer {
        CpuBuffer(BufferKind::Large(Arc::new(Node::defer(plan))))
    }
    /// Numbers that are picked when they are read.
    pub(crate) fn picked(picked: DeferredGather) -> CpuBuffer {
        CpuBuffer(BufferKind::Large(Arc::new(Node::waiting(
            picked.len(),
            DeferredWork::Picks(Arc::new(picked)),
        ))))
    }
    /// Numbers of any type that are computed when they are read.
    pub(crate) fn deferred(
        len: usize,
        f: impl Fn() -> Result<HostData> + Send + Sync + 'static,
    ) -> CpuBuffer {
        CpuBuffer(BufferKind::Large(Arc::new(Node::waiting(len, DeferredWork::Other(Arc::new(f))))))
    }
    /// The numbers; they are computed now if they were put off.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn data(&self) -> Result<&HostData> {
        match &self.0 {
            BufferKind::Small(pooled) => Ok(pooled.data()),
            BufferKind::Large(node) => node.data(),
        }
    }
    /// The numbers, to be changed. What is put off and would read them keeps a copy of the old
    /// ones.
    ///
    /// # Errors
    /// `OutOfMemory`; those of computing numbers that were put off.
    pub(crate) fn data_mut(&mut self) -> Result<&mut HostData> {
        match &mut self.0 {
            BufferKind::Small(pooled) => Ok(pooled.data_mut()),
            BufferKind::Large(node) => {
                let old = node.data()?;
                if Arc::strong_count(node) > 1 {
                    *node = Arc::new(Node::ready(memory::copy(old)?));
                }
                Ok(Arc::get_mut(node).expect("no other handle has it").get_mut())
            }
        }
    }
    /// Keeps a copy for products; says whether there is one of a matrix of this layout. A few
    /// numbers are not worth one, and the first one is the only one.
    ///
    /// # Errors
    /// `OutOfMemory`; those of computing numbers that were put off.
    pub(crate) fn prepack(&self, d: &CpuDevice, place: MatrixPlace) -> Result<bool> {
        let BufferKind::Large(node) = &self.0 else { return Ok(false) };
        if node.prepacked.get().is_none()
            && let Some(copy) = PrepackedB::new(d, node.data()?, place)?
        {
            // If another thread was faster, its copy is as good.
            drop(node.prepacked.set(Box::new(copy)));
        }
        Ok(node.prepacked.get().is_some_and(|p| p.is_of(d.isa(), place)))
    }
    /// The copy for products, if there is one, which may be of another matrix in this memory. One
    /// of a matrix of this layout is made if products ask for it often; this one counts for so many
    /// uses, or none.
    ///
    /// # Errors
    /// Those of computing numbers that were put off.
    pub(crate) fn prepacked(
        &self,
        d: &CpuDevice,
        uses: u32,
        place: MatrixPlace,
    ) -> Result<Option<&PrepackedB>> {
        let BufferKind::Large(node) = &self.0 else { return Ok(None) };
        if uses > 0
            && node.prepacked.get().is_none()
            && let Some(copy) = node.uses.count(d, uses, node.data()?, place)
        {
            // If another thread was faster, its copy is as good.
            drop(node.prepacked.set(Box::new(copy)));
        }
        Ok(node.prepacked.get().map(Box::as_ref))
    }
    /// The numbers if they are few, else what others can hold.
    pub(crate) fn node(&self) -> std::result::Result<&Arc<Node>, &HostData> {
        match &self.0 {
            BufferKind::Small(pooled) => Err(pooled.data()),
            BufferKind::Large(node) => Ok(node),
        }
    }
    fn dtype_and_len(&self) -> (DType, usize) {
        match &self.0 {
            BufferKind::Small(pooled) => (pooled.data().dtype(), pooled.data().len()),
            BufferKind::Large(node) => match node.get() {
                Some(data) => (data.dtype(), data.len()),
                // What is put off alone is not asked for its type.
                None => (DType::F32, node.len()),
            },
        }
    }
}

impl From<HostData> for CpuBuffer {
    fn from(data: HostData) -> CpuBuffer {
        CpuBuffer::new(data)
    }
}

impl fmt::Debug for CpuBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, len) = self.dtype_and_len();
        write!(f, "CpuBuffer({len} x {dtype})")
    }
}

/// How numbers will be computed.
#[derive(Clone)]
enum DeferredWork {
    /// By maps, in one pass with others.
    Maps(Arc<FusionPlan>),
    /// By picking from others, which maps may do on their way.
    Picks(Arc<DeferredGather>),
    /// Alone.
    Other(Arc<dyn Fn() -> Result<HostData> + Send + Sync>),
}

/// Numbers that several can hold. It is small: an op of a thousand numbers makes one.
pub(crate) struct Node {
    numbers: NodeData,
    /// The same numbers in the order in which products read them, if that was asked for, or is
    /// worth it.
    prepacked: OnceLock<Box<PrepackedB>>,
    /// Whether it is.
    uses: UseCounter,
}

enum NodeData {
    /// There from the first.
    Ready(PooledData),
    /// Put off, at least at first.
    Deferred(Box<DeferredData>),
}

/// Numbers that will be read, or have been.
struct DeferredData {
    /// How many.
    len: usize,
    data: OnceLock<PooledData>,
    /// How they are computed; None when they are there.
    work: Mutex<Option<DeferredWork>>,
    /// The call that asked for them, if a profile is recorded.
    call: Call,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is replaced whole: a panic leaves it as it was.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeferredData {
    /// Here are the numbers. If another thread was faster, its are the same.
    fn set(&self, data: HostData) {
        // The memory of the numbers that are there already goes back to the cache.
        drop(self.data.set(PooledData::new(data)));
        let done = lock(&self.work).take();
        // Outside of the lock: this may be the last that holds other nodes.
        drop(done);
    }
    /// Two threads that ask at once may both compute them: no lock is held meanwhile, for a thread
    /// of a caller's own pool takes up other tasks while it waits for ours, and one of these may
    /// ask for the same numbers.
    #[cold]
    fn compute(&self) -> Result<()> {
        let work = lock(&self.work).clone();
        let _running = profile::deferred(&"cpu", self.call);
        match work {
            Some(DeferredWork::Maps(plan)) => self.set(plan.compute()?),
            Some(DeferredWork::Picks(picked)) => self.set(picked.compute()?),
            Some(DeferredWork::Other(compute)) => self.set(compute()?),
            // Another thread has just been faster.
            None => {}
        }
        Ok(())
    }
}

impl Node {
    fn of(numbers: NodeData) -> Node {
        Node { numbers, prepacked: OnceLock::new(), uses: UseCounter::default() }
    }
    fn ready(data: HostData) -> Node {
        Node::of(NodeData::Ready(PooledData::new(data)))
    }
    fn defer(plan: FusionPlan) -> Node {
        Node::waiting(plan.len(), DeferredWork::Maps(Arc::new(plan)))
    }
    fn waiting(len: usize, work: DeferredWork) -> Node {
        Node::of(NodeData::Deferred(Box::new(DeferredData {
            len,
            data: OnceLock::new(),
            work: Mutex::new(Some(work)),
            call: profile::current(),
        })))
    }
    /// How many numbers.
    fn len(&self) -> usize {
        match &self.numbers {
            NodeData::Ready(pooled) => pooled.data().len(),
            NodeData::Deferred(deferred) => deferred.len,
        }
    }
    /// The maps by which the numbers will be computed, if they are not there.
    pub(crate) fn plan(&self) -> Option<Arc<FusionPlan>> {
        let NodeData::Deferred(deferred) = &self.numbers else { return None };
        match &*lock(&deferred.work) {
            Some(DeferredWork::Maps(plan)) => Some(plan.clone()),
            Some(DeferredWork::Picks(_) | DeferredWork::Other(_)) | None => None,
        }
    }
    /// From where the numbers will be picked, if they are not there.
    pub(crate) fn picked(&self) -> Option<Arc<DeferredGather>> {
        let NodeData::Deferred(deferred) = &self.numbers else { return None };
        match &*lock(&deferred.work) {
            Some(DeferredWork::Picks(picked)) => Some(picked.clone()),
            Some(DeferredWork::Maps(_) | DeferredWork::Other(_)) | None => None,
        }
    }
    /// Is that layout all the numbers, one after the other?
    pub(crate) fn is_whole(&self, layout: &Layout) -> bool {
        layout.is_contiguous() && layout.offset() == 0 && layout.shape().numel() == self.len()
    }
    /// The numbers if they are there.
    #[inline]
    pub(crate) fn get(&self) -> Option<&HostData> {
        match &self.numbers {
            NodeData::Ready(pooled) => Some(pooled.data()),
            NodeData::Deferred(deferred) => deferred.data.get().map(PooledData::data),
        }
    }
    /// Here are the numbers that were put off.
    pub(crate) fn set(&self, data: HostData) {
        match &self.numbers {
            // They are the same.
            NodeData::Ready(_) => {}
            NodeData::Deferred(deferred) => deferred.set(data),
        }
    }
    /// The numbers; they are computed now if they were put off.
    #[inline]
    pub(crate) fn data(&self) -> Result<&HostData> {
        if let NodeData::Deferred(deferred) = &self.numbers
            && deferred.data.get().is_none()
        {
            deferred.compute()?;
        }
        Ok(self.get().expect("numbers without a plan are there"))
    }
    /// The numbers that are there, to be changed.
    fn get_mut(&mut self) -> &mut HostData {
        drop(self.prepacked.take());
        self.uses.forget();
        match &mut self.numbers {
            NodeData::Ready(pooled) => pooled.data_mut(),
            NodeData::Deferred(deferred) => {
                deferred.data.get_mut().expect("numbers that were read are there").data_mut()
            }
        }
    }
}
