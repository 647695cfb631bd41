//! Elementwise fusion: maps are deferred, so that a chain of them is one kernel (lazy evaluation).
//!
//! The result of a map is not computed at once: its buffer keeps the formula and the operands. A
//! map of such a buffer is deferred too; anything else that reads a buffer has it computed first.
//! Then the formulas that it needs run one after the other on an element while it is in registers.
//! An intermediate result is stored only if a tensor still holds it, so nothing is computed twice.
//! Each formula rounds as it always does: only the number of launches, and of passes over memory,
//! changes.
//!
//! A map of few elements that one other map broadcasts (as the scale of a norm's channels) is
//! recomputed by that one wherever it is read: some more instructions, hidden behind memory
//! latency, and one launch less.

use crate::allocator::PieceRange;
use crate::buffer::{GpuBuffer, Node};
use crate::capture::CaptureId;
use crate::device::GpuDevice;
use crate::queues::Queue;
use elinvar_core::profile::{self, Call};
use elinvar_core::{DType, Float8, Layout, Result, Shape};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::elementwise::map;
use elinvar_gpu_kernels::elementwise::plan as fusion_plan;
use elinvar_gpu_kernels::formula::{ChainInput, ChainStep, Compute, Formula, MapChain};
use elinvar_ops::View;
use elinvar_ops::map::Out;
use smallvec::SmallVec;
use std::sync::Arc;

/// A formula that can wait.
pub(crate) type SharedFormula = Arc<dyn Formula + Send + Sync>;

/// How numbers will be computed.
pub(crate) struct DeferredMap<D: Driver> {
    device: GpuDevice<D>,
    formula: SharedFormula,
    operands: SmallVec<[(Arc<Node<D>>, Layout); 3]>,
    dtype: DType,
    /// Maps in it and in what it reads, by their weight; what is read twice counts twice.
    maps: usize,
    /// What its kernel would read: nodes, by address, and how.
    outside: KernelInputs,
    /// The recorded work that it is part of.
    recording: Option<CaptureId>,
    /// The queue that will compute it; `None`: the first.
    queue: Option<Arc<Queue<D>>>,
    /// The call that asked for it, if a profile is recorded.
    call: Call,
}

type KernelInputs = SmallVec<[(usize, Layout); 4]>;

/// Adds what is not there yet.
fn join(all: &mut KernelInputs, more: &[(usize, Layout)]) {
    for read in more {
        if !all.contains(read) {
            all.push(read.clone());
        }
    }
}

impl<D: Driver> DeferredMap<D> {
    pub(crate) fn device(&self) -> &GpuDevice<D> {
        &self.device
    }
    /// The recorded work that it is part of.
    pub(crate) fn recording(&self) -> Option<&CaptureId> {
        self.recording.as_ref()
    }
    /// The queue that will compute it.
    pub(crate) fn queue(&self) -> Option<&Arc<Queue<D>>> {
        self.queue.as_ref()
    }
    fn layout(&self) -> &Layout {
        &self.operands[0].1
    }
    /// Are its numbers few, and can a plan of many elements that reads its result in this way
    /// compute them; or has the view another shape alone? Then it says which axis of them goes
    /// along with each axis of the view.
    fn broadcasts(&self, node: &Node<D>, layout: &Layout, dtype: DType) -> Option<BroadcastMap> {
        let (many, few) = (layout.shape().numel(), node.len);
        let alike = self.is_alike(dtype);
        let once = many == few && layout.is_contiguous();
        let often = fusion_plan::is_worth_recomputing(few, many);
        if !alike || !(once || often) || layout.offset() != 0 {
            return None;
        }
        // Its result is in row-major order.
        let whole = Layout::contiguous(self.layout().shape().clone());
        let axis = |(&n, &stride): (&usize, &isize)| {
            if n == 1 || stride == 0 {
                return Some(None);
            }
            let same = |&b: &usize| whole.shape()[b] == n && whole.strides()[b] == stride;
            (0..whole.rank()).find(same).map(Some)
        };
        let axes: Option<SmallVec<[Option<usize>; 4]>> =
            layout.shape().iter().zip(layout.strides()).map(axis).collect();
        Some(BroadcastMap { shape: layout.shape().clone(), axes: axes? })
    }
    /// Can it run in one kernel with a plan that reads its result in this way?
    fn joins(&self, node: &Node<D>, layout: &Layout, dtype: DType) -> bool {
        node.is_whole(layout) && layout.shape() == self.layout().shape() && self.is_alike(dtype)
    }
    /// Is it computed as such numbers are, and are its results theirs? Those of a storage float of
    /// one byte are rounded in memory: kernels round to f16 and bf16 alone on the way.
    fn is_alike(&self, dtype: DType) -> bool {
        Compute::from(self.dtype) == Compute::from(dtype) && Float8::of(self.dtype).is_none()
    }
}

/// How few numbers are read for many elements.
struct BroadcastMap {
    /// Of the elements.
    shape: Shape,
    /// The axis of the numbers that goes along with each of its axes; none where all have the same.
    axes: SmallVec<[Option<usize>; 4]>,
}

impl BroadcastMap {
    /// How an operand of the few numbers is read for the many elements; it has a node of so many.
    fn of(&self, l: &Layout, len: usize) -> Result<Layout> {
        let strides: SmallVec<[isize; 4]> =
            self.axes.iter().map(|axis| axis.map_or(0, |axis| l.strides()[axis])).collect();
        Layout::strided(self.shape.clone(), &strides, l.offset(), len)
    }
}

/// The buffer of a map's result.
///
/// # Errors
/// Those of computing an operand that cannot be part of the same kernel.
#[inline(never)]
pub(crate) fn defer<D: Driver>(
    d: &GpuDevice<D>,
    formula: SharedFormula,
    x: &[View<'_, crate::Gpu<D>>],
    dtype: DType,
) -> Result<GpuBuffer<D>> {
    let len = x[0].shape().numel();
    let to = match formula.out() {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    };
    if len == 0 {
        return GpuBuffer::uninit(d, to, 0);
    }
    let machine = d.machine()?;
    let (most, operands) = (fusion_plan::MAX_FUSED_MAPS, fusion_plan::max_operands(&machine));
    let broadcasts = fusion_plan::recomputes_broadcasts(&machine);
    let (mut maps, mut outside) = (fusion_plan::weight(&machine, formula.is_light()), KernelInputs::new());
    for v in x {
        let node = &v.buffer.node;
        // What was put off before a recording is no part of it.
        if node.plan().is_some_and(|plan| !d.is_recorded(plan.recording())) {
            node.piece()?;
        }
        if let Some(plan) = node.plan() {
            let mut with = outside.clone();
            join(&mut with, &plan.outside);
            // The other operands may be one more each.
            let fits = plan.joins(node, v.layout, dtype)
                || broadcasts && plan.broadcasts(node, v.layout, dtype).is_some();
            if fits && maps + plan.maps <= most && with.len() + x.len() - 1 <= operands {
                (maps, outside) = (maps + plan.maps, with);
                continue;
            }
            node.piece()?;
        }
        join(&mut outside, &[(Arc::as_ptr(node).addr(), v.layout.clone())]);
    }
    let operands = x.iter().map(|v| (v.buffer.node.clone(), v.layout.clone())).collect();
    let plan = DeferredMap {
        device: d.clone(),
        formula,
        operands,
        dtype,
        maps,
        outside,
        recording: d.recording(),
        queue: d.scope(),
        call: profile::current(),
    };
    Ok(GpuBuffer::defer(to, len, plan))
}

/// The formulas of a kernel, each after those that it reads.
struct FusionBuilder<D: Driver> {
    /// May few numbers be computed by who reads them?
    broadcasts: bool,
    plans: Vec<Arc<DeferredMap<D>>>,
    nodes: Vec<Arc<Node<D>>>,
    operands: Vec<Vec<ChainInput>>,
    /// How often each is read by later ones.
    reads: Vec<usize>,
    outside: Vec<(Arc<Node<D>>, Layout)>,
}

impl<D: Driver> FusionBuilder<D> {
    /// Adds what the plan needs, then itself; gives its number. `broadcast`: the plan is of few
    /// numbers, which are read so.
    fn add(
        &mut self,
        plan: &Arc<DeferredMap<D>>,
        node: &Arc<Node<D>>,
        broadcast: Option<&BroadcastMap>,
    ) -> Result<usize> {
        let mut operands = Vec::with_capacity(plan.operands.len());
        for (inner, layout) in &plan.operands {
            // Only the deferred map holds it, and it is never stored.
            let alone = Arc::strong_count(inner) == 1;
            operands.push(match inner.plan() {
                Some(p) if p.joins(inner, layout, plan.dtype) && (alone || broadcast.is_none()) => {
                    ChainInput::Step(self.step(&p, inner, broadcast)?)
                }
                p => {
                    let few = p.filter(|_| self.broadcasts && alone && broadcast.is_none());
                    let few = few.and_then(|p| Some((p.broadcasts(inner, layout, plan.dtype)?, p)));
                    match (few, broadcast) {
                        (Some((broadcast, p)), _) => {
                            ChainInput::Step(self.step(&p, inner, Some(&broadcast))?)
                        }
                        (None, None) => ChainInput::Operand(self.outside(inner, layout)),
                        (None, Some(broadcast)) => {
                            let layout = broadcast.of(layout, inner.len)?;
                            ChainInput::Operand(self.outside(inner, &layout))
                        }
                    }
                }
            });
        }
        self.plans.push(plan.clone());
        self.nodes.push(node.clone());
        self.operands.push(operands);
        self.reads.push(0);
        Ok(self.plans.len() - 1)
    }
    fn step(
        &mut self,
        plan: &Arc<DeferredMap<D>>,
        node: &Arc<Node<D>>,
        broadcast: Option<&BroadcastMap>,
    ) -> Result<usize> {
        let number = match self.nodes.iter().position(|n| Arc::ptr_eq(n, node)) {
            Some(number) => number,
            None => self.add(plan, node, broadcast)?,
        };
        self.reads[number] += 1;
        Ok(number)
    }
    fn outside(&mut self, node: &Arc<Node<D>>, layout: &Layout) -> usize {
        let same = |(n, l): &(Arc<Node<D>>, Layout)| Arc::ptr_eq(n, node) && l == layout;
        self.outside.iter().position(same).unwrap_or_else(|| {
            self.outside.push((node.clone(), layout.clone()));
            self.outside.len() - 1
        })
    }
}

/// Computes what a plan describes, and the intermediate results that other tensors hold.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`, `Unsupported`; then everything is as it was.
#[inline(never)]
pub(crate) fn compute<D: Driver>(node: &Arc<Node<D>>, plan: &Arc<DeferredMap<D>>) -> Result<()> {
    let _running = profile::deferred(&plan.device, plan.call);
    let mut steps = FusionBuilder {
        broadcasts: fusion_plan::recomputes_broadcasts(&plan.device.machine()?),
        plans: Vec::new(),
        nodes: Vec::new(),
        operands: Vec::new(),
        reads: Vec::new(),
        outside: Vec::new(),
    };
    let last = steps.add(plan, node, None)?;
    // A node is held by the plans that read it, by its step, and by the tensors that want its
    // elements.
    let shared = |i: usize| Arc::strong_count(&steps.nodes[i]) > steps.reads[i] + 1;
    let keeps: Vec<usize> = [last].into_iter().chain((0..last).filter(|&i| shared(i))).collect();

    let d = &plan.device;
    if last > 0 && !fusion_plan::fits(&d.machine()?, steps.outside.len(), keeps.len()) {
        // One after the other.
        for (inner, _) in &plan.operands {
            inner.piece()?;
        }
        return compute(node, plan);
    }
    let pieces = keeps
        .iter()
        .map(|&i| d.take(steps.nodes[i].bytes() as usize).map(Arc::new))
        .collect::<Result<Vec<_>>>()?;
    let mut buffers: Vec<PieceRange<'_, D>> = Vec::new();
    for (node, _) in &steps.outside {
        buffers.push(node.part()?);
    }
    buffers
        .extend(keeps.iter().zip(&pieces).map(|(&i, piece)| PieceRange::new(piece, steps.nodes[i].bytes())));
    let operands: Vec<(&Layout, DType)> = steps.outside.iter().map(|(n, l)| (l, n.dtype)).collect();
    let chain = MapChain {
        steps: (steps.plans.iter().zip(&steps.operands))
            .map(|(p, operands)| ChainStep {
                formula: &*p.formula,
                operands: operands.clone(),
                dtype: p.dtype,
            })
            .collect(),
        compute: plan.dtype.into(),
        keeps: keeps.clone(),
    };
    let is_light = steps.plans.iter().all(|p| p.formula.is_light());
    let choice = fusion_plan::kernel(&d.machine()?, chain.compute, is_light);
    let work = map::work(&chain, &chain.outs(), &operands, choice);
    d.run(&work.expect("a plan has elements"), &buffers)?;
    for (&i, piece) in keeps.iter().zip(pieces) {
        if i == last {
            drop(node.piece.set(piece));
        } else {
            steps.nodes[i].computed(piece);
        }
    }
    Ok(())
}
