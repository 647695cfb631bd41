//! LSD radix sort of keys by rank, digit by digit from the lowest; each pass is stable.
//!
//! How it can be wrong: the index below the rank is not sorted, so indices have to ascend in the
//! input.

use super::plan::RADIX_MIN_KEYS;
use crate::runtime::memory::{PooledVec, filled};
use elinvar_core::{Result, host};
use std::ops::DerefMut;

/// A rank and below it a place, as one number.
pub(crate) trait SortKey: Copy + Ord + Send + Sync + Sized {
    /// A whole number by which is sorted.
    type Rank: Copy + Ord;
    /// Many keys.
    type Keys: DerefMut<Target = [Self]> + Sync;
    /// The greatest rank, and the greatest place.
    const MAX_RANK: Self::Rank;
    const MAX_PLACE: usize;
    fn new(rank: Self::Rank, place: usize) -> Self;
    fn rank(self) -> Self::Rank;
    fn place(self) -> usize;
    /// So many keys, to be written over.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn many(n: usize) -> Result<Self::Keys>;
    /// Sorts keys whose places ascend.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn sort(keys: &mut [Self]) -> Result<()>;
}

impl SortKey for u128 {
    type Rank = u64;
    type Keys = Vec<u128>;
    const MAX_RANK: u64 = u64::MAX;
    const MAX_PLACE: usize = u64::MAX as usize;
    #[inline(always)]
    fn new(rank: u64, place: usize) -> u128 {
        u128::from(rank) << 64 | place as u128
    }
    #[inline(always)]
    fn rank(self) -> u64 {
        (self >> 64) as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
    fn many(n: usize) -> Result<Vec<u128>> {
        host::filled(n, 0)
    }
    /// By comparisons: six digits, of keys that are twice as large, were not measured.
    fn sort(keys: &mut [u128]) -> Result<()> {
        keys.sort_unstable();
        Ok(())
    }
}

/// Bits of a digit: the three of a rank are as many passes, and where keys go next are lines that a
/// second-level cache holds.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 3;
const DIGIT_VALUES: usize = 1 << DIGIT_BITS;

/// A digit of the rank.
#[inline(always)]
fn digit(key: i64, number: usize) -> usize {
    (key.rank() >> (DIGIT_BITS * number as u32)) as usize % DIGIT_VALUES
}

/// The highest bit of a rank is turned, so that keys of i64 are in its order: memory of these is
/// kept, and pages that come fresh from the system were a seventh of sorting a million f32.
impl SortKey for i64 {
    type Rank = u32;
    type Keys = PooledVec<i64>;
    const MAX_RANK: u32 = u32::MAX;
    const MAX_PLACE: usize = u32::MAX as usize;
    #[inline(always)]
    fn new(rank: u32, place: usize) -> i64 {
        i64::from((rank ^ 1 << 31) as i32) << 32 | place as i64
    }
    #[inline(always)]
    fn rank(self) -> u32 {
        (self >> 32) as u32 ^ 1 << 31
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u32 as usize
    }
    fn many(n: usize) -> Result<PooledVec<i64>> {
        filled(n, 0).map(PooledVec::of)
    }
    fn sort(keys: &mut [i64]) -> Result<()> {
        if keys.len() < RADIX_MIN_KEYS || u32::try_from(keys.len()).is_err() {
            keys.sort_unstable();
            return Ok(());
        }
        let mut counts = [[0u32; DIGIT_VALUES]; DIGITS];
        for &key in &*keys {
            for (number, counts) in counts.iter_mut().enumerate() {
                counts[digit(key, number)] += 1;
            }
        }
        let mut other = Self::many(keys.len())?;
        let (mut from, mut to, mut turns) = (&mut *keys, &mut other[..], 0);
        for (number, counts) in counts.iter_mut().enumerate() {
            // A digit that all have changes nothing.
            if counts[digit(from[0], number)] as usize == from.len() {
                continue;
            }
            let mut next = 0;
            for count in counts.iter_mut() {
                (*count, next) = (next, next + *count);
            }
            for &key in &*from {
                let place = &mut counts[digit(key, number)];
                to[*place as usize] = key;
                *place += 1;
            }
            std::mem::swap(&mut from, &mut to);
            turns += 1;
        }
        if turns % 2 == 1 {
            to.copy_from_slice(from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_sorted_as_numbers() {
        // Ranks of one digit, of two and of three, the last of which is not whole; all equal; few
        // and many of each.
        for most in [1u64, 2, 1 << 10, 1 << 11, (1 << 11) + 1, 1 << 22, 1 << 31, 1 << 32] {
            for len in
                [0, 1, 2, RADIX_MIN_KEYS - 1, RADIX_MIN_KEYS, RADIX_MIN_KEYS + 1, 3 * RADIX_MIN_KEYS + 7]
            {
                let rank = |i: u64| (i * 2_654_435_761 + 12_345) % most;
                for low in [0, (1 << 32) - most] {
                    let mut keys: Vec<i64> =
                        (0..len).map(|i| SortKey::new((low + rank(i as u64)) as u32, i)).collect();
                    let mut right = keys.clone();
                    right.sort_unstable();
                    <i64 as SortKey>::sort(&mut keys).unwrap();
                    assert!(keys == right, "{len} keys below {most}");
                }
            }
        }
    }
}
