//! The levels of as many transforms as a register has lanes.
//!
//! An element is two registers, its real and its imaginary part, one after the other. Up to three
//! levels of two run on elements that stay in registers: the arithmetic of each is unchanged, and
//! what is between them is neither stored nor loaded. Other levels are chains of fma with a
//! matrix, several rows of it at once, since each chain waits for itself.
//!
//! How it can be wrong: by the place of an element between two levels that run together. Element q
//! of level s stands where t was, so the results of three levels are in order of reversed bits.
#![allow(unsafe_code, reason = "vector registers at places that callers have checked")]

use crate::fft::tables::Level;
use elinvar_ops::catalogue::fourier::plan::MAX_RADIX;
use elinvar_simd::isa::Isa;
use elinvar_simd::quad::GatherVector;
use elinvar_simd::vector::{SimdElement, Vector, VectorKernel, dispatch_vectors};

/// An element of each line: its parts.
type Pair<V> = [V; 2];

/// Which of the elements of longer transforms these are: `l` is the product of the levels before
/// these, and lane i has element `k + i` of each, or `ALONG` is false and all have element 0.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) l: usize,
    pub(super) k: usize,
}

/// Registers that a pass of three levels needs: 16 for its elements, the others for factors.
const WIDE_TILE_ROWS: usize = 8;

/// Runs `levels` on `size` elements in `a`, with `b` as other memory, and says which of the two has
/// the results. Compiled once for all callers: they have the same registers.
///
/// # Safety
/// Both have `2 * size` of the registers of [`dispatch_vectors`]; `size` is the product of the
/// levels; tables of levels have a register's elements from `place.k` on if `ALONG`.
#[inline(always)]
pub(super) unsafe fn run<T: SimdElement, const ALONG: bool>(
    isa: Isa,
    levels: &[Level<T>],
    place: Place,
    size: usize,
    [from, other]: [*mut T; 2],
) -> *mut T {
    let mut results = from;
    dispatch_vectors(
        isa,
        LevelsKernel::<T, ALONG> { levels, place, size, from, other, results: &mut results },
    );
    results
}

/// What [`run`] does, made by it alone.
struct LevelsKernel<'a, T, const ALONG: bool> {
    levels: &'a [Level<T>],
    place: Place,
    size: usize,
    from: *mut T,
    other: *mut T,
    results: &'a mut *mut T,
}

impl<T: SimdElement, const ALONG: bool> VectorKernel for LevelsKernel<'_, T, ALONG> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: GatherVector<T = T>>(self) {
        // SAFETY: the caller's registers, and what `run` asks for.
        *self.results =
            unsafe { run_in::<V, ALONG>(self.levels, self.place, self.size, [self.from, self.other]) };
    }
}

/// [`run`] in these registers.
///
/// # Safety
/// The processor has the registers `V`; as there.
#[inline(always)]
unsafe fn run_in<V: Vector, const ALONG: bool>(
    levels: &[Level<V::T>],
    place: Place,
    size: usize,
    [mut a, mut b]: [*mut V::T; 2],
) -> *mut V::T {
    let (mut l, mut rest) = (1, levels);
    while let [level, others @ ..] = rest {
        let twos = rest.iter().take_while(|level| level.radix == 2).count();
        let pass = Pass { levels: rest, place, l, m: size / l, from: a, to: b };
        let is_wide = V::TILE_ROWS >= WIDE_TILE_ROWS;
        // SAFETY: the caller's; the levels of a pass are as many twos as it runs, or one of another
        // prime.
        unsafe {
            match twos {
                0 => {
                    pass.by_matrix::<V, ALONG>();
                    (l, rest) = (l * level.radix, others);
                }
                3 | 5.. if is_wide => {
                    pass.of_twos::<V, ALONG, 3>();
                    (l, rest) = (8 * l, &rest[3..]);
                }
                2.. => {
                    pass.of_twos::<V, ALONG, 2>();
                    (l, rest) = (4 * l, &rest[2..]);
                }
                1 => {
                    pass.of_twos::<V, ALONG, 1>();
                    (l, rest) = (2 * l, others);
                }
            }
        }
        (a, b) = (b, a);
    }
    a
}

/// Factors of a turn: cosine, and sine for either part.
#[derive(Clone, Copy)]
struct Turn<V> {
    cos: V,
    sin: [V; 2],
}

impl<V: Vector> Turn<V> {
    /// Those of number `t` of element `k`.
    #[inline(always)]
    unsafe fn of<const ALONG: bool>(level: &Level<V::T>, t: usize, k: usize) -> Self {
        let at = t * level.l + k;
        // SAFETY: the caller's: tables have `radix * l` elements, and k is below l by a register's
        // worth if they are read along.
        unsafe {
            let read = |table: &[V::T]| {
                debug_assert!(at + if ALONG { V::LANES } else { 1 } <= table.len());
                let p = table.as_ptr().add(at);
                if ALONG { V::load(p) } else { V::splat(*p) }
            };
            Turn { cos: read(&level.cos), sin: [read(&level.sin[0]), read(&level.sin[1])] }
        }
    }
    /// The number turned.
    #[inline(always)]
    unsafe fn turn(&self, [re, im]: Pair<V>) -> Pair<V> {
        // SAFETY: the caller's instruction set.
        unsafe { [im.fma(self.sin[0], re.mul(self.cos)), re.fma(self.sin[1], im.mul(self.cos))] }
    }
}

/// One pass over the elements: `m` before it of which each has `l` results of the levels before.
struct Pass<'a, T> {
    levels: &'a [Level<T>],
    place: Place,
    l: usize,
    m: usize,
    from: *mut T,
    to: *mut T,
}

impl<T: SimdElement> Pass<'_, T> {
    #[inline(always)]
    unsafe fn load<V: Vector<T = T>>(&self, i: usize) -> Pair<V> {
        // SAFETY: the caller's: element i is one of `size`.
        unsafe {
            let p = self.from.add(2 * i * V::LANES);
            [V::load(p), V::load(p.add(V::LANES))]
        }
    }
    #[inline(always)]
    unsafe fn store<V: Vector<T = T>>(&self, i: usize, [re, im]: Pair<V>) {
        // SAFETY: as above.
        unsafe {
            let p = self.to.add(2 * i * V::LANES);
            re.store(p);
            im.store(p.add(V::LANES));
        }
    }

    /// `C` levels of two.
    #[inline(always)]
    unsafe fn of_twos<V: Vector<T = T>, const ALONG: bool, const C: usize>(&self) {
        // SAFETY: the caller's.
        unsafe {
            if !ALONG && self.levels[0].l == 1 {
                self.of_twos_by::<V, ALONG, true, C>();
            } else {
                self.of_twos_by::<V, ALONG, false, C>();
            }
        }
    }
    #[inline(always)]
    unsafe fn of_twos_by<V: Vector<T = T>, const ALONG: bool, const FIRST: bool, const C: usize>(&self) {
        let (l, count) = (self.l, 1 << C);
        let m = self.m / count;
        debug_assert!(self.m.is_multiple_of(count) && self.levels[..C].iter().all(|x| x.radix == 2));
        // SAFETY: the caller's; the elements are below m * count * l.
        unsafe {
            let zero = V::splat(T::ZERO);
            for k in 0..l {
                // Of stage s, and what was chosen before it: the factors in order of use.
                let none = Turn { cos: zero, sin: [zero; 2] };
                let mut turns = [none; 7];
                for s in 0..C {
                    for q in 0..1 << s {
                        if !(FIRST && s == 0) {
                            let k = self.place.k + self.place.l * (k + l * q);
                            turns[(1 << s) - 1 + q] = Turn::of::<ALONG>(&self.levels[s], 1, k);
                        }
                    }
                }
                for j in 0..m {
                    let mut x = [[zero; 2]; 8];
                    for (t, x) in x[..count].iter_mut().enumerate() {
                        *x = self.load::<V>((j + m * t) * l + k);
                    }
                    for s in 0..C {
                        let half = count >> (s + 1);
                        for top in 0..1 << s {
                            let q = reversed(top, s);
                            for t in 0..half {
                                let (i, o) = (top * 2 * half + t, top * 2 * half + t + half);
                                let even = x[i];
                                let odd =
                                    if FIRST && s == 0 { x[o] } else { turns[(1 << s) - 1 + q].turn(x[o]) };
                                x[i] = [odd[0].add(even[0]), odd[1].add(even[1])];
                                x[o] = [even[0].sub(odd[0]), even[1].sub(odd[1])];
                            }
                        }
                    }
                    for (p, &x) in x[..count].iter().enumerate() {
                        self.store::<V>((j * count + reversed(p, C)) * l + k, x);
                    }
                }
            }
        }
    }

    /// A level of another prime.
    #[inline(always)]
    unsafe fn by_matrix<V: Vector<T = T>, const ALONG: bool>(&self) {
        let level = &self.levels[0];
        let (l, r) = (self.l, level.radix);
        let m = self.m / r;
        debug_assert!(self.m.is_multiple_of(r) && level.matrix.len() == 4 * r * r);
        // SAFETY: the caller's; the elements are below m * r * l.
        unsafe {
            let mut terms = [V::splat(T::ZERO); 2 * MAX_RADIX];
            for k in 0..l {
                for j in 0..m {
                    for t in 0..r {
                        let mut x = self.load::<V>((j + m * t) * l + k);
                        if level.l > 1 {
                            x = Turn::of::<ALONG>(level, t, self.place.k + self.place.l * k).turn(x);
                        }
                        [terms[t], terms[r + t]] = x;
                    }
                    let rows =
                        Rows { terms: &terms[..2 * r], matrix: level.matrix.as_ptr(), at: j * r * l + k };
                    match r {
                        3 => self.rows::<V, 6>(&rows, 0),
                        5 => self.rows::<V, 10>(&rows, 0),
                        _ => {
                            for row in (0..r / 4 * 8).step_by(8) {
                                self.rows::<V, 8>(&rows, row);
                            }
                            match r % 4 {
                                1 => self.rows::<V, 2>(&rows, r / 4 * 8),
                                _ => self.rows::<V, 6>(&rows, r / 4 * 8),
                            }
                        }
                    }
                }
            }
        }
    }
    /// `N` rows of the matrix from `first` on.
    #[inline(always)]
    unsafe fn rows<V: Vector<T = T>, const N: usize>(&self, rows: &Rows<'_, V>, first: usize) {
        let r = rows.terms.len() / 2;
        debug_assert!(first + N <= 2 * r);
        // SAFETY: the caller's; the matrix has a column of 2 r numbers for each term.
        unsafe {
            let mut sums = [V::splat(T::ZERO); N];
            for (i, &term) in rows.terms.iter().enumerate() {
                let column = rows.matrix.add(2 * r * i + first);
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum = V::splat(*column.add(n)).fma(term, *sum);
                }
            }
            for (n, &sum) in sums.iter().enumerate() {
                let (part, q) = ((first + n) / r, (first + n) % r);
                sum.store(self.to.add((2 * (rows.at + q * self.l) + part) * V::LANES));
            }
        }
    }
}

/// The numbers that a level takes together, the matrix, column by column, and the first result.
struct Rows<'a, V: Vector> {
    terms: &'a [V],
    matrix: *const V::T,
    at: usize,
}

/// The last `bits` bits in reverse order.
#[inline(always)]
const fn reversed(i: usize, bits: usize) -> usize {
    let (mut i, mut out, mut n) = (i, 0, 0);
    while n < bits {
        out = 2 * out + i % 2;
        i /= 2;
        n += 1;
    }
    out
}
