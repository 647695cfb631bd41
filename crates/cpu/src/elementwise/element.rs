//! The types in which elementwise work is computed: how each is read from storage, and stored.

use super::convert::{self, ComputeElement, StoredFloat};
use super::plan::MAX_BLOCK_ELEMENTS;
use crate::layout::strided_iter::{StridedIter, gather_runs};
use crate::runtime::output::parallel_fill::{CostHint, FillFrom, parallel_fill, parallel_fill_hinted};
use crate::view::misuse_error;
use crate::{CpuDevice, Isa};
use elinvar_core::{DType, Element, HostData, Result, Scalar, match_storage, rounding, storage};
use elinvar_reference::Cell;
use elinvar_simd::float_to_int::SaturatingToInt;
use elinvar_simd::uninit::{CacheBlock, UninitSlice};

/// Results that are made as `T` and stored as `S`, in blocks.
fn narrow<T: ComputeElement, S: Element>(
    d: &CpuDevice,
    len: usize,
    make: &FillFrom<'_, T>,
    store: impl Fn(Isa, &[T], &mut UninitSlice<'_, S>) + Sync,
) -> Result<HostData> {
    let v = parallel_fill(d, len, 1, &|mut start, dst: &mut UninitSlice<'_, S>| {
        let mut block = CacheBlock::<T, MAX_BLOCK_ELEMENTS>::with_any_capacity();
        while dst.remaining() > 0 {
            let n = dst.remaining().min(MAX_BLOCK_ELEMENTS);
            let mut made = Ok(());
            let results = block.fill(n, |dst| made = make(start, dst));
            made?;
            store(d.isa(), results, dst);
            start += n;
        }
        Ok(())
    })?;
    Ok(S::wrap(v))
}

/// Floats to integers by saturating conversions.
macro_rules! float_to_int {
    () => {
        #[inline(always)]
        fn to<T: ComputeElement>(self) -> T {
            match const { T::DTYPE } {
                DType::I64 => T::nearest(Scalar::Int(self.cut())),
                DType::I32 => T::nearest(Scalar::Int(SaturatingToInt::<i32>::cut(self).into())),
                DType::U8 => T::nearest(Scalar::Int(SaturatingToInt::<u8>::cut(self).into())),
                DType::F32 | DType::F64 | storage!(DType) | DType::Bool => T::nearest(self.value()),
            }
        }
    };
}

impl ComputeElement for f32 {
    float_to_int!();
    #[inline]
    fn round_to_odd(self) -> f32 {
        self
    }
    fn odds<'a>(_: Isa, x: &'a [f32], _: &'a mut CacheBlock<f32>) -> &'a [f32] {
        x
    }
    fn load(
        isa: Isa,
        data: &HostData,
        walk: &StridedIter,
        start: usize,
        n: usize,
        dst: &mut UninitSlice<'_, f32>,
    ) {
        match_storage!(HostData data; storage v: T => some(v, walk, start, n, |x| T::widen(isa, x, dst));
            other => flags(isa, other, walk, start, n, dst),
        )
    }
    fn loads(dtype: DType) -> bool {
        dtype.is_storage() || dtype == DType::Bool
    }
    fn stored(
        d: &CpuDevice,
        len: usize,
        work: CostHint,
        to: DType,
        make: &FillFrom<'_, f32>,
    ) -> Result<HostData> {
        match_storage!(DType to; storage T => narrow(d, len, make, T::narrow);
            DType::F32 => Ok(HostData::F32(parallel_fill_hinted(d, len, 1, work, make)?)),
            DType::Bool => narrow(d, len, make, convert::simple::<f32, bool>),
            DType::F64 | DType::I64 | DType::I32 | DType::U8 => Err(misuse_error("storing f32", to)),
        )
    }
}

/// Calls `f` on the elements number `start` to `start + n`, where they lie, or gathered in a block.
/// (Which is made only then: the compiler clears it, and that was a fifth of adding a million f16.)
fn some<T: Element>(v: &[T], walk: &StridedIter, start: usize, n: usize, f: impl FnOnce(&[T])) {
    match walk.contiguous_run(start, n) {
        Some(at) => f(&v[at..at + n]),
        None => f(CacheBlock::<T, MAX_BLOCK_ELEMENTS>::with_any_capacity()
            .fill(n, |dst| gather_runs(v, walk, start, n, dst))),
    }
}

/// bool as 0 or 1.
fn flags<T: ComputeElement>(
    isa: Isa,
    data: &HostData,
    walk: &StridedIter,
    start: usize,
    n: usize,
    dst: &mut UninitSlice<'_, T>,
) {
    let v = bool::slice(data).expect("the types of operands were looked at");
    some(v, walk, start, n, |x| convert::simple(isa, x, dst));
}

macro_rules! number {
    ($($t:ty: $odd:expr $(, $to:ident)?;)*) => {$(
        impl ComputeElement for $t {
            $($to!();)?
            #[inline]
            fn round_to_odd(self) -> f32 {
                ($odd)(self)
            }
            fn load(
                isa: Isa,
                data: &HostData,
                walk: &StridedIter,
                start: usize,
                n: usize,
                dst: &mut UninitSlice<'_, $t>,
            ) {
                flags(isa, data, walk, start, n, dst);
            }
            fn loads(dtype: DType) -> bool {
                dtype == DType::Bool
            }
            fn stored(
                d: &CpuDevice,
                len: usize,
                work: CostHint,
                to: DType,
                make: &FillFrom<'_, $t>,
            ) -> Result<HostData> {
                match to {
                    t if t == <$t>::DTYPE => Ok(<$t>::wrap(parallel_fill_hinted(d, len, 1, work, make)?)),
                    DType::Bool => narrow(d, len, make, convert::simple::<$t, bool>),
                    _ => Err(misuse_error("storing a number of another type", to)),
                }
            }
        }
    )*};
}
number! {
    f64: rounding::odd_f32, float_to_int;
    i64: |v| rounding::odd_f32(rounding::odd_f64(v));
    i32: |v| rounding::odd_f32(f64::from(v));
    u8: f32::from;
    bool: |v| f32::from(u8::from(v));
}
