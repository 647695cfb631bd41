//! grid_sample: an image read at positions that a grid names, between its elements.
//!
//! Positions, weights and places of elements are small maps over the grid; elements are gathered
//! from the flattened image, to which one zero is added: places outside of the image name it. The
//! gradient by the image is therefore a scatter that adds in the order of the grid.

use super::pad::{Mode, pad};
use super::{add, fma, gather, ge, logical_and, mul, reshape, round, select, unsqueeze, where_};
use crate::prelude::*;
use crate::value::cast;

/// How elements around a position are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The neighbours along each axis, by distance (PyTorch's bilinear; trilinear for volumes).
    Linear,
    /// The nearest element; halves go to the even one.
    Nearest,
    /// Four by four neighbours of an image, by cubic convolution with A = -0.75.
    Cubic,
}

/// What is outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The image, mirrored as often as needed.
    Reflection,
}

/// The position, in elements, of a coordinate that goes from -1 to 1 over an axis of `size`: from
/// centre to centre if corners are aligned, else from edge to edge. NaN stands for -1.
#[derive(Clone, Copy, Debug)]
struct Position {
    align_corners: bool,
}

impl Map<2> for Position {
    const NAME: &'static str = "grid_sample";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, size]: [L; 2]) -> L {
        let half = L::lit(0.5);
        let g = L::select(g.is_nan(), L::lit(-1.0), g);
        let last = (size - L::lit(1.0)) * half;
        let scale = if self.align_corners { last } else { size * half };
        // One rounding.
        g.fma(scale, last)
    }
}
compile_map! { 2 Position; }

/// A position inside of the image that stands for position `p`, by the padding. What has no
/// reflection, because it is infinite, stands for 0.
#[derive(Clone, Copy, Debug)]
struct Inside {
    reflects: bool,
    align_corners: bool,
}

impl Map<2> for Inside {
    const NAME: &'static str = "grid_sample";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [p, size]: [L; 2]) -> L {
        let (zero, one, half) = (L::lit(0.0), L::lit(1.0), L::lit(0.5));
        let last = size - one;
        let p = if self.reflects {
            // Mirrors stand at the first and last centre, or at the outer edges.
            let (first, span) = if self.align_corners { (zero, last) } else { (-half, size) };
            let away = (p - first).abs();
            let turns = (away / span).floor();
            let rest = (-turns).fma(span, away);
            let is_even = ((turns * half).floor() * L::lit(2.0)).eq(turns);
            let mirrored = L::select(is_even, rest, span - rest) + first;
            L::select(mirrored.is_nan() | span.eq(zero), zero, mirrored)
        } else {
            p
        };
        L::select(p.le(zero), zero, L::select(p.ge(last), last, p))
    }
}
compile_map! { 2 Inside; }

/// A whole position of the image as it is, any other as -1.
#[derive(Clone, Copy, Debug)]
struct Place;

impl Map<2> for Place {
    const NAME: &'static str = "grid_sample";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [p, size]: [L; 2]) -> L {
        L::select(p.ge(L::lit(0.0)) & p.lt(size), p, L::lit(-1.0))
    }
}
compile_map! { 2 Place; }

/// The weight of a tap of a position: tap 0 of 2 is the element before it, tap 1 of 4 likewise.
#[derive(Clone, Copy, Debug)]
struct Weight {
    tap: usize,
    taps: usize,
}

impl Map<1> for Weight {
    const NAME: &'static str = "grid_sample";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [p]: [L; 1]) -> L {
        let lit = L::lit;
        let t = p - p.floor();
        let other = lit(1.0) - t;
        let a = lit(-0.75);
        let near = |x: L| ((a + lit(2.0)) * x - (a + lit(3.0))) * x * x + lit(1.0);
        // A x^3 - 5 A x^2 + 8 A x - 4 A at 1 + x, without its cancellation.
        let far = |x: L, other: L| a * x * other * other;
        match (self.taps, self.tap) {
            (2, 0) => other,
            (2, _) => t,
            (_, 0) => far(t, other),
            (_, 1) => near(t),
            (_, 2) => near(other),
            _ => far(other, t),
        }
    }
}
compile_map! { 1 Weight; }

/// An image that is read: its elements, and what reading depends on.
struct Image<V> {
    /// [n, c, elements + 1], a zero at the end.
    flat: V,
    /// The sizes of the axes in the grid's order, the last axis first.
    sizes: Vec<usize>,
    /// The same, to be broadcast against the grid.
    size: V,
    sampling: Sampling,
    padding: Padding,
    align_corners: bool,
}

impl<V: Value> Image<V> {
    /// The position that stands for another one, by the padding.
    fn inside(&self, p: &V) -> Result<V> {
        let map_by = |reflects| map(Inside { reflects, align_corners: self.align_corners }, [p, &self.size]);
        match self.padding {
            Padding::Zeros => Ok(p.clone()),
            Padding::Border => map_by(false),
            Padding::Reflection => map_by(true),
        }
    }

    /// The elements at whole positions: [n, points] along each axis, -1 outside of the image.
    fn elements(&self, at: &[&V]) -> Result<V> {
        let (mut place, mut inside): (Option<V>, Option<V>) = (None, None);
        // From the axis that is furthest apart in memory to the nearest.
        for (&one, &size) in at.iter().zip(&self.sizes).rev() {
            let here = ge(one, &one.scalar_like(0i64)?)?;
            inside = Some(inside.map_or(Ok(here.clone()), |other| logical_and(&other, &here))?);
            place = Some(match place {
                None => one.clone(),
                Some(place) => add(&mul(&place, &place.scalar_like(size)?)?, one)?,
            });
        }
        let (place, inside) = (place.expect("an axis"), inside.expect("an axis"));
        let zero = place.scalar_like(self.flat.shape()[2] - 1)?;
        let place = unsqueeze(&where_(&inside, &place, &zero)?, 1)?;
        let [n, c, points] = [self.flat.shape()[0], self.flat.shape()[1], place.shape()[2]];
        let all = V::from_array(place.array().broadcast_to(&Shape::new(&[n, c, points])?, "grid_sample")?);
        gather(&self.flat, 2, &all)
    }

    /// Whole positions [n, points, axes] as one index [n, points] per axis.
    fn places(&self, p: &V) -> Result<Vec<V>> {
        let places = cast(&map(Place, [&p.detached(), &self.size])?, DType::I64)?;
        (0..self.sizes.len()).map(|k| select(&places, 2, k as isize)).collect()
    }

    /// The image at positions [n, points, axes]: [n, c, points].
    fn at(&self, p: &V) -> Result<V> {
        let taps = match self.sampling {
            Sampling::Nearest => {
                let places = self.places(&round(&self.inside(p)?)?)?;
                return self.elements(&places.iter().collect::<Vec<_>>());
            }
            Sampling::Linear => 2,
            Sampling::Cubic => 4,
        };
        // Cubic convolution pads elements, linear interpolation positions.
        let p = if taps == 2 { self.inside(p)? } else { p.clone() };
        let before = super::floor(&p.detached())?;
        let (mut places, mut weights) = (vec![], vec![]);
        for tap in 0..taps {
            let to = before.scalar_like(tap as f64 - (taps / 2 - 1) as f64)?;
            let whole = add(&before, &to)?;
            let whole = if taps == 2 { whole } else { self.inside(&whole)? };
            places.push(self.places(&whole)?);
            weights.push(map(Weight { tap, taps }, [&p])?);
        }
        self.sum(&places, &weights, &mut vec![], self.sizes.len())
    }

    /// The weighted sum over the taps of the axes below `axis`, for the taps of the others, which
    /// are chosen; the last axis of the image is summed first.
    fn sum<'a>(
        &self,
        places: &'a [Vec<V>],
        weights: &[V],
        chosen: &mut Vec<&'a V>,
        axis: usize,
    ) -> Result<V> {
        let Some(axis) = axis.checked_sub(1) else {
            return self.elements(&chosen.iter().rev().copied().collect::<Vec<_>>());
        };
        let mut total: Option<V> = None;
        for (places_of, weight) in places.iter().zip(weights) {
            chosen.push(&places_of[axis]);
            let part = self.sum(places, weights, chosen, axis)?;
            chosen.pop();
            let weight = unsqueeze(&select(weight, 2, axis as isize)?, 1)?;
            total = Some(match total {
                None => mul(&part, &weight)?,
                Some(total) => fma(&part, &weight, &total)?,
            });
        }
        Ok(total.expect("there are taps"))
    }
}

/// Checks the shapes: the number of spatial axes.
fn check<V: Value>(x: &V, grid: &V, sampling: Sampling) -> Result<usize> {
    let (xs, gs) = (x.shape(), grid.shape());
    let axes = xs.rank().wrapping_sub(2);
    let fits = matches!(axes, 2 | 3) && gs.rank() == axes + 2 && gs[axes + 1] == axes && gs[0] == xs[0];
    if !fits {
        return Err(Error::shape(format!(
            "grid_sample: input {xs} and grid {gs}; they should be [n, c, h, w] and [n, h, w, 2], or [n, c, d, h, w] and \
             [n, d, h, w, 3]"
        )));
    }
    if xs[2..].contains(&0) {
        return Err(Error::shape(format!("grid_sample: input {xs} has no elements to read")));
    }
    if sampling == Sampling::Cubic && axes != 2 {
        return Err(Error::argument(format!(
            "grid_sample: bicubic of input {xs}; it is for images, [n, c, h, w], only"
        )));
    }
    if !x.dtype().is_float() || grid.dtype() != x.dtype() {
        return Err(Error::dtype(format!(
            "grid_sample: input and grid are {} and {}; they must be of one float type",
            x.dtype(),
            grid.dtype()
        )));
    }
    Ok(axes)
}

/// The image at the positions of a grid, whose last axis holds coordinates in -1..=1, that along
/// the image's last axis first.
///
/// * x: [n, c, h, w]   grid: [n, i, j, 2]   y: [n, c, i, j]
/// * or x: [n, c, d, h, w]   grid: [n, i, j, k, 3]   y: [n, c, i, j, k]
///
/// -1 and 1 are the centres of the corner elements if `align_corners`, else their outer edges. A
/// coordinate that is NaN is read as -1. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not fit, or the image has no elements; `InvalidArgument` if a
/// volume should be read by `Cubic`; `DTypeMismatch` if the operands are not of one float type;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn grid_sample<V: Value>(
    x: &V,
    grid: &V,
    sampling: Sampling,
    padding: Padding,
    align_corners: bool,
) -> Result<V> {
    autocast!("grid_sample", x, grid => grid_sample(x, grid, sampling, padding, align_corners));
    let axes = check(x, grid, sampling)?;
    widen([x, grid], |[x, grid]| {
        let (xs, gs) = (x.shape(), grid.shape());
        let points: usize = gs[1..=axes].iter().product();
        let elements: usize = xs[2..].iter().product();
        let sizes: Vec<usize> = xs[2..].iter().rev().copied().collect();
        let lengths = sizes.iter().map(|&n| n as f64).collect();
        let size = V::from_array(Array::from_f64s(x.device(), lengths, &[axes], x.dtype())?);
        let flat = reshape::to_shape(x, &Shape::new(&[xs[0], xs[1], elements])?)?;
        let flat = pad(&flat, &[0, 1], Mode::Constant(Scalar::Int(0)))?;
        let image = Image { flat, sizes, size, sampling, padding, align_corners };
        let points = reshape::to_shape(grid, &Shape::new(&[gs[0], points, axes])?)?;
        let y = image.at(&map(Position { align_corners }, [&points, &image.size])?)?;
        let out: Dims = xs[..2].iter().chain(&gs[1..=axes]).copied().collect();
        reshape::to_shape(&y, &Shape::new(&out)?)
    })
}

/// By name: operands x and grid; attributes mode (bilinear, nearest, bicubic), padding_mode (zeros,
/// border, reflection) and align_corners, with PyTorch's defaults.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let wrong = |what: &str, word: &str, there: &str| {
        Error::argument(format!("grid_sample: {what} {word}; there are {there}"))
    };
    let sampling = match a.maybe("mode", Args::str)?.unwrap_or("bilinear") {
        "bilinear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "bicubic" => Sampling::Cubic,
        other => return Err(wrong("mode", other, "bilinear, nearest and bicubic")),
    };
    let padding = match a.maybe("padding_mode", Args::str)?.unwrap_or("zeros") {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(wrong("padding_mode", other, "zeros, border and reflection")),
    };
    let align_corners = a.maybe("align_corners", Args::bool)?.unwrap_or(false);
    Ok(vec![grid_sample(a.input("x")?, a.input("grid")?, sampling, padding, align_corners)?])
}
