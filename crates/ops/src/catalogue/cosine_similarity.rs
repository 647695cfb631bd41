//! cosine_similarity: the cosine of the angle between two rows.

use super::normalize::{check_eps, factors, grow, shrink, signed};
use super::{div::div, eq, maximum, mul, sqrt, sub, sum, where_};
use crate::prelude::*;
use crate::rows::STATS;
use crate::value::broadcast;

/// sum(x y) / (max(|x|, eps) max(|y|, eps)), with |x| = sqrt(sum(x^2)).
///
/// Statistics: the sums of x^2, y^2 and x y, the first two as norms.
#[derive(Clone, Copy, Debug)]
pub struct CosineSimilarity {
    /// The lower bound of a norm.
    pub eps: f64,
}

impl RowFormula<2> for CosineSimilarity {
    const NAME: &'static str = "cosine_similarity";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, y]: [L; 2], s: [L; STATS], _: L) -> L {
        // Made smaller before they are squared, as in norms: a length is at least eps.
        let c = shrink::<L>(self.eps * self.eps);
        match k {
            0 => (x * c) * (x * c),
            1 => (y * c) * (y * c),
            // Divided first: products of large rows overflow where their cosine does not.
            _ => (x / s[0]) * (y / s[1]),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 2 {
            return folded;
        }
        // A length that overflows is no length: the cosine would be 0.
        let length = (folded.sqrt() * grow(self.eps * self.eps)).max(L::lit(self.eps));
        L::select(folded.eq(L::lit(f64::INFINITY)), L::lit(f64::NAN), length)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[2]
    }
}
impl Rows<2> for CosineSimilarity {
    /// With u = x / nx, v = y / ny and the result c: dx = g (v - c x / |x|) / nx, and dy likewise.
    /// The norm |x| depends on x even where it is clamped to eps in nx; the gradient of the norm of
    /// a zero vector is zero.
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let dims = signed(axes);
        // Operands have their own shapes; the axes are those of the broadcast one.
        let common = c.shape(0).broadcast(c.shape(1), "cosine_similarity")?;
        let total = |v: &V| sum(v, Some(&dims), true);
        // 1 replaces a norm of zero, whose root has no derivative; it does not affect the result.
        let side = |x: &V| -> Result<(V, V, V)> {
            // Where derivatives of this are taken, powers of a small number would overflow instead.
            let [shrink, grow] = if V::TRACKS { [1.0; 2] } else { factors(self.eps * self.eps, x.dtype()) };
            let small = mul(x, &x.scalar_like(shrink)?)?;
            let square = total(&mul(&small, &small)?)?;
            let (zero, one) = (x.scalar_like(0.0)?, x.scalar_like(1.0)?);
            let none = eq(&square, &zero)?;
            let norm = mul(&sqrt(&where_(&none, &one, &square)?)?, &x.scalar_like(grow)?)?;
            let least = maximum(&where_(&none, &zero, &norm)?, &x.scalar_like(self.eps)?)?;
            Ok((div(x, &least)?, div(x, &norm)?, least))
        };
        let ((u, x_dir, nx), (v, y_dir, ny)) =
            (side(&broadcast(c.x(0), &common)?)?, side(&broadcast(c.x(1), &common)?)?);
        let cosine = total(&mul(&u, &v)?)?;
        let one = |other: &V, dir: &V, n: &V| mul(g, &div(&sub(other, &mul(&cosine, dir)?)?, n)?);
        Ok(vec![c.want(0, || one(&v, &x_dir, &nx))?, c.want(1, || one(&u, &y_dir, &ny))?])
    }
}
compile_rows! { 2 CosineSimilarity; }

/// sum(x y) / (max(|x|, eps) max(|y|, eps)) over `dim` of the broadcast operands; the axis is
/// dropped.
///
/// Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `InvalidArgument` if there is no such axis, or
/// eps is negative or not finite; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn cosine_similarity<V: Value>(x: &V, y: &V, dim: isize, eps: f64) -> Result<V> {
    check_eps("cosine_similarity", eps)?;
    let shape = x.shape().broadcast(y.shape(), "cosine_similarity")?;
    let axes = sum::axes("cosine_similarity", &shape, Some(&[dim]))?;
    sum::drop_axes(rows(CosineSimilarity { eps }, &axes, [x, y])?, &axes, false)
}

/// By name: operands x and y; attributes dim and eps.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cosine_similarity(a.input("x")?, a.input("y")?, a.dim("dim")?, a.f64("eps")?)?])
}
