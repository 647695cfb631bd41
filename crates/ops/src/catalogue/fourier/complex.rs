//! The transform of complex numbers along one axis, and its gradient.

use super::plan::{Plan, plan};
use super::tables::Table;
use super::{Direction, bluestein, fused};
use crate::backend::FourierKind;
use crate::catalogue::matmul::Matmul;
use crate::catalogue::{expand, flip, fma, mul, narrow, permute, reshape};
use crate::prelude::*;

/// The transform of pairs: [before, after, n, 2] to the same shape, of f32 or f64.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Dft {
    /// The sign of the exponent.
    pub direction: Direction,
    /// Results are multiplied by this.
    pub scale: f64,
}

impl Op for Dft {
    fn name(&self) -> &'static str {
        match self.direction {
            Direction::Forward => "fft",
            Direction::Inverse => "ifft",
        }
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let n = x[0].shape()[2];
        let kind = FourierKind::Complex(self.direction);
        let y = fused(x[0], kind, n, self.scale, |x| pairs(x, self.direction, self.scale))?;
        Ok(Outputs::from_buf([y]))
    }
    /// The matrix is symmetric, so its adjoint is that of the other direction.
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a transform has one result");
        Ok(vec![Some(V::apply(Dft { direction: self.direction.opposite(), ..*self }, &[g])?)])
    }
}

/// A table of constants like `x`, of this shape.
pub(super) fn constant<B: Backend>(x: &Array<B>, table: Table, shape: &[usize]) -> Result<Array<B>> {
    Array::from_f64s(x.device(), table.numbers().to_vec(), shape, x.dtype())
}

/// x of this shape.
pub(super) fn shaped<B: Backend>(x: &Array<B>, shape: &[usize]) -> Result<Array<B>> {
    reshape::to_shape(x, &Shape::new(shape)?)
}

/// x * cos + x' * sin, with x' the other part of each number; `axis` holds the parts.
pub(super) fn twiddled<B: Backend>(
    x: &Array<B>,
    axis: isize,
    cos: &Array<B>,
    sin: &Array<B>,
) -> Result<Array<B>> {
    fma(&flip(x, &[axis])?, sin, &mul(x, cos)?)
}

/// x with the parts of each number swapped, [rows, n, 2]: what makes an inverse transform of a
/// forward one.
pub(super) fn swapped<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    flip(x, &[2])
}

/// x times a number, which is left out if it is 1.
pub(super) fn scaled<B: Backend>(x: &Array<B>, scale: f64) -> Result<Array<B>> {
    if scale == 1.0 { Ok(x.clone()) } else { mul(x, &x.scalar_like(scale)?) }
}

/// [rows, n, 2] to [rows, n, 2].
pub(super) fn pairs<B: Backend>(x: &Array<B>, direction: Direction, scale: f64) -> Result<Array<B>> {
    let y = match direction {
        Direction::Forward => forward(x)?,
        Direction::Inverse => swapped(&forward(&swapped(x)?)?)?,
    };
    scaled(&y, scale)
}

/// The forward transform, not scaled.
pub(super) fn forward<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    let &[rows, n, _] = &x.shape()[..] else { unreachable!("lines of pairs") };
    let levels = match plan(n) {
        Plan::Bluestein(m) => return bluestein::convolved(x, m),
        Plan::Levels(levels) => levels,
    };
    // [rows, j, q, k, part]: for each j the transform of the elements that are n / l apart, from
    // element j on, of which this is element l' q + k.
    let mut z = shaped(x, &[rows, n, 1, 1, 2])?;
    for r in levels {
        z = if r == 2 { level_of_two(&z)? } else { level_by_product(&z, r)? };
    }
    shaped(&z, &[rows, n, 2])
}

/// Joins pairs of transforms: sums and differences. All of it has the shape of the result, so that
/// it is one kernel where maps are fused.
fn level_of_two<B: Backend>(z: &Array<B>) -> Result<Array<B>> {
    let &[rows, all, q, k, _] = &z.shape()[..] else { unreachable!("transforms of pairs") };
    let (m, l) = (all / 2, q * k);
    let both = Shape::new(&[rows, m, 2, q, k, 2])?;
    let half = |i: usize| {
        let half = narrow(z, 1, (i * m) as isize, m)?;
        expand(&shaped(&half, &[rows, m, 1, q, k, 2])?, &both)
    };
    let (even, odd) = (half(0)?, half(1)?);
    let odd = if l > 1 {
        let table = |t, parts: usize| {
            let all = narrow(&constant(z, t, &[parts, 2, q, k])?, 1, 1, 1)?;
            shaped(&permute(&all, &[1, 2, 3, 0])?, &[q, k, parts])
        };
        let cos = table(Table::TwiddleCos { radix: 2, l }, 1)?;
        twiddled(&odd, 5, &cos, &table(Table::TwiddleSin { radix: 2, l }, 2)?)?
    } else {
        odd
    };
    let sign = Array::from_f64s(z.device(), vec![1.0, -1.0], &[2, 1, 1, 1], z.dtype())?;
    shaped(&fma(&odd, &sign, &even)?, &[rows, m, 2, l, 2])
}

/// Joins `r` transforms each by a product with the matrix of a transform of length r.
fn level_by_product<B: Backend>(z: &Array<B>, r: usize) -> Result<Array<B>> {
    let &[rows, all, q, k, _] = &z.shape()[..] else { unreachable!("transforms of pairs") };
    let (m, l) = (all / r, q * k);
    let z = permute(&shaped(z, &[rows, r, m, q, k, 2])?, &[0, 5, 1, 2, 3, 4])?;
    let z = if l > 1 {
        let cos = constant(&z, Table::TwiddleCos { radix: r, l }, &[r, 1, q, k])?;
        let sin = constant(&z, Table::TwiddleSin { radix: r, l }, &[2, r, 1, q, k])?;
        twiddled(&z, 1, &cos, &sin)?
    } else {
        z
    };
    let matrix = constant(&z, Table::Planes { n: r }, &[2 * r, 2 * r])?;
    // Exact: sums of transforms are those of their definition also where a scope asks for fast
    // products.
    let product = Matmul { precision: Precision::Exact };
    let y = product.forward_one(&[&matrix, &shaped(&z, &[rows, 2 * r, m * l])?])?;
    permute(&shaped(&y, &[rows, 2, r, m, l])?, &[0, 3, 2, 4, 1])
}
