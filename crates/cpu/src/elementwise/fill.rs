//! A formula's results on operands of any kind, block by block: an operand that is no contiguous
//! slice of the compute type (strided, 16-bit, bool) is staged in blocks that stay in L1. Where an
//! operand is broadcast, the formula is called on runs that are contiguous or share one of its
//! elements.

use super::convert::ComputeElement;
use super::operand::{self, Operand, common_run};
use super::plan::MAX_BLOCK_ELEMENTS;
use elinvar_simd::isa::Isa;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock, UninitSlice};
pub(crate) use elinvar_simd::vector_loop::MAX_OPERANDS;
use elinvar_simd::vector_loop::OperandSlice;
use smallvec::SmallVec;

/// A formula over contiguous operands: fills the room with the results.
pub(crate) type SliceFormula<'a, T> = dyn Fn(&[OperandSlice<'_, T>], &mut UninitSlice<'_, T>) + Sync + 'a;

/// Fills the room with a formula's results from number `start` on.
pub(crate) fn fill<T: ComputeElement>(
    isa: Isa,
    operands: &[Operand<'_, T>],
    start: usize,
    dst: &mut UninitSlice<'_, T>,
    f: &SliceFormula<'_, T>,
) {
    // Blocks of two operands and their results stay in a first-level cache if they are larger, too:
    // a product of a million f16 is called for four times less often.
    if operands.len() <= 2 && size_of::<T>() <= 4 {
        fill_by::<T, MAX_BLOCK_ELEMENTS>(isa, operands, start, dst, f);
    } else {
        fill_by::<T, BLOCK_ELEMENTS>(isa, operands, start, dst, f);
    }
}

/// The same by blocks of so many elements.
fn fill_by<T: ComputeElement, const CAPACITY: usize>(
    isa: Isa,
    operands: &[Operand<'_, T>],
    mut start: usize,
    dst: &mut UninitSlice<'_, T>,
    f: &SliceFormula<'_, T>,
) {
    let mut held: SmallVec<[CacheBlock<T, CAPACITY>; 3]> = SmallVec::new();
    if operands.iter().any(Operand::needs_block) {
        held.extend(operands.iter().map(|_| CacheBlock::with_any_capacity()));
    }
    while dst.remaining() > 0 {
        let mut all = [OperandSlice::EMPTY; MAX_OPERANDS];
        if let Some(rows) = operand::rows(operands, start, dst.remaining()) {
            for (piece, operand) in all.iter_mut().zip(operands) {
                *piece = operand.piece_of_rows(start, rows);
            }
            let n = rows.len * rows.count;
            dst.part(n, |dst| f(&all[..operands.len()], dst));
            start += n;
            continue;
        }
        let n = common_run(operands, start, dst.remaining(), CAPACITY);
        for (block, operand) in held.iter_mut().zip(operands) {
            operand.prepare(isa, block, start, n);
        }
        let mut blocks = held.iter();
        for (piece, operand) in all.iter_mut().zip(operands) {
            *piece = operand.piece(blocks.next(), start, n);
        }
        dst.part(n, |dst| f(&all[..operands.len()], dst));
        start += n;
    }
}
