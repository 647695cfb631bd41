//! Pseudoinverses by singular values, or by eigenvalues of symmetric matrices, and their gradient
//! (Golub and Pereyra 1973).

use super::{eigh, product, svd, turned};
use crate::array;
use crate::catalogue::{abs, add, amax, mul, narrow, neg, sub, unsqueeze};
use crate::prelude::*;

/// 1 / s, and 0 where |s| is not above the bound, of `most`, the largest.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Reciprocal {
    /// The least bound.
    pub atol: f64,
    /// The bound as a part of the largest.
    pub rtol: f64,
}

impl Map<2> for Reciprocal {
    const NAME: &'static str = "pinv_reciprocal";
    #[inline(always)]
    fn lane<L: Lane>(&self, [s, most]: [L; 2]) -> L {
        let bound = (L::lit(self.rtol) * most).max(L::lit(self.atol));
        L::select(s.abs().le(bound), L::lit(0.0), L::lit(1.0) / s)
    }
}
compile_map! { 2 Reciprocal; }

/// The pseudoinverses [b, n, m] of [b, m, n], no size of which is 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Pinv {
    /// Which singular values count for 0.
    pub bound: Reciprocal,
    /// Are the matrices symmetric? Then their lower triangle is read.
    pub hermitian: bool,
}

impl Op for Pinv {
    fn name(&self) -> &'static str {
        "pinv"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        if self.hermitian {
            let [values, rows] = eigh::parts(x[0], false)?;
            let most = amax(&abs(&values)?, Some(&[1]), true)?;
            let inverse = array::map(&self.bound, [&values, &most])?;
            let scaled = mul(&turned(&rows)?, &unsqueeze(&inverse, 1)?)?;
            return Ok(Outputs::from_buf([product(&scaled, &rows)?]));
        }
        let svd::Parts { u, s, vt } = svd::parts(x[0], false)?;
        let inverse = array::map(&self.bound, [&s, &narrow(&s, 1, 0, 1)?])?;
        let scaled = mul(&turned(&vt)?, &unsqueeze(&inverse, 1)?)?;
        Ok(Outputs::from_buf([product(&scaled, &turned(&u)?)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a pseudoinverse is one result");
        Ok(vec![Some(by_matrix(c.x(0), c.y(0), g)?)])
    }
}

/// The gradient by A [b, m, n], of its pseudoinverse and the gradient by that [b, n, m].
fn by_matrix<V: Value>(a: &V, p: &V, g: &V) -> Result<V> {
    let (g, pt) = (turned(g)?, turned(p)?);
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    if m <= n {
        let k = product(&g, p)?;
        let kp = product(&k, &pt)?;
        let own = sub(&kp, &product(&product(a, p)?, &kp)?)?;
        let rest = product(&product(&pt, p)?, &sub(&g, &product(&k, a)?)?)?;
        return add(&add(&neg(&turned(&product(p, &k)?)?)?, &own)?, &rest);
    }
    let k = product(p, &g)?;
    let pk = product(&pt, &k)?;
    let own = sub(&pk, &product(&product(&pk, p)?, a)?)?;
    let rest = product(&product(&sub(&g, &product(a, &k)?)?, p)?, &pt)?;
    add(&add(&neg(&turned(&product(&k, p)?)?)?, &own)?, &rest)
}

/// The X [b, n, k] of least norm among those of least |A X - Y|, and the singular values of A,
/// descending; operands A [b, m, n] and Y [b, m, k], no size of which is 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct LeastSquares {
    /// Which singular values count for 0.
    pub bound: Reciprocal,
}

impl Op for LeastSquares {
    fn name(&self) -> &'static str {
        "lstsq"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let svd::Parts { u, s, vt } = svd::parts(x[0], false)?;
        let inverse = array::map(&self.bound, [&s, &narrow(&s, 1, 0, 1)?])?;
        let scaled = mul(&product(&turned(&u)?, x[1])?, &unsqueeze(&inverse, 2)?)?;
        Ok(Outputs::from_iter([product(&turned(&vt)?, &scaled)?, s]))
    }
    /// Of the solution alone, which is a product with the pseudoinverse.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let Some(Some(g)) = g.first() else { return Ok(vec![None; 2]) };
        let (a, y) = (c.x(0), c.x(1));
        let p = V::apply(Pinv { bound: self.bound, hermitian: false }, &[a])?;
        let by_a = c.want(0, || by_matrix(a, &p, &product(g, &turned(y)?)?))?;
        let by_y = c.want(1, || product(&turned(&p)?, g))?;
        Ok(vec![by_a, by_y])
    }
}
