//! Steps along time in which an element depends on its own position and the two before it, as one
//! op over all steps.
//!
//! It is the recursion of a loss over all alignments of labels with time. A step has a few hundred
//! elements, so the overhead per call dominates. A backend may fuse all steps
//! ([`Fused::Lattice`]). Otherwise each step is a map, a sum and a padding, and its gradient
//! three maps, a sum and two paddings, instead of nine recorded ops per step.
//!
//! How it can be wrong: the gradient's inputs. Where it is not recorded, it reads the sums that the
//! forward pass saved, which are not results. Where it is, these would have no gradient of their
//! own: so all steps are recomputed from the operands, by recorded ops, with the same bits.

use super::{add, expand, narrow, pad, reshape, stack, unbind, where_};
use crate::array;
use crate::map::formula;
use crate::prelude::*;
use std::sync::Arc;

/// An op of (x [t, n, s], may [n, s], front \[s + 2\]), all of one dtype, f32 or f64; `may` and
/// `front` get no gradient. [`Fused::Lattice`] defines their meaning, and the operands of the
/// formulas.
///
/// Results: the elements [n, s] of each sample's last step; then, if `keeps`, the values that the
/// gradient reads.
#[derive(Clone, Debug)]
struct Lattice<F, G> {
    /// The contribution of the previous elements to a step.
    f: F,
    /// The gradient of that.
    g: G,
    ends: Arc<[usize]>,
    keeps: bool,
}

/// `v` with two more elements before, or after, each row.
fn framed<V: Value>(v: &V, amounts: [isize; 2], fill: f64) -> Result<V> {
    pad(v, &amounts, pad::Mode::Constant(Scalar::Float(fill)))
}

/// The one result of fused work.
fn one<B: Backend>(device: &B::Device, all: FusedResults<B>, shape: Shape, dtype: DType) -> Array<B> {
    let [y] = all.try_into().unwrap_or_else(|_| panic!("a lattice has one result"));
    Array::placed(device, y, shape, dtype)
}

impl<F: CompiledMap<4>, G: CompiledMap<5>> Lattice<F, G> {
    /// `new` for those samples that have step `k`, `old` for the others.
    fn choose<V: Value>(&self, k: usize, new: &V, old: &V) -> Result<V> {
        if self.ends.iter().all(|&end| k < end) {
            return Ok(new.clone());
        }
        let goes_on: Vec<bool> = self.ends.iter().map(|&end| k < end).collect();
        let goes_on = Array::from_vec(new.device(), goes_on, &[self.ends.len(), 1])?;
        where_(&V::from_array(goes_on), new, old)
    }

    /// Step by step; the sums of each are passed to `give`.
    fn steps<V: Value>(&self, x: &[&V], mut give: impl FnMut(V)) -> Result<V> {
        let (n, s) = (x[0].shape()[1], x[0].shape()[2]);
        let mut padded = expand(x[2], &Shape::new(&[n, s + 2])?)?;
        let part = |v: &V, from: isize| narrow(v, 1, from, s);
        let mut a = part(&padded, 2)?;
        for (k, here) in unbind(x[0], 0)?.iter().enumerate() {
            if k > 0 {
                padded = framed(&a, [2, 0], f64::NEG_INFINITY)?;
            }
            let sums = formula(self.f, [&part(&padded, 2)?, &part(&padded, 1)?, &part(&padded, 0)?, x[1]])?;
            a = self.choose(k, &add(&sums, here)?, &a)?;
            give(sums);
        }
        Ok(a)
    }

    /// The gradient by x, step by step, from that by the last elements.
    fn steps_back<V: Value>(&self, x: &[&V], sums: &[V], g: &V) -> Result<V> {
        let s = g.shape()[1];
        let part = |v: &V, from: isize| narrow(v, 1, from, s);
        let may = part(&framed(x[1], [0, 2], 0.0)?, 2)?;
        let (zero, one, here) = (g.scalar_like(0.0)?, g.scalar_like(1.0)?, unbind(x[0], 0)?);
        let nothing = expand(&zero, g.shape())?;
        let mut by = g.clone();
        let mut all = Vec::with_capacity(sums.len());
        for k in (0..sums.len()).rev() {
            if k + 1 < sums.len() {
                let a = add(&sums[k], &here[k])?;
                let y = framed(&sums[k + 1], [0, 2], f64::NEG_INFINITY)?;
                let g = framed(&by, [0, 2], 0.0)?;
                let mut sum = zero.clone();
                for (i, may) in [&one, &one, &may].into_iter().enumerate() {
                    let i = i as isize;
                    sum = formula(self.g, [&sum, &a, &part(&y, i)?, &part(&g, i)?, may])?;
                }
                by = self.choose(k + 1, &sum, &by)?;
            }
            all.push(self.choose(k, &by, &nothing)?);
        }
        stack(&all.iter().rev().collect::<Vec<_>>(), 0)
    }
}

impl<F: CompiledMap<4>, G: CompiledMap<5>> Op for Lattice<F, G> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }

    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        array::one_device(F::NAME, x)?;
        let (device, dtype) = (x[0].device(), array::one_dtype(F::NAME, x)?);
        let &[t, n, s] = &x[0].shape()[..] else { unreachable!("{}: [time, batch, places]", F::NAME) };
        let views = [x[0].view(), x[1].view(), x[2].view()];
        let f = Compiled(self.f);
        let all = match B::fused(device, &Fused::Lattice { f: F::object(&f), ends: &self.ends }, &views)? {
            Some(all) => one(device, all, Shape::new(&[t + 1, n, s])?, dtype),
            None => {
                let mut sums = Vec::with_capacity(t + 1);
                let last = self.steps(x, |y| sums.push(y))?;
                if !self.keeps {
                    return Ok(Outputs::from_buf([last]));
                }
                sums.push(last);
                stack(&sums.iter().collect::<Vec<_>>(), 0)?
            }
        };
        let last = narrow(&all, 0, t as isize, 1)?;
        let last = reshape::to_shape(&last, &Shape::new(&[n, s])?)?;
        Ok([last].into_iter().chain(self.keeps.then_some(all)).collect())
    }

    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let x = [c.x(0), c.x(1), c.x(2)];
        let t = c.shape(0)[0];
        let by = |g: &V| {
            if t == 0 {
                return x[0].full_like(0.0);
            }
            if const { V::TRACKS } {
                let mut sums = Vec::with_capacity(t);
                self.steps(&x, |y| sums.push(y))?;
                return self.steps_back(&x, &sums, g);
            }
            let device = g.device();
            let views = [x[0].array().view(), x[1].array().view(), c.y(1).array().view(), g.array().view()];
            let f = Compiled(self.g);
            let work = Fused::LatticeGrad { f: G::object(&f), ends: &self.ends };
            match <V::B as Compute>::fused(device, &work, &views)? {
                Some(y) => Ok(V::from_array(one(device, y, c.shape(0).clone(), g.dtype()))),
                None => {
                    let mut sums = unbind(c.y(1), 0)?;
                    sums.truncate(t);
                    self.steps_back(&x, &sums, g)
                }
            }
        };
        let by_x = match g[0].as_ref().filter(|_| c.wants(0)) {
            Some(g) => Some(by(g)?),
            None => None,
        };
        Ok(vec![by_x, None, None])
    }
}

/// The elements [n, s] of each sample's last step, number `ends[i] - 1` (of `front`, if it has
/// none), in a lattice of the formulas `f` and `g`; see [`Fused::Lattice`].
///
/// # Errors
/// `DeviceMismatch`, `DTypeMismatch`, `OutOfMemory`. The caller has checked shapes.
pub(super) fn lattice<V: Value, F: CompiledMap<4>, G: CompiledMap<5>>(
    f: F,
    g: G,
    [x, may, front]: [&V; 3],
    ends: &[usize],
) -> Result<V> {
    let x = [x, may, front];
    let op = Lattice { f, g, ends: ends.into(), keeps: V::records(&x) };
    Ok(V::apply_many(op, &x)?.swap_remove(0))
}
