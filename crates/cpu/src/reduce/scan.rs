//! Prefix scan (cumulative sums and products) along the last axis: groups of 16 by log-steps,
//! carried through blocks of 1024.

use super::columns;
use super::combine::Combine;
use super::plan::{self, ReduceProblem, RowScan, ScanPlan};
use super::source::{ReduceElement, row_major_copy, staged};
use crate::CpuDevice;
use crate::elementwise::convert::{store, stored};
use crate::machine::Machine;
use crate::runtime::memory::filled;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{DType, HostData, HostVec, Result, storage};
use elinvar_ops::backend::{Placed, Scan};
use elinvar_ops::fold::{Prod, Sum};
use elinvar_simd::isa::{Kernel, dispatch};
use elinvar_simd::uninit::{FillChunk, UninitSlice};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Prefix sums or products along the last axis.
pub(crate) fn scan(d: &CpuDevice, f: Scan, x: &View<'_>, to: DType) -> Result<Placed<HostData>> {
    match (x.buffer.dtype(), f) {
        (DType::F32 | storage!(DType), Scan::Sum) => scan_in_f32::<Sum>(d, x, to),
        (DType::F32 | storage!(DType), Scan::Prod) => scan_in_f32::<Prod>(d, x, to),
        (DType::F64, Scan::Sum) => scan_native::<f64, Sum>(d, x, to),
        (DType::F64, Scan::Prod) => scan_native::<f64, Prod>(d, x, to),
        (DType::I64 | DType::I32 | DType::U8 | DType::Bool, Scan::Sum) => scan_native::<i64, Sum>(d, x, to),
        (DType::I64 | DType::I32 | DType::U8 | DType::Bool, Scan::Prod) => scan_native::<i64, Prod>(d, x, to),
    }
}

/// Of f32 and what is computed in it.
fn scan_in_f32<F: Combine<f32>>(d: &CpuDevice, x: &View<'_>, to: DType) -> Result<Placed<HostData>> {
    let Placed { buffer, layout } = scan_placed::<f32, F>(d, x)?;
    Ok(Placed { buffer: stored(d, buffer, to)?, layout })
}

/// Of types that are stored as they are computed.
fn scan_native<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
    to: DType,
) -> Result<Placed<HostData>> {
    let Placed { buffer, layout } = scan_placed::<T, F>(d, x)?;
    Ok(Placed { buffer: store(buffer, to)?, layout })
}

fn scan_placed<T: ReduceElement, F: Combine<T>>(d: &CpuDevice, x: &View<'_>) -> Result<Placed<HostVec<T>>> {
    let kept = x.layout.rank().saturating_sub(1);
    let plan = plan::scan(ReduceProblem::of::<T>(x, kept), &Machine::of(d));
    explain(|| format!("scan {} -> {plan}", x.layout.shape()));
    match plan {
        ScanPlan::Empty => Ok(Placed::from(HostVec::new())),
        ScanPlan::Columns(layout) => columns::scan::<T, F>(d, x, &layout),
        ScanPlan::Rows(path) => by_rows::<T, F>(d, x, path).map(Placed::from),
    }
}

fn by_rows<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
    path: RowScan,
) -> Result<HostVec<T>> {
    let n = x.shape().last().copied().unwrap_or(1);
    let len = x.shape().numel();
    let copy = row_major_copy::<T>(d, "a scan", x)?;
    let stage = staged::<T>("a scan", x, &copy)?;
    let isa = d.isa();
    let RowScan::Rows { rows_per_read: rows, in_registers } = path else {
        let mut y = filled(len, F::init())?;
        // Few long rows: threads share the blocks, whose offsets are one short chain.
        for (r, row) in y.chunks_mut(n).enumerate() {
            for_each_piece(d, row, 8 * SCAN_BLOCK, 1.0, &|start, part| {
                stage.read(isa, r * n + start, part);
                for block in part.chunks_mut(SCAN_BLOCK) {
                    dispatch(isa, ScanRows { x: block, n: SCAN_BLOCK, f: PhantomData::<F> });
                }
            });
            let mut offsets = filled(n.div_ceil(SCAN_BLOCK), F::init())?;
            let mut last: Option<T> = None;
            for (offset, block) in offsets.iter_mut().zip(row.chunks(SCAN_BLOCK)) {
                let end = block[block.len() - 1];
                // The first block has no offset; its place is not read.
                *offset = last.unwrap_or(end);
                last = Some(last.map_or(end, |o| F::combine(o, end)));
            }
            for_each_piece(d, row, 8 * SCAN_BLOCK, 0.5, &|start, part| {
                for (b, block) in part.chunks_mut(SCAN_BLOCK).enumerate() {
                    let b = start / SCAN_BLOCK + b;
                    if b > 0 {
                        dispatch(isa, AddOffset { x: block, by: offsets[b], f: PhantomData::<F> });
                    }
                }
            });
        }
        return Ok(y);
    };
    fill_pieces(d, len, 4 * rows * n, 0.5, &|mut start, dst| {
        while dst.remaining() > 0 {
            let some = (rows * n).min(dst.remaining());
            if in_registers && stage.is_in_place(start, some) {
                let x = stage.block(isa, start, some, some, &mut []);
                dispatch(isa, ScanShortRows { x, n, dst, f: PhantomData::<F> });
                start += some;
                continue;
            }
            let x = if stage.is_in_place(start, some) {
                dst.copied(stage.block(isa, start, some, some, &mut []))
            } else {
                let x = dst.zeroed(some, F::init());
                stage.read(isa, start, x);
                x
            };
            dispatch(isa, ScanRows { x, n, f: PhantomData::<F> });
            start += some;
        }
        Ok(())
    })
}

/// Every row of `n` elements, scanned in place.
struct ScanRows<'a, T, F> {
    x: &'a mut [T],
    n: usize,
    f: PhantomData<F>,
}

impl<T: ReduceElement, F: Combine<T>> Kernel for ScanRows<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for row in self.x.chunks_mut(self.n) {
            // Integers give the same in any order, and one after the other takes fewer steps: a
            // group of 16 is four registers of AVX2.
            if const { matches!(T::DTYPE, DType::I64) } {
                let mut all = F::neutral();
                for v in row {
                    all = F::combine(all, *v);
                    *v = all;
                }
                continue;
            }
            let mut offset: Option<T> = None;
            for block in row.chunks_mut(SCAN_BLOCK) {
                let mut carry = F::neutral();
                let (groups, rest) = block.as_chunks_mut::<SCAN_GROUP>();
                for group in groups {
                    let mut x = log_steps::<T, F>(*group);
                    x.iter_mut().for_each(|v| *v = F::combine(carry, *v));
                    carry = x[SCAN_GROUP - 1];
                    if let Some(o) = offset {
                        x.iter_mut().for_each(|v| *v = F::combine(o, *v));
                    }
                    *group = x;
                }
                let mut d = 1;
                while d < rest.len() {
                    for i in (d..rest.len()).rev() {
                        rest[i] = F::combine(rest[i - d], rest[i]);
                    }
                    d *= 2;
                }
                for v in rest {
                    *v = F::combine(carry, *v);
                    if let Some(o) = offset {
                        *v = F::combine(o, *v);
                    }
                }
                offset = block.last().copied();
            }
        }
    }
}

/// Every row of `n` elements, no more than a group: a register of each, which reaches into the next
/// ones. What is scanned of those is written over by theirs. (Side by side, rows of ten were turned
/// and turned back, which was most of the time.)
struct ScanShortRows<'a, 'r, T, F> {
    x: &'a [T],
    n: usize,
    dst: &'a mut UninitSlice<'r, T>,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for ScanShortRows<'_, '_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ScanShortRows { x, n, dst, f } = self;
        dst.chunk_prefixes::<SCAN_GROUP>(x.len() / n, n, &ScanShortGroup { x, n, f });
    }
}

/// A group that begins with a row, by number.
struct ScanShortGroup<'a, T, F> {
    x: &'a [T],
    n: usize,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> FillChunk<T, SCAN_GROUP> for ScanShortGroup<'_, T, F> {
    #[inline(always)]
    fn fill(&self, number: usize, y: &mut [MaybeUninit<T>; SCAN_GROUP]) {
        let x = &self.x[number * self.n..];
        let group = match x.first_chunk() {
            Some(group) => *group,
            None => {
                let mut group = [F::neutral(); SCAN_GROUP];
                group[..x.len()].copy_from_slice(x);
                group
            }
        };
        y.write_copy_of_slice(&log_steps::<T, F>(group));
    }
}

/// A group by log-steps: what stands d places before is added, for d = 1, 2, 4, 8.
#[inline(always)]
fn log_steps<T: Copy, F: Combine<T>>(x: [T; SCAN_GROUP]) -> [T; SCAN_GROUP] {
    let x = log_step::<T, F, 1>(x);
    let x = log_step::<T, F, 2>(x);
    let x = log_step::<T, F, 4>(x);
    log_step::<T, F, 8>(x)
}

/// The first `D` get what changes nothing, so that all are one vector, shifted and added.
#[allow(clippy::needless_range_loop, reason = "lanes are counted, so that they become a register")]
#[inline(always)]
fn log_step<T: Copy, F: Combine<T>, const D: usize>(x: [T; SCAN_GROUP]) -> [T; SCAN_GROUP] {
    let mut before = [F::neutral(); SCAN_GROUP];
    before[D..].copy_from_slice(&x[..SCAN_GROUP - D]);
    let mut y = x;
    for i in 0..SCAN_GROUP {
        y[i] = F::combine(before[i], x[i]);
    }
    y
}

/// Each element, with the offset of earlier blocks on its left.
struct AddOffset<'a, T, F> {
    x: &'a mut [T],
    by: T,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for AddOffset<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for x in self.x {
            *x = F::combine(self.by, *x);
        }
    }
}
