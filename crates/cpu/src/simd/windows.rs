//! Formulas over contiguous operands, in windows: so many elements that the compiler makes straight vector code of them.
//!
//! An operand is elements that lie one after the other, or one number for all. Both are one loop: a number is a window of
//! copies, and the loop stays on it where it would go on to the next. So a formula is compiled once, and no row of copies is
//! written for a number.
//!
//! How it can be wrong: at the end, where there is no whole window. What is left goes through a small window that is filled up
//! with zeros, and what comes of those is thrown away.

use super::isa::Kernel;
use super::room::Room;
use elinvar_core::Element;
use std::mem::MaybeUninit;

/// Elements of a window, 1 KiB of f32: what a formula costs anew for each (its constants come to registers) is little beside
/// them. With 64, tanh and gelu took a tenth longer.
pub(crate) const WINDOW: usize = 256;
/// Elements of a window at the end: one register of AVX-512 of f32.
const FEW: usize = 16;

/// An operand of a formula.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a, T> {
    /// The elements, or a window of copies.
    data: &'a [T],
    /// From a window to the next: 1, or 0 for a number.
    step: usize,
}

impl<'a, T: Element> Piece<'a, T> {
    /// Nothing.
    pub(crate) const EMPTY: Piece<'a, T> = Piece { data: &[], step: 1 };
    /// Elements.
    pub(crate) fn of(data: &'a [T]) -> Self {
        Piece { data, step: 1 }
    }
    /// One number for all elements: as many copies as [`copies`] says, or more.
    pub(crate) fn number(copies: &'a [T]) -> Self {
        Piece { data: copies, step: 0 }
    }
    #[inline(always)]
    fn window(&self, number: usize) -> &'a [T; WINDOW] {
        &self.data.as_chunks().0[number * self.step]
    }
    /// The `n` elements from `at` on, in `room` unless there are so many behind them that they can be read where they lie.
    #[inline(always)]
    fn few<'b>(&self, at: usize, n: usize, room: &'b mut [T; FEW]) -> &'b [T; FEW]
    where
        'a: 'b,
    {
        let rest = &self.data[at * self.step..];
        match rest.first_chunk() {
            Some(all) => all,
            None => {
                room[..n].copy_from_slice(&rest[..n]);
                room
            }
        }
    }
}

/// How many copies of a number a formula on `n` elements reads.
pub(crate) fn copies(n: usize) -> usize {
    n.clamp(FEW, WINDOW)
}

/// A formula at one element. Unlike a closure, `lane` can be `#[inline(always)]`, and must be: in a function of its own it
/// would be compiled without the kernel's instruction set.
pub(crate) trait Lanes<T, const N: usize>: Copy {
    /// From the operands to the result.
    fn lane(&self, x: [T; N]) -> T;
}

/// A kernel that fills the room with a formula's results. The formula is held by value: attributes behind a reference would
/// be read anew for each element.
pub(crate) struct Windows<'a, 'r, T, F, const N: usize>(
    pub(crate) F,
    pub(crate) [Piece<'a, T>; N],
    pub(crate) &'a mut Room<'r, T>,
);

/// Element `j` of each operand.
#[inline(always)]
fn pick<T: Element, const N: usize, const W: usize>(x: &[&[T; W]; N], j: usize) -> [T; N] {
    let mut all = [T::ZERO; N];
    for (a, x) in all.iter_mut().zip(x) {
        *a = x[j];
    }
    all
}

/// A function of its own, because what is written is known to be apart from what is read by being an argument.
#[inline(always)]
fn window<T: Element, F: Lanes<T, N>, const N: usize, const W: usize>(
    f: F,
    x: [&[T; W]; N],
    y: &mut [MaybeUninit<T>; W],
) {
    for (j, y) in y.iter_mut().enumerate() {
        y.write(f.lane(pick(&x, j)));
    }
}

impl<T: Element, F: Lanes<T, N>, const N: usize> Kernel for Windows<'_, '_, T, F, N> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Windows(f, x, room) = self;
        let n = room.left();
        let (whole, rest) = room.unwritten().as_chunks_mut::<WINDOW>();
        for (number, y) in whole.iter_mut().enumerate() {
            let mut all = [x[0].window(number); N];
            for (all, x) in all.iter_mut().zip(&x) {
                *all = x.window(number);
            }
            window(f, all, y);
        }
        let mut at = whole.len() * WINDOW;
        for y in rest.chunks_mut(FEW) {
            let zeros = [T::ZERO; FEW];
            let (mut staged, mut all) = ([zeros; N], [&zeros; N]);
            for ((all, x), staged) in all.iter_mut().zip(&x).zip(&mut staged) {
                *all = x.few(at, y.len(), staged);
            }
            let mut results = [MaybeUninit::uninit(); FEW];
            window(f, all, &mut results);
            y.copy_from_slice(&results[..y.len()]);
            at += FEW;
        }
        room.count(n);
    }
}
