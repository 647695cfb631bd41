//! Transforms between real numbers and half of their spectrum, which is that of the other half
//! conjugated, and their gradients.
//!
//! An even length n is the transform of n / 2 complex numbers, each made of two neighbours
//! (Cooley, Lewis and Welch 1970): with E and O the spectra of the even and odd elements,
//! Z = E + i O, `X[k] = E[k] + exp(-2 pi i k / n) O[k]`.

use super::complex::{constant, pairs, scaled, shaped, twiddled};
use super::tables::Table;
use super::{Direction, fused};
use crate::backend::FourierKind;
use crate::catalogue::pad::{Mode, pad};
use crate::catalogue::{add, concat, flip, fma, mul, narrow, select, where_};
use crate::prelude::*;
use elinvar_core::host;

/// [before, after, n] to [before, after, n / 2 + 1, 2], of f32 or f64.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct RealDft {
    /// Results are multiplied by this.
    pub scale: f64,
}

/// [before, after, n / 2 + 1, 2] to [before, after, n]: the imaginary parts of the first element,
/// and of the last one if n is even, are not read.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct InverseRealDft {
    /// The length of the result.
    pub n: usize,
    /// Results are multiplied by this.
    pub scale: f64,
}

impl Op for RealDft {
    fn name(&self) -> &'static str {
        "rfft"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let n = x[0].shape()[2];
        let y = fused(x[0], FourierKind::Real, n, self.scale, |x| half_spectrum(x, self.scale))?;
        Ok(Outputs::from_buf([y]))
    }
    /// The inverse counts the elements twice that stand for two.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a transform has one result");
        let n = c.shape(0)[2];
        let g = mul(g, &weights(g, n, 0.5)?)?;
        Ok(vec![Some(V::apply(InverseRealDft { n, scale: self.scale }, &[&g])?)])
    }
}

impl Op for InverseRealDft {
    fn name(&self) -> &'static str {
        "irfft"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let y = fused(x[0], FourierKind::InverseReal, self.n, self.scale, |x| {
            from_half_spectrum(x, self.n, self.scale)
        })?;
        Ok(Outputs::from_buf([y]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a transform has one result");
        let half = V::apply(RealDft { scale: self.scale }, &[g])?;
        Ok(vec![Some(mul(&half, &weights(&half, self.n, 2.0)?)?)])
    }
}

/// Does element k of half a spectrum stand for itself alone?
fn is_alone(k: usize, n: usize) -> bool {
    k == 0 || 2 * k == n
}

/// 1 for the elements that stand for themselves alone, `other` for those that stand for two.
fn weights<V: Value>(like: &V, n: usize, other: f64) -> Result<V> {
    let all = host::collected((0..n / 2 + 1).map(|k| if is_alone(k, n) { 1.0 } else { other }))?;
    Ok(V::from_array(Array::from_f64s(like.device(), all, &[n / 2 + 1, 1], like.dtype())?))
}

/// `x` [rows, h, 2], without the imaginary parts that real numbers do not have.
fn real_ends<B: Backend>(x: &Array<B>, n: usize) -> Result<Array<B>> {
    let is_read = host::collected((0..2 * (n / 2 + 1)).map(|i| i % 2 == 0 || !is_alone(i / 2, n)))?;
    let is_read = Array::from_vec(x.device(), is_read, &[n / 2 + 1, 2])?;
    where_(&is_read, x, &x.scalar_like(0.0)?)
}

/// (1, -1): what conjugates pairs.
fn conjugating<B: Backend>(x: &Array<B>) -> Result<Array<B>> {
    Array::from_f64s(x.device(), vec![1.0, -1.0], &[2], x.dtype())
}

/// `x[k] + conj(x[m - k])` and `x[k] - conj(x[m - k])`, of [rows, m + 1, 2].
fn mirrored<B: Backend>(x: &Array<B>) -> Result<[Array<B>; 2]> {
    let (mirror, sign) = (flip(x, &[1])?, conjugating(x)?);
    let minus = mul(&sign, &x.scalar_like(-1.0)?)?;
    Ok([fma(&mirror, &sign, x)?, fma(&mirror, &minus, x)?])
}

fn half_spectrum<B: Backend>(x: &Array<B>, scale: f64) -> Result<Array<B>> {
    let &[rows, n] = &x.shape()[..] else { unreachable!("lines of numbers") };
    let h = n / 2 + 1;
    if n.is_multiple_of(2) {
        let z = pairs(&shaped(x, &[rows, n / 2, 2])?, Direction::Forward, 1.0)?;
        let z = concat(&[&z, &narrow(&z, 1, 0, 1)?], 1)?;
        let [e, o] = mirrored(&z)?;
        // O = -i o, so exp(-i t) O = (-sin re + cos im, -sin im - cos re).
        let cos = constant(x, Table::HalfCos { n, inverse: false }, &[h, 2])?;
        let sin = constant(x, Table::HalfSin { n }, &[h, 1])?;
        return scaled(&add(&e, &twiddled(&o, 2, &sin, &cos)?)?, scale * 0.5);
    }
    let zeros = pad(&shaped(x, &[rows, n, 1])?, &[0, 1], Mode::Constant(Scalar::Int(0)))?;
    narrow(&pairs(&zeros, Direction::Forward, scale)?, 1, 0, h)
}

fn from_half_spectrum<B: Backend>(x: &Array<B>, n: usize, scale: f64) -> Result<Array<B>> {
    let &[rows, h, _] = &x.shape()[..] else { unreachable!("lines of pairs") };
    let x = real_ends(x, n)?;
    if n.is_multiple_of(2) {
        let [a, b] = mirrored(&x)?;
        // i exp(i t) b = (-sin re - cos im, -sin im + cos re)
        let cos = constant(&x, Table::HalfCos { n, inverse: true }, &[h, 2])?;
        let sin = constant(&x, Table::HalfSin { n }, &[h, 1])?;
        let z = narrow(&add(&a, &twiddled(&b, 2, &sin, &cos)?)?, 1, 0, n / 2)?;
        return shaped(&pairs(&z, Direction::Inverse, scale)?, &[rows, n]);
    }
    let other = mul(&flip(&narrow(&x, 1, 1, h - 1)?, &[1])?, &conjugating(&x)?)?;
    select(&pairs(&concat(&[&x, &other], 1)?, Direction::Inverse, scale)?, 2, 0)
}
