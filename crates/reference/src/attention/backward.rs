//! The gradients by q, k and v.

use super::{Mask, Scores, Sizes, head, products, shift, transposed};
use crate::View;
use crate::compute::{Compute, each_float};
use crate::contract::Chains;
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::{DType, HostData, Result, order};
use elinvar_ops::backend::Attention;
use std::borrow::Cow;

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
