//! Column-wise folds: the sum over the columns of a matrix.
//!
//! Few terms that are read in place are combined in registers, those first that the tree joins
//! first; of many terms, or of terms that are converted or transposed, each joins its lane.

use super::{ColumnOperand, RowGroup, RowLanes, RowLanesVec, targets, tree};
use crate::CpuDevice;
use crate::machine::Machine;
use crate::reduce::combine::Combine;
use crate::reduce::plan::thresholds::{FOLD_NS_PER_ELEMENT, NARROW_MAX_ROWS};
use crate::reduce::plan::{self, ColumnFold, ColumnFoldPlan, ReduceProblem};
use crate::reduce::source::ReduceElement;
use crate::runtime::output::column_blocks::fill_column_blocks;
use crate::view::View;
use elinvar_core::order::LANES;
use elinvar_core::{HostVec, Result, host};
use elinvar_simd::isa::{Isa, IsaTargets, Kernel, dispatch};
use elinvar_simd::row_loop::TERM_CHUNK;
use std::marker::PhantomData;

/// The fold of each row of a view, of which the first `kept` axes are the rows, if these are better
/// taken side by side.
pub(crate) fn fold<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    what: &str,
    x: &View<'_>,
    kept: usize,
) -> Result<Option<HostVec<T>>> {
    match plan::column_fold(ReduceProblem::of::<T>(x, kept), &Machine::of(d)) {
        Some(plan) => planned_fold::<T, F>(d, what, x, &plan).map(Some),
        None => Ok(None),
    }
}

/// The fold of each row, side by side.
pub(crate) fn planned_fold<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    what: &str,
    x: &View<'_>,
    plan: &ColumnFoldPlan,
) -> Result<HostVec<T>> {
    let (grid, x) = (&plan.layout.grid, &plan.layout.operand::<T>(what, 0, x)?);
    let n = grid.n;
    match plan.path {
        path @ (ColumnFold::TreeOfSharedLanes | ColumnFold::Tree { .. } | ColumnFold::TreeOfSharedBlocks) => {
            tree::fold::<T, F>(d, x, grid, path)
        }
        ColumnFold::WholeRows => fill_column_blocks(
            d,
            grid.column_blocks(Some(1)),
            n as f64 * FOLD_NS_PER_ELEMENT,
            &|column_blocks| {
                let mut scratch = FoldScratch::new(x, n)?;
                while let Some(column_block) = column_blocks.next() {
                    let group = grid.group(column_block, 1);
                    let folded = scratch.block::<F>(d.isa(), x, group, 0, n);
                    column_blocks.row(|dst| dst.copy(group.own(folded)));
                }
                Ok(())
            },
        ),
    }
}

/// Buffers of a thread.
struct FoldScratch<T> {
    /// Terms that do not lie in memory as they are read.
    copied: RowLanesVec<T>,
    lanes: RowLanesVec<T>,
    /// Where terms lie, as many as are read at once.
    places: Vec<isize>,
}

impl<T: ReduceElement> FoldScratch<T> {
    fn new(x: &ColumnOperand<'_, T>, n: usize) -> Result<Self> {
        let few = n.min(LANES);
        let mut places = host::filled(few, 0)?;
        if x.is_in_place() {
            x.places(0, &mut places);
        } else {
            places.iter_mut().enumerate().for_each(|(i, place)| *place = (i * TERM_CHUNK) as isize);
        }
        let copied = RowLanesVec::new(if x.is_in_place() { 0 } else { few })?;
        Ok(FoldScratch { copied, lanes: RowLanesVec::new(few)?, places })
    }
    /// The fold of the `len` terms from number `start` on of each row of a group.
    fn block<F: Combine<T>>(
        &mut self,
        isa: Isa,
        x: &ColumnOperand<'_, T>,
        group: RowGroup,
        start: usize,
        len: usize,
    ) -> &RowLanes<T> {
        for first in (0..len).step_by(LANES) {
            let places = &self.places[..LANES.min(len - first)];
            let (all, base) = match x.own {
                Some(all) if x.is_in_place() => (all, x.base(group) as usize),
                _ => {
                    x.read(isa, group, start + first, &mut self.copied.all_mut()[..places.len()]);
                    (self.copied.all().as_flattened(), 0)
                }
            };
            let (width, lanes) = (group.all, self.lanes.all_mut());
            dispatch(isa, FoldStep { all, base, places, width, first, len, lanes, f: PhantomData::<F> });
        }
        &self.lanes.all()[0]
    }
}

/// Terms of a block, of which the first is number `first` of `len`, that join the lanes; with the
/// last of them, these are joined in the first.
struct FoldStep<'a, T, F> {
    all: &'a [T],
    /// Where the first row's first element lies, from there where its terms do, and how many rows
    /// there are.
    base: usize,
    places: &'a [isize],
    width: usize,
    first: usize,
    len: usize,
    lanes: &'a mut [RowLanes<T>],
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for FoldStep<'_, T, F> {
    type Out = ();
    const TARGETS: IsaTargets = targets::<T>();
    #[inline(always)]
    fn run(mut self) {
        if self.width <= NARROW_MAX_ROWS {
            self.columns::<NARROW_MAX_ROWS>()
        } else {
            self.columns::<TERM_CHUNK>()
        }
    }
}

impl<T: Copy, F: Combine<T>> FoldStep<'_, T, F> {
    #[inline(always)]
    fn columns<const W: usize>(&mut self) {
        // Of few terms the four that meet first are joined in registers.
        let few = (self.len <= LANES && self.len > 3).then(|| self.len.next_power_of_two() / 4);
        for i in 0..few.unwrap_or(self.places.len()) {
            let number = self.first + i;
            let mut lane = [F::init(); W];
            if number >= LANES {
                lane.copy_from_slice(&self.lanes[number % LANES][..W]);
            }
            combine_lanes::<T, F, W>(&mut lane, &self.own(i));
            if let Some(half) = few {
                self.join_lane_quarters::<W>(i, half, &mut lane);
            }
            self.lanes[number % LANES][..W].copy_from_slice(&lane);
        }
        if self.first + self.places.len() == self.len {
            let (lanes, count) = few.map_or((LANES, self.len), |half| (half, half));
            self.halve::<W>(lanes, count);
        }
    }
    /// Joins lane `i` of a quarter with those of the other three that meet it first.
    #[inline(always)]
    fn join_lane_quarters<const W: usize>(&self, i: usize, half: usize, lane: &mut [T; W]) {
        if i + 2 * half < self.len {
            combine_lanes::<T, F, W>(lane, &self.term(i + 2 * half));
        }
        let mut right = self.term::<W>(i + half);
        if i + 3 * half < self.len {
            combine_lanes::<T, F, W>(&mut right, &self.term(i + 3 * half));
        }
        combine_lanes::<T, F, W>(lane, &right);
    }
    /// Term `i` here, as it is.
    #[inline(always)]
    fn own<const W: usize>(&self, i: usize) -> [T; W] {
        let at = self.base.wrapping_add_signed(self.places[i]);
        match self.all[at..].first_chunk::<W>() {
            Some(all) => *all,
            None => {
                // What is behind the last rows is not theirs.
                let mut all = [F::init(); W];
                all[..self.width].copy_from_slice(&self.all[at..at + self.width]);
                all
            }
        }
    }
    /// A lane that begins with term `i` here.
    #[inline(always)]
    fn term<const W: usize>(&self, i: usize) -> [T; W] {
        let mut lane = [F::init(); W];
        combine_lanes::<T, F, W>(&mut lane, &self.own(i));
        lane
    }
    /// Joins `count` lanes, of at most so many.
    #[inline(always)]
    fn halve<const W: usize>(&mut self, lanes: usize, count: usize) {
        let mut half = lanes / 2;
        while half > 0 {
            for j in 0..half.min(count.saturating_sub(half)) {
                let [mut left, mut right] = [[F::init(); W]; 2];
                left.copy_from_slice(&self.lanes[j][..W]);
                right.copy_from_slice(&self.lanes[j + half][..W]);
                combine_lanes::<T, F, W>(&mut left, &right);
                self.lanes[j][..W].copy_from_slice(&left);
            }
            half /= 2;
        }
    }
}

/// What stands to the right joins.
#[inline(always)]
fn combine_lanes<T: Copy, F: Combine<T>, const W: usize>(left: &mut [T; W], right: &[T; W]) {
    for l in 0..W {
        left[l] = F::combine(left[l], right[l]);
    }
}
