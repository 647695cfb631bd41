//! multi_dot: the product of several matrices, in the order that costs least.

use super::{matmul, reshape};
use crate::prelude::*;

/// The product of the matrices `x` (two at least); the first may be a vector, taken for a row, and
/// the last one, taken for a column. Products are made in the order with the fewest
/// multiplications; among orders of equal cost that with the earliest last product.
///
/// # Errors
/// `InvalidArgument` for less than two operands; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn multi_dot<V: Value>(x: &[&V]) -> Result<V> {
    let [first, .., last] = x else {
        return Err(Error::argument(format!("multi_dot: {} operands; there must be two at least", x.len())));
    };
    let (row, column) = (first.shape().rank() == 1, last.shape().rank() == 1);
    let mut all: Vec<V> = x.iter().map(|v| (*v).clone()).collect();
    let n = all.len();
    if row {
        all[0] = reshape(&all[0], &[1, -1])?;
    }
    if column {
        all[n - 1] = reshape(&all[n - 1], &[-1, 1])?;
    }
    for (i, v) in all.iter().enumerate() {
        if v.shape().rank() != 2 {
            return Err(Error::shape(format!("multi_dot: operand {i} is {}; it must be a matrix", x[i].shape())));
        }
        if i > 0 && all[i - 1].shape()[1] != v.shape()[0] {
            return Err(Error::shape(format!(
                "multi_dot: operands {} and {i} are {} and {}; their inner sizes must be equal",
                i - 1,
                all[i - 1].shape(),
                v.shape()
            )));
        }
    }
    let sizes: Vec<u128> =
        all.iter().map(|v| v.shape()[0] as u128).chain([all[n - 1].shape()[1] as u128]).collect();
    let y = span(&all, &cheapest(&sizes), 0, n - 1)?;
    let kept: Dims = [(row, 0), (column, 1)].iter().filter(|(gone, _)| !gone).map(|&(_, i)| y.shape()[i]).collect();
    reshape::to_shape(&y, &Shape::new(&kept)?)
}

/// Where the last product of each span of matrices is, by the sizes between them (matrix chain
/// multiplication; Godbole 1973).
fn cheapest(sizes: &[u128]) -> Vec<Vec<usize>> {
    let n = sizes.len() - 1;
    let (mut cost, mut cut) = (vec![vec![0u128; n]; n], vec![vec![0; n]; n]);
    for len in 1..n {
        for i in 0..n - len {
            let j = i + len;
            let of = |k: usize| {
                let own = sizes[i].saturating_mul(sizes[k + 1]).saturating_mul(sizes[j + 1]);
                cost[i][k].saturating_add(cost[k + 1][j]).saturating_add(own)
            };
            let best = (i..j).min_by_key(|&k| of(k)).expect("two matrices at least");
            (cut[i][j], cost[i][j]) = (best, of(best));
        }
    }
    cut
}

fn span<V: Value>(all: &[V], cut: &[Vec<usize>], i: usize, j: usize) -> Result<V> {
    if i == j {
        return Ok(all[i].clone());
    }
    let k = cut[i][j];
    matmul(&span(all, cut, i, k)?, &span(all, cut, k + 1, j)?).map_err(|e| e.at("multi_dot"))
}

/// By name: operands x0, x1, ..
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![multi_dot(&a.all("x"))?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Cormen et al., Introduction to Algorithms: ((A1 (A2 A3)) ((A4 A5) A6)).
    #[test]
    fn order() {
        let cut = cheapest(&[30, 35, 15, 5, 10, 20, 25]);
        assert_eq!((cut[0][5], cut[0][2], cut[3][5]), (2, 0, 4));
    }
}
