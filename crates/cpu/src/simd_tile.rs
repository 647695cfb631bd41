//! Chains of fma in register tiles: `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for p in ascending order.
//!
//! Each element of `c` is one chain, whatever the tile; what vectors and tiles change is only how many chains go at once.

#![allow(
    clippy::needless_range_loop,
    reason = "rows and vectors of a tile are counted, so that the loops unroll"
)]

use crate::isa::{Isa, Level};
use elinvar_core::order::CHUNK;

/// Columns of `b` and `c` come in multiples of this: one AVX-512 register of f32, two of f64.
pub(crate) const COLUMNS: usize = 16;

/// A matrix in memory: element (i, j) is at `i * row + j * column`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided<'a, C> {
    pub data: &'a [C],
    pub row: usize,
    pub column: usize,
}

/// Vectors of an instruction set.
#[allow(unsafe_code, reason = "whoever calls sees to it that the processor has the instructions")]
trait Simd<C>: Copy {
    type Vector: Copy;
    const WIDTH: usize;
    /// # Safety
    /// The instruction set is that of this processor; so for all below.
    unsafe fn splat(self, x: C) -> Self::Vector;
    /// # Safety
    /// `p..p + WIDTH` can be read.
    unsafe fn load(self, p: *const C) -> Self::Vector;
    /// # Safety
    /// `p..p + WIDTH` can be written.
    unsafe fn store(self, p: *mut C, v: Self::Vector);
    /// # Safety
    /// As for `splat`.
    unsafe fn fma(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
}

/// No vectors but those that the compiler finds.
#[derive(Clone, Copy)]
struct Plain;

macro_rules! plain {
    ($($t:ty),*) => {$(
        #[allow(unsafe_code, reason = "the trait's other implementations need it")]
        impl Simd<$t> for Plain {
            type Vector = [$t; 8];
            const WIDTH: usize = 8;
            #[inline(always)]
            unsafe fn splat(self, x: $t) -> [$t; 8] {
                [x; 8]
            }
            #[inline(always)]
            unsafe fn load(self, p: *const $t) -> [$t; 8] {
                // SAFETY: the caller's promise; arrays need no more alignment than their elements.
                unsafe { p.cast::<[$t; 8]>().read() }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t, v: [$t; 8]) {
                // SAFETY: as for `load`.
                unsafe { p.cast::<[$t; 8]>().write(v) }
            }
            #[inline(always)]
            unsafe fn fma(self, a: [$t; 8], b: [$t; 8], c: [$t; 8]) -> [$t; 8] {
                std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
            }
        }
    )*};
}
plain!(f32, f64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(super) struct Avx2;
    #[derive(Clone, Copy)]
    pub(super) struct Avx512;

    macro_rules! vectors {
        ($($isa:ident $t:ty: $v:ty, $width:literal, $splat:ident, $load:ident, $store:ident, $fma:ident;)*) => {$(
            #[allow(unsafe_code, reason = "vector instructions")]
            impl Simd<$t> for $isa {
                type Vector = $v;
                const WIDTH: usize = $width;
                #[inline(always)]
                unsafe fn splat(self, x: $t) -> $v {
                    // SAFETY: the caller's promise; so below.
                    unsafe { $splat(x) }
                }
                #[inline(always)]
                unsafe fn load(self, p: *const $t) -> $v {
                    // SAFETY: see above.
                    unsafe { $load(p) }
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $t, v: $v) {
                    // SAFETY: see above.
                    unsafe { $store(p, v) }
                }
                #[inline(always)]
                unsafe fn fma(self, a: $v, b: $v, c: $v) -> $v {
                    // SAFETY: see above.
                    unsafe { $fma(a, b, c) }
                }
            }
        )*};
    }
    vectors! {
        Avx2 f32: __m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps;
        Avx2 f64: __m256d, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd;
        Avx512 f32: __m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps;
        Avx512 f64: __m512d, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd;
    }
}

/// A chain of products, checked: pointers into matrices that are large enough.
#[derive(Clone, Copy)]
struct Chain<C> {
    m: usize,
    n: usize,
    k: usize,
    a: *const C,
    a_row: usize,
    a_column: usize,
    b: *const C,
    b_row: usize,
    c: *mut C,
    c_row: usize,
    /// Start from +0, not from what is in `c`.
    fresh: bool,
}

#[allow(unsafe_code, reason = "pointers into slices whose lengths were checked once, in `chain`")]
impl<C: Copy> Chain<C> {
    /// # Safety
    /// The matrices have the sizes; `S` is an instruction set of this processor; `n` is a multiple of its width.
    #[inline(always)]
    unsafe fn run<S: Simd<C>, const NV: usize>(self, s: S, zero: C) {
        let mut j = 0;
        while j + NV * S::WIDTH <= self.n {
            // SAFETY: the columns j.. of `b` and `c` have NV vectors.
            unsafe { self.strip::<S, NV>(s, j, zero) };
            j += NV * S::WIDTH;
        }
        while j + S::WIDTH <= self.n {
            // SAFETY: as above, for one vector.
            unsafe { self.strip::<S, 1>(s, j, zero) };
            j += S::WIDTH;
        }
    }
    /// # Safety
    /// As for `run`, and `j + NV * WIDTH <= n`.
    #[inline(always)]
    unsafe fn strip<S: Simd<C>, const NV: usize>(self, s: S, j: usize, zero: C) {
        let mut i = 0;
        while i + 4 <= self.m {
            // SAFETY: four rows from i on exist.
            unsafe { self.tile::<S, 4, NV>(s, i, j, zero) };
            i += 4;
        }
        while i < self.m {
            // SAFETY: row i exists.
            unsafe { self.tile::<S, 1, NV>(s, i, j, zero) };
            i += 1;
        }
    }
    /// # Safety
    /// As for `strip`, and `i + MR <= m`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "rows and vectors of a tile are known by their numbers")]
    unsafe fn tile<S: Simd<C>, const MR: usize, const NV: usize>(self, s: S, i: usize, j: usize, zero: C) {
        // SAFETY: all places are inside of the matrices, by the caller's promises.
        unsafe {
            let c = self.c.add(i * self.c_row + j);
            let a = self.a.wrapping_add(i * self.a_row);
            let b = self.b.wrapping_add(j);
            let mut sums = [[s.splat(zero); NV]; MR];
            if !self.fresh {
                for r in 0..MR {
                    for v in 0..NV {
                        sums[r][v] = s.load(c.add(r * self.c_row + v * S::WIDTH));
                    }
                }
            }
            for p in 0..self.k {
                let mut right = [s.splat(zero); NV];
                for v in 0..NV {
                    right[v] = s.load(b.add(p * self.b_row + v * S::WIDTH));
                }
                for r in 0..MR {
                    let left = s.splat(*a.add(r * self.a_row + p * self.a_column));
                    for v in 0..NV {
                        sums[r][v] = s.fma(left, right[v], sums[r][v]);
                    }
                }
            }
            for r in 0..MR {
                for v in 0..NV {
                    s.store(c.add(r * self.c_row + v * S::WIDTH), sums[r][v]);
                }
            }
        }
    }
}

/// f32 or f64, in tiles.
pub(crate) trait Tiled: Copy + std::ops::Add<Output = Self> + 'static {
    /// `c[i, j] = fma(a[i, p], b[p, j], c[i, j])` for p in `0..k`, ascending; from +0 if `fresh`. `n` is a multiple of
    /// [`COLUMNS`]; `b` and `c` have columns side by side.
    fn chain(
        isa: Isa,
        size: [usize; 3],
        a: Strided<'_, Self>,
        b: (&[Self], usize),
        c: (&mut [Self], usize),
        fresh: bool,
    );
    /// The contraction of a and b in the canonical order: chunks of [`CHUNK`] terms. `spare` is as large as `c`.
    fn contract(
        isa: Isa,
        [m, n, k]: [usize; 3],
        a: Strided<'_, Self>,
        b: (&[Self], usize),
        (c, c_row): (&mut [Self], usize),
        spare: &mut [Self],
    ) {
        Self::chain(isa, [m, n, k.min(CHUNK)], a, b, (c, c_row), true);
        for p in (CHUNK..k).step_by(CHUNK) {
            let a = Strided { data: &a.data[p * a.column..], ..a };
            Self::chain(isa, [m, n, CHUNK.min(k - p)], a, (&b.0[p * b.1..], b.1), (spare, c_row), true);
            for (c, &s) in c[..m * c_row].iter_mut().zip(&*spare) {
                *c = *c + s;
            }
        }
    }
}

macro_rules! tiled {
    ($($t:ty),*) => {$(
        impl Tiled for $t {
            #[allow(unsafe_code, reason = "vector instructions, on matrices that are checked here")]
            fn chain(
                isa: Isa,
                [m, n, k]: [usize; 3],
                a: Strided<'_, $t>,
                (b, b_row): (&[$t], usize),
                (c, c_row): (&mut [$t], usize),
                fresh: bool,
            ) {
                if m == 0 || n == 0 {
                    return;
                }
                assert!(n.is_multiple_of(COLUMNS) && (m - 1) * c_row + n <= c.len());
                assert!(k == 0 || ((m - 1) * a.row + (k - 1) * a.column < a.data.len()));
                assert!(k == 0 || ((k - 1) * b_row + n <= b.len()));
                let (a_row, a_column) = (a.row, a.column);
                let (a, b, c) = (a.data.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                let chain = Chain { m, n, k, a, a_row, a_column, b, b_row, c, c_row, fresh };
                match isa.level() {
                    // SAFETY: the sizes were checked above, and `Plain` needs no instructions.
                    Level::Plain => unsafe { chain.run::<Plain, 2>(Plain, 0.0) },
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => {
                        #[target_feature(enable = "avx2,fma")]
                        fn avx2(chain: Chain<$t>) {
                            // SAFETY: the sizes were checked by the only caller.
                            unsafe { chain.run::<x86::Avx2, 2>(x86::Avx2, 0.0) }
                        }
                        // SAFETY: an `Isa` of this level exists only on processors that have it.
                        unsafe { avx2(chain) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => {
                        #[target_feature(enable = "avx512f,avx2,fma")]
                        fn avx512(chain: Chain<$t>) {
                            // SAFETY: the sizes were checked by the only caller.
                            unsafe { chain.run::<x86::Avx512, 4>(x86::Avx512, 0.0) }
                        }
                        // SAFETY: as above.
                        unsafe { avx512(chain) }
                    }
                }
            }
        }
    )*};
}
tiled!(f32, f64);
