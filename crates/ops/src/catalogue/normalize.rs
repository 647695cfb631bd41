//! Shared by all norms: (x - mean) / sqrt(variance + eps) over a row, with an optional weight and
//! bias.
//!
//! layer_norm, group_norm, instance_norm and batch_norm differ only in the elements that make up a
//! row.
//!
//! How it can be wrong: rows far from 0. The variance is therefore the mean square of x - mean
//! (two passes), never a difference of squares. And rows of large numbers, whose squares overflow
//! where the result does not: deviations are multiplied by a power of two before they are squared,
//! and eps by its square, so that all roundings, and so all bits, are those of the plain formula.
//! Where squares overflow all the same, the result is NaN, and not 0.

use super::{div::div, mean, mul, reshape, select, sub};
use crate::math::exact_power;
use crate::prelude::*;
use crate::rows::{Columns, CompiledColumns, RowsOp, STATS, rows_and_columns, stands_in};

/// (x - mean) / sqrt(variance + eps) of x; times a weight if there are two operands; plus a bias if
/// there are three.
///
/// Statistics: the mean, then 1 / sqrt(variance + eps). The variance divides by the number of
/// elements.
#[derive(Clone, Copy, Debug)]
pub struct Normalize {
    /// Added to the variance.
    pub eps: f64,
}

/// 1 / sqrt(variance + eps) of each row.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Added to the variance.
    pub eps: f64,
}

/// The gradient of [`Normalize`] by x, from (x, g) or (x, g, weight).
///
/// Statistics: those of [`Normalize`], then the means of g * weight and of g * weight * normalized
/// x.
#[derive(Clone, Copy, Debug)]
pub struct NormalizeGrad {
    /// Added to the variance.
    pub eps: f64,
}

/// The exponent of the power of two by which numbers are made smaller before they are squared: the
/// largest at which no square that is still seen beside eps becomes subnormal. In f32 42 for an eps
/// of 1e-5, so that squares overflow from 2^(64 + 42), 8e31, on. None without an eps.
#[inline(always)]
fn exponent(eps: f64, bits: u32) -> i32 {
    // Digits, and the exponents of the least normal number and of the least power that has a normal
    // square.
    let (digits, least, most) = if bits == 32 { (24, -126, 63) } else { (53, -1022, 511) };
    let of_eps = ((eps.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    ((of_eps - digits - least) / 2).clamp(0, most)
}

/// The factor of numbers before they are squared.
#[inline(always)]
pub(super) fn shrink<L: Lane>(eps: f64) -> L {
    L::lit(exact_power(-exponent(eps, L::bits())))
}

/// The inverse of [`shrink`]. (That of its square may be infinite.)
#[inline(always)]
pub(super) fn grow<L: Lane>(eps: f64) -> L {
    L::lit(exact_power(exponent(eps, L::bits())))
}

/// [`shrink`] and [`grow`] as numbers beside tensors of this dtype.
pub(super) fn factors(eps: f64, dtype: DType) -> [f64; 2] {
    let n = exponent(eps, if dtype == DType::F64 { 64 } else { 32 });
    [exact_power(-n), exact_power(n)]
}

/// 1 / sqrt(mean square + eps), from the sum of the squares of `n` numbers that were made smaller;
/// NaN if it overflowed.
#[inline(always)]
pub(super) fn inverse_root<L: Lane>(squares: L, n: L, eps: f64) -> L {
    let c = shrink::<L>(eps);
    let root = (squares / n + L::lit(eps) * (c * c)).rsqrt() * c;
    L::select(squares.eq(L::lit(f64::INFINITY)), L::lit(f64::NAN), root)
}

/// The term of the mean (0) and of the variance (1).
#[inline(always)]
fn moment<L: Lane>(k: usize, x: L, s: [L; STATS], eps: f64) -> L {
    if k == 0 {
        x
    } else {
        let d = (x - s[0]) * shrink(eps);
        d * d
    }
}

/// The mean (0), and 1 / sqrt(variance + eps) (1).
#[inline(always)]
fn spread<L: Lane>(k: usize, folded: L, n: L, eps: f64) -> L {
    if k == 0 { folded / n } else { inverse_root(folded, n, eps) }
}

impl<const N: usize> RowFormula<N> for Normalize {
    const NAME: &'static str = "normalize";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], _: L) -> L {
        moment(k, x[0], s, self.eps)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        spread(k, folded, n, self.eps)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], _: L) -> L {
        let y = (x[0] - s[0]) * s[1];
        match N {
            1 => y,
            2 => y * x[1],
            _ => y.fma(x[1], x[2]),
        }
    }
}
impl<const N: usize> Rows<N> for Normalize
where
    Normalize: CompiledRows<N>,
{
    /// dx = (h - mean(h) - y mean(h y)) / sqrt(variance + eps), with h = g weight and y =
    /// normalized x; dweight = g y, dbias = g
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let x = c.x(0);
        let eps = self.eps;
        let y = || rows::<_, _, 1>(Normalize { eps }, axes, [x]);
        let dx = || match (V::TRACKS, N) {
            (false, 1) => rows(NormalizeGrad { eps }, axes, [x, g]),
            (false, _) => rows(NormalizeGrad { eps }, axes, [x, g, c.x(1)]),
            (true, _) => {
                let h = if N == 1 { g.clone() } else { mul(g, c.x(1))? };
                let y = y()?;
                let dims = signed(axes);
                let along = mul(&y, &mean(&mul(&h, &y)?, Some(&dims), true)?)?;
                let left = sub(&sub(&h, &mean(&h, Some(&dims), true)?)?, &along)?;
                mul(&left, &rows(Spread { eps }, axes, [x])?)
            }
        };
        if let Some(all) = together::<_, _, N>(NormalizeGrad { eps }, axes, c, g)? {
            return Ok(all);
        }
        let mut all = vec![c.want(0, dx)?];
        if N > 1 {
            all.push(c.want(1, || {
                // The sum over each row is taken while the row is in cache.
                if !V::TRACKS && summed(x.shape(), c.shape(1))[..] == *axes {
                    return V::apply(
                        RowsOp { rows: NormalProducts { eps }, axes: Dims::from_slice(axes) },
                        &[x, g],
                    );
                }
                let along = summed(x.shape(), c.shape(1));
                if V::TRACKS || along.is_empty() {
                    return products(g, &y()?, c.shape(1));
                }
                // Normalized x is not materialised either where its elements contribute to several
                // sums.
                let moments = rows(Moments { eps }, axes, [x])?;
                let [mean, spread] = [0, 1].map(|k| select(&moments, -1, k));
                V::apply(RowsOp { rows: NormalizedProducts, axes: along }, &[g, x, &mean?, &spread?])
            })?);
        }
        if N > 2 {
            all.push(c.want(2, || Ok(g.clone()))?);
        }
        Ok(all)
    }
}
compile_rows! { 1 Normalize; 2 Normalize; 3 Normalize; }

impl RowFormula<1> for Spread {
    const NAME: &'static str = "spread";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        moment(k, x, s, self.eps)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        spread(k, folded, n, self.eps)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<1> for Spread {
    /// dx = -g r^2 y / n, with r the result and y = normalized x
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let x = c.x(0);
        let n = axes.iter().map(|&a| c.shape(0)[a]).product::<usize>();
        let r = rows(*self, axes, [x])?;
        let factor = div(&mul(g, &mul(&r, &r)?)?, &g.scalar_like(-(n as f64))?)?;
        Ok(vec![Some(mul(&factor, &rows(Normalize { eps: self.eps }, axes, [x])?)?)])
    }
}
compile_rows! { 1 Spread; }

impl<const N: usize> RowFormula<N> for NormalizeGrad {
    const NAME: &'static str = "normalize_grad";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], _: L) -> L {
        let h = if N == 3 { x[1] * x[2] } else { x[1] };
        match k {
            0 | 1 => moment(k, x[0], s, self.eps),
            2 => h,
            _ => h * ((x[0] - s[0]) * s[1]),
        }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k < 2 { spread(k, folded, n, self.eps) } else { folded / n }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; N], s: [L; STATS], _: L) -> L {
        let h = if N == 3 { x[1] * x[2] } else { x[1] };
        let y = (x[0] - s[0]) * s[1];
        (h - s[2] - y * s[3]) * s[1]
    }
}
impl<const N: usize> Rows<N> for NormalizeGrad
where
    NormalizeGrad: CompiledRows<N>,
{
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("normalize_grad")
    }
}
compile_rows! { 2 NormalizeGrad; 3 NormalizeGrad; }

impl<const N: usize> Columns<N> for NormalizeGrad {
    const SUMS: usize = 2;
    /// Those of the weight's gradient, and of the bias's.
    #[inline(always)]
    fn column<L: Lane>(&self, k: usize, x: [L; N], s: [L; STATS], _: L) -> L {
        if k == 0 { x[1] * ((x[0] - s[0]) * s[1]) } else { x[1] }
    }
}
compile_columns! { 3 NormalizeGrad; }

/// All gradients of a norm whose rows share the weight, and the bias if there is one: by `grad`,
/// from (x, g, weight), if that by x is wanted and the backend has a way to take them at once.
pub(super) fn together<V: Value, R: CompiledColumns<3>, const N: usize>(
    grad: R,
    axes: &[usize],
    c: &Context<V>,
    g: &V,
) -> Result<Option<Vec<Option<V>>>> {
    let shared = || {
        let kept: Dims = (0..c.shape(0).rank()).filter(|a| !axes.contains(a)).collect();
        (1..N).all(|i| summed(c.shape(0), c.shape(i)) == kept)
    };
    if V::TRACKS || N == 1 || !c.wants(0) || !(1..N).any(|i| c.wants(i)) || !shared() {
        return Ok(None);
    }
    let x = [c.x(0).array(), g.array(), c.x(1).array()];
    let Some((dx, sums)) = rows_and_columns(R::object(&Compiled(grad)), axes, &x, N - 1)? else {
        return Ok(None);
    };
    let mut all = vec![Some(V::from_array(dx))];
    for (i, sum) in (1..N).zip(sums) {
        all.push(c.want(i, || reshape::to_shape(&V::from_array(sum), c.shape(i)))?);
    }
    Ok(Some(all))
}

/// The sum of products over a row.
#[derive(Clone, Copy, Debug)]
pub struct Products;

impl RowFormula<2> for Products {
    const NAME: &'static str = "products";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [x, y]: [L; 2], _: [L; STATS], _: L) -> L {
        x * y
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[0]
    }
}
impl Rows<2> for Products {
    fn backward<V: Value>(&self, _: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![c.want(0, || mul(g, c.x(1)))?, c.want(1, || mul(g, c.x(0)))?])
    }
}
compile_rows! { 2 Products; }

/// The sum of g times normalized x over a row, from (x, g): [`Products`] without materialising
/// normalized x.
#[derive(Clone, Copy, Debug)]
pub struct NormalProducts {
    /// Added to the variance.
    pub eps: f64,
}

impl RowFormula<2> for NormalProducts {
    const NAME: &'static str = "normal_products";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x, g]: [L; 2], s: [L; STATS], _: L) -> L {
        if k < 2 { moment(k, x, s, self.eps) } else { g * ((x - s[0]) * s[1]) }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        if k < 2 { spread(k, folded, n, self.eps) } else { folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 2], s: [L; STATS], _: L) -> L {
        s[2]
    }
}
impl Rows<2> for NormalProducts {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("normal_products")
    }
}
compile_rows! { 2 NormalProducts; }

/// The mean of each row, and 1 / sqrt(variance + eps).
#[derive(Clone, Copy, Debug)]
struct Moments {
    eps: f64,
}

impl RowFormula<1> for Moments {
    const NAME: &'static str = "moments";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Statistics;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        moment(k, x, s, self.eps)
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], n: L) -> L {
        spread(k, folded, n, self.eps)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<1> for Moments {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(Error::autograd("moments: they stand in for recorded gradients only where nothing records"))
    }
}
compile_rows! { 1 Moments; }

/// The sum of g times (x - mean) * spread, from (g, x, mean, spread): [`Products`] with normalized
/// x, where the rows of the statistics are not those of the sum.
#[derive(Clone, Copy, Debug)]
struct NormalizedProducts;

impl RowFormula<4> for NormalizedProducts {
    const NAME: &'static str = "normalized_products";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Once;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [g, x, mean, spread]: [L; 4], _: [L; STATS], _: L) -> L {
        g * ((x - mean) * spread)
    }
    #[inline(always)]
    fn out<L: Lane>(&self, _: [L; 4], s: [L; STATS], _: L) -> L {
        s[0]
    }
}
impl Rows<4> for NormalizedProducts {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        stands_in("normalized_products")
    }
}
compile_rows! { 4 NormalizedProducts; }

/// The axes along which a tensor of `shape` is repeated to be of shape `s`, which may have more
/// leading axes.
fn summed(s: &Shape, shape: &Shape) -> Dims {
    let new = s.rank() - shape.rank();
    (0..s.rank()).filter(|&i| i < new || (shape[i - new] == 1 && s[i] != 1)).collect()
}

/// x * y (of one shape) summed over the axes along which `shape` is repeated to that of x. In one
/// pass, without materialising the products; the bits are those of the product and its sum.
/// Additional leading axes stay with size 1.
pub(super) fn products<V: Value>(x: &V, y: &V, shape: &Shape) -> Result<V> {
    let axes = summed(x.shape(), shape);
    if axes.is_empty() { mul(x, y) } else { V::apply(RowsOp { rows: Products, axes }, &[x, y]) }
}

/// Axes as numbers with a sign.
pub(super) fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&a| a as isize).collect()
}

/// Normalizes `x` over `axes`, then weight and bias, which broadcast against x. Storage floats run
/// in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch`, `OutOfMemory`.
pub(super) fn normalize<V: Value>(
    x: &V,
    axes: &[usize],
    weight: Option<&V>,
    bias: Option<&V>,
    eps: f64,
) -> Result<V> {
    let r = Normalize { eps };
    match (weight, bias) {
        (None, None) => rows(r, axes, [x]),
        (Some(w), None) => rows(r, axes, [x, w]),
        (Some(w), Some(b)) => rows(r, axes, [x, w, b]),
        (None, Some(b)) => {
            let one = x.scalar_like(1.0)?;
            rows(r, axes, [x, &one, b])
        }
    }
}

/// Checks the number that is added to a variance, or bounds one.
///
/// # Errors
/// `InvalidArgument` if it is negative, infinite or NaN.
pub fn check_eps(op: &str, eps: f64) -> Result<()> {
    if eps >= 0.0 && eps.is_finite() {
        return Ok(());
    }
    Err(Error::argument(format!("{op}: eps is {eps}; it should be 0 or more, and finite")))
}

/// Checks that a weight or bias has this shape.
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn shaped<V: Value>(op: &str, what: &str, v: Option<&V>, shape: &[usize]) -> Result<()> {
    match v {
        Some(v) if v.shape()[..] != *shape => {
            Err(Error::shape(format!("{op}: {what} {} should have shape {shape:?}", v.shape())))
        }
        _ => Ok(()),
    }
}
