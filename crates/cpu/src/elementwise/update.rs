//! In-place updates (optimiser steps): a formula that changes its operands, over all tensors of a
//! call at once.
//!
//! Tensors are cut into pieces, so that a large one keeps all threads busy and many small ones cost
//! little each. What can fail (types, memory for operands that are made contiguous) comes before
//! the first piece; writing cannot fail.

use super::convert::ComputeElement;
use super::operand::Operand;
use super::plan::{UPDATE_NS_PER_ELEMENT, UPDATE_PIECE_ELEMENTS};
use super::real::{Real, StoredElementsMut};
use crate::CpuDevice;
use crate::layout::copy;
use crate::runtime::memory::PooledData;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::host::with_capacity;
use elinvar_core::{DType, Layout, Result};
use elinvar_ops::backend::UpdateItem;
use elinvar_ops::update::UpdateObject;
use elinvar_reference::Reference;
use elinvar_simd::compiled_update::{UpdateFloat, UpdateLoops};
use elinvar_simd::isa::Isa;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock};
use smallvec::SmallVec;

/// The formula at every element of every item.
pub(crate) fn update(
    d: &CpuDevice,
    u: &dyn UpdateObject,
    items: Vec<UpdateItem<'_, Reference>>,
) -> Result<()> {
    let (wide, narrow): (Vec<_>, Vec<_>) = items.into_iter().partition(|i| i.dtype == DType::F64);
    let (straight_wide, straight_narrow) = (straight(d, &wide)?, straight(d, &narrow)?);
    let wide = all_pieces::<f64>(wide, &straight_wide)?;
    let narrow = all_pieces::<f32>(narrow, &straight_narrow)?;
    run(d, wide, f64::update_loops(u));
    run(d, narrow, f32::update_loops(u));
    Ok(())
}

/// What one thread does at once: `len` elements of a tensor.
struct UpdatePiece<'a, T> {
    start: usize,
    len: usize,
    changes: SmallVec<[StoredElementsMut<'a, T>; 4]>,
    reads: SmallVec<[Operand<'a, T>; 6]>,
}

/// A view of the reference's as one of ours: both are of host memory.
fn here<'a>(v: &elinvar_ops::View<'a, Reference>) -> View<'a> {
    View { buffer: v.buffer, layout: v.layout, dtype: v.dtype }
}

/// A transposed operand is copied in tiles first: block by block it would fetch a cache line for
/// each element. In the order of all operands that are read.
fn straight(d: &CpuDevice, items: &[UpdateItem<'_, Reference>]) -> Result<Vec<Option<PooledData>>> {
    let mut all = with_capacity(items.iter().map(|i| i.reads.len()).sum())?;
    for v in items.iter().flat_map(|i| &i.reads) {
        all.push(if copy::is_transposed(v.layout) {
            Some(PooledData::new(copy::to_contiguous(d, &here(v))?))
        } else {
            None
        });
    }
    Ok(all)
}

/// The pieces of all items.
fn all_pieces<'a, 'i: 'a, T: ComputeElement + Real + UpdateFloat>(
    items: Vec<UpdateItem<'i, Reference>>,
    straight: &'a [Option<PooledData>],
) -> Result<Vec<UpdatePiece<'a, T>>> {
    let count = items.iter().map(|i| i.shape.numel().div_ceil(UPDATE_PIECE_ELEMENTS)).sum();
    let mut all = with_capacity(count)?;
    let mut straight = straight.iter();
    for item in items {
        let numel = item.shape.numel();
        let mut changes = SmallVec::<[StoredElementsMut<'_, T>; 4]>::new();
        for x in item.changes {
            let dtype = x.buffer.dtype();
            let all = T::numbers_mut(x.buffer);
            changes.push(all.ok_or_else(|| misuse_error("an update", dtype))?.take(numel));
        }
        let copies: SmallVec<[_; 6]> = straight.by_ref().take(item.reads.len()).collect();
        let mut start = 0;
        while start < numel {
            let len = (numel - start).min(UPDATE_PIECE_ELEMENTS);
            let mut reads = SmallVec::new();
            for (v, copy) in item.reads.iter().zip(&copies) {
                reads.push(match copy {
                    None => Operand::new(v.buffer, v.layout, numel)?,
                    Some(buffer) => Operand::new(buffer, &Layout::contiguous(v.shape().clone()), numel)?,
                });
            }
            let changes = changes.iter_mut().map(|x| x.take(len)).collect();
            all.push(UpdatePiece { start, len, changes, reads });
            start += len;
        }
    }
    Ok(all)
}

/// Runs the formula on all pieces.
fn run<T: ComputeElement + Real + UpdateFloat>(
    d: &CpuDevice,
    mut all: Vec<UpdatePiece<'_, T>>,
    f: &dyn UpdateLoops<T>,
) {
    let elements: usize = all.iter().map(|p| p.len).sum();
    // Small tensors go together, so that each thread comes back for more some eight times.
    let together = all.len().div_ceil(8 * d.threads());
    let ns = UPDATE_NS_PER_ELEMENT * elements as f64 / all.len().max(1) as f64;
    for_each_piece(d, &mut all, together, ns, &|_, part| part.iter_mut().for_each(|p| p.run(d.isa(), f)));
}

impl<T: ComputeElement + Real + UpdateFloat> UpdatePiece<'_, T> {
    fn run(&mut self, isa: Isa, f: &dyn UpdateLoops<T>) {
        let mut held: SmallVec<[CacheBlock<T>; 6]> = self.reads.iter().map(|_| CacheBlock::new()).collect();
        // Zeroed only where it is of use.
        let mut staged: SmallVec<[[T; BLOCK_ELEMENTS]; 4]> = SmallVec::new();
        if !self.changes.iter().all(StoredElementsMut::is_native) {
            staged.extend(self.changes.iter().map(|_| [T::ZERO; BLOCK_ELEMENTS]));
        }
        let mut done = 0;
        while done < self.len {
            let n = (self.len - done).min(BLOCK_ELEMENTS);
            let start = self.start + done;
            let reads: SmallVec<[&[T]; 6]> = self
                .reads
                .iter()
                .zip(&mut held)
                .map(|(operand, block)| operand.part(isa, block, start, n))
                .collect();
            let mut now: SmallVec<[StoredElementsMut<'_, T>; 4]> =
                self.changes.iter_mut().map(|x| x.take(n)).collect();
            let mut blocks = staged.iter_mut();
            let mut x: SmallVec<[&mut [T]; 4]> = SmallVec::new();
            for slots in &mut now {
                let block = blocks.next();
                x.push(match slots {
                    StoredElementsMut::Native(x) => x,
                    stored => {
                        let block = &mut block.expect("a block for each, as not all are plain")[..n];
                        T::widen(isa, stored, block);
                        block
                    }
                });
            }
            f.run(isa, &mut x, &reads);
            drop(x);
            for (slots, block) in now.iter_mut().zip(&staged) {
                if !slots.is_native() {
                    T::narrow(isa, &block[..n], slots);
                }
            }
            done += n;
        }
    }
}
