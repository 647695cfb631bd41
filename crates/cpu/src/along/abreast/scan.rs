//! Prefix sums and products of rows side by side.

use super::{FEW, Grid, HELD, Window, Windows};
use crate::CpuDevice;
use crate::View;
use crate::along::lanes::Combine;
use crate::along::stage::Number;
use crate::along::terms::WINDOW;
use crate::isa::{Kernel, dispatch};
use crate::simd::stripes::fresh_stripes;
use elinvar_core::order::{SCAN_BLOCK, SCAN_GROUP};
use elinvar_core::{HostVec, Result};
use elinvar_ops::backend::Placed;
use std::marker::PhantomData;

/// Rows whose groups are in registers at a time: one of f32 of AVX-512.
const COLUMNS: usize = 16;
type Columns<T> = [T; COLUMNS];
/// Nanoseconds for an element.
const NS: f64 = 0.3;

/// The scans along the last axis, if the rows had better go side by side.
pub(in crate::along) fn scan<T: Number, F: Combine<T>>(
    d: &CpuDevice,
    x: &View<'_>,
) -> Result<Option<Placed<HostVec<T>>>> {
    let rank = x.layout.rank();
    if rank == 0 {
        return Ok(None);
    }
    let Some((grid, lines)) = Grid::new::<T>("a scan", std::slice::from_ref(x), rank - 1, FEW)? else {
        return Ok(None);
    };
    let (n, width) = (grid.n, if grid.upright { 1 } else { grid.n });
    let buffer = fresh_stripes(d, grid.stripes(None), NS, &|stripes| {
        let mut held = Windows::new(n.min(HELD))?;
        while let Some(stripe) = stripes.next() {
            let group = grid.group(stripe, width);
            // The scanned last terms of the groups so far, and of the blocks.
            let (mut carry, mut offset) = ([F::neutral(); WINDOW], [F::neutral(); WINDOW]);
            for start in (0..n).step_by(HELD) {
                let x = &mut held.all_mut()[..HELD.min(n - start)];
                lines[0].read(d.isa(), group, start, x);
                dispatch(
                    d.isa(),
                    Groups { x, start, carry: &mut carry, offset: &mut offset, f: PhantomData::<F> },
                );
                group.write(&grid, x, stripes);
            }
        }
        Ok(())
    })?;
    Ok(Some(Placed { buffer, layout: grid.layout()? }))
}

/// Elements from number `start` on, which begins a group, scanned in place.
struct Groups<'a, T, F> {
    x: &'a mut [Window<T>],
    start: usize,
    carry: &'a mut Window<T>,
    offset: &'a mut Window<T>,
    f: PhantomData<F>,
}

impl<T: Copy, F: Combine<T>> Kernel for Groups<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let mut start = self.start;
        for x in self.x.chunks_mut(SCAN_GROUP) {
            let (is_first, has_offset) = (start.is_multiple_of(SCAN_BLOCK), start >= SCAN_BLOCK);
            for c in (0..WINDOW).step_by(COLUMNS) {
                let (carry, offset) = (&mut self.carry[c..c + COLUMNS], &mut self.offset[c..c + COLUMNS]);
                if is_first && has_offset {
                    for l in 0..COLUMNS {
                        offset[l] = F::two(offset[l], carry[l]);
                    }
                }
                let mut group = [[F::neutral(); COLUMNS]; SCAN_GROUP];
                for (group, x) in group.iter_mut().zip(&*x) {
                    group.copy_from_slice(&x[c..c + COLUMNS]);
                }
                step::<T, F, 1>(&mut group);
                step::<T, F, 2>(&mut group);
                step::<T, F, 4>(&mut group);
                step::<T, F, 8>(&mut group);
                let before = if is_first { [F::neutral(); COLUMNS] } else { copied(carry) };
                for (group, x) in group.iter_mut().zip(&mut *x) {
                    left::<T, F>(&before, group);
                    carry.copy_from_slice(group);
                    if has_offset {
                        left::<T, F>(&copied(offset), group);
                    }
                    x[c..c + COLUMNS].copy_from_slice(group);
                }
            }
            start += x.len();
        }
    }
}

/// What stands D places before is added. (A group that is in registers: of windows in memory the compiler does not see that they are apart.)
#[inline(always)]
fn step<T: Copy, F: Combine<T>, const D: usize>(x: &mut [Columns<T>; SCAN_GROUP]) {
    for i in (D..SCAN_GROUP).rev() {
        let before = x[i - D];
        left::<T, F>(&before, &mut x[i]);
    }
}

/// What stands on the left joins.
#[inline(always)]
fn left<T: Copy, F: Combine<T>>(left: &Columns<T>, x: &mut Columns<T>) {
    for l in 0..COLUMNS {
        x[l] = F::two(left[l], x[l]);
    }
}

#[inline(always)]
fn copied<T: Copy>(x: &[T]) -> Columns<T> {
    *x.first_chunk().expect("so many columns")
}
