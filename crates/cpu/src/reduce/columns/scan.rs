//! Prefix scans over strided rows, column-wise: one row per lane.

use super::layout::ColumnLayout;
use super::{RowLanes, RowLanesVec};
use crate::CpuDevice;
use crate::reduce::combine::Combine;
use crate::reduce::plan::thresholds::{MAX_HELD_ELEMENTS, SCAN_NS_PER_ELEMENT, SHORT_ROW_MAX_ELEMENTS};
use crate::reduce::source::ReduceElement;
use crate::runtime::output::column_blocks::fill_column_blocks;
use crate::view::View;
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Placed;
use elinvar_simd::isa::{Kernel, dispatch};
use elinvar_simd::row_loop::TERM_CHUNK;
use std::marker::PhantomData;

/// Numbers of a window that go together.
const PART_LANES: usize = 16;

/// The scans along the last axis.
pub(crate) fn scan<T: ReduceElement, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
    layout: &ColumnLayout,
) -> Result<Placed<HostVec<T>>> {
    let (grid, x) = (&layout.grid, layout.operand::<T>("a scan", 0, x)?);
    let (n, width) = (grid.n, if grid.upright { 1 } else { grid.n });
    let buffer = fill_column_blocks(d, grid.column_blocks(None), SCAN_NS_PER_ELEMENT, &|column_blocks| {
        let mut held = RowLanesVec::new(n.min(MAX_HELD_ELEMENTS).next_multiple_of(SHORT_ROW_MAX_ELEMENTS))?;
        while let Some(column_block) = column_blocks.next() {
            let group = grid.group(column_block, width);
            // The scanned last terms of the groups so far, and of the blocks.
            let (mut carry, mut offset) = ([F::neutral(); TERM_CHUNK], [F::neutral(); TERM_CHUNK]);
            for start in (0..n).step_by(MAX_HELD_ELEMENTS) {
                let held_rows = &mut held.all_mut()[..MAX_HELD_ELEMENTS.min(n - start)];
                x.read(d.isa(), group, start, held_rows);
                dispatch(
                    d.isa(),
                    ScanGroups {
                        x: held_rows,
                        start,
                        carry: &mut carry,
                        offset: &mut offset,
                        f: PhantomData::<F>,
                    },
                );
                group.write(d.isa(), grid, held.all(), MAX_HELD_ELEMENTS.min(n - start), column_blocks);
            }
        }
        Ok(())
    })?;
    Ok(Placed { buffer, layout: grid.layout()? })
}

/// Elements from number `start` on, which begins a group, scanned in place.
struct ScanGroups<'a, T, F> {
    x: &'a mut [RowLanes<T>],
    start: usize,
    carry: &'a mut RowLanes<T>,
    offset: &'a mut RowLanes<T>,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for ScanGroups<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut start = self.start;
        for x in self.x.chunks_mut(SCAN_GROUP) {
            let (is_first, has_offset) = (start.is_multiple_of(SCAN_BLOCK), start >= SCAN_BLOCK);
            // Log-steps: what stands d places before is added, for d = 1, 2, 4, 8.
            let mut d = 1;
            while d < x.len() {
                for i in (d..x.len()).rev() {
                    let (before, after) = x.split_at_mut(i);
                    join::<T, F>(&before[i - d], &mut after[0]);
                }
                d *= 2;
            }
            if is_first && has_offset {
                join::<T, F>(self.offset, self.carry);
                self.offset.copy_from_slice(self.carry);
            }
            // What changes nothing is left out.
            if !is_first {
                for x in x.iter_mut() {
                    join::<T, F>(self.carry, x);
                }
            }
            self.carry.copy_from_slice(x.last().expect("groups are not empty"));
            if has_offset {
                for x in x.iter_mut() {
                    join::<T, F>(self.offset, x);
                }
            }
            start += x.len();
        }
    }
}

/// What stands on the left joins a window: part by part, each in registers. (Of windows in memory
/// the compiler does not see that they are apart.)
#[inline(always)]
fn join<T: Copy, F: Combine<T>>(left: &RowLanes<T>, x: &mut RowLanes<T>) {
    for (left, x) in left.as_chunks::<PART_LANES>().0.iter().zip(x.as_chunks_mut::<PART_LANES>().0) {
        let mut both = *x;
        for l in 0..PART_LANES {
            both[l] = F::combine(left[l], both[l]);
        }
        *x = both;
    }
}
