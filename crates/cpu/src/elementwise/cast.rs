//! Casts: a view as contiguous elements of another dtype.

use super::convert::{self, ComputeElement, StoredFloat};
use super::operand::Operand;
use crate::layout::copy::{is_transposed, to_contiguous};
use crate::layout::strided_iter::StridedIter;
use crate::runtime::memory::PooledData;
use crate::runtime::output::parallel_fill::parallel_fill;
use crate::view::{View, misuse_error};
use crate::{CpuDevice, Isa};
use elinvar_core::{DType, Element, HostData, Layout, Result, bf16, f16, float8, match_storage, storage};
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock, UninitSlice};

/// The view, contiguous, as another (or the same) dtype.
pub(crate) fn cast(d: &CpuDevice, x: &View<'_>, to: DType) -> Result<HostData> {
    converted(d, x, to, |d, x, to| match x.buffer {
        storage!(HostData) if to == DType::F32 => widened(d, x),
        HostData::F32(_) | storage!(HostData) => from::<f32>(d, x, to),
        HostData::F64(_) => from::<f64>(d, x, to),
        HostData::I64(_) => from::<i64>(d, x, to),
        HostData::I32(_) => from::<i32>(d, x, to),
        HostData::U8(_) => from::<u8>(d, x, to),
        HostData::Bool(_) => from::<bool>(d, x, to),
    })
}

/// The same of storage floats to f32, and back.
pub(crate) fn cast_halves(d: &CpuDevice, x: &View<'_>, to: DType) -> Result<HostData> {
    converted(d, x, to, |d, x, to| {
        let from = x.buffer.dtype();
        let misused = || Err(misuse_error(&format!("a cast of {from} between f32 and a storage float"), to));
        match_storage!(DType to; storage T => match from {
                DType::F32 => Conversion::<f32>::new(d, x)?.to_storage::<T>(d),
                _ => misused(),
            };
            DType::F32 if from.is_storage() => widened(d, x),
            _ => misused(),
        )
    })
}

/// Storage floats as f32.
fn widened(d: &CpuDevice, x: &View<'_>) -> Result<HostData> {
    let walk = StridedIter::new(x.layout);
    let v =
        parallel_fill(d, x.shape().numel(), BLOCK_ELEMENTS, &|mut start, dst: &mut UninitSlice<'_, f32>| {
            while dst.remaining() > 0 {
                let n = dst.remaining().min(BLOCK_ELEMENTS);
                f32::load(d.isa(), x.buffer, &walk, start, n, dst);
                start += n;
            }
            Ok(())
        })?;
    Ok(HostData::F32(v))
}

/// Through a conversion to another dtype, if it is another.
fn converted(
    d: &CpuDevice,
    x: &View<'_>,
    to: DType,
    convert: fn(&CpuDevice, &View<'_>, DType) -> Result<HostData>,
) -> Result<HostData> {
    if x.buffer.dtype() == to {
        return to_contiguous(d, x);
    }
    // Strides that are expensive are paid for once, not by the conversion.
    if is_transposed(x.layout) {
        let straight = PooledData::new(to_contiguous(d, x)?);
        let layout = Layout::contiguous(x.shape().clone());
        return convert(d, &View { buffer: &straight, layout: &layout, dtype: x.dtype }, to);
    }
    convert(d, x, to)
}

/// Stores some elements.
type StoreFn<C, T> = fn(Isa, &[C], &mut UninitSlice<'_, T>);

/// What there is to convert, read as `C`: all that does not depend on the type to which.
struct Conversion<'a, C> {
    operand: Operand<'a, C>,
    len: usize,
    isa: Isa,
}

impl<'a, C: ComputeElement> Conversion<'a, C> {
    fn new(d: &CpuDevice, x: &View<'a>) -> Result<Self> {
        let len = x.shape().numel();
        Ok(Conversion { operand: Operand::new(x.buffer, x.layout, len)?, len, isa: d.isa() })
    }
    /// The elements from number `start` on, at most so many together.
    #[inline(never)]
    fn parts(&self, mut start: usize, mut left: usize, most: usize, store: &mut dyn FnMut(&[C])) {
        let mut block = CacheBlock::new();
        while left > 0 {
            let n = left.min(most);
            store(self.operand.part(self.isa, &mut block, start, n));
            start += n;
            left -= n;
        }
    }
    /// Block by block.
    fn each<T: Element>(&self, d: &CpuDevice, store: StoreFn<C, T>) -> Result<HostData> {
        // Blocks are for elements that are written on the way, as all but f32 are on theirs to 16
        // bits.
        let in_place =
            matches!(self.operand, Operand::Slice(_)) && (!T::DTYPE.is_storage() || C::DTYPE == DType::F32);
        let most = if in_place { usize::MAX } else { BLOCK_ELEMENTS };
        let v = parallel_fill(d, self.len, BLOCK_ELEMENTS, &|start, dst: &mut UninitSlice<'_, T>| {
            self.parts(start, dst.remaining(), most, &mut |part| store(self.isa, part, dst));
            Ok(())
        })?;
        Ok(T::wrap(v))
    }
}

impl<C: ComputeElement> Conversion<'_, C> {
    fn to_storage<T: StoredFloat>(&self, d: &CpuDevice) -> Result<HostData> {
        self.each(d, |isa, x, dst: &mut UninitSlice<'_, T>| {
            T::narrow(isa, C::odds(isa, x, &mut CacheBlock::new()), dst);
        })
    }
}

/// From what is read as `C` to any type.
fn from<C: ComputeElement>(d: &CpuDevice, x: &View<'_>, to: DType) -> Result<HostData> {
    let from = Conversion::<C>::new(d, x)?;
    match to {
        DType::F16 => from.to_storage::<f16>(d),
        DType::BF16 => from.to_storage::<bf16>(d),
        // By way of an array, so that types of one byte have no code for each type they come from.
        float8!(DType) => {
            let odd = from.each(d, |isa, x, dst: &mut UninitSlice<'_, f32>| {
                convert::each(isa, x, dst, C::round_to_odd);
            })?;
            let HostData::F32(odd) = odd else { unreachable!("these are f32") };
            convert::stored(d, odd, to)
        }
        DType::F32 => from.each(d, convert::simple::<C, f32>),
        DType::F64 => from.each(d, convert::simple::<C, f64>),
        DType::I64 => from.each(d, convert::simple::<C, i64>),
        DType::I32 => from.each(d, convert::simple::<C, i32>),
        DType::U8 => from.each(d, convert::simple::<C, u8>),
        DType::Bool => from.each(d, convert::simple::<C, bool>),
    }
}
