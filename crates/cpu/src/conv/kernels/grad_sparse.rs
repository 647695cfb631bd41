//! Sparse-gradient kernels: lists of nonzero elements, and chains of fma over these alone (gather
//! for dw, scatter for dx).
//!
//! Channels are the lanes, pixel by pixel, and taps come in threes of neighbouring pixels. How it
//! can be wrong: by reaching outside of the pixels. The positions of nonzeros are known to be
//! inside of what was searched, so lengths are checked once, before the loops.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use crate::gemm::kernels::a_rows::each_row;
use elinvar_core::{Error, Result};
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{SimdElement, Vector, VectorKernel, dispatch_vectors, lanes};
use std::ops::Range;

/// Taps that are neighbours.
pub(crate) const TAPS_PER_ROW: usize = 3;
/// Threes whose sums registers are there for.
const TAP_ROWS_IN_REGISTERS: usize = 3;

/// Numbers that follow one another, and so do the pixels that belong to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelLine {
    /// The first number.
    pub(crate) at: usize,
    /// Its pixel.
    pub(crate) pixel: usize,
    pub(crate) count: usize,
}

/// Numbers that are not zero, list by list.
pub(crate) struct NonzeroLists<T> {
    /// Their pixels. Behind the last one there is room.
    pixels: Vec<u32>,
    numbers: Vec<T>,
    /// Where the lists end.
    ends: Vec<usize>,
    /// No pixel is farther.
    most: usize,
}

impl<T: SimdElement> NonzeroLists<T> {
    pub(crate) fn new() -> Self {
        NonzeroLists { pixels: Vec::new(), numbers: Vec::new(), ends: Vec::new(), most: 0 }
    }
    /// Forgets all lists.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.most = 0;
    }
    /// Makes a list more, of the numbers of these lines.
    ///
    /// # Errors
    /// `OutOfMemory`.
    ///
    /// # Panics
    /// If they are not all there, or a pixel's number has more than 32 bits.
    pub(crate) fn find(&mut self, isa: Isa, numbers: &[T], lines: &[PixelLine]) -> Result<()> {
        let start = self.ends.last().copied().unwrap_or(0);
        let count: usize = lines.iter().map(|line| line.count).sum();
        for line in lines {
            assert!(line.at + line.count <= numbers.len(), "numbers to look at");
            self.most = self.most.max(line.pixel + line.count);
        }
        assert!(u32::try_from(self.most).is_ok(), "pixels have numbers of 32 bits");
        // Registers are stored whole.
        let dst = start + count + lanes::<T>(isa);
        if self.pixels.len() < dst {
            let missing = dst - self.pixels.len();
            let reserved = self.pixels.try_reserve(missing).and_then(|()| self.numbers.try_reserve(missing));
            reserved.map_err(|e| Error::memory(format!("a list of {dst} numbers: {e}")))?;
            self.pixels.resize(dst, 0);
            self.numbers.resize(dst, T::default());
        }
        let mut end = start;
        dispatch_vectors(isa, FindNonzeros { numbers, lines, found: self, end: &mut end });
        self.ends.push(end);
        Ok(())
    }
    /// A list.
    fn list(&self, i: usize) -> (&[u32], &[T]) {
        let list = i.checked_sub(1).map_or(0, |i| self.ends[i])..self.ends[i];
        (&self.pixels[list.clone()], &self.numbers[list])
    }
}

/// Checked by `NonzeroLists::find` alone.
struct FindNonzeros<'a, T> {
    numbers: &'a [T],
    lines: &'a [PixelLine],
    found: &'a mut NonzeroLists<T>,
    end: &'a mut usize,
}

impl<T: SimdElement> VectorKernel for FindNonzeros<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let FindNonzeros { numbers, lines, found, end } = self;
        let (pixels, to) = (found.pixels.as_mut_ptr(), found.numbers.as_mut_ptr());
        let mut n = *end;
        for line in lines {
            for i in (0..line.count).step_by(V::LANES) {
                let count = (line.count - i).min(V::LANES);
                // SAFETY: `find` checked that the numbers are there, and made room for all of them
                // and a register more. The instructions are there: our caller's.
                unsafe {
                    let from = numbers.as_ptr().add(line.at + i);
                    n += V::compress(from, count, (line.pixel + i) as u32, pixels.add(n), to.add(n));
                }
            }
        }
        *end = n;
    }
}

/// sums[tap, lane] += g * x[pixel + tap, lane], one after the other, for the numbers g of a list.
///
/// `threes` has the pixel of the first of each three taps.
///
/// # Panics
/// If `x` or `sums` is too short.
pub(crate) fn gather<T: SimdElement>(
    isa: Isa,
    (found, list): (&NonzeroLists<T>, usize),
    x: &[T],
    threes: &[usize],
    sums: &mut [T],
) {
    let n = lanes::<T>(isa);
    assert!(sums.len() >= threes.len() * TAPS_PER_ROW * n, "sums of all taps");
    check(found, threes, x.len() / n);
    dispatch_vectors(isa, GatherProducts { list: found.list(list), x, threes, sums });
}

/// sums[pixel + tap, lane] += g * w[tap, lane], for the numbers g of a list, the last one first,
/// and some taps.
///
/// # Panics
/// If there are fewer taps, or `w` or `sums` is too short.
pub(crate) fn scatter<T: SimdElement>(
    isa: Isa,
    (found, list): (&NonzeroLists<T>, usize),
    w: &[T],
    threes: &[usize],
    taps: Range<usize>,
    sums: &mut [T],
) {
    let n = lanes::<T>(isa);
    assert!(taps.end <= threes.len() * TAPS_PER_ROW, "so many taps");
    assert!(w.len() >= threes.len() * TAPS_PER_ROW * n, "weights of all taps");
    check(found, threes, sums.len() / n);
    dispatch_vectors(isa, ScatterProducts { list: found.list(list), w, threes, taps, sums });
}

/// Pixels that were found are under each tap in so many pixels.
fn check<T>(found: &NonzeroLists<T>, threes: &[usize], pixels: usize) {
    let farthest = threes.iter().max().map_or(0, |three| three + TAPS_PER_ROW - 1);
    // `most` is one more than the farthest, if there is any.
    assert!(
        found.most == 0 || (found.most - 1).checked_add(farthest).is_some_and(|last| last < pixels),
        "a pixel is missing"
    );
}

/// Checked by `gather` alone.
struct GatherProducts<'a, T> {
    list: (&'a [u32], &'a [T]),
    x: &'a [T],
    threes: &'a [usize],
    sums: &'a mut [T],
}

impl<T: SimdElement> VectorKernel for GatherProducts<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let GatherProducts { list, x, threes, sums } = self;
        for (some, sums) in threes
            .chunks(TAP_ROWS_IN_REGISTERS)
            .zip(sums.chunks_mut(TAP_ROWS_IN_REGISTERS * TAPS_PER_ROW * V::LANES))
        {
            // SAFETY: `gather` checked that all pixels are there, and the sums. The instructions
            // are there: our caller's.
            unsafe {
                match some {
                    [a, b, c] => gather_of::<V, 3>(list, x.as_ptr(), [*a, *b, *c], sums.as_mut_ptr()),
                    [a, b] => gather_of::<V, 2>(list, x.as_ptr(), [*a, *b], sums.as_mut_ptr()),
                    [a] => gather_of::<V, 1>(list, x.as_ptr(), [*a], sums.as_mut_ptr()),
                    _ => unreachable!("chunks of so many"),
                }
            }
        }
    }
}

/// # Safety
/// The pixels of the list are in `x` under all taps, and there are sums of all taps.
#[inline(always)]
unsafe fn gather_of<V: Vector, const N: usize>(
    (pixels, numbers): (&[u32], &[V::T]),
    x: *const V::T,
    threes: [usize; N],
    to: *mut V::T,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[V::splat(V::T::default()); TAPS_PER_ROW]; N];
        each_row!(N, up to 4, r => {
            for (t, sum) in sums[r].iter_mut().enumerate() {
                *sum = V::load(to.add((r * TAPS_PER_ROW + t) * V::LANES));
            }
        });
        for (pixel, g) in pixels.iter().zip(numbers) {
            let (at, g) = (x.add(*pixel as usize * V::LANES), V::splat(*g));
            each_row!(N, up to 4, r => {
                let at = at.add(threes[r] * V::LANES);
                for (t, sum) in sums[r].iter_mut().enumerate() {
                    *sum = g.fma(V::load(at.add(t * V::LANES)), *sum);
                }
            });
        }
        each_row!(N, up to 4, r => {
            for (t, sum) in sums[r].iter().enumerate() {
                sum.store(to.add((r * TAPS_PER_ROW + t) * V::LANES));
            }
        });
    }
}

/// Checked by `scatter` alone.
struct ScatterProducts<'a, T> {
    list: (&'a [u32], &'a [T]),
    w: &'a [T],
    threes: &'a [usize],
    taps: Range<usize>,
    sums: &'a mut [T],
}

impl<T: SimdElement> VectorKernel for ScatterProducts<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        let ScatterProducts { list, w, threes, taps, sums } = self;
        let (w, sums, all) = (w.as_ptr(), sums.as_mut_ptr(), 0..threes.len() * TAPS_PER_ROW);
        // SAFETY: `scatter` checked that all pixels are there, and the weights. The instructions
        // are there: our caller's.
        unsafe {
            match threes {
                [a, b, c] if taps == all => scatter_of::<V, 3>(list, w, [*a, *b, *c], sums),
                [a] if taps == all => scatter_of::<V, 1>(list, w, [*a], sums),
                // The terms of a sum come in the order of taps, which is that of numbers backwards:
                // so number by number.
                _ => {
                    for (pixel, g) in list.0.iter().zip(list.1).rev() {
                        for tap in taps.clone() {
                            let pixel = *pixel as usize + threes[tap / TAPS_PER_ROW] + tap % TAPS_PER_ROW;
                            let to = sums.add(pixel * V::LANES);
                            V::splat(*g).fma(V::load(w.add(tap * V::LANES)), V::load(to)).store(to);
                        }
                    }
                }
            }
        }
    }
}

/// # Safety
/// The pixels of the list are in `sums` under all taps, and there are weights of all taps.
#[inline(always)]
unsafe fn scatter_of<V: Vector, const N: usize>(
    (pixels, numbers): (&[u32], &[V::T]),
    from: *const V::T,
    threes: [usize; N],
    sums: *mut V::T,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut w = [[V::splat(V::T::default()); TAPS_PER_ROW]; N];
        each_row!(N, up to 4, r => {
            for (t, w) in w[r].iter_mut().enumerate() {
                *w = V::load(from.add((r * TAPS_PER_ROW + t) * V::LANES));
            }
        });
        for (pixel, g) in pixels.iter().zip(numbers).rev() {
            let (at, g) = (sums.add(*pixel as usize * V::LANES), V::splat(*g));
            each_row!(N, up to 4, r => {
                let at = at.add(threes[r] * V::LANES);
                for (t, w) in w[r].iter().enumerate() {
                    let to = at.add(t * V::LANES);
                    g.fma(*w, V::load(to)).store(to);
                }
            });
        }
    }
}
