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

/// Sorts each row along the last axis, stable, also when descending: the `first` values of each, and where they came from.
pub(crate) fn sort(
    d: &CpuDevice,
    x: &View<'_>,
    descending: bool,
    first: usize,
) -> Result<(HostData, HostData)> {
    fn typed<T: Ordered>(
        _: &[T],
        d: &CpuDevice,
        x: &View<'_>,
        down: bool,
        first: usize,
    ) -> Result<(HostData, HostData)> {
        let n = x.shape().last().copied().unwrap_or(1);
        if u32::try_from(n).is_err() {
            return Err(Error::argument(format!(
                "sort: a row has {n} elements; the CPU sorts rows of less than 2^32"
            )));
        }
        let copy = turned::<T>(d, "a sort", x)?;
        let rows = Rows { n, count: x.shape().numel() / n.max(1), first, down };
        let (values, places) = rows.sorted::<T>(d, &either("a sort", x, &copy)?)?;
        Ok((T::wrap(values), HostData::I64(places)))
    }
    each_data!(x.buffer, v => typed(v, d, x, descending, first))
}

/// Rows to be sorted.
#[derive(Clone, Copy)]
struct Rows {
    /// Elements of each.
    n: usize,
    count: usize,
    /// How many of each are wanted.
    first: usize,
    /// The largest first?
    down: bool,
}

impl Rows {
    fn sorted<T: Ordered>(self, d: &CpuDevice, x: &Stage<'_, T>) -> Result<(HostVec<T>, HostVec<i64>)> {
        /// Elements of a row that are worth several threads: sorting them takes milliseconds.
        const LONG: usize = 1 << 16;
        let Rows { n, count, first, .. } = self;
        let (mut values, mut places) = (filled(count * first, T::ZERO)?, filled(count * first, 0i64)?);
        if count * first == 0 {
            return Ok((values, places));
        }
        let shared = n >= LONG && count < d.threads();
        let one = |row: usize, values: &mut [T], places: &mut [i64]| {
            let mut buffer = filled(n, T::ZERO)?;
            let x = x.block(d.isa(), row * n, n, n, &mut buffer);
            let keys = self.keys(d, x, shared)?;
            for ((value, place), &key) in values.iter_mut().zip(places).zip(&keys) {
                let i = T::place(key);
                (*value, *place) = (x[i], i as i64);
            }
            Ok::<(), Error>(())
        };
        let mut all = host::with_capacity(count)?;
        all.extend(values.chunks_mut(first).zip(places.chunks_mut(first)).enumerate());
        if shared {
            all.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))?;
        } else {
            // About so many comparisons, each a few nanoseconds.
            let ns = (n * (first.max(2).ilog2() as usize)) as f64 * 2.0;
            try_pieces(d, &mut all, (1024 / n).max(1), ns, &|_, part| {
                part.iter_mut().try_for_each(|(row, (values, places))| one(*row, values, places))
            })?;
        }
        drop(all);
        Ok((values, places))
    }
    /// The keys of a row, of which those that are wanted come first, in order.
    fn keys<T: Ordered>(self, d: &CpuDevice, x: &[T], shared: bool) -> Result<Vec<T::Key>> {
        /// Elements of a row of which some are passed over.
        const MANY: usize = 512;
        let Rows { n, first, down, .. } = self;
        // A few of many are found without sorting all.
        if n >= MANY && first <= n / 8 && !shared {
            let mut keys = least(x, 0, first, down)?;
            keys.sort_unstable();
            return Ok(keys);
        }
        if n >= MANY && first <= n / 8 {
            let part = n.div_ceil(2 * d.threads()).max(8 * first);
            let mut parts = host::with_capacity(n.div_ceil(part))?;
            parts.extend((0..n).step_by(part).map(|at| (at, Vec::new())));
            try_pieces(d, &mut parts, 1, part as f64, &|_, parts| {
                for (at, keys) in parts {
                    *keys = least(&x[*at..n.min(*at + part)], *at, first, down)?;
                }
                Ok(())
            })?;
            let mut keys = parts.into_iter().flat_map(|(_, keys)| keys).collect::<Vec<_>>();
            keys.sort_unstable();
            return Ok(keys);
        }
        let mut keys = host::with_capacity(n)?;
        keys.extend(x.iter().enumerate().map(|(i, &v)| v.key(i, down)));
        if shared {
            return merge::sort(d, keys);
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

/// The least keys of elements, of which the first has place `at`, in any order: `first` of them, or all. Of those that were seen, as many are
/// held, and some more; what is not before the last one of these is passed over, so most elements cost a comparison.
fn least<T: Ordered>(x: &[T], at: usize, first: usize, down: bool) -> Result<Vec<T::Key>> {
    /// More than are wanted.
    const MORE: usize = 64;
    let mut keys: Vec<T::Key> = host::with_capacity(2 * first + MORE)?;
    let mut last: Option<T::Key> = None;
    for (i, &v) in x.iter().enumerate() {
        let key = v.key(at + i, down);
        if last.is_some_and(|last| key > last) {
            continue;
        }
        keys.push(key);
        if keys.len() == 2 * first + MORE {
            let (_, nth, _) = keys.select_nth_unstable(first - 1);
            last = Some(*nth);
            keys.truncate(first);
        }
    }
    Ok(keys)
}
