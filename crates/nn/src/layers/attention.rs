//! [`attend`], which all attention layers share, and [`Attention`], the layer of Llama-like models.
//!
//! A layer projects, splits into heads, attends and projects again. Without dropout the attention
//! itself is the catalogue's scaled_dot_product_attention, which never stores the weights in
//! memory. With dropout in training it is composed of a product, a softmax and another product,
//! because the weights are what is dropped.

use super::{Dropout, KvCache, Linear, RotaryTable};
use crate::{Layer, Mode, Module};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// softmax(q k^T / sqrt(d) + mask) v for each batch and head.
///
/// q: [b, h, l, d]   k: [b, j, s, d]   v: [b, j, s, v]   mask: broadcasts to [b, h, l, s]
/// y: [b, h, l, v]
///
/// Each of the j key heads is shared by h / j adjacent query heads (grouped-query attention). A
/// bool mask is true where a key takes part, a float mask is added. With `causal` the queries are
/// the last l of s tokens, as with a KV cache: the last query attends to all keys and every earlier
/// one to one key less. A query without keys gives zeros. `dropout` applies to the weights.
///
/// # Errors
/// `ShapeMismatch` if sizes do not fit, or there are fewer keys than queries and `causal`;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn attend<B: Backend>(
    q: &Tensor<B>,
    k: &Tensor<B>,
    v: &Tensor<B>,
    mask: Option<&Tensor<B>>,
    causal: bool,
    dropout: Option<&Dropout>,
) -> Result<Tensor<B>> {
    let Some(dropout) = dropout else {
        let (mask, causal) = aligned(q, k, mask, causal)?;
        return op::scaled_dot_product_attention(q, k, v, mask.as_ref(), causal, None, true);
    };
    let p = attention_weights(q, k, mask, causal)?;
    let y = op::attention_weights::weighted(&dropout.forward(&p), v)?;
    elinvar_ops::value::cast(&y, q.dtype())
}

/// The mask and causal flag for the op, whose causal query i attends to keys 0..=i, when the
/// queries are the last l of s tokens.
fn aligned<B: Backend>(
    q: &Tensor<B>,
    k: &Tensor<B>,
    mask: Option<&Tensor<B>>,
    causal: bool,
) -> Result<(Option<Tensor<B>>, bool)> {
    if !causal {
        return Ok((mask.cloned(), false));
    }
    let (l, s) = lengths(q, k)?;
    if l > s {
        return Err(Error::shape(format!(
            "attention: {l} queries and {s} keys; causal queries are the last of the keys' tokens"
        )));
    }
    Ok(match l {
        _ if l == s => (mask.cloned(), true),
        // The last token attends to all keys.
        1 => (mask.cloned(), false),
        _ => (Some(both(mask, seen(l, s, q.device())?)?), false),
    })
}

fn lengths<B: Backend>(q: &Tensor<B>, k: &Tensor<B>) -> Result<(usize, usize)> {
    match (q.dims(), k.dims()) {
        (&[.., l, _], &[.., s, _]) => Ok((l, s)),
        _ => Err(Error::shape(format!(
            "attention: q {}, k {}; each should be [b, heads, length, size]",
            q.shape(),
            k.shape()
        ))),
    }
}

/// True where key j is at or before query i, the last l of s tokens: [l, s].
pub(super) fn seen<B: Backend>(l: usize, s: usize, device: &B::Device) -> Result<Tensor<B>> {
    let keys = Tensor::<B>::arange(0, s as i64, 1, device).unsqueeze(0);
    let queries = Tensor::<B>::arange((s - l) as i64, s as i64, 1, device).unsqueeze(1);
    op::le(&keys, &queries)
}

/// Combines two masks: keys that both allow. Bool masks stay bool.
pub(super) fn both<B: Backend>(a: Option<&Tensor<B>>, b: Tensor<B>) -> Result<Tensor<B>> {
    Ok(match a {
        None => b,
        Some(a) if a.dtype() == DType::Bool && b.dtype() == DType::Bool => op::logical_and(a, &b)?,
        Some(a) if a.dtype() == DType::Bool => op::where_(a, &b, &b.full_like(f64::NEG_INFINITY))?,
        Some(a) if b.dtype() == DType::Bool => op::where_(&b, a, &a.full_like(f64::NEG_INFINITY))?,
        Some(a) => op::add(a, &b)?,
    })
}

/// The weights of [`attend`], [b, h, l, s], in the compute dtype. A query without keys has weights
/// of 0.
pub(super) fn attention_weights<B: Backend>(
    q: &Tensor<B>,
    k: &Tensor<B>,
    mask: Option<&Tensor<B>>,
    causal: bool,
) -> Result<Tensor<B>> {
    let (mask, causal) = aligned(q, k, mask, causal)?;
    op::attention_weights::weights(q, k, mask.as_ref(), causal, None)
}

pub(super) fn reshaped<B: Backend>(x: &Tensor<B>, sizes: &[usize]) -> Result<Tensor<B>> {
    op::reshape(x, &sizes.iter().map(|&n| n as isize).collect::<Vec<_>>())
}

/// [b, heads, t, d] of [b, t, heads * d].
pub(crate) fn split_heads<B: Backend>(x: &Tensor<B>, heads: usize) -> Result<Tensor<B>> {
    let &[b, t, e] = x.dims() else {
        return Err(Error::shape(format!("attention: {}; it should be [b, t, features]", x.shape())));
    };
    if heads == 0 || !e.is_multiple_of(heads) {
        return Err(Error::shape(format!("attention: {e} features do not divide among {heads} heads")));
    }
    op::transpose(&reshaped(x, &[b, t, heads, e / heads])?, 1, 2)
}

/// [b, t, heads * d] of [b, heads, t, d].
pub(crate) fn join_heads<B: Backend>(x: &Tensor<B>) -> Result<Tensor<B>> {
    let x = op::transpose(x, 1, 2)?;
    let &[b, t, h, d] = x.dims() else {
        return Err(Error::shape(format!("attention: {}; it should be [b, heads, t, d]", x.shape())));
    };
    reshaped(&x, &[b, t, h * d])
}

/// Dropout of attention weights. [`Self::active`] tells whether it drops now, because then the
/// weights have to be computed.
#[derive(Debug, Module)]
pub(crate) struct WeightDropout {
    pub(super) p: f64,
    mode: Mode,
    dropout: Dropout,
}

impl WeightDropout {
    /// Drops with probability `p`.
    ///
    /// # Panics
    /// If `p` is not in 0..=1.
    #[track_caller]
    pub(crate) fn new(p: f64, g: &mut Generator) -> Self {
        WeightDropout { p, mode: Mode::new(), dropout: Dropout::new(p, g) }
    }
    /// The dropout, if it drops now.
    pub(crate) fn active(&self) -> Option<&Dropout> {
        (self.mode.is_training() && self.p > 0.0).then_some(&self.dropout)
    }
}

/// Features of a head.
pub(super) fn divided(features: usize, heads: usize) -> Result<usize> {
    if heads > 0 && features.is_multiple_of(heads) {
        Ok(features / heads)
    } else {
        Err(Error::argument(format!("attention: {features} features do not divide among {heads} heads")))
    }
}

/// The inputs that all attention layers of a model share in one pass.
#[derive(Clone, Debug)]
pub struct AttentionContext<B: Backend> {
    /// True where a key takes part, or floats to add: broadcasts to [b, heads, l, s], s with the
    /// cache's tokens.
    pub mask: Option<Tensor<B>>,
    /// Causal: no token attends to a later one.
    pub causal: bool,
    /// The positions of these tokens.
    pub rotary: Option<RotaryTable<B>>,
}

/// Self-attention, with separate projections, as in Llama.
///
/// x: [b, t, features]   y: as x
///
/// Each of `kv_heads` key heads is shared by adjacent query heads (grouped-query attention).
#[derive(Debug, Module)]
#[module(display)]
pub struct Attention<B: Backend> {
    /// [heads * size, features]
    pub q_proj: Linear<B>,
    /// [kv_heads * size, features]
    pub k_proj: Linear<B>,
    /// [kv_heads * size, features]
    pub v_proj: Linear<B>,
    /// [features, heads * size]
    pub o_proj: Linear<B>,
    dropout: WeightDropout,
    heads: usize,
    kv_heads: usize,
}

/// The settings of an [`Attention`].
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionOptions {
    features: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: Option<usize>,
    bias: bool,
    dropout: f64,
}

impl AttentionOptions {
    /// Settings of a layer with these features and heads.
    pub fn new(features: usize, heads: usize) -> Self {
        AttentionOptions { features, heads, kv_heads: heads, head_dim: None, bias: false, dropout: 0.0 }
    }
    /// Number of key and value heads. Default: that of queries.
    #[must_use]
    pub fn kv_heads(mut self, heads: usize) -> Self {
        self.kv_heads = heads;
        self
    }
    /// Size of a head. Default: features / heads.
    #[must_use]
    pub fn head_dim(mut self, size: usize) -> Self {
        self.head_dim = Some(size);
        self
    }
    /// With biases? Default: no.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// Dropout probability of attention weights in training. Default: 0.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
    /// A layer of f32; the projections start as [`Linear`] does.
    ///
    /// # Panics
    /// If the heads do not divide, the dropout is not in 0..=1, or memory is exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> Attention<B> {
        let d = self.head_dim.map_or_else(|| divided(self.features, self.heads), Ok).or_fail();
        let mut linear = |i, o| match self.bias {
            true => Linear::new(i, o, g, device),
            false => Linear::without_bias(i, o, g, device),
        };
        let q = linear(self.features, self.heads.saturating_mul(d));
        let k = linear(self.features, self.kv_heads.saturating_mul(d));
        let v = linear(self.features, self.kv_heads.saturating_mul(d));
        let o = linear(self.heads.saturating_mul(d), self.features);
        Attention::of(q, k, v, o, self.heads, self.kv_heads, WeightDropout::new(self.dropout, g)).or_fail()
    }
}

impl<B: Backend> Attention<B> {
    /// A layer of existing projections.
    pub(crate) fn of(
        q_proj: Linear<B>,
        k_proj: Linear<B>,
        v_proj: Linear<B>,
        o_proj: Linear<B>,
        heads: usize,
        kv_heads: usize,
        dropout: WeightDropout,
    ) -> Result<Self> {
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(Error::argument(format!(
                "attention: {heads} query heads do not divide among {kv_heads} key heads"
            )));
        }
        Ok(Attention { q_proj, k_proj, v_proj, o_proj, dropout, heads, kv_heads })
    }
    /// Attention among the tokens and, with a cache (and this layer's index in it), to the tokens
    /// before them.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward(
        &self,
        x: &Tensor<B>,
        context: &AttentionContext<B>,
        cache: Option<(&mut KvCache<B>, usize)>,
    ) -> Tensor<B> {
        let (q, k, v) = (self.q_proj.forward(x), self.k_proj.forward(x), self.v_proj.forward(x));
        let found = (|| {
            let mut q = split_heads(&q, self.heads)?;
            let (mut k, v) = (split_heads(&k, self.kv_heads)?, split_heads(&v, self.kv_heads)?);
            if let Some(table) = &context.rotary {
                (q, k) = (table.turn(&q), table.turn(&k));
            }
            let mask = context.mask.clone();
            let ([k, v], mask) = match cache {
                Some((cache, layer)) => {
                    let all = cache.append(layer, &k, &v)?;
                    let seen = cache.seen().map(|seen| both(mask.as_ref(), seen)).transpose()?;
                    (all, seen.or(mask))
                }
                None => ([k, v], mask),
            };
            join_heads(&attend(&q, &k, &v, mask.as_ref(), context.causal, self.dropout.active())?)
        })();
        self.o_proj.forward(&found.or_fail())
    }
}

impl<B: Backend> fmt::Display for Attention<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attention({} heads, {} of keys)", self.heads, self.kv_heads)
    }
}
