//! scaled_dot_product_attention: softmax(scale * q k^T + mask) v, without materialising the scores.
//!
//! The kind of work has its own order of additions and its own gradient, which is not recorded.
//! Where a gradient must be recorded, or one by the mask is needed, it is composed of products and
//! a softmax instead: the same function, with other roundings.
//!
//! A query without any key to attend to gives zeros, and gets a gradient of zero.

use super::matmul::precision;
use super::{add, attention_weights, dropout, eq, expand, matmul, mul, reshape, softmax, sub, sum, transpose, where_};
use crate::array;
use crate::fold;
use crate::prelude::*;
use crate::value::cast;
use elinvar_core::philox::Stream;

/// Attention of q[b, h, l, d], k[b, j, s, d], v[b, j, s, v] and an optional mask[b, h, l, s].
/// Results: o[b, h, l, v], and the statistics of each row, which the gradient reads.
#[derive(Clone, Copy, Debug)]
pub struct Sdpa(pub Attention);

impl Op for Sdpa {
    fn name(&self) -> &'static str {
        "scaled_dot_product_attention"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device(self.name(), x)?;
        let (q, k, v) = (x[0], x[1], x[2]);
        let mask = x.get(3).map(|m| m.view());
        let rows = Shape::new(&q.shape()[..3])?;
        let mut out = Dims::from_slice(&rows);
        out.push(v.shape()[3]);
        let out = Shape::new(&out)?;
        let (o, lse) = B::attention(q.device(), &self.0, q.view(), k.view(), v.view(), mask)?;
        Ok(Outputs::from_iter([
            Array::new(q.device(), o, out, q.dtype()),
            Array::new(q.device(), lse, rows, q.dtype().compute()),
        ]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("the statistics are not returned, so the gradient comes by o");
        let masked = c.len() == 4;
        if V::TRACKS || (masked && c.wants(3)) {
            return self.recorded(c, g);
        }
        let view = |v: &V| v.array().clone();
        let (q, k, v, o, lse, g) =
            (view(c.x(0)), view(c.x(1)), view(c.x(2)), view(c.y(0)), view(c.y(1)), view(g));
        let mask = masked.then(|| view(c.x(3)));
        let (dq, dk, dv) = <V::B as Compute>::attention_grad(
            q.device(),
            &self.0,
            q.view(),
            k.view(),
            v.view(),
            mask.as_ref().map(|m| m.view()),
            o.view(),
            lse.view(),
            g.view(),
        )?;
        let like =
            |x: &Array<V::B>, b| Some(V::from_array(Array::new(x.device(), b, x.shape().clone(), x.dtype())));
        let mut all = vec![like(&q, dq), like(&k, dk), like(&v, dv)];
        all.extend(masked.then_some(None));
        Ok(all)
    }
}

impl Sdpa {
    /// The gradient as products and a softmax, all recorded. With p = softmax(scores) and dp = g
    /// v^T: dscores = p (dp - sum(dp p)), dq = scale dscores k, dk = scale dscores^T q, dv = p^T g.
    fn recorded<V: Value>(&self, c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        let (qs, ks) = (c.shape(0).clone(), c.shape(1).clone());
        let (b, h, l, j, s) = (qs[0], qs[1], qs[2], ks[1], ks[2]);
        // Query heads that share a key head are joined to more rows of it.
        let rows = (h / j.max(1)) * l;
        let wide = |v: &V| cast(v, v.dtype().compute());
        let tall = |v: &V| reshape::to_shape(v, &Shape::new(&[b, j, rows, v.shape()[3]])?);
        let (q, k, v, g) = (tall(&wide(c.x(0))?)?, wide(c.x(1))?, wide(c.x(2))?, tall(&wide(g)?)?);
        let turned = |v: &V| transpose(v, -1, -2);
        let scale = q.scalar_like(self.0.scale)?;
        let (zero, never) = (q.scalar_like(0.0)?, q.scalar_like(f64::NEG_INFINITY)?);
        let mut scores = mul(&matmul(&q, &turned(&k)?)?, &scale)?;
        if c.len() == 4 {
            let mask = tall(c.x(3))?;
            scores = if mask.dtype() == DType::Bool {
                where_(&mask, &scores, &never)?
            } else {
                add(&scores, &wide(&mask)?)?
            };
        }
        if self.0.causal {
            let seen = expand(&attention_weights::seen(&q, l, s)?, &Shape::new(&[h / j.max(1), l, s])?)?;
            scores = where_(&reshape::to_shape(&seen, &Shape::new(&[rows, s])?)?, &scores, &never)?;
        }
        // A row without any key has no softmax; it is computed as if of zeros, and discarded.
        let most = V::from_array(sum::fold(fold::Max, scores.array(), &[3])?);
        let dead = eq(&most, &never)?;
        let p = where_(&dead, &zero, &softmax(&where_(&dead, &zero, &scores)?, -1)?)?;
        let dp = matmul(&g, &turned(&v)?)?;
        let dot = sum(&mul(&dp, &p)?, Some(&[-1]), true)?;
        let ds = mul(&p, &sub(&dp, &dot)?)?;
        let back = |v: V, i: usize| cast(&reshape::to_shape(&v, c.shape(i))?, c.dtype(i));
        let mut all = vec![
            c.want(0, || back(mul(&matmul(&ds, &k)?, &scale)?, 0))?,
            c.want(1, || back(mul(&matmul(&turned(&ds)?, &q)?, &scale)?, 1))?,
            c.want(2, || back(matmul(&turned(&p)?, &g)?, 2))?,
        ];
        if c.len() == 4 {
            all.push(c.want(3, || back(ds, 3))?);
        }
        Ok(all)
    }
}

/// softmax(scale * q k^T + mask) v for each batch and head, with `scale` 1 / sqrt(d) unless given.
///
/// * q: [b.., h, l, d]
/// * k: [b.., j, s, d]
/// * v: [b.., j, s, v]
/// * mask: broadcasts to [b.., h, l, s]
/// * y: [b.., h, l, v]
///
/// Batches and heads broadcast; they may be absent. With `enable_gqa` each of the j key heads
/// serves a run of h / j query heads. A bool mask is true where a key takes part; a float mask is
/// added to the scaled scores. With `is_causal` query i sees keys 0..=i. A query that sees no key
/// gives zeros. Storage floats run in f32.
///
/// # Errors
/// `ShapeMismatch` if sizes do not fit or broadcast; `DTypeMismatch` if q, k and v are not of one
/// float type or the mask is neither bool nor of that type; `DeviceMismatch`; `OutOfMemory`.
pub fn scaled_dot_product_attention<V: Value>(
    q: &V,
    k: &V,
    v: &V,
    mask: Option<&V>,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<V> {
    with_dropout(q, k, v, mask, is_causal, scale, enable_gqa, None)
}

/// What drops attention weights.
pub type Drops<'a, V> = &'a dyn Fn(&V) -> Result<V>;

/// The same with dropout of the attention weights (PyTorch's `dropout_p`): `drops` is
/// [`dropout`](fn@super::dropout) with a stream, say. The weights are in memory then.
///
/// # Errors
/// Those of [`scaled_dot_product_attention`] and of `drops`.
pub fn with_dropout<V: Value>(
    q: &V,
    k: &V,
    v: &V,
    mask: Option<&V>,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
    drops: Option<Drops<'_, V>>,
) -> Result<V> {
    let op = "scaled_dot_product_attention";
    autocast!(op, q, k, v; mask =>
        with_dropout(q, k, v, mask, is_causal, scale, enable_gqa, drops));
    let (qs, ks, vs) = (q.shape(), k.shape(), v.shape());
    let seen = || format!("q {qs}, k {ks}, v {vs}");
    if [qs, ks, vs].iter().any(|s| s.rank() < 2) {
        return Err(Error::shape(format!("{op}: {}; each should be [.., heads, length, size]", seen())));
    }
    let dtype = q.dtype();
    if !dtype.is_float() || k.dtype() != dtype || v.dtype() != dtype {
        return Err(Error::dtype(format!(
            "{op}: q, k and v are {dtype}, {} and {}; they must be of one float type",
            k.dtype(),
            v.dtype()
        )));
    }
    if let Some(m) = mask
        && m.dtype() != DType::Bool
        && m.dtype() != dtype
    {
        return Err(Error::dtype(format!("{op}: the mask is {}; it must be bool or {dtype}", m.dtype())));
    }
    let [l, d] = [qs[qs.rank() - 2], qs[qs.rank() - 1]];
    let [s, width] = [vs[vs.rank() - 2], vs[vs.rank() - 1]];
    if ks[ks.rank() - 1] != d || ks[ks.rank() - 2] != s {
        return Err(Error::shape(format!(
            "{op}: {}; q and k must agree in the last size, k and v in the one before it",
            seen()
        )));
    }
    let heads = |s: &Shape| if s.rank() > 2 { s[s.rank() - 3] } else { 1 };
    let fit = |a: usize, b: usize| match (a, b) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    let j = fit(heads(ks), heads(vs));
    let h = j.and_then(|j| if enable_gqa || j == 1 { Some(heads(qs)) } else { fit(heads(qs), j) });
    let (Some(j), Some(h)) = (j, h) else {
        return Err(Error::shape(format!(
            "{op}: {}; the heads differ, and enable_gqa was not asked for",
            seen()
        )));
    };
    // Zero heads are allowed, a division by them is not.
    if (j == 0 && h != 0) || (j != 0 && !h.is_multiple_of(j)) {
        return Err(Error::shape(format!(
            "{op}: {}; {h} query heads do not divide among {j} key heads",
            seen()
        )));
    }
    let lead = |s: &Shape| Shape::new(&s[..s.rank().saturating_sub(3)]);
    let batch = lead(qs)?.broadcast(&lead(ks)?, op)?.broadcast(&lead(vs)?, op)?;
    let b = batch.numel();
    let full = |rest: [usize; 3]| Shape::new(&batch.iter().copied().chain(rest).collect::<Dims>());
    let flat = |x: &V, rest: [usize; 3]| {
        let x = expand(x, &full(rest)?)?;
        reshape::to_shape(&x, &Shape::new(&[b, rest[0], rest[1], rest[2]])?)
    };
    let mut operands = vec![flat(q, [h, l, d])?, flat(k, [j, s, d])?, flat(v, [j, s, width])?];
    if let Some(m) = mask {
        let misfit = |_| {
            let want = full([h, l, s]).map_or_else(|_| String::new(), |all| format!(" {all}"));
            Error::shape(format!("{op}: mask {} does not broadcast to the scores{want}", m.shape()))
        };
        operands.push(flat(m, [h, l, s]).map_err(misfit)?);
    }
    let o = match drops {
        Some(drops) => {
            let p = attention_weights::weights(&operands[0], &operands[1], operands.get(3), is_causal, scale)?;
            cast(&attention_weights::weighted(&drops(&p)?, &operands[2])?, dtype)?
        }
        None => {
            let scale = scale.unwrap_or(1.0 / (d as f64).sqrt());
            let op = Sdpa(Attention { scale, causal: is_causal, precision: precision(q) });
            V::apply_many(op, &operands.iter().collect::<Vec<_>>())?.swap_remove(0)
        }
    };
    // The result has the operands' axes: without batch and heads, if they have none.
    let mut out = Dims::from_slice(&batch);
    if [qs, ks, vs].iter().any(|s| s.rank() > 2) {
        out.push(h);
    }
    out.extend([l, width]);
    reshape::to_shape(&o, &Shape::new(&out)?)
}

/// By name: operands q, k, v, mask if there is one; attributes is_causal, scale (null: 1 / sqrt(d))
/// and enable_gqa; dropout_p (0 if missing), with seed and stream, which choose the random bits.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (q, k, v, mask) = (a.input("q")?, a.input("k")?, a.input("v")?, a.optional("mask"));
    let scale = a.maybe("scale", Args::f64)?;
    let (gqa, causal) = (a.bool("enable_gqa")?, a.bool("is_causal")?);
    let Some((p, stream)) = named_dropout(a)? else {
        return Ok(vec![scaled_dot_product_attention(q, k, v, mask, causal, scale, gqa)?]);
    };
    let drops = |weights: &V| dropout(weights, p, stream, true);
    Ok(vec![with_dropout(q, k, v, mask, causal, scale, gqa, Some(&drops))?])
}

/// The attributes dropout_p, seed and stream, if weights are dropped.
pub(super) fn named_dropout<V: Value>(a: &Args<V>) -> Result<Option<(f64, Stream)>> {
    match a.maybe("dropout_p", Args::f64)? {
        None | Some(0.0) => Ok(None),
        Some(p) => Ok(Some((p, Stream { seed: a.int("seed")? as u64, stream: a.int("stream")? as u64 }))),
    }
}
