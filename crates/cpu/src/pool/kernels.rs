//! Max pooling kernels for f32 windows with stride 2, and maxima of columns for wide windows, with
//! their indices.
//!
//! First the maximum of each column of a window's lines, register by register; then shuffles
//! combine adjacent columns. Only where the order of comparisons makes no difference, see
//! [`is_calm`].
//!
//! How it can be wrong: by reading outside of the plane. Each line of a register's windows is a
//! slice whose length is checked.
#![allow(unsafe_code, reason = "vector loads and shuffles, in slices whose lengths are looked at")]

use elinvar_simd::isa::{Isa, Kernel, Level, dispatch};
use elinvar_simd::uninit::UninitSlice;
use elinvar_simd::vector::Vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use elinvar_simd::wasm::F32x4;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Taps that are lines of the plane, or columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapSpan {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// Windows over planes of a size.
#[derive(Clone, Debug)]
pub(crate) struct PoolWindows {
    /// Elements of a line.
    pub(crate) width: usize,
    /// The lines of each row of windows, one after the other, and how far apart these are.
    pub(crate) lines: Vec<TapSpan>,
    pub(crate) row_stride: usize,
    /// The columns of each window of a row, side by side.
    pub(crate) columns: Vec<TapSpan>,
    /// Those of them that are two apart, and two or three wide: all the same.
    pub(crate) even: Range<usize>,
}

/// Is the largest of some of these numbers the same, to the bit, in whatever order they are
/// compared? NaN would win, and of zeros of both signs the first.
pub(crate) fn is_calm(isa: Isa, x: &[f32]) -> bool {
    dispatch(isa, IsCalmKernel(x))
}

struct IsCalmKernel<'a>(&'a [f32]);

impl Kernel for IsCalmKernel<'_> {
    type Out = bool;
    #[inline(always)]
    fn run(self) -> bool {
        /// The first NaN after infinity. Those after it end where -0 is; those of the other sign
        /// are the largest numbers.
        const FIRST_NAN: u32 = f32::INFINITY.to_bits() + 1;
        const NEGATIVE_NAN: u32 = f32::NEG_INFINITY.to_bits() + 1;
        const MINUS_ZERO: u32 = (-0.0f32).to_bits();
        let (mut least, mut most) = (u32::MAX, 0);
        for v in self.0 {
            least = least.min(v.to_bits().wrapping_sub(FIRST_NAN));
            most = most.max(v.to_bits());
        }
        least > MINUS_ZERO - FIRST_NAN && most < NEGATIVE_NAN
    }
}

/// Fills the next places of a room with what comes of the windows of a calm plane. Gives false, and
/// does nothing, for an instruction set without such registers.
///
/// # Panics
/// If a window leaves the plane, or the room is too small.
pub(crate) fn largest<Y: PoolOutcome>(
    isa: Isa,
    windows: &PoolWindows,
    x: &[f32],
    dst: &mut UninitSlice<'_, Y>,
) -> bool {
    let n = windows.lines.len() * windows.columns.len();
    let y = &mut dst.unwritten()[..n];
    match isa.level() {
        Level::Plain => return false,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => dispatch(isa, MaxPoolKernel::<__m256, Y> { windows, x, y, registers: PhantomData }),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if windows.even.len() >= <__m512 as Vector>::LANES => {
            dispatch(isa, MaxPoolKernel::<__m512, Y> { windows, x, y, registers: PhantomData });
        }
        // It has those of AVX2, too.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => dispatch(isa, MaxPoolKernel::<__m256, Y> { windows, x, y, registers: PhantomData }),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => {
            dispatch(isa, MaxPoolKernel::<float32x4_t, Y> { windows, x, y, registers: PhantomData })
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => dispatch(isa, MaxPoolKernel::<F32x4, Y> { windows, x, y, registers: PhantomData }),
    }
    // SAFETY: `MaxPoolKernel` writes a result for each line and column of windows, which are `n`.
    unsafe { dst.count(n) };
    true
}

/// A register of f32 whose numbers can be picked.
///
/// # Safety
/// As for [`Vector`].
pub(crate) trait PoolVector: Vector<T = f32> {
    /// The larger of each two; of what is not calm, either.
    unsafe fn larger(self, b: Self) -> Self;
    /// All bits where a number is larger, none elsewhere.
    unsafe fn above(self, b: Self) -> Self;
    /// The first, third, ... of the numbers of both.
    unsafe fn evens(self, b: Self) -> Self;
    /// The second, fourth, ... of the numbers of both.
    unsafe fn odds(self, b: Self) -> Self;
}

macro_rules! picks {
    ($($v:ty: |$a:ident, $b:ident| $larger:expr, $above:expr, $evens:expr, $odds:expr;)*) => {$(
        impl PoolVector for $v {
            #[inline(always)]
            unsafe fn larger(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                // SAFETY: the caller's, here and below: the processor has the instructions.
                unsafe { $larger }
            }
            #[inline(always)]
            unsafe fn above(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                // SAFETY: as above.
                unsafe { $above }
            }
            #[inline(always)]
            unsafe fn evens(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                // SAFETY: as above.
                unsafe { $evens }
            }
            #[inline(always)]
            unsafe fn odds(self, b: Self) -> Self {
                let ($a, $b) = (self, b);
                // SAFETY: as above.
                unsafe { $odds }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
picks! {
    __m512: |a, b| _mm512_max_ps(a, b),
        _mm512_castsi512_ps(_mm512_maskz_set1_epi32(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), -1)),
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b),
        _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
    __m256: |a, b| _mm256_max_ps(a, b), _mm256_cmp_ps::<_CMP_GT_OQ>(a, b),
        quarters(_mm256_shuffle_ps::<0x88>(a, b)),
        quarters(_mm256_shuffle_ps::<0xdd>(a, b));
}
#[cfg(target_arch = "aarch64")]
picks! {
    float32x4_t: |a, b| vmaxq_f32(a, b), vreinterpretq_f32_u32(vcgtq_f32(a, b)), vuzp1q_f32(a, b), vuzp2q_f32(a, b);
}
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
picks! {
    F32x4: |a, b| F32x4::larger(a, b), F32x4::above(a, b), F32x4::evens(a, b), F32x4::odds(a, b);
}

/// Pairs of numbers in the order of their registers, where a shuffle took those of each 16 bytes
/// from two in turn.
///
/// # Safety
/// AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn quarters(x: __m256) -> __m256 {
    // SAFETY: the caller's.
    unsafe { _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(x))) }
}

/// The windows of a plane, and their results. Made by [`largest`] alone, which pairs registers and
/// instruction sets.
struct MaxPoolKernel<'a, V, Y> {
    windows: &'a PoolWindows,
    x: &'a [f32],
    y: &'a mut [MaybeUninit<Y>],
    registers: PhantomData<V>,
}

impl<V: PoolVector, Y: PoolOutcome> Kernel for MaxPoolKernel<'_, V, Y> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let PoolWindows { width, ref lines, row_stride, ref columns, ref even } = *self.windows;
        let wide = even.len() >= V::LANES;
        let (from, to) = if wide { (even.start, even.end) } else { (columns.len(), columns.len()) };
        for (lines, y) in lines.iter().zip(self.y.chunks_exact_mut(columns.len())) {
            let start = lines.first * width;
            let alone = |columns: &TapSpan| {
                let first = start + columns.first;
                let (mut best, mut place) = (self.x[first], first);
                for i in 0..lines.count {
                    for (k, v) in self.x[first + i * row_stride * width..][..columns.count].iter().enumerate()
                    {
                        (best, place) =
                            if *v > best { (*v, first + i * row_stride * width + k) } else { (best, place) };
                    }
                }
                Y::of(best, place)
            };
            for (y, columns) in y[..from].iter_mut().zip(columns) {
                y.write(alone(columns));
            }
            for (y, columns) in y[to..].iter_mut().zip(&columns[to..]) {
                y.write(alone(columns));
            }
            let mut at = from;
            while at < to {
                // The last register ends where the windows do: what two of them compute is the
                // same.
                let first = at.min(to - V::LANES);
                let from = start + columns[first].first;
                let (x, y) = (&self.x[from..], &mut y[first..][..V::LANES]);
                // SAFETY: `largest` made this for an instruction set that an `Isa` was made for.
                unsafe {
                    match columns[first].count {
                        2 => Y::register::<V, 2>((x, from), row_stride * width, lines.count, y),
                        _ => Y::register::<V, 3>((x, from), row_stride * width, lines.count, y),
                    }
                }
                at += V::LANES;
            }
        }
    }
}

/// Lanes of the widest register.
pub(crate) const MAX_LANES: usize = 16;

/// The largest of each column of these lines of a calm plane, the first among equals, and where its
/// line begins. Gives false, and does nothing, for an instruction set without such registers.
///
/// # Panics
/// If a line leaves the plane, or there are fewer columns than the widest register has lanes.
pub(crate) fn columns(isa: Isa, x: &[f32], lines: &[u32], best: &mut [f32], found: &mut [u32]) -> bool {
    assert!(best.len() >= MAX_LANES && best.len() == found.len() && !lines.is_empty(), "columns of lines");
    assert!(lines.iter().all(|&at| at as usize + best.len() <= x.len()), "a line leaves the plane");
    match isa.level() {
        Level::Plain => return false,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            dispatch(isa, ColumnMaxima::<__m256> { x, lines, best, found, registers: PhantomData })
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            dispatch(isa, ColumnMaxima::<__m512> { x, lines, best, found, registers: PhantomData })
        }
        #[cfg(target_arch = "aarch64")]
        Level::Neon => {
            dispatch(isa, ColumnMaxima::<float32x4_t> { x, lines, best, found, registers: PhantomData })
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128 => {
            dispatch(isa, ColumnMaxima::<F32x4> { x, lines, best, found, registers: PhantomData })
        }
    }
    true
}

/// Lines of a plane that are there, and as many columns as a register has lanes, or more. Made by
/// [`columns`] alone.
struct ColumnMaxima<'a, V> {
    x: &'a [f32],
    lines: &'a [u32],
    best: &'a mut [f32],
    found: &'a mut [u32],
    registers: PhantomData<V>,
}

impl<V: PoolVector> Kernel for ColumnMaxima<'_, V> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ColumnMaxima { x, lines, best, found, .. } = self;
        let span = best.len();
        let mut column = 0;
        while column < span {
            // The last register ends where the columns do.
            let at = column.min(span - V::LANES);
            // SAFETY: `columns` made this for an instruction set that an `Isa` was made for, and
            // looked at the lines and at the number of columns; places are bits that nothing
            // computes with.
            unsafe {
                let (mut most, mut place) = (V::splat(f32::NEG_INFINITY), V::splat(f32::from_bits(lines[0])));
                for &line in lines {
                    let v = V::load(x.as_ptr().add(line as usize + at));
                    let above = v.above(most);
                    most = v.select(most, above);
                    place = V::splat(f32::from_bits(line)).select(place, above);
                }
                most.store(best.as_mut_ptr().add(at));
                place.store(found.as_mut_ptr().add(at).cast());
            }
            column = at + V::LANES;
        }
    }
}

/// The largest of some numbers, none of which is NaN or -0, and its place: that of its line and its
/// number. Of equals the one whose place is least.
#[inline(always)]
pub(crate) fn first_largest(numbers: &[f32], lines: &[u32], first: u32) -> (f32, u32) {
    // As whole numbers, which are compared without a branch: a number's bits in the order of
    // numbers, and below them how far its place is from the end.
    const SIGN_BIT: u32 = 1 << 31;
    let mut best = 0;
    for (k, (v, line)) in numbers.iter().zip(lines).enumerate() {
        let bits = v.to_bits();
        let rank = if bits & SIGN_BIT == 0 { bits | SIGN_BIT } else { !bits };
        let key = u64::from(rank) << 32 | u64::from(u32::MAX - (line + first + k as u32));
        best = best.max(key);
    }
    let (rank, place) = ((best >> 32) as u32, u32::MAX - best as u32);
    (f32::from_bits(if rank & SIGN_BIT == 0 { !rank } else { rank ^ SIGN_BIT }), place)
}

/// What is wanted of a window: its largest element, or the place of that.
pub(crate) trait PoolOutcome: Copy {
    /// That of a window whose largest element is this one, at this place of the plane.
    fn of(largest: f32, place: usize) -> Self;
    /// Those of a register of windows, `TAPS` wide, of which the first begins where `x` does, at a
    /// place of the plane.
    ///
    /// # Safety
    /// The processor has the register.
    ///
    /// # Panics
    /// If a window leaves `x`, or `y` is not as long as a register.
    unsafe fn register<V: PoolVector, const TAPS: usize>(
        x: (&[f32], usize),
        pitch: usize,
        lines: usize,
        y: &mut [MaybeUninit<Self>],
    );
}

/// What two registers begin with, and the three after an element more: how far that reaches in a
/// line.
const fn reach<V: PoolVector, const TAPS: usize>() -> usize {
    2 * V::LANES + TAPS - 2
}

impl PoolOutcome for f32 {
    #[inline(always)]
    fn of(largest: f32, _: usize) -> f32 {
        largest
    }
    #[inline(always)]
    unsafe fn register<V: PoolVector, const TAPS: usize>(
        (x, _): (&[f32], usize),
        pitch: usize,
        lines: usize,
        y: &mut [MaybeUninit<f32>],
    ) {
        assert_eq!(y.len(), V::LANES, "a register's windows");
        // Of two registers, whose even elements are under the first tap, and whose odd ones under
        // the second; and of the two that begin one element later, whose odd ones are under the
        // third.
        // SAFETY: the caller's; each load is within `reach` elements of a line, which are there,
        // and `y` is as long as a register.
        unsafe {
            let mut best = [V::splat(f32::NEG_INFINITY); 4];
            for i in 0..lines {
                let line = x[i * pitch..][..reach::<V, TAPS>()].as_ptr();
                best[0] = best[0].larger(V::load(line));
                best[1] = best[1].larger(V::load(line.add(V::LANES)));
                if TAPS == 3 {
                    best[2] = best[2].larger(V::load(line.add(1)));
                    best[3] = best[3].larger(V::load(line.add(V::LANES + 1)));
                }
            }
            let two = best[0].evens(best[1]).larger(best[0].odds(best[1]));
            let all = if TAPS == 3 { two.larger(best[2].odds(best[3])) } else { two };
            all.store(y.as_mut_ptr().cast());
        }
    }
}

impl PoolOutcome for i64 {
    #[inline(always)]
    fn of(_: f32, place: usize) -> i64 {
        place as i64
    }
    #[allow(clippy::needless_range_loop, reason = "registers are counted, so that the loop unrolls")]
    #[inline(always)]
    unsafe fn register<V: PoolVector, const TAPS: usize>(
        (x, at): (&[f32], usize),
        pitch: usize,
        lines: usize,
        y: &mut [MaybeUninit<i64>],
    ) {
        /// Lanes of the widest register.
        const MAX_LANES_OF_RESULT: usize = 16;
        assert_eq!(y.len(), V::LANES, "a register's windows");
        // How far behind its window's first element each was found, as bits that nothing computes
        // with.
        let mut found = [0.0; MAX_LANES_OF_RESULT];
        // SAFETY: as for f32; no register has more than `MAX_LANES_OF_RESULT` lanes.
        unsafe {
            let (mut best, mut place) = (V::splat(f32::NEG_INFINITY), V::splat(0.0));
            for i in 0..lines {
                let line = x[i * pitch..][..reach::<V, TAPS>()].as_ptr();
                let (low, high) = (V::load(line), V::load(line.add(V::LANES)));
                let mut taps = [low.evens(high), low.odds(high), low];
                if TAPS == 3 {
                    taps[2] = V::load(line.add(1)).odds(V::load(line.add(V::LANES + 1)));
                }
                for k in 0..TAPS {
                    let above = taps[k].above(best);
                    best = taps[k].select(best, above);
                    place = V::splat(f32::from_bits((i * pitch + k) as u32)).select(place, above);
                }
            }
            place.store(found.as_mut_ptr());
        }
        for (l, (y, found)) in y.iter_mut().zip(&found).enumerate() {
            y.write((at + 2 * l) as i64 + i64::from(found.to_bits()));
        }
    }
}
