//! Permute of a row by vector shuffles: gather by an index whose neighbours come from neighbours,
//! as in upsampling; a register of results is a permuted register of elements.
//!
//! How it can be wrong: by reading outside of the row. Where each group's register starts, and that
//! all its sources are in it, is established when a [`RowPermute`] is made, for rows of one size.
#![allow(unsafe_code, reason = "loads without a check for each")]

use elinvar_simd::isa::{Isa, Level};
use elinvar_simd::uninit::UninitSlice;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
#[cfg(target_arch = "x86_64")]
use std::mem::MaybeUninit;

/// Results of a group: the lanes of the widest register of numbers of four bytes.
pub(crate) const GROUP_ELEMENTS: usize = 16;

/// Places of a row of `size` elements, in whole groups.
#[derive(Debug)]
pub(crate) struct RowPermute {
    size: usize,
    groups: Vec<PermuteGroup>,
}

/// `GROUP_ELEMENTS` neighbours of a row that have all of a group, and which of them each is.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "others do without"))]
struct PermuteGroup {
    lanes: [u32; GROUP_ELEMENTS],
    first: u32,
}

impl RowPermute {
    /// The whole groups of these places; None if there are none, or they are not near each other.
    pub(crate) fn find(at: &[u32], size: usize) -> Option<RowPermute> {
        let group = |at: &[u32; GROUP_ELEMENTS]| {
            let (low, high) = at.iter().fold((u32::MAX, 0), |(low, high), &at| (low.min(at), high.max(at)));
            let first = low.min(size.checked_sub(GROUP_ELEMENTS)? as u32);
            let fits = (high as usize) < size && (high - first) < GROUP_ELEMENTS as u32;
            fits.then(|| PermuteGroup { lanes: at.map(|at| at - first), first })
        };
        let groups = at.as_chunks::<GROUP_ELEMENTS>().0.iter().map(group).collect::<Option<Vec<_>>>()?;
        (!groups.is_empty()).then_some(RowPermute { size, groups })
    }
    /// Writes the next elements of the room: those of so many groups, from this one on. Gives
    /// false, and does nothing, of elements of other sizes than four bytes, and without an
    /// instruction for it.
    ///
    /// # Panics
    /// If there are no such groups, the row has another size, or the room is too small.
    pub(crate) fn pick<T: Copy>(
        &self,
        isa: Isa,
        row: &[T],
        from: usize,
        count: usize,
        dst: &mut UninitSlice<'_, T>,
    ) -> bool {
        if size_of::<T>() != 4 {
            return false;
        }
        assert_eq!(row.len(), self.size, "a row of another size");
        let groups = &self.groups[from..from + count];
        let to = &mut dst.unwritten()[..count * GROUP_ELEMENTS];
        let done = match isa.level() {
            Level::Plain => false,
            // SAFETY: an `Isa` of this level is made where the features were found. The elements
            // have four bytes; a group's `GROUP_ELEMENTS` neighbours are in a row of this size, see
            // `find`, and `to` has room for all groups.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe {
                by_256(row.as_ptr().cast(), groups, to.as_mut_ptr().cast());
                true
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe {
                by_512(row.as_ptr().cast(), groups, to.as_mut_ptr().cast());
                true
            },
            // They have no such instruction for sixteen numbers.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => false,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => false,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (groups, to);
        if done {
            // SAFETY: `by_256` and `by_512` write `GROUP_ELEMENTS` elements for each of `count`
            // groups.
            unsafe { dst.count(count * GROUP_ELEMENTS) };
        }
        done
    }
}

/// # Safety
/// The processor has AVX-512. The neighbours of each group are behind `row`, and room for all
/// groups behind `to`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn by_512(row: *const f32, groups: &[PermuteGroup], to: *mut MaybeUninit<f32>) {
    for (i, group) in groups.iter().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            let x = _mm512_loadu_ps(row.add(group.first as usize));
            let lanes = _mm512_loadu_epi32(group.lanes.as_ptr().cast());
            _mm512_storeu_ps(to.add(i * GROUP_ELEMENTS).cast(), _mm512_permutexvar_ps(lanes, x));
        }
    }
}

/// # Safety
/// As for [`by_512`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn by_256(row: *const f32, groups: &[PermuteGroup], to: *mut MaybeUninit<f32>) {
    for (i, group) in groups.iter().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            let from = row.add(group.first as usize);
            let (low, high) = (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8)));
            for half in [0, 8] {
                let lanes = _mm256_loadu_si256(group.lanes.as_ptr().add(half).cast());
                // Whether a lane is one of the upper eight is its bit 3, which becomes the sign.
                let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(lanes));
                let (a, b) = (_mm256_permutevar8x32_ps(low, lanes), _mm256_permutevar8x32_ps(high, lanes));
                _mm256_storeu_ps(to.add(i * GROUP_ELEMENTS + half).cast(), _mm256_blendv_ps(a, b, upper));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::output::parallel_fill::serial_fill;

    #[test]
    fn each_result_is_the_element_of_its_place() {
        for size in [16, 17, 40, 56, 100] {
            let row: Vec<i32> = (0..size).map(|i| i as i32 * 3 + 1).collect();
            // Enlarged, mirrored, the last elements, all one.
            let ways: [&dyn Fn(usize) -> usize; 4] =
                [&|i| i * 10 / 23, &|i| size - 1 - i, &|i| (i + size - 16).min(size - 1), &|_| size - 1];
            for way in ways {
                let at: Vec<u32> = (0..size).map(|i| way(i) as u32).collect();
                let near = RowPermute::find(&at, size).unwrap();
                for isa in Isa::with_kernels() {
                    let count = size / GROUP_ELEMENTS;
                    for from in 0..count {
                        let n = (count - from) * GROUP_ELEMENTS;
                        let mut done = false;
                        let y = serial_fill(n, |dst| {
                            done = near.pick(isa, &row, from, count - from, dst);
                            if !done {
                                dst.extend(n, |_| 0);
                            }
                        });
                        let want = at[from * GROUP_ELEMENTS..][..n].iter().map(|&at| row[at as usize]);
                        assert!(!done || want.eq(y.unwrap()), "{isa}: {size} from group {from}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_near_is_not_found() {
        let far: Vec<u32> = (0..16).map(|i| 2 * i).collect();
        assert!(RowPermute::find(&far, 40).is_none());
        assert!(RowPermute::find(&[0; 16], 15).is_none(), "a row smaller than a register");
        assert!(RowPermute::find(&[16; 16], 16).is_none(), "a place behind the row");
        assert!(RowPermute::find(&[0; 15], 40).is_none(), "no whole group");
    }
}
