//! A formula's values at the elements of a chunk.

use super::Statistics;
use crate::dispatch::{SimdFloat, SimdLanes};
use elinvar_lane::formula::{RowFormula, STATS};
use elinvar_lane::lane::Lane;
use std::mem::MaybeUninit;

/// Copies of each statistic of a row.
#[inline(always)]
pub(super) fn splat<T: SimdFloat, L: SimdLanes<T>>(s: &Statistics<T>, row: usize) -> [L; STATS] {
    let mut all = [L::splat(T::ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = L::splat(s[row]);
    }
    all
}

/// Of each statistic those of rows `row` and after.
#[inline(always)]
pub(super) fn load_statistics<T: SimdFloat, L: SimdLanes<T>>(s: &Statistics<T>, row: usize) -> [L; STATS] {
    let mut all = [L::splat(T::ZERO); STATS];
    for (a, s) in all.iter_mut().zip(s) {
        *a = L::load(&s[row..]);
    }
    all
}

/// Elements `j` and after of each operand.
#[inline(always)]
pub(super) fn load<T: SimdFloat, L: SimdLanes<T>, const N: usize, const W: usize>(
    x: &[&[T; W]; N],
    j: usize,
) -> [L; N] {
    let mut all = [L::splat(T::ZERO); N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = L::load(&x[j..]);
    }
    all
}

/// A formula of elements and statistics. Unlike a closure, `at` can be `#[inline(always)]`, and
/// must be: in a function of its own it would be compiled without the kernel's instruction set.
pub(super) trait ElementFormula<const N: usize>: Copy {
    /// The number at an element.
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L;
}

/// The term of statistic `K`.
#[derive(Clone, Copy)]
pub(super) struct Term<R, const K: usize>(pub(super) R);
/// The result.
#[derive(Clone, Copy)]
pub(super) struct Each<R>(pub(super) R);
/// The result of the last statistic's term.
#[derive(Clone, Copy)]
pub(super) struct OfTerm<R, const N: usize>(pub(super) R);

impl<R: RowFormula<N>, const N: usize, const K: usize> ElementFormula<N> for Term<R, K> {
    #[inline(always)]
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L {
        self.0.term(K, x, s, n)
    }
}
impl<R: RowFormula<N>, const N: usize> ElementFormula<N> for Each<R> {
    #[inline(always)]
    fn at<L: Lane>(&self, x: [L; N], s: [L; STATS], n: L) -> L {
        self.0.out(x, s, n)
    }
}
impl<R: RowFormula<N>, const N: usize> ElementFormula<1> for OfTerm<R, N> {
    #[inline(always)]
    fn at<L: Lane>(&self, [term]: [L; 1], s: [L; STATS], n: L) -> L {
        self.0.out_of_term(term, s, n)
    }
}

/// A chunk of one row. What is written is known to be apart from what is read by being an argument.
#[inline(always)]
pub(super) fn chunk<
    T: SimdFloat,
    L: SimdLanes<T> + Lane,
    F: ElementFormula<N>,
    const N: usize,
    const W: usize,
>(
    f: F,
    x: [&[T; W]; N],
    s: [L; STATS],
    n: L,
    y: &mut [MaybeUninit<T>; W],
) {
    let mut j = 0;
    while j < W {
        // First, as in a loop over blocks (`vector_loop`).
        let y = &mut y[j..j + L::WIDTH];
        f.at(load(&x, j), s, n).write(y);
        j += L::WIDTH;
    }
}

/// Runs the body with the constant `$K` for statistic `$k`.
macro_rules! each_statistic {
    ($k:expr, $K:ident => $body:expr) => {
        each_statistic!(@ $k, $K, $body, 0 1 2 3)
    };
    (@ $k:expr, $K:ident, $body:expr, $($number:literal)*) => {
        match $k {
            $($number if const { $number < R::FOLDS.len() } => {
                const $K: usize = $number;
                $body
            })*
            _ => unreachable!("a formula has no more statistics than it says"),
        }
    };
}
pub(super) use each_statistic;
