//! One-sided Jacobi rotations (Hestenes 1958): rows are turned in pairs until all are orthogonal.
//!
//! A round turns disjoint pairs of neighbours and exchanges them, the next one the pairs between;
//! after as many rounds as there are rows each two have met once, which is a sweep (odd-even
//! ordering; it is equivalent to the cyclic one, for which convergence is proved: Luk and Park
//! 1989). Sweeps are a fixed number, as nothing reads whether they are still needed: convergence is
//! quadratic at the end, and before that the number grows as the logarithm of the size (Brent and
//! Luk 1985). Pairs that are orthogonal to rounding are left alone, so more sweeps change nothing
//! (but the order of rows, and signs of zeros).

use super::product;
use crate::array;
use crate::catalogue::{abs, argmax, concat, flip, fma, gather, mul, narrow, reshape};
use crate::factor_steps::rotation;
use crate::prelude::*;
use crate::rows::{STATS, stands_in};

/// The squares of two rows, and their product.
#[derive(Clone, Copy, Debug)]
struct Pair;

impl RowFormula<2> for Pair {
    const NAME: &'static str = "jacobi_pair";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Statistics;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, y]: [L; 2], _: [L; STATS], _: L) -> L {
        match k {
            0 => x * x,
            1 => y * y,
            _ => x * y,
        }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[0]
    }
}
impl Rows<2> for Pair {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("jacobi_pair")
    }
}
compile_rows! { 2 Pair; }

/// Its angle's cosine where `side` is 0, else the sine times `side`.
#[derive(Clone, Copy, Debug)]
struct Angle;

impl Map<4> for Angle {
    const NAME: &'static str = "jacobi_angle";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, c, side]: [L; 4]) -> L {
        let t = rotation::tangent([a, b, c]);
        L::select(side.eq(L::lit(0.0)), rotation::cosine(t), side * rotation::sine(t))
    }
}
compile_map! { 4 Angle; }

/// An element after the rotation: operands are itself, that of the other row, cosine and sine.
#[derive(Clone, Copy, Debug)]
struct Rotate;

impl Map<4> for Rotate {
    const NAME: &'static str = "jacobi_rotate";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, other, cos, sin]: [L; 4]) -> L {
        rotation::rotated(x, other, cos, sin)
    }
}
compile_map! { 4 Rotate; }

/// How often each two of n rows meet.
fn sweeps(n: usize, dtype: DType) -> usize {
    let doublings = usize::BITS as usize - n.saturating_sub(1).leading_zeros() as usize;
    match doublings {
        0 => 0,
        1 => 2,
        _ => doublings + if dtype == DType::F64 { 6 } else { 5 },
    }
}

/// The rows of x [b, n, w], turned until their first r elements are orthogonal, in some order.
pub(super) fn orthogonal<B: Backend>(x: &Array<B>, r: usize) -> Result<Array<B>> {
    let n = x.shape()[1];
    let rounds = n * sweeps(n, x.dtype());
    if let Some(y) = super::fused_one(x.device(), &Fused::Rotations { r, rounds }, &[x], x.shape())? {
        return Ok(y);
    }
    let sides = Array::from_f64s(x.device(), vec![0.0, 1.0, -1.0], &[3, 1], x.dtype())?;
    let mut x = x.clone();
    for round in 0..rounds {
        x = turn(&x, r, round % 2, &sides)?;
    }
    Ok(x)
}

/// One round: the pairs of neighbours from row `start` on, exchanged.
fn turn<B: Backend>(x: &Array<B>, r: usize, start: usize, sides: &Array<B>) -> Result<Array<B>> {
    let &[b, n, w] = &x.shape()[..] else { unreachable!("rows of matrices") };
    let h = (n - start) / 2;
    if h == 0 {
        return Ok(x.clone());
    }
    let inside = narrow(x, 1, start as isize, 2 * h)?;
    let pairs = reshape::to_shape(&inside, &Shape::new(&[b, h, 2, w])?)?;
    let data = narrow(&pairs, 3, 0, r)?;
    let row = |i: isize| narrow(&data, 2, i, 1);
    let of = rows(Pair, &[3], [&row(0)?, &row(1)?])?;
    let of = reshape::to_shape(&of, &Shape::new(&[b, h, 1, 3])?)?;
    let [p, q, both] = [narrow(&of, 3, 0, 1)?, narrow(&of, 3, 1, 1)?, narrow(&of, 3, 2, 1)?];
    let angle = array::map(&Angle, [&p, &q, &both, sides])?;
    let (cos, sin) = (narrow(&angle, 2, 0, 1)?, narrow(&angle, 2, 1, 2)?);
    // (x, y) becomes (s x + c y, c x - s y).
    let turned = array::map(&Rotate, [&pairs, &flip(&pairs, &[2])?, &cos, &sin])?;
    let turned = reshape::to_shape(&turned, &Shape::new(&[b, 2 * h, w])?)?;
    let (first, last) = (narrow(x, 1, 0, start)?, narrow(x, 1, (start + 2 * h) as isize, n - start - 2 * h)?);
    let all: Vec<&Array<B>> = [&first, &turned, &last].into_iter().filter(|p| p.shape()[1] > 0).collect();
    if let [whole] = all[..] { Ok(whole.clone()) } else { concat(&all, 1) }
}

/// Rows [b, n, n] that are nearly orthonormal, made so to rounding: one step of Newton's iteration
/// (Bjorck and Bowie 1971).
pub(super) fn orthonormal<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    let gram = product(x, &super::turned(x)?)?;
    let cubed = product(&gram, x)?;
    let half = mul(&cubed, &x.scalar_like(-0.5)?)?;
    fma(x, &x.scalar_like(1.5)?, &half)
}

/// The sign of x, 1 for zeros.
#[derive(Clone, Copy, Debug)]
struct SignOf;

impl Map<1> for SignOf {
    const NAME: &'static str = "sign_or_one";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::select(x.lt(L::lit(0.0)), L::lit(-1.0), L::lit(1.0))
    }
}
compile_map! { 1 SignOf; }

/// -1 where an element is negative, else 1.
pub(super) fn signs<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    array::map(&SignOf, [x])
}

/// [b, n, 1]: the sign of the element of largest magnitude, the first among equals, of each row of
/// [b, n, w].
pub(super) fn row_signs<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    let at = argmax(&abs(x)?, Some(2), true)?;
    signs(&gather(x, 2, &at)?)
}
