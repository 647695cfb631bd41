//! Determinants from LU factors.

use super::lu::{Solve, constants};
use super::{check_square, eye, matrices, sizes};
use crate::array;
use crate::catalogue::{abs, diagonal, log, mul, ne, prod, reshape, sign, sum, view, where_};
use crate::prelude::*;
use crate::value::cast;

/// (det), or (sign, logabsdet), of [b, n, n], n not 0; operands A, and its packed factors,
/// exchanges and order, which are constants.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Determinant {
    /// Is it the sign and the logarithm?
    pub log: bool,
}

/// x on the diagonal, and eps where it is 0.
#[derive(Clone, Copy, Debug)]
struct NotZero;

impl Map<2> for NotZero {
    const NAME: &'static str = "lu_not_zero";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, diagonal]: [L; 2]) -> L {
        let eps = if L::bits() == 64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let replaced = x.eq(L::lit(0.0)) & diagonal.ne(L::lit(0.0));
        L::select(replaced, L::lit(eps), x)
    }
}
compile_map! { 2 NotZero; }

impl Op for Determinant {
    fn name(&self) -> &'static str {
        if self.log { "slogdet" } else { "det" }
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [_, lu, pivots, _] = x[..] else { unreachable!("four operands") };
        let n = lu.shape()[1];
        let own: Array<B> = view::numbers(lu, n, 1..=n as i64)?;
        let exchanged = ne(&cast(pivots, DType::I64)?, &own)?;
        let turns = where_(&exchanged, &lu.scalar_like(-1.0)?, &lu.scalar_like(1.0)?)?;
        let parity = prod(&turns, Some(&[1]), false)?;
        let pivots = diagonal(lu, 0, 1, 2)?;
        if !self.log {
            return Ok(Outputs::from_buf([mul(&prod(&pivots, Some(&[1]), false)?, &parity)?]));
        }
        let signs = mul(&prod(&sign(&pivots)?, Some(&[1]), false)?, &parity)?;
        Ok(Outputs::from_iter([signs, sum(&log(&abs(&pivots)?)?, Some(&[1]), false)?]))
    }
    /// A^-T times g det, or times g of the logarithm. Pivots of 0 are replaced by eps: beside a
    /// determinant of 0 the gradient is 0.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let (a, lu) = (c.x(0), c.x(1));
        let &[b, n, _] = &lu.shape()[..] else { unreachable!("matrices") };
        let Some(Some(g)) = g.get(usize::from(self.log)) else { return Ok(vec![None; 4]) };
        let factor = if self.log { g.clone() } else { mul(g, c.y(0))? };
        let unit = eye(lu, n, n)?;
        let right = mul(&unit, &reshape::to_shape(&factor, &Shape::new(&[b, 1, 1])?)?)?;
        let lu = if self.log {
            lu.clone()
        } else {
            V::from_array(array::map(&NotZero, [lu.array(), unit.array()])?)
        };
        let by = V::apply(Solve { turned: true }, &[a, &right, &lu, c.x(3)])?;
        Ok(vec![Some(by), None, None, None])
    }
}

/// The results for the matrices of `x`.
///
/// # Errors
/// As [`det`](fn@crate::catalogue::det).
pub(in crate::catalogue) fn run<V: Value>(op: &str, x: &V, of: Determinant) -> Result<Vec<V>> {
    let n = check_square(op, x)?;
    let lead = Shape::new(&sizes(x).0)?;
    if n == 0 || lead.numel() == 0 {
        let full = |v: i64| view::full(x, &lead, Scalar::Int(v));
        return if of.log { Ok(vec![full(1)?, full(0)?]) } else { Ok(vec![full(1)?]) };
    }
    let a = matrices(x)?;
    let [lu, pivots, order] = constants(&a)?;
    let all = V::apply_many(of, &[&a, &lu, &pivots, &order])?;
    all.iter().map(|v| reshape::to_shape(v, &lead)).collect()
}
