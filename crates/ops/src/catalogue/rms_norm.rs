//! rms_norm: each row, over the last axes, divided by its root mean square; then a weight.

use super::layer_norm::last_axes;
use super::normalize::{check_eps, inverse_root, products, shaped, shrink, signed, together};
use super::{div::div, mean, mul, sub};
use crate::prelude::*;
use crate::rows::{Columns, STATS, stands_in};

/// x / sqrt(mean(x^2) + eps) of x; times a weight if there are two operands. Statistic: 1 /
/// sqrt(mean(x^2) + eps).
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

/// 1 / sqrt(mean(x^2) + eps) of each row.
#[derive(Clone, Copy, Debug)]
pub struct Rms {
    /// Added to the mean square.
    pub eps: f64,
}

/// The gradient of [`RmsNorm`] by x, from (x, g) or (x, g, weight).
#[derive(Clone, Copy, Debug)]
pub struct RmsNormGrad {
    /// Added to the mean square.
    pub eps: f64,
}

/// The square of x, made smaller before, as all norms do.
#[inline(always)]
fn square<L: Lane>(x: L, eps: f64) -> L {
    let x = x * shrink(eps);
    x * x
}

impl<const N: usize> RowFormula<N> for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, x: [L; N], _: [L; STATS], _: L) -> L {
        square(x[0], self.eps)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, _: usize, folded: L, _: [L; STATS], n: L) -> L {
        inverse_root(folded, n, self.eps)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], _: L) -> L {
        let y = x[0] * s[0];
        if N == 1 { y } else { y * x[1] }
    }
}
impl<const N: usize> Rows<N> for RmsNorm
where
    RmsNorm: CompiledRows<N>,
{
    /// dx = (h - y mean(h y)) / rms, with h = g weight and y = x / rms; dweight = g y
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let x = c.x(0);
        let eps = self.eps;
        let y = || rows::<_, _, 1>(RmsNorm { eps }, axes, [x]);
        let dx = || match (V::TRACKS, N) {
            (false, 1) => rows(RmsNormGrad { eps }, axes, [x, g]),
            (false, _) => rows(RmsNormGrad { eps }, axes, [x, g, c.x(1)]),
            (true, _) => {
                let h = if N == 1 { g.clone() } else { mul(g, c.x(1))? };
                let y = y()?;
                let along = mul(&y, &mean(&mul(&h, &y)?, Some(&signed(axes)), true)?)?;
                mul(&sub(&h, &along)?, &rows(Rms { eps }, axes, [x])?)
            }
        };
        if let Some(all) = together::<_, _, N>(RmsNormGrad { eps }, axes, c, g)? {
            return Ok(all);
        }
        let mut all = vec![c.want(0, dx)?];
        if N > 1 {
            all.push(c.want(1, || products(g, &y()?, c.shape(1)))?);
        }
        Ok(all)
    }
}
compile_rows! { 1 RmsNorm; 2 RmsNorm; }

impl RowFormula<1> for Rms {
    const NAME: &'static str = "rms";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x]: [L; 1], _: [L; STATS], _: L) -> L {
        square(x, self.eps)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, _: usize, folded: L, _: [L; STATS], n: L) -> L {
        inverse_root(folded, n, self.eps)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[0]
    }
}
impl Rows<1> for Rms {
    /// dx = -g r^2 y / n, with r the result and y = x r
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let x = c.x(0);
        let n = axes.iter().map(|&a| c.shape(0)[a]).product::<usize>();
        let r = rows(*self, axes, [x])?;
        let factor = div(&mul(g, &mul(&r, &r)?)?, &g.scalar_like(-(n as f64))?)?;
        Ok(vec![Some(mul(&factor, &rows(RmsNorm { eps: self.eps }, axes, [x])?)?)])
    }
}
compile_rows! { 1 Rms; }

impl<const N: usize> RowFormula<N> for RmsNormGrad {
    const NAME: &'static str = "rms_norm_grad";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], _: L) -> L {
        let h = if N == 3 { x[1] * x[2] } else { x[1] };
        if k == 0 { square(x[0], self.eps) } else { h * (x[0] * s[0]) }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k == 0 { inverse_root(folded, n, self.eps) } else { folded / n }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], _: L) -> L {
        let h = if N == 3 { x[1] * x[2] } else { x[1] };
        (h - (x[0] * s[0]) * s[1]) * s[0]
    }
}
impl<const N: usize> Rows<N> for RmsNormGrad
where
    RmsNormGrad: CompiledRows<N>,
{
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("rms_norm_grad")
    }
}
compile_rows! { 2 RmsNormGrad; 3 RmsNormGrad; }

impl<const N: usize> Columns<N> for RmsNormGrad {
    const SUMS: usize = 1;
    /// That of the weight's gradient.
    #[inline(always)]
    fn column<L: Lane>(&self, _: usize, x: [L; N], s: [L; STATS], _: L) -> L {
        x[1] * (x[0] * s[0])
    }
}
compile_columns! { 3 RmsNormGrad; }

/// y = x / sqrt(mean(x^2) + eps) * weight, with the mean over the last axes, which have the sizes
/// `normalized_shape`. Without `eps` it is the distance from 1 to the next larger number of the
/// type in which x is computed.
///
/// x: [.., s..]   weight: [s..]   y: as x. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x does not end in `normalized_shape` or the weight is not of it;
/// `InvalidArgument` if eps is negative or not finite; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn rms_norm<V: Value>(
    x: &V,
    normalized_shape: &[usize],
    weight: Option<&V>,
    eps: Option<f64>,
) -> Result<V> {
    autocast!("rms_norm", x; weight => back rms_norm(x, normalized_shape, weight, eps));
    let axes = last_axes("rms_norm", x.shape(), normalized_shape)?;
    shaped("rms_norm", "weight", weight, normalized_shape)?;
    let eps = eps.unwrap_or(x.dtype().compute().epsilon());
    check_eps("rms_norm", eps)?;
    let r = RmsNorm { eps };
    match weight {
        None => rows(r, &axes, [x]),
        Some(w) => rows(r, &axes, [x, w]),
    }
}

/// By name: operands x, and weight if there is one; attributes normalized_shape and eps.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (shape, eps) = (a.sizes("normalized_shape")?, a.maybe("eps", Args::f64)?);
    Ok(vec![rms_norm(a.input("x")?, &shape, a.optional("weight"), eps)?])
}
