//! Eigenvalues and eigenvectors of symmetric matrices by one-sided Jacobi rotations, and their
//! gradient.
//!
//! A + s I with s the largest sum of magnitudes of a row has no negative eigenvalue, so that its
//! singular vectors are the eigenvectors of A; values are v^T A v. Of each vector the element of
//! largest magnitude, the first among equals, is positive.

use super::jacobi::{orthogonal, orthonormal, row_signs};
use super::lu::ordered;
use super::{block, eye, product, scale, turned};
use crate::catalogue::{abs, add, amax, argsort, concat, diag_embed, div::div, expand, gather, mul};
use crate::catalogue::{reshape, sub, sum, tril, unsqueeze};
use crate::prelude::*;

/// Values [b, n], ascending, and vectors as rows [b, n, n], of which one triangle of a is read.
pub(super) fn parts<B: Backend>(a: &Array<B>, upper: bool) -> Result<[Array<B>; 2]> {
    let &[b, n, _] = &a.shape()[..] else { unreachable!("matrices") };
    let a = if upper { turned(a)? } else { a.clone() };
    let lower = tril(&a, 0)?;
    let unit = scale::unit(&lower)?;
    let a = mul(&add(&lower, &turned(&tril(&a, -1)?)?)?, &unit)?;
    let shift = amax(&sum(&abs(&a)?, Some(&[2]), true)?, Some(&[1, 2]), true)?;
    let ones = eye(&a, n, n)?;
    let start = add(&a, &mul(&ones, &shift)?)?;
    let start = concat(&[&start, &expand(&ones, &Shape::new(&[b, n, n])?)?], 2)?;
    let vectors = block(&orthogonal(&start, n)?, 0..n, n..2 * n)?.contiguous()?;
    let vectors = orthonormal(&vectors)?;
    let values = sum(&mul(&product(&vectors, &a)?, &vectors)?, Some(&[2]), false)?;
    let order = argsort(&values, 1, false)?;
    let values = div(&gather(&values, 1, &order)?, &reshape::to_shape(&unit, &Shape::new(&[b, 1])?)?)?;
    let vectors = ordered(&vectors, &order)?;
    let signed = mul(&vectors, &row_signs(&vectors)?)?;
    Ok([values, signed])
}

/// Eigenvalues and eigenvectors, as columns, of matrices [b, n, n], n not 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Eigh {
    /// Is the upper triangle read?
    pub upper: bool,
}

impl Op for Eigh {
    fn name(&self) -> &'static str {
        "eigh"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [values, rows] = parts(x[0], self.upper)?;
        Ok(Outputs::from_iter([values, turned(&rows)?.contiguous()?]))
    }
    /// V (diag(gL) + (V^T gV - gV^T V) / (2 E)) V^T, with `E[i, j] = l[j] - l[i]`, 1 on the
    /// diagonal: symmetric, whichever triangle is read.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let (l, v) = (c.y(0), c.y(1));
        let n = l.shape()[1];
        let by = |i: usize| g.get(i).and_then(Option::as_ref);
        let by_values = by(0).map(|g| diag_embed(g, 0, 1, 2)).transpose()?;
        let by_vectors = match by(1) {
            None => None,
            Some(g) => {
                let gaps = add(&sub(&unsqueeze(l, 1)?, &unsqueeze(l, 2)?)?, &eye(l, n, n)?)?;
                let turn = product(&turned(v)?, g)?;
                let turn = mul(&sub(&turn, &turned(&turn)?)?, &turn.scalar_like(0.5)?)?;
                Some(div(&turn, &gaps)?)
            }
        };
        let middle = match (by_values, by_vectors) {
            (Some(l), Some(v)) => add(&l, &v)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Ok(vec![None]),
        };
        Ok(vec![Some(product(v, &product(&middle, &turned(v)?)?)?)])
    }
}
