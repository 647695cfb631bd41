//! multi_head_attention: queries, keys and values are projected, split into heads, attended, joined
//! and projected again.

use super::pad::{Mode, pad};
use super::scaled_dot_product_attention::{Drops, named_dropout, with_dropout};
use super::{
    add, chunk, concat, dropout, expand, linear, matmul, mean, mul, reshape, softmax, split, transpose, unsqueeze,
    where_,
};
use crate::autocast::{casts, within};
use crate::prelude::*;
use crate::value::cast;
use elinvar_core::philox::Stream;

/// The weights of [`multi_head_attention`], for `e` features.
#[derive(Debug)]
pub struct MhaWeights<'a, V> {
    /// [3 e, e]: the projections of queries, keys and values, stacked.
    pub in_proj: &'a V,
    /// [3 e]
    pub in_bias: Option<&'a V>,
    /// [e, e]: the projection of the joined heads.
    pub out_proj: &'a V,
    /// \[e\]
    pub out_bias: Option<&'a V>,
}

// References are `Copy` for any type; a derive would require it of V.
impl<V> Clone for MhaWeights<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for MhaWeights<'_, V> {}

/// Which attention weights [`multi_head_attention`] returns besides its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadWeights {
    /// None; the scores are then not materialised.
    None,
    /// The mean over the heads: [n, l, s].
    Averaged,
    /// Those of each head: [n, heads, l, s].
    Each,
}

/// A mask as an addend of the scores: bool masks become 0 and -inf (where true).
fn additive<V: Value>(mask: &V, dtype: DType) -> Result<V> {
    let number =
        |v: f64| Ok::<_, Error>(V::from_array(Array::scalar(mask.device(), Scalar::Float(v), dtype)?));
    if mask.dtype() == DType::Bool {
        where_(mask, &number(f64::NEG_INFINITY)?, &number(0.0)?)
    } else {
        Ok(mask.clone())
    }
}

/// Checks that an operand has this shape.
fn shaped<V: Value>(what: &str, v: &V, shape: &[usize]) -> Result<()> {
    if v.shape()[..] == *shape {
        return Ok(());
    }
    Err(Error::shape(format!("multi_head_attention: {what} {} should have shape {shape:?}", v.shape())))
}

/// The parts of [`parts`], for `e` features, keys of `ek` and values of `ev` features.
#[derive(Debug)]
pub struct MhaParts<'a, V> {
    /// [e, e], [e, ek], [e, ev]: the projections of queries, keys and values.
    pub proj: [&'a V; 3],
    /// [3 e]
    pub in_bias: Option<&'a V>,
    /// [e, e]: the projection of the joined heads.
    pub out_proj: &'a V,
    /// \[e\]
    pub out_bias: Option<&'a V>,
    /// [1, 1, e] each: one more key and value, which every query may attend to.
    pub bias_kv: Option<[&'a V; 2]>,
    /// One more key and value of zeros?
    pub add_zero_attn: bool,
    /// Dropout of the attention weights in training: the probability and the random bits.
    pub dropout: Option<(f64, Stream)>,
}

impl<V> Clone for MhaParts<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for MhaParts<'_, V> {}

/// Attention with `heads` heads over projections of query, key and value.
///
/// * query: [l, n, e], or [n, l, e] if `batch_first`
/// * key, value: [s, n, e], or [n, s, e]
/// * y: [l, n, e], or [n, l, e]
/// * `key_padding_mask`: [n, s], `attn_mask`: [l, s] or [n * heads, l, s]; true where a key is
///   masked, floats are added
///
/// Without a batch, query and y are [l, e], key and value [s, e], `key_padding_mask` \[s\], and the
/// attention weights have no first axis.
///
/// Returns y, and the attention weights if they are asked for. With weights, a query all of whose
/// keys are masked has NaN in them and in y; without, it has zeros. Storage floats run in f32 and
/// are rounded once.
///
/// # Errors
/// `ShapeMismatch` if shapes do not fit; `InvalidArgument` if the features do not divide among the
/// heads; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn multi_head_attention<V: Value>(
    query: &V,
    key: &V,
    value: &V,
    weights: MhaWeights<V>,
    key_padding_mask: Option<&V>,
    attn_mask: Option<&V>,
    heads: usize,
    batch_first: bool,
    give: HeadWeights,
) -> Result<(V, Option<V>)> {
    let e = query.shape().last().copied().unwrap_or(0);
    shaped("in_proj_weight", weights.in_proj, &[e.saturating_mul(3), e])?;
    // In an autocast scope it is converted whole, as the one operand that it is.
    let in_proj = match casts("multi_head_attention", &[Some(weights.in_proj)]) {
        Some(casts) => &casts.on(weights.in_proj)?,
        None => weights.in_proj,
    };
    let [q, k, v] = &split::sizes(in_proj, &[e; 3], 0)?[..] else { unreachable!("three parts") };
    let MhaWeights { in_bias, out_proj, out_bias, .. } = weights;
    let all = MhaParts {
        proj: [q, k, v],
        in_bias,
        out_proj,
        out_bias,
        bias_kv: None,
        add_zero_attn: false,
        dropout: None,
    };
    parts(query, key, value, all, key_padding_mask, attn_mask, heads, batch_first, give)
}

/// [`multi_head_attention`] with a projection for each of query, key and value, whose features may
/// differ in number, and with PyTorch's `bias_k`, `bias_v`, `add_zero_attn` and `dropout_p`.
///
/// The attention weights then have a key more for each that is added; those that are returned are
/// dropped ones.
///
/// # Errors
/// Those of [`multi_head_attention`].
pub fn parts<V: Value>(
    query: &V,
    key: &V,
    value: &V,
    weights: MhaParts<V>,
    key_padding_mask: Option<&V>,
    attn_mask: Option<&V>,
    heads: usize,
    batch_first: bool,
    give: HeadWeights,
) -> Result<(V, Option<V>)> {
    if let Some(casts) = casts("multi_head_attention", &[Some(query)]) {
        return within(None, || {
            let some = |v: Option<&V>| v.map(|v| casts.on(v)).transpose();
            let [query, key, value] = [casts.on(query)?, casts.on(key)?, casts.on(value)?];
            let proj = weights.proj.map(|w| casts.on(w));
            let proj = proj.into_iter().collect::<Result<Vec<_>>>()?;
            let [q, k, v] = &proj[..] else { unreachable!("three parts") };
            let (in_bias, out_bias) = (some(weights.in_bias)?, some(weights.out_bias)?);
            let kv = weights.bias_kv.map(|[k, v]| Ok::<_, Error>([casts.on(k)?, casts.on(v)?])).transpose()?;
            let all = MhaParts {
                proj: [q, k, v],
                in_bias: in_bias.as_ref(),
                out_proj: &casts.on(weights.out_proj)?,
                out_bias: out_bias.as_ref(),
                bias_kv: kv.as_ref().map(|kv| kv.each_ref()),
                ..weights
            };
            let (padding, mask) = (some(key_padding_mask)?, some(attn_mask)?);
            parts(&query, &key, &value, all, padding.as_ref(), mask.as_ref(), heads, batch_first, give)
        });
    }
    let dtype = query.dtype();
    // Float operands in the dtype of computation; bool masks stay.
    let wide = |v: &V| match v.dtype() {
        DType::Bool => Ok(v.clone()),
        d if d == dtype && d.is_float() => cast(v, dtype.compute()),
        d => Err(Error::dtype(format!(
            "multi_head_attention: operands are {dtype} and {d}; all must be of one float type, masks bool or of that"
        ))),
    };
    let opt = |v: Option<&V>| v.map(wide).transpose();
    if query.shape().rank() == 2 {
        return unbatched([query, key, value], weights, key_padding_mask, attn_mask, heads, give);
    }
    if query.shape().rank() != 3 {
        return Err(Error::shape(format!(
            "multi_head_attention: query {} should be {}",
            query.shape(),
            if batch_first { "[batch, length, features]" } else { "[length, batch, features]" }
        )));
    }
    let first =
        |v: &V| if batch_first || v.shape().rank() != 3 { wide(v) } else { transpose(&wide(v)?, 0, 1) };
    let (q, k, v) = (first(query)?, first(key)?, first(value)?);
    let [n, l, e] = [q.shape()[0], q.shape()[1], q.shape()[2]];
    let s = if k.shape().rank() == 3 { k.shape()[1] } else { 0 };
    let features = |v: &V| v.shape().last().copied().unwrap_or(0);
    let [_, ek, ev] = weights.proj.map(features);
    shaped("key (its batch first)", &k, &[n, s, ek])?;
    shaped("value (its batch first)", &v, &[n, s, ev])?;
    let names = ["q_proj_weight", "k_proj_weight", "v_proj_weight"];
    for ((name, w), size) in names.iter().zip(weights.proj).zip([e, ek, ev]) {
        shaped(name, w, &[e, size])?;
    }
    for (name, b) in ["bias_k", "bias_v"].iter().zip(weights.bias_kv.into_iter().flatten()) {
        shaped(name, b, &[1, 1, e])?;
    }
    shaped("out_proj_weight", weights.out_proj, &[e, e])?;
    weights.in_bias.map_or(Ok(()), |b| shaped("in_proj_bias", b, &[3 * e]))?;
    weights.out_bias.map_or(Ok(()), |b| shaped("out_proj_bias", b, &[e]))?;
    if heads == 0 || !e.is_multiple_of(heads) {
        return Err(Error::argument(format!(
            "multi_head_attention: {e} features do not divide among {heads} heads"
        )));
    }
    let d = e / heads;
    let in_bias = opt(weights.in_bias)?.map(|b| split::sizes(&b, &[e; 3], 0)).transpose()?;
    let apart = |x: &V, i: usize| {
        let mut y = linear(x, &wide(weights.proj[i])?, in_bias.as_ref().map(|b| &b[i]))?;
        // Keys, then values, that are added behind the others.
        if let Some(kv) = weights.bias_kv.filter(|_| i > 0) {
            y = concat(&[&y, &expand(&wide(kv[i - 1])?, &Shape::new(&[n, 1, e])?)?], 1)?;
        }
        let y = transpose(&reshape::to_shape(&y, &Shape::new(&[n, y.shape()[1], heads, d])?)?, 1, 2)?;
        if weights.add_zero_attn && i > 0 { pad(&y, &[0, 0, 0, 1], Mode::Constant(Scalar::Int(0))) } else { Ok(y) }
    };
    let (q, k, v) = (apart(&q, 0)?, apart(&k, 1)?, apart(&v, 2)?);
    let added = k.shape()[2] - s;
    let mask = mask(attn_mask, key_padding_mask, [n, heads, l, s, added], q.dtype(), &wide)?;
    let dropped = |p: &V| match weights.dropout {
        Some((probability, stream)) => dropout(p, probability, stream, true),
        None => Ok(p.clone()),
    };
    let (o, seen) = if give == HeadWeights::None {
        let drops: Option<Drops<'_, V>> = if weights.dropout.is_some() { Some(&dropped) } else { None };
        (with_dropout(&q, &k, &v, mask.as_ref(), false, None, false, drops)?, None)
    } else {
        let q = mul(&q, &q.scalar_like(1.0 / (d as f64).sqrt())?)?;
        let mut scores = matmul(&q, &transpose(&k, -1, -2)?)?;
        if let Some(m) = &mask {
            scores = add(&scores, m)?;
        }
        let p = dropped(&softmax(&scores, -1)?)?;
        (matmul(&p, &v)?, Some(p))
    };
    let joined = reshape::to_shape(&transpose(&o, 1, 2)?, &Shape::new(&[n, l, e])?)?;
    let y = linear(&joined, &wide(weights.out_proj)?, opt(weights.out_bias)?.as_ref())?;
    let y = cast(&if batch_first { y } else { transpose(&y, 0, 1)? }, dtype)?;
    let seen = match (give, seen) {
        (HeadWeights::Averaged, Some(p)) => Some(cast(&mean(&p, Some(&[1]), false)?, dtype)?),
        (HeadWeights::Each, Some(p)) => Some(cast(&p, dtype)?),
        (HeadWeights::None | HeadWeights::Averaged | HeadWeights::Each, _) => None,
    };
    Ok((y, seen))
}

/// Both masks as one that is added to scores, of n batches of `heads`, l queries, and s keys with
/// `added` ones behind them, which nothing masks.
fn mask<V: Value>(
    attn_mask: Option<&V>,
    key_padding_mask: Option<&V>,
    [n, heads, l, s, added]: [usize; 5],
    dtype: DType,
    wide: &dyn Fn(&V) -> Result<V>,
) -> Result<Option<V>> {
    let mut mask = None;
    if let Some(m) = attn_mask {
        let to = if m.shape().rank() == 2 {
            shaped("attn_mask", m, &[l, s])?;
            Shape::new(&[1, 1, l, s])?
        } else {
            shaped("attn_mask", m, &[n * heads, l, s])?;
            Shape::new(&[n, heads, l, s])?
        };
        mask = Some(reshape::to_shape(&additive(&wide(m)?, dtype)?, &to)?);
    }
    if let Some(m) = key_padding_mask {
        shaped("key_padding_mask", m, &[n, s])?;
        let m = reshape::to_shape(&additive(&wide(m)?, dtype)?, &Shape::new(&[n, 1, 1, s])?)?;
        mask = Some(match mask {
            None => m,
            Some(other) => add(&other, &m)?,
        });
    }
    if added == 0 {
        return Ok(mask);
    }
    mask.map(|m| pad(&m, &[0, added as isize], Mode::Constant(Scalar::Int(0)))).transpose()
}

/// One sequence as a batch of one.
fn unbatched<V: Value>(
    sequences: [&V; 3],
    weights: MhaParts<V>,
    key_padding_mask: Option<&V>,
    attn_mask: Option<&V>,
    heads: usize,
    give: HeadWeights,
) -> Result<(V, Option<V>)> {
    if sequences.iter().any(|v| v.shape().rank() != 2) {
        let [q, k, v] = sequences.map(|v| v.shape());
        return Err(Error::shape(format!(
            "multi_head_attention: query {q}, key {k}, value {v}; without a batch, all must be [length, features]"
        )));
    }
    let batch = |v: &V| unsqueeze(v, 0);
    let [q, k, v] = sequences.map(batch);
    let padding = key_padding_mask.map(batch).transpose()?;
    let (y, seen) =
        parts(&q?, &k?, &v?, weights, padding.as_ref(), attn_mask, heads, true, give)?;
    let alone = |v: &V| reshape::to_shape(v, &v.shape().without(&[0], false));
    Ok((alone(&y)?, seen.as_ref().map(alone).transpose()?))
}

/// By name: operands query, key, value, in_proj_weight (or q_proj_weight, k_proj_weight and
/// v_proj_weight), in_proj_bias, bias_k, bias_v, out_proj_weight, out_proj_bias, key_padding_mask
/// and attn_mask, those that there are; attributes num_heads, batch_first, average_attn_weights;
/// add_zero_attn (false if missing), dropout_p (0 if missing), with seed and stream.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let give = if a.bool("average_attn_weights")? { HeadWeights::Averaged } else { HeadWeights::Each };
    let (q, k, v) = (a.input("query")?, a.input("key")?, a.input("value")?);
    let (padding, mask) = (a.optional("key_padding_mask"), a.optional("attn_mask"));
    let (heads, first) = (a.size("num_heads")?, a.bool("batch_first")?);
    let in_bias = a.optional("in_proj_bias");
    let (out_proj, out_bias) = (a.input("out_proj_weight")?, a.optional("out_proj_bias"));
    let bias_kv = match (a.optional("bias_k"), a.optional("bias_v")) {
        (Some(k), Some(v)) => Some([k, v]),
        (None, None) => None,
        _ => return Err(Error::argument("multi_head_attention: bias_k and bias_v belong together")),
    };
    let add_zero_attn = a.maybe("add_zero_attn", Args::bool)?.unwrap_or(false);
    let dropout = named_dropout(a)?;
    let stacked = a.optional("in_proj_weight");
    let is_plain = bias_kv.is_none() && !add_zero_attn && dropout.is_none();
    let (y, seen) = match stacked {
        Some(in_proj) if is_plain => {
            let weights = MhaWeights { in_proj, in_bias, out_proj, out_bias };
            multi_head_attention(q, k, v, weights, padding, mask, heads, first, give)?
        }
        _ => {
            let proj = match stacked {
                Some(all) => chunk(all, 3, 0)?,
                None => ["q", "k", "v"]
                    .iter()
                    .map(|role| a.input(&format!("{role}_proj_weight")).cloned())
                    .collect::<Result<_>>()?,
            };
            let [pq, pk, pv] = &proj[..] else {
                return Err(Error::shape("multi_head_attention: in_proj_weight should be [3 e, e]"));
            };
            let proj = [pq, pk, pv];
            let weights = MhaParts { proj, in_bias, out_proj, out_bias, bias_kv, add_zero_attn, dropout };
            parts(q, k, v, weights, padding, mask, heads, first, give)?
        }
    };
    Ok([Some(y), seen].into_iter().flatten().collect())
}
