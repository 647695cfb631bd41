//! For backends: operands of products and convolutions whose dtype has no kernels there, which are
//! the storage floats of one byte.
//!
//! They become f32 first, and the result is rounded once in the end: to the bit what kernels would
//! do that load and store the dtype itself.

use crate::Backend;
use crate::backend::View;
use crate::casting::Halves;
use elinvar_core::{DType, Float8, Layout, Result, Shape};

/// The two factors, and the operands of the epilogue.
pub struct WideOperands<'a, B: Backend> {
    /// That of the result.
    dtype: DType,
    factors: [WideOperand<'a, B>; 2],
    extra: Vec<WideOperand<'a, B>>,
}

enum WideOperand<'a, B: Backend> {
    AsItIs(View<'a, B>),
    Wide(B::Buffer, Layout),
}

impl<'a, B: Backend> WideOperand<'a, B> {
    fn of(d: &B::Device, v: View<'a, B>) -> Result<Self> {
        if Float8::of(v.dtype).is_none() {
            return Ok(WideOperand::AsItIs(v));
        }
        let layout = Layout::contiguous(v.layout.shape().clone());
        Ok(WideOperand::Wide(B::cast::<Halves>(d, v, DType::F32)?, layout))
    }
    fn view(&self) -> View<'_, B> {
        match self {
            WideOperand::AsItIs(v) => *v,
            WideOperand::Wide(buffer, layout) => View { buffer, layout, dtype: DType::F32 },
        }
    }
}

impl<'a, B: Backend> WideOperands<'a, B> {
    /// `None` if factors of this dtype have kernels.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn of(
        d: &B::Device,
        dtype: DType,
        [x, w]: [View<'a, B>; 2],
        extra: &[View<'a, B>],
    ) -> Result<Option<Self>> {
        if Float8::of(dtype).is_none() {
            return Ok(None);
        }
        let factors = [WideOperand::of(d, x)?, WideOperand::of(d, w)?];
        let extra = extra.iter().map(|v| WideOperand::of(d, *v)).collect::<Result<_>>()?;
        Ok(Some(WideOperands { dtype, factors, extra }))
    }
    /// The factors, of f32.
    pub fn factors(&self) -> [View<'_, B>; 2] {
        self.factors.each_ref().map(WideOperand::view)
    }
    /// The operands of the epilogue, of f32.
    pub fn extra(&self) -> Vec<View<'_, B>> {
        self.extra.iter().map(WideOperand::view).collect()
    }
    /// The result, of these sizes together, as it is stored.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn narrow(&self, d: &B::Device, y: B::Buffer, sizes: &[&[usize]]) -> Result<B::Buffer> {
        let layout = Layout::contiguous(Shape::new(&[sizes.iter().copied().flatten().product()])?);
        B::cast::<Halves>(d, View { buffer: &y, layout: &layout, dtype: DType::F32 }, self.dtype)
    }
}
