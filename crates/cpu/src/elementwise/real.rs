//! f32 and f64 as compute types: how numbers are read from storage and written back, and drawn.

use super::convert::StoredFloat;
use elinvar_core::philox::{unit_f32, unit_f64};
use elinvar_core::{Element, Error, HostData, Result, bf16, f16, float8, storage};
use elinvar_simd::compiled_epilogue::EpilogueFloat;
use elinvar_simd::isa::Isa;
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::SimdElement;

/// f32 or f64: a type in which contractions, updates and random floats are computed.
pub(crate) trait Real: SimdElement + EpilogueFloat {
    /// Stored numbers that are computed in this type.
    fn numbers(data: &HostData) -> Option<StoredElements<'_, Self>>;
    /// The same, to be changed.
    fn numbers_mut(data: &mut HostData) -> Option<StoredElementsMut<'_, Self>>;
    /// Fills a block from a storage float. f64 is never stored so.
    fn widen(isa: Isa, from: &StoredElementsMut<'_, Self>, to: &mut [Self]);
    /// Rounds a block to a storage float.
    fn narrow(isa: Isa, from: &[Self], to: &mut StoredElementsMut<'_, Self>);
    /// Random words for one number.
    const RANDOM_WORDS: usize;
    /// Uniform number `i` of these words, in 0..1.
    fn unit(words: &[u32], i: usize) -> Self;
}

impl Real for f32 {
    fn numbers(data: &HostData) -> Option<StoredElements<'_, f32>> {
        match data {
            HostData::F32(v) => Some(StoredElements::Native(v)),
            HostData::F16(v) => Some(StoredElements::F16(v)),
            HostData::BF16(v) => Some(StoredElements::BF16(v)),
            float8!(HostData)
            | HostData::F64(_)
            | HostData::I64(_)
            | HostData::I32(_)
            | HostData::U8(_)
            | HostData::Bool(_) => None,
        }
    }
    fn numbers_mut(data: &mut HostData) -> Option<StoredElementsMut<'_, f32>> {
        StoredElementsMut::<f32>::of(data)
    }
    fn widen(isa: Isa, from: &StoredElementsMut<'_, f32>, to: &mut [f32]) {
        from.widen(isa, to);
    }
    fn narrow(isa: Isa, from: &[f32], to: &mut StoredElementsMut<'_, f32>) {
        to.narrow(isa, from);
    }
    const RANDOM_WORDS: usize = 1;
    #[inline(always)]
    fn unit(words: &[u32], i: usize) -> f32 {
        unit_f32(words[i])
    }
}

impl Real for f64 {
    fn numbers(data: &HostData) -> Option<StoredElements<'_, f64>> {
        match data {
            HostData::F64(v) => Some(StoredElements::Native(v)),
            HostData::F32(_)
            | storage!(HostData)
            | HostData::I64(_)
            | HostData::I32(_)
            | HostData::U8(_)
            | HostData::Bool(_) => None,
        }
    }
    fn numbers_mut(data: &mut HostData) -> Option<StoredElementsMut<'_, f64>> {
        f64::slice_mut(data).map(StoredElementsMut::Native)
    }
    fn widen(_: Isa, _: &StoredElementsMut<'_, f64>, _: &mut [f64]) {
        unreachable!("f64 is stored as it is")
    }
    fn narrow(_: Isa, _: &[f64], _: &mut StoredElementsMut<'_, f64>) {
        unreachable!("f64 is stored as it is")
    }
    const RANDOM_WORDS: usize = 2;
    #[inline(always)]
    fn unit(words: &[u32], i: usize) -> f64 {
        unit_f64(word64(words, i))
    }
}

/// Word `i` of 64 bits.
#[inline(always)]
pub(crate) fn word64(words: &[u32], i: usize) -> u64 {
    u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32
}

/// Stored numbers that are computed as `T`.
#[derive(Clone, Copy)]
pub(crate) enum StoredElements<'a, T> {
    Native(&'a [T]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
}

macro_rules! stored_elements_mut {
    (() half { $($half:tt)* } byte { $($byte:tt)* }) => { stored_elements_mut! { @ $($half)* $($byte)* } };
    (@ $($v:ident: $t:ident $row:tt)*) => {
        /// The same, to be changed.
        pub(crate) enum StoredElementsMut<'a, T> {
            Native(&'a mut [T]),
            $($v(&'a mut [elinvar_core::$t]),)*
        }

        impl<'a, T> StoredElementsMut<'a, T> {
            /// The first `n`, taken off.
            pub(crate) fn take(&mut self, n: usize) -> StoredElementsMut<'a, T> {
                fn off<'a, S>(x: &mut &'a mut [S], n: usize) -> &'a mut [S] {
                    x.split_off_mut(..n).expect("there are so many")
                }
                match self {
                    StoredElementsMut::Native(x) => StoredElementsMut::Native(off(x, n)),
                    $(StoredElementsMut::$v(x) => StoredElementsMut::$v(off(x, n)),)*
                }
            }
            /// Are they stored as they are computed?
            pub(crate) fn is_native(&self) -> bool {
                matches!(self, StoredElementsMut::Native(_))
            }
        }

        impl<'a> StoredElementsMut<'a, f32> {
            fn of(data: &'a mut HostData) -> Option<Self> {
                match data {
                    HostData::F32(v) => Some(StoredElementsMut::Native(v)),
                    $(HostData::$v(v) => Some(StoredElementsMut::$v(v)),)*
                    HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_)
                    | HostData::Bool(_) => None,
                }
            }
            fn widen(&self, isa: Isa, to: &mut [f32]) {
                match self {
                    StoredElementsMut::Native(_) => unreachable!("they are changed in place"),
                    $(StoredElementsMut::$v(x) => StoredFloat::widen(isa, x, &mut UninitSlice::over(to)),)*
                }
            }
            fn narrow(&mut self, isa: Isa, from: &[f32]) {
                match self {
                    StoredElementsMut::Native(_) => unreachable!("they are changed in place"),
                    $(StoredElementsMut::$v(x) => StoredFloat::narrow(isa, from, &mut UninitSlice::over(x)),)*
                }
            }
        }
    };
}
elinvar_core::storage_floats!([stored_elements_mut]());

/// The numbers in a buffer.
///
/// # Errors
/// `DTypeMismatch` if they are not computed in `T`.
pub(crate) fn stored_elements<T: Real>(data: &HostData) -> Result<StoredElements<'_, T>> {
    T::numbers(data).ok_or_else(|| {
        Error::dtype(format!(
            "cpu: a contraction in {} has an operand of {}; the op should have converted it first",
            T::DTYPE,
            data.dtype()
        ))
    })
}
