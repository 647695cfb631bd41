//! The CTC dynamic programme (lattice) and its gradient: all time steps of a call, for a group of
//! samples at a time.
//!
//! A step has a few hundred elements, so as separate ops the overhead would dominate. Here a thread
//! takes some samples through all of their steps, and the state between steps stays in L1.
//!
//! How it can be wrong: at the edges of a sample. The samples of a group are contiguous with a gap
//! of two elements, which is read before the first element (forward) or behind the last (backward).
//! The formula runs over the gaps as well, so each step restores them.

use super::float::{Float, each_float};
use super::plan::ctc_samples_per_group;
use super::plan::thresholds::CTC_NS_PER_ELEMENT;
use crate::CpuDevice;
use crate::layout::contiguous::ContiguousView;
use crate::runtime::memory::filled;
use crate::runtime::output::column_blocks::{BlockedMatrices, ColumnBlock, ColumnBlocks, fill_column_blocks};
use crate::view::View;
use elinvar_core::{HostData, HostVec, Result};
use elinvar_ops::map::MapObject;
use elinvar_simd::compiled::FormulaFloat;
use elinvar_simd::isa::Isa;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector_loop::{self, BLOCK, BlockFormula, OperandSlice};
use std::mem::swap;

/// Elements between two samples.
const SAMPLE_GAP: usize = 2;

/// See [`Fused::Lattice`](elinvar_ops::backend::Fused).
pub(crate) fn lattice(
    d: &CpuDevice,
    f: &dyn MapObject,
    [x, may, front]: [&View<'_>; 3],
    ends: &[usize],
) -> Result<HostData> {
    each_float!(f.name(), x.dtype, C => forwards::<C>(d, f, [x, may, front], ends))
}

/// See [`Fused::LatticeGrad`](elinvar_ops::backend::Fused).
pub(crate) fn lattice_grad(
    d: &CpuDevice,
    f: &dyn MapObject,
    [x, may, all, g]: [&View<'_>; 4],
    ends: &[usize],
) -> Result<HostData> {
    each_float!(f.name(), x.dtype, C => backwards::<C>(d, f, [x, may, all, g], ends))
}

/// `len` elements from this one on.
fn from<C: Float>(x: &[C], at: usize, len: usize) -> OperandSlice<'_, C> {
    OperandSlice::of(&x[at..][..len])
}

/// The formula on contiguous operands, each as long as the results or longer.
fn apply<C: Float>(isa: Isa, f: &dyn BlockFormula<C>, x: &[OperandSlice<'_, C>], y: &mut [C]) {
    vector_loop::fill(isa, f, x, &mut UninitSlice::over(y));
}

/// Sizes: `t` steps of `n` samples of `s` elements.
#[derive(Clone, Copy)]
struct CtcSizes {
    t: usize,
    n: usize,
    s: usize,
}

impl CtcSizes {
    fn of(x: &View<'_>) -> Self {
        let &[t, n, s] = x.shape().dims() else { unreachable!("a lattice has three axes") };
        CtcSizes { t, n, s }
    }
    /// Samples of a group.
    fn group(self, d: &CpuDevice) -> usize {
        ctc_samples_per_group(self.n, self.row_stride(), d.threads())
    }
    /// From a sample to the next, where they are as a group.
    fn row_stride(self) -> usize {
        self.s + SAMPLE_GAP
    }
    /// The matrix that groups have columns of.
    fn matrix(self, d: &CpuDevice, rows: usize) -> BlockedMatrices {
        BlockedMatrices { count: 1, rows, columns: self.n * self.s, width: self.group(d) * self.s }
    }
}

/// Some samples.
#[derive(Clone, Copy)]
struct SampleGroup {
    of: CtcSizes,
    first: usize,
    count: usize,
}

impl SampleGroup {
    fn new(of: CtcSizes, column_block: ColumnBlock) -> Self {
        SampleGroup { of, first: column_block.column / of.s, count: column_block.width / of.s }
    }
    /// Copies the group's elements of step `k` of `x` [.., n, s] to where they are as a group.
    #[inline(always)]
    fn stage<C: Copy>(self, x: &[C], k: usize, to: &mut [C]) {
        let CtcSizes { n, s, .. } = self.of;
        let from = x[(k * n + self.first) * s..][..self.count * s].chunks_exact(s);
        for (to, from) in to.chunks_exact_mut(self.of.row_stride()).zip(from) {
            to[..s].copy_from_slice(from);
        }
    }
    /// Writes the group's elements, of which the first is at `at`.
    #[inline(always)]
    fn write<C: Copy>(self, x: &[C], at: usize, dst: &mut UninitSlice<'_, C>) {
        for x in x[at..].chunks(self.of.row_stride()).take(self.count) {
            dst.copy(&x[..self.of.s]);
        }
    }
    /// Where elements of sample `i` are, of which the first of the group is at `at`.
    #[inline(always)]
    fn place(self, i: usize, at: usize) -> std::ops::Range<usize> {
        let start = i * self.of.row_stride() + at;
        start..start + self.of.s
    }
}

/// Memory of a thread for a group; what a step reads [`SAMPLE_GAP`] further on is that much longer.
struct CtcScratch<C> {
    len: usize,
    /// 1 where a sample has an element, 0 between.
    there: HostVec<C>,
    may: HostVec<C>,
    others: [HostVec<C>; 6],
}

impl<C: Float> CtcScratch<C> {
    fn new(of: CtcSizes, count: usize) -> Result<Self> {
        let len = count * of.row_stride();
        let zeros = || filled(len + SAMPLE_GAP, C::POSITIVE_ZERO);
        let (mut there, may) = (zeros()?, zeros()?);
        for sample in there.chunks_exact_mut(of.row_stride()).take(count) {
            sample[..of.s].fill(C::lit(1.0));
        }
        let others = [zeros()?, zeros()?, zeros()?, zeros()?, zeros()?, zeros()?];
        Ok(CtcScratch { len, there, may, others })
    }
}

fn forwards<C: Float + FormulaFloat>(
    d: &CpuDevice,
    f: &dyn MapObject,
    x: [&View<'_>; 3],
    ends: &[usize],
) -> Result<HostData> {
    let of = CtcSizes::of(x[0]);
    let [x, may, front] =
        [ContiguousView::new(d, x[0])?, ContiguousView::new(d, x[1])?, ContiguousView::new(d, x[2])?];
    let (x, may, front) = (x.elements(f.name())?, may.elements(f.name())?, front.elements(f.name())?);
    let f = C::blocks(f);
    let y = fill_column_blocks(d, of.matrix(d, of.t + 1), CTC_NS_PER_ELEMENT, &|column_blocks| {
        let mut scratch = CtcScratch::<C>::new(of, of.group(d))?;
        while let Some(column_block) = column_blocks.next() {
            let group = SampleGroup::new(of, column_block);
            group.stage(may, 0, &mut scratch.may);
            forward_steps(d.isa(), f, group, [x, front], ends, &mut scratch, column_blocks);
        }
        Ok(())
    })?;
    Ok(C::wrap(y))
}

/// All steps of a group.
fn forward_steps<C: Float>(
    isa: Isa,
    f: &dyn BlockFormula<C>,
    group: SampleGroup,
    [x, front]: [&[C]; 2],
    ends: &[usize],
    scratch: &mut CtcScratch<C>,
    column_blocks: &mut ColumnBlocks<'_, C>,
) {
    let CtcScratch { len, there, may, others: [before, after, here, sums, ..] } = scratch;
    let (len, never) = (*len, C::lit(f64::NEG_INFINITY));
    for before in before.chunks_exact_mut(group.of.row_stride()).take(group.count) {
        before.copy_from_slice(front);
    }
    after.fill(never);
    for k in 0..group.of.t {
        group.stage(x, k, here);
        let at = |place: usize| from(before, place, len);
        apply(isa, f, &[at(2), at(1), at(0), from(may, 0, len)], &mut sums[..len]);
        let elements = sums[..len].iter().zip(&here[..len]).zip(&there[..len]);
        for (after, ((&sum, &here), &there)) in after[SAMPLE_GAP..].iter_mut().zip(elements) {
            *after = if there == C::POSITIVE_ZERO { never } else { sum + here };
        }
        for i in 0..group.count {
            if k >= ends[group.first + i] {
                let place = group.place(i, SAMPLE_GAP);
                after[place.clone()].copy_from_slice(&before[place]);
            }
        }
        column_blocks.row(|dst| group.write(sums, 0, dst));
        swap(before, after);
        // Each later step has -inf in front of its first sample as well.
        after[..SAMPLE_GAP].fill(never);
    }
    column_blocks.row(|dst| group.write(before, SAMPLE_GAP, dst));
}

fn backwards<C: Float + FormulaFloat>(
    d: &CpuDevice,
    f: &dyn MapObject,
    x: [&View<'_>; 4],
    ends: &[usize],
) -> Result<HostData> {
    let of = CtcSizes::of(x[0]);
    let all = [
        ContiguousView::new(d, x[0])?,
        ContiguousView::new(d, x[1])?,
        ContiguousView::new(d, x[2])?,
        ContiguousView::new(d, x[3])?,
    ];
    let [x, may, sums, g] = &all;
    let (x, may) = (x.elements(f.name())?, may.elements(f.name())?);
    let (sums, g) = (sums.elements(f.name())?, g.elements(f.name())?);
    let f = C::blocks(f);
    let y = fill_column_blocks(d, of.matrix(d, of.t), CTC_NS_PER_ELEMENT, &|column_blocks| {
        let mut scratch = CtcScratch::<C>::new(of, of.group(d))?;
        while let Some(column_block) = column_blocks.next_bottom_up() {
            let group = SampleGroup::new(of, column_block);
            group.stage(may, 0, &mut scratch.may);
            group.stage(g, 0, &mut scratch.others[0]);
            backward_steps(d.isa(), f, group, [x, sums], ends, &mut scratch, column_blocks);
        }
        Ok(())
    })?;
    Ok(C::wrap(y))
}

/// All steps of a group, from the last to the first.
fn backward_steps<C: Float>(
    isa: Isa,
    f: &dyn BlockFormula<C>,
    group: SampleGroup,
    [x, sums]: [&[C]; 2],
    ends: &[usize],
    scratch: &mut CtcScratch<C>,
    column_blocks: &mut ColumnBlocks<'_, C>,
) {
    let CtcScratch { len, there, may, others: [by, new, here, y, after, partial] } = scratch;
    let (len, CtcSizes { t, s, .. }) = (*len, group.of);
    let (zeros, ones) = ([C::POSITIVE_ZERO; BLOCK], [C::lit(1.0); BLOCK]);
    let (zero, one) = (OperandSlice::number(&zeros), OperandSlice::number(&ones));
    // No step writes between samples.
    y.fill(C::lit(f64::NEG_INFINITY));
    after.fill(C::lit(f64::NEG_INFINITY));
    for k in (0..t).rev() {
        group.stage(sums, k, y);
        if k + 1 < t {
            group.stage(x, k, here);
            for (here, &y) in here[..len].iter_mut().zip(&y[..len]) {
                *here = y + *here;
            }
            let a = from(here, 0, len);
            apply(isa, f, &[zero, a, from(after, 0, len), from(by, 0, len), one], &mut new[..len]);
            apply(
                isa,
                f,
                &[from(new, 0, len), a, from(after, 1, len), from(by, 1, len), one],
                &mut partial[..len],
            );
            apply(
                isa,
                f,
                &[from(partial, 0, len), a, from(after, 2, len), from(by, 2, len), from(may, 2, len)],
                &mut new[..len],
            );
            for (new, &there) in new[..len].iter_mut().zip(&there[..len]) {
                if there == C::POSITIVE_ZERO {
                    *new = C::POSITIVE_ZERO;
                }
            }
            for i in 0..group.count {
                if k + 1 >= ends[group.first + i] {
                    let place = group.place(i, 0);
                    new[place.clone()].copy_from_slice(&by[place]);
                }
            }
            swap(by, new);
        }
        column_blocks.row(|dst| {
            for i in 0..group.count {
                if k < ends[group.first + i] {
                    dst.copy(&by[group.place(i, 0)]);
                } else {
                    dst.extend(s, |_| C::POSITIVE_ZERO);
                }
            }
        });
        swap(y, after);
    }
}
