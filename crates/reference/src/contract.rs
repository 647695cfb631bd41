//! Contractions: chains of fma in the order of `elinvar_core::order::contract`.
//!
//! [`Chains`] runs many contractions in parallel that share one factor of every term. Each of them
//! takes its own terms in the canonical order; running them together only avoids walking through
//! memory by columns.

use crate::View;
use crate::compute::{Compute, each_float, each_int, misuse, own};
use crate::map::{floats, slices_of};
use crate::ring::Ring;
use elinvar_core::host::{filled, with_capacity};
use elinvar_core::order::CHUNK;
use elinvar_core::{Element, HostData, Layout, Result};
use elinvar_ops::backend::EpilogueObject;
use std::borrow::Cow;
use std::ops::Deref;

/// Parallel contractions: `total[j] = sum of a * b[j]` over the terms given, in the order given.
#[derive(Clone, Debug)]
pub struct Chains<T> {
    /// Finished chunks.
    total: Vec<T>,
    /// The chunk that is being chained.
    chunk: Vec<T>,
    terms: usize,
}

impl<T: Ring> Chains<T> {
    /// `n` contractions without terms yet.
    pub fn new(n: usize) -> Result<Self> {
        Ok(Chains { total: filled(n, T::NOTHING)?, chunk: filled(n, T::NOTHING)?, terms: 0 })
    }
    /// Resets all sums.
    pub fn clear(&mut self) {
        self.total.fill(T::NOTHING);
        self.chunk.fill(T::NOTHING);
        self.terms = 0;
    }
    /// The next term of every contraction.
    #[inline(never)]
    pub fn add(&mut self, a: T, b: &[T]) {
        if self.terms > 0 && self.terms.is_multiple_of(CHUNK) {
            self.close();
        }
        self.terms += 1;
        for (acc, &b) in self.chunk.iter_mut().zip(b) {
            *acc = a.chain(b, *acc);
        }
    }
    /// Adds the chunk to the total. The first chunk is the total: adding it to 0 could lose a sign.
    #[inline(never)]
    fn close(&mut self) {
        if self.terms <= CHUNK {
            self.total.copy_from_slice(&self.chunk);
        } else {
            for (total, &chunk) in self.total.iter_mut().zip(&self.chunk) {
                *total = total.plus(chunk);
            }
        }
        self.chunk.fill(T::NOTHING);
    }
    /// The sums. No more terms may follow, except after [`Chains::clear`].
    pub fn sums(&mut self) -> &[T] {
        self.close();
        &self.total
    }
}

/// y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])
pub fn contract(x: &View, w: &View, e: Option<&dyn EpilogueObject>, extra: &[View]) -> Result<HostData> {
    let dtype = x.buffer.dtype();
    if dtype.is_float() {
        return each_float!("a contraction", dtype, C => {
            let load = |v: &View<'_>, b: usize| Ok(C::load(v.buffer, &v.layout.select(0, b))?.into_owned());
            let y = products(x, w, load)?;
            C::store(epilogue::<C>(y, e, extra)?, dtype)
        });
    }
    integers(x, w, e, &|v| own(v.buffer, v.layout))
}

/// Returns the elements of a view, row-major.
pub type Own<'a> = dyn Fn(View<'_>) -> Result<HostData> + 'a;

/// The same for integers and bool, which take no epilogue.
pub fn integers<'a>(
    x: &View<'a>,
    w: &View<'a>,
    e: Option<&dyn EpilogueObject>,
    own: &Own<'_>,
) -> Result<HostData> {
    let dtype = x.buffer.dtype();
    if e.is_some() {
        return Err(misuse("a contraction with an epilogue", dtype));
    }
    each_int!("a contraction", dtype, I => {
        let load = |v: &View<'a>, b: usize| row_major::<I>(v, &v.layout.select(0, b), own);
        Ok(I::wrap(products(x, w, load)?))
    })
}

/// The elements of a part of a view: borrowed if the part is contiguous.
fn row_major<'a, I: Element>(v: &View<'a>, part: &Layout, own: &Own<'_>) -> Result<Cow<'a, [I]>> {
    let other = || misuse("a contraction with another operand", v.buffer.dtype());
    let all = I::slice(v.buffer).ok_or_else(other)?;
    let n = part.shape().numel();
    if n > 0 && part.is_contiguous() {
        return Ok(Cow::Borrowed(&all[part.offset()..part.offset() + n]));
    }
    let elements = own(View { buffer: v.buffer, layout: part, dtype: v.dtype })?;
    I::unwrap(elements).map(|v| Cow::Owned(v.into_vec())).ok_or_else(other)
}

/// The sums of a contraction, before the epilogue.
fn products<'a, T: Ring + Element, L: Deref<Target = [T]>>(
    x: &View<'a>,
    w: &View<'a>,
    load: impl Fn(&View<'a>, usize) -> Result<L>,
) -> Result<Vec<T>> {
    let (b, m, k, n) = (x.shape()[0], x.shape()[1], x.shape()[2], w.shape()[2]);
    let mut y = with_capacity(b * m * n)?;
    let mut sums = Chains::new(n)?;
    for b in 0..b {
        let (x, w) = (load(x, b)?, load(w, b)?);
        for i in 0..m {
            sums.clear();
            for (j, &a) in x[i * k..(i + 1) * k].iter().enumerate() {
                sums.add(a, &w[j * n..(j + 1) * n]);
            }
            y.extend_from_slice(sums.sums());
        }
    }
    Ok(y)
}

/// The epilogue of a contraction, at every element of its result.
pub fn epilogue<C: Compute>(mut y: Vec<C>, e: Option<&dyn EpilogueObject>, extra: &[View]) -> Result<Vec<C>> {
    if let Some(e) = e {
        let extra = floats::<C>(extra)?;
        C::epilogue_row(e).plain_row(&slices_of(&extra), &mut y);
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{layout, noise, view};
    use elinvar_core::{DType, Shape, f16, order};
    use elinvar_ops::backend::{AddBias, CompiledEpilogue};
    use elinvar_ops::map::Compiled;

    #[test]
    fn small_products_by_hand() {
        let x = HostData::F32([1.0, 2.0, 3.0, 4.0, 5.0, 6.0].into());
        let w = HostData::F32([1.0, -1.0, 0.5, 2.0, 0.0, 1.0].into());
        let xl = layout(&[1, 2, 3]);
        let wl = layout(&[1, 3, 2]);
        let rows = [
            (xl.clone(), wl.clone(), vec![2.0, 6.0, 6.5, 12.0]),
            (
                xl.reshape(&Shape::new(&[1, 3, 2]).unwrap()).unwrap().transpose(1, 2),
                wl.clone(),
                vec![2.5, 10.0, 4.0, 12.0],
            ),
            (xl.flip(2), wl.clone(), vec![4.0, 2.0, 8.5, 8.0]),
            (xl.slice(1, 0, 0, 1), wl.clone(), vec![]),
            (xl.slice(2, 0, 0, 1), wl.slice(1, 0, 0, 1), vec![0.0; 4]), // no terms
        ];
        for (xl, wl, want) in rows {
            let y = contract(&view(&x, &xl), &view(&w, &wl), None, &[]).unwrap();
            assert_eq!(y, HostData::F32(want.into()), "{xl:?}");
        }
    }

    #[test]
    fn every_element_has_the_canonical_order() {
        let (m, n) = (3, 5);
        for k in [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7] {
            let (x, w) = (noise(m * k, 1), noise(k * n, 2));
            let (xd, wd) = (HostData::F32(x.clone().into()), HostData::F32(w.clone().into()));
            let y = contract(&view(&xd, &layout(&[1, m, k])), &view(&wd, &layout(&[1, k, n])), None, &[])
                .unwrap();
            let HostData::F32(y) = y else { panic!("another type") };
            for i in 0..m {
                for j in 0..n {
                    let pair = |t: usize| (x[i * k + t], w[t * n + j]);
                    let want = order::contract(k, 0.0f32, pair, |a, b, c| a.mul_add(b, c), |a, b| a + b);
                    assert_eq!(y[i * n + j].to_bits(), want.to_bits(), "k = {k}, element {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn a_sum_of_negative_zeros_is_what_the_chain_gives() {
        // fma(-0, 1, +0) is +0.
        let x = HostData::F64([-0.0].into());
        let w = HostData::F64([1.0].into());
        let l = layout(&[1, 1, 1]);
        let HostData::F64(y) = contract(&view(&x, &l), &view(&w, &l), None, &[]).unwrap() else { panic!() };
        assert_eq!(y[0].to_bits(), 0);
    }

    #[test]
    fn a_batch_may_be_broadcast_and_a_bias_follows() {
        let x = HostData::F32([1.0, 2.0, 3.0, 4.0].into());
        let w = HostData::F32([1.0, 10.0].into());
        let bias = HostData::F32([0.5].into());
        let to = |d: &[usize]| Shape::new(d).unwrap();
        let wl = layout(&[1, 2, 1]).broadcast_to(&to(&[2, 2, 1]), "t").unwrap();
        let bl = layout(&[1]).broadcast_to(&to(&[2, 1, 1]), "t").unwrap();
        let y = contract(
            &view(&x, &layout(&[2, 1, 2])),
            &view(&w, &wl),
            Some(AddBias::object(&Compiled(AddBias))),
            &[view(&bias, &bl)],
        )
        .unwrap();
        assert_eq!(y, HostData::F32([21.5, 43.5].into()));
    }

    #[test]
    fn halves_are_rounded_once_after_the_epilogue() {
        let h = |v: &[f32]| HostData::F16(v.iter().map(|&x| f16::from_f32(x)).collect());
        let (x, w, bias) = (h(&[2048.0, 1.0]), h(&[1.0, 1.0]), h(&[1.0]));
        let l = layout(&[1, 1, 2]);
        let y = contract(
            &view(&x, &l),
            &view(&w, &l.transpose(1, 2)),
            Some(AddBias::object(&Compiled(AddBias))),
            &[view(&bias, &layout(&[1, 1, 1]))],
        );
        assert_eq!(y.unwrap(), h(&[2050.0])); // 2049 rounded to f16 would be 2048, and so would 2048 + 1
    }

    #[test]
    fn integers_wrap() {
        let l = layout(&[1, 1, 2]);
        let rows = [
            (HostData::U8([16, 1].into()), HostData::U8([16, 5].into()), HostData::U8([5].into())),
            (HostData::I32([i32::MAX, 1].into()), HostData::I32([2, 5].into()), HostData::I32([3].into())),
            (HostData::I64([-2, 3].into()), HostData::I64([4, 5].into()), HostData::I64([7].into())),
        ];
        for (x, w, want) in rows {
            let y = contract(&view(&x, &l), &view(&w, &l.transpose(1, 2)), None, &[]).unwrap();
            assert_eq!(y, want);
            assert_eq!(x.dtype(), want.dtype());
        }
        let x = HostData::full(DType::I64, 2, 1.into()).unwrap();
        let e = contract(
            &view(&x, &l),
            &view(&x, &l.transpose(1, 2)),
            Some(AddBias::object(&Compiled(AddBias))),
            &[view(&x, &l)],
        );
        assert!(e.is_err());
    }
}
