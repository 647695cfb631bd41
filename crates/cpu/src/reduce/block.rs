//! Block reduce: each way of combining terms of each type, by the kernels that it has.

use super::combine::{BlockFold, Combine};
use super::kernels::block::{ROW_TERMS_IN_REGISTERS, VectorFolds};
#[cfg(target_arch = "x86_64")]
use super::kernels::f16_sums;
use super::plan::thresholds::MAX_PARTS_IN_PLACE;
use super::source::{ReduceElement, StagedView};
#[cfg(target_arch = "x86_64")]
use elinvar_core::HostData;
use elinvar_ops::fold::{Max, Min, Prod, Sum};
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;
use elinvar_simd::isa::{Isa, dispatch_formula};
use std::marker::PhantomData;

macro_rules! float {
    ($($t:ty { $($f16:item)* })*) => {$(
        impl Combine<$t> for Sum {
            #[inline(always)]
            fn init() -> $t { 0.0 }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a + b }
            #[inline(always)]
            fn neutral() -> $t { -0.0 }
            #[inline]
            fn block(isa: Isa, terms: &[$t], from_memory: bool) -> $t {
                if terms.len() <= 16 { dispatch_formula::<$t, _>(isa, BlockFold { terms, f: PhantomData::<Sum> }) } else { <$t as VectorFolds>::sum(isa, terms, from_memory) }
            }
            #[inline]
            fn rows(isa: Isa, x: &[$t], n: usize, from_memory: bool, out: &mut [$t]) {
                if ROW_TERMS_IN_REGISTERS.contains(&n) {
                    return <$t as VectorFolds>::sum_rows(isa, x, n, out);
                }
                for (row, out) in x.chunks_exact(n).zip(out) {
                    *out = Self::block(isa, row, from_memory);
                }
            }
            #[inline]
            fn block_of(isa: Isa, parts: &[&[$t]]) -> Option<$t> {
                Some(<$t as VectorFolds>::sum_of(isa, parts))
            }
            $($f16)*
        }
        impl Combine<$t> for Prod {
            #[inline(always)]
            fn init() -> $t { 1.0 }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a * b }
        }
        impl Combine<$t> for Max {
            #[inline(always)]
            fn init() -> $t { <$t>::NEG_INFINITY }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { Lane::max(a, b) }
            #[inline]
            fn block(isa: Isa, terms: &[$t], from_memory: bool) -> $t {
                match <$t as VectorFolds>::largest(isa, terms, from_memory) {
                    Some(extreme) => extreme,
                    None => dispatch_formula::<$t, _>(isa, BlockFold { terms, f: PhantomData::<Max> }),
                }
            }
            #[inline(always)]
            fn quick_extreme(a: $t, b: $t) -> $t { if b > a { b } else { a } }
            #[inline(always)]
            fn no_doubt() -> $t { 0.0 }
            // A sum is NaN if a term was (or if infinities of both signs were).
            #[inline(always)]
            fn doubt(doubt: $t, b: $t) -> $t { doubt + b }
            #[inline(always)]
            fn is_sure(a: $t, doubt: $t) -> bool { !doubt.is_nan() && a != 0.0 }
        }
        impl Combine<$t> for Min {
            #[inline(always)]
            fn init() -> $t { <$t>::INFINITY }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { Lane::min(a, b) }
            #[inline]
            fn block(isa: Isa, terms: &[$t], from_memory: bool) -> $t {
                match <$t as VectorFolds>::smallest(isa, terms, from_memory) {
                    Some(extreme) => extreme,
                    None => dispatch_formula::<$t, _>(isa, BlockFold { terms, f: PhantomData::<Min> }),
                }
            }
            #[inline(always)]
            fn quick_extreme(a: $t, b: $t) -> $t { if b < a { b } else { a } }
            #[inline(always)]
            fn no_doubt() -> $t { 0.0 }
            // A sum is NaN if a term was (or if infinities of both signs were).
            #[inline(always)]
            fn doubt(doubt: $t, b: $t) -> $t { doubt + b }
            #[inline(always)]
            fn is_sure(a: $t, doubt: $t) -> bool { !doubt.is_nan() && a != 0.0 }
        }
    )*};
}
float! {
    f32 {
        #[cfg(target_arch = "x86_64")]
        #[inline]
        fn add_f16_terms(
            isa: Isa,
            data: &HostData,
            base: usize,
            places: impl Iterator<Item = isize> + Clone,
            sums: &mut [f32],
        ) -> bool {
            match data {
                HostData::F16(v) => f16_sums::add_f16_terms(isa, v, base, places, sums),
                HostData::BF16(v) => f16_sums::add_f16_terms(isa, v, base, places, sums),
                _ => false,
            }
        }
        #[cfg(target_arch = "x86_64")]
        #[inline]
        fn sum_f16_rows(isa: Isa, data: &HostData, at: usize, n: usize, sums: &mut [f32]) -> bool {
            let end = at + n * sums.len();
            match data {
                HostData::F16(v) => f16_sums::sum_f16_rows(isa, &v[at..end], n, sums),
                HostData::BF16(v) => f16_sums::sum_f16_rows(isa, &v[at..end], n, sums),
                _ => false,
            }
        }
    }
    f64 {}
}

impl Combine<i64> for Sum {
    #[inline(always)]
    fn init() -> i64 {
        0
    }
    #[inline(always)]
    fn combine(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
}
impl Combine<i64> for Prod {
    #[inline(always)]
    fn init() -> i64 {
        1
    }
    #[inline(always)]
    fn combine(a: i64, b: i64) -> i64 {
        a.wrapping_mul(b)
    }
}
macro_rules! ordered {
    ($($t:ty: $least:expr, $greatest:expr;)*) => {$(
        impl Combine<$t> for Max {
            #[inline(always)]
            fn init() -> $t { $least }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { Int::max(a, b) }
        }
        impl Combine<$t> for Min {
            #[inline(always)]
            fn init() -> $t { $greatest }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { Int::min(a, b) }
        }
    )*};
}
ordered! { i64: i64::MIN, i64::MAX; i32: i32::MIN, i32::MAX; u8: 0, 255; bool: false, true; }

/// The fold of the `len` terms from `start` on, at most a block, if they need not be copied first;
/// `from_memory`: as for [`Combine::block`].
pub(crate) fn fold_in_place<T: ReduceElement, F: Combine<T>>(
    isa: Isa,
    x: &StagedView<'_, T>,
    start: usize,
    len: usize,
    from_memory: bool,
) -> Option<T> {
    match x.padded(start, len, len) {
        Some(terms) => Some(F::block(isa, terms, from_memory)),
        None => F::block_of(isa, &x.parts::<MAX_PARTS_IN_PLACE>(start, len)?),
    }
}
