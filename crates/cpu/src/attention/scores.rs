//! Attention scores: scale and mask, the softmax step of the forward, and the softmax gradient step
//! of the backward.

use super::rows::{AttentionSizes, TILE};
use crate::reduce::float::Float;
use crate::reduce::source::StagedView;
use crate::view::View;
use elinvar_core::{DType, Result};
use elinvar_ops::backend::Fold;
use elinvar_ops::lane::Lane;
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdLanes};
use elinvar_simd::isa::Isa;

/// A row of scores.
pub(super) type ScoreRow<C> = [C; TILE];

/// A mask [b, h, l, s].
pub(super) struct MaskTile<'a, C> {
    stage: StagedView<'a, C>,
    /// Of truth values, not of numbers to be added.
    pub keep: bool,
}

impl<'a, C: Float> MaskTile<'a, C> {
    pub fn new(mask: Option<&View<'a>>) -> Result<Option<Self>> {
        mask.map(|m| {
            Ok(MaskTile {
                stage: StagedView::new("attention's mask", m)?,
                keep: m.buffer.dtype() == DType::Bool,
            })
        })
        .transpose()
    }
    /// The mask of `rows` queries from row `row` of all heads on, at `keys` keys from `key` on.
    pub fn read(
        &self,
        isa: Isa,
        z: &AttentionSizes,
        row: usize,
        rows: usize,
        key: usize,
        keys: usize,
        tile: &mut [ScoreRow<C>],
    ) {
        for (i, tile) in tile[..rows].iter_mut().enumerate() {
            let mut buffer = [C::POSITIVE_ZERO; TILE];
            tile[..keys].copy_from_slice(self.stage.block(
                isa,
                (row + i) * z.s + key,
                keys,
                keys,
                &mut buffer,
            ));
        }
    }
}

/// What turns products into scores.
#[derive(Clone, Copy)]
pub(super) struct ScoreMask<'a, C> {
    pub scale: C,
    /// The mask, and whether it is of truth values.
    pub mask: Option<(&'a [ScoreRow<C>], bool)>,
    /// Keys that exist.
    pub keys: usize,
    /// For a block on the diagonal: row i sees keys `0..=i`.
    pub diagonal: bool,
}

impl<C: Float> ScoreMask<'_, C> {
    /// Row `i` of a tile of products as scores. Keys that do not exist get -inf.
    #[inline(always)]
    fn scores(&self, i: usize, s: &mut ScoreRow<C>) {
        let never = C::lit(f64::NEG_INFINITY);
        for s in s.iter_mut() {
            *s = *s * self.scale;
        }
        match self.mask {
            None => {}
            Some((mask, true)) => {
                for (s, &keep) in s.iter_mut().zip(&mask[i]) {
                    *s = C::select(Lane::eq(keep, C::POSITIVE_ZERO), never, *s);
                }
            }
            Some((mask, false)) => {
                for (s, &add) in s.iter_mut().zip(&mask[i]) {
                    *s = *s + add;
                }
            }
        }
        let seen = if self.diagonal { self.keys.min(i + 1) } else { self.keys };
        if seen < TILE {
            for (j, s) in s.iter_mut().enumerate() {
                *s = if j < seen { *s } else { never };
            }
        }
    }
}

/// The statistics of the queries of a tile.
pub(super) struct OnlineSoftmax<C> {
    /// The largest score so far.
    pub m: ScoreRow<C>,
    /// The sum of the weights so far.
    pub l: ScoreRow<C>,
    /// By how much the sums so far shrink with this block.
    pub alpha: ScoreRow<C>,
}

/// One block of the forward: from products to weights, and the statistics brought up to date.
pub(super) struct SoftmaxStep<'a, C> {
    pub masking: ScoreMask<'a, C>,
    pub tile: &'a mut [ScoreRow<C>],
    pub run: &'a mut OnlineSoftmax<C>,
}

/// exp(s - shift) of all numbers of a row.
///
/// What is no key, or not seen, has -inf, whose exponential is computed as a number far too small
/// to be there: Intel's processors take some hundred cycles for a register in which there is one.
/// It is left out, and set to 0, which it would be.
#[inline(always)]
fn exp_shifted<C: Float, M: ReduceLanes<C>>(s: &mut ScoreRow<C>, shift: C) {
    // Below, exponentials round to 0 (`elinvar_ops::math::exp`).
    let (least, zero) = (M::lit(if C::BITS == 32 { -104.0 } else { -746.0 }), M::lit(0.0));
    let mut j = 0;
    while j < TILE {
        let x = M::load(&s[j..]) - M::splat(shift);
        let gone = x.lt(least);
        M::select(gone, zero, M::select(gone, zero, x).exp()).store(&mut s[j..]);
        j += M::WIDTH;
    }
}

impl<C: Float> LaneKernel for SoftmaxStep<'_, C> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        let OnlineSoftmax { m, l, alpha } = self.run;
        let mut shift = [C::POSITIVE_ZERO; TILE];
        for (i, s) in self.tile.iter_mut().enumerate() {
            self.masking.scores(i, s);
            shift[i] = larger(m[i], largest::<C, M>(s));
        }
        for i in 0..TILE {
            let highest = shift[i];
            shift[i] = C::select(Lane::eq(highest, C::lit(f64::NEG_INFINITY)), C::POSITIVE_ZERO, highest);
            alpha[i] = m[i] - shift[i];
            m[i] = highest;
        }
        exp_shifted::<C, M>(alpha, C::POSITIVE_ZERO);
        for (i, s) in self.tile.iter_mut().enumerate() {
            exp_shifted::<C, M>(s, shift[i]);
            l[i] = l[i] * alpha[i] + sum::<C, M>(s);
        }
    }
}

/// The larger; of a NaN and a number, and of two zeros, either. A maximum is only taken off scores:
/// of those that have a NaN all results are NaN, whatever is taken off, and no exponential and no
/// sum knows zeros apart.
#[inline(always)]
fn larger<C: Float>(a: C, b: C) -> C {
    if a > b { a } else { b }
}

/// The largest of a row: a maximum has no order.
#[inline(always)]
fn largest<C: Float, M: ReduceLanes<C>>(s: &ScoreRow<C>) -> C {
    if const { M::WIDTH == TILE } {
        return M::folded(M::load(s).few(Fold::Max), Fold::Max);
    }
    let mut top = *s;
    reduce_halves(&mut top, larger);
    top[0]
}

/// The fold of a row of weights, which are never -0. Those of keys that do not exist are 0, and add
/// nothing.
#[inline(always)]
fn sum<C: Float, M: ReduceLanes<C>>(p: &ScoreRow<C>) -> C {
    if const { M::WIDTH == TILE } {
        return M::folded(M::load(p).few(Fold::Sum), Fold::Sum);
    }
    let mut sums = *p;
    reduce_halves(&mut sums, |a, b| a + b);
    sums[0]
}

#[inline(always)]
fn reduce_halves<C: Copy>(x: &mut ScoreRow<C>, f: impl Fn(C, C) -> C) {
    for j in 0..32 {
        x[j] = f(x[j], x[j + 32]);
    }
    for j in 0..16 {
        x[j] = f(x[j], x[j + 16]);
    }
    for j in 0..8 {
        x[j] = f(x[j], x[j + 8]);
    }
    for j in 0..4 {
        x[j] = f(x[j], x[j + 4]);
    }
    x[0] = f(f(x[0], x[2]), f(x[1], x[3]));
}

/// One block of the gradient: from products to weights p and the gradients ds of the scores.
pub(super) struct SoftmaxGradStep<'a, C> {
    pub masking: ScoreMask<'a, C>,
    /// Products in, weights out.
    pub p: &'a mut [ScoreRow<C>],
    /// The gradients of the weights in, of the scores out.
    pub ds: &'a mut [ScoreRow<C>],
    /// What is taken off the scores, per query.
    pub shift: &'a ScoreRow<C>,
    /// The sum of g * y, per query.
    pub weighted: &'a ScoreRow<C>,
}

impl<C: Float> LaneKernel for SoftmaxGradStep<'_, C> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        for (i, (p, ds)) in self.p.iter_mut().zip(self.ds).enumerate() {
            self.masking.scores(i, p);
            exp_shifted::<C, M>(p, self.shift[i]);
            for (p, ds) in p.iter().zip(ds) {
                *ds = *p * (*ds - self.weighted[i]);
            }
        }
    }
}

/// The fold of g * y of each query, whose rows have at most [`TILE`] numbers and are so far apart.
pub(super) struct RowDots<'a, C> {
    pub y: (&'a [C], usize),
    pub g: (&'a [C], usize),
    /// Numbers of a row.
    pub n: usize,
    /// One for each query.
    pub sums: &'a mut [C],
}

impl<C: Float> LaneKernel for RowDots<'_, C> {
    type T = C;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<M: ReduceLanes<C>, S: SimdLanes<C> + Lane>(self) {
        for (i, sum_of) in self.sums.iter_mut().enumerate() {
            let (y, g) = (&self.y.0[i * self.y.1..][..self.n], &self.g.0[i * self.g.1..][..self.n]);
            // Lanes start from +0, and there are no more terms than half of them.
            let mut terms = [C::POSITIVE_ZERO; TILE];
            for ((term, &g), &y) in terms.iter_mut().zip(g).zip(y) {
                *term = C::POSITIVE_ZERO + g * y;
            }
            *sum_of = sum::<C, M>(&terms);
        }
    }
}
