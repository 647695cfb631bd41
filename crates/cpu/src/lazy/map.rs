//! Elementwise maps: a formula at every element, with broadcast, strided and converted operands.
//!
//! A program has hundreds of formulas, so little is compiled for each: one loop over contiguous
//! slices per instruction set and compute type ([`SliceFormula`]). Everything else is shared
//! (`elementwise`). Large f32 maps are deferred ([`fusion`]).

use super::buffer::CpuBuffer;
use super::fusion;
use crate::elementwise::convert::ComputeElement;
use crate::elementwise::fill::{MAX_OPERANDS, SliceFormula, fill};
use crate::elementwise::operand::Operand;
use crate::layout::copy;
use crate::runtime::memory::PooledData;
use crate::runtime::output::parallel_fill::{CostHint, is_serial, parallel_fill_hinted, serial_fill};
use crate::view::{View, host_view, misuse_error};
use crate::{Cpu, CpuDevice, Isa};
use elinvar_core::{DType, Layout, Result, storage};
use elinvar_ops::backend;
use elinvar_ops::map::Out;
use elinvar_simd::compiled::{FormulaFloat, FormulaInt, IntMapObject, MapObject};
use elinvar_simd::uninit::{CacheBlock, UninitSlice};
use elinvar_simd::vector_loop::{self, BLOCK, OperandSlice};
use smallvec::SmallVec;

/// A float formula at every element.
pub(crate) fn map(
    d: &CpuDevice,
    f: &dyn MapObject,
    x: &[backend::View<'_, Cpu>],
    dtype: DType,
) -> Result<CpuBuffer> {
    let info = f.info();
    if (dtype, info.out) == (DType::F32, Out::Same)
        && let Some(y) = fusion::defer(d, &|| fused(d.isa(), f), x)?
    {
        return Ok(y);
    }
    let (to, work) =
        (stored(info.out, dtype), if info.hints.light { CostHint::Light } else { CostHint::Unknown });
    match dtype {
        DType::F32 | storage!(DType) => blocks(d, x, to, work, &floats::<f32>(d.isa(), f)),
        DType::F64 => blocks(d, x, to, work, &floats::<f64>(d.isa(), f)),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => Err(misuse_error(f.name(), dtype)),
    }
}

/// An integer formula at every element.
pub(crate) fn map_int(
    d: &CpuDevice,
    f: &dyn IntMapObject,
    x: &[backend::View<'_, Cpu>],
    dtype: DType,
) -> Result<CpuBuffer> {
    let to = stored(f.out(), dtype);
    match dtype {
        DType::I64 => blocks(d, x, to, CostHint::Unknown, &ints::<i64>(d.isa(), f)),
        DType::I32 => blocks(d, x, to, CostHint::Unknown, &ints::<i32>(d.isa(), f)),
        DType::U8 => blocks(d, x, to, CostHint::Unknown, &ints::<u8>(d.isa(), f)),
        DType::Bool => blocks(d, x, to, CostHint::Unknown, &ints::<bool>(d.isa(), f)),
        DType::F32 | DType::F64 | storage!(DType) => Err(misuse_error(f.name(), dtype)),
    }
}

/// A float formula.
fn floats<T: ComputeElement + FormulaFloat>(
    isa: Isa,
    f: &dyn MapObject,
) -> impl Fn(&[OperandSlice<'_, T>], &mut UninitSlice<'_, T>) + Sync {
    let blocks = T::blocks(f);
    move |x, dst| vector_loop::fill(isa, blocks, x, dst)
}

/// A float formula that may wait.
fn fused(isa: Isa, f: &dyn MapObject) -> Box<fusion::FusedFormula> {
    let f = f.boxed();
    Box::new(move |x, dst| vector_loop::fill::<f32>(isa, f32::blocks(&*f), x, dst))
}

/// An integer formula.
fn ints<T: ComputeElement + FormulaInt>(
    isa: Isa,
    f: &dyn IntMapObject,
) -> impl Fn(&[OperandSlice<'_, T>], &mut UninitSlice<'_, T>) + Sync {
    let blocks = T::blocks(f);
    move |x, dst| vector_loop::fill(isa, blocks, x, dst)
}

fn stored(out: Out, dtype: DType) -> DType {
    match out {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    }
}

/// A formula at every element of views of any kind. Numbers that are in memory as the formula reads
/// them, or are one number, are done here: what is done for others is most of the time of an op on
/// four numbers, and a tenth of one on 65536.
fn blocks<T: ComputeElement>(
    d: &CpuDevice,
    x: &[backend::View<'_, Cpu>],
    to: DType,
    work: CostHint,
    f: &SliceFormula<'_, T>,
) -> Result<CpuBuffer> {
    let len = x[0].shape().numel();
    if to != T::DTYPE || len == 0 {
        return many(d, x, to, work, f);
    }
    // One number is common, as in x * 2; two are not.
    let mut copies = CacheBlock::<T, BLOCK>::with_any_capacity();
    let mut number = None;
    let mut all = [OperandSlice::EMPTY; MAX_OPERANDS];
    for (i, (piece, v)) in all.iter_mut().zip(x).enumerate() {
        let Some(data) = T::slice(v.buffer.data()?) else { return many(d, x, to, work, f) };
        let first = v.layout.offset();
        if v.layout.is_contiguous() {
            *piece = OperandSlice::of(&data[first..first + len]);
        } else if v.layout.is_one() && number.is_none() {
            number = Some((i, data[first]));
        } else {
            return many(d, x, to, work, f);
        }
    }
    if let Some((i, value)) = number {
        let copies = copies.fill(BLOCK, |dst| dst.extend(BLOCK, |_| value));
        all[i] = OperandSlice::number(copies);
    }
    let all = &all[..x.len()];
    if is_serial(d, len) {
        return serial_fill(len, |dst| f(all, dst)).map(CpuBuffer::of_few);
    }
    let y = parallel_fill_hinted(d, len, 1, work, &|start, dst| {
        let mut parts = [OperandSlice::EMPTY; MAX_OPERANDS];
        for (part, piece) in parts.iter_mut().zip(all) {
            *part = piece.part(start, dst.remaining());
        }
        f(&parts[..all.len()], dst);
        Ok(())
    })?;
    Ok(CpuBuffer::new(T::wrap(y)))
}

/// As [`blocks`], of operands of other layouts.
fn many<T: ComputeElement>(
    d: &CpuDevice,
    x: &[backend::View<'_, Cpu>],
    to: DType,
    work: CostHint,
    f: &SliceFormula<'_, T>,
) -> Result<CpuBuffer> {
    let x: SmallVec<[View<'_>; 3]> = x.iter().map(host_view).collect::<Result<_>>()?;
    let len = x[0].shape().numel();
    // A transposed operand is copied in tiles first: block by block it would fetch a cache line for
    // each element.
    let straight: SmallVec<[Option<PooledData>; 3]> = x
        .iter()
        .map(|v| {
            copy::is_transposed(v.layout).then(|| copy::to_contiguous(d, v).map(PooledData::new)).transpose()
        })
        .collect::<Result<_>>()?;
    let operands: SmallVec<[Operand<'_, T>; 3]> = x
        .iter()
        .zip(&straight)
        .map(|(v, straight)| match straight {
            None => Operand::new(v.buffer, v.layout, len),
            Some(buffer) => Operand::new(buffer, &Layout::contiguous(v.shape().clone()), len),
        })
        .collect::<Result<_>>()?;
    // What is converted or gathered on the way takes longer.
    let plain = to == T::DTYPE && !operands.iter().any(Operand::needs_block);
    let work = if plain { work } else { CostHint::Unknown };
    let y = T::stored(d, len, work, to, &|start, dst| {
        fill(d.isa(), &operands, start, dst, f);
        Ok(())
    })?;
    Ok(CpuBuffer::new(y))
}
