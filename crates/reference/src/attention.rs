//! Attention and its gradient: the definition.
//!
//! All numbers are in the type of computation T (f32; f64 for f64); inputs are loaded exactly, results rounded
//! once. Head `h` of `H` query heads uses key head `h / (H / J)` of `J`. `BLOCK` is `order::ATTENTION_BLOCK`,
//! 64 keys; "contract" and "fold" are the orders of `elinvar_core::order`; `exp` and `log` are those of the
//! catalogue. What is written `a * b + c` rounds twice, what is written `fma` once.
//!
//! **The keys of a query.** Query `i` visits the keys `0..n(i)`. Without `causal`, `n(i) = S`. With it, `n(i) =
//! min(S, (i / BLOCK + 1) * BLOCK)`, whole blocks up to and with the diagonal; in the last of them, the keys
//! after `i` are visited with a score of -inf. Keys that are not visited take no part, not even as a zero.
//!
//! **Scores**, for `j` in `0..n(i)`:
//! ```text
//! s[j] = contract over d of q[i, d] * k[j, d], times scale
//! s[j] = s[j] + mask[i, j]    if there is a float mask
//! s[j] = -inf                 where a bool mask is false, and where causal and j > i
//! ```
//!
//! **Forward**, from `m = -inf, l = 0, o = 0`, for each block of 64 visited keys (the last may be shorter), in
//! order:
//! ```text
//! m'    = max(m, s[j] of the block)
//! shift = m', or 0 if m' = -inf
//! alpha = exp(m - shift)
//! p[j]  = exp(s[j] - shift)
//! l     = l * alpha + fold of p[j] over the block
//! o[v]  = o[v] * alpha; then o[v] = fma(p[j], value[j, v], o[v]) for the keys of the block in ascending order
//! m     = m'
//! ```
//! and in the end `y[v] = o[v] / l` (`/ 1` if `l = 0`) and `lse = m + log(l)`. A query that sees no key (all
//! masked, or `S = 0`) so gets `y = 0` and `lse = -inf`. A score of NaN or +inf makes the row NaN. A masked key
//! weighs 0, and 0 times a value that is not finite is NaN, as in a product of matrices.
//!
//! **Gradient**, for each query, from its scores (computed as above), `lse`, `y` and the gradient `g` of `y`:
//! ```text
//! p[j]  = exp(s[j] - lse)    (- 0 if lse = -inf)
//! D     = fold over v of g[v] * y[v]
//! dp[j] = contract over v of g[v] * value[j, v]
//! ds[j] = p[j] * (dp[j] - D)
//! dq[d] = contract over the visited keys j, ascending, of ds[j] * k[j, d], times scale
//! ```
//! and for each key, over the list of the queries that visit it, in row-major order of (query head of the
//! group, i):
//! ```text
//! dk[d] = contract over that list of ds * q[d], times scale
//! dv[v] = contract over that list of p * g[v]
//! ```
//!
//! Why so: all queries of a tile that lies within 64 consecutive, aligned queries visit the same keys, and all
//! keys of a block are visited by the same queries. So a kernel walks over whole tiles, skips those beyond the
//! diagonal, and needs a choice per element only on the diagonal, where it sets scores to -inf. The forward
//! holds one tile of `o` per query tile; the gradient is one kernel with a query tile (dq, over key blocks) and
//! one with a key tile (dk and dv, over query tiles), without atomics. All chains run inside a thread or a
//! register tile; what is combined across threads is a maximum, which has no order, and the sum of 64 numbers,
//! which is a halving tree.

use crate::View;
use crate::compute::{Compute, each_float, elements};
use crate::contract::Chains;
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{DType, HostData, Result};
use elinvar_ops::backend::Attention;
use std::borrow::Cow;

/// Sizes: batch, query heads, key heads, queries, keys, numbers in a query and key, numbers in a value.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    b: usize,
    h: usize,
    j: usize,
    l: usize,
    s: usize,
    d: usize,
    v: usize,
}

impl Sizes {
    fn new(q: &View, k: &View, v: &View) -> Self {
        let (q, k) = (q.shape(), k.shape());
        Sizes { b: q[0], h: q[1], j: k[1], l: q[2], s: k[2], d: q[3], v: v.shape()[3] }
    }
    /// Query heads per key head.
    fn group(&self) -> usize {
        self.h.checked_div(self.j).unwrap_or(0)
    }
    /// How many keys query `i` visits.
    fn visited(&self, a: &Attention, i: usize) -> usize {
        if a.causal { self.s.min((i / ATTENTION_BLOCK + 1) * ATTENTION_BLOCK) } else { self.s }
    }
}

/// The mask of one head, [l, s].
enum Mask<'a, C: Compute> {
    None,
    /// false: -inf
    Keep(Cow<'a, [bool]>),
    Add(Cow<'a, [C]>),
}

impl<'a, C: Compute> Mask<'a, C> {
    fn of_head(mask: Option<&View<'a>>, b: usize, h: usize) -> Result<Self> {
        let Some(mask) = mask else { return Ok(Mask::None) };
        let layout = mask.layout.select(0, b).select(0, h);
        match mask.buffer {
            HostData::Bool(v) => Ok(Mask::Keep(elements(v, &layout)?)),
            HostData::F32(_)
            | HostData::F64(_)
            | HostData::F16(_)
            | HostData::BF16(_)
            | HostData::I64(_)
            | HostData::I32(_)
            | HostData::U8(_) => Ok(Mask::Add(C::load(mask.buffer, &layout)?)),
        }
    }
}

/// The scores of one query after another.
struct Scores<'a, C: Compute> {
    a: &'a Attention,
    sizes: Sizes,
    /// Keys of the head, transposed: [d, s].
    k: Vec<C>,
    mask: Mask<'a, C>,
    sums: Chains<C>,
    row: Vec<C>,
}

impl<'a, C: Compute> Scores<'a, C> {
    fn new(a: &'a Attention, sizes: Sizes, k: &[C], mask: Mask<'a, C>) -> Result<Self> {
        let k = transposed(k, sizes.s, sizes.d)?;
        Ok(Scores { a, sizes, k, mask, sums: Chains::new(sizes.s)?, row: with_capacity(sizes.s)? })
    }
    /// The scores of query `i` at the keys that it visits.
    fn of(&mut self, i: usize, q: &[C]) -> &[C] {
        let n = self.sizes.visited(self.a, i);
        let (scale, never) = (C::lit(self.a.scale), C::lit(f64::NEG_INFINITY));
        products(&mut self.sums, q, &self.k, self.sizes.s, n);
        self.row.clear();
        self.row.extend(self.sums.sums()[..n].iter().map(|&s| s * scale));
        match &self.mask {
            Mask::None => {}
            Mask::Keep(keep) => {
                for (s, &keep) in self.row.iter_mut().zip(&keep[i * self.sizes.s..]) {
                    *s = if keep { *s } else { never };
                }
            }
            Mask::Add(add) => {
                for (s, &add) in self.row.iter_mut().zip(&add[i * self.sizes.s..]) {
                    *s = *s + add;
                }
            }
        }
        if self.a.causal {
            self.row.iter_mut().skip(i + 1).for_each(|s| *s = never);
        }
        &self.row
    }
}

/// `sums[j] = contract over e of x[e] * w[e, j]`, for the first `n` columns of `stride`.
fn products<C: Compute>(sums: &mut Chains<C>, x: &[C], w: &[C], stride: usize, n: usize) {
    sums.clear();
    for (e, &x) in x.iter().enumerate() {
        sums.add(x, &w[e * stride..e * stride + n]);
    }
}

/// [n, m] from [m, n].
fn transposed<C: Compute>(x: &[C], m: usize, n: usize) -> Result<Vec<C>> {
    let mut t = with_capacity(x.len())?;
    (0..n).for_each(|j| t.extend((0..m).map(|i| x[i * n + j])));
    Ok(t)
}

/// `x`, or 0 if it is -inf: what is subtracted in an exponent.
fn shift<C: Compute>(x: C) -> C {
    if x == C::lit(f64::NEG_INFINITY) { C::NOTHING } else { x }
}

/// The elements of head `h` of a tensor [.., heads, rows, columns] whose batch and heads were flattened.
fn head<C>(x: &[C], h: usize, size: usize) -> &[C] {
    &x[h * size..(h + 1) * size]
}

/// o[b, h, l, v] and lse[b, h, l].
pub fn attention(
    a: &Attention,
    q: &View,
    k: &View,
    v: &View,
    mask: Option<&View>,
) -> Result<(HostData, HostData)> {
    let dtype = q.buffer.dtype();
    each_float!("attention", dtype, C => {
        let (y, lse) = forward::<C>(a, q, k, v, mask)?;
        Ok((C::store(y, dtype)?, C::store(lse, dtype.compute())?))
    })
}

fn forward<C: Compute>(
    a: &Attention,
    q: &View,
    k: &View,
    v: &View,
    mask: Option<&View>,
) -> Result<(Vec<C>, Vec<C>)> {
    let z = Sizes::new(q, k, v);
    let [q, k, v] =
        [C::load(q.buffer, q.layout)?, C::load(k.buffer, k.layout)?, C::load(v.buffer, v.layout)?];
    let mut y = with_capacity(z.b * z.h * z.l * z.v)?;
    let mut lse = with_capacity(z.b * z.h * z.l)?;
    for b in 0..z.b {
        for h in 0..z.h {
            let kv = b * z.j + h / z.group();
            let q = head(&q, b * z.h + h, z.l * z.d);
            let v = head(&v, kv, z.s * z.v);
            let mut scores = Scores::new(a, z, head(&k, kv, z.s * z.d), Mask::of_head(mask, b, h)?)?;
            for i in 0..z.l {
                lse.push(query(scores.of(i, head(q, i, z.d)), v, z.v, &mut y)?);
            }
        }
    }
    Ok((y, lse))
}

/// Appends the output of a query with these scores, and gives its lse.
fn query<C: Compute>(scores: &[C], v: &[C], width: usize, y: &mut Vec<C>) -> Result<C> {
    let mut m = C::lit(f64::NEG_INFINITY);
    let mut l = C::NOTHING;
    let mut o = filled(width, C::NOTHING)?;
    for (block, s) in scores.chunks(ATTENTION_BLOCK).enumerate() {
        let highest = s.iter().fold(m, |m, &s| C::max(m, s));
        let shift = shift(highest);
        let alpha = (m - shift).exp();
        let mut p = [C::NOTHING; ATTENTION_BLOCK];
        for (p, &s) in p.iter_mut().zip(s) {
            *p = (s - shift).exp();
        }
        l = l * alpha + order::fold(s.len(), C::NOTHING, |j| p[j], |a, b| a + b);
        o.iter_mut().for_each(|o| *o = *o * alpha);
        for (j, &p) in p[..s.len()].iter().enumerate() {
            for (o, &v) in o.iter_mut().zip(head(v, block * ATTENTION_BLOCK + j, width)) {
                *o = p.fma(v, *o);
            }
        }
        m = highest;
    }
    let divisor = if l == C::NOTHING { C::lit(1.0) } else { l };
    y.extend(o.iter().map(|&o| o / divisor));
    Ok(m + l.log())
}

/// What the gradient reads besides q, k, v and the mask.
pub struct Results<'a> {
    /// The output.
    pub o: View<'a>,
    /// Its row statistics.
    pub lse: View<'a>,
    /// The gradient of the output.
    pub g: View<'a>,
}

/// The gradients by q, k and v.
pub fn attention_grad(
    a: &Attention,
    q: &View,
    k: &View,
    v: &View,
    mask: Option<&View>,
    r: &Results,
) -> Result<(HostData, HostData, HostData)> {
    let dtype: DType = q.buffer.dtype();
    each_float!("attention's gradient", dtype, C => {
        let [dq, dk, dv] = backward::<C>(a, q, k, v, mask, r)?;
        Ok((C::store(dq, dtype)?, C::store(dk, dtype)?, C::store(dv, dtype)?))
    })
}

fn backward<C: Compute>(
    a: &Attention,
    q: &View,
    k: &View,
    v: &View,
    mask: Option<&View>,
    r: &Results,
) -> Result<[Vec<C>; 3]> {
    let z = Sizes::new(q, k, v);
    let scale = C::lit(a.scale);
    let load = |x: &View| C::load(x.buffer, x.layout).map(Cow::into_owned);
    let [q, k, v]: [Vec<C>; 3] = [load(q)?, load(k)?, load(v)?];
    let [y, lse, g]: [Vec<C>; 3] = [load(&r.o)?, load(&r.lse)?, load(&r.g)?];
    let mut dq = filled(q.len(), C::NOTHING)?;
    let (mut dk, mut dv) = (with_capacity(k.len())?, with_capacity(v.len())?);
    let mut dp = Chains::new(z.s)?;
    let mut dq_row = Chains::new(z.d)?;
    for (b, j) in (0..z.b).flat_map(|b| (0..z.j).map(move |j| (b, j))) {
        let (k, v) = (head(&k, b * z.j + j, z.s * z.d), head(&v, b * z.j + j, z.s * z.v));
        let v_turned = transposed(v, z.s, z.v)?;
        let mut dk_rows: Vec<Chains<C>> = (0..z.s).map(|_| Chains::new(z.d)).collect::<Result<_>>()?;
        let mut dv_rows: Vec<Chains<C>> = (0..z.s).map(|_| Chains::new(z.v)).collect::<Result<_>>()?;
        for h in j * z.group()..(j + 1) * z.group() {
            let mut scores = Scores::new(a, z, k, Mask::of_head(mask, b, h)?)?;
            for i in 0..z.l {
                let row = (b * z.h + h) * z.l + i;
                let (q, y, g) = (head(&q, row, z.d), head(&y, row, z.v), head(&g, row, z.v));
                let s = scores.of(i, q);
                products(&mut dp, g, &v_turned, z.s, s.len());
                let dp = dp.sums();
                let weighted = order::fold(z.v, C::NOTHING, |e| g[e] * y[e], |a, b| a + b);
                let shift = shift(lse[row]);
                dq_row.clear();
                for (key, &s) in s.iter().enumerate() {
                    let p = (s - shift).exp();
                    let ds = p * (dp[key] - weighted);
                    dq_row.add(ds, head(k, key, z.d));
                    dk_rows[key].add(ds, q);
                    dv_rows[key].add(p, g);
                }
                for (dq, &sum) in dq[row * z.d..(row + 1) * z.d].iter_mut().zip(dq_row.sums()) {
                    *dq = sum * scale;
                }
            }
        }
        dk_rows.iter_mut().for_each(|c| dk.extend(c.sums().iter().map(|&sum| sum * scale)));
        dv_rows.iter_mut().for_each(|c| dv.extend_from_slice(c.sums()));
    }
    Ok([dq, dk, dv])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, noise, view};
    use elinvar_core::{Layout, Shape, each_data};

    const INF: f64 = f64::INFINITY;

    fn wide(v: &HostData) -> Vec<f64> {
        use elinvar_core::Element;
        each_data!(v, v => v.iter().map(|x| x.to_f64()).collect())
    }

    /// One attention, its operands as f64, for the oracle.
    struct Case {
        why: &'static str,
        z: Sizes,
        a: Attention,
        mask: Option<HostData>,
        spread: f32,
    }

    fn cases() -> Vec<Case> {
        let z = |b, h, j, l, s, d, v| Sizes { b, h, j, l, s, d, v };
        let a = |scale, causal| Attention { scale, causal };
        let keep = |n: usize, period: usize| Some(HostData::Bool((0..n).map(|i| i % period != 0).collect()));
        let add = |n: usize, period: usize| {
            let v = noise(n, 77).into_iter().enumerate();
            Some(HostData::F64(v.map(|(i, v)| if i % period == 0 { -INF } else { f64::from(v) }).collect()))
        };
        let case = |why, z, a, mask| Case { why, z, a, mask, spread: 1.0 };
        vec![
            case("one block", z(2, 2, 2, 3, 5, 4, 3), a(0.5, false), None),
            case("whole blocks", z(1, 1, 1, 2, 128, 8, 8), a(0.35, false), None),
            case("a ragged last block", z(1, 2, 1, 3, 131, 4, 2), a(1.0, false), None),
            case("causal over blocks, grouped", z(2, 4, 2, 140, 140, 3, 2), a(1.0, true), None),
            case("causal, more queries than keys", z(1, 1, 1, 70, 3, 4, 4), a(1.0, true), None),
            case("causal, more keys than queries", z(1, 1, 1, 3, 70, 4, 4), a(1.0, true), None),
            case("truth mask with empty rows", z(1, 3, 1, 4, 5, 4, 3), a(0.5, false), keep(60, 1)),
            case("truth mask", z(1, 2, 1, 4, 70, 4, 3), a(0.5, false), keep(560, 3)),
            case("added mask, causal", z(1, 2, 2, 80, 75, 4, 3), a(0.5, true), add(12000, 4)),
            case("no keys", z(1, 2, 1, 2, 0, 4, 3), a(0.5, false), None),
            case("no queries", z(1, 2, 1, 0, 2, 4, 3), a(0.5, false), None),
            case("no numbers in a query", z(1, 1, 1, 2, 3, 0, 2), a(0.5, false), None),
            Case { spread: 30.0, ..case("scores of hundreds", z(1, 1, 1, 3, 70, 4, 3), a(0.5, false), None) },
        ]
    }

    impl Case {
        fn layouts(&self) -> [Layout; 4] {
            let z = &self.z;
            [
                layout(&[z.b, z.h, z.l, z.d]),
                layout(&[z.b, z.j, z.s, z.d]),
                layout(&[z.b, z.j, z.s, z.v]),
                layout(&[z.b, z.h, z.l, z.s]),
            ]
        }
        fn operands(&self) -> [Vec<f64>; 4] {
            let [q, k, v, _] = self.layouts().map(|l| l.shape().numel());
            let z = &self.z;
            [q, k, v, z.b * z.h * z.l * z.v]
                .map(|n| n)
                .into_iter()
                .enumerate()
                .map(|(i, n)| {
                    let spread = if i < 2 { self.spread } else { 1.0 };
                    noise(n, i as u64).iter().map(|&x| f64::from(x * spread)).collect()
                })
                .collect::<Vec<_>>()
                .try_into()
                .unwrap()
        }
        /// y, lse, dq, dk, dv by the textbook, in f64.
        fn oracle(&self) -> [Vec<f64>; 5] {
            let z = self.z;
            let [q, k, v, g] = self.operands();
            let mut y = vec![0.0; z.b * z.h * z.l * z.v];
            let mut lse = vec![-INF; z.b * z.h * z.l];
            let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
            for row in 0..z.b * z.h * z.l {
                let (b, h, i) = (row / z.l / z.h, row / z.l % z.h, row % z.l);
                let key = |s: usize| (b * z.j + h * z.j / z.h) * z.s + s;
                let dot = |x: &[f64], xr: usize, w: &[f64], wr: usize, n: usize| -> f64 {
                    (0..n).map(|e| x[xr * n + e] * w[wr * n + e]).sum()
                };
                let scores: Vec<f64> = (0..z.s)
                    .map(|s| {
                        let score = dot(&q, row, &k, key(s), z.d) * self.a.scale;
                        let masked = match &self.mask {
                            None => score,
                            Some(HostData::Bool(m)) => {
                                if m[row * z.s + s] {
                                    score
                                } else {
                                    -INF
                                }
                            }
                            Some(m) => score + wide(m)[row * z.s + s],
                        };
                        if self.a.causal && s > i { -INF } else { masked }
                    })
                    .collect();
                let m = scores.iter().copied().fold(-INF, f64::max);
                let total: f64 = scores.iter().map(|s| if m == -INF { 0.0 } else { (s - m).exp() }).sum();
                lse[row] = m + total.ln();
                let p: Vec<f64> =
                    scores.iter().map(|s| if m == -INF { 0.0 } else { (s - m).exp() / total }).collect();
                for e in 0..z.v {
                    y[row * z.v + e] = (0..z.s).map(|s| p[s] * v[key(s) * z.v + e]).sum();
                }
                let weighted = dot(&g, row, &y, row, z.v);
                for s in 0..z.s {
                    let ds = p[s] * (dot(&g, row, &v, key(s), z.v) - weighted) * self.a.scale;
                    for e in 0..z.d {
                        dq[row * z.d + e] += ds * k[key(s) * z.d + e];
                        dk[key(s) * z.d + e] += ds * q[row * z.d + e];
                    }
                    for e in 0..z.v {
                        dv[key(s) * z.v + e] += p[s] * g[row * z.v + e];
                    }
                }
            }
            [y, lse, dq, dk, dv]
        }
        /// The same by this file.
        fn run(&self, dtype: DType) -> [HostData; 5] {
            let as_dtype = |v: Vec<f64>| {
                let x = HostData::F64(v);
                crate::memory::copy(&view(&x, &layout(&[x.len()])), dtype).unwrap()
            };
            let [q, k, v, g] = self.operands().map(as_dtype);
            let mask = self.mask.as_ref().map(|m| match m {
                HostData::Bool(_) => m.clone(),
                m => as_dtype(wide(m)),
            });
            let [ql, kl, vl, ml] = self.layouts();
            let (qv, kv, vv) = (view(&q, &ql), view(&k, &kl), view(&v, &vl));
            let mv = mask.as_ref().map(|m| view(m, &ml));
            let (y, lse) = attention(&self.a, &qv, &kv, &vv, mv.as_ref()).unwrap();
            let yl = layout(&[self.z.b, self.z.h, self.z.l, self.z.v]);
            let ll = layout(&[self.z.b, self.z.h, self.z.l]);
            let r = Results { o: view(&y, &yl), lse: view(&lse, &ll), g: view(&g, &yl) };
            let (dq, dk, dv) = attention_grad(&self.a, &qv, &kv, &vv, mv.as_ref(), &r).unwrap();
            assert_eq!((y.dtype(), lse.dtype(), dk.dtype()), (dtype, dtype.compute(), dtype));
            [y, lse, dq, dk, dv]
        }
    }

    #[test]
    fn it_is_the_textbook_up_to_rounding() {
        for c in cases() {
            let want = c.oracle();
            // Rounding scores of `spread^2` changes weights by as much; the operands are exact in f32.
            let room = f64::from(c.spread * c.spread);
            for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
                let got = c.run(dtype);
                for ((got, want), name) in got.iter().zip(&want).zip(["y", "lse", "dq", "dk", "dv"]) {
                    assert_eq!(got.len(), want.len(), "{}: {name}", c.why);
                    for (i, (got, want)) in wide(got).iter().zip(want).enumerate() {
                        let close = (got - want).abs() <= tolerance * room * want.abs().max(1.0);
                        assert!(got == want || close, "{}, {dtype}: {name}[{i}] is {got}, not {want}", c.why);
                    }
                }
            }
        }
    }

    #[test]
    fn halves_are_computed_in_f32_and_rounded_once() {
        for c in cases() {
            for dtype in [DType::F16, DType::BF16] {
                let round = |v: Vec<f64>| {
                    let x = HostData::F64(v);
                    let half = crate::memory::copy(&view(&x, &layout(&[x.len()])), dtype).unwrap();
                    wide(&half)
                };
                // The same operands, rounded beforehand, in f32: the forward agrees after rounding.
                let [ql, kl, vl, _] = c.layouts();
                let [q, k, v, _] =
                    c.operands().map(|v| HostData::F32(round(v).iter().map(|&x| x as f32).collect()));
                let mask = c.mask.as_ref().map(|m| match m {
                    HostData::Bool(_) => m.clone(),
                    m => HostData::F32(round(wide(m)).iter().map(|&x| x as f32).collect()),
                });
                let ml = c.layouts()[3].clone();
                let mv = mask.as_ref().map(|m| view(m, &ml));
                let (y, lse) =
                    attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), mv.as_ref()).unwrap();
                let half = c.run(dtype);
                assert_eq!(wide(&half[0]), round(wide(&y)), "{}", c.why);
                assert_eq!(half[1], lse, "{}", c.why);
            }
        }
    }

    #[test]
    fn a_query_that_sees_no_key_gives_zero() {
        let c = Case {
            why: "",
            z: Sizes { b: 1, h: 1, j: 1, l: 2, s: 2, d: 1, v: 1 },
            a: Attention { scale: 1.0, causal: false },
            mask: Some(HostData::Bool(vec![false, false, true, false])),
            spread: 1.0,
        };
        let [y, lse, dq, dk, dv] = c.run(DType::F32).map(|v| wide(&v));
        let [_, _, v, g] = c.operands();
        assert_eq!((y[0], lse[0], dq[0]), (0.0, -INF, 0.0));
        assert_eq!((y[1], dq[1], dk[1], dv[0]), (v[0], 0.0, 0.0, g[1])); // one key weighs exactly 1
    }

    #[test]
    fn causal_is_a_mask_while_all_keys_are_in_one_block() {
        let z = Sizes { b: 1, h: 2, j: 1, l: 6, s: 7, d: 4, v: 3 };
        let triangle = (0..z.h * z.l * z.s).map(|i| i % z.s <= i / z.s % z.l).collect();
        let case = |causal, mask| Case { why: "", z, a: Attention { scale: 0.5, causal }, mask, spread: 1.0 };
        assert_eq!(
            case(true, None).run(DType::F32),
            case(false, Some(HostData::Bool(triangle))).run(DType::F32)
        );
    }

    #[test]
    fn a_query_depends_on_no_other_and_on_no_key_beyond_its_block() {
        let z = Sizes { b: 1, h: 1, j: 1, l: 140, s: 140, d: 3, v: 2 };
        let c = Case { why: "", z, a: Attention { scale: 1.0, causal: true }, mask: None, spread: 1.0 };
        let [q, k, v, _] = c.operands().map(HostData::F64);
        let [ql, kl, vl, _] = c.layouts();
        let full = attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), None).unwrap();
        for (l, s) in [(1, 64), (64, 64), (65, 128), (128, 128)] {
            let cut = |l: &Layout, n: usize| l.slice(2, 0, n, 1);
            let (ql, kl, vl) = (cut(&ql, l), cut(&kl, s), cut(&vl, s));
            let part = attention(&c.a, &view(&q, &ql), &view(&k, &kl), &view(&v, &vl), None).unwrap();
            assert_eq!(wide(&part.0), wide(&full.0)[..l * z.v], "{l} queries, {s} keys");
            assert_eq!(wide(&part.1), wide(&full.1)[..l], "{l} queries, {s} keys");
        }
    }

    #[test]
    fn strided_operands() {
        let c = &cases()[0];
        let [q, k, v, _] = c.operands();
        // [b, l, h, d] seen as [b, h, l, d], as a projection gives it.
        let turned = |x: &[f64], l: &Layout| {
            let t = l.transpose(1, 2);
            let data = HostData::F64(t.positions().map(|p| x[p]).collect());
            (data, Layout::contiguous(Shape::clone(t.shape())).transpose(1, 2))
        };
        let [ql, kl, vl, _] = c.layouts();
        let ((qt, qtl), (kt, ktl), (vt, vtl)) = (turned(&q, &ql), turned(&k, &kl), turned(&v, &vl));
        let got = attention(&c.a, &view(&qt, &qtl), &view(&kt, &ktl), &view(&vt, &vtl), None).unwrap();
        assert_eq!(got.0, c.run(DType::F64)[0]);
    }

    #[test]
    fn scores_that_are_not_finite() {
        let l = layout(&[1, 1, 1, 1]);
        let two = layout(&[1, 1, 2, 1]);
        let a = Attention { scale: 1.0, causal: false };
        let one = HostData::F32(vec![1.0]);
        // keys, values, is the result NaN?
        let rows = [
            ([f32::NAN, 0.0], [1.0, 1.0], true),
            ([f32::INFINITY, 0.0], [1.0, 1.0], true),
            ([f32::NEG_INFINITY, 0.0], [1.0, 1.0], false),
            ([f32::NEG_INFINITY, 0.0], [f32::INFINITY, 1.0], true), // 0 * inf
            ([f32::NEG_INFINITY, f32::NEG_INFINITY], [1.0, 1.0], false),
        ];
        for (k, v, nan) in rows {
            let (k, v) = (HostData::F32(k.to_vec()), HostData::F32(v.to_vec()));
            let (y, _) = attention(&a, &view(&one, &l), &view(&k, &two), &view(&v, &two), None).unwrap();
            assert_eq!(wide(&y)[0].is_nan(), nan, "{k:?} {v:?}");
        }
    }
}
