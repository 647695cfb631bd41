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

use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::Tensor;

/// Keys and values of each layer, [b, j, s, d] with s the number of tokens so far.
#[derive(Clone, Debug)]
pub struct KvCache<B: Backend> {
    /// Those up to the last one that has any; there may be room for more.
    layers: Vec<Option<[Tensor<B>; 2]>>,
    /// How many layers there are.
    count: usize,
}

impl<B: Backend> KvCache<B> {
    /// An empty cache for this many layers.
    pub fn new(layers: usize) -> Self {
        KvCache { layers: vec![], count: layers }
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
        let len = self.len();
        self.truncate(len);
        len
    }
    /// Removes all tokens.
    pub fn reset(&mut self) {
        self.truncate(0);
    }
}
