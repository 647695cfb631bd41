//! Sums of many short rows, each in one register.

use super::{ROW_TERMS_IN_REGISTERS, copies};
use crate::reduce::combine::{self, Combine};
use elinvar_ops::fold::Sum;
use elinvar_simd::isa::{IsaTargets, Kernel};
use elinvar_simd::vector::Vector;

/// The sums of rows of `n` terms each, one after the other, whose lanes are all in registers. Made
/// by [`VectorFolds`] alone.
pub(super) struct RowSums<'a, V: Vector> {
    pub(super) x: &'a [V::T],
    pub(super) n: usize,
    /// A number whose bits are all set.
    pub(super) set: V::T,
    pub(super) sums: &'a mut [V::T],
}

impl<V: Vector> Kernel for RowSums<'_, V>
where
    V::T: Copy,
    Sum: Combine<V::T>,
{
    type Out = ();
    const TARGETS: IsaTargets = copies::<V>();
    #[inline(always)]
    fn run(self) {
        // Of two numbers each: f64 in 128 bits.
        const MAX_REGISTERS: usize = 32;
        let RowSums { x, n, set, sums } = self;
        assert!(ROW_TERMS_IN_REGISTERS.contains(&n), "rows whose lanes have room");
        let (whole, rest, registers) =
            (n / V::LANES, n % V::LANES, const { *ROW_TERMS_IN_REGISTERS.end() / V::LANES });
        const { assert!(*ROW_TERMS_IN_REGISTERS.end() / V::LANES <= MAX_REGISTERS) };
        let mut mask: [V::T; 16] = [<Sum as Combine<V::T>>::init(); 16];
        mask[..rest].fill(set);
        // The last register of a row reaches into the next, if there is one.
        let reach = n.next_multiple_of(V::LANES);
        let quick = if x.len() < reach { 0 } else { ((x.len() - reach) / n + 1).min(sums.len()) };
        let (quick, slow) = sums.split_at_mut(quick);
        let read = quick.len() * n;
        for (row, sum) in quick.iter_mut().enumerate() {
            // SAFETY: `VectorFolds` made this for an instruction set that an `Isa` was made for. A
            // row that is quick has `reach` terms behind its first one; no register has more than
            // 16 lanes, and no row more than 64 terms.
            unsafe {
                let (from, zero) = (x.as_ptr().add(row * n), V::splat(<Sum as Combine<V::T>>::init()));
                let mut lanes: [V; MAX_REGISTERS] = [zero; MAX_REGISTERS];
                for (i, lane) in lanes[..registers].iter_mut().enumerate() {
                    if i < whole {
                        *lane = zero.add(V::load(from.add(i * V::LANES)));
                    } else if i == whole && rest > 0 {
                        *lane = zero.add(V::load(from.add(i * V::LANES)).and(V::load(mask.as_ptr())));
                    }
                }
                let mut half = registers / 2;
                while half * V::LANES >= 16 {
                    for i in 0..half {
                        lanes[i] = lanes[i].add(lanes[i + half]);
                    }
                    half /= 2;
                }
                let mut few: [V::T; 16] = [<Sum as Combine<V::T>>::init(); 16];
                for (i, lane) in lanes[..16 / V::LANES].iter().enumerate() {
                    lane.store(few.as_mut_ptr().add(i * V::LANES));
                }
                *sum = combine::reduce_16_lanes::<V::T, Sum>(few);
            }
        }
        for (row, sum) in x[read..].chunks_exact(n).zip(slow) {
            *sum = combine::fold_terms::<V::T, Sum>(row);
        }
    }
}
