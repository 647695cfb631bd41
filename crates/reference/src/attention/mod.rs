//! Attention and its gradient: the definition.
//!
//! All numbers are in the type of computation T (f32; f64 for f64); inputs are loaded exactly,
//! results rounded once. Head `h` of `H` query heads uses key head `h / (H / J)` of `J`. `BLOCK` is
//! `order::ATTENTION_BLOCK`, 64 keys; "contract" and "fold" are the orders of
//! `elinvar_core::order`; `exp` and `log` are those of the catalogue. `a * b + c` rounds twice,
//! `fma` once.
//!
//! **The keys of a query.** Query `i` visits the keys `0..n(i)`. Without `causal`, `n(i) = S`. With
//! it, `n(i) = min(S, (i / BLOCK + 1) * BLOCK)`, whole blocks up to and with the diagonal; in the
//! last of them, the keys after `i` are visited with a score of -inf. Keys that are not visited
//! take no part, not even as a zero.
//!
//! **Scores**, for `j` in `0..n(i)`:
//! ```text
//! s[j] = contract over d of q[i, d] * k[j, d], times scale
//! s[j] = s[j] + mask[i, j]    if there is a float mask
//! s[j] = -inf                 where a bool mask is false, and where causal and j > i
//! ```
//!
//! **Forward**, from `m = -inf, l = 0, o = 0`, for each block of 64 visited keys (the last may be
//! shorter), in order:
//! ```text
//! m'    = max(m, s[j] of the block)
//! shift = m', or 0 if m' = -inf
//! alpha = exp(m - shift)
//! p[j]  = exp(s[j] - shift)
//! l     = l * alpha + fold of p[j] over the block
//! o[v]  = o[v] * alpha
//! o[v]  = fma(p[j], value[j, v], o[v])    for the keys of the block, in ascending order
//! m     = m'
//! ```
//! and in the end `y[v] = o[v] / l` (`/ 1` if `l = 0`) and `lse = m + log(l)`. A query that sees no
//! key (all masked, or `S = 0`) so gets `y = 0` and `lse = -inf`. A score of NaN or +inf makes the
//! row NaN. A masked key weighs 0, and 0 times a value that is not finite is NaN, as in a product
//! of matrices.
//!
//! **Gradient**, for each query, from its scores (computed as above), `lse`, `y` and the gradient
//! `g` of `y`:
//! ```text
//! p[j]  = exp(s[j] - lse)    (- 0 if lse = -inf)
//! D     = fold over v of g[v] * y[v]
//! dp[j] = contract over v of g[v] * value[j, v]
//! ds[j] = p[j] * (dp[j] - D)
//! dq[d] = contract over the visited keys j, ascending, of ds[j] * k[j, d], times scale
//! ```
//! and for each key, over the list of the queries that visit it, in row-major order of (query head
//! of the group, i):
//! ```text
//! dk[d] = contract over that list of ds * q[d], times scale
//! dv[v] = contract over that list of p * g[v]
//! ```
//!
//! Reasons for this order: all queries of a tile that is within 64 consecutive, aligned queries
//! visit the same keys, and all keys of a block are visited by the same queries. So a kernel walks
//! over whole tiles, skips those beyond the diagonal, and selects per element only on the diagonal,
//! where it sets scores to -inf. The forward pass holds one tile of `o` per query tile; the
//! gradient is one kernel with a query tile (dq, over key blocks) and one with a key tile (dk and
//! dv, over query tiles), without atomics. All chains run inside a thread or a register tile; what
//! is combined across threads is a maximum, which has no order, and the sum of 64 numbers, which is
//! a halving tree.

mod backward;
mod forward;
#[cfg(test)]
mod tests;

pub use backward::{Results, attention_grad};
pub use forward::attention;

use crate::View;
use crate::compute::{Compute, elements};
use crate::contract::Chains;
use elinvar_core::host::with_capacity;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{HostData, Result, storage};
use elinvar_ops::backend::Attention;
use std::borrow::Cow;

/// Sizes: batch, query heads, key heads, queries, keys, head dimension of queries and keys, head
/// dimension of values.
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
            | storage!(HostData)
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

/// The elements of head `h` of a tensor [.., heads, rows, columns] whose batch and heads were
/// flattened.
fn head<C>(x: &[C], h: usize, size: usize) -> &[C] {
    &x[h * size..(h + 1) * size]
}
