//! Keys: elements as whole numbers of the same order.

use super::plan::TASK_ELEMENTS;
use super::radix::SortKey;
use crate::CpuDevice;
use crate::reduce::source::ReduceElement;
use crate::runtime::memory::PooledVec;
use crate::runtime::parallel::for_each_piece;
use elinvar_core::{Result, bf16, f16};
use elinvar_simd::isa::{Kernel, dispatch};

/// A type whose elements have an order.
pub(crate) trait SortElement: ReduceElement {
    /// A rank and a place as one number.
    type SortKey: SortKey;
    /// A whole number: larger for larger elements; smaller if `down`.
    fn rank(self, down: bool) -> Rank<Self>;
    /// Keys of half the size for all elements, if there are any and these are not yet as small.
    fn narrow_keys(_: &CpuDevice, _: &[Self], _down: bool, _shared: bool) -> Result<Option<PooledVec<i64>>> {
        Ok(None)
    }
}

pub(super) type Rank<T> = <<T as SortElement>::SortKey as SortKey>::Rank;

macro_rules! ordered {
    ($($t:ty: $key:ty, $rank:expr $(, $narrow:item)?;)*) => {$(
        impl SortElement for $t {
            type SortKey = $key;
            #[inline(always)]
            fn rank(self, down: bool) -> Rank<$t> {
                let rank: Rank<$t> = ($rank)(self);
                if down { !rank } else { rank }
            }
            $($narrow)?
        }
    )*};
}
ordered! {
    f32: i64, rank_32;
    f64: u128, rank_64;
    f16: i64, |v: f16| rank_32(v.to_f32());
    bf16: i64, |v: bf16| rank_32(v.to_f32());
    i64: u128, |v: i64| v as u64 ^ (1 << 63),
        fn narrow_keys(d: &CpuDevice, x: &[i64], down: bool, shared: bool) -> Result<Option<PooledVec<i64>>> {
            offset_keys(d, x, down, shared)
        };
    i32: i64, |v: i32| v as u32 ^ (1 << 31);
    u8: i64, |v: u8| u32::from(v);
    bool: i64, |v: bool| u32::from(v);
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

/// The least and the greatest of some numbers.
struct MinMaxKernel<'a>(&'a [i64]);

impl Kernel for MinMaxKernel<'_> {
    type Out = (i64, i64);
    #[inline(always)]
    fn run(self) -> (i64, i64) {
        self.0.iter().fold((i64::MAX, i64::MIN), |(least, most), &v| (least.min(v), most.max(v)))
    }
}

/// Keys of numbers by how far they are from the least, or the greatest, if that is less than 2^32:
/// indices and labels are. Those of a million are sorted in half of the time.
fn offset_keys(d: &CpuDevice, x: &[i64], down: bool, shared: bool) -> Result<Option<PooledVec<i64>>> {
    let (least, most) = dispatch(d.isa(), MinMaxKernel(x));
    if x.is_empty() || u32::try_from(most.abs_diff(least)).is_err() {
        return Ok(None);
    }
    let rank = |place: usize| if down { most.wrapping_sub(x[place]) } else { x[place].wrapping_sub(least) };
    keys_of::<i64>(d, x.len(), shared, &|place| rank(place) as u32).map(Some)
}

/// The keys of so many elements, of which each has a rank.
pub(super) fn keys_of<K: SortKey>(
    d: &CpuDevice,
    n: usize,
    shared: bool,
    rank: &(impl Fn(usize) -> K::Rank + Sync),
) -> Result<K::Keys> {
    let mut keys = K::many(n)?;
    let some = |from: usize, keys: &mut [K]| {
        keys.iter_mut().zip(from..).for_each(|(key, place)| *key = K::new(rank(place), place));
    };
    if shared {
        for_each_piece(d, &mut keys, TASK_ELEMENTS, 1.0, &some)
    } else {
        some(0, &mut keys)
    }
    Ok(keys)
}
