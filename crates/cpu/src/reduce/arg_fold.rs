//! argmax and argmin per row: the extreme of each block by vectors, then its first position in the
//! first block that has it.
//!
//! Strided rows and short ones are compared element by element, many rows at a time ([`columns`]).

use super::columns;
use super::combine::Combine;
use super::plan::{self, ArgFoldPlan, ReduceProblem};
use super::source::{ReduceElement, row_major_copy, staged};
use crate::CpuDevice;
use crate::machine::Machine;
use crate::runtime::memory::filled;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use elinvar_core::explain::explain;
use elinvar_core::order::BLOCK;
use elinvar_core::{DType, HostData, Result, storage};
use elinvar_ops::backend::ArgFold;
use elinvar_ops::fold::{Max, Min};
use elinvar_simd::isa::{Kernel, dispatch};

/// The index of the first largest or smallest element of each row; the first NaN wins; zeros are
/// equal.
pub(crate) fn arg_fold(d: &CpuDevice, f: ArgFold, x: &View<'_>, kept: usize) -> Result<HostData> {
    match x.buffer.dtype() {
        DType::F32 | storage!(DType) => typed::<f32>(d, f, x, kept),
        DType::F64 => typed::<f64>(d, f, x, kept),
        DType::I64 => typed::<i64>(d, f, x, kept),
        DType::I32 => typed::<i32>(d, f, x, kept),
        DType::U8 => typed::<u8>(d, f, x, kept),
        DType::Bool => typed::<bool>(d, f, x, kept),
    }
}

fn typed<T: ReduceElement + PartialOrd>(
    d: &CpuDevice,
    f: ArgFold,
    x: &View<'_>,
    kept: usize,
) -> Result<HostData>
where
    Max: Combine<T>,
    Min: Combine<T>,
{
    let plan = plan::arg_fold(ReduceProblem::of::<T>(x, kept), &Machine::of(d));
    explain(|| format!("arg_fold {} from axis {kept} -> {plan}", x.layout.shape()));
    match plan {
        ArgFoldPlan::Columns { layout, chunks_per_task, reads_in_place } => {
            columns::arg_fold::<T>(d, f, x, &layout, chunks_per_task, reads_in_place).map(HostData::I64)
        }
        ArgFoldPlan::Rows { rows_per_task } => match f {
            ArgFold::Max => find::<T, Max>(d, x, kept, rows_per_task, |a, b| a > b),
            ArgFold::Min => find::<T, Min>(d, x, kept, rows_per_task, |a, b| a < b),
        },
    }
}

/// Not equal to itself?
#[inline(always)]
#[allow(clippy::eq_op, reason = "that is what a NaN is")]
fn is_nan<T: PartialEq>(v: T) -> bool {
    v != v
}

/// Where a number is first in a row that has it, or a NaN if it is one.
struct FindPlace<'a, T> {
    row: &'a [T],
    of: T,
}

impl<T: PartialEq + Copy> Kernel for FindPlace<'_, T> {
    type Out = usize;
    #[inline(always)]
    fn run(self) -> usize {
        let of = self.of;
        // Not one test for both: three operations for each number where one will do.
        if is_nan(of) { first(self.row, is_nan) } else { first(self.row, |v| v == of) }
    }
}

/// The first place in a row that has one of which something is true.
#[inline(always)]
fn first<T: Copy>(row: &[T], is: impl Fn(T) -> bool + Copy) -> usize {
    /// Elements that are looked at together: four registers of AVX-512 of f32.
    const ELEMENTS_PER_STEP: usize = 64;
    let (whole, rest) = row.as_chunks::<ELEMENTS_PER_STEP>();
    let at = whole.iter().take_while(|chunk| !chunk.iter().fold(false, |any, &v| any | is(v))).count()
        * ELEMENTS_PER_STEP;
    let last = if at < whole.len() * ELEMENTS_PER_STEP { &row[at..][..ELEMENTS_PER_STEP] } else { rest };
    at + last.iter().position(|&v| is(v)).unwrap_or(0)
}

fn find<T: ReduceElement + PartialOrd, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
    kept: usize,
    rows_per_task: usize,
    better: impl Fn(T, T) -> bool + Sync,
) -> Result<HostData> {
    let dims = x.shape().dims();
    let n: usize = dims[kept..].iter().product();
    let mut out = filled(dims[..kept].iter().product(), 0i64)?;
    let copy = row_major_copy::<T>(d, "an index of an extreme", x)?;
    let stage = staged::<T>("an index of an extreme", x, &copy)?;
    for_each_piece(d, &mut out, rows_per_task, n as f64 * 0.3, &|first, part| {
        let (mut buffer, from_memory) = ([F::init(); BLOCK], stage.is_read_in_place());
        for (i, out) in part.iter_mut().enumerate() {
            let mut best: Option<(T, usize)> = None;
            for start in (0..n).step_by(BLOCK) {
                let len = BLOCK.min(n - start);
                let row = stage.block(d.isa(), (first + i) * n + start, len, len, &mut buffer);
                let top = F::block(d.isa(), row, from_memory);
                if best.is_none_or(|(b, _)| better(top, b) || (is_nan(top) && !is_nan(b))) {
                    best = Some((top, start + dispatch(d.isa(), FindPlace { row, of: top })));
                }
            }
            *out = best.map_or(0, |(_, place)| place as i64);
        }
    });
    Ok(HostData::I64(out))
}
