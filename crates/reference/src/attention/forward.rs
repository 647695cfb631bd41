//! The output and its row statistics.

use super::{Mask, Scores, Sizes, head, shift};
use crate::View;
use crate::compute::{Compute, each_float};
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::order::{self, ATTENTION_BLOCK};
use elinvar_core::{HostData, Result};
use elinvar_ops::backend::Attention;

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
