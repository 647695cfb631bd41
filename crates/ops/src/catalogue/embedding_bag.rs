//! embedding_bag: rows of a table picked by index, and reduced in bags. Offsets are read, and with
//! a padding index the indices, so this synchronises with the device.

use super::gather::as_index;
use super::scatter_reduce::{self, Reduce};
use super::{flatten, index_select, mul, unsqueeze, view};
use crate::prelude::*;
use crate::recording;
use elinvar_core::host::with_capacity;

/// What an embedding_bag does beside picking rows.
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a, V> {
    /// Where each bag of a vector of indices begins; for a matrix of indices, whose rows are bags,
    /// none.
    pub offsets: Option<&'a V>,
    /// Is the last offset the end of the last bag?
    pub include_last_offset: bool,
    /// How a bag is reduced: to its sum, mean or maximum. An empty bag gives 0.
    pub mode: Reduce,
    /// A factor for each index, for sums.
    pub per_sample_weights: Option<&'a V>,
    /// A row, which may count from the end, that takes no part.
    pub padding_idx: Option<isize>,
}

/// The reductions of the rows of `weight` [rows, columns] that the bags of indices name: [bags,
/// columns].
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if an index names no row, offsets do not ascend from 0, or
/// the mode is none of the three, or not a sum with weights; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn embedding_bag<V: Value>(index: &V, weight: &V, bags: Bags<'_, V>) -> Result<V> {
    let fault = |what: String| Err(Error::argument(format!("embedding_bag: {what}")));
    let [rows, columns] = weight.shape()[..] else {
        return Err(Error::shape(format!(
            "embedding_bag: weight of shape {}; it must be a matrix",
            weight.shape()
        )));
    };
    if !matches!(bags.mode, Reduce::Sum | Reduce::Mean | Reduce::Amax) {
        return fault(format!("mode {:?}; it must be sum, mean or max", bags.mode));
    }
    if let Some(w) = bags.per_sample_weights {
        if w.shape() != index.shape() {
            return Err(Error::shape(format!(
                "embedding_bag: weights of shape {} for indices of shape {}; they must be equal",
                w.shape(),
                index.shape()
            )));
        }
        if bags.mode != Reduce::Sum {
            return fault("weights of indices are for sums".to_string());
        }
    }
    let mut at = flatten::all(&as_index("embedding_bag", index)?)?;
    let n = at.shape().numel();
    let starts: Vec<usize> = match (&index.shape()[..], bags.offsets) {
        (&[b, n], None) => {
            let mut all = with_capacity(b.saturating_add(1))?;
            all.extend((0..=b).map(|i| i * n));
            all
        }
        ([_], Some(offsets)) => starts(offsets, n, bags.include_last_offset)?,
        (_, offsets) => {
            return Err(Error::shape(format!(
                "embedding_bag: indices of shape {} and {} offsets; they must be a matrix without, or a vector with",
                index.shape(),
                if offsets.is_some() { "some" } else { "no" }
            )));
        }
    };
    let count = starts.len() - 1;
    let mut bag: Vec<i64> = Vec::with_capacity(n);
    for (i, w) in starts.windows(2).enumerate() {
        bag.extend(std::iter::repeat_n(i as i64, w[1] - w[0]));
    }
    let mut factors = bags.per_sample_weights.map(flatten::all).transpose()?;
    if let Some(p) = bags.padding_idx {
        let row = if p < 0 { p.saturating_add_unsigned(rows) } else { p };
        if !(0..rows as isize).contains(&row) {
            return fault(format!("padding_idx {p} names no row of a weight with {rows}"));
        }
        recording::refuse("embedding_bag: reading indices")?;
        let host = at.array().to_host()?;
        let kept: Vec<usize> =
            host.as_slice::<i64>()?.iter().enumerate().filter(|(_, v)| **v != row as i64).map(|(i, _)| i).collect();
        let places: V = view::numbers(&at, kept.len(), kept.iter().map(|&i| i as i64))?;
        bag = kept.iter().map(|&i| bag[i]).collect();
        at = index_select(&at, 0, &places)?;
        factors = factors.map(|f| index_select(&f, 0, &places)).transpose()?;
    }
    let mut picked = index_select(weight, 0, &at).map_err(|e| e.at("embedding_bag"))?;
    if let Some(factors) = &factors {
        picked = mul(&picked, &unsqueeze(factors, -1)?)?;
    }
    let base = view::zeros(&picked, &Shape::new(&[count, columns])?)?;
    if picked.shape().numel() == 0 {
        return Ok(base);
    }
    let bag: V = view::numbers(&picked, bag.len(), bag)?;
    let to = index_select::spread("embedding_bag", base.shape(), 0, &bag)?;
    scatter_reduce::run("embedding_bag", [&base, &to, &picked], 0, bags.mode, false)
}

/// Where bags begin, and where the last ends.
fn starts<V: Value>(offsets: &V, n: usize, include_last: bool) -> Result<Vec<usize>> {
    recording::refuse("embedding_bag: reading offsets")?;
    let host = flatten::all(&as_index("embedding_bag", offsets)?)?.array().to_host()?;
    let all: Option<Vec<usize>> = host.as_slice::<i64>()?.iter().map(|&v| usize::try_from(v).ok()).collect();
    let mut all = all.unwrap_or_default();
    if !include_last {
        all.push(n);
    }
    let fits = all.len() == host.shape().numel() + usize::from(!include_last)
        && all.first() == Some(&0)
        && all.is_sorted()
        && all.last() == Some(&n);
    if fits {
        return Ok(all);
    }
    Err(Error::argument(format!(
        "embedding_bag: offsets must ascend from 0 to at most {n}, the number of indices, and all are in a bag"
    )))
}

/// By name: operands index, weight, and offsets and per_sample_weights if there are such;
/// attributes mode (absent: mean), include_last_offset (absent: false) and padding_idx (null:
/// none).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let bags = Bags {
        offsets: a.optional("offsets"),
        include_last_offset: a.maybe("include_last_offset", Args::bool)?.unwrap_or(false),
        mode: Reduce::parse(&a.op, a.maybe("mode", Args::str)?.unwrap_or("mean"))?,
        per_sample_weights: a.optional("per_sample_weights"),
        padding_idx: a.maybe("padding_idx", Args::dim)?,
    };
    Ok(vec![embedding_bag(a.input("index")?, a.input("weight")?, bags)?])
}
