//! Sorting rows: elements become whole numbers of the same order, with their places in the low half, so that no two are
//! equal and the fastest sort is stable.

use super::merge;
use super::stage::{Number, Stage, either, turned};
use crate::CpuDevice;
use crate::View;
use crate::memory::filled;
use crate::parallel::try_pieces;
use elinvar_core::host;
use elinvar_core::{Error, HostData, HostVec, Result, bf16, each_data, f16};

/// A type whose elements have an order.
trait Ordered: Number {
    /// An element and its place as one number.
    type Key: Copy + Ord + Send + Sync;
    /// The key of an element: larger for larger elements (smaller if `down`), then by place.
    fn key(self, place: usize, down: bool) -> Self::Key;
    /// The place.
    fn place(key: Self::Key) -> usize;
}

macro_rules! ordered {
    ($($t:ty: $number:ty, $key:ty, $rank:expr;)*) => {$(
        impl Ordered for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self, place: usize, down: bool) -> $key {
                let rank: $number = ($rank)(self);
                let rank = if down { !rank } else { rank };
                (<$key>::from(rank) << <$number>::BITS) | place as $key
            }
            #[inline(always)]
            fn place(key: $key) -> usize {
                (key & <$key>::from(<$number>::MAX)) as usize
            }
        }
    )*};
}
ordered! {
    f32: u32, u64, rank_32;
    f64: u64, u128, rank_64;
    f16: u32, u64, |v: f16| rank_32(v.to_f32());
    bf16: u32, u64, |v: bf16| rank_32(v.to_f32());
    i64: u64, u128, |v: i64| v as u64 ^ (1 << 63);
    i32: u32, u64, |v: i32| v as u32 ^ (1 << 31);
    u8: u32, u64, |v: u8| u32::from(v);
    bool: u32, u64, |v: bool| u32::from(v);
}

/// Whole numbers in the order of floats: zeros are equal, NaN is the largest.
#[inline(always)]
fn rank_32(v: f32) -> u32 {
    if v.is_nan() {
        return u32::MAX;
    }
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The same in 64 bits.
#[inline(always)]
fn rank_64(v: f64) -> u64 {
    if v.is_nan() {
        return u64::MAX;
    }
    let bits = if v == 0.0 { 0 } else { v.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Sorts each row along the last axis, stable, also when descending: the values, and where they came from.
pub(crate) fn sort(d: &CpuDevice, x: &View<'_>, descending: bool) -> Result<(HostData, HostData)> {
    fn typed<T: Ordered>(_: &[T], d: &CpuDevice, x: &View<'_>, down: bool) -> Result<(HostData, HostData)> {
        let n = x.shape().last().copied().unwrap_or(1);
        if u32::try_from(n).is_err() {
            return Err(Error::argument(format!(
                "sort: a row has {n} elements; the CPU sorts rows of less than 2^32"
            )));
        }
        let copy = turned::<T>(d, "a sort", x)?;
        let (values, places) = rows::<T>(d, &either("a sort", x, &copy)?, n, x.shape().numel(), down)?;
        Ok((T::wrap(values), HostData::I64(places)))
    }
    each_data!(x.buffer, v => typed(v, d, x, descending))
}

fn rows<T: Ordered>(
    d: &CpuDevice,
    x: &Stage<'_, T>,
    n: usize,
    len: usize,
    down: bool,
) -> Result<(HostVec<T>, HostVec<i64>)> {
    /// Elements of a row that are worth several threads: sorting them takes milliseconds.
    const LONG: usize = 1 << 16;
    let (mut values, mut places) = (filled(len, T::ZERO)?, filled(len, 0i64)?);
    if len == 0 {
        return Ok((values, places));
    }
    let shared = n >= LONG && len / n < d.threads();
    let one = |row: usize, values: &mut [T], places: &mut [i64]| {
        let mut buffer = filled(n, T::ZERO)?;
        let x = x.block(d.isa(), row * n, n, n, &mut buffer);
        let mut keys = host::with_capacity(n)?;
        keys.extend(x.iter().enumerate().map(|(i, &v)| v.key(i, down)));
        if shared {
            keys = merge::sort(d, keys)?;
        } else {
            keys.sort_unstable();
        }
        for ((value, place), &key) in values.iter_mut().zip(places).zip(&keys) {
            let i = T::place(key);
            (*value, *place) = (x[i], i as i64);
        }
        Ok::<(), Error>(())
    };
    let mut all = host::with_capacity(len / n)?;
    all.extend(values.chunks_mut(n).zip(places.chunks_mut(n)).enumerate());
    if shared {
        all.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))?;
    } else {
        // About so many comparisons, each a few nanoseconds.
        let ns = (n * (n.max(2).ilog2() as usize)) as f64 * 2.0;
        try_pieces(d, &mut all, (1024 / n).max(1), ns, &|_, part| {
            part.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))
        })?;
    }
    drop(all);
    Ok((values, places))
}
