//! Initial values that are computed on the host: truncated normal, orthogonal, dirac.
//!
//! They are computed in f64 by IEEE operations and the project's own functions, in a fixed order,
//! from random words that depend on the generator and an element's index alone: the same bits on
//! every machine and for every device.

use elinvar_core::host::{filled, with_capacity};
use elinvar_core::philox::{Stream, unit_f64};
use elinvar_core::{DType, Error, HostTensor, Result, rounding};
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;
use elinvar_tensor::{Generator, Sizes, Tensor};

/// The difference of the squares of z and of the densest point beyond which the normal density
/// exp(-z^2 / 2) is below 2^-53 of its maximum: no non-zero uniform number of 53 bits accepts z.
const LOST: f64 = 74.0;

/// Normal numbers within bounds, by rejection: z is drawn uniformly from the bounds (clipped where
/// the density underflows), and accepted with the probability density(z) / (largest density within
/// the bounds).
///
/// This needs one elementary function, exp, where the inverse distribution function needs an
/// inverse of erf, and is as accurate far out in a tail, where that inverse loses digits. At least
/// one draw in a hundred is accepted for any bounds.
pub fn trunc_normal<B: Backend>(
    shape: impl Sizes,
    [mean, std, low, high]: [f64; 4],
    g: &mut Generator,
    device: &B::Device,
) -> Result<Tensor<B>> {
    let shape = shape.to_shape()?;
    let (a, b) = ((low - mean) / std, (high - mean) / std);
    let numbers = [mean, std, low, high].iter().all(|v| v.is_finite());
    if !numbers || std <= 0.0 || a >= b {
        return Err(Error::argument(format!(
            "trunc_normal: mean {mean}, standard deviation {std}, within {low}..={high}; all should be finite, the \
             deviation above 0, and the bounds in order"
        )));
    }
    // The point of the largest density.
    let top = 0f64.clamp(a, b);
    let reach = (top * top + LOST).sqrt();
    let (a, b) = (a.max(-reach), b.min(reach));
    // With empty bounds, or an infinite difference of squares, nothing would ever be accepted.
    if a >= b || !reach.is_finite() {
        return Err(Error::argument(format!(
            "trunc_normal: {low}..={high} is so far from mean {mean} that f64 has no number in between"
        )));
    }
    // The bounds as f32, rounded inwards: a number within them stays within them as f32.
    let least = rounding::least_from(low, DType::F32) as f32;
    let most = -rounding::least_from(-high, DType::F32) as f32;
    if least > most {
        return Err(Error::argument(format!("trunc_normal: f32 has no number in {low}..={high}")));
    }
    // Every element has its own stream.
    let source = g.fork().state();
    let mut all = with_capacity(shape.numel())?;
    for i in 0..shape.numel() as u64 {
        let words = Stream { seed: source.seed, stream: source.stream.wrapping_add(i) };
        let mut try_number = 0;
        let z = loop {
            let z = unit_f64(words.word64(try_number)) * (b - a) + a;
            let u = unit_f64(words.word64(try_number + 1));
            if u < Lane::exp(0.5 * (top - z) * (top + z)) {
                break z;
            }
            try_number += 2;
        };
        all.push(((z * std + mean) as f32).clamp(least, most));
    }
    Tensor::from_host(HostTensor::from_vec(all, shape)?, device)
}

/// Standard normal numbers by the Box-Muller transform.
fn normal(n: usize, words: Stream) -> Result<Vec<f64>> {
    let mut all = with_capacity(n)?;
    for j in 0..n.div_ceil(2) as u64 {
        // 1 - u is in (0, 1], so its logarithm is finite.
        let u = 1.0 - unit_f64(words.word64(2 * j));
        let v = unit_f64(words.word64(2 * j + 1)) * core::f64::consts::TAU;
        let r = (-2.0 * Lane::log(u)).sqrt();
        all.push(r * Lane::cos(v));
        if all.len() < n {
            all.push(r * Lane::sin(v));
        }
    }
    Ok(all)
}

/// The orthogonal factor of a normal matrix, with the signs of its columns chosen so that the
/// triangular factor's diagonal is positive: otherwise the result would not be uniformly
/// distributed over the orthogonal matrices.
pub fn orthogonal<B: Backend>(
    shape: impl Sizes,
    gain: f64,
    g: &mut Generator,
    device: &B::Device,
) -> Result<Tensor<B>> {
    let shape = shape.to_shape()?;
    let [rows, rest @ ..] = shape.dims() else {
        return Err(Error::shape("orthogonal: a scalar; a weight of two axes at least would fit"));
    };
    if rest.is_empty() {
        return Err(Error::shape(format!(
            "orthogonal: shape {shape}; a weight of two axes at least would fit"
        )));
    }
    let (rows, columns) = (*rows, rest.iter().product::<usize>());
    // `k` vectors of `n` numbers, k <= n: the rows of a wide matrix, the columns of a tall one.
    let (n, k) = (rows.max(columns), rows.min(columns));
    let q = orthonormal(normal(rows * columns, g.next_stream())?, n, k)?;
    let mut all = filled(rows * columns, 0f32)?;
    for r in 0..rows {
        for c in 0..columns {
            let (vector, place) = if rows <= columns { (r, c) } else { (c, r) };
            all[r * columns + c] = (q[vector * n + place] * gain) as f32;
        }
    }
    Tensor::from_host(HostTensor::from_vec(all, shape)?, device)
}

/// The sum from the first to the last term, in order.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// y + factor * x
fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// Orthonormalises `k` vectors of `n` numbers by Householder reflections.
fn orthonormal(mut a: Vec<f64>, n: usize, k: usize) -> Result<Vec<f64>> {
    // Forward: reflection j maps vector j's elements from j on to a multiple of the j-th axis. The
    // reflection's vector is stored in their place.
    let mut signs = filled(k, 1.0)?;
    for j in 0..k {
        let (head, later) = a.split_at_mut((j + 1) * n);
        let v = &mut head[j * n + j..];
        let norm = dot(v, v).sqrt();
        if norm == 0.0 {
            // A zero vector needs no reflection: the axis itself is used.
            continue;
        }
        // The sign that avoids cancellation.
        let diagonal = if v[0] > 0.0 { -norm } else { norm };
        signs[j] = if diagonal < 0.0 { -1.0 } else { 1.0 };
        v[0] -= diagonal;
        let length = dot(v, v).sqrt();
        v.iter_mut().for_each(|x| *x /= length);
        for other in later.chunks_mut(n) {
            let other = &mut other[j..];
            let factor = -2.0 * dot(v, other);
            add_scaled(other, factor, v);
        }
    }
    // Backward: the same reflections in reverse order map the axes to the vectors.
    let mut q = filled(k * n, 0.0)?;
    for (j, vector) in q.chunks_mut(n).enumerate() {
        vector[j] = signs[j];
    }
    for j in (0..k).rev() {
        let v = &a[j * n + j..(j + 1) * n];
        // Vectors before j are still zero from j on.
        for vector in q.chunks_mut(n).skip(j) {
            let vector = &mut vector[j..];
            let factor = -2.0 * dot(v, vector);
            add_scaled(vector, factor, v);
        }
    }
    Ok(q)
}

/// Ones at the middle taps of output o and input o of each group.
pub fn dirac<B: Backend>(shape: impl Sizes, groups: usize, device: &B::Device) -> Result<Tensor<B>> {
    let shape = shape.to_shape()?;
    let [outputs, inputs, taps @ ..] = shape.dims() else {
        return Err(Error::shape(format!("dirac: shape {shape}; a weight of two axes at least would fit")));
    };
    if groups == 0 || !outputs.is_multiple_of(groups) {
        return Err(Error::argument(format!("dirac: {outputs} outputs do not divide into {groups} groups")));
    }
    let (size, each): (usize, usize) = (taps.iter().product(), outputs / groups);
    let middle = taps.iter().fold(0, |at, n| at * n + n / 2);
    let mut all = filled(shape.numel(), 0f32)?;
    if size > 0 {
        for group in 0..groups {
            for o in 0..each.min(*inputs) {
                all[((group * each + o) * inputs + o) * size + middle] = 1.0;
            }
        }
    }
    Tensor::from_host(HostTensor::from_vec(all, shape)?, device)
}
