//! f32 and f64 as the compute types of GEMM, convolution and attention.

use elinvar_core::{Error, HostData, Result, bf16, f16};
use elinvar_simd::compiled_epilogue::EpilogueFloat;
use elinvar_simd::vector::SimdElement;

/// f32 or f64: a type in which contractions are computed.
pub(crate) trait Real: SimdElement + EpilogueFloat {
    /// Stored numbers that are computed in this type.
    fn numbers(data: &HostData) -> Option<StoredElements<'_, Self>>;
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
}

/// Stored numbers that are computed as `T`.
#[derive(Clone, Copy)]
pub(crate) enum StoredElements<'a, T> {
    Native(&'a [T]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
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
