//! Resizing an axis by weights: what the modes of `interpolate` with more than two neighbours
//! share.
//!
//! Which elements an output reads, and their weights, are computed on the host in f64, once per
//! axis. Each tap is then one slice of the operand per output, times its weight: the first tap is a
//! product, the others add to it by fma, in order. The gradient adds tap by tap, too.

use super::pad::{Mode, pad};
use super::{fma, index_add, index_select, mul, view};
use crate::prelude::*;
use elinvar_core::host;
use std::sync::Arc;

/// The weight of an element by its distance from the output's position, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// 1 - |x|, up to 1.
    Triangle,
    /// Cubic convolution (Keys 1981) with A = -0.75, up to 2.
    Cubic,
    /// The same with A = -0.5: PyTorch's filter of images that are made smaller.
    SoftCubic,
}

impl Filter {
    fn reach(self) -> f64 {
        match self {
            Filter::Triangle => 1.0,
            Filter::Cubic | Filter::SoftCubic => 2.0,
        }
    }
    fn at(self, x: f64) -> f64 {
        let x = x.abs();
        let a = match self {
            Filter::Triangle => return (1.0 - x).max(0.0),
            Filter::Cubic => -0.75,
            Filter::SoftCubic => -0.5,
        };
        if x <= 1.0 {
            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        } else if x < 2.0 {
            ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        } else {
            0.0
        }
    }
}

/// What an axis of `n` elements is read by: for each tap the element of each output, or n for none,
/// and its weight.
#[derive(Clone, Debug)]
pub(super) struct Taps {
    axis: usize,
    n: usize,
    taps: Arc<[(Vec<i64>, Vec<f64>)]>,
}

impl Taps {
    /// The taps of `out` outputs, of which `of` gives those of one, in order. Memory comes first: a
    /// size that was asked for may be any number.
    fn collect(
        axis: usize,
        n: usize,
        out: usize,
        of: impl Fn(usize, &mut dyn FnMut(usize, f64) -> Result<()>) -> Result<()>,
    ) -> Result<Taps> {
        let unused = || -> Result<_> {
            let (mut index, mut weight) = (host::with_capacity(out)?, host::with_capacity(out)?);
            index.resize(out, n as i64);
            weight.resize(out, 0.0);
            Ok((index, weight))
        };
        let mut taps = vec![unused()?];
        for i in 0..out {
            let mut k = 0;
            of(i, &mut |element, weight| {
                if k == taps.len() {
                    taps.push(unused()?);
                }
                (taps[k].0[i], taps[k].1[i]) = (element as i64, weight);
                k += 1;
                Ok(())
            })?;
        }
        Ok(Taps { axis, n, taps: taps.into() })
    }

    /// The four neighbours of each output, whose position is `ratio` times its own; neighbours
    /// outside of the axis are its ends.
    pub(super) fn cubic(axis: usize, n: usize, out: usize, ratio: f64, align_corners: bool) -> Result<Taps> {
        Taps::collect(axis, n, out, |i, tap| {
            let at = if align_corners { i as f64 * ratio } else { (i as f64 + 0.5) * ratio - 0.5 };
            let left = at.floor().min(n as f64 - 1.0);
            let t = (at - left).clamp(0.0, 1.0);
            for k in 0..4 {
                let element = (left + k as f64 - 1.0).clamp(0.0, n as f64 - 1.0);
                tap(element as usize, Filter::Cubic.at(t + 1.0 - k as f64))?;
            }
            Ok(())
        })
    }

    /// All elements under each output, where the axis is made smaller (`ratio` above 1), else the
    /// neighbours; the weights of an output sum to 1.
    pub(super) fn antialiased(axis: usize, n: usize, out: usize, ratio: f64, filter: Filter) -> Result<Taps> {
        let wide = ratio.max(1.0);
        let reach = filter.reach() * wide;
        let range = |i: usize| {
            let middle = ratio * (i as f64 + 0.5);
            let from = (middle - reach + 0.5).max(0.0) as usize;
            let to = ((middle + reach + 0.5) as usize).min(n);
            (middle, from.min(to), to)
        };
        Taps::collect(axis, n, out, |i, tap| {
            let (middle, from, to) = range(i);
            let weight = |j: usize| filter.at((j as f64 - middle + 0.5) / wide);
            let sum: f64 = (from..to).map(weight).sum();
            for j in from..to {
                tap(j, if sum == 0.0 { 0.0 } else { weight(j) / sum })?;
            }
            Ok(())
        })
    }

    /// Some output reads fewer elements than others.
    fn has_gaps(&self) -> bool {
        self.taps.iter().any(|(index, _)| index.contains(&(self.n as i64)))
    }

    /// Tap `k`, for tensors like this one: the elements, and the weights along the axis.
    fn tap<V: Value>(&self, k: usize, like: &V) -> Result<(V, V)> {
        let (index, weight) = &self.taps[k];
        let out = index.len();
        let mut column = Dims::from_elem(1, like.shape().rank());
        column[self.axis] = out;
        let weight = Array::from_f64s(like.device(), weight.clone(), &[out], like.dtype())?;
        let weight = V::from_array(weight.reshape(&Shape::new(&column)?)?);
        Ok((view::numbers(like, out, index.iter().copied())?, weight))
    }

    /// x, resized.
    pub(super) fn run<V: Value>(self, x: &V) -> Result<V> {
        // What is missing is read from a zero behind the end: an infinity times 0 would be NaN.
        let x = if self.has_gaps() {
            let mut amounts = vec![0; 2 * (x.shape().rank() - self.axis)];
            *amounts.last_mut().expect("an axis") = 1;
            pad(x, &amounts, Mode::Constant(Scalar::Int(0)))?
        } else {
            x.clone()
        };
        V::apply(self, &[&x])
    }
}

impl Op for Taps {
    fn name(&self) -> &'static str {
        "interpolate"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let x = x[0];
        let mut y: Option<Array<B>> = None;
        for k in 0..self.taps.len() {
            let (index, weight) = self.tap(k, x)?;
            let part = index_select(x, self.axis as isize, &index)?;
            y = Some(match y {
                None => mul(&part, &weight)?,
                Some(y) => fma(&part, &weight, &y)?,
            });
        }
        Ok(Outputs::from_buf([y.expect("there is a tap")]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("resizing has one result");
        let mut dx = view::zeros(g, c.shape(0))?;
        for k in 0..self.taps.len() {
            let (index, weight) = self.tap(k, g)?;
            dx = index_add(&dx, self.axis as isize, &index, &mul(g, &weight)?, 1i64)?;
        }
        Ok(vec![Some(dx)])
    }
}
