//! The vector loop of elementwise formulas over contiguous operands.
//!
//! A formula is compiled as one loop over blocks of a fixed number of elements ([`BlockFormula`]).
//! What depends on the formula is nothing but this loop; rows, alignment and the last few elements
//! are handled here, once for all formulas.
//!
//! An operand is elements that are contiguous, or one number for all. Both are one loop: a number
//! is a block of copies, and the loop stays on it where it would go on to the next.
//!
//! How it can be wrong: at the end of a row. The last block overlaps the one before it, which is
//! computed again to the same bits; a row shorter than a block is staged in a block that is filled
//! up with zeros.

use crate::LINE;
use crate::dispatch::{
    LaneKernel, PlainElement, ReduceLanes, SimdFloat, SimdLanes, are_small_angles, folds_in_registers,
    run_lanes,
};
use crate::isa::{Isa, Kernel, dispatch_formula};
use crate::prefetch::prefetch_l1;
use crate::scalar_lane::SmallAngleLane;
use crate::uninit::UninitSlice;
use elinvar_core::Element;
use elinvar_lane::formula::{IntMap, Map};
use elinvar_lane::int::Int;
use elinvar_lane::lane::Lane;
use std::mem::MaybeUninit;

mod operand;
mod tail;
#[cfg(test)]
mod tests;

pub use operand::{OperandSlice, RowsShape, Splat};
use tail::TailCopy;

/// Elements of a block of a light formula: one register of AVX-512 of f32.
pub const LIGHT_BLOCK: usize = 16;
/// Elements of the largest block. Of formulas of f32 by AVX-512 it is four registers, so that the
/// steps of one fill the gaps of the others; most have so many values alive that more would be
/// spilled.
pub const BLOCK: usize = 64;
/// How many of a light formula's blocks that is.
const CHUNKS: usize = BLOCK / LIGHT_BLOCK;
/// Elements of a row from which stores of a light formula begin with a cache line.
const ALIGN_STORES_MIN_ELEMENTS: usize = 128;
/// How far ahead of a light formula its results are prefetched, in elements: a store waits for its
/// line, which nothing else asks for as early.
const PREFETCH_DISTANCE_ELEMENTS: usize = 8 * LIGHT_BLOCK;
/// Operands of a light formula from which those that are numbers are loaded once for a row.
const HOIST_SCALARS_MIN_OPERANDS: usize = 4;
/// Operands of the largest formula: four, their result and its gradient.
pub const MAX_OPERANDS: usize = 6;

/// Blocks of operands and results.
#[derive(Clone, Copy)]
pub struct Blocks<T> {
    /// Where each operand begins.
    x: [*const T; MAX_OPERANDS],
    /// 1, or 0 for an operand that is one block of copies.
    step: [usize; MAX_OPERANDS],
    y: *mut MaybeUninit<T>,
    /// How many.
    count: usize,
}

/// What a formula's loop is like.
#[derive(Clone, Copy, Debug)]
pub struct LoopShape {
    /// How many operands it reads.
    pub operands: usize,
    /// Elements of a block: [`LIGHT_BLOCK`] if it is light, otherwise a multiple of it up to
    /// [`BLOCK`].
    pub block: usize,
    /// Is it computed as fast as its numbers come from memory?
    pub light: bool,
}

/// The loop of a formula over blocks, compiled for each instruction set.
pub trait BlockFormula<T>: Send + Sync {
    /// What its loop is like, for this instruction set. (One call: of an op on four numbers, each
    /// is seen.)
    fn shape(&self, isa: Isa) -> LoopShape;
    /// Computes blocks of [`LoopShape::block`] elements.
    ///
    /// # Safety
    /// Each operand with step 1 has `count` blocks, each other one has one; there are `count`
    /// blocks of results; all is there to be read and written, and no result is where an operand
    /// is.
    #[allow(unsafe_code, reason = "places of operands and results")]
    unsafe fn blocks(&self, isa: Isa, b: &Blocks<T>);
}

/// Fills the output with a formula's results, row by row if the operands have rows.
///
/// # Panics
/// If an operand is shorter than the output, or there are not as many as the formula reads.
#[allow(unsafe_code, reason = "blocks of operands by their place")]
pub fn fill<T: Element>(
    isa: Isa,
    f: &dyn BlockFormula<T>,
    x: &[OperandSlice<'_, T>],
    room: &mut UninitSlice<'_, T>,
) {
    let n = room.remaining();
    let shape = f.shape(isa);
    assert_eq!(x.len(), shape.operands, "a formula is given as many operands as it has");
    if n == 0 {
        return;
    }
    let len = x[0].len.min(n);
    let mut copies = [const { Splat([MaybeUninit::<T>::uninit(); BLOCK]) }; MAX_OPERANDS];
    let need = shape.block;
    assert!(need <= BLOCK, "a number has as many copies as the largest block");
    for (i, y) in room.unwritten().chunks_mut(len).enumerate() {
        let mut b = Blocks {
            x: [std::ptr::null(); MAX_OPERANDS],
            step: [0; MAX_OPERANDS],
            y: y.as_mut_ptr(),
            count: 0,
        };
        for (k, x) in x.iter().enumerate() {
            (b.x[k], b.step[k]) = x.line(i, y.len(), need, &mut copies[k]);
        }
        // SAFETY: `line` checked that each operand has as many elements as `y`, or a block of
        // copies.
        unsafe { row(isa, f, shape, &mut b, y.len()) };
    }
    // SAFETY: `row` wrote each of them.
    unsafe { room.count(n) };
}

impl<T: Copy> Blocks<T> {
    /// Goes on by `n` elements, or back. In place: a copy of what was just stored waits for it.
    #[inline(always)]
    fn advance(&mut self, operands: usize, n: isize) {
        for (x, step) in self.x.iter_mut().zip(&self.step).take(operands) {
            *x = x.wrapping_offset(n * *step as isize);
        }
        self.y = self.y.wrapping_offset(n);
    }
}

/// A row of `n` results.
///
/// # Safety
/// Each operand has `n` elements from its place on, or a block of copies of a number; there is room
/// for `n` results.
#[allow(unsafe_code, reason = "blocks of operands by their place")]
unsafe fn row<T: Element>(
    isa: Isa,
    f: &dyn BlockFormula<T>,
    shape: LoopShape,
    b: &mut Blocks<T>,
    mut n: usize,
) {
    let LoopShape { operands, block, light } = shape;
    if n < block {
        // SAFETY: the caller's operands have `n` elements.
        return unsafe { few(isa, f, shape, b, n) };
    }
    if light && n >= ALIGN_STORES_MIN_ELEMENTS {
        let head = b.y.align_offset(LINE).min(block);
        if head > 0 {
            b.count = 1;
            // SAFETY: there are at least `block` elements.
            unsafe { f.blocks(isa, b) };
            b.advance(operands, head as isize);
            n -= head;
        }
    }
    b.count = n / block;
    if b.count > 0 {
        // SAFETY: so many blocks fit into what is left.
        unsafe { f.blocks(isa, b) };
    }
    let rest = n % block;
    if rest > 0 {
        b.advance(operands, n as isize - block as isize);
        b.count = 1;
        // SAFETY: the last `block` of at least as many elements; the first of them are computed
        // again, to the same bits.
        unsafe { f.blocks(isa, b) };
    }
}

/// Fewer results than a block has.
///
/// # Safety
/// As [`row`].
#[allow(unsafe_code, reason = "blocks of operands by their place")]
unsafe fn few<T: Element>(isa: Isa, f: &dyn BlockFormula<T>, shape: LoopShape, b: &mut Blocks<T>, n: usize) {
    let (ends, chunks) = (TailCopy::of::<T>(isa), shape.block / LIGHT_BLOCK);
    let mut staged = [const { [const { MaybeUninit::<[T; LIGHT_BLOCK]>::uninit() }; CHUNKS] }; MAX_OPERANDS];
    let mut results = [[MaybeUninit::uninit(); LIGHT_BLOCK]; CHUNKS];
    let y = std::mem::replace(&mut b.y, results.as_mut_ptr().cast());
    b.count = 1;
    for (k, staged) in staged.iter_mut().enumerate().take(shape.operands) {
        if b.step[k] == 1 {
            // SAFETY: the caller's operand has `n` elements.
            let x = unsafe { std::slice::from_raw_parts(b.x[k], n) };
            for (i, staged) in staged.iter_mut().enumerate().take(chunks) {
                let rest = &x[(i * LIGHT_BLOCK).min(n)..];
                match rest.first_chunk() {
                    Some(whole) => _ = staged.write(*whole),
                    None => ends.load(rest, staged.write([T::ZERO; LIGHT_BLOCK])),
                }
            }
            b.x[k] = staged.as_ptr().cast();
        }
    }
    // SAFETY: each operand is a staged block or a block of copies, and there is room for a block of
    // results.
    unsafe { f.blocks(isa, b) };
    // SAFETY: the caller has room for `n` results.
    let y = unsafe { std::slice::from_raw_parts_mut(y, n) };
    for (y, results) in y.chunks_mut(LIGHT_BLOCK).zip(&results) {
        match y.as_mut_array() {
            Some(y) => *y = *results,
            None => ends.store(results, y),
        }
    }
}

/// A formula in a reading. Unlike a closure, `lane` can be `#[inline(always)]`, and must be: in a
/// function of its own it would be compiled without the kernel's instruction set.
trait Lanes<T: Element, R: SimdLanes<T>, const N: usize>: Copy {
    /// From the operands to the result.
    fn lane(&self, x: [R; N]) -> R;
    /// A block of results in the reading for moderate angles, if there is one and they all are; or
    /// says that it does not. What goes by registers looks at each register itself
    /// ([`Lane::are_moderate`]).
    fn near<const W: usize>(&self, x: &[&[T; W]; N], y: &mut [MaybeUninit<T>; W]) -> bool;
}

/// A float formula.
#[derive(Clone, Copy)]
struct Floats<M>(M);

impl<T: SimdFloat, M: Map<N>, L: SimdLanes<T> + Lane, const N: usize> Lanes<T, L, N> for Floats<M> {
    #[inline(always)]
    fn lane(&self, x: [L; N]) -> L {
        self.0.lane(x)
    }
    #[inline(always)]
    fn near<const W: usize>(&self, x: &[&[T; W]; N], y: &mut [MaybeUninit<T>; W]) -> bool {
        if const { M::HINTS.angles && L::WIDTH == 1 } && are_small_angles(x[0]) {
            block::<T, SmallAngleLane<T>, Self, N, W>(*self, *x, y);
            return true;
        }
        false
    }
}

/// An integer formula.
#[derive(Clone, Copy)]
struct Ints<M>(M);

impl<M: IntMap<N>, T: Element + Int, const N: usize> Lanes<T, PlainElement<T>, N> for Ints<M> {
    #[inline(always)]
    fn lane(&self, x: [PlainElement<T>; N]) -> PlainElement<T> {
        let mut all = [x[0].0; N];
        for (all, x) in all.iter_mut().zip(x) {
            *all = x.0;
        }
        PlainElement(self.0.int(all))
    }
    #[inline(always)]
    fn near<const W: usize>(&self, _: &[&[T; W]; N], _: &mut [MaybeUninit<T>; W]) -> bool {
        false
    }
}

/// A block of results. A function of its own, because what is written is known to be apart from
/// what is read by being an argument.
#[inline(always)]
fn block<T: Element, R: SimdLanes<T>, F: Lanes<T, R, N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    y: &mut [MaybeUninit<T>; W],
) {
    let mut j = 0;
    while j < W {
        // First: a check between a result and its store would be a place to which the compiler
        // moves what comes before, one register after the other.
        let y = &mut y[j..j + R::WIDTH];
        let mut all = [R::splat(T::ZERO); N];
        for (a, x) in all.iter_mut().zip(&x) {
            *a = R::load(&x[j..]);
        }
        f.lane(all).write(y);
        j += R::WIDTH;
    }
}

/// The same, where all operands but the first are numbers.
#[inline(always)]
fn block_with_numbers<T: Element, R: SimdLanes<T>, F: Lanes<T, R, N>, const N: usize, const W: usize>(
    f: F,
    x: &[T; W],
    numbers: [R; N],
    y: &mut [MaybeUninit<T>; W],
) {
    let mut j = 0;
    while j < W {
        // As above.
        let y = &mut y[j..j + R::WIDTH];
        let mut all = numbers;
        all[0] = R::load(&x[j..]);
        f.lane(all).write(y);
        j += R::WIDTH;
    }
}

/// In a loop over blocks: keeps the compiler from vectorising that loop. It would take element j of
/// several blocks into one register, shuffling all of them on the way in and out, where the
/// elements of one block are a register already.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction that the compiler does not know")]
fn no_outer_vectorization() {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: there is no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Blocks of `W` elements.
///
/// # Safety
/// As [`BlockFormula::blocks`].
#[inline(always)]
#[allow(unsafe_code, reason = "a check for each register would take as long as the formula")]
unsafe fn blocks<
    T: Element,
    R: SimdLanes<T>,
    F: Lanes<T, R, N>,
    const N: usize,
    const W: usize,
    const LIGHT: bool,
>(
    f: F,
    b: &Blocks<T>,
) {
    let (mut x, mut step) = ([std::ptr::null(); N], [0; N]);
    for i in 0..N {
        (x[i], step[i]) = (b.x[i], b.step[i] * W);
    }
    let (y, count) = (b.y, b.count);
    if const { LIGHT && N >= HOIST_SCALARS_MIN_OPERANDS } && step[0] == W && step[1..].iter().all(|&s| s == 0)
    {
        // Many numbers stay in registers: a load for each would take as long as memory does.
        // SAFETY: each operand has a block.
        let mut numbers = [R::splat(T::ZERO); N];
        for (number, x) in numbers.iter_mut().zip(&x) {
            // SAFETY: each operand has a block.
            *number = R::load(unsafe { &*x.cast::<[T; W]>() });
        }
        for number in 0..count {
            // SAFETY: the first operand and the results have `count` blocks.
            let (elements, y) = unsafe {
                (
                    &*x[0].add(number * W).cast::<[T; W]>(),
                    &mut *y.add(number * W).cast::<[MaybeUninit<T>; W]>(),
                )
            };
            no_outer_vectorization();
            block_with_numbers::<T, R, F, N, W>(f, elements, numbers, y);
        }
        return;
    }
    // Nothing is counted up but the number of the block: places that advance by themselves were
    // kept in memory in a program compiled in many units, and each waited for its last store.
    for number in 0..count {
        // SAFETY: an operand that advances has `count` blocks, another one. (A loop: a closure
        // would be compiled without the instruction set of the kernel.)
        let mut all: [&[T; W]; N] = [unsafe { &*x[0].add(number * step[0]).cast() }; N];
        for i in 1..N {
            // SAFETY: as above.
            all[i] = unsafe { &*x[i].add(number * step[i]).cast() };
        }
        // SAFETY: there are `count` blocks of results, where no operand is.
        let y = unsafe { &mut *y.add(number * W).cast::<[MaybeUninit<T>; W]>() };
        no_outer_vectorization();
        if const { LIGHT } {
            prefetch_l1(y.as_ptr().wrapping_add(PREFETCH_DISTANCE_ELEMENTS));
        }
        if !f.near(&all, y) {
            block::<T, R, F, N, W>(f, all, y);
        }
    }
}

/// The blocks of a float formula.
struct FloatBlocks<'a, T, M, const N: usize>(M, &'a Blocks<T>);

impl<T: SimdFloat, F: Map<N>, const N: usize> LaneKernel for FloatBlocks<'_, T, F, N> {
    type T = T;
    // A light formula waits for memory anyway.
    const AVX512_F64: bool = !F::HINTS.light;
    #[inline(always)]
    #[allow(unsafe_code, reason = "blocks of operands by their place")]
    fn run<M: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
        // SAFETY: made by `float_blocks` alone, whose caller vouches for the blocks;
        // `float_shape` says the same sizes.
        if const { F::HINTS.light } {
            unsafe { blocks::<T, S, _, N, LIGHT_BLOCK, true>(Floats(self.0), self.1) }
        } else if const { size_of::<T>() == 4 && M::WIDTH <= LIGHT_BLOCK } {
            unsafe { blocks::<T, S, _, N, LIGHT_BLOCK, false>(Floats(self.0), self.1) }
        } else {
            unsafe { blocks::<T, M, _, N, BLOCK, false>(Floats(self.0), self.1) }
        }
    }
}

/// A float formula's blocks, as [`float_shape`] says.
///
/// # Safety
/// As [`BlockFormula::blocks`].
#[inline]
#[allow(unsafe_code, reason = "blocks of operands by their place")]
pub unsafe fn float_blocks<T: SimdFloat, M: Map<N>, const N: usize>(isa: Isa, m: M, b: &Blocks<T>) {
    run_lanes(isa, FloatBlocks(m, b));
}

/// The shape of a float formula's loop. Except by AVX-512, few registers of f32 are as fast as
/// many, and a small tensor is soon done.
#[inline]
pub fn float_shape<T: SimdFloat, M: Map<N>, const N: usize>(isa: Isa) -> LoopShape {
    let light = M::HINTS.light;
    let few = light || size_of::<T>() == 4 && !folds_in_registers::<T>(isa);
    LoopShape { operands: N, block: if few { LIGHT_BLOCK } else { BLOCK }, light }
}

/// Blocks of an integer formula.
struct IntBlocks<'a, T, M, const N: usize, const W: usize>(M, &'a Blocks<T>);

impl<T: Element + Int, M: IntMap<N>, const N: usize, const W: usize> Kernel for IntBlocks<'_, T, M, N, W> {
    type Out = ();
    #[inline(always)]
    #[allow(unsafe_code, reason = "blocks of operands by their place")]
    fn run(self) {
        // SAFETY: made by `int_blocks` alone, whose caller vouches for the blocks.
        unsafe { blocks::<T, PlainElement<T>, _, N, W, false>(Ints(self.0), self.1) };
    }
}

/// An integer formula's blocks of [`BLOCK`] elements.
///
/// # Safety
/// As [`BlockFormula::blocks`].
#[inline]
#[allow(unsafe_code, reason = "blocks of operands by their place")]
pub unsafe fn int_blocks<T: Element + Int, M: IntMap<N>, const N: usize>(isa: Isa, m: M, b: &Blocks<T>) {
    dispatch_formula::<T, _>(isa, IntBlocks::<T, M, N, BLOCK>(m, b));
}
