//! `KvCache`: the keys and values of the tokens so far, so that one more token costs one more row.
//!
//! Each step joins the old rows and the new ones into a new tensor. A tensor never changes here, so
//! a table with room for all positions would be copied as a whole at every step; joining copies
//! only the rows that exist.
//!
//! Decoding with a cache gives the bits of the whole sequence at once: every row of the layers
//! around depends on itself alone, and attention visits the keys in the same blocks of 64 whether
//! later ones exist or not; a key that a query may not see adds exactly 0 (see
//! docs/reference/numerics.md). Two exceptions: where a masked value is infinite or NaN, 0 times it
//! is NaN in the whole run; and a result of zero may have the other sign.

use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::Tensor;

/// Keys and values of each layer, [b, j, s, d] with s the tokens so far.
#[derive(Clone, Debug)]
pub struct KvCache<B: Backend> {
    layers: Vec<Option<[Tensor<B>; 2]>>,
}

impl<B: Backend> KvCache<B> {
    /// An empty one for so many layers.
    pub fn new(layers: usize) -> Self {
        KvCache { layers: vec![None; layers] }
    }
    /// Tokens that all layers have seen.
    pub fn len(&self) -> usize {
        self.layers.iter().map(|l| l.as_ref().map_or(0, |[k, _]| k.dims()[2])).min().unwrap_or(0)
    }
    /// Nothing seen?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Puts keys and values of further tokens behind those of a layer, and gives all of them.
    ///
    /// k, v: [b, j, t, d]   results: [b, j, s + t, d]
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such layer; `ShapeMismatch`, `DTypeMismatch`,
    /// `DeviceMismatch` if they do not fit to those that are there, or k has not as many rows as v;
    /// `OutOfMemory`.
    pub fn append(&mut self, layer: usize, k: &Tensor<B>, v: &Tensor<B>) -> Result<[Tensor<B>; 2]> {
        let layers = self.layers.len();
        let Some(slot) = self.layers.get_mut(layer) else {
            return Err(Error::argument(format!("kv_cache: layer {layer} of a cache for {layers}")));
        };
        if k.rank() != 4 || v.rank() != 4 || k.dims()[..3] != v.dims()[..3] {
            return Err(Error::shape(format!(
                "kv_cache: k {} and v {}; both should be [b, heads, t, d], equal but for d",
                k.shape(),
                v.shape()
            )));
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
    /// Forgets all tokens from `len` on. Rows beyond it that some layers have, of a pass that broke
    /// off, go too.
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
    /// Makes all layers as long as the shortest, after a pass that broke off; gives that length.
    pub(crate) fn settle(&mut self) -> usize {
        let len = self.len();
        self.truncate(len);
        len
    }
    /// Forgets everything.
    pub fn reset(&mut self) {
        self.truncate(0);
    }
}
