//! f32 and f64 as the types in which float reductions are computed, and the folds of both by name.

use super::block;
use super::columns;
use super::combine::{Combine, each_fold, join_blocks, reduce_16_lanes};
use super::plan::thresholds::INLINE_SUM_MAX_TERMS;
use super::source::{ReduceElement, StagedView};
use crate::CpuDevice;
use crate::elementwise::convert::{self, store};
use crate::elementwise::real::Real;
use crate::runtime::output::parallel_fill::FillFrom;
use crate::runtime::output::parallel_fill::fill_pieces;
use crate::view::View;
use elinvar_core::{DType, Element, HostData, HostVec, Result};
use elinvar_ops::backend::Fold;
use elinvar_ops::fold::Sum;
use elinvar_simd::compiled_rows::RowFloat;
use elinvar_simd::isa::Isa;

/// f32 or f64.
pub(crate) trait Float: Real + ReduceElement + RowFloat + PartialOrd {
    /// Zero, positive.
    const POSITIVE_ZERO: Self;
    /// The fold of at most a block of terms.
    fn block(isa: Isa, f: Fold, terms: &[Self]) -> Self;
    /// The fold of at most a block of terms, if they need not be copied first.
    fn in_place(isa: Isa, f: Fold, x: &StagedView<'_, Self>, start: usize, len: usize) -> Option<Self>;
    /// The sum of each row of a view, of which the first `kept` axes are the rows, if these had
    /// better go side by side.
    ///
    /// # Errors
    /// `DTypeMismatch` if its elements are no such numbers; `OutOfMemory`.
    fn sums_abreast(d: &CpuDevice, what: &str, x: &View<'_>, kept: usize) -> Result<Option<HostVec<Self>>>;
    /// The sum of a few terms, filled up with zeros.
    fn few(terms: [Self; INLINE_SUM_MAX_TERMS]) -> Self;
    /// The sum of each of some rows of `n` terms, at most a block, one row after the other.
    fn sum_rows(isa: Isa, terms: &[Self], n: usize, sums: &mut [Self]);
    /// Results of blocks, joined.
    fn join(f: Fold, blocks: &[Self]) -> Self;
    /// Results as they are stored: 16-bit types are rounded once.
    ///
    /// # Errors
    /// `DTypeMismatch` for a type that the op should have converted; `OutOfMemory`.
    fn stored(d: &CpuDevice, v: HostVec<Self>, to: DType) -> Result<HostData>;
    /// As many results, made in pieces, as they are stored: of storage floats no array is made
    /// first. `cut`: parts of a piece are multiples of the first number; pieces have as many as the
    /// second says.
    ///
    /// # Errors
    /// As for [`Float::stored`]; those of `f`.
    fn pieces(
        d: &CpuDevice,
        len: usize,
        cut: (usize, usize),
        ns: f64,
        to: DType,
        f: &FillFrom<'_, Self>,
    ) -> Result<HostData>;
}

macro_rules! float {
    ($t:ty, $store:expr, $pieces:expr) => {
        impl Float for $t {
            const POSITIVE_ZERO: $t = 0.0;
            fn block(isa: Isa, f: Fold, terms: &[$t]) -> $t {
                each_fold!(f, F => <F as Combine<$t>>::block(isa, terms, false))
            }
            fn in_place(isa: Isa, f: Fold, x: &StagedView<'_, $t>, start: usize, len: usize) -> Option<$t> {
                each_fold!(f, F => block::fold_in_place::<$t, F>(isa, x, start, len, false))
            }
            fn sums_abreast(
                d: &CpuDevice,
                what: &str,
                x: &View<'_>,
                kept: usize,
            ) -> Result<Option<HostVec<$t>>> {
                columns::fold::<$t, Sum>(d, what, x, kept)
            }
            #[inline(always)]
            fn few(terms: [$t; INLINE_SUM_MAX_TERMS]) -> $t {
                // Lanes start from +0.
                reduce_16_lanes::<$t, Sum>(terms.map(|t| 0.0 + t))
            }
            fn sum_rows(isa: Isa, terms: &[$t], n: usize, sums: &mut [$t]) {
                <Sum as Combine<$t>>::rows(isa, terms, n, false, sums);
            }
            fn join(f: Fold, blocks: &[$t]) -> $t {
                each_fold!(f, F => join_blocks::<$t, F>(blocks))
            }
            fn stored(d: &CpuDevice, v: HostVec<$t>, to: DType) -> Result<HostData> {
                $store(d, v, to)
            }
            fn pieces(
                d: &CpuDevice,
                len: usize,
                (unit, piece): (usize, usize),
                ns: f64,
                to: DType,
                f: &FillFrom<'_, $t>,
            ) -> Result<HostData> {
                if to == <$t>::DTYPE {
                    return Ok(<$t>::wrap(fill_pieces(d, len, piece, ns, f)?));
                }
                $pieces(d, [len, unit, piece], ns, to, f)
            }
        }
    };
}
float!(f32, convert::stored, convert::in_pieces);
float!(f64, |_, v, to| store(v, to), |_, _, _, to, _| store(HostVec::<f64>::new(), to));

/// Runs the body with the type alias `$C` bound to the type in which a float dtype is computed.
macro_rules! each_float {
    ($what:expr, $dtype:expr, $C:ident => $body:expr) => {
        match $dtype {
            elinvar_core::DType::F32 | elinvar_core::storage!(DType) => {
                type $C = f32;
                $body
            }
            elinvar_core::DType::F64 => {
                type $C = f64;
                $body
            }
            d @ (elinvar_core::DType::I64
            | elinvar_core::DType::I32
            | elinvar_core::DType::U8
            | elinvar_core::DType::Bool) => Err($crate::reduce::not_float($what, d)),
        }
    };
}
pub(crate) use each_float;
