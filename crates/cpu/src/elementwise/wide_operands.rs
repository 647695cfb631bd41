//! Operands of products and convolutions that are storage floats of one byte, for which there are
//! no kernels.
//!
//! They become f32 first, and the result is rounded once in the end: to the bit what kernels would
//! do that load and store the dtype itself. `Precision::Fast`, which is of bf16, changes nothing.

use super::cast::cast_halves;
use crate::view::{View, host_view};
use crate::{Cpu, CpuBuffer, CpuDevice};
use elinvar_core::{DType, Float8, Layout, Precision, Result, Shape};
use elinvar_ops::backend::{self, Conv};

type BackendView<'a> = backend::View<'a, Cpu>;

/// The two factors, and the operands of the epilogue.
pub(crate) struct WideOperands<'a> {
    /// That of the result.
    dtype: DType,
    factors: [WideOperand<'a>; 2],
    extra: Vec<WideOperand<'a>>,
}

enum WideOperand<'a> {
    AsItIs(BackendView<'a>),
    Wide(CpuBuffer, Layout),
}

impl<'a> WideOperand<'a> {
    fn of(d: &CpuDevice, v: &BackendView<'a>) -> Result<Self> {
        if Float8::of(v.dtype).is_none() {
            return Ok(WideOperand::AsItIs(*v));
        }
        let wide = CpuBuffer::new(cast_halves(d, &host_view(v)?, DType::F32)?);
        Ok(WideOperand::Wide(wide, Layout::contiguous(v.layout.shape().clone())))
    }
    fn view(&self) -> BackendView<'_> {
        match self {
            WideOperand::AsItIs(v) => *v,
            WideOperand::Wide(buffer, layout) => BackendView { buffer, layout, dtype: DType::F32 },
        }
    }
}

impl<'a> WideOperands<'a> {
    /// `None` if factors of this dtype have kernels.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn of(
        d: &CpuDevice,
        dtype: DType,
        factors: [BackendView<'a>; 2],
        extra: &[BackendView<'a>],
    ) -> Result<Option<Self>> {
        if Float8::of(dtype).is_none() {
            return Ok(None);
        }
        let [x, w] = &factors;
        let factors = [WideOperand::of(d, x)?, WideOperand::of(d, w)?];
        let extra = extra.iter().map(|v| WideOperand::of(d, v)).collect::<Result<_>>()?;
        Ok(Some(WideOperands { dtype, factors, extra }))
    }
    /// The factors, of f32.
    pub(crate) fn factors(&self) -> [BackendView<'_>; 2] {
        self.factors.each_ref().map(WideOperand::view)
    }
    /// The operands of the epilogue, of f32.
    pub(crate) fn extra(&self) -> Vec<BackendView<'_>> {
        self.extra.iter().map(WideOperand::view).collect()
    }
    /// The result as it is stored.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn narrow(&self, d: &CpuDevice, y: &CpuBuffer) -> Result<CpuBuffer> {
        let buffer = y.data()?;
        let layout = Layout::contiguous(Shape::new(&[buffer.len()])?);
        let y = View { buffer, layout: &layout, dtype: DType::F32 };
        Ok(CpuBuffer::new(cast_halves(d, &y, self.dtype)?))
    }
}

/// The same convolution, with [`Precision::Exact`].
pub(crate) fn exact(c: &Conv) -> Conv {
    Conv { precision: Precision::Exact, ..c.clone() }
}
