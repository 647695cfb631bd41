//! [`MultiheadAttention`], with PyTorch's names and conventions for masks.

use super::Linear;
use super::attention::{
    WeightDropout, attend, attention_weights, both, divided, join_heads, reshaped, seen, split_heads,
};
use crate::init::{self, Gain};
use crate::{Layer, Module, Param, Visit};
use elinvar_core::{DType, Error, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::pad::Mode as PadMode;
use elinvar_tensor::{Generator, OrFail, Tensor};
use std::fmt;

/// The masks of a [`MultiheadAttention`], in PyTorch's convention: true in a bool mask
/// means *masked out*, a float mask is added to the scores.
#[derive(Clone, Debug)]
pub struct AttentionMasks<B: Backend> {
    /// [b, s]: keys that are padding.
    pub key_padding_mask: Option<Tensor<B>>,
    /// [l, s] or [b * heads, l, s]
    pub attn_mask: Option<Tensor<B>>,
    /// Query i attends to keys 0..=i. Needs as many queries as keys.
    pub is_causal: bool,
}

impl<B: Backend> Default for AttentionMasks<B> {
    fn default() -> Self {
        AttentionMasks { key_padding_mask: None, attn_mask: None, is_causal: false }
    }
}

impl<B: Backend> AttentionMasks<B> {
    /// Every query attends to every key.
    pub fn none() -> Self {
        Self::default()
    }
    /// Query i attends to keys 0..=i.
    pub fn causal() -> Self {
        AttentionMasks { is_causal: true, ..Self::default() }
    }
    /// Adds a padding mask: [b, s].
    #[must_use]
    pub fn padding(mut self, mask: &Tensor<B>) -> Self {
        self.key_padding_mask = Some(mask.clone());
        self
    }
    /// Adds a mask: [l, s] or [b * heads, l, s].
    #[must_use]
    pub fn attn(mut self, mask: &Tensor<B>) -> Self {
        self.attn_mask = Some(mask.clone());
        self
    }
    /// Combined to one mask in the convention of [`attend`].
    fn joined(&self, b: usize, heads: usize, l: usize, s: usize) -> Result<Option<Tensor<B>>> {
        let wrong = |what: &str, m: &Tensor<B>, fit: String| {
            Error::shape(format!("multihead_attention: {what} {}; it should be {fit}", m.shape()))
        };
        let turned = |m: Tensor<B>| {
            if m.dtype() == DType::Bool { op::logical_not(&m) } else { Ok(m) }
        };
        if self.is_causal && l != s {
            return Err(Error::shape(format!(
                "multihead_attention: {l} queries and {s} keys; is_causal needs as many of both, give an attn_mask"
            )));
        }
        let mut mask = None;
        if let Some(m) = &self.attn_mask {
            let m = if m.dims() == [l, s] {
                m.clone()
            } else if m.dims() == [b * heads, l, s] {
                reshaped(m, &[b, heads, l, s])?
            } else {
                return Err(wrong("attn_mask", m, format!("[{l}, {s}] or [{}, {l}, {s}]", b * heads)));
            };
            mask = Some(turned(m)?);
        }
        if let Some(m) = &self.key_padding_mask {
            if m.dims() != [b, s] {
                return Err(wrong("key_padding_mask", m, format!("[{b}, {s}]")));
            }
            mask = Some(both(mask.as_ref(), turned(reshaped(m, &[b, 1, 1, s])?)?)?);
        }
        Ok(mask)
    }
}

/// Multi-head attention over projections of query, key and value, with PyTorch's names and layouts.
///
/// query: [l, b, e]   key, value: [s, b, e]
/// y: [l, b, e]; or [b, l, e], [b, s, e], [b, l, e] if `batch_first`; or all without b
///
/// With `kdim` and `vdim` keys and values have features of their own. `add_bias_kv` and
/// `add_zero_attn` add a key and a value each to every sequence, which no mask hides; the attention
/// weights then have as many more columns.
///
/// A query without keys gives the bias of `out_proj`, and weights of 0 (PyTorch gives NaN if
/// weights are requested).
#[derive(Debug)]
pub struct MultiheadAttention<B: Backend> {
    /// [3 e, e]: the projections of queries, keys and values, stacked. If those of keys and values
    /// are apart, it is that of queries alone, [e, e], and named `q_proj_weight`.
    pub in_proj_weight: Param<B>,
    /// [e, kdim] and [e, vdim]: `k_proj_weight` and `v_proj_weight`, if a size is not that of
    /// queries.
    pub kv_proj_weight: Option<[Param<B>; 2]>,
    /// [3 e]
    pub in_proj_bias: Option<Param<B>>,
    /// [1, 1, e] each: `bias_k` and `bias_v`, one more key and value.
    pub bias_kv: Option<[Param<B>; 2]>,
    /// [e, e]
    pub out_proj: Linear<B>,
    dropout: WeightDropout,
    heads: usize,
    batch_first: bool,
    add_zero_attn: bool,
}

impl<B: Backend> Module<B> for MultiheadAttention<B> {
    fn visit<'a>(&'a self, name: &str, visit: &mut Visit<'a, '_, B>) {
        visit.module(name, self, |visit| {
            match &self.kv_proj_weight {
                None => visit.param("in_proj_weight", &self.in_proj_weight),
                Some([k, v]) => {
                    visit.param("q_proj_weight", &self.in_proj_weight);
                    visit.param("k_proj_weight", k);
                    visit.param("v_proj_weight", v);
                }
            }
            self.in_proj_bias.visit("in_proj_bias", visit);
            if let Some([k, v]) = &self.bias_kv {
                visit.param("bias_k", k);
                visit.param("bias_v", v);
            }
            self.out_proj.visit("out_proj", visit);
            self.dropout.visit("dropout", visit);
        });
    }
}

/// The settings of a [`MultiheadAttention`], each with PyTorch's default.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiheadAttentionOptions {
    features: usize,
    heads: usize,
    dropout: f64,
    bias: bool,
    add_bias_kv: bool,
    add_zero_attn: bool,
    kdim: Option<usize>,
    vdim: Option<usize>,
    batch_first: bool,
}

impl MultiheadAttentionOptions {
    /// Settings of a layer with these features and heads.
    pub fn new(features: usize, heads: usize) -> Self {
        MultiheadAttentionOptions {
            features,
            heads,
            dropout: 0.0,
            bias: true,
            add_bias_kv: false,
            add_zero_attn: false,
            kdim: None,
            vdim: None,
            batch_first: false,
        }
    }
    /// Adds a learned key and value to those of every sequence. Default: no.
    #[must_use]
    pub fn add_bias_kv(mut self, yes: bool) -> Self {
        self.add_bias_kv = yes;
        self
    }
    /// Adds a key and a value of zeros to those of every sequence. Default: no.
    #[must_use]
    pub fn add_zero_attn(mut self, yes: bool) -> Self {
        self.add_zero_attn = yes;
        self
    }
    /// Features of keys. Default: those of queries.
    #[must_use]
    pub fn kdim(mut self, features: usize) -> Self {
        self.kdim = Some(features);
        self
    }
    /// Features of values. Default: those of queries.
    #[must_use]
    pub fn vdim(mut self, features: usize) -> Self {
        self.vdim = Some(features);
        self
    }
    /// Dropout probability of attention weights in training. Default: 0.
    #[must_use]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
    /// With biases? Default: yes.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
    /// Is the batch the first axis (batch-first)? Default: no.
    #[must_use]
    pub fn batch_first(mut self, batch_first: bool) -> Self {
        self.batch_first = batch_first;
        self
    }
    /// A layer of f32: Glorot's uniform distribution for the projections, his normal one for
    /// `bias_k` and `bias_v`, zeros for the other biases, as in PyTorch.
    ///
    /// # Panics
    /// If the features do not divide among the heads, the dropout is not in 0..=1, or memory is
    /// exhausted.
    #[track_caller]
    pub fn init<B: Backend>(self, g: &mut Generator, device: &B::Device) -> MultiheadAttention<B> {
        let e = self.features;
        divided(e, self.heads).or_fail();
        let mut proj = |rows: usize, columns: usize| {
            Param::new(init::xavier_uniform([rows, columns], Gain::Linear, g, device))
        };
        let [kdim, vdim] = [self.kdim, self.vdim].map(|size| size.unwrap_or(e));
        let (in_proj_weight, kv_proj_weight) = if (kdim, vdim) == (e, e) {
            (proj(e.saturating_mul(3), e), None)
        } else {
            (proj(e, e), Some([proj(e, kdim), proj(e, vdim)]))
        };
        let in_proj_bias = self.bias.then(|| Param::new(init::zeros(e.saturating_mul(3), device)));
        let mut out_proj = Linear::without_bias(e, e, g, device);
        out_proj.bias = self.bias.then(|| Param::new(init::zeros(e, device)));
        let mut one = || Param::new(init::xavier_normal([1, 1, e], Gain::Linear, g, device));
        let bias_kv = self.add_bias_kv.then(|| [one(), one()]);
        let dropout = WeightDropout::new(self.dropout, g);
        let MultiheadAttentionOptions { heads, batch_first, add_zero_attn, .. } = self;
        MultiheadAttention {
            in_proj_weight,
            kv_proj_weight,
            in_proj_bias,
            bias_kv,
            out_proj,
            dropout,
            heads,
            batch_first,
            add_zero_attn,
        }
    }
}

impl<B: Backend> MultiheadAttention<B> {
    /// A layer of f32 with biases, without dropout, not batch-first.
    ///
    /// # Panics
    /// If the features do not divide among the heads, or memory is exhausted.
    #[track_caller]
    pub fn new(features: usize, heads: usize, g: &mut Generator, device: &B::Device) -> Self {
        MultiheadAttentionOptions::new(features, heads).init(g, device)
    }
    /// The result of the attention.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward(
        &self,
        query: &Tensor<B>,
        key: &Tensor<B>,
        value: &Tensor<B>,
        masks: &AttentionMasks<B>,
    ) -> Tensor<B> {
        if query.rank() == 2 {
            let (axis, [q, k, v], masks) = self.one_sample([query, key, value], masks).or_fail();
            return self.forward(&q, &k, &v, &masks).squeeze_dim(axis);
        }
        let found = self.projected(query, key, value, masks).and_then(|(q, k, v, mask)| {
            let causal = masks.is_causal && !self.adds();
            let o = attend(&q, &k, &v, mask.as_ref(), causal, self.dropout.active())?;
            self.joined(&o)
        });
        found.or_fail()
    }
    /// The result of the attention, and the attention weights, [b, heads, l, s], or [heads, l, s]
    /// without a batch. PyTorch's default is their mean over the heads: `weights.mean_dim(-3,
    /// false)`.
    ///
    /// # Panics
    /// If shapes or dtypes do not fit, or memory is exhausted.
    #[track_caller]
    pub fn forward_weights(
        &self,
        query: &Tensor<B>,
        key: &Tensor<B>,
        value: &Tensor<B>,
        masks: &AttentionMasks<B>,
    ) -> (Tensor<B>, Tensor<B>) {
        if query.rank() == 2 {
            let (axis, [q, k, v], masks) = self.one_sample([query, key, value], masks).or_fail();
            let (y, weights) = self.forward_weights(&q, &k, &v, &masks);
            return (y.squeeze_dim(axis), weights.squeeze_dim(0));
        }
        let found = self.projected(query, key, value, masks).and_then(|(q, k, v, mask)| {
            let p = attention_weights(&q, &k, mask.as_ref(), masks.is_causal && !self.adds())?;
            let p = self.dropout.active().map_or(p.clone(), |d| d.forward(&p));
            let o = elinvar_ops::value::cast(&op::attention_weights::weighted(&p, &v)?, q.dtype())?;
            Ok((self.joined(&o)?, elinvar_ops::value::cast(&p, q.dtype())?))
        });
        found.or_fail()
    }
    /// Operands without a batch as a batch of one, and the axis of it.
    fn one_sample(
        &self,
        x: [&Tensor<B>; 3],
        masks: &AttentionMasks<B>,
    ) -> Result<(isize, [Tensor<B>; 3], AttentionMasks<B>)> {
        if x.iter().any(|x| x.rank() != 2) {
            let [q, k, v] = x.map(Tensor::shape);
            return Err(Error::shape(format!(
                "multihead_attention: query {q}, key {k}, value {v}; without a batch, all should be [length, features]"
            )));
        }
        let axis = if self.batch_first { 0 } else { 1 };
        let mut masks = masks.clone();
        masks.key_padding_mask = masks
            .key_padding_mask
            .map(|m| if m.rank() == 1 { op::unsqueeze(&m, 0) } else { Ok(m) })
            .transpose()?;
        let [q, k, v] = x.map(|x| op::unsqueeze(x, axis));
        Ok((axis, [q?, k?, v?], masks))
    }
    /// q, k, v as [b, heads, length, size], and the mask.
    fn projected(
        &self,
        query: &Tensor<B>,
        key: &Tensor<B>,
        value: &Tensor<B>,
        masks: &AttentionMasks<B>,
    ) -> Result<(Tensor<B>, Tensor<B>, Tensor<B>, Option<Tensor<B>>)> {
        let (weight, bias) = (self.in_proj_weight.get(), self.in_proj_bias.as_ref().map(Param::get));
        let e = weight.dims()[1];
        let part = |what: &str, x: &Tensor<B>, i: usize| {
            let at = (i * e) as isize;
            let weight = match &self.kv_proj_weight {
                None => op::narrow(&weight, 0, at, e)?,
                Some(_) if i == 0 => weight.clone(),
                Some(kv) => kv[i - 1].get(),
            };
            let features = weight.dims()[1];
            if x.rank() != 3 || x.dims()[2] != features {
                let fit = if self.batch_first { "[batch, length" } else { "[length, batch" };
                return Err(Error::shape(format!(
                    "multihead_attention: {what} {}; it should be {fit}, {features}]",
                    x.shape()
                )));
            }
            let bias = bias.as_ref().map(|b| op::narrow(b, 0, at, e)).transpose()?;
            let x = if self.batch_first { x.clone() } else { op::transpose(x, 0, 1)? };
            op::linear(&x, &weight, bias.as_ref())
        };
        let [q, k, v] = [part("query", query, 0)?, part("key", key, 1)?, part("value", value, 2)?];
        if k.dims()[0] != q.dims()[0] || v.dims()[..2] != k.dims()[..2] {
            return Err(Error::shape(format!(
                "multihead_attention: query {}, key {}, value {}; the batches should be equal, and key as long as value",
                query.shape(),
                key.shape(),
                value.shape()
            )));
        }
        let [b, l, s] = [q.dims()[0], q.dims()[1], k.dims()[1]];
        let mut mask = masks.joined(b, self.heads, l, s)?;
        let q = split_heads(&q, self.heads)?;
        let k = split_heads(&self.more(&k, 0)?, self.heads)?;
        let v = split_heads(&self.more(&v, 1)?, self.heads)?;
        let added = k.dims()[2] - s;
        if added > 0 {
            if masks.is_causal {
                mask = Some(both(mask.as_ref(), seen(l, s, q.device())?)?);
            }
            // Nothing hides the keys that were added.
            let visible = |m: Tensor<B>| {
                let value = if m.dtype() == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(0) };
                op::pad(&m, &[0, added as isize], PadMode::Constant(value))
            };
            mask = mask.map(visible).transpose()?;
        }
        Ok((q, k, v, mask))
    }
    /// Are keys and values added to those of a sequence?
    fn adds(&self) -> bool {
        self.bias_kv.is_some() || self.add_zero_attn
    }
    /// Projected keys (0) or values (1), with those that are added behind them: [b, s, e].
    fn more(&self, x: &Tensor<B>, which: usize) -> Result<Tensor<B>> {
        let mut x = x.clone();
        if let Some(kv) = &self.bias_kv {
            let sizes = Shape::new(&[x.dims()[0], 1, x.dims()[2]])?;
            x = op::concat(&[&x, &op::expand(&kv[which].get(), &sizes)?], 1)?;
        }
        if self.add_zero_attn {
            x = op::pad(&x, &[0, 0, 0, 1], PadMode::Constant(Scalar::Int(0)))?;
        }
        Ok(x)
    }
    fn joined(&self, o: &Tensor<B>) -> Result<Tensor<B>> {
        let y = self.out_proj.forward(&join_heads(o)?);
        if self.batch_first { Ok(y) } else { op::transpose(&y, 0, 1) }
    }
}

impl<B: Backend> fmt::Display for MultiheadAttention<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MultiheadAttention({}, {} heads", self.in_proj_weight.get().size(1), self.heads)?;
        if self.dropout.p > 0.0 {
            write!(f, ", dropout {}", self.dropout.p)?;
        }
        f.write_str(if self.in_proj_bias.is_some() { ")" } else { ", no bias)" })
    }
}
