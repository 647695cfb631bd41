//! f32 and f64 as the compute types of GEMM and convolution; the generic loops are compiled here,
//! once for each.

use super::operand::StoredElements;
use super::plan::{Path, Plan};
use super::{BatchedMatrix, TileEpilogue, bf16, contract};
use crate::CpuDevice;
use crate::conv::{self, ConvGemm};
use crate::runtime::scratch::ScratchElement;
use elinvar_core::{HostData, HostVec, Result};
use elinvar_simd::dispatch::SimdFloat;
use elinvar_simd::vector::SimdElement;

/// f32 or f64: a type in which contractions are computed.
pub(crate) trait Real: SimdElement + SimdFloat + ScratchElement {
    /// Stored numbers that are computed in this type.
    fn numbers(data: &HostData) -> Option<StoredElements<'_, Self>>;
    /// A batch of products as its plan says: the generic function, compiled here once for each
    /// type. What calls it is generic over an epilogue and compiled in every crate that uses one,
    /// and would take all kernels along.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, Self>,
        rhs: &BatchedMatrix<'_, Self>,
        epilogue: &dyn TileEpilogue<Self>,
    ) -> Result<HostVec<Self>>;
    /// Weights times windows, for the same reason: see `conv::windows`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn conv_gemm(
        d: &CpuDevice,
        gemm: &ConvGemm<'_, Self>,
        epilogue: &dyn TileEpilogue<Self>,
    ) -> Result<HostVec<Self>>;
}

macro_rules! compiled_here {
    () => {
        fn conv_gemm(
            d: &CpuDevice,
            gemm: &ConvGemm<'_, Self>,
            epilogue: &dyn TileEpilogue<Self>,
        ) -> Result<HostVec<Self>> {
            conv::run_conv_gemm(d, gemm, epilogue)
        }
    };
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
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, f32>,
        rhs: &BatchedMatrix<'_, f32>,
        epilogue: &dyn TileEpilogue<f32>,
    ) -> Result<HostVec<f32>> {
        match plan.path {
            Path::Bf16 { a_in_place, b_in_place, gemm } => {
                bf16::run_bf16(d, plan.sizes, lhs, rhs, epilogue, (a_in_place, b_in_place), gemm)
            }
            path => contract::run_path(d, plan.sizes, &path, lhs, rhs, epilogue),
        }
    }
    compiled_here!();
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
    fn products(
        d: &CpuDevice,
        plan: &Plan,
        lhs: &BatchedMatrix<'_, f64>,
        rhs: &BatchedMatrix<'_, f64>,
        epilogue: &dyn TileEpilogue<f64>,
    ) -> Result<HostVec<f64>> {
        contract::run_path(d, plan.sizes, &plan.path, lhs, rhs, epilogue)
    }
    compiled_here!();
}
