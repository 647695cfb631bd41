//! Lazy fusion of elementwise maps: several maps in a row take one pass over memory.
//!
//! A large f32 map is not computed at once: its buffer keeps the formula and the operands. A map of
//! such a buffer is deferred too; any other reader has it computed first. Then all formulas that
//! the result needs run one after the other on one block of elements, which stays in L1, then on
//! the next block. An intermediate result is written to memory only if another owner still holds
//! it. Each formula rounds as it always does, so only the time changes.
//!
//! How it can be wrong: by never computing a result (a `Node` has its elements or a plan, never
//! neither), or by keeping operands alive too long (a plan holds at most [`MAX_FUSED_MAPS`] maps,
//! and is dropped when its elements exist).

use super::buffer::{CpuBuffer, Node};
use super::plan::{MAX_FUSED_MAPS, PASS_BLOCK_ELEMENTS, PREFETCH_MIN_ELEMENTS, TWO_BLOCK_ELEMENTS};
use crate::elementwise::fill::{MAX_OPERANDS, fill};
use crate::elementwise::operand::{self, Operand, common_run};
use crate::layout::copy;
use crate::runtime::memory;
use crate::runtime::output::parallel_fill::{parallel_fill, parallel_fill_many};
use crate::{Cpu, CpuDevice};
use elinvar_core::{DType, Element, HostData, Layout, Result};
use elinvar_ops::backend;
use elinvar_simd::prefetch::prefetch_lines;
use elinvar_simd::uninit::{CacheBlock, UninitSlice};
use elinvar_simd::vector_loop::{OperandSlice, RowsShape};
use smallvec::SmallVec;
use std::sync::Arc;

/// A formula: fills the room with the results.
pub(crate) type FusedFormula = dyn Fn(&[OperandSlice<'_, f32>], &mut UninitSlice<'_, f32>) + Send + Sync;

/// How numbers will be computed.
pub(crate) struct FusionPlan {
    d: CpuDevice,
    formula: Box<FusedFormula>,
    operands: SmallVec<[PlanOperand; 3]>,
    /// Elements of the result.
    len: usize,
    /// Maps in it and in what it reads; what is read twice counts twice.
    maps: usize,
    /// [`compute`], by way of the plan: a program that reads buffers has what computes them
    /// only if something puts maps off. Where nothing does, that was 35 KB.
    compute: fn(&Arc<FusionPlan>) -> Result<HostData>,
}

enum PlanOperand {
    /// Numbers that are there, or are put off themselves; those are read whole.
    Node(Arc<Node>, Layout),
    /// A few numbers.
    Own(HostData, Layout),
}

impl PlanOperand {
    /// Are its numbers there, or picked where they are?
    fn is_ready(&self) -> bool {
        match self {
            PlanOperand::Node(node, layout) => {
                node.get().is_some() || node.picked().is_some() && node.is_whole(layout)
            }
            PlanOperand::Own(..) => true,
        }
    }
    /// What a formula reads.
    ///
    /// # Errors
    /// Those of computing numbers that are put off.
    fn operand(&self, len: usize) -> Result<Operand<'_, f32>> {
        match self {
            PlanOperand::Node(node, layout) => {
                // What is picked from such numbers is picked block by block. (The lock is let go of
                // before anything is computed.)
                let picked = if node.is_whole(layout) { node.picked() } else { None };
                if let Some(picked) = picked
                    && picked.numbers()?.dtype() == DType::F32
                {
                    return Ok(Operand::Made(Box::new(move |start, dst: &mut UninitSlice<'_, f32>| {
                        let numbers = picked.numbers().ok().and_then(f32::slice);
                        picked.fill(numbers.expect("they were there"), start, dst);
                    })));
                }
                Operand::new(node.data()?, layout, len)
            }
            PlanOperand::Own(data, layout) => Operand::new(data, layout, len),
        }
    }
}

impl FusionPlan {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Computes what it describes, and what others hold of the intermediate results.
    ///
    /// # Errors
    /// `OutOfMemory`; then everything is as it was.
    pub(crate) fn compute(self: &Arc<Self>) -> Result<HostData> {
        (self.compute)(self)
    }
}

/// A buffer that will be computed by a formula; None if it is better computed at once. Compiled
/// once, for all formulas.
///
/// # Errors
/// Those of computing an operand that cannot be part of the same pass.
pub(crate) fn defer(
    d: &CpuDevice,
    formula: &dyn Fn() -> Box<FusedFormula>,
    x: &[backend::View<'_, Cpu>],
) -> Result<Option<CpuBuffer>> {
    let len = x[0].shape().numel();
    // A transposed operand is copied in tiles, which is another pass.
    if len < d.fuses_from() || x.iter().any(|v| copy::is_transposed(v.layout)) {
        return Ok(None);
    }
    let mut maps = 1;
    for v in x {
        let Ok(node) = v.buffer.node() else { continue };
        match node.plan() {
            Some(plan) if node.is_whole(v.layout) && maps + plan.maps <= MAX_FUSED_MAPS => maps += plan.maps,
            Some(_) => drop(node.data()?),
            None => {}
        }
    }
    let mut operands = SmallVec::new();
    for v in x {
        operands.push(match v.buffer.node() {
            Ok(node) => PlanOperand::Node(node.clone(), v.layout.clone()),
            Err(few) => PlanOperand::Own(few.clone(), v.layout.clone()),
        });
    }
    Ok(Some(CpuBuffer::defer(FusionPlan { d: d.clone(), formula: formula(), operands, len, maps, compute })))
}

/// Where a formula finds an operand.
#[derive(Clone, Copy, PartialEq)]
enum StepOperand {
    /// The block that this step has just filled.
    Earlier(usize),
    /// This operand of the whole pass.
    Outside(usize),
}

/// One formula of a pass.
struct FusionStep {
    plan: Arc<FusionPlan>,
    /// Whose numbers it makes; None for those that were asked for.
    node: Option<Arc<Node>>,
    operands: SmallVec<[StepOperand; 3]>,
    /// How often later steps read it.
    reads: usize,
}

/// The formulas of a pass, each after those that it reads.
#[derive(Default)]
struct FusionPass {
    all: Vec<FusionStep>,
    /// Operands from outside: the step and its operand.
    outside: Vec<(usize, usize)>,
}

impl FusionPass {
    /// Adds what the plan needs, then itself; gives its number.
    fn add(&mut self, plan: &Arc<FusionPlan>, node: Option<&Arc<Node>>) -> usize {
        let mut operands: SmallVec<[Option<usize>; 3]> = SmallVec::new();
        for source in &plan.operands {
            operands.push(match source {
                PlanOperand::Own(..) => None,
                PlanOperand::Node(inner, layout) => match inner.plan() {
                    Some(plan) if inner.is_whole(layout) => Some(self.step(&plan, inner)),
                    _ => None,
                },
            });
        }
        let number = self.all.len();
        let operands = operands.into_iter().enumerate().map(|(i, step)| match step {
            Some(step) => StepOperand::Earlier(step),
            None => {
                self.outside.push((number, i));
                StepOperand::Outside(self.outside.len() - 1)
            }
        });
        let operands = operands.collect();
        self.all.push(FusionStep { plan: plan.clone(), node: node.cloned(), operands, reads: 0 });
        number
    }
    /// The step that makes this node's numbers.
    fn step(&mut self, plan: &Arc<FusionPlan>, node: &Arc<Node>) -> usize {
        let is = |step: &FusionStep| step.node.as_ref().is_some_and(|n| Arc::ptr_eq(n, node));
        let number = match self.all.iter().position(is) {
            Some(number) => number,
            None => self.add(plan, Some(node)),
        };
        self.all[number].reads += 1;
        number
    }
}

/// See [`FusionPlan::compute`].
fn compute(plan: &Arc<FusionPlan>) -> Result<HostData> {
    if plan.operands.iter().all(PlanOperand::is_ready) {
        return compute_single(plan);
    }
    let mut steps = FusionPass::default();
    let last = steps.add(plan, None);
    let FusionPass { all, outside } = steps;
    // A node is held by the plans that read it, by its step, and by all others that want its
    // numbers.
    let kept: Vec<usize> = (0..last)
        .filter(|&i| all[i].node.as_ref().is_some_and(|n| Arc::strong_count(n) > all[i].reads + 1))
        .chain([last])
        .collect();
    let outside = outside.iter().map(|&(step, i)| all[step].plan.operands[i].operand(plan.len));
    let operands = outside.collect::<Result<Vec<_>>>()?;
    let isa = plan.d.isa();
    let (places, count) = places(&all);
    let most = if count <= 2 { TWO_BLOCK_ELEMENTS } else { PASS_BLOCK_ELEMENTS };
    let is_far = plan.len >= PREFETCH_MIN_ELEMENTS;
    let run = RunningPass { steps: &all, operands: &operands, places: &places, kept: &kept };
    let results = parallel_fill_many(
        &plan.d,
        plan.len,
        PASS_BLOCK_ELEMENTS,
        kept.len(),
        &|mut start, rooms: &mut [UninitSlice<'_, f32>]| {
            let block = || Some(PassBlock::new(CacheBlock::with_any_capacity()));
            let mut blocks: Vec<Option<PassBlock>> = (0..count).map(|_| block()).collect();
            let mut staged: Vec<_> =
                operands.iter().map(|x| if x.needs_block() { block() } else { None }).collect();
            while rooms[0].remaining() > 0 {
                let left = rooms[0].remaining();
                let rows = operand::rows(&operands, start, left.min(most));
                let n = match rows {
                    Some(rows) => rows.len * rows.count,
                    None => {
                        let n = evenly(common_run(&operands, start, left, most), most);
                        for (x, block) in operands.iter().zip(&mut staged) {
                            if let Some(block) = block {
                                x.prepare(isa, block, start, n);
                            }
                        }
                        n
                    }
                };
                if is_far {
                    rooms.iter().for_each(|dst| prefetch_lines(dst.place(), n));
                    operands.iter().for_each(|x| x.fetch(start + n, n));
                }
                run.block(start, n, rows, &mut blocks, &staged, rooms);
                start += n;
            }
            Ok(())
        },
    )?;
    let mut results = results.into_iter().map(HostData::F32);
    for (&i, data) in kept.iter().zip(results.by_ref().take(kept.len() - 1)) {
        match &all[i].node {
            Some(node) => node.set(data),
            None => memory::recycle(data),
        }
    }
    Ok(results.next().expect("the last step has a result"))
}

/// A block that steps write and later ones read.
type PassBlock = Box<CacheBlock<f32, TWO_BLOCK_ELEMENTS>>;

/// What a pass runs, block by block.
struct RunningPass<'a> {
    steps: &'a [FusionStep],
    operands: &'a [Operand<'a, f32>],
    /// Which block each step writes.
    places: &'a [usize],
    /// Steps whose results are written to memory; the last one is among them.
    kept: &'a [usize],
}

impl RunningPass<'_> {
    /// All formulas on the elements number `start` to `start + n`; `staged` are the blocks of
    /// operands that need them.
    fn block(
        &self,
        start: usize,
        n: usize,
        rows: Option<RowsShape>,
        blocks: &mut [Option<PassBlock>],
        staged: &[Option<PassBlock>],
        rooms: &mut [UninitSlice<'_, f32>],
    ) {
        let last = self.steps.len() - 1;
        let mut keeps = self.kept.iter().zip(rooms.iter_mut()).peekable();
        for (number, step) in self.steps.iter().enumerate() {
            let mut own = if number < last { blocks[self.places[number]].take() } else { None };
            let mut x = [OperandSlice::EMPTY; MAX_OPERANDS];
            for (x, from) in x.iter_mut().zip(&step.operands) {
                *x = match (*from, rows) {
                    (StepOperand::Earlier(i), rows) => {
                        let block = blocks[self.places[i]].as_ref();
                        let pooled = block.expect("what is still read is not written").written();
                        rows.map_or(OperandSlice::of(pooled), |rows| {
                            OperandSlice::rows(pooled, rows, rows.len)
                        })
                    }
                    (StepOperand::Outside(i), None) => self.operands[i].piece(staged[i].as_deref(), start, n),
                    (StepOperand::Outside(i), Some(rows)) => self.operands[i].piece_of_rows(start, rows),
                };
            }
            let x = &x[..step.operands.len()];
            let keep = keeps.next_if(|(kept, _)| **kept == number).map(|(_, dst)| dst);
            match (&mut own, keep) {
                (Some(block), keep) => {
                    let results = block.fill(n, |dst| (step.plan.formula)(x, dst));
                    if let Some(dst) = keep {
                        dst.copy(results);
                    }
                }
                (None, Some(dst)) => dst.part(n, |dst| (step.plan.formula)(x, dst)),
                (None, None) => unreachable!("the last step is what was asked for"),
            }
            if own.is_some() {
                blocks[self.places[number]] = own;
            }
        }
    }
}

/// The size of the first of as few blocks as `n` elements take, none much smaller than others.
fn evenly(n: usize, most: usize) -> usize {
    /// Elements of a register, of which blocks are.
    const BLOCK_UNIT_ELEMENTS: usize = 16;
    if n <= most { n } else { n.div_ceil(n.div_ceil(most)).next_multiple_of(BLOCK_UNIT_ELEMENTS) }
}

/// Computes what a plan describes if all that it reads is there: one formula needs no blocks
/// between formulas.
///
/// # Errors
/// `OutOfMemory`.
fn compute_single(plan: &FusionPlan) -> Result<HostData> {
    let ready = SingleMap::new(plan)?;
    let y = parallel_fill(&plan.d, plan.len, 1, &|start, dst| {
        ready.fill(start, dst);
        Ok(())
    })?;
    Ok(HostData::F32(y))
}

/// One formula all of whose operands are there: any part of its results can be had.
pub(crate) struct SingleMap<'a> {
    plan: &'a FusionPlan,
    operands: SmallVec<[Operand<'a, f32>; 3]>,
}

impl<'a> SingleMap<'a> {
    fn new(plan: &'a FusionPlan) -> Result<SingleMap<'a>> {
        let operands = plan.operands.iter().map(|x| x.operand(plan.len)).collect::<Result<_>>()?;
        Ok(SingleMap { plan, operands })
    }
    /// None if the plan needs others' results first.
    ///
    /// # Errors
    /// None: operands are there.
    pub(crate) fn find(plan: &'a FusionPlan) -> Result<Option<SingleMap<'a>>> {
        if plan.operands.iter().all(PlanOperand::is_ready) {
            SingleMap::new(plan).map(Some)
        } else {
            Ok(None)
        }
    }
    /// Fills the room with the results from number `start` on.
    pub(crate) fn fill(&self, start: usize, dst: &mut UninitSlice<'_, f32>) {
        fill(self.plan.d.isa(), &self.operands, start, dst, &*self.plan.formula);
    }
}

/// Which block each step writes, and how many there are: a block is written again once it is no
/// longer read, so that a long chain stays in the first-level cache.
fn places(all: &[FusionStep]) -> (Vec<usize>, usize) {
    let mut last_read = vec![0; all.len()];
    for (number, step) in all.iter().enumerate() {
        for from in &step.operands {
            if let StepOperand::Earlier(i) = *from {
                last_read[i] = number;
            }
        }
    }
    let (mut places, mut free, mut count) = (Vec::with_capacity(all.len()), Vec::new(), 0);
    for (number, step) in all.iter().enumerate() {
        // Its own first: what it reads is not free before it is done.
        places.push(free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        }));
        for (at, from) in step.operands.iter().enumerate() {
            let again = step.operands[..at].iter().any(|other| other == from);
            if let StepOperand::Earlier(i) = *from
                && last_read[i] == number
                && !again
            {
                free.push(places[i]);
            }
        }
    }
    (places, count)
}
