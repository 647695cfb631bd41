//! Row-wise formulas (softmax, layer norm, RMS norm and their gradients): terms of a statistic,
//! their fold, the next statistic, then the result.
//!
//! The formula's own loops ([`RowLoops`]) are called once for a statistic of a group of short rows,
//! or of a block of a long one. Where terms are not folded in registers, they go through a block
//! that stays in L1 and are folded there by code that all formulas share.

pub(super) mod with_column_sums;
mod work;

use super::columns;
use super::float::{Float, each_float};
use super::source::{StagedView, row_major_copy, staged};
use crate::CpuDevice;
use crate::runtime::memory::{filled, with_capacity};
use crate::runtime::parallel::try_for_each_piece;
use crate::view::View;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, Error, HostData, HostVec, Result};
use elinvar_ops::backend::{Fold, Placed};
use elinvar_ops::rows::{RowObject, RowOut, STATS};
use elinvar_simd::row_loop::{MAX_ROW_OPERANDS, Statistics, TERM_CHUNK};
use std::ops::RangeInclusive;
use work::{RowScratch, RowwiseWork};

/// Elements of the short rows that are taken at a time: what operands that are not in memory as
/// they are read are copied to has room for a block.
const SHORT_ROWS_ELEMENTS: usize = BLOCK;
/// Elements that a task has, at least and at most.
const TASK_ELEMENTS: RangeInclusive<usize> = 1 << 14..=1 << 17;
/// Nanoseconds for an element of one statistic, at least: a guess between a sum and an exponential.
const NS_PER_ELEMENT: f64 = 0.3;
/// Elements of a group of rows whose terms are in memory, 8 KiB of f32: they are read twice more,
/// from the first-level cache. Each group costs a few calls, so it has several rows.
const GROUP_ELEMENTS_OF_TERMS: usize = 2048;
/// Elements of a group of rows whose terms are not, 16 KiB of f32: they stay in the first-level
/// cache until they are read last, and the next group's come beside them. The lines of results come
/// there, too: then half as many.
const GROUP_ELEMENTS: usize = 4096;
/// How far ahead memory is fetched, in bytes: the next row of a thousand f32, or some short ones.
/// The processor foresees what follows within a page, and pages are as long.
const PREFETCH_DISTANCE_BYTES: usize = 4096;

/// A row-wise formula over views of one shape, of which the first `kept` axes are the rows.
pub(crate) fn rowwise(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    each_float!(f.name(), dtype, C => compute::<C>(d, f, x, kept, dtype))
}

fn compute<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<Placed<HostData>> {
    debug_assert!(
        !f.is_plain() || first_term_is_first_operand::<C>(f),
        "{}: its first terms are no operand",
        f.name()
    );
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    if rows * f.out().width(n, f.folds().len()) == 0 {
        return Ok(HostData::full(dtype, 0, 0.into())?.into());
    }
    if let Some(y) = sum_columns_directly(d, f, x, kept)? {
        return Ok(C::stored(d, y, dtype)?.into());
    }
    if let Some(Placed { buffer, layout }) = columns::rowwise(d, f, x, kept)? {
        return Ok(Placed { buffer: C::stored(d, buffer, dtype)?, layout });
    }
    one_by_one::<C>(d, f, x, kept, dtype).map(Placed::from)
}

/// Statistics of no row.
pub(super) fn no_statistics<C: Float>() -> Statistics<C> {
    [[C::POSITIVE_ZERO; TERM_CHUNK]; STATS]
}

/// The sums of columns, if that is what the formula is: what they are folded of need not be copied.
fn sum_columns_directly<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
) -> Result<Option<HostVec<C>>> {
    if !(f.is_plain() && matches!((f.folds(), f.out()), ([Fold::Sum], RowOut::Once))) {
        return Ok(None);
    }
    let shape = x[0].layout.shape();
    let n: usize = shape[kept..].iter().product();
    let Some(mut sums) = C::sums_abreast(d, f.name(), &x[0], kept)? else { return Ok(None) };
    let (loops, length) = (C::loops(f), C::lit(n as f64));
    let (mut folded, mut s) = ([C::POSITIVE_ZERO; TERM_CHUNK], no_statistics());
    for sums in sums.chunks_mut(TERM_CHUNK) {
        folded[..sums.len()].copy_from_slice(sums);
        s[0].fill(C::POSITIVE_ZERO);
        loops.finish(d.isa(), 0, sums.len(), &folded, &mut s, length);
        loops.once(d.isa(), sums.len(), &s, length, &mut folded);
        sums.copy_from_slice(&folded[..sums.len()]);
    }
    Ok(Some(sums))
}

/// The results, row by row.
fn one_by_one<C: Float>(
    d: &CpuDevice,
    f: &dyn RowObject,
    x: &[View<'_>],
    kept: usize,
    dtype: DType,
) -> Result<HostData> {
    let dims = x[0].layout.shape().dims();
    let (rows, n): (usize, usize) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let (folds, out) = (f.folds(), f.out());
    let each = out == RowOut::Each;
    let width = out.width(n, folds.len());
    let copies: Vec<_> = x.iter().map(|x| row_major_copy::<C>(d, f.name(), x)).collect::<Result<_>>()?;
    let x: Vec<StagedView<'_, C>> =
        x.iter().zip(&copies).map(|(x, copy)| staged(f.name(), x, copy)).collect::<Result<_>>()?;
    let work = RowwiseWork {
        isa: d.isa(),
        f: C::loops(f),
        folds,
        out,
        is_plain: f.is_plain(),
        keeps_terms: f.keeps_terms(),
        x: &x,
        n,
        length: C::lit(n as f64),
    };
    let passes = (folds.len() + usize::from(each)) as f64;
    if n > 2 * BLOCK && rows < 4 * d.threads() {
        // Few long rows: threads share the blocks of each.
        let mut all = elinvar_core::host::filled(rows, no_statistics::<C>())?;
        for (row, s) in all.iter_mut().enumerate() {
            for k in 0..folds.len() {
                let mut blocks = filled(n.div_ceil(BLOCK), C::POSITIVE_ZERO)?;
                let of = &*s;
                try_for_each_piece(d, &mut blocks, 4, BLOCK as f64 * NS_PER_ELEMENT, &|first, part| {
                    let (mut s, mut scratch) = (*of, RowScratch::new());
                    for (b, y) in part.iter_mut().enumerate() {
                        *y = work.fold(k, row * n, (first + b) * BLOCK, &mut s, &mut scratch, 0)?;
                    }
                    Ok::<(), Error>(())
                })?;
                work.finish(k, &blocks, s);
            }
        }
        if !each {
            let mut y = with_capacity(rows * width)?;
            for s in &all {
                y.extend_from_slice(&work.of_row(s)[..width]);
            }
            return C::stored(d, y, dtype);
        }
        return C::pieces(d, rows * n, (1, 4 * BLOCK), NS_PER_ELEMENT, dtype, &|mut at, dst| {
            let mut scratch = RowScratch::new();
            while dst.remaining() > 0 {
                let some = (n - at % n).min(dst.remaining());
                work.write(at, some, &all[at / n], None, dst, &mut scratch)?;
                at += some;
            }
            Ok(())
        });
    }
    // Several tasks for each thread, as one that is late should not be waited for; each makes
    // buffers of its own.
    let task = (rows * n / (8 * d.threads())).clamp(*TASK_ELEMENTS.start(), *TASK_ELEMENTS.end());
    let together = (task / n.max(1)).max(1);
    let ns = passes * NS_PER_ELEMENT * n as f64 / width as f64;
    C::pieces(d, rows * width, (width, together * width), ns, dtype, &|first, dst| {
        let mut scratch = RowScratch::new();
        let mut row = first / width;
        while dst.remaining() > 0 {
            if n > BLOCK {
                work.long(row, dst, &mut scratch)?;
                row += 1;
            } else {
                row += work.short(row, dst.remaining() / width, dst, &mut scratch)?;
            }
        }
        Ok(())
    })
}

/// Are a plain formula's first terms its first operand?
fn first_term_is_first_operand<C: Float>(f: &dyn RowObject) -> bool {
    let x: [[C; 1]; MAX_ROW_OPERANDS] = std::array::from_fn(|i| [C::lit(i as f64 + 2.0)]);
    let x: Vec<&[C]> = x[..f.arity()].iter().map(|x| &x[..]).collect();
    let mut term = [C::POSITIVE_ZERO];
    C::plain_rows(f).term(0, &x, [C::lit(0.5); STATS], C::lit(3.0), &mut term);
    term[0] == x[0][0]
}
