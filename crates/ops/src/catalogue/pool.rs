//! Shared by all pools: the windows along an axis, the ops, the checks.
//!
//! A pool has its windows as a table per axis, so that plain, ceiling and adaptive pools are one
//! kind of work.
//!
//! How it can be wrong: the last window. With `ceil_mode` it may extend beyond the end, but it may
//! not begin in the padding there; and an average counts the padding only up to its end.

use super::conv::{per_axis, reach};
use super::{reshape, scatter_add};
use crate::prelude::*;
use elinvar_core::host;

/// The largest element of each window, and its row-major index in its plane.
#[derive(Clone, Debug)]
pub struct MaxPool(pub Pool);

/// The average of each window.
#[derive(Clone, Debug)]
pub struct AvgPool(pub Pool);

/// The gradient of [`AvgPool`]: spreads each g over its window.
#[derive(Clone, Debug)]
pub struct AvgPoolGrad {
    /// The pool.
    pub pool: Pool,
    /// The spatial sizes of the pool's input.
    pub spatial: Dims,
}

/// A shape with other sizes in its last axes.
fn with_last(s: &Shape, last: &[usize]) -> Result<Shape> {
    let mut dims = Dims::from_slice(&s[..s.rank() - last.len()]);
    dims.extend_from_slice(last);
    Shape::new(&dims)
}

/// A shape with its last `n` axes taken together.
fn planes(s: &Shape, n: usize) -> Result<Shape> {
    let mut dims = Dims::from_slice(&s[..s.rank() - n]);
    dims.push(s[s.rank() - n..].iter().product());
    Shape::new(&dims)
}

/// The result's shape.
fn pooled(p: &Pool, s: &Shape) -> Result<Shape> {
    let out: Dims = p.axes.iter().map(|w| w.start.len()).collect();
    with_last(s, &out)
}

impl Op for MaxPool {
    fn name(&self) -> &'static str {
        "max_pool"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let to = pooled(&self.0, x.shape())?;
        let (y, index) = B::pool(x.device(), &self.0, x.view())?;
        let index = index.expect("a max pool says where the largest elements stand");
        Ok(Outputs::from_iter([
            Array::new(x.device(), y, to.clone(), x.dtype()),
            Array::new(x.device(), index, to, DType::I64),
        ]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("only the largest elements have a gradient, their numbers have none");
        let n = self.0.axes.len();
        let base = planes(c.shape(0), n)?;
        let zero = Array::scalar(g.device(), Scalar::Float(0.0), g.dtype())?;
        let zeros = V::from_array(zero.broadcast_to(&base, "max_pool")?);
        let flat = planes(g.shape(), n)?;
        let (index, g) = (reshape::to_shape(c.y(1), &flat)?, reshape::to_shape(g, &flat)?);
        let dx = scatter_add(&zeros, -1, &index, &g)?;
        Ok(vec![Some(reshape::to_shape(&dx, c.shape(0))?)])
    }
}

impl Op for AvgPool {
    fn name(&self) -> &'static str {
        "avg_pool"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let to = pooled(&self.0, x.shape())?;
        let (y, _) = B::pool(x.device(), &self.0, x.view())?;
        Ok(Outputs::from_iter([Array::new(x.device(), y, to, x.dtype())]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("an average has one result");
        let s = c.shape(0);
        let spatial = Dims::from_slice(&s[s.rank() - self.0.axes.len()..]);
        Ok(vec![Some(V::apply(AvgPoolGrad { pool: self.0.clone(), spatial }, &[g])?)])
    }
}

impl Op for AvgPoolGrad {
    fn name(&self) -> &'static str {
        "avg_pool_grad"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let g = x[0];
        let to = with_last(g.shape(), &self.spatial)?;
        let dx = B::avg_pool_grad(g.device(), &self.pool, g.view(), &self.spatial)?;
        Ok(Outputs::from_iter([Array::new(g.device(), dx, to, g.dtype())]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, h: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let h = h[0].as_ref().expect("a pool's gradient has one result");
        Ok(vec![Some(V::apply(AvgPool(self.pool.clone()), &[h])?)])
    }
}

/// Checks that x is of floats and has the pool's axes, after channels and an optional batch.
/// Returns the spatial sizes.
fn spatial<'a, V: Value>(op: &str, x: &'a V, axes: usize) -> Result<&'a [usize]> {
    let s = x.shape();
    if !(s.rank() == axes + 1 || s.rank() == axes + 2) {
        return Err(Error::shape(format!(
            "{op}: input {s} should have {} axes, or {} without a batch",
            axes + 2,
            axes + 1
        )));
    }
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!(
            "{op}: not defined for {}; convert with to_dtype to a float type",
            x.dtype()
        )));
    }
    Ok(&s[s.rank() - axes..])
}

/// Room for the table of one axis.
fn table(dilation: usize, n: usize) -> Result<Windows> {
    Ok(Windows {
        start: host::with_capacity(n)?,
        len: host::with_capacity(n)?,
        divisor: host::with_capacity(n)?,
        dilation,
    })
}

/// The attributes of a pool, as a caller gives them.
pub(super) struct Given<'a> {
    /// The op's name.
    pub op: &'static str,
    /// Number of spatial axes.
    pub axes: usize,
    /// Taps.
    pub kernel_size: &'a [usize],
    /// Step between windows; empty: the kernel's size.
    pub stride: &'a [usize],
    /// Padding on both sides.
    pub padding: &'a [usize],
    /// Distance between taps.
    pub dilation: &'a [usize],
    /// Does a last window that extends beyond the end count?
    pub ceil_mode: bool,
    /// Does an average divide by the padding too?
    pub count_include_pad: bool,
    /// What an average divides by instead.
    pub divisor_override: Option<usize>,
}

impl Given<'_> {
    /// The windows of all axes.
    fn windows<V: Value>(&self, x: &V, kind: PoolKind) -> Result<Pool> {
        let (op, n) = (self.op, self.axes);
        let kernel = per_axis(op, "kernel_size", self.kernel_size, n, 1)?;
        let stride =
            if self.stride.is_empty() { kernel.clone() } else { per_axis(op, "stride", self.stride, n, 1)? };
        let padding = per_axis(op, "padding", self.padding, n, 0)?;
        let dilation = per_axis(op, "dilation", self.dilation, n, 1)?;
        let one =
            |(i, &size): (usize, &usize)| self.axis(size, kernel[i], stride[i], padding[i], dilation[i]);
        let mut axes: Vec<Windows> = spatial(op, x, n)?.iter().enumerate().map(one).collect::<Result<_>>()?;
        if let Some(divisor) = self.divisor_override {
            if divisor == 0 {
                return Err(Error::argument(format!("{op}: a divisor_override of 0")));
            }
            // A window's divisor is the product of those of its axes.
            for (w, d) in axes.iter_mut().zip(std::iter::once(divisor).chain(std::iter::repeat(1))) {
                w.divisor.fill(d);
            }
        }
        Ok(Pool { kind, axes })
    }
    /// The windows of one axis of `n` elements: `k` taps, `d` apart, windows `s` apart, `p`
    /// elements of padding.
    fn axis(&self, n: usize, k: usize, s: usize, p: usize, d: usize) -> Result<Windows> {
        let op = self.op;
        if p > k / 2 {
            return Err(Error::argument(format!(
                "{op}: padding {p} is more than half of the kernel's {k} taps"
            )));
        }
        let reach = reach(op, k, d)?;
        let padded = n + 2 * p;
        let room = padded as i128 - reach as i128 + if self.ceil_mode { s as i128 - 1 } else { 0 };
        let mut out = usize::try_from(room.div_euclid(s as i128) + 1).unwrap_or(0);
        if self.ceil_mode && out > 0 && (out - 1) * s >= n + p {
            out -= 1;
        }
        if out == 0 || n == 0 {
            return Err(Error::shape(format!(
                "{op}: a window reaches over {reach} elements ({k} taps, dilation {d}), and the input has {n} (with \
                 padding {padded})"
            )));
        }
        let mut w = table(d, out)?;
        for i in 0..out {
            let start = (i * s) as isize - p as isize;
            // Taps in the padding are left out of the table, and cost nothing.
            let first = if start >= 0 { start } else { start.rem_euclid(d as isize) };
            let last = (start + (reach - 1) as isize).min(n as isize - 1);
            if first > last {
                return Err(Error::shape(format!(
                    "{op}: window {i} lies wholly in the padding: {k} taps with dilation {d} and padding {p} over {n} \
                     elements"
                )));
            }
            // Averages are never dilated, so a window is a range.
            let end = (start + k as isize).min((n + p) as isize);
            let inside = end.min(n as isize) - start.max(0);
            w.start.push(first);
            w.len.push((last - first) as usize / d + 1);
            w.divisor.push(if self.count_include_pad { end - start } else { inside }.max(1) as usize);
        }
        Ok(w)
    }
    /// The largest elements, and their row-major indices in their planes (i64).
    pub(super) fn max<V: Value>(&self, x: &V) -> Result<(V, V)> {
        largest(x, self.windows(x, PoolKind::Max)?)
    }
    /// The averages.
    pub(super) fn avg<V: Value>(&self, x: &V) -> Result<V> {
        V::apply(AvgPool(self.windows(x, PoolKind::Avg)?), &[x])
    }
}

/// A max pool with both results.
fn largest<V: Value>(x: &V, pool: Pool) -> Result<(V, V)> {
    let mut both = V::apply_many(MaxPool(pool), &[x])?;
    let index = both.pop().expect("a max pool has two results");
    Ok((both.pop().expect("a max pool has two results"), index))
}

/// The windows that divide each axis evenly into `output_size` parts: from floor(i * n / out) to
/// ceil((i + 1) * n / out). They overlap where n is no multiple of out.
fn adaptive<V: Value>(op: &str, x: &V, output_size: &[usize], axes: usize, kind: PoolKind) -> Result<Pool> {
    let out = per_axis(op, "output_size", output_size, axes, 0)?;
    let sizes = spatial(op, x, axes)?;
    if let Some(i) = sizes.iter().position(|&n| n == 0) {
        return Err(Error::shape(format!("{op}: spatial axis {i} of input {} is empty", x.shape())));
    }
    // An excessive size is refused here, before tables of that length are made.
    with_last(x.shape(), &out)?;
    let one = |(&n, &out): (&usize, &usize)| {
        let mut w = table(1, out)?;
        for i in 0..out as u128 {
            let start = i * n as u128 / out as u128;
            let len = ((i + 1) * n as u128).div_ceil(out as u128) - start;
            w.start.push(start as isize);
            w.len.push(len as usize);
            w.divisor.push(len as usize);
        }
        Ok(w)
    };
    Ok(Pool { kind, axes: sizes.iter().zip(&out).map(one).collect::<Result<_>>()? })
}

/// The largest elements of evenly divided axes, and their row-major indices in their planes (i64).
pub(super) fn adaptive_max<V: Value>(op: &str, x: &V, output_size: &[usize], axes: usize) -> Result<(V, V)> {
    largest(x, adaptive(op, x, output_size, axes, PoolKind::Max)?)
}

/// The averages of evenly divided axes.
pub(super) fn adaptive_avg<V: Value>(op: &str, x: &V, output_size: &[usize], axes: usize) -> Result<V> {
    V::apply(AvgPool(adaptive(op, x, output_size, axes, PoolKind::Avg)?), &[x])
}
