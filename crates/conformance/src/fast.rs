//! Products with `Precision::Fast`: of whole numbers whose sums are exact in any order, so that there is one right result.
//!
//! What is fast on a device goes through kernels that nothing exact does. Here are sizes and layouts for all of them: pieces of
//! tiles and more than one, few products and so many that the largest tile is taken, factors that lie along their terms and not.

use elinvar_core::{DType, HostData, Precision, Result, Shape};
use elinvar_ops::{Array, Backend, catalogue};
use elinvar_reference::{Reference, ReferenceDevice};

/// Batches, rows, terms, columns. In some, rows of all factors lie at multiples of 16 bytes.
const SIZES: [[usize; 4]; 6] = [
    [1, 1, 64, 64],
    [1, 33, 40, 72],
    [2, 72, 136, 24],
    [1, 200, 8, 264],
    [3, 17, 31, 33],
    [60, 128, 24, 512],
];
/// From so many batches on, they have their factors in common, and so their results, and no factor is turned.
const COMMON: usize = 16;

/// What was tried, and what of it was wrong: a sentence each.
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

/// Tries products of all types and sizes on a device.
///
/// # Errors
/// What the device reports.
pub fn products<B: Backend>(d: &B::Device) -> Result<Found> {
    let mut found = Found::default();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for sizes in SIZES {
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

/// What is wrong with a product of factors of which some lie turned.
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
    let got = floats(&Precision::Fast.scope(|| catalogue::matmul(&x, &w))?)?;
    let sum = |at: usize| {
        let (batch, i, j) = (at / (m * n), at / n % m, at % n);
        (0..k).map(|t| number(0, i + batch, t) * number(1, t + batch, j)).sum::<i32>() as f32
    };
    let sums: Vec<f32> = (0..own * m * n).map(sum).collect();
    let want = Array::<Reference>::from_vec(&ReferenceDevice, sums, &[own, m, n])?.cast(dtype)?;
    let want = floats(&want)?;
    // All batches, where they are the same.
    let bad = got.iter().zip(want.iter().cycle()).position(|(got, want)| got != want);
    Ok(bad.map(|at| {
        let (batch, i, j) = (at / (m * n), at / n % m, at % n);
        let (got, want) = (got[at], want[at % want.len()]);
        format!(
            "{dtype}: {b} x {m} x {k} x {n}, turned {turned:?}: {got} in batch {batch}, row {i}, column {j}; {want} would be right"
        )
    }))
}

fn floats<B: Backend>(x: &Array<B>) -> Result<Vec<f32>> {
    match x.cast(DType::F32)?.to_host()?.into_parts() {
        (_, HostData::F32(v)) => Ok(v),
        (_, other) => unreachable!("{} were just made f32", other.dtype()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twist::{Twist, Twisted, TwistedDevice, Work};

    #[test]
    fn right_products_are_right() {
        let found = products::<Reference>(&ReferenceDevice).unwrap();
        assert_eq!((found.tried, found.wrong), (63, Vec::new()));
    }

    #[test]
    fn a_wrong_bit_is_seen() {
        let d = TwistedDevice { inner: ReferenceDevice, twist: Twist::wrong_bit(Work::Contract) };
        let found = products::<Twisted<Reference>>(&d).unwrap();
        assert_eq!(found.wrong.len(), found.tried);
    }
}
