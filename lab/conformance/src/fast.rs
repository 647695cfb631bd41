//! Products with `Precision::Fast`, of whole numbers whose sums are exact in any order, so that
//! there is one right result.
//!
//! `Precision::Fast` uses kernels that exact work does not. These sizes and layouts cover all of
//! them: partial tiles and more than one tile, few products and enough for the largest tile,
//! operands with contiguous and with strided terms.

use crate::Part;
use elinvar_core::{DType, HostData, Precision, Result, Shape};
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_reference::{Reference, ReferenceDevice};

/// Batches, rows, terms, columns. In some, rows of all operands are aligned to 16 bytes.
pub const SIZES: [[usize; 4]; 6] = [
    [1, 1, 64, 64],
    [1, 33, 40, 72],
    [2, 72, 136, 24],
    [1, 200, 8, 264],
    [3, 17, 31, 33],
    [60, 128, 24, 512],
];
/// From this many batches on, they share their operands, and so their results, and no operand is
/// transposed.
const COMMON: usize = 16;

/// The number of products tried, and a sentence for each wrong one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Products.
    pub tried: usize,
    /// Wrong ones.
    pub wrong: Vec<String>,
}

fn number(factor: usize, i: usize, j: usize) -> i32 {
    ((i * 7 + j * 3 + factor * 5 + (i * j) % 4) % 9) as i32 - 4
}

/// Tries a part of the products of some sizes (batches, rows, terms, columns), of all types, on a
/// device: plain, and with the last operand as a layer's weight, with a bias.
///
/// # Errors
/// The device's errors.
pub fn products<B: Backend>(d: &B::Device, sizes: &[[usize; 4]], part: Part) -> Result<Found> {
    let mut found = Found::default();
    for (which, dtype) in [DType::F16, DType::BF16, DType::F32].into_iter().enumerate() {
        // Of other sizes for another type: the largest product takes longest, and is in each third.
        for (place, &sizes) in (which..).zip(sizes) {
            if !part.has(place) {
                continue;
            }
            for turned in 0..if sizes[0] < COMMON { 4 } else { 1 } {
                found.tried += 1;
                if let Some(what) = wrong::<B>(d, dtype, sizes, [turned & 1 != 0, turned & 2 != 0])? {
                    found.wrong.push(what);
                }
            }
        }
    }
    Ok(found)
}

/// The fault of a product of operands, some of them transposed, if it is wrong.
fn wrong<B: Backend>(
    d: &B::Device,
    dtype: DType,
    [b, m, k, n]: [usize; 4],
    turned: [bool; 2],
) -> Result<Option<String>> {
    let own = if b < COMMON { b } else { 1 };
    let matrix = |factor: usize, rows: usize, columns: usize| -> Result<Array<B>> {
        let lies = if turned[factor] { [columns, rows] } else { [rows, columns] };
        let one = |at: usize| {
            let (batch, i, j) = (at / (rows * columns), at / lies[1] % lies[0], at % lies[1]);
            let (i, j) = if turned[factor] { (j, i) } else { (i, j) };
            number(factor, i + batch, j) as f32
        };
        let all: Vec<f32> = (0..own * rows * columns).map(one).collect();
        let x = Array::<B>::from_vec(d, all, &[own, lies[0], lies[1]])?.cast(dtype)?;
        let x = if turned[factor] { x.with_layout(x.layout().transpose(1, 2)) } else { x };
        x.broadcast_to(&Shape::new(&[b, rows, columns])?, "matmul")
    };
    let (x, w) = (matrix(0, m, k)?, matrix(1, k, n)?);
    let all =
        |len: usize, one: &dyn Fn(usize) -> i32| (0..len).map(|at| one(at) as f32).collect::<Vec<f32>>();
    let weight =
        Array::<B>::from_vec(d, all(n * k, &|at| number(1, at % k, at / k)), &[n, k])?.cast(dtype)?;
    let bias = Array::<B>::from_vec(d, all(n, &|at| number(2, at, 0)), &[n])?.cast(dtype)?;
    for layer in [false, true] {
        let product =
            || if layer { catalogue::linear(&x, &weight, Some(&bias)) } else { catalogue::matmul(&x, &w) };
        let got = floats(&Precision::Fast.scope(product)?)?;
        if got != floats(&Precision::Fast.scope(product)?)? {
            return Ok(Some(format!(
                "{dtype}: {b} x {m} x {k} x {n}, turned {turned:?}: not the same again"
            )));
        }
        let sum = |at: usize| {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let (of_w, more) = if layer { (0, number(2, j, 0)) } else { (batch, 0) };
            (0..k).map(|t| number(0, i + batch, t) * number(1, t + of_w, j)).sum::<i32>() + more
        };
        let sums = all(own * m * n, &sum);
        let want = Array::<Reference>::from_vec(&ReferenceDevice, sums, &[own, m, n])?.cast(dtype)?;
        let want = floats(&want)?;
        // All batches, where they are the same.
        if let Some(at) = got.iter().zip(want.iter().cycle()).position(|(got, want)| got != want) {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let (got, want) = (got[at], want[at % want.len()]);
            let layer = if layer { ", a layer" } else { "" };
            return Ok(Some(format!(
                "{dtype}: {b} x {m} x {k} x {n}{layer}, turned {turned:?}: {got} in batch {batch}, row {i}, column {j}; \
                 {want} would be right"
            )));
        }
    }
    Ok(None)
}

fn floats<B: Backend>(x: &Array<B>) -> Result<Vec<f32>> {
    match x.cast(DType::F32)?.to_host()?.into_parts() {
        (_, HostData::F32(v)) => Ok(v.into_vec()),
        (_, other) => unreachable!("{} were just made f32", other.dtype()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twist::{Twist, Twisted, TwistedDevice, Work};

    #[test]
    fn right_products_are_right() {
        let found = products::<Reference>(&ReferenceDevice, &SIZES, Part::ALL).unwrap();
        let tried = |part| products::<Reference>(&ReferenceDevice, &SIZES[..4], part).unwrap().tried;
        let parts = (1..=3).map(|k| tried(Part::new(k, 3).expect("a third")));
        assert_eq!(parts.sum::<usize>(), tried(Part::ALL), "parts are everything once");
        assert_eq!((found.tried, found.wrong), (63, Vec::new()));
    }

    #[test]
    fn a_wrong_bit_is_seen() {
        let d = TwistedDevice { inner: ReferenceDevice, twist: Twist::wrong_bit(Work::Contract) };
        let found = products::<Twisted<Reference>>(&d, &SIZES, Part::ALL).unwrap();
        assert_eq!(found.wrong.len(), found.tried);
    }
}
