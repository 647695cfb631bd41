//! Tree reduction of long strided rows, many rows at a time, read in place or converted term by
//! term.
//!
//! The tree of the canonical order is walked depth first: a leaf is one of the 128 lanes, a chain
//! over every 128th term, and the two halves of a subtree are joined in the buffer of the left one.
//! So partial sums stay in L1, and each access covers much of a cache line and page.

use super::layout::RowGrid;
use super::{ColumnOperand, targets};
use crate::CpuDevice;
use crate::reduce::combine::Combine;
use crate::reduce::plan::ColumnFold;
use crate::reduce::plan::thresholds::{
    FOLD_NS_PER_ELEMENT, TREE_FEW_COLUMNS, TREE_MAX_COLUMNS, TREE_SHARED_MAX_COLUMNS,
};
use crate::reduce::source::{ReduceElement, offset};
use crate::runtime::memory::{PooledVec, filled, with_capacity};
use crate::runtime::output::column_blocks::{BlockedMatrices, fill_column_blocks};
use crate::runtime::parallel::try_for_each_piece;
use elinvar_core::order::{BLOCK, LANES};
use elinvar_core::{HostVec, Result, host};
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use std::marker::PhantomData;

/// Shares of the lanes.
const LANE_SHARES: usize = 8;

/// The fold of each row.
pub(crate) fn fold<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &ColumnOperand<'_, T>,
    grid: &RowGrid,
    path: ColumnFold,
) -> Result<HostVec<T>> {
    let RowGrid { matrices, columns, n, .. } = *grid;
    let (rows, blocks) = (matrices * columns, n.div_ceil(BLOCK));
    if let ColumnFold::TreeOfSharedLanes = path {
        return by_lanes::<T, F>(d, x, columns, n);
    }
    if let ColumnFold::Tree { columns_per_task: width } = path {
        let column_blocks = BlockedMatrices { count: matrices, rows: 1, columns, width };
        return fill_column_blocks(d, column_blocks, n as f64 * FOLD_NS_PER_ELEMENT, &|column_blocks| {
            let mut walk = TreeWalk::<T, F>::new(d.isa(), x, n, TREE_MAX_COLUMNS)?;
            walk.block(x, 0, n);
            while let Some(column_block) = column_blocks.next() {
                walk.at(x, column_block.matrix, column_block.column, column_block.width);
                column_blocks.row(|dst| dst.copy(walk.folded(0, 1)));
            }
            Ok(())
        });
    }
    // Threads share the blocks.
    let mut parts = PooledVec::of(filled(blocks * rows, F::init())?);
    try_for_each_piece(d, &mut parts, rows, BLOCK as f64 * FOLD_NS_PER_ELEMENT, &|at, part| {
        let (mut walk, start) = (TreeWalk::<T, F>::new(d.isa(), x, n, TREE_MAX_COLUMNS)?, at / rows * BLOCK);
        walk.block(x, start, BLOCK.min(n - start));
        for (matrix, part) in part.chunks_mut(columns).enumerate() {
            for (number, part) in part.chunks_mut(TREE_MAX_COLUMNS).enumerate() {
                walk.at(x, matrix, number * TREE_MAX_COLUMNS, part.len());
                part.copy_from_slice(walk.folded(0, 1));
            }
        }
        Ok(())
    })?;
    join::<T, F>(d.isa(), &mut parts, blocks, rows, rows);
    // A result of its own: it should not hold the memory of all blocks.
    let mut y = with_capacity(rows)?;
    y.extend_from_slice(&parts[..rows]);
    Ok(y)
}

/// The fold of each column of one matrix, of whose lanes each thread has some. So rows are read
/// whole, page by page, and threads have as much to do as each other, where whole columns for each
/// thread would touch every page in every thread.
fn by_lanes<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &ColumnOperand<'_, T>,
    columns: usize,
    n: usize,
) -> Result<HostVec<T>> {
    let blocks = n.div_ceil(BLOCK);
    let column_blocks =
        BlockedMatrices { count: blocks * LANE_SHARES, rows: 1, columns, width: TREE_SHARED_MAX_COLUMNS };
    let ns = BLOCK.min(n) as f64 / LANE_SHARES as f64 * FOLD_NS_PER_ELEMENT;
    let mut parts = PooledVec::of(fill_column_blocks(d, column_blocks, ns, &|column_blocks| {
        let (mut walk, mut block) =
            (TreeWalk::<T, F>::new(d.isa(), x, n, TREE_SHARED_MAX_COLUMNS)?, usize::MAX);
        while let Some(column_block) = column_blocks.next() {
            if block != column_block.matrix / LANE_SHARES {
                block = column_block.matrix / LANE_SHARES;
                walk.block(x, block * BLOCK, BLOCK.min(n - block * BLOCK));
            }
            walk.at(x, 0, column_block.column, column_block.width);
            column_blocks.row(|dst| dst.copy(walk.folded(column_block.matrix % LANE_SHARES, LANE_SHARES)));
        }
        Ok(())
    })?);
    for block in parts.chunks_exact_mut(LANE_SHARES * columns) {
        let mut half = LANE_SHARES / 2;
        while half > 0 {
            let (left, right) = block.split_at_mut(half * columns);
            let right = &right[..half * columns];
            dispatch(d.isa(), JoinHalves { left, right, f: PhantomData::<F> });
            half /= 2;
        }
    }
    join::<T, F>(d.isa(), &mut parts, blocks, columns, LANE_SHARES * columns);
    let mut y = with_capacity(columns)?;
    y.extend_from_slice(&parts[..columns]);
    Ok(y)
}

/// Results of blocks, each the first `rows` of `row_stride`, joined pairwise in the order of the
/// blocks, in the first.
fn join<T: Copy, F: Combine<T>>(isa: Isa, parts: &mut [T], blocks: usize, rows: usize, row_stride: usize) {
    if blocks > 1 {
        let half = blocks.next_power_of_two() / 2;
        let (left, right) = parts.split_at_mut(half * row_stride);
        join::<T, F>(isa, left, half, rows, row_stride);
        join::<T, F>(isa, right, blocks - half, rows, row_stride);
        dispatch(isa, JoinHalves { left: &mut left[..rows], right: &right[..rows], f: PhantomData::<F> });
    }
}

/// A walk through the tree of a block, for some rows.
struct TreeWalk<'a, T, F> {
    isa: Isa,
    x: &'a ColumnOperand<'a, T>,
    /// Where the block's terms lie, from a row's first.
    places: Vec<isize>,
    len: usize,
    /// Where the first row's first term lies, and how many rows there are.
    base: usize,
    width: usize,
    /// Room for each level of the tree, and for a term of all rows that is converted.
    stack: HostVec<T>,
    converted: HostVec<T>,
    f: PhantomData<F>,
}

impl<'a, T: ReduceElement, F: Combine<T>> TreeWalk<'a, T, F> {
    fn new(isa: Isa, x: &'a ColumnOperand<'a, T>, n: usize, wide: usize) -> Result<Self> {
        debug_assert!(x.step == 1, "rows lie side by side");
        let levels = LANES.ilog2() as usize + 1;
        Ok(TreeWalk {
            isa,
            x,
            places: host::filled(BLOCK.min(n), 0)?,
            len: 0,
            base: 0,
            width: 0,
            stack: filled(levels * wide, F::init())?,
            converted: filled(if x.own.is_some() { 0 } else { wide }, F::init())?,
            f: PhantomData,
        })
    }
    /// From now on the terms from number `start` on, so many.
    fn block(&mut self, x: &ColumnOperand<'_, T>, start: usize, len: usize) {
        self.len = len;
        x.places(start, &mut self.places[..len]);
    }
    /// From now on these rows.
    fn at(&mut self, x: &ColumnOperand<'_, T>, matrix: usize, column: usize, width: usize) {
        self.base = x.first.wrapping_add_signed(offset(&x.outer, matrix)) + column;
        self.width = width;
    }
    /// The fold of one of so many shares of the lanes. One that has no term is what changes none.
    fn folded(&mut self, share: usize, shares: usize) -> &[T] {
        if share >= self.len {
            self.stack[..self.width].fill(F::init());
            return &self.stack[..self.width];
        }
        let mut stack = std::mem::take(&mut self.stack);
        let mut converted = std::mem::take(&mut self.converted);
        self.lanes(share, shares, &mut stack, &mut converted);
        (self.stack, self.converted) = (stack, converted);
        &self.stack[..self.width]
    }
    /// The lanes `lane`, `lane + step`, ... in the first level of the stack.
    fn lanes(&self, lane: usize, step: usize, stack: &mut [T], converted: &mut [T]) {
        if let Some(all) = self.x.own
            && step == LANES / EightLanes::<T, F>::COUNT
            && self.width <= TREE_FEW_COLUMNS
        {
            let (acc, places) = (&mut stack[..self.width], &self.places[..self.len]);
            return dispatch(
                self.isa,
                EightLanes { acc, all, base: self.base, places, lane, f: PhantomData::<F> },
            );
        }
        if step == LANES {
            let (acc, places) = (&mut stack[..self.width], &self.places[lane..self.len]);
            acc.fill(F::init());
            if let Some(all) = self.x.own {
                return dispatch(
                    self.isa,
                    LeafSum { acc, all, base: self.base, places, f: PhantomData::<F> },
                );
            }
            let terms = places.iter().copied().step_by(LANES);
            if F::add_f16_terms(self.isa, self.x.data, self.base, terms, acc) {
                return;
            }
            for &place in places.iter().step_by(LANES) {
                let (at, term) = (self.base.wrapping_add_signed(place), &mut converted[..self.width]);
                T::load(self.isa, self.x.data, at, 1, term);
                dispatch(self.isa, JoinHalves { left: &mut *acc, right: term, f: PhantomData::<F> });
            }
            return;
        }
        self.lanes(lane, 2 * step, stack, converted);
        // A lane without a term takes no part.
        if lane + step < self.len {
            let (left, right) = stack.split_at_mut(self.width);
            self.lanes(lane + step, 2 * step, right, converted);
            dispatch(self.isa, JoinHalves { left, right: &right[..self.width], f: PhantomData::<F> });
        }
    }
}

/// A subtree of lanes, each as many behind the one before as there are subtrees. Of 64 rows of 256
/// terms a call for each lane took twice as long.
struct EightLanes<'a, T, F> {
    acc: &'a mut [T],
    all: &'a [T],
    base: usize,
    /// Of all terms of the block.
    places: &'a [isize],
    lane: usize,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> EightLanes<'_, T, F> {
    const COUNT: usize = 8;
    /// Rows of which a register of lanes is held.
    const PART_ROWS: usize = 16;
    /// The subtree of up to `PART_ROWS` rows from the one whose first element lies at `base` on.
    /// (Lanes without a term hold what changes nothing.)
    #[inline(always)]
    fn part(&self, base: usize, width: usize) -> [T; 16] {
        let mut lanes = [[F::init(); 16]; 8];
        for terms in self.places.chunks(LANES) {
            for (j, lane) in lanes.iter_mut().enumerate() {
                let Some(&place) = terms.get(self.lane + LANES / Self::COUNT * j) else { continue };
                let terms = &self.all[base.wrapping_add_signed(place)..];
                let mut both = *lane;
                match terms.first_chunk::<16>() {
                    Some(terms) => {
                        for l in 0..16 {
                            both[l] = F::combine(both[l], terms[l]);
                        }
                    }
                    None => {
                        for l in 0..width {
                            both[l] = F::combine(both[l], terms[l]);
                        }
                    }
                }
                *lane = both;
            }
        }
        let mut half = Self::COUNT / 2;
        while half > 0 {
            for j in 0..half {
                let [mut left, right] = [lanes[j], lanes[j + half]];
                for l in 0..16 {
                    left[l] = F::combine(left[l], right[l]);
                }
                lanes[j] = left;
            }
            half /= 2;
        }
        lanes[0]
    }
}

impl<T: Copy, F: Combine<T>> Kernel for EightLanes<'_, T, F> {
    type Out = ();
    const TARGETS: IsaTargets = targets::<T>();
    #[inline(always)]
    fn run(mut self) {
        let acc = std::mem::take(&mut self.acc);
        let mut base = self.base;
        for acc in acc.chunks_mut(Self::PART_ROWS) {
            let part = self.part(base, acc.len());
            acc.copy_from_slice(&part[..acc.len()]);
            base += Self::PART_ROWS;
        }
    }
}

/// The right half of a tree joins the left.
struct JoinHalves<'a, T, F> {
    left: &'a mut [T],
    right: &'a [T],
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for JoinHalves<'_, T, F> {
    type Out = ();
    const TARGETS: IsaTargets = targets::<T>();
    #[inline(always)]
    fn run(self) {
        for (a, &b) in self.left.iter_mut().zip(self.right) {
            *a = F::combine(*a, b);
        }
    }
}

/// Every 128th term, in order, added to `acc`.
struct LeafSum<'a, T, F> {
    acc: &'a mut [T],
    all: &'a [T],
    base: usize,
    places: &'a [isize],
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for LeafSum<'_, T, F> {
    type Out = ();
    const TARGETS: IsaTargets = targets::<T>();
    #[inline(always)]
    fn run(self) {
        /// Terms that are added while a sum is in a register.
        const TERMS_PER_PASS: usize = 4 * LANES;
        let width = self.acc.len();
        let row = |place: isize| {
            let at = self.base.wrapping_add_signed(place);
            &self.all[at..at + width]
        };
        for places in self.places.chunks(TERMS_PER_PASS) {
            if places.len() > 3 * LANES {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| row(places[i * LANES]));
                for ((((acc, &a), &b), &c), &d) in self.acc.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                    *acc = F::combine(F::combine(F::combine(F::combine(*acc, a), b), c), d);
                }
            } else {
                for &place in places.iter().step_by(LANES) {
                    for (acc, &x) in self.acc.iter_mut().zip(row(place)) {
                        *acc = F::combine(*acc, x);
                    }
                }
            }
        }
    }
}
