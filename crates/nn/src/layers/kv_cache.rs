//! `KvCache`: the keys and values of the previous tokens, so that decoding a token computes one
//! row.
//!
//! Each step concatenates the old rows and the new ones. Tensors are immutable, so a table
//! preallocated for all positions would be copied as a whole at every step; concatenation copies
//! only the existing rows.
//!
//! Decoding with a cache gives the bits of the whole sequence at once: the other layers compute
//! each row independently, and attention visits the keys in the same blocks of 64 whether later
//! ones exist or not; a masked key adds exactly 0 (see docs/reference/numerics.md). Two exceptions:
//! where a masked value is infinite or NaN, 0 times it is NaN in the whole-sequence pass; and a
//! result of zero may have the other sign.

use super::positions::places;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::Tensor;

/// Keys and values of each layer, [b, j, s, d] with s the number of tokens so far.
#[derive(Clone, Debug)]
pub struct KvCache<B: Backend> {
    /// Those up to the last one that has any; there may be capacity for more.
    layers: Vec<Option<[Tensor<B>; 2]>>,
    /// How many layers there are.
    count: usize,
    /// Of a step that is recorded.
    fixed: Option<FixedCapacity<B>>,
}

/// What a cache of fixed size has besides its rows. A recorded step has one size for all tokens, so
/// the rows are there from the beginning, and those that were not written yet are masked.
#[derive(Clone, Debug)]
struct FixedCapacity<B: Backend> {
    /// The number of tokens so far: where the next one goes. \[1\] of i64.
    at: Tensor<B>,
    /// Is it this row? [capacity, 1]
    here: Tensor<B>,
    /// Is the row seen by the next token? \[capacity\]
    seen: Tensor<B>,
    /// What was appended to each layer, [b, j, 1, d].
    new: Vec<[Tensor<B>; 2]>,
}

impl<B: Backend> KvCache<B> {
    /// An empty cache for this many layers.
    pub fn new(layers: usize) -> Self {
        KvCache { layers: vec![], count: layers, fixed: None }
    }
    /// A cache of these rows.
    pub(crate) fn of(layers: Vec<[Tensor<B>; 2]>) -> Self {
        KvCache { count: layers.len(), layers: layers.into_iter().map(Some).collect(), fixed: None }
    }
    /// A cache of fixed size, for one more token: `layers` have rows that are written up to `at`.
    pub(crate) fn with_capacity(layers: Vec<[Tensor<B>; 2]>, at: Tensor<B>) -> Result<Self> {
        let rows = layers.first().map_or(0, |[k, _]| k.dims()[2]);
        let all = places::<B>(0, rows, at.device());
        let here = op::unsqueeze(&op::eq(&all, &at)?, 1)?;
        let seen = op::le(&all, &at)?;
        Ok(KvCache { fixed: Some(FixedCapacity { at, here, seen, new: vec![] }), ..KvCache::of(layers) })
    }
    /// The rows of each layer, if all have some.
    pub(crate) fn into_layers(self) -> Option<Vec<[Tensor<B>; 2]>> {
        if self.layers.len() == self.count { self.layers.into_iter().collect() } else { None }
    }
    /// What a step of fixed size has appended to each layer.
    pub(crate) fn into_new(self) -> Vec<[Tensor<B>; 2]> {
        self.fixed.map_or_else(Vec::new, |fixed| fixed.new)
    }
    /// The positions of the next `t` tokens, after `past` ones: [t] of i64.
    pub(crate) fn places(&self, past: usize, t: usize, device: &B::Device) -> Tensor<B> {
        self.fixed.as_ref().map_or_else(|| places(past, t, device), |fixed| fixed.at.clone())
    }
    /// Rows of each layer, if their number is fixed; and the position of the next token.
    pub(crate) fn fixed(&self) -> Option<(usize, &Tensor<B>)> {
        self.fixed.as_ref().map(|fixed| (fixed.seen.dims()[0], &fixed.at))
    }
    /// Which rows the next token sees, if their number is fixed.
    pub(crate) fn seen(&self) -> Option<Tensor<B>> {
        self.fixed.as_ref().map(|fixed| fixed.seen.clone())
    }
    /// Number of tokens that are cached in all layers.
    pub fn len(&self) -> usize {
        if self.layers.len() < self.count {
            return 0;
        }
        self.layers.iter().map(|l| l.as_ref().map_or(0, |[k, _]| k.dims()[2])).min().unwrap_or(0)
    }
    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends keys and values of new tokens to a layer, and returns all of them.
    ///
    /// k, v: [b, j, t, d]   results: [b, j, s + t, d]
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such layer; `ShapeMismatch`, `DTypeMismatch`,
    /// `DeviceMismatch` if they do not match the cached ones, or k and v have different numbers of
    /// rows; `OutOfMemory`.
    pub fn append(&mut self, layer: usize, k: &Tensor<B>, v: &Tensor<B>) -> Result<[Tensor<B>; 2]> {
        if layer >= self.count {
            return Err(Error::argument(format!("kv_cache: layer {layer} of a cache for {}", self.count)));
        }
        if k.rank() != 4 || v.rank() != 4 || k.dims()[..3] != v.dims()[..3] {
            return Err(Error::shape(format!(
                "kv_cache: k {} and v {}; both should be [b, heads, t, d], equal but for d",
                k.shape(),
                v.shape()
            )));
        }
        if layer >= self.layers.len() {
            let more = layer + 1 - self.layers.len();
            self.layers.try_reserve(more).map_err(|_| {
                Error::memory(format!("kv_cache: there is no memory for {} layers", layer + 1))
            })?;
            self.layers.resize(layer + 1, None);
        }
        let slot = &mut self.layers[layer];
        if let (Some(fixed), Some([old_k, old_v])) = (&mut self.fixed, slot.as_ref()) {
            let all = [op::where_(&fixed.here, k, old_k)?, op::where_(&fixed.here, v, old_v)?];
            fixed.new.push([k.clone(), v.clone()]);
            return Ok(all);
        }
        let all = match slot.as_ref() {
            None => [k.clone(), v.clone()],
            Some([old_k, old_v]) => {
                let join = |old: &Tensor<B>, new: &Tensor<B>| {
                    op::concat(&[old, new], 2).map_err(|e| e.at(format!("kv_cache of layer {layer}")))
                };
                [join(old_k, k)?, join(old_v, v)?]
            }
        };
        Ok(slot.insert(all).clone())
    }
    /// Removes all tokens from `len` on, also those of an aborted pass that only some layers have.
    pub fn truncate(&mut self, len: usize) {
        for slot in &mut self.layers {
            let Some([k, v]) = slot else { continue };
            if len == 0 {
                *slot = None;
            } else if k.dims()[2] > len {
                *slot = Some([k.narrow(2, 0, len), v.narrow(2, 0, len)]);
            }
        }
    }
    /// Truncates all layers to the shortest, after an aborted pass; returns that length.
    pub(crate) fn settle(&mut self) -> usize {
        if self.fixed.is_some() {
            // The host does not know how many there are.
            return 0;
        }
        let len = self.len();
        self.truncate(len);
        len
    }
    /// Removes all tokens.
    pub fn reset(&mut self) {
        self.truncate(0);
    }
}
