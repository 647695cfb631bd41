//! Folds of many rows side by side, where neighbours in memory belong to different rows: a sum over the columns of a
//! matrix.
//!
//! The tree of the canonical order is walked depth first, for a group of columns at once: a leaf is one of the 128 lanes,
//! a chain over every 128th term; the two halves of the tree meet in the buffer of the left one. Each element is read
//! once, and what waits for its neighbour is one group of columns per level of the tree.

use super::lanes::Combine;
use super::stage::{Axis, Number, joined, offset};
use crate::CpuDevice;
use crate::View;
use crate::isa::{Isa, Kernel, dispatch};
use crate::memory::filled;
use crate::parallel::try_pieces;
use elinvar_core::host;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{HostData, HostVec, Result};
use std::marker::PhantomData;

/// Columns that go side by side at most: eight levels of the tree, of f32, fill half of a first-level cache.
const WIDE: usize = 512;
/// Fewer columns than this are not worth the walk.
const FEW: usize = 8;
/// Columns that a thread takes at least, so that it reads whole cache lines, and several in a row.
const NARROW: usize = 64;

/// A view whose last kept axis is the innermost one in memory.
pub(crate) struct Columns<'a, T> {
    data: &'a HostData,
    own: Option<&'a [T]>,
    first: usize,
    /// The kept axes before the columns.
    outer: Vec<Axis>,
    /// Columns side by side in memory.
    columns: usize,
    /// The axes that are folded.
    reduced: Vec<Axis>,
}

impl<'a, T: Number> Columns<'a, T> {
    /// The view in columns, if it lies so.
    pub fn new(what: &str, x: &View<'a>, kept: usize) -> Result<Option<Self>> {
        // Checks the type.
        super::stage::Stage::<T>::new(what, x)?;
        let (sizes, strides) = (x.layout.shape().dims(), x.layout.strides());
        let mut outer = joined(&sizes[..kept], &strides[..kept]);
        let reduced = joined(&sizes[kept..], &strides[kept..]);
        let Some((columns, 1)) = outer.pop() else { return Ok(None) };
        if columns < FEW || reduced.last().is_none_or(|r| r.1 == 1) {
            return Ok(None);
        }
        let (own, first) = (T::slice(x.buffer), x.layout.offset());
        Ok(Some(Columns { data: x.buffer, own, first, outer, columns, reduced }))
    }
    /// `width` columns of one term.
    #[inline]
    fn load(&self, at: usize, width: usize, buffer: &mut [T]) {
        T::load(self.data, at, 1, &mut buffer[..width]);
    }
}

/// Folds each column's `n` terms.
pub(crate) fn fold<T: Number, F: Combine<T>>(
    d: &CpuDevice,
    x: &Columns<'_, T>,
    n: usize,
    out: &mut [T],
) -> Result<()> {
    let how = How {
        start: F::start(),
        meet: |isa, left, right| dispatch(isa, Meet { left, right, f: PhantomData::<F> }),
        leaf: |isa, acc, data, base, places| {
            dispatch(isa, Leaf { acc, data, base, places, f: PhantomData::<F> });
        },
        tree: match const { F::LIGHT } {
            true => Some(|isa, acc, data, base, places| {
                dispatch(isa, Tree(Leaf { acc, data, base, places, f: PhantomData::<F> }));
            }),
            false => None,
        },
    };
    folded(d, x, n, out, how)
}

/// How columns are folded: what is compiled for each way and each instruction set, so that the walk is for each type alone.
#[derive(Clone, Copy)]
struct How<T> {
    start: T,
    /// The right numbers join the left.
    meet: fn(Isa, &mut [T], &[T]),
    /// Adds to the first numbers, from the second, behind this place, every 128th of these.
    leaf: fn(Isa, &mut [T], &[T], usize, &[isize]),
    /// The first numbers become the folds of all of these; where what is folded needs few registers.
    tree: Option<fn(Isa, &mut [T], &[T], usize, &[isize])>,
}

fn folded<T: Number>(d: &CpuDevice, x: &Columns<'_, T>, n: usize, out: &mut [T], how: How<T>) -> Result<()> {
    let blocks = n.div_ceil(BLOCK);
    // Groups for all threads, if there are so many columns.
    let piece = (out.len() / (2 * d.threads())).next_multiple_of(NARROW).clamp(NARROW, WIDE);
    if blocks > 1 && out.len() < piece * d.threads() {
        return by_blocks(d, x, n, out, how);
    }
    try_pieces(d, out, piece, n as f64 * 0.2, &|start, part| {
        let mut walk = Walk::new(d, x, n, piece.min(part.len()), blocks, how)?;
        let mut done = 0;
        while done < part.len() {
            let (row, column) = ((start + done) / x.columns, (start + done) % x.columns);
            let width = (x.columns - column).min(part.len() - done);
            walk.at(row, column, width);
            let mut stack = std::mem::take(&mut walk.stack);
            walk.blocks(0, blocks, &mut stack);
            part[done..done + width].copy_from_slice(&stack[..width]);
            walk.stack = stack;
            done += width;
        }
        Ok(())
    })
}

/// Few columns and many terms: threads share the blocks.
fn by_blocks<T: Number>(
    d: &CpuDevice,
    x: &Columns<'_, T>,
    n: usize,
    out: &mut [T],
    how: How<T>,
) -> Result<()> {
    let (blocks, wide) = (n.div_ceil(BLOCK), out.len());
    let mut all = filled(blocks * wide, how.start)?;
    try_pieces(d, &mut all, wide, BLOCK as f64 * 0.2, &|start, part| {
        let mut walk = Walk::new(d, x, n, wide, 1, how)?;
        let mut done = 0;
        while done < wide {
            let (row, column) = (done / x.columns, done % x.columns);
            let width = x.columns - column;
            walk.at(row, column, width);
            let mut stack = std::mem::take(&mut walk.stack);
            walk.blocks(start / wide, 1, &mut stack);
            part[done..done + width].copy_from_slice(&stack[..width]);
            walk.stack = stack;
            done += width;
        }
        Ok::<(), elinvar_core::Error>(())
    })?;
    fn join<T: Copy>(d: &CpuDevice, all: &mut [T], blocks: usize, wide: usize, how: How<T>) {
        if blocks > 1 {
            let half = blocks.next_power_of_two() / 2;
            let (left, right) = all.split_at_mut(half * wide);
            join(d, left, half, wide, how);
            join(d, right, blocks - half, wide, how);
            let (left, right) = (&mut left[..wide], &right[..wide]);
            (how.meet)(d.isa(), left, right);
        }
    }
    join(d, &mut all, blocks, wide, how);
    out.copy_from_slice(&all[..wide]);
    Ok(())
}

/// A walk through the tree for one group of columns.
struct Walk<'a, T> {
    d: &'a CpuDevice,
    x: &'a Columns<'a, T>,
    n: usize,
    /// Where the terms of a block lie.
    places: Vec<isize>,
    /// Where the first term of the group lies.
    base: usize,
    /// Columns in the group.
    width: usize,
    /// Room for each level of the tree.
    stack: HostVec<T>,
    /// One term, converted.
    row: HostVec<T>,
    how: How<T>,
}

impl<'a, T: Number> Walk<'a, T> {
    fn new(
        d: &'a CpuDevice,
        x: &'a Columns<'a, T>,
        n: usize,
        width: usize,
        blocks: usize,
        how: How<T>,
    ) -> Result<Self> {
        // Seven levels of lanes, and one for each doubling of the blocks.
        let levels = 9 + blocks.next_power_of_two().ilog2() as usize;
        Ok(Walk {
            d,
            x,
            n,
            places: host::filled(BLOCK.min(n), 0)?,
            base: 0,
            width: 0,
            stack: filled(levels * width, how.start)?,
            row: filled(if x.own.is_some() { 0 } else { width }, how.start)?,
            how,
        })
    }
    fn at(&mut self, row: usize, column: usize, width: usize) {
        self.base = self.x.first.wrapping_add_signed(offset(&self.x.outer, row)) + column;
        self.width = width;
    }
    /// The results of `count` blocks from `first` on, joined, in the first level of the stack.
    fn blocks(&mut self, first: usize, count: usize, stack: &mut [T]) {
        if count == 1 {
            let start = first * BLOCK;
            let len = BLOCK.min(self.n - start);
            let (inner, step) = self.x.reduced.last().copied().unwrap_or((1, 0));
            let outer = &self.x.reduced[..self.x.reduced.len().saturating_sub(1)];
            let (mut row, mut at) = (start / inner, start % inner);
            let mut base = offset(outer, row);
            for place in &mut self.places[..len] {
                if at == inner {
                    (row, at) = (row + 1, 0);
                    base = offset(outer, row);
                }
                *place = base + at as isize * step;
                at += 1;
            }
            return match (self.x.own, self.how.tree) {
                (Some(data), Some(tree)) if len <= LANES => {
                    tree(self.d.isa(), &mut stack[..self.width], data, self.base, &self.places[..len]);
                }
                _ => self.lanes(0, 1, len, stack),
            };
        }
        let half = count.next_power_of_two() / 2;
        self.blocks(first, half, stack);
        let (left, right) = stack.split_at_mut(self.width);
        self.blocks(first + half, count - half, right);
        self.meet(left, &right[..self.width]);
    }
    /// The lanes `lane`, `lane + step`, ... of a block of `len` terms, in the first level of the stack.
    fn lanes(&mut self, lane: usize, step: usize, len: usize, stack: &mut [T]) {
        if step == LANES {
            return self.leaf(lane, len, &mut stack[..self.width]);
        }
        self.lanes(lane, 2 * step, len, stack);
        // A lane without a term takes no part.
        if lane + step < len {
            let (left, right) = stack.split_at_mut(self.width);
            self.lanes(lane + step, 2 * step, len, right);
            self.meet(left, &right[..self.width]);
        }
    }
    fn meet(&self, left: &mut [T], right: &[T]) {
        (self.how.meet)(self.d.isa(), left, right);
    }
    /// One lane: every 128th term.
    fn leaf(&mut self, lane: usize, len: usize, acc: &mut [T]) {
        let (isa, base) = (self.d.isa(), self.base);
        acc.fill(self.how.start);
        let places = &self.places[lane..len];
        match self.x.own {
            Some(data) => (self.how.leaf)(isa, acc, data, base, places),
            None => {
                for &place in places.iter().step_by(LANES) {
                    self.x.load(base.wrapping_add_signed(place), self.width, &mut self.row);
                    (self.how.meet)(isa, acc, &self.row[..self.width]);
                }
            }
        }
    }
}

/// The right half of a tree joins the left.
struct Meet<'a, T, F> {
    left: &'a mut [T],
    right: &'a [T],
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for Meet<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (a, &b) in self.left.iter_mut().zip(self.right) {
            *a = F::two(*a, b);
        }
    }
}

/// All terms of a block that has one for each lane, at most. Of so few, a call for each lane and each meeting takes longer than what it does:
/// sums of 64 terms each of 64 columns took four times as long.
struct Tree<'a, T, F>(Leaf<'a, T, F>);

impl<T: Copy, F: Combine<T>> Kernel for Tree<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(mut self) {
        let (width, mut column) = (self.0.acc.len(), 0);
        while column + 64 <= width {
            self.some::<64>(column);
            column += 64;
        }
        while column + 8 <= width {
            self.some::<8>(column);
            column += 8;
        }
        while column < width {
            self.some::<1>(column);
            column += 1;
        }
    }
}

impl<T: Copy, F: Combine<T>> Tree<'_, T, F> {
    /// `W` columns from one on.
    #[inline(always)]
    fn some<const W: usize>(&mut self, column: usize) {
        let Leaf { acc, data, base, places, .. } = &mut self.0;
        let n = places.len();
        // Levels of the tree: what is above has nothing to its right.
        let levels = n.next_power_of_two().ilog2();
        // Lanes come in the order in which the tree is walked: their bits the other way round.
        let lane = |i: u64| (i.reverse_bits() >> 1 >> (u64::BITS - 1 - levels)) as usize;
        let mut stack = [[F::start(); W]; LANES.ilog2() as usize + 1];
        let mut depth = 0;
        for i in 0..1u64 << levels {
            if lane(i) < n {
                let at = base.wrapping_add_signed(places[lane(i)]) + column;
                let x = data[at..].first_chunk::<W>().expect("columns are there");
                for (y, x) in stack[depth].iter_mut().zip(x) {
                    *y = F::two(F::start(), *x);
                }
                depth += 1;
            }
            // Halves that are complete meet, if the right one has a lane.
            let mut right = 1;
            while i & right != 0 {
                if lane(i & !(right - 1)) < n {
                    depth -= 1;
                    let (left, right) = stack.split_at_mut(depth);
                    for (a, b) in left[depth - 1].iter_mut().zip(&right[0]) {
                        *a = F::two(*a, *b);
                    }
                }
                right <<= 1;
            }
        }
        acc[column..][..W].copy_from_slice(&stack[0]);
    }
}

/// Every 128th term, in order, added to `acc`.
struct Leaf<'a, T, F> {
    acc: &'a mut [T],
    data: &'a [T],
    base: usize,
    places: &'a [isize],
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for Leaf<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        /// Terms that are added while a sum is in a register.
        const TOGETHER: usize = 4 * LANES;
        let width = self.acc.len();
        let row = |place: isize| {
            let at = self.base.wrapping_add_signed(place);
            &self.data[at..at + width]
        };
        for places in self.places.chunks(TOGETHER) {
            if places.len() > 3 * LANES {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| row(places[i * LANES]));
                for ((((acc, &a), &b), &c), &d) in self.acc.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *acc = F::two(F::two(F::two(F::two(*acc, a), b), c), d);
                }
            } else {
                for &place in places.iter().step_by(LANES) {
                    for (acc, &x) in self.acc.iter_mut().zip(row(place)) {
                        *acc = F::two(*acc, x);
                    }
                }
            }
        }
    }
}
