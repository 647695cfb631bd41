//! The CTC dynamic programme (lattice) and its gradient: all time steps of a call, for a group of
//! samples at a time.
//!
//! A step has a few hundred elements, so as separate ops the overhead would dominate. Here a thread
//! takes some samples through all of their steps, and the state between steps stays in L1.
//!
//! How it can be wrong: at the edges of a sample. The samples of a group are contiguous with a gap
//! of two elements, which is read before the first element (forward) or behind the last (backward).
//! Whole registers overwrite the gap, so each step restores it.

use super::float::{Float, each_float};
use super::plan::ctc_samples_per_group;
use super::plan::thresholds::CTC_NS_PER_ELEMENT;
use crate::CpuDevice;
use crate::layout::copy;
use crate::runtime::memory::{PooledData, filled};
use crate::runtime::output::column_blocks::{BlockedMatrices, ColumnBlock, ColumnBlocks, fill_column_blocks};
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::{HostData, HostVec, Result};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Map;
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes, run_lanes};
use elinvar_simd::uninit::UninitSlice;
use std::mem::swap;

/// Elements that are computed at once.
const CHUNK_ELEMENTS: usize = 64;
/// Elements between two samples.
const SAMPLE_GAP: usize = 2;

/// See `Compute::lattice`.
pub(crate) fn lattice<F: Map<4>>(
    d: &CpuDevice,
    f: &F,
    [x, may, front]: [View<'_>; 3],
    ends: &[usize],
) -> Result<HostData> {
    each_float!(F::NAME, x.dtype, C => forwards::<C, F>(d, f, [&x, &may, &front], ends))
}

/// See `Compute::lattice_grad`.
pub(crate) fn lattice_grad<F: Map<5>>(
    d: &CpuDevice,
    f: &F,
    [x, may, all, g]: [View<'_>; 4],
    ends: &[usize],
) -> Result<HostData> {
    each_float!(F::NAME, x.dtype, C => backwards::<C, F>(d, f, [&x, &may, &all, &g], ends))
}

/// A view's elements, one after the other: where they lie, or copied.
struct ContiguousView<'a> {
    view: &'a View<'a>,
    copy: Option<PooledData>,
}

impl<'a> ContiguousView<'a> {
    fn new(d: &CpuDevice, view: &'a View<'a>) -> Result<Self> {
        let lies = view.layout.is_contiguous();
        Ok(ContiguousView {
            view,
            copy: if lies { None } else { Some(PooledData::new(copy::to_contiguous(d, view)?)) },
        })
    }
    fn elements<C: Float>(&self, what: &str) -> Result<&[C]> {
        let (data, first) = match &self.copy {
            None => (self.view.buffer, self.view.layout.offset()),
            Some(copy) => (copy.data(), 0),
        };
        let all = C::slice(data).ok_or_else(|| misuse_error(what, self.view.dtype))?;
        Ok(&all[first..][..self.view.shape().numel()])
    }
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
    /// From a sample to the next, where they lie as a group.
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
    /// Copies the group's elements of step `k` of `x` [.., n, s] to where they lie as a group.
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
    /// Where elements of sample `i` lie, of which the first of the group is at `at`.
    #[inline(always)]
    fn place(self, i: usize, at: usize) -> std::ops::Range<usize> {
        let start = i * self.of.row_stride() + at;
        start..start + self.of.s
    }
}

/// Memory of a thread for a group, in whole windows and one more, which is read behind the last.
struct CtcScratch<C> {
    len: usize,
    /// 1 where a sample has an element, 0 between.
    there: HostVec<C>,
    may: HostVec<C>,
    others: [HostVec<C>; 5],
}

impl<C: Float> CtcScratch<C> {
    fn new(of: CtcSizes, count: usize) -> Result<Self> {
        let len = (count * of.row_stride()).next_multiple_of(CHUNK_ELEMENTS);
        let zeros = || filled(len + CHUNK_ELEMENTS, C::POSITIVE_ZERO);
        let (mut there, may) = (zeros()?, zeros()?);
        for sample in there.chunks_exact_mut(of.row_stride()).take(count) {
            sample[..of.s].fill(C::lit(1.0));
        }
        Ok(CtcScratch { len, there, may, others: [zeros()?, zeros()?, zeros()?, zeros()?, zeros()?] })
    }
}

fn forwards<C: Float, F: Map<4>>(
    d: &CpuDevice,
    f: &F,
    x: [&View<'_>; 3],
    ends: &[usize],
) -> Result<HostData> {
    let of = CtcSizes::of(x[0]);
    let [x, may, front] =
        [ContiguousView::new(d, x[0])?, ContiguousView::new(d, x[1])?, ContiguousView::new(d, x[2])?];
    let (x, may, front) = (x.elements(F::NAME)?, may.elements(F::NAME)?, front.elements(F::NAME)?);
    let y = fill_column_blocks(d, of.matrix(d, of.t + 1), CTC_NS_PER_ELEMENT, &|column_blocks| {
        let mut scratch = CtcScratch::<C>::new(of, of.group(d))?;
        while let Some(column_block) = column_blocks.next() {
            let group = SampleGroup::new(of, column_block);
            group.stage(may, 0, &mut scratch.may);
            run_lanes(
                d.isa(),
                ForwardSteps { f: *f, group, x, front, ends, scratch: &mut scratch, column_blocks },
            );
        }
        Ok(())
    })?;
    Ok(C::wrap(y))
}

/// A kernel: all steps of a group.
struct ForwardSteps<'a, 'y, C, F> {
    f: F,
    group: SampleGroup,
    x: &'a [C],
    front: &'a [C],
    ends: &'a [usize],
    scratch: &'a mut CtcScratch<C>,
    column_blocks: &'a mut ColumnBlocks<'y, C>,
}

impl<C: Float, F: Map<4>> LaneKernel for ForwardSteps<'_, '_, C, F> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        let ForwardSteps { f, group, x, front, ends, scratch, column_blocks } = self;
        let CtcScratch { len, there, may, others: [before, after, here, sums, _] } = scratch;
        let (len, never) = (*len, C::lit(f64::NEG_INFINITY));
        for before in before.chunks_exact_mut(group.of.row_stride()).take(group.count) {
            before.copy_from_slice(front);
        }
        after.fill(never);
        for k in 0..group.of.t {
            group.stage(x, k, here);
            let mut at = 0;
            while at < len {
                step::<C, M, F>(f, before, [there, may, here], at, sums, after);
                at += CHUNK_ELEMENTS;
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
}

/// The elements from `at` on.
#[inline(always)]
fn chunk<C>(x: &[C], at: usize) -> &[C; CHUNK_ELEMENTS] {
    x[at..].first_chunk().expect("there is one more window behind the last")
}

/// A window of a step: its sums, and with `here` the elements, which lie [`SAMPLE_GAP`] further on.
#[inline(always)]
fn step<C: Float, R: SimdLanes<C> + Lane, F: Map<4>>(
    f: F,
    before: &[C],
    [there, may, here]: [&[C]; 3],
    at: usize,
    sums: &mut [C],
    after: &mut [C],
) {
    let [stay, next, skip] = [chunk(before, at + 2), chunk(before, at + 1), chunk(before, at)];
    let [there, may, here] = [chunk(there, at), chunk(may, at), chunk(here, at)];
    // Copies: the compiler does not see that results are apart from what is read.
    let (mut y, mut a) = ([C::POSITIVE_ZERO; CHUNK_ELEMENTS], [C::POSITIVE_ZERO; CHUNK_ELEMENTS]);
    let mut i = 0;
    while i < CHUNK_ELEMENTS {
        let sum = f.lane([R::load(&stay[i..]), R::load(&next[i..]), R::load(&skip[i..]), R::load(&may[i..])]);
        sum.store(&mut y[i..]);
        let between = R::load(&there[i..]).eq(R::lit(0.0));
        R::select(between, R::lit(f64::NEG_INFINITY), sum + R::load(&here[i..])).store(&mut a[i..]);
        i += R::WIDTH;
    }
    sums[at..][..CHUNK_ELEMENTS].copy_from_slice(&y);
    after[at + SAMPLE_GAP..][..CHUNK_ELEMENTS].copy_from_slice(&a);
}

fn backwards<C: Float, F: Map<5>>(
    d: &CpuDevice,
    f: &F,
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
    let (x, may) = (x.elements(F::NAME)?, may.elements(F::NAME)?);
    let (sums, g) = (sums.elements(F::NAME)?, g.elements(F::NAME)?);
    let y = fill_column_blocks(d, of.matrix(d, of.t), CTC_NS_PER_ELEMENT, &|column_blocks| {
        let mut scratch = CtcScratch::<C>::new(of, of.group(d))?;
        while let Some(column_block) = column_blocks.next_bottom_up() {
            let group = SampleGroup::new(of, column_block);
            group.stage(may, 0, &mut scratch.may);
            group.stage(g, 0, &mut scratch.others[0]);
            run_lanes(
                d.isa(),
                BackwardSteps { f: *f, group, x, sums, ends, scratch: &mut scratch, column_blocks },
            );
        }
        Ok(())
    })?;
    Ok(C::wrap(y))
}

/// A kernel: all steps of a group, from the last to the first.
struct BackwardSteps<'a, 'y, C, F> {
    f: F,
    group: SampleGroup,
    x: &'a [C],
    sums: &'a [C],
    ends: &'a [usize],
    scratch: &'a mut CtcScratch<C>,
    column_blocks: &'a mut ColumnBlocks<'y, C>,
}

impl<C: Float, F: Map<5>> LaneKernel for BackwardSteps<'_, '_, C, F> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<C> + Lane, M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        let BackwardSteps { f, group, x, sums, ends, scratch, column_blocks } = self;
        let CtcScratch { len, there, may, others: [by, new, here, y, after] } = scratch;
        let CtcSizes { t, s, .. } = group.of;
        // No step writes between samples.
        y.fill(C::lit(f64::NEG_INFINITY));
        after.fill(C::lit(f64::NEG_INFINITY));
        for k in (0..t).rev() {
            group.stage(sums, k, y);
            if k + 1 < t {
                group.stage(x, k, here);
                let mut at = 0;
                while at < *len {
                    step_back::<C, M, F>(f, [there, may, here, y, after, by], at, new);
                    at += CHUNK_ELEMENTS;
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
}

/// A window of the gradient by a step's elements, from that by the elements after, `by`, and their
/// sums, `after`.
#[inline(always)]
fn step_back<C: Float, R: SimdLanes<C> + Lane, F: Map<5>>(
    f: F,
    [there, may, here, y, after, by]: [&[C]; 6],
    at: usize,
    new: &mut [C],
) {
    let [there, may, here, y] = [chunk(there, at), chunk(may, at + 2), chunk(here, at), chunk(y, at)];
    let after = [chunk(after, at), chunk(after, at + 1), chunk(after, at + 2)];
    let by = [chunk(by, at), chunk(by, at + 1), chunk(by, at + 2)];
    let mut all = [C::POSITIVE_ZERO; CHUNK_ELEMENTS];
    let mut i = 0;
    while i < CHUNK_ELEMENTS {
        let (a, one) = (R::load(&y[i..]) + R::load(&here[i..]), R::lit(1.0));
        let sum = f.lane([R::lit(0.0), a, R::load(&after[0][i..]), R::load(&by[0][i..]), one]);
        let sum = f.lane([sum, a, R::load(&after[1][i..]), R::load(&by[1][i..]), one]);
        let sum = f.lane([sum, a, R::load(&after[2][i..]), R::load(&by[2][i..]), R::load(&may[i..])]);
        let between = R::load(&there[i..]).eq(R::lit(0.0));
        R::select(between, R::lit(0.0), sum).store(&mut all[i..]);
        i += R::WIDTH;
    }
    new[at..][..CHUNK_ELEMENTS].copy_from_slice(&all);
}
