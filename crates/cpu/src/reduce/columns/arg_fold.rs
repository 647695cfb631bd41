//! Column-wise argmax and argmin: the best of each row so far and its index are carried along in
//! lanes.
//!
//! How it can be wrong: among equal elements, zeros of both signs included, the first stays; the
//! first NaN wins and stays.

use super::layout::ColumnLayout;
use super::{RowLanes, RowLanesVec};
use crate::CpuDevice;
use crate::reduce::plan::thresholds::{
    ARG_FOLD_NS_PER_ELEMENT, HELD_ELEMENTS_OF_LONG_ROWS, MAX_CHUNKS_PER_TASK,
};
use crate::reduce::source::ReduceElement;
use crate::runtime::output::column_blocks::{BlockedMatrices, ColumnBlock, fill_column_blocks};
use crate::view::View;
use elinvar_core::{HostVec, Result, host};
use elinvar_ops::backend::ArgFold;
use elinvar_simd::isa::{Kernel, dispatch_formula};
use elinvar_simd::row_loop::TERM_CHUNK;

/// Rows whose best are in registers.
const ROWS_IN_REGISTERS: usize = 32;

/// The number of the first best element of each row.
pub(crate) fn arg_fold<T: ReduceElement + PartialOrd>(
    d: &CpuDevice,
    f: ArgFold,
    x: &View<'_>,
    layout: &ColumnLayout,
    chunks_per_task: usize,
    reads_in_place: bool,
) -> Result<HostVec<i64>> {
    let (grid, x) = (&layout.grid, &layout.operand::<T>("an index of an extreme", 0, x)?);
    let n = grid.n;
    let matrices = BlockedMatrices { width: chunks_per_task * TERM_CHUNK, ..grid.column_blocks(Some(1)) };
    fill_column_blocks(d, matrices, n as f64 * ARG_FOLD_NS_PER_ELEMENT, &|column_blocks| {
        let some = n.min(HELD_ELEMENTS_OF_LONG_ROWS);
        let mut places: Vec<isize> = host::filled(some, 0)?;
        let mut copied = RowLanesVec::new(if reads_in_place { 0 } else { some })?;
        let mut best = [[T::ZERO; TERM_CHUNK]; MAX_CHUNKS_PER_TASK];
        let mut found = [[0i32; TERM_CHUNK]; MAX_CHUNKS_PER_TASK];
        while let Some(column_block) = column_blocks.next() {
            let groups = (0..column_block.width).step_by(TERM_CHUNK).map(|at| {
                let (column, width) = (column_block.column + at, TERM_CHUNK.min(column_block.width - at));
                grid.group(ColumnBlock { column, width, ..column_block }, 1)
            });
            for start in (0..n).step_by(HELD_ELEMENTS_OF_LONG_ROWS) {
                let places = &mut places[..HELD_ELEMENTS_OF_LONG_ROWS.min(n - start)];
                if reads_in_place {
                    x.places(start, places);
                } else {
                    places.iter_mut().enumerate().for_each(|(i, place)| *place = (i * TERM_CHUNK) as isize);
                }
                for (group, (best, found)) in groups.clone().zip(best.iter_mut().zip(&mut found)) {
                    let (all, base) = match x.own {
                        Some(all) if reads_in_place => (all, x.base(group) as usize),
                        _ => {
                            x.read(d.isa(), group, start, &mut copied.all_mut()[..places.len()]);
                            (copied.all().as_flattened(), 0)
                        }
                    };
                    let (places, first) = (&*places, start as i32);
                    let find = ArgFoldStep { all, base, places, width: group.all, first, best, found };
                    match f {
                        ArgFold::Max => dispatch_formula::<T, _>(d.isa(), ArgMaxStep(find)),
                        ArgFold::Min => dispatch_formula::<T, _>(d.isa(), ArgMinStep(find)),
                    }
                }
            }
            column_blocks.row(|dst| {
                for (group, found) in groups.zip(&found) {
                    let own = group.own(found);
                    dst.extend(own.len(), |i| i64::from(own[i]));
                }
            });
        }
        Ok(())
    })
}

/// Some elements of rows side by side, of which the first is number `first`, to be compared with
/// the best before.
struct ArgFoldStep<'a, T> {
    all: &'a [T],
    /// Where the first row's first element lies, from there where its elements do, and how many
    /// rows there are.
    base: usize,
    places: &'a [isize],
    width: usize,
    first: i32,
    best: &'a mut RowLanes<T>,
    found: &'a mut RowLanes<i32>,
}

/// Which one is wanted.
struct ArgMaxStep<'a, T>(ArgFoldStep<'a, T>);
struct ArgMinStep<'a, T>(ArgFoldStep<'a, T>);

impl<T: ReduceElement + PartialOrd> Kernel for ArgMaxStep<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<true>();
    }
}

impl<T: ReduceElement + PartialOrd> Kernel for ArgMinStep<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<false>();
    }
}

impl<T: ReduceElement + PartialOrd> ArgFoldStep<'_, T> {
    #[inline(always)]
    fn run<const LARGEST: bool>(self) {
        for at in (0..self.width).step_by(ROWS_IN_REGISTERS) {
            let (mut best, mut found) = ([T::ZERO; ROWS_IN_REGISTERS], [0i32; ROWS_IN_REGISTERS]);
            let mut number = self.first;
            let mut places = self.places;
            if number == 0 {
                best = self.own(places[0], at);
                (number, places) = (1, &places[1..]);
            } else {
                best.copy_from_slice(&self.best[at..at + ROWS_IN_REGISTERS]);
                found.copy_from_slice(&self.found[at..at + ROWS_IN_REGISTERS]);
            }
            for &place in places {
                let x = self.own(place, at);
                for l in 0..ROWS_IN_REGISTERS {
                    let wins = wins::<T, LARGEST>(x[l], best[l]);
                    best[l] = if wins { x[l] } else { best[l] };
                    found[l] = if wins { number } else { found[l] };
                }
                number += 1;
            }
            self.best[at..at + ROWS_IN_REGISTERS].copy_from_slice(&best);
            self.found[at..at + ROWS_IN_REGISTERS].copy_from_slice(&found);
        }
    }
    /// Elements of some rows, from number `at` on.
    #[inline(always)]
    fn own(&self, place: isize, at: usize) -> [T; ROWS_IN_REGISTERS] {
        let from = self.base.wrapping_add_signed(place) + at;
        match self.all[from..].first_chunk::<ROWS_IN_REGISTERS>() {
            Some(all) => *all,
            None => {
                // What is behind the last rows is not theirs.
                let (mut all, some) = ([T::ZERO; ROWS_IN_REGISTERS], ROWS_IN_REGISTERS.min(self.width - at));
                all[..some].copy_from_slice(&self.all[from..from + some]);
                all
            }
        }
    }
}

/// Is `x` to be taken instead of the best so far?
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord, reason = "both are false for a NaN")]
#[inline(always)]
fn wins<T: PartialOrd + Copy, const LARGEST: bool>(x: T, best: T) -> bool {
    let stays = if LARGEST { x <= best } else { x >= best };
    !stays & (best == best)
}
