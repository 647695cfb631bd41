//! Attention of bf16 on processors that multiply pairs of them: [`Precision::Fast`].
//!
//! Two terms are put into the bits of an f32, and from there on a pair is a term, as in products ([`crate::gemm`]): of a score the numbers
//! `i` and `i + d / 2` of query and key, of a result the keys `j` and `j + 32` of a block. So what is paired are halves that lie one
//! after the other, and no number changes its place among its neighbours. Weights are rounded to bf16; all else is as in the exact
//! forward. The gradient is exact.
//!
//! How it can be wrong: a term without a partner, of an odd number of them or of a last block. It gets +0 on both sides.

use super::{Heads, Number, TILE};
use crate::CpuDevice;
use crate::View;
use crate::gemm::turn;
use crate::isa::{Isa, Kernel, dispatch};
use crate::memory::{Scratch, filled};
use crate::simd::room::fresh_pieces;
use crate::simd::tile::COLUMNS;
use crate::simd::vector::Kind;
use elinvar_core::{DType, Precision, Result};
use elinvar_ops::backend::Attention;
use elinvar_ops::lane::{Lane, LaneInt};

/// Pairs of a block of keys.
pub(super) const PAIRS: usize = TILE / 2;

/// What is multiplied.
pub(super) fn kind(d: &CpuDevice, a: &Attention, x: [&View<'_>; 3]) -> Kind {
    let halves = x.iter().all(|x| x.buffer.dtype() == DType::BF16);
    if a.precision == Precision::Fast && halves && d.isa().has_pairs() { Kind::Pairs } else { Kind::Numbers }
}

/// Two numbers that are bf16, or the lower halves of whose bits are to be cut off: the first in the lower half.
#[inline(always)]
fn pair<C: Lane>(first: C, second: C) -> C {
    let upper: C::Int = LaneInt::lit(0xffff << 16);
    C::from_bits(first.to_bits().shr_logical(16) | (second.to_bits() & upper))
}

/// To the nearest bf16, of two the even one, as the upper half of the bits.
#[inline(always)]
fn rounded<C: Lane>(x: C) -> C {
    let bits = x.to_bits();
    let even = bits.shr_logical(16) & LaneInt::lit(1);
    let near = C::from_bits(bits + even + LaneInt::lit(0x7fff));
    C::select(x.is_nan(), C::lit(f64::NAN), near)
}

/// Pairs of numbers that are bf16. Where the second ones end, the first ones' partner is 0.
struct Exactly<'a, C> {
    first: &'a [C],
    second: &'a [C],
    to: &'a mut [C],
}

impl<C: Number> Kernel for Exactly<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Exactly { first, second, to } = self;
        let (both, alone) = to[..first.len()].split_at_mut(second.len());
        for ((to, &first), &second) in both.iter_mut().zip(first).zip(second) {
            *to = pair(first, second);
        }
        for (to, &first) in alone.iter_mut().zip(&first[second.len()..]) {
            *to = pair(first, C::NOTHING);
        }
    }
}

/// Weights of rows of [`TILE`] keys, rounded, as rows of [`PAIRS`].
pub(super) struct Weights<'a, C> {
    pub(super) tile: &'a [[C; TILE]],
    pub(super) to: &'a mut [C],
}

impl<C: Number> Kernel for Weights<'_, C> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (p, to) in self.tile.iter().zip(self.to.as_chunks_mut::<PAIRS>().0) {
            let (first, second) = p.split_at(PAIRS);
            for ((to, &first), &second) in to.iter_mut().zip(first).zip(second) {
                *to = pair(rounded(first), rounded(second));
            }
        }
    }
}

/// Rows of `n` numbers, `apart`, as rows of pairs one after the other.
pub(super) fn rows<C: Number>(isa: Isa, (x, apart): (&[C], usize), count: usize, n: usize) -> Result<Vec<C>> {
    let half = n.div_ceil(2);
    let mut pairs = filled(count * half, C::NOTHING)?;
    for (i, to) in pairs.chunks_exact_mut(half).enumerate() {
        let (first, second) = x[i * apart..][..n].split_at(half);
        dispatch(isa, Exactly { first, second, to });
    }
    Ok(pairs)
}

/// Blocks of keys, turned: [heads, blocks, n / 2, TILE] from [heads, rows, n]; rows that do not exist are zeros.
pub(super) fn turned<C: Number>(d: &CpuDevice, x: &Heads<'_, C>, heads: usize) -> Result<Scratch<C>> {
    let (all, n) = (x.rows, x.n);
    let (blocks, half) = (all.div_ceil(TILE), n.div_ceil(2));
    let y = fresh_pieces(d, heads * blocks * half * TILE, half * TILE, 0.3, &|start, room| {
        let (head, block) = (start / (half * TILE) / blocks, start / (half * TILE) % blocks);
        let count = TILE.min(all - block * TILE);
        let mut buffer = Vec::new();
        let keys = rows(d.isa(), x.rows(head * all + block * TILE, count, &mut buffer)?, count, n)?;
        turn(d.isa(), &keys, 0, half as isize, half, count, room.zeroed(half * TILE, C::NOTHING), TILE);
        Ok(())
    })?;
    Ok(Scratch::of(y))
}

/// Blocks of values, row by row: [heads, blocks, PAIRS, n] from [heads, rows, n], rows in whole vectors; those that do not exist are
/// zeros.
pub(super) fn values<C: Number>(d: &CpuDevice, x: &Heads<'_, C>, heads: usize) -> Result<Scratch<C>> {
    let (all, n) = (x.rows, x.n);
    let (blocks, wide) = (all.div_ceil(TILE), n.next_multiple_of(COLUMNS));
    let y = fresh_pieces(d, heads * blocks * PAIRS * wide, PAIRS * wide, 0.5, &|start, room| {
        let (head, block) = (start / (PAIRS * wide) / blocks, start / (PAIRS * wide) % blocks);
        let count = TILE.min(all - block * TILE);
        let mut buffer = Vec::new();
        let (x, apart) = x.rows(head * all + block * TILE, count, &mut buffer)?;
        let y = room.zeroed(PAIRS * wide, C::NOTHING);
        for (j, to) in y.chunks_exact_mut(wide).enumerate().take(count) {
            let row = |j: usize| if j < count { &x[j * apart..][..n] } else { &[] };
            dispatch(d.isa(), Exactly { first: row(j), second: row(j + PAIRS), to });
        }
        Ok(())
    })?;
    Ok(Scratch::of(y))
}
