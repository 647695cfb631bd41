//! f32 and f64 as compute types: how numbers are read from storage and written back, and drawn.

use super::convert;
use elinvar_core::philox::{unit_f32, unit_f64};
use elinvar_core::{Element, Error, HostData, Result, bf16, f16};
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
    /// Fills a block from 16 bits. f64 is never stored so.
    fn widen(isa: Isa, from: &StoredElementsMut<'_, Self>, to: &mut [Self]);
    /// Rounds a block to 16 bits.
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
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) | HostData::Bool(_) => {
                None
            }
        }
    }
    fn numbers_mut(data: &mut HostData) -> Option<StoredElementsMut<'_, f32>> {
        match data {
            HostData::F32(v) => Some(StoredElementsMut::Native(v)),
            HostData::F16(v) => Some(StoredElementsMut::F16(v)),
            HostData::BF16(v) => Some(StoredElementsMut::BF16(v)),
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) | HostData::Bool(_) => {
                None
            }
        }
    }
    fn widen(isa: Isa, from: &StoredElementsMut<'_, f32>, to: &mut [f32]) {
        match from {
            StoredElementsMut::Native(_) => unreachable!("they are changed in place"),
            StoredElementsMut::F16(x) => convert::from_f16(isa, x, &mut UninitSlice::over(to)),
            StoredElementsMut::BF16(x) => convert::from_bf16(isa, x, &mut UninitSlice::over(to)),
        }
    }
    fn narrow(isa: Isa, from: &[f32], to: &mut StoredElementsMut<'_, f32>) {
        match to {
            StoredElementsMut::Native(_) => unreachable!("they are changed in place"),
            StoredElementsMut::F16(x) => convert::to_f16(isa, from, &mut UninitSlice::over(x)),
            StoredElementsMut::BF16(x) => convert::to_bf16(isa, from, &mut UninitSlice::over(x)),
        }
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
            | HostData::F16(_)
            | HostData::BF16(_)
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

/// The same, to be changed.
pub(crate) enum StoredElementsMut<'a, T> {
    Native(&'a mut [T]),
    F16(&'a mut [f16]),
    BF16(&'a mut [bf16]),
}

impl<'a, T> StoredElementsMut<'a, T> {
    /// The first `n`, taken off.
    pub(crate) fn take(&mut self, n: usize) -> StoredElementsMut<'a, T> {
        fn off<'a, S>(x: &mut &'a mut [S], n: usize) -> &'a mut [S] {
            x.split_off_mut(..n).expect("there are so many")
        }
        match self {
            StoredElementsMut::Native(x) => StoredElementsMut::Native(off(x, n)),
            StoredElementsMut::F16(x) => StoredElementsMut::F16(off(x, n)),
            StoredElementsMut::BF16(x) => StoredElementsMut::BF16(off(x, n)),
        }
    }
    /// Are they stored as they are computed?
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, StoredElementsMut::Native(_))
    }
}

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
