//! Row-wise formulas of one statistic whose rows are columns in memory: the mean over a batch, the gradient of a norm's weight.
//!
//! Terms are written as their operands lie, and folded side by side. Turning the operands first took longer than all of that.

use super::columns::Columns;
use super::float::Float;
use super::rows::{Scratch, Work};
use super::stage::Stage;
use super::terms::WINDOW;
use crate::CpuDevice;
use crate::View;
use crate::memory::filled;
use crate::simd::room::fresh_pieces;
use elinvar_core::order::BLOCK;
use elinvar_core::{Dims, HostVec, Layout, Result};
use elinvar_ops::backend::Fold;
use elinvar_ops::rows::{RowOut, Rows, STATS};

/// Nanoseconds for a term.
const NS: f64 = 0.3;

/// A value for each row, if the formula is of this kind and the rows of the operands, of which the first `kept` axes are the rows,
/// lie so.
pub(super) fn rows<C: Float, R: Rows<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Option<HostVec<C>>> {
    if const { !matches!((R::FOLDS, R::OUT), ([Fold::Sum], RowOut::Once)) } {
        return Ok(None);
    }
    let shape = x[0].layout.shape();
    let (rows, n): (usize, usize) = (shape[..kept].iter().product(), shape[kept..].iter().product());
    if n == 0 {
        return Ok(None);
    }
    let Some(columns) = Columns::<C>::new(R::NAME, &x[0], kept)? else { return Ok(None) };
    let mut sums = filled(rows, C::NOTHING)?;
    if R::PLAIN {
        C::sum_columns(d, &columns, n, &mut sums)?;
    } else {
        let Some(terms) = terms::<C, R, N>(d, r, x, kept)? else { return Ok(None) };
        // Its axes once more as those of the operands.
        let (folded, order) = (shape.rank() - kept, upright(shape.rank(), kept));
        let back: Dims = (folded..shape.rank()).chain(0..folded).collect();
        let layout = x[0].layout.permute(&order);
        let layout = Layout::contiguous(layout.shape().clone()).permute(&back);
        let (dtype, terms) = (C::DTYPE, C::wrap(terms));
        let terms = View { buffer: &terms, layout: &layout, dtype };
        let Some(columns) = Columns::<C>::new(R::NAME, &terms, kept)? else { return Ok(None) };
        C::sum_columns(d, &columns, n, &mut sums)?;
    }
    let (nan, length) = ([C::lit(f64::NAN); N], C::lit(n as f64));
    for sum in &mut sums {
        let mut s = [C::NOTHING; STATS];
        s[0] = r.finish(0, *sum, s, length);
        *sum = r.out(nan, s, length);
    }
    Ok(Some(sums))
}

/// The axes with those of the rows last.
fn upright(rank: usize, kept: usize) -> Dims {
    (kept..rank).chain(0..kept).collect()
}

/// The terms in the order of the upright axes, if all operands are read so.
fn terms<C: Float, R: Rows<N>, const N: usize>(
    d: &CpuDevice,
    r: &R,
    x: &[View<'_>; N],
    kept: usize,
) -> Result<Option<HostVec<C>>> {
    let shape = x[0].layout.shape();
    let order = upright(shape.rank(), kept);
    let layouts = x.each_ref().map(|x| x.layout.permute(&order));
    let x: Vec<Stage<'_, C>> = x
        .iter()
        .zip(&layouts)
        .map(|(x, layout)| Stage::new(R::NAME, &View { buffer: x.buffer, layout, dtype: x.dtype }))
        .collect::<Result<_>>()?;
    let width = shape[kept - 1];
    // Where an operand is one number for some columns, no more than these go together.
    let most = if x.iter().any(|x| x.repeats(width)) { width } else { shape.numel() };
    if most < WINDOW || !x.iter().all(Stage::is_straight) {
        return Ok(None);
    }
    let length = C::lit((shape[kept..].iter().product::<usize>()) as f64);
    let work = Work { isa: d.isa(), r, x: std::array::from_fn(|k| &x[k]), n: width, length };
    let all = fresh_pieces(d, shape.numel(), 4 * BLOCK, NS, &|mut at, room| {
        let mut scratch = Scratch::new();
        while room.left() > 0 {
            let some = BLOCK.min(room.left()).min(most - at % most);
            room.copy(work.first_terms(at, some, &mut scratch)?);
            at += some;
        }
        Ok(())
    })?;
    Ok(Some(all))
}
