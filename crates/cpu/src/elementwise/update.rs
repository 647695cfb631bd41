//! In-place updates (optimiser steps): a formula that changes its operands, over all tensors of a
//! call at once.
//!
//! Tensors are cut into pieces, so that a large one keeps all threads busy and many small ones cost
//! little each. What can fail (types, memory for operands that are made contiguous) comes before
//! the first piece; writing cannot fail.

use super::convert;
use super::operand::{ComputeElement, Operand};
use super::plan::{UPDATE_NS_PER_ELEMENT, UPDATE_PIECE_ELEMENTS};
use crate::CpuDevice;
use crate::layout::copy;
use crate::runtime::memory::PooledData;
use crate::runtime::parallel::for_each_piece;
use crate::view::View;
use crate::view::misuse_error;
use elinvar_core::host::with_capacity;
use elinvar_core::{DType, Element, HostData, Layout, Result, bf16, f16};
use elinvar_ops::backend::UpdateItem;
use elinvar_ops::lane::Lane;
use elinvar_ops::update::Update;
use elinvar_reference::Reference;
use elinvar_simd::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use elinvar_simd::isa::Isa;
use elinvar_simd::scalar_lane::ScalarLane;
use elinvar_simd::uninit::{BLOCK_ELEMENTS, CacheBlock, UninitSlice};

/// The formula at every element of every item.
pub(crate) fn update<U: Update<M, R>, const M: usize, const R: usize>(
    d: &CpuDevice,
    u: &U,
    items: Vec<UpdateItem<'_, Reference, M, R>>,
) -> Result<()> {
    let (wide, narrow): (Vec<_>, Vec<_>) = items.into_iter().partition(|i| i.dtype == DType::F64);
    let (straight_wide, straight_narrow) = (straight(d, &wide)?, straight(d, &narrow)?);
    let wide = all_pieces::<f64, M, R>(wide, &straight_wide)?;
    let narrow = all_pieces::<f32, M, R>(narrow, &straight_narrow)?;
    run(d, wide, &|x, r| run_lanes(d.isa(), UpdateKernel(*u, x, r)));
    run(d, narrow, &|x, r| run_lanes(d.isa(), UpdateKernel(*u, x, r)));
    Ok(())
}

/// A formula over contiguous numbers that it changes, and such that it reads.
type UpdateFormula<'a, T, const M: usize, const R: usize> = dyn Fn([&mut [T]; M], [&[T]; R]) + Sync + 'a;

/// Elements that are computed at once where the compiler makes the vector code. Their results are
/// held back: a store that could be to what is read next would keep the loop from becoming vector
/// code, and there are too many slices to compare all their places first. Always so many, so that
/// the loop has no remainder: what a tensor's end lacks is made up for by zeros.
const TILE_ELEMENTS: usize = 64;

/// The kernel of a formula.
struct UpdateKernel<'a, U, T, const M: usize, const R: usize>(U, [&'a mut [T]; M], [&'a [T]; R]);

impl<U: Update<M, R>, T: SimdFloat, const M: usize, const R: usize> LaneKernel
    for UpdateKernel<'_, U, T, M, R>
{
    type T = T;
    const AVX512_F64: bool = false;
    #[inline(always)]
    fn run<L: SimdLanes<T> + Lane, F: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        if const { S::WIDTH > 1 } { self.in_turn::<S>() } else { self.by_tiles() }
    }
}

impl<U: Update<M, R>, T: SimdFloat, const M: usize, const R: usize> UpdateKernel<'_, U, T, M, R> {
    /// Register after register: a square root and a quotient take so long that a processor looks
    /// ahead to the next ones anyway.
    #[inline(always)]
    fn in_turn<S: SimdLanes<T> + Lane>(self) {
        let UpdateKernel(u, mut x, read) = self;
        let n = x[0].len();
        let mut i = 0;
        while i + S::WIDTH <= n {
            let (mut a, mut b) = ([S::splat(T::ZERO); M], [S::splat(T::ZERO); R]);
            for (a, x) in a.iter_mut().zip(&x) {
                *a = S::load(&x[i..]);
            }
            for (b, read) in b.iter_mut().zip(&read) {
                *b = S::load(&read[i..]);
            }
            for (x, new) in x.iter_mut().zip(u.lane(a, b)) {
                new.store(&mut x[i..]);
            }
            i += S::WIDTH;
        }
        if i < n {
            // What is left, with zeros behind.
            let (mut ends, mut reads) = ([[T::ZERO; TILE_ELEMENTS]; M], [[T::ZERO; TILE_ELEMENTS]; R]);
            for (end, x) in ends.iter_mut().zip(&x) {
                end[..n - i].copy_from_slice(&x[i..]);
            }
            for (end, read) in reads.iter_mut().zip(&read) {
                end[..n - i].copy_from_slice(&read[i..n]);
            }
            let new = u.lane(ends.each_ref().map(|x| S::load(x)), reads.each_ref().map(|x| S::load(x)));
            for ((x, end), new) in x.iter_mut().zip(&mut ends).zip(new) {
                new.store(end);
                x[i..].copy_from_slice(&end[..n - i]);
            }
        }
    }

    /// An element after the other, of which the compiler makes vector code.
    #[inline(always)]
    fn by_tiles(self) {
        let UpdateKernel(u, mut x, read) = self;
        let n = x[0].len();
        if const { M == 1 } {
            // One slice is soon compared with the others, so nothing needs to be held back.
            let mut others: [&[T]; R] = [&[]; R];
            for (other, r) in others.iter_mut().zip(&read) {
                *other = &r[..n];
            }
            for (i, x) in x[0].iter_mut().enumerate() {
                let mut b = [ScalarLane(T::ZERO); R];
                for (b, other) in b.iter_mut().zip(&others) {
                    *b = ScalarLane(other[i]);
                }
                *x = u.lane([ScalarLane(*x); M], b)[0].0;
            }
            return;
        }
        let none = [T::ZERO; TILE_ELEMENTS];
        let (mut x_end, mut read_end) = ([none; M], [none; R]);
        let mut made = [none; M];
        let mut start = 0;
        while start < n {
            let len = (n - start).min(TILE_ELEMENTS);
            let mut old = [&none; M];
            for ((old, x), end) in old.iter_mut().zip(&x).zip(&mut x_end) {
                *old = tile(&x[start..][..len], end);
            }
            let mut others = [&none; R];
            for ((other, r), end) in others.iter_mut().zip(&read).zip(&mut read_end) {
                *other = tile(&r[start..][..len], end);
            }
            for i in 0..TILE_ELEMENTS {
                let (mut a, mut b) = ([ScalarLane(T::ZERO); M], [ScalarLane(T::ZERO); R]);
                for (a, old) in a.iter_mut().zip(&old) {
                    *a = ScalarLane(old[i]);
                }
                for (b, other) in b.iter_mut().zip(&others) {
                    *b = ScalarLane(other[i]);
                }
                for (made, new) in made.iter_mut().zip(u.lane(a, b)) {
                    made[i] = new.0;
                }
            }
            for (x, made) in x.iter_mut().zip(&made) {
                x[start..][..len].copy_from_slice(&made[..len]);
            }
            start += len;
        }
    }
}

/// Elements as a tile: where they lie, or, if they are fewer, in `end`.
#[inline(always)]
fn tile<'a, T: Copy>(part: &'a [T], end: &'a mut [T; TILE_ELEMENTS]) -> &'a [T; TILE_ELEMENTS] {
    match part.first_chunk() {
        Some(all) => all,
        None => {
            end[..part.len()].copy_from_slice(part);
            end
        }
    }
}

/// Numbers that change, as they are stored.
enum ChangedSlice<'a, T> {
    /// In the type in which is computed.
    Plain(&'a mut [T]),
    F16(&'a mut [f16]),
    BF16(&'a mut [bf16]),
}

/// f32 or f64.
trait UpdateFloat: ComputeElement + Lane {
    /// The first `len` numbers of memory of this type or, for f32, of 16 bits.
    fn slots(data: &mut HostData, len: usize) -> Result<ChangedSlice<'_, Self>>;
    /// Fills a block from 16 bits. f64 is never stored so.
    fn widen(isa: Isa, from: &ChangedSlice<'_, Self>, to: &mut [Self]);
    /// Rounds a block to 16 bits.
    fn narrow(isa: Isa, from: &[Self], to: &mut ChangedSlice<'_, Self>);
}

impl UpdateFloat for f64 {
    fn slots(data: &mut HostData, len: usize) -> Result<ChangedSlice<'_, f64>> {
        let dtype = data.dtype();
        f64::slice_mut(data)
            .map(|x| ChangedSlice::Plain(&mut x[..len]))
            .ok_or_else(|| misuse_error("an update in f64", dtype))
    }
    fn widen(_: Isa, _: &ChangedSlice<'_, f64>, _: &mut [f64]) {
        unreachable!("slots of f64 are plain")
    }
    fn narrow(_: Isa, _: &[f64], _: &mut ChangedSlice<'_, f64>) {
        unreachable!("slots of f64 are plain")
    }
}

impl UpdateFloat for f32 {
    fn slots(data: &mut HostData, len: usize) -> Result<ChangedSlice<'_, f32>> {
        match data {
            HostData::F32(x) => Ok(ChangedSlice::Plain(&mut x[..len])),
            HostData::F16(x) => Ok(ChangedSlice::F16(&mut x[..len])),
            HostData::BF16(x) => Ok(ChangedSlice::BF16(&mut x[..len])),
            HostData::F64(_) | HostData::I64(_) | HostData::I32(_) | HostData::U8(_) | HostData::Bool(_) => {
                Err(misuse_error("an update in f32", data.dtype()))
            }
        }
    }
    fn widen(isa: Isa, from: &ChangedSlice<'_, f32>, to: &mut [f32]) {
        match from {
            ChangedSlice::Plain(_) => unreachable!("plain slots are changed where they lie"),
            ChangedSlice::F16(x) => convert::from_f16(isa, x, &mut UninitSlice::over(to)),
            ChangedSlice::BF16(x) => convert::from_bf16(isa, x, &mut UninitSlice::over(to)),
        }
    }
    fn narrow(isa: Isa, from: &[f32], to: &mut ChangedSlice<'_, f32>) {
        match to {
            ChangedSlice::Plain(_) => unreachable!("plain slots are changed where they lie"),
            ChangedSlice::F16(x) => convert::to_f16(isa, from, &mut UninitSlice::over(x)),
            ChangedSlice::BF16(x) => convert::to_bf16(isa, from, &mut UninitSlice::over(x)),
        }
    }
}

impl<'a, T> ChangedSlice<'a, T> {
    /// The first `n`, taken off.
    fn take(&mut self, n: usize) -> ChangedSlice<'a, T> {
        fn off<'a, S>(x: &mut &'a mut [S], n: usize) -> &'a mut [S] {
            x.split_off_mut(..n).expect("there are so many")
        }
        match self {
            ChangedSlice::Plain(x) => ChangedSlice::Plain(off(x, n)),
            ChangedSlice::F16(x) => ChangedSlice::F16(off(x, n)),
            ChangedSlice::BF16(x) => ChangedSlice::BF16(off(x, n)),
        }
    }
    fn is_plain(&self) -> bool {
        matches!(self, ChangedSlice::Plain(_))
    }
}

/// What one thread does at once: `len` elements of a tensor.
struct UpdatePiece<'a, T, const M: usize, const R: usize> {
    start: usize,
    len: usize,
    changes: [ChangedSlice<'a, T>; M],
    reads: [Operand<'a, T>; R],
}

/// A view of the reference's as one of ours: both are of host memory.
fn here<'a>(v: &elinvar_ops::View<'a, Reference>) -> View<'a> {
    View { buffer: v.buffer, layout: v.layout, dtype: v.dtype }
}

/// A transposed operand is copied in tiles first: block by block it would fetch a cache line for
/// each element.
fn straight<const M: usize, const R: usize>(
    d: &CpuDevice,
    items: &[UpdateItem<'_, Reference, M, R>],
) -> Result<Vec<Option<PooledData>>> {
    let mut all = with_capacity(items.len() * R)?;
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
fn all_pieces<'a, T: UpdateFloat, const M: usize, const R: usize>(
    items: Vec<UpdateItem<'a, Reference, M, R>>,
    straight: &'a [Option<PooledData>],
) -> Result<Vec<UpdatePiece<'a, T, M, R>>> {
    let count = items.iter().map(|i| i.shape.numel().div_ceil(UPDATE_PIECE_ELEMENTS)).sum();
    let mut all = with_capacity(count)?;
    for (i, item) in items.into_iter().enumerate() {
        let numel = item.shape.numel();
        let mut changes = [const { None }; M];
        for (slots, x) in changes.iter_mut().zip(item.changes) {
            *slots = Some(T::slots(x.buffer, numel)?);
        }
        let mut start = 0;
        while start < numel {
            let len = (numel - start).min(UPDATE_PIECE_ELEMENTS);
            let mut reads = [const { Operand::<T>::Slice(&[]) }; R];
            for ((read, v), straight) in reads.iter_mut().zip(&item.reads).zip(&straight[i * R..]) {
                *read = match straight {
                    None => Operand::new(v.buffer, v.layout, numel)?,
                    Some(buffer) => Operand::new(buffer, &Layout::contiguous(v.shape().clone()), numel)?,
                };
            }
            let changes = changes.each_mut().map(|x| x.as_mut().expect("each was set above").take(len));
            all.push(UpdatePiece { start, len, changes, reads });
            start += len;
        }
    }
    Ok(all)
}

/// Runs the formula on all pieces.
fn run<T: UpdateFloat, const M: usize, const R: usize>(
    d: &CpuDevice,
    mut all: Vec<UpdatePiece<'_, T, M, R>>,
    f: &UpdateFormula<'_, T, M, R>,
) {
    let elements: usize = all.iter().map(|p| p.len).sum();
    // Small tensors go together, so that each thread comes back for more some eight times.
    let together = all.len().div_ceil(8 * d.threads());
    let ns = UPDATE_NS_PER_ELEMENT * elements as f64 / all.len().max(1) as f64;
    for_each_piece(d, &mut all, together, ns, &|_, part| part.iter_mut().for_each(|p| p.run(d.isa(), f)));
}

impl<T: UpdateFloat, const M: usize, const R: usize> UpdatePiece<'_, T, M, R> {
    fn run(&mut self, isa: Isa, f: &UpdateFormula<'_, T, M, R>) {
        let mut held = [const { CacheBlock::<T>::new() }; R];
        // Zeroed only where it is of use.
        let mut staged = if self.changes.iter().all(ChangedSlice::is_plain) {
            None
        } else {
            Some([[T::ZERO; BLOCK_ELEMENTS]; M])
        };
        let mut done = 0;
        while done < self.len {
            let n = (self.len - done).min(BLOCK_ELEMENTS);
            let mut reads: [&[T]; R] = [&[]; R];
            for ((read, operand), block) in reads.iter_mut().zip(&self.reads).zip(&mut held) {
                *read = operand.part(isa, block, self.start + done, n);
            }
            let mut now = self.changes.each_mut().map(|x| x.take(n));
            let mut blocks = staged.iter_mut().flatten();
            let x = now.each_mut().map(|slots| {
                let block = blocks.next();
                match slots {
                    ChangedSlice::Plain(x) => &mut **x,
                    ChangedSlice::F16(_) | ChangedSlice::BF16(_) => {
                        let block = &mut block.expect("a block for each, as not all are plain")[..n];
                        T::widen(isa, slots, block);
                        block
                    }
                }
            });
            f(x, reads);
            for (slots, block) in now.iter_mut().zip(staged.iter().flatten()) {
                if !slots.is_plain() {
                    T::narrow(isa, &block[..n], slots);
                }
            }
            done += n;
        }
    }
}
