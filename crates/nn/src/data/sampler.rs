//! The samples of an epoch and their order: a function of seed and epoch alone.

use elinvar_core::host::with_capacity;
use elinvar_core::philox::{Stream, permutation, unit_f64};
use elinvar_core::{Error, Result};
use elinvar_ops::lane::Lane;
use std::sync::Arc;

/// First stream of epoch orders; generators of the same seed count from 0 and never reach it.
const ORDERS: u64 = 1 << 63;

/// May a sample be drawn twice in an epoch?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// With replacement.
    Again,
    /// Without replacement.
    Once,
}

/// The order of an epoch.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// All samples, in their own order.
    AsIs,
    /// All samples, shuffled.
    Shuffled { seed: u64 },
    /// `count` samples, drawn uniformly with replacement.
    Drawn { count: usize, seed: u64 },
    /// `count` samples, drawn by weight.
    Weighted { weights: Arc<[f64]>, count: usize, draw: Draw, seed: u64 },
}

impl Order {
    /// Draws `count` samples in each epoch, uniformly with replacement.
    pub(crate) fn drawn(n: usize, count: usize, seed: u64) -> Result<Self> {
        if n == 0 && count > 0 {
            return Err(Error::argument(format!(
                "loader: {count} samples are to be drawn, and there are none"
            )));
        }
        Ok(Order::Drawn { count, seed })
    }
    /// Draws `count` samples by weight in each epoch.
    pub(crate) fn weighted(n: usize, weights: Vec<f64>, count: usize, draw: Draw, seed: u64) -> Result<Self> {
        if weights.len() != n {
            return Err(Error::argument(format!(
                "loader: {} weights for {n} samples; one for each would fit",
                weights.len()
            )));
        }
        // Negated so that NaN fails too.
        if let Some(i) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
            return Err(Error::argument(format!(
                "loader: weight {} of sample {i}; it should be 0 or more, and finite",
                weights[i]
            )));
        }
        let can = weights.iter().filter(|w| **w > 0.0).count();
        let enough = match draw {
            Draw::Again => can > 0 || count == 0,
            Draw::Once => can >= count,
        };
        if !enough {
            return Err(Error::argument(format!(
                "loader: {count} samples are to be drawn, and {can} have a weight above 0"
            )));
        }
        if !weights.iter().sum::<f64>().is_finite() {
            return Err(Error::argument("loader: the weights add up to infinity; smaller ones would fit"));
        }
        Ok(Order::Weighted { weights: weights.into(), count, draw, seed })
    }

    /// Samples in an epoch, of `n`.
    pub(crate) fn count(&self, n: usize) -> usize {
        match self {
            Order::AsIs | Order::Shuffled { .. } => n,
            Order::Drawn { count, .. } | Order::Weighted { count, .. } => *count,
        }
    }

    /// The samples of an epoch, of `n`.
    ///
    /// # Errors
    /// `OutOfMemory` if the allocation is refused.
    pub(crate) fn of(&self, n: usize, epoch: u64) -> Result<Vec<usize>> {
        match self {
            Order::AsIs => listed(n, 0..n),
            Order::Shuffled { seed } => permutation(n, Stream { seed: *seed, stream: ORDERS | epoch }),
            Order::Drawn { count, seed } => {
                let stream = Stream { seed: *seed, stream: ORDERS | epoch };
                // The high half of the product is in 0..n, uniform up to a bias of n / 2^64.
                let at = |i| (u128::from(stream.word64(i)) * n as u128) >> 64;
                listed(*count, (0..*count as u64).map(|i| at(i) as usize))
            }
            Order::Weighted { weights, count, draw, seed } => {
                let stream = Stream { seed: *seed, stream: ORDERS | epoch };
                match draw {
                    Draw::Again => again(weights, *count, stream),
                    Draw::Once => once(weights, *count, stream),
                }
            }
        }
    }
}

/// These `count` numbers, if there is memory for them.
fn listed<T>(count: usize, all: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut v = with_capacity(count)?;
    v.extend(all);
    Ok(v)
}

/// Weighted sampling with replacement: binary search of a random number in the prefix sums of the
/// weights.
fn again(weights: &[f64], count: usize, stream: Stream) -> Result<Vec<usize>> {
    let mut sum = 0.0;
    let sums: Vec<f64> = listed(
        weights.len(),
        weights.iter().map(|w| {
            sum += w;
            sum
        }),
    )?;
    // The product below may round up to the total; then it is the last sample of non-zero weight.
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    let draw = |i| {
        let at = unit_f64(stream.word64(i)) * sum;
        // The first sum above it: the prefix sum of a sample of weight 0 equals the one before it,
        // so it is never the first.
        sums.partition_point(|s| *s <= at).min(last)
    };
    listed(count, (0..count as u64).map(draw))
}

/// Weighted sampling without replacement: the smallest of exponential waiting times.
///
/// Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: -log(u) / w is the
/// waiting time of a sample of weight w. The logarithm is the library's own, the same on every
/// machine.
fn once(weights: &[f64], count: usize, stream: Stream) -> Result<Vec<usize>> {
    let some = (0..weights.len()).filter(|i| weights[*i] > 0.0);
    // 1 - u is positive, so the logarithm is finite.
    let time = |i| (-Lane::log(1.0 - unit_f64(stream.word64(i as u64))) / weights[i], i);
    let mut times: Vec<(f64, usize)> = listed(weights.len(), some.map(time))?;
    times.sort_unstable_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
    times.truncate(count);
    listed(times.len(), times.iter().map(|(_, i)| *i))
}
