//! Updates in place (optimiser steps) as objects: compiled once, in the crate that defines them,
//! for the reasons of [`crate::compiled`].

use crate::compiled::{FormulaKey, first};
use crate::dispatch::{LaneKernel, ReduceLanes, SimdFloat, SimdLanes, run_lanes};
use crate::isa::Isa;
use crate::scalar_lane::ScalarLane;
use elinvar_lane::formula::Update;
use elinvar_lane::lane::Lane;
use elinvar_lane::recorded::{Expression, Recorded};
use std::fmt::Debug;

/// The loops of an update over contiguous elements of one type, all of one length.
pub trait UpdateLoops<T>: Send + Sync {
    /// Changes the elements `x`, reading as many of each of `read`.
    ///
    /// # Panics
    /// If the lengths differ, or there are not as many operands as the formula has.
    fn run(&self, isa: Isa, x: &mut [&mut [T]], read: &[&[T]]);
    /// The definition: the formula at each element, one after the other.
    fn plain(&self, x: &mut [&mut [T]], read: &[&[T]]);
}

/// An update as an object.
pub trait UpdateObject: UpdateLoops<f32> + UpdateLoops<f64> + Debug {
    /// Its name.
    fn name(&self) -> &'static str;
    /// How many operands change.
    fn changes(&self) -> usize;
    /// How many operands are read only.
    fn reads(&self) -> usize;
    /// What tells it from others.
    fn key(&self) -> FormulaKey;
    /// The update on recorded numbers: from (operands that change.., operands that are read..) to
    /// the new values of the former.
    fn recorded(&self, x: &[Recorded]) -> Vec<Recorded>;
}

impl dyn UpdateObject + '_ {
    /// The operations, from (operands that change.., operands that are read..) to the new values
    /// of the former, for floats of `bits`: 32 or 64.
    pub fn record(&self, bits: u32) -> Expression {
        Expression::record(bits, self.changes() + self.reads(), &|x| self.recorded(x))
    }
}

/// An update of `M` operands by `R` together with its compiled code.
#[derive(Clone, Copy, Debug)]
pub struct Updating<U, const M: usize, const R: usize>(pub U);

/// An update that is compiled where [`compile_update!`](crate::compile_update) names it.
pub trait CompiledUpdate<const M: usize, const R: usize>: Update<M, R> {
    /// The update as an object.
    fn object(f: &Updating<Self, M, R>) -> &dyn UpdateObject;
}

/// `compile_update! { 1 2 Ema; }`: compiles these updates here, each with the numbers of operands
/// that it changes and reads.
#[macro_export]
macro_rules! compile_update {
    ($($m:literal $r:literal $u:ty;)*) => {$(
        impl $crate::compiled_update::CompiledUpdate<$m, $r> for $u {
            // Inlined, it would be compiled once more wherever it is called.
            #[inline(never)]
            fn object(
                f: &$crate::compiled_update::Updating<Self, $m, $r>,
            ) -> &dyn $crate::compiled_update::UpdateObject {
                f
            }
        }
    )*};
}

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
    fn run<F: ReduceLanes<T>, S: SimdLanes<T> + Lane>(self) {
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

/// The operands of an update, which are of one length.
fn operands<'a, T, const M: usize, const R: usize>(
    x: &'a mut [&mut [T]],
    read: &[&'a [T]],
) -> ([&'a mut [T]; M], [&'a [T]; R]) {
    let x: &mut [&mut [T]; M] = x.try_into().expect("an update is given what it changes");
    let read: [&[T]; R] = read.try_into().expect("an update is given what it reads");
    let n = x[0].len();
    let same = x.iter().all(|x| x.len() == n) && read.iter().all(|r| r.len() == n);
    assert!(same, "operands of an update have one length");
    (x.each_mut().map(|x| &mut **x), read)
}

impl<U: Update<M, R>, T: SimdFloat, const M: usize, const R: usize> UpdateLoops<T> for Updating<U, M, R> {
    fn run(&self, isa: Isa, x: &mut [&mut [T]], read: &[&[T]]) {
        if !isa.has_kernels() {
            return self.plain(x, read);
        }
        let (x, read) = operands(x, read);
        run_lanes(isa, UpdateKernel(self.0, x, read));
    }
    fn plain(&self, x: &mut [&mut [T]], read: &[&[T]]) {
        let (mut x, read) = operands::<T, M, R>(x, read);
        for i in 0..x[0].len() {
            let new = self.0.lane(x.each_ref().map(|x| x[i]), read.map(|r| r[i]));
            for (x, new) in x.iter_mut().zip(new) {
                x[i] = new;
            }
        }
    }
}

impl<U: Update<M, R>, const M: usize, const R: usize> UpdateObject for Updating<U, M, R> {
    fn name(&self) -> &'static str {
        U::NAME
    }
    fn changes(&self) -> usize {
        M
    }
    fn reads(&self) -> usize {
        R
    }
    fn key(&self) -> FormulaKey {
        FormulaKey::of(&self.0)
    }
    fn recorded(&self, x: &[Recorded]) -> Vec<Recorded> {
        const { assert!(M > 0, "an update changes something") };
        self.0.lane(first(x), first(&x[M..])).to_vec()
    }
}

/// A type in which updates are computed.
pub trait UpdateFloat: SimdFloat {
    /// The update's loops.
    fn update_loops(u: &dyn UpdateObject) -> &dyn UpdateLoops<Self>;
}

macro_rules! update_float {
    ($($t:ty)*) => {$(
        impl UpdateFloat for $t {
            fn update_loops(u: &dyn UpdateObject) -> &dyn UpdateLoops<$t> {
                u
            }
        }
    )*};
}
update_float! { f32 f64 }
