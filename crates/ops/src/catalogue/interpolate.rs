//! interpolate: images resized by the nearest element, by interpolation along each axis, or by
//! averages.
//!
//! The source positions are computed on the host, once per axis: in f32 for `Nearest`, whose
//! rounding decides which element is taken (PyTorch's choice, in every dtype), and in f64 for the
//! others, which are resized one axis after the other (`resample.rs`).

use super::resample::{Filter, Taps};
use super::{adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, index_select, mul, sub};
use crate::array;
use crate::prelude::*;
use elinvar_core::host;
use std::sync::Arc;

/// How an output element is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// The input element at floor(i * ratio).
    Nearest,
    /// The input element whose centre is nearest: that at floor((i + 0.5) * ratio).
    NearestExact,
    /// The neighbours along each spatial axis, weighed by distance (linear, bilinear, trilinear).
    Linear {
        /// Do the centres of the first and last elements of input and output coincide? Else their
        /// outer edges do.
        align_corners: bool,
    },
    /// Four by four neighbours of an image, by cubic convolution with A = -0.75 (bicubic).
    Cubic {
        /// As for `Linear`.
        align_corners: bool,
    },
    /// As `Linear`, of images; where an axis is made smaller, each output weighs all elements under
    /// a triangle as wide as two outputs (PyTorch's antialias).
    AntialiasedLinear {
        /// As for `Linear`.
        align_corners: bool,
    },
    /// The same by cubic convolution with A = -0.5, as wide as four outputs.
    AntialiasedCubic {
        /// As for `Linear`.
        align_corners: bool,
    },
    /// The average of the elements that an output covers, as `adaptive_avg_pool`.
    Area,
}

/// The output size.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// These sizes, one per spatial axis or one for all.
    Size(Vec<usize>),
    /// The input's sizes times these, rounded down. The factors themselves set the distances of
    /// outputs; with PyTorch's `recompute_scale_factor` the sizes do, as with `Size`.
    Scale(Vec<f64>),
}

/// a (1 - t) + b t
#[derive(Clone, Copy, Debug)]
pub struct Blend;

impl Map<3> for Blend {
    const NAME: &'static str = "interpolate";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, t]: [L; 3]) -> L {
        b.fma(t, a * (L::lit(1.0) - t))
    }
}
compile_map! { 3 Blend; }

/// Two neighbours along an axis, blended; operands a and b. The gradient reads neither of them, and
/// they are not saved.
#[derive(Clone, Debug)]
struct Blended {
    axis: usize,
    /// The weights of b, along the axis.
    weight: Arc<[f64]>,
}

impl Blended {
    /// The weights, for tensors of the rank of `like`, on its device.
    fn weight<B: Backend>(&self, like: &Array<B>) -> Result<Array<B>> {
        let mut column = Dims::from_elem(1, like.shape().rank());
        column[self.axis] = self.weight.len();
        let n = self.weight.len();
        let weight = Array::from_f64s(like.device(), self.weight.to_vec(), &[n], like.dtype())?;
        weight.reshape(&Shape::new(&column)?)
    }
}

impl Op for Blended {
    fn name(&self) -> &'static str {
        "interpolate"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [a, b] = [x[0], x[1]];
        Ok(Outputs::from_buf([array::map(&Blend, [a, b, &self.weight(a)?])?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a blend has one result");
        let t = V::from_array(self.weight(g.array())?);
        let a = c.want(0, || mul(g, &sub(&t.scalar_like(1.0)?, &t)?))?;
        Ok(vec![a, c.want(1, || mul(g, &t))?])
    }
}

/// One axis: its sizes, and the distance of outputs in the input.
#[derive(Clone, Copy)]
struct Axis {
    axis: usize,
    n: usize,
    out: usize,
    /// The scale factor that was asked for, if any: it, and not the rounded size, sets the
    /// distances.
    scale: Option<f64>,
}

impl Axis {
    /// The source element of each output, in f32 (see the module documentation). As in PyTorch,
    /// images (two spatial axes) whose size stays or doubles ignore the scale.
    fn nearest(&self, image: bool) -> Result<Vec<i64>> {
        let ratio = match self.scale {
            Some(s) => (1.0 / s) as f32,
            None => self.n as f32 / self.out as f32,
        };
        let mut index = host::with_capacity(self.out)?;
        for i in 0..self.out {
            index.push(if image && self.out == self.n {
                i
            } else if image && self.out == 2 * self.n {
                i / 2
            } else {
                ((i as f32 * ratio).floor() as usize).min(self.n - 1)
            } as i64);
        }
        Ok(index)
    }
    /// The element whose centre is nearest to that of each output, with PyTorch's roundings.
    fn nearest_exact(&self) -> Result<Vec<i64>> {
        let ratio = self.ratio(false);
        let mut index = host::with_capacity(self.out)?;
        index.extend((0..self.out).map(|i| {
            let at = ratio * (i as f64 + 0.5) - 0.5;
            ((at + 0.5).floor() as usize).min(self.n - 1) as i64
        }));
        Ok(index)
    }
    /// The distance of outputs, in elements of the input.
    fn ratio(&self, align_corners: bool) -> f64 {
        let (n, out) = (self.n as f64, self.out as f64);
        match (align_corners, self.scale) {
            (true, _) if self.out > 1 => (n - 1.0) / (out - 1.0),
            (true, _) => 0.0,
            (false, Some(s)) => 1.0 / s,
            (false, None) => n / out,
        }
    }
    /// What is read by weights.
    fn taps(&self, filter: Filter, align_corners: bool) -> Result<Taps> {
        let (Axis { axis, n, out, .. }, ratio) = (*self, self.ratio(align_corners));
        match filter {
            Filter::Cubic => Taps::cubic(axis, n, out, ratio, align_corners),
            Filter::Triangle | Filter::SoftCubic => Taps::antialiased(axis, n, out, ratio, filter),
        }
    }
    /// The left neighbour, the right neighbour, and the weight of the right one.
    fn linear(&self, align_corners: bool) -> Result<(Vec<i64>, Vec<i64>, Vec<f64>)> {
        let ratio = self.ratio(align_corners);
        let (mut left, mut right, mut weight) =
            (host::with_capacity(self.out)?, host::with_capacity(self.out)?, host::with_capacity(self.out)?);
        for i in 0..self.out {
            let i = i as f64;
            let at = if align_corners { i * ratio } else { ((i + 0.5) * ratio - 0.5).max(0.0) };
            let l = (at.floor() as usize).min(self.n - 1);
            left.push(l as i64);
            right.push((l + 1).min(self.n - 1) as i64);
            weight.push((at - l as f64).clamp(0.0, 1.0));
        }
        Ok((left, right, weight))
    }
}

/// Picks elements along an axis.
fn pick<V: Value>(x: &V, axis: usize, index: Vec<i64>) -> Result<V> {
    let n = index.len();
    let index = V::from_array(Array::from_vec(x.device(), index, &[n])?);
    index_select(x, axis as isize, &index)
}

/// The axes, with the interpolation of each.
fn axes(s: &Shape, target: &Target) -> Result<Vec<Axis>> {
    let spatial = s.rank() - 2;
    let given = match target {
        Target::Size(v) => v.len(),
        Target::Scale(v) => v.len(),
    };
    if given != 1 && given != spatial {
        return Err(Error::argument(format!(
            "interpolate: {given} sizes or factors for {spatial} spatial axes of input {s}"
        )));
    }
    let one = |i: usize| {
        let (axis, k) = (i + 2, if given == 1 { 0 } else { i });
        let n = s[axis];
        let (out, scale) = match target {
            Target::Size(v) => (v[k], None),
            Target::Scale(v) if v[k].is_finite() && v[k] > 0.0 => ((n as f64 * v[k]) as usize, Some(v[k])),
            Target::Scale(v) => {
                return Err(Error::argument(format!(
                    "interpolate: scale factor {}; it must be above 0",
                    v[k]
                )));
            }
        };
        if n == 0 || out == 0 {
            return Err(Error::shape(format!(
                "interpolate: axis {axis} of input {s} would go from {n} to {out} elements; neither may be 0"
            )));
        }
        Ok(Axis { axis, n, out, scale })
    };
    (0..spatial).map(one).collect()
}

/// Checks that there are one to three spatial axes.
fn spatial(s: &Shape) -> Result<()> {
    if (3..=5).contains(&s.rank()) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "interpolate: input {s} should be [n, c, spatial..] with one to three spatial axes"
    )))
}

/// x: [n, c, spatial..] with other spatial sizes.
///
/// Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if x does not have one to three spatial axes or a size is 0; `InvalidArgument`
/// if the number of sizes does not fit, a factor is not above 0, or a mode of images is asked for
/// another number of axes; `DTypeMismatch` if x is not of
/// floats; `OutOfMemory`.
pub fn interpolate<V: Value>(x: &V, target: &Target, mode: Interpolation) -> Result<V> {
    let s = x.shape();
    spatial(s)?;
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!(
            "interpolate: not defined for {}; convert with to_dtype to a float type",
            x.dtype()
        )));
    }
    let axes = axes(s, target)?;
    let mut out = Dims::from_slice(&s[..2]);
    out.extend(axes.iter().map(|a| a.out));
    Shape::new(&out)?;
    // All axes but those whose outputs have weights read their elements as they are.
    let (filter, align) = match mode {
        Interpolation::Cubic { align_corners } => (Filter::Cubic, align_corners),
        Interpolation::AntialiasedLinear { align_corners } => (Filter::Triangle, align_corners),
        Interpolation::AntialiasedCubic { align_corners } => (Filter::SoftCubic, align_corners),
        Interpolation::Nearest => {
            return axes.iter().try_fold(x.clone(), |x, a| pick(&x, a.axis, a.nearest(axes.len() == 2)?));
        }
        Interpolation::NearestExact => {
            return axes.iter().try_fold(x.clone(), |x, a| pick(&x, a.axis, a.nearest_exact()?));
        }
        Interpolation::Area => {
            return match axes.len() {
                1 => adaptive_avg_pool1d(x, &out[2..]),
                2 => adaptive_avg_pool2d(x, &out[2..]),
                _ => adaptive_avg_pool3d(x, &out[2..]),
            };
        }
        Interpolation::Linear { align_corners } => return linear(x, &axes, align_corners),
    };
    if axes.len() != 2 {
        return Err(Error::argument(format!(
            "interpolate: input {s}; bicubic and antialiased interpolation are for images, [n, c, h, w], only"
        )));
    }
    widen([x], |[x]| axes.iter().try_fold(x.clone(), |x, a| a.taps(filter, align)?.run(&x)))
}

/// By the two neighbours along each axis.
fn linear<V: Value>(x: &V, axes: &[Axis], align_corners: bool) -> Result<V> {
    widen([x], |[x]| {
            axes.iter().try_fold(x.clone(), |x, a| {
                // The same size means an unchanged axis, even if the scale was slightly above 1.
                if a.out == a.n {
                    return Ok(x);
                }
                let (left, right, weight) = a.linear(align_corners)?;
                let blended = Blended { axis: a.axis, weight: weight.into() };
                V::apply(blended, &[&pick(&x, a.axis, left)?, &pick(&x, a.axis, right)?])
            })
        })
}

/// The scale factors of a call by name.
fn factors<V: Value>(a: &Args<V>) -> Result<Vec<f64>> {
    let one = |v: &Attr| match v {
        Attr::Int(v) => Ok(*v as f64),
        Attr::Float(v) => Ok(*v),
        other => Err(Error::argument(format!("interpolate: scale factor {other:?} is no number"))),
    };
    match &a.attrs["scale_factor"] {
        Attr::List(v) => v.iter().map(one).collect(),
        other => Ok(vec![one(other)?]),
    }
}

/// The mode of a call by name, for this number of spatial axes.
fn named<V: Value>(a: &Args<V>, spatial: usize) -> Result<Interpolation> {
    let word = a.maybe("mode", Args::str)?.unwrap_or("nearest");
    let align = a.maybe("align_corners", Args::bool)?;
    let antialias = a.maybe("antialias", Args::bool)?.unwrap_or(false);
    let without = match word {
        "nearest" => Some(Interpolation::Nearest),
        "nearest-exact" => Some(Interpolation::NearestExact),
        "area" => Some(Interpolation::Area),
        _ => None,
    };
    if antialias && !matches!(word, "bilinear" | "bicubic") {
        return Err(Error::argument(format!(
            "interpolate: antialias has no meaning for mode {word}; it is for bilinear and bicubic"
        )));
    }
    let align_corners = align.unwrap_or(false);
    match (without, word, spatial) {
        (Some(_), _, _) if align.is_some() => {
            Err(Error::argument(format!("interpolate: align_corners has no meaning for mode {word}")))
        }
        (Some(mode), _, _) => Ok(mode),
        (None, "bilinear", 2) if antialias => Ok(Interpolation::AntialiasedLinear { align_corners }),
        (None, "bicubic", 2) if antialias => Ok(Interpolation::AntialiasedCubic { align_corners }),
        (None, "bicubic", 2) => Ok(Interpolation::Cubic { align_corners }),
        (None, "linear", 1) | (None, "bilinear", 2) | (None, "trilinear", 3) => {
            Ok(Interpolation::Linear { align_corners })
        }
        _ => Err(Error::argument(format!(
            "interpolate: mode {word} for {spatial} spatial axes; there are nearest, nearest-exact, area, and \
             linear, bilinear, bicubic and trilinear for one, two, two and three axes"
        ))),
    }
}

/// By name: operand x; attributes size or scale_factor, mode (nearest if missing, nearest-exact,
/// linear, bilinear, bicubic, trilinear, area), align_corners, recompute_scale_factor and
/// antialias.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let x = a.input("x")?;
    let recompute = a.maybe("recompute_scale_factor", Args::bool)?.unwrap_or(false);
    let target = match (a.has("size"), a.has("scale_factor")) {
        (true, false) if recompute => {
            return Err(Error::argument("interpolate: recompute_scale_factor has no meaning for a size"));
        }
        (true, false) => Target::Size(a.sizes("size")?),
        (false, true) => Target::Scale(factors(a)?),
        (true, true) | (false, false) => {
            return Err(Error::argument("interpolate: give size or scale_factor, one of them"));
        }
    };
    let mode = named(a, x.shape().rank().saturating_sub(2))?;
    if recompute {
        spatial(x.shape())?;
        let sizes = axes(x.shape(), &target)?.iter().map(|a| a.out).collect();
        return Ok(vec![interpolate(x, &Target::Size(sizes), mode)?]);
    }
    Ok(vec![interpolate(x, &target, mode)?])
}
