//! How terms are combined, in the canonical order: 128 lanes, a halving tree, and blocks joined
//! pairwise (`elinvar_core::order`).
//!
//! Lanes that never had a term may take part: each holds the initial value of a lane, and combining
//! with that changes nothing (a lane that had a term is never -0 in a sum, as it starts from +0).

use elinvar_core::order::LANES;
use elinvar_core::{Element, HostData};
use elinvar_simd::isa::{Isa, Kernel, dispatch_formula};
use std::marker::PhantomData;

/// How two terms are combined, and from what a lane starts.
pub(crate) trait Combine<T>: Copy + Send + Sync + 'static {
    /// What a lane starts from.
    fn init() -> T;
    /// Two terms as one.
    fn combine(a: T, b: T) -> T;
    /// What changes no bit of a term that it is combined with: for a sum -0, which leaves -0 as it
    /// is.
    #[inline(always)]
    fn neutral() -> T {
        Self::init()
    }

    /// At most a block of contiguous terms; `from_memory`: they are not in a cache, and others
    /// follow.
    #[inline]
    fn block(isa: Isa, terms: &[T], from_memory: bool) -> T
    where
        T: Element,
    {
        let _ = from_memory;
        dispatch_formula::<T, _>(isa, BlockFold { terms, f: PhantomData::<Self> })
    }
    /// Contiguous rows of `n` terms, `0 < n <= BLOCK`; `from_memory`: as for [`Combine::block`].
    #[inline]
    fn rows(isa: Isa, x: &[T], n: usize, from_memory: bool, out: &mut [T])
    where
        T: Element,
    {
        for (row, out) in x.chunks_exact(n).zip(out) {
            *out = Self::block(isa, row, from_memory);
        }
    }
    /// At most a block of terms that are in several parts, if they need not be copied first.
    #[inline]
    fn block_of(isa: Isa, parts: &[&[T]]) -> Option<T>
    where
        T: Element,
    {
        let _ = (isa, parts);
        None
    }

    /// Adds the halves from `base + place` on to as many sums, for each of these places; or says
    /// that it does not: terms are not added, or not in f32.
    #[inline]
    fn add_f16_terms(
        isa: Isa,
        data: &HostData,
        base: usize,
        places: impl Iterator<Item = isize> + Clone,
        acc: &mut [T],
    ) -> bool
    where
        T: Element,
    {
        let _ = (isa, data, base, places, acc);
        false
    }
    /// The sums of rows of `n` halves from `at` on, at most a block, one after the other; or says
    /// that it does not.
    #[inline]
    fn sum_f16_rows(isa: Isa, data: &HostData, at: usize, n: usize, out: &mut [T]) -> bool
    where
        T: Element,
    {
        let _ = (isa, data, at, n, out);
        false
    }

    /// Two terms as one, if NaN and zeros need not be right: who wins among these is most of what
    /// an extreme costs.
    #[inline(always)]
    fn quick_extreme(a: T, b: T) -> T {
        Self::combine(a, b)
    }
    /// What a doubt starts from.
    #[inline(always)]
    fn no_doubt() -> T {
        Self::init()
    }
    /// A doubt that saw another term.
    #[inline(always)]
    fn doubt(doubt: T, _: T) -> T {
        doubt
    }
    /// Is the quick extreme right, given the doubt about its terms?
    #[inline(always)]
    fn is_sure(_: T, _: T) -> bool {
        false
    }
}

/// The lanes of a block that is still being read.
pub(crate) type FoldLanes<T> = [T; LANES];

/// Adds terms to the lanes; the first belongs to lane 0.
#[inline(always)]
pub(crate) fn accumulate<T: Copy, F: Combine<T>>(lanes: &mut FoldLanes<T>, terms: &[T]) {
    /// Lanes that are held in registers while the terms go by: four AVX-512 registers of f32, eight
    /// of AVX2.
    const LANES_IN_REGISTERS: usize = 64;
    let (whole, rest) = terms.as_chunks::<LANES>();
    for part in 0..LANES / LANES_IN_REGISTERS {
        let at = part * LANES_IN_REGISTERS;
        let mut held = [F::init(); LANES_IN_REGISTERS];
        held.copy_from_slice(&lanes[at..at + LANES_IN_REGISTERS]);
        for chunk in whole {
            for j in 0..LANES_IN_REGISTERS {
                held[j] = F::combine(held[j], chunk[at + j]);
            }
        }
        lanes[at..at + LANES_IN_REGISTERS].copy_from_slice(&held);
    }
    for (lane, &term) in lanes.iter_mut().zip(rest) {
        *lane = F::combine(*lane, term);
    }
}

/// The lanes as one number; `n` terms were read.
#[inline(always)]
pub(crate) fn reduce_lanes<T: Copy, F: Combine<T>>(lanes: &mut FoldLanes<T>, n: usize) -> T {
    if n > 64 {
        for j in 0..64 {
            lanes[j] = F::combine(lanes[j], lanes[j + 64]);
        }
    }
    if n > 32 {
        for j in 0..32 {
            lanes[j] = F::combine(lanes[j], lanes[j + 32]);
        }
    }
    if n > 16 {
        for j in 0..16 {
            lanes[j] = F::combine(lanes[j], lanes[j + 16]);
        }
    }
    reduce_16_lanes::<T, F>(std::array::from_fn(|j| lanes[j]))
}

/// The first 16 lanes as one number.
#[inline(always)]
pub(crate) fn reduce_16_lanes<T: Copy, F: Combine<T>>(mut x: [T; 16]) -> T {
    for j in 0..8 {
        x[j] = F::combine(x[j], x[j + 8]);
    }
    for j in 0..4 {
        x[j] = F::combine(x[j], x[j + 4]);
    }
    F::combine(F::combine(x[0], x[2]), F::combine(x[1], x[3]))
}

/// The extreme of 16 lanes, if it is right.
#[inline(always)]
pub(crate) fn certain_extreme<T: Copy, F: Combine<T>>(mut best: [T; 16], mut doubt: [T; 16]) -> Option<T> {
    for j in 0..8 {
        best[j] = F::quick_extreme(best[j], best[j + 8]);
        doubt[j] = F::doubt(doubt[j], doubt[j + 8]);
    }
    for j in 0..4 {
        best[j] = F::quick_extreme(best[j], best[j + 4]);
        doubt[j] = F::doubt(doubt[j], doubt[j + 4]);
    }
    let best = F::quick_extreme(F::quick_extreme(best[0], best[2]), F::quick_extreme(best[1], best[3]));
    let doubt = F::doubt(F::doubt(doubt[0], doubt[2]), F::doubt(doubt[1], doubt[3]));
    F::is_sure(best, doubt).then_some(best)
}

/// A block of at most `BLOCK` contiguous terms.
#[inline(always)]
pub(crate) fn fold_terms<T: Copy, F: Combine<T>>(terms: &[T]) -> T {
    if terms.len() <= 16 {
        let mut few = [F::init(); 16];
        few.iter_mut().zip(terms).for_each(|(lane, &term)| *lane = F::combine(*lane, term));
        return reduce_16_lanes::<T, F>(few);
    }
    let mut lanes = [F::init(); LANES];
    accumulate::<T, F>(&mut lanes, terms);
    reduce_lanes::<T, F>(&mut lanes, terms.len())
}

/// A block of at most `BLOCK` contiguous terms.
pub(super) struct BlockFold<'a, T, F> {
    pub(super) terms: &'a [T],
    pub(super) f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for BlockFold<'_, T, F> {
    type Out = T;
    #[inline(always)]
    fn run(self) -> T {
        fold_terms::<T, F>(self.terms)
    }
}

/// Results of blocks, joined pairwise in the order of the blocks.
pub(crate) fn join_blocks<T: Copy, F: Combine<T>>(blocks: &[T]) -> T {
    match blocks {
        [] => F::init(),
        [one] => *one,
        _ => {
            // The largest power of two below the length: what found its neighbours before the rest
            // came.
            let (left, right) = blocks.split_at(blocks.len().next_power_of_two() / 2);
            F::combine(join_blocks::<T, F>(left), join_blocks::<T, F>(right))
        }
    }
}

/// Runs the body with the type alias `$F` bound to the way of combining.
macro_rules! each_fold {
    ($f:expr, $F:ident => $body:expr) => {
        match $f {
            elinvar_ops::backend::Fold::Sum => {
                type $F = elinvar_ops::fold::Sum;
                $body
            }
            elinvar_ops::backend::Fold::Prod => {
                type $F = elinvar_ops::fold::Prod;
                $body
            }
            elinvar_ops::backend::Fold::Max => {
                type $F = elinvar_ops::fold::Max;
                $body
            }
            elinvar_ops::backend::Fold::Min => {
                type $F = elinvar_ops::fold::Min;
                $body
            }
        }
    };
}
pub(crate) use each_fold;
