//! The transform of complex numbers along one axis, and its gradient.

use super::plan::{Plan, plan};
use super::tables::Table;
use super::{Direction, bluestein};
use crate::catalogue::matmul::Matmul;
use crate::catalogue::{flip, fma, mul, permute, reshape};
use crate::prelude::*;

/// The transform of pairs: [rows, n, 2] to [rows, n, 2], of f32 or f64.
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
        Ok(Outputs::from_buf([pairs(x[0], self.direction, self.scale)?]))
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

/// An exact product of matrices: sums of transforms are those of their definition also where a
/// scope asks for fast products.
pub(super) fn product<B: Backend>(x: &Array<B>, y: &Array<B>) -> Result<Array<B>> {
    Matmul { precision: Precision::Exact }.forward_one(&[x, y])
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

/// [rows, n, 2] to [rows, n, 2].
pub(super) fn pairs<B: Backend>(x: &Array<B>, direction: Direction, scale: f64) -> Result<Array<B>> {
    let &[rows, n, _] = &x.shape()[..] else { unreachable!("lines of pairs") };
    match plan(n) {
        Plan::Bluestein(m) => bluestein::convolved(x, m, direction, scale),
        Plan::Radices(radices) if radices.len() == 1 => {
            let table = Table::Pairs { n, direction, scale: scale.to_bits() };
            let w = constant(x, table, &[2 * n, 2 * n])?;
            shaped(&product(&shaped(x, &[rows, 2 * n])?, &w)?, &[rows, n, 2])
        }
        Plan::Radices(radices) => {
            let planes = permute(x, &[0, 2, 1])?.contiguous()?;
            let first = first_radix(&planes, radices[0], direction)?;
            rest_as_pairs(&first, &radices, direction, scale)
        }
    }
}

/// The transforms over the elements that are furthest apart, times the twiddle factors:
/// [rows, parts, n] to [rows, first, 2, n / first], with one part (real numbers) or two.
pub(super) fn first_radix<B: Backend>(x: &Array<B>, first: usize, direction: Direction) -> Result<Array<B>> {
    let &[rows, parts, n] = &x.shape()[..] else { unreachable!("planes of lines") };
    let rest = n / first;
    let table = Table::Planes { n: first, direction, scale: 1f64.to_bits() };
    let matrix = constant(x, table, &[2 * first, 2 * first])?;
    // Of real numbers only the columns of the real part count.
    let matrix = crate::catalogue::narrow(&matrix, 1, 0, parts * first)?;
    let y = product(&matrix, &shaped(x, &[rows, parts * first, rest])?)?;
    let y = permute(&shaped(&y, &[rows, 2, first, rest])?, &[0, 2, 1, 3])?;
    let cos = constant(x, Table::TwiddleCos { first, rest }, &[first, 1, rest])?;
    let sin = constant(x, Table::TwiddleSin { first, rest, direction }, &[first, 2, rest])?;
    twiddled(&y, 2, &cos, &sin)
}

/// The other radices, of [rows, first, 2, n / first]; the result as [rows, n, 2].
pub(super) fn rest_as_pairs<B: Backend>(
    x: &Array<B>,
    radices: &[usize],
    direction: Direction,
    scale: f64,
) -> Result<Array<B>> {
    let &[rows, first, _, rest] = &x.shape()[..] else { unreachable!("planes after a radix") };
    let y = planes(&shaped(x, &[rows * first, 2, rest])?, &radices[1..], direction, scale)?;
    let y = permute(&shaped(&y, &[rows, first, 2, rest])?, &[0, 3, 1, 2])?;
    shaped(&y, &[rows, first * rest, 2])
}

/// [rows, 2, n] to [rows, 2, n].
fn planes<B: Backend>(x: &Array<B>, radices: &[usize], direction: Direction, scale: f64) -> Result<Array<B>> {
    let &[rows, _, n] = &x.shape()[..] else { unreachable!("planes of lines") };
    let [first, others @ ..] = radices else { unreachable!("a radix at least") };
    if others.is_empty() {
        let table = Table::PlanesRight { n, direction, scale: scale.to_bits() };
        let w = constant(x, table, &[2 * n, 2 * n])?;
        return shaped(&product(&shaped(x, &[rows, 2 * n])?, &w)?, &[rows, 2, n]);
    }
    let rest = n / first;
    let y = first_radix(x, *first, direction)?;
    let y = planes(&shaped(&y, &[rows * first, 2, rest])?, others, direction, scale)?;
    let y = permute(&shaped(&y, &[rows, *first, 2, rest])?, &[0, 2, 3, 1])?;
    shaped(&y, &[rows, 2, n])
}
