//! Folds along axes (sum, product, max, min), in the canonical order.
//!
//! Three paths, one order: contiguous rows are reduced by vectors in place; strided rows (the sum
//! over the columns of a matrix) are reduced many at a time ([`columns`]); any other row is copied
//! into a buffer block by block.

use super::block;
use super::columns;
use super::combine::{Combine, join_blocks};
use super::plan::thresholds::FOLD_NS_PER_ELEMENT;
use super::plan::{self, FoldPlan, ReduceProblem, RowFold};
use super::source::{ReduceElement, StagedView};
use crate::CpuDevice;
use crate::elementwise::convert::{store, stored};
use crate::machine::Machine;
use crate::runtime::memory::filled;
use crate::runtime::parallel::{for_each_piece, try_for_each_piece};
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::explain::explain;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, HostData, HostVec, Result, storage};
use elinvar_ops::fold::{Max, Min, Prod, Sum};

/// A function for each way of combining the elements of each row (the view's first `kept` axes
/// stay), so that a program has what it calls: one for all ways was a quarter of a megabyte.
macro_rules! fold_functions {
    ($($name:ident $F:ty: $($int:ident $($dtype:ident)|*),*;)*) => {$(
        pub(crate) fn $name(d: &CpuDevice, x: &View<'_>, kept: usize, to: DType) -> Result<HostData> {
            match x.buffer.dtype() {
                DType::F32 | storage!(DType) => stored(d, fold_view::<f32, $F>(d, x, kept)?, to),
                DType::F64 => store(fold_view::<f64, $F>(d, x, kept)?, to),
                $($(DType::$dtype)|* => store(fold_view::<$int, $F>(d, x, kept)?, to),)*
                #[allow(unreachable_patterns, reason = "some ways are for all types")]
                other => Err(misuse_error("a fold", other)),
            }
        }
    )*};
}
fold_functions! {
    float_sum Sum: ;
    sum Sum: i64 I64 | I32 | U8 | Bool;
    prod Prod: i64 I64 | I32 | U8 | Bool;
    max Max: i64 I64, i32 I32, u8 U8, bool Bool;
    min Min: i64 I64, i32 I32, u8 U8, bool Bool;
}

/// The fold of each row of a view.
fn fold_view<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
    kept: usize,
) -> Result<HostVec<T>> {
    let dims = x.layout.shape().dims();
    let (rows, n) = (dims[..kept].iter().product(), dims[kept..].iter().product());
    let plan = plan::fold(ReduceProblem::of::<T>(x, kept), &Machine::of(d));
    explain(|| format!("fold {} from axis {kept} -> {plan}", x.layout.shape()));
    match plan {
        FoldPlan::Empty => filled(rows, F::init()),
        FoldPlan::Columns(plan) => columns::planned_fold::<T, F>(d, "a fold", x, &plan),
        FoldPlan::Rows { path, from_memory } => {
            let mut out = filled(rows, F::init())?;
            by_rows::<T, F>(d, &StagedView::new("a fold", x)?, n, (path, from_memory), &mut out)?;
            Ok(out)
        }
    }
}

fn by_rows<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &StagedView<'_, T>,
    n: usize,
    (path, from_memory): (RowFold, bool),
    out: &mut [T],
) -> Result<()> {
    let blocks = n.div_ceil(BLOCK);
    let (group, piece) = match path {
        RowFold::SharedBlocks => return by_shared_blocks::<T, F>(d, x, n, from_memory, out),
        RowFold::Short { rows_per_read, rows_per_task } => (rows_per_read, rows_per_task),
        RowFold::Long { rows_per_task } => (1, rows_per_task),
    };
    try_for_each_piece(d, out, piece, n as f64 * FOLD_NS_PER_ELEMENT, &|first, part| {
        let mut buffer = [F::init(); BLOCK];
        if let RowFold::Short { .. } = path {
            for (i, part) in part.chunks_mut(group).enumerate() {
                let len = part.len() * n;
                if let Some((halves, at)) = x.stored((first + i * group) * n, len)
                    && F::sum_f16_rows(d.isa(), halves, at, n, part)
                {
                    continue;
                }
                let terms = x.block(d.isa(), (first + i * group) * n, len, len, &mut buffer);
                F::rows(d.isa(), terms, n, from_memory, part);
            }
            return Ok(());
        }
        let mut all = filled(blocks, F::init())?;
        for (i, out) in part.iter_mut().enumerate() {
            for (b, y) in all.iter_mut().enumerate() {
                let start = b * BLOCK;
                *y = fold_part::<T, F>(
                    d,
                    x,
                    (first + i) * n + start,
                    BLOCK.min(n - start),
                    from_memory,
                    &mut buffer,
                );
            }
            *out = join_blocks::<T, F>(&all);
        }
        Ok(())
    })
}

/// The folds of few long rows: threads share the blocks of each.
fn by_shared_blocks<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &StagedView<'_, T>,
    n: usize,
    from_memory: bool,
    out: &mut [T],
) -> Result<()> {
    let mut all = filled(n.div_ceil(BLOCK), F::init())?;
    for (row, out) in out.iter_mut().enumerate() {
        for_each_piece(d, &mut all, 16, BLOCK as f64 * FOLD_NS_PER_ELEMENT, &|first, part| {
            let mut buffer = [F::init(); BLOCK];
            for (b, y) in part.iter_mut().enumerate() {
                let start = (first + b) * BLOCK;
                *y = fold_part::<T, F>(d, x, row * n + start, BLOCK.min(n - start), from_memory, &mut buffer);
            }
        });
        *out = join_blocks::<T, F>(&all);
    }
    Ok(())
}

/// The fold of a block of `len` terms from `start` on.
fn fold_part<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &StagedView<'_, T>,
    start: usize,
    len: usize,
    from_memory: bool,
    buffer: &mut [T; BLOCK],
) -> T {
    block::fold_in_place::<T, F>(d.isa(), x, start, len, from_memory).unwrap_or_else(|| {
        let mut folded = [F::init()];
        if let Some((halves, at)) = x.stored(start, len)
            && F::sum_f16_rows(d.isa(), halves, at, len, &mut folded)
        {
            return folded[0];
        }
        x.read(d.isa(), start, &mut buffer[..len]);
        F::block(d.isa(), &buffer[..len], from_memory)
    })
}
