//! c = a * b or c += a * b, for a chunk of terms, where the rows of a are windows over padded planes, read as they lie, and b is packed.
//!
//! What windows that follow one another see under a tap are neighbours in a padded plane, up to the end of a row of windows. So a
//! tile as high as a run of windows has one address for all of its rows, and nothing is packed but weights. A register holds
//! output channels, and whole ones at that, however short rows of windows are.
#![allow(unsafe_code, reason = "vector loads and stores without a check for each")]

use super::ahead::{Ahead, Soon};
use super::tile::{Kind, Panel, Side, Tile, in_place, in_registers_of};
use crate::gemm::Real;
use crate::isa::Isa;
use crate::simd::quad::Quad;
use crate::simd::vector::{InRegisters, Vector};
use elinvar_core::order::CHUNK;
use std::ops::Range;

/// Windows that follow one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Where the first one sees a term at place 0.
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// Where terms lie, seen from place 0.
pub(crate) struct Places {
    all: Vec<usize>,
    /// The farthest.
    most: usize,
}

impl Places {
    pub(crate) fn new(all: Vec<usize>) -> Places {
        Places { most: all.iter().copied().max().unwrap_or(0), all }
    }
}

/// Windows and what they see.
pub(crate) struct Rows<'a, T> {
    /// Padded planes.
    pub(crate) x: &'a [T],
    /// Of all terms, of which these are multiplied.
    pub(crate) places: &'a Places,
    pub(crate) terms: Range<usize>,
    /// The rows.
    pub(crate) runs: &'a [Run],
}

/// A chunk's part of a product with a panel.
pub(crate) struct Pixels<'a, T> {
    pub(crate) a: Rows<'a, T>,
    /// The panel.
    pub(crate) panel: &'a [T],
    /// The one that will be next, or nothing.
    pub(crate) next: &'a [T],
    /// Columns of the panel that count.
    pub(crate) cols: usize,
    /// The result: `cols` numbers of each row, `step` apart.
    pub(crate) c: &'a mut [T],
    pub(crate) step: usize,
    /// Is it the first chunk: the result is stored, not added?
    pub(crate) first: bool,
    pub(crate) kind: Kind,
}

/// Multiplies.
///
/// # Panics
/// If something is shorter than it should be.
pub(crate) fn pixels<T: Real>(isa: Isa, block: Pixels<'_, T>) {
    let (w, a) = (super::width::<T>(isa), &block.a);
    let k = a.terms.len();
    let rows: usize = a.runs.iter().map(|run| run.count).sum();
    if rows == 0 || block.cols == 0 {
        return;
    }
    assert!((1..=CHUNK).contains(&k) && a.terms.end <= a.places.all.len(), "a chunk has terms");
    assert!(block.cols <= w && k * w <= block.panel.len(), "the panel is too short");
    assert!((rows - 1) * block.step + block.cols <= block.c.len(), "the result is too short");
    let end = a.runs.iter().map(|run| run.from + run.count).max().expect("there are rows");
    assert!(end.checked_add(a.places.most).is_some_and(|end| end <= a.x.len()), "a window leaves its planes");
    in_registers_of(block.kind, isa, Tiles(block));
}

/// A block whose lengths have been checked, by `pixels` alone.
struct Tiles<'a, T>(Pixels<'a, T>);

impl<T: Real> InRegisters for Tiles<'_, T> {
    type T = T;
    #[inline(always)]
    unsafe fn run<V: Quad<T = T>>(self) {
        let Pixels { a: Rows { x, places, terms, runs }, panel, next, cols, c, step, first, .. } = self.0;
        let (places, k, w) = (&places.all[terms.clone()], terms.len(), 2 * V::LANES);
        let mut c = c.as_mut_ptr();
        let mut ahead = Ahead::of::<V>((next.len() >= k * w).then_some(next.as_ptr()), k);
        for run in runs {
            let mut i = 0;
            while i < run.count {
                // SAFETY: `pixels` checked that windows, terms and the panel are there, and that the result has as many rows as
                // all runs. The instructions are there: our caller's.
                i += unsafe {
                    let a = Windows::<V> { places: places.as_ptr(), from: x.as_ptr().add(run.from + i) };
                    let at = panel.as_ptr();
                    let soon = ahead.some(k).unwrap_or(Soon::nothing(at));
                    let b = Panel::<V> { at, next: w, across: 0, soon };
                    let before = in_place(c, step, first);
                    let done = Tile { a, b, k, c, step, cols, before }.next(run.count - i);
                    c = c.wrapping_add(done * step);
                    done
                };
            }
        }
    }
}

/// Windows that follow one another, as rows.
#[derive(Clone, Copy)]
struct Windows<V: Vector> {
    /// That of the next term.
    places: *const usize,
    from: *const V::T,
}

impl<V: Vector> Side<V> for Windows<V> {
    const TALL: bool = true;
    const EVEN: bool = true;
    #[inline(always)]
    unsafe fn number(self, r: usize, t: usize) -> V::T {
        // SAFETY: the caller's.
        unsafe { *self.from.add(*self.places.add(t) + r) }
    }
    #[inline(always)]
    unsafe fn step(&mut self, terms: usize) {
        self.places = self.places.wrapping_add(terms);
    }
}
